//! Scenario files: turns that a user scripts in TOML. `docs/scenarios.md` describes the format.
//! This module knows no rules and no protocol.

use crate::history::Choice;
use crate::json::Json;
use crate::scenario::RequestView;
use crate::turn::{Fault, Part, Stop, Turn};
use serde::Deserialize;
use std::path::Path;

/// The maximum size of a scenario file, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// A scripted scenario.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    steps: Vec<ScriptStep>,
}

#[derive(Clone, Debug)]
struct ScriptStep {
    when: Condition,
    /// The number of requests that the step answers; `None` for all that follow.
    times: Option<u64>,
    turn: Turn,
}

impl Script {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// Returns an error that names the file and, for an error in it, the line, the key and what is
    /// allowed.
    pub fn load_file(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let size = std::fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?.len();
        if size > MAX_FILE {
            return Err(format!("{shown}: {size} bytes; a scenario file has at most {MAX_FILE}"));
        }
        let text = std::fs::read_to_string(path).map_err(|e| format!("{shown}: {e}"))?;
        Self::parse_toml(&shown.to_string(), &text)
    }

    /// Parses the text of a scenario file. Errors refer to it as `file`.
    ///
    /// # Errors
    /// As for [`Script::load_file`].
    pub fn parse_toml(file: &str, text: &str) -> Result<Self, String> {
        let raw: ScriptFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format_error(file, text, at, error.message())
        })?;
        let steps = raw
            .turn
            .into_iter()
            .map(|step| {
                let at = step.span().start;
                step.into_inner().into_step().map_err(|wrong| format_error(file, text, at, &wrong))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Err(format!("{file}: no turn; a scenario file has at least one [[turn]]"));
        }
        let name = raw.name.unwrap_or_else(|| file.to_owned());
        Ok(Self { name, steps })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn choose_turn(&self, view: &RequestView<'_>) -> Turn {
        let met = |when: Condition| match when {
            Condition::Always => false,
            Condition::Limit => view.told,
            Condition::None => view.choice == Choice::None,
            Condition::Forced => matches!(view.choice, Choice::Tool(_)),
            Condition::Nudged => view.nudged,
        };
        if let Some(step) = self.steps.iter().find(|step| met(step.when)) {
            return step.turn.clone();
        }
        let mut left = view.attempt;
        for step in self.steps.iter().filter(|step| step.when == Condition::Always) {
            match step.times {
                Some(times) if left >= times => left -= times,
                _ => return step.turn.clone(),
            }
        }
        view.answer_with("The script ends here.")
    }
}

/// Formats an error as `FILE:LINE: key `KEY`: MESSAGE`.
fn format_error(file: &str, text: &str, at: usize, wrong: &str) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let here = text.lines().nth(line - 1).unwrap_or("");
    let key = here.split_once('=').map(|(key, _)| format!(" key `{}`:", key.trim()));
    format!("{file}:{line}:{} {}", key.unwrap_or_default(), wrong.trim().replace('\n', " "))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    name: Option<String>,
    #[serde(default)]
    turn: Vec<toml::Spanned<RawTurn>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Condition {
    #[default]
    Always,
    Limit,
    None,
    Forced,
    Nudged,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a whole number of 1 or more, or \"forever\"")]
enum Repeat {
    Times(u64),
    Word(Forever),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Forever {
    Forever,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawStop {
    EndTurn,
    ToolUse,
    MaxTokens,
    PauseTurn,
    Refusal,
    ModelContextWindowExceeded,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    #[serde(default)]
    when: Condition,
    repeat: Option<Repeat>,
    thinking: Option<String>,
    text: Option<String>,
    #[serde(default)]
    call: Vec<RawCall>,
    stop: Option<RawStop>,
    error: Option<u16>,
    retry_after: Option<u64>,
    error_event_after: Option<usize>,
    cut_after: Option<usize>,
    #[serde(default)]
    first_delay_ms: u64,
    #[serde(default)]
    delta_delay_ms: u64,
    #[serde(default)]
    lawless: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: String,
    id: Option<String>,
    input: Option<toml::Table>,
    raw: Option<String>,
}

impl RawTurn {
    fn into_step(self) -> Result<ScriptStep, String> {
        let times = match self.repeat {
            Some(Repeat::Times(0)) => return Err("`repeat` is 1 or more, or \"forever\"".into()),
            Some(Repeat::Times(times)) => Some(times),
            Some(Repeat::Word(Forever::Forever)) => None,
            None => Some(1),
        };
        let fault = self.read_fault()?;
        let mut parts: Vec<Part> = self.thinking.map(Part::Thinking).into_iter().collect();
        parts.extend(self.text.map(Part::Text));
        for call in self.call {
            parts.push(call.into_part()?);
        }
        let stop = self.stop.map(|stop| match stop {
            RawStop::EndTurn => Stop::EndTurn,
            RawStop::ToolUse => Stop::ToolUse,
            RawStop::MaxTokens => Stop::MaxTokens,
            RawStop::PauseTurn => Stop::PauseTurn,
            RawStop::Refusal => Stop::Refusal,
            RawStop::ModelContextWindowExceeded => Stop::ContextWindow,
        });
        let (first_delay_ms, delta_delay_ms) = (self.first_delay_ms, self.delta_delay_ms);
        let turn =
            Turn { parts, stop, fault, first_delay_ms, delta_delay_ms, lawless: self.lawless };
        Ok(ScriptStep { when: self.when, times, turn })
    }

    fn read_fault(&self) -> Result<Option<Fault>, String> {
        if self.retry_after.is_some() && self.error.is_none() {
            return Err("`retry_after` needs `error`".into());
        }
        match (self.error, self.error_event_after, self.cut_after) {
            (None, None, None) => Ok(None),
            (Some(status), None, None) if (400..600).contains(&status) => {
                Ok(Some(Fault::Http { status, retry_after: self.retry_after }))
            }
            (Some(status), None, None) => {
                Err(format!("`error` is {status}; allowed is a status from 400 to 599"))
            }
            (None, Some(after), None) => Ok(Some(Fault::ErrorEvent { after })),
            (None, None, Some(after)) => Ok(Some(Fault::Cut { after })),
            _ => Err("a turn has one of `error`, `error_event_after`, `cut_after`".into()),
        }
    }
}

impl RawCall {
    fn into_part(self) -> Result<Part, String> {
        let input = match (self.input, self.raw) {
            (Some(_), Some(_)) => return Err("a call has `input` or `raw`, not both".into()),
            (None, Some(raw)) => raw,
            (Some(table), None) => json_from_toml(toml::Value::Table(table)).to_text(),
            (None, None) => "{}".to_owned(),
        };
        Ok(Part::Tool { id: self.id, name: self.tool, input })
    }
}

fn json_from_toml(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => Json::Str(text),
        toml::Value::Integer(n) => Json::Int(i128::from(n)),
        toml::Value::Float(x) => Json::Float(x),
        toml::Value::Boolean(b) => Json::Bool(b),
        toml::Value::Datetime(when) => Json::Str(when.to_string()),
        toml::Value::Array(items) => Json::List(items.into_iter().map(json_from_toml).collect()),
        toml::Value::Table(table) => {
            Json::Map(table.into_iter().map(|(key, value)| (key, json_from_toml(value))).collect())
        }
    }
}
