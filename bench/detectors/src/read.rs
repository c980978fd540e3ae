//! Message arrays in OpenAI's form, with labels beside them, as sessions to play.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;
use softland_session::core::ToolResult;
use softland_session::read_result;

/// One recorded session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) model: String,
    /// Where it comes from, in the source's words.
    pub(crate) origin: String,
    /// Whether the task was done; `None` where nobody says.
    pub(crate) good: Option<bool>,
    pub(crate) messages: Vec<Message>,
}

/// One message.
#[derive(Debug)]
pub(crate) enum Message {
    User(String),
    Results(Vec<Answer>),
    Model(Turn),
}

/// A turn of the model.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
}

/// One result.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) text: String,
    /// What the rules need of it, but for the id.
    pub(crate) read: ToolResult<'static>,
}

impl Session {
    /// Turns of the model.
    pub(crate) fn turns(&self) -> usize {
        self.messages.iter().filter(|m| matches!(m, Message::Model(_))).count()
    }

    /// Tokens of each turn, the input sent anew with it included: characters / 4, since most
    /// sources record none.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        let (mut context, mut tokens) = (0, Vec::new());
        for message in &self.messages {
            context += message.chars();
            if matches!(message, Message::Model(_)) {
                tokens.push(context / 4);
            }
        }
        tokens
    }
}

impl Message {
    fn chars(&self) -> u64 {
        let bytes = match self {
            Self::User(text) => text.len(),
            Self::Results(answers) => answers.iter().map(|answer| answer.text.len()).sum(),
            Self::Model(turn) => {
                let calls = turn.calls.iter().map(|call| call.name.len() + call.input.len());
                turn.text.len() + calls.sum::<usize>()
            }
        };
        bytes as u64
    }
}

/// Every session of a folder that convert.py and sessions.py have written.
pub(crate) fn folder(folder: &Path) -> Result<Vec<Session>, String> {
    let labels = folder.join("labels.json");
    let labels = fs::read(&labels).map_err(|error| format!("{}: {error}", labels.display()))?;
    let labels: Value = serde_json::from_slice(&labels).map_err(|error| error.to_string())?;
    let mut paths = BTreeMap::new();
    for entry in fs::read_dir(folder.join("messages")).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        paths.extend(name.map(|name| (name, path)));
    }
    let mut sessions = Vec::new();
    for (name, path) in paths {
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| format!("{}: {error}", path.display()))?;
            let value: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            sessions.push(session(&name, &value, &labels));
        }
    }
    Ok(sessions)
}

fn session(folder: &str, value: &Value, labels: &Value) -> Session {
    let id = string(value, "id");
    let label = labels.get(folder).and_then(|source| source.get(&id));
    let sub = label.map_or_else(String::new, |label| string(label, "sub"));
    let source = match folder {
        "intercode" => format!("InterCode {sub}"),
        "tau" => "tau-bench".to_owned(),
        "tau2" => sub,
        _ => folder.to_owned(),
    };
    Session {
        id,
        source,
        model: string(value, "model"),
        origin: label.map_or_else(String::new, |label| string(label, "origin")),
        good: label.and_then(|label| label.get("ok")).and_then(Value::as_bool),
        messages: messages(list(value, "messages")),
    }
}

fn messages(list: &[Value]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for value in list {
        let text = string(value, "content");
        match string(value, "role").as_str() {
            "assistant" => {
                let calls = list_of_calls(value);
                messages.push(Message::Model(Turn { text, calls }));
            }
            "tool" => {
                let is_error = value.get("is_error").and_then(Value::as_bool);
                let read = read_result(&text, is_error.unwrap_or(false));
                let answer = Answer { id: string(value, "tool_call_id"), text, read };
                match messages.last_mut() {
                    Some(Message::Results(answers)) => answers.push(answer),
                    _ => messages.push(Message::Results(vec![answer])),
                }
            }
            "user" => messages.push(Message::User(text)),
            _ => {}
        }
    }
    messages
}

fn list_of_calls(value: &Value) -> Vec<Call> {
    let calls = list(value, "tool_calls").iter();
    calls
        .filter_map(|call| {
            let function = call.get("function")?;
            Some(Call {
                id: string(call, "id"),
                name: string(function, "name"),
                input: string(function, "arguments"),
            })
        })
        .collect()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
