//! The errand that the tests run: 20 calls in eight rounds, alone and in parallel, of one tool that
//! may be run again and one that may not. The answer is made of their results.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use softland_agent::http::{Request, Response, ResponseHead, Transport, TransportError};
use softland_agent::journal::{JournalErrorKind, JournalSummary, new_run_id};
use softland_agent::{
    Agent, Conversation, Event, Journal, Report, RunJournal, Tool, ToolContext, ToolDef,
    ToolOutput, ToolSet,
};
use softland_sim::{Body, Config, Part, Piece, Scenario, Sim, Turn};
use tokio_util::sync::CancellationToken;

/// The calls, round by round: `n` may not be run again, `p` may.
const ROUNDS: [&str; 8] = ["npn", "p", "n", "nnpp", "n", "pnpnn", "p", "npnp"];

/// The number of calls.
pub(crate) const CALLS: usize = 20;

/// A model that makes the errand's calls. It reads its position from the conversation alone, so
/// that another process meets the same model.
pub(crate) struct Model {
    pub(crate) requests: AtomicU64,
    /// Milliseconds that an answer takes.
    delay: u64,
}

impl Model {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { requests: AtomicU64::new(0), delay: 0 })
    }
}

/// The keys of a round's calls, such as `n4`.
fn keys(round: usize) -> Vec<String> {
    let before: usize = ROUNDS[..round].iter().map(|calls| calls.len()).sum();
    let numbered = ROUNDS[round].chars().zip(before..);
    numbered.map(|(tool, number)| format!("{tool}{number}")).collect()
}

/// The keys of all calls.
pub(crate) fn all_keys() -> Vec<String> {
    (0..ROUNDS.len()).flat_map(keys).collect()
}

fn turn(messages: &[Value]) -> Turn {
    let results: Vec<&Value> = messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .collect();
    let rounds =
        messages.iter().filter(|message| message["content"][0]["type"] == "tool_result").count();
    if rounds < ROUNDS.len() {
        let call = |key: &String| {
            let tool = if key.starts_with('n') { "note" } else { "peek" };
            Part::tool_call(tool, json!({"key": key}).to_string())
        };
        let mut parts = vec![Part::text(format!("Round {rounds} of the errand."))];
        parts.extend(keys(rounds).iter().map(call));
        return Turn::from_parts(parts);
    }
    let text = |result: &&Value| match &result["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap().to_owned(),
    };
    let said: Vec<String> = results.iter().map(text).collect();
    Turn::from_text(format!("It came to this: {}", said.join("; ")))
}

#[async_trait]
impl Transport for Model {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(self.delay)).await;
        Ok(answered(&request, &body, turn(body["messages"].as_array().unwrap())))
    }
}

/// Returns the response of the simulated provider that answers a request with this turn.
pub(crate) fn answered(request: &Request, body: &Value, turn: Turn) -> Response {
    let mut config = Config::new(Scenario::Scripted(vec![turn]));
    config.seed = body["messages"].as_array().unwrap().len() as u64;
    config.piece_bytes = Some(97);
    let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let asked = softland_sim::Request {
        method: "POST",
        path: request.path,
        headers: &headers,
        body: &request.body,
    };
    let response = Sim::new(config).respond(0, &asked);
    let content_type = response.header("content-type").map(str::to_owned);
    let head = ResponseHead { content_type, ..ResponseHead::default() };
    let pieces: Vec<_> = match response.body {
        Body::Whole { bytes, .. } => vec![Ok(bytes.into())],
        Body::Stream(chunks) => chunks
            .into_iter()
            .filter_map(|chunk| match chunk.piece {
                Piece::Bytes(bytes) => Some(Ok(bytes.into())),
                Piece::Cut => None,
            })
            .collect(),
    };
    let body = futures_util::stream::iter(pieces).boxed();
    Response { status: response.status, head, body }
}

/// A tool that adds a line to a file on every run. The file outlives the process.
struct Errand {
    name: &'static str,
    folder: PathBuf,
}

#[async_trait]
impl Tool for Errand {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: self.name.to_owned(),
            description: "does a part of the errand".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"key": {"type": "string"}},
                "required": ["key"],
            }),
            reads: self.name == "peek",
            repeatable: self.name == "peek",
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let key = input["key"].as_str().unwrap();
        let path = self.folder.join("ran");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{key}\n").as_bytes()).unwrap();
        ToolOutput::ok(format!("{key} is done"))
    }
}

/// The errand's tools.
pub(crate) fn tools(folder: &Path) -> ToolSet {
    let mut tools = ToolSet::new();
    for name in ["note", "peek"] {
        tools.add_tool(Arc::new(Errand { name, folder: folder.to_owned() })).unwrap();
    }
    tools
}

/// Returns how often each call was run, over all processes.
pub(crate) fn ran(folder: &Path) -> BTreeMap<String, usize> {
    let mut ran = BTreeMap::new();
    for key in std::fs::read_to_string(folder.join("ran")).unwrap_or_default().lines() {
        *ran.entry(key.to_owned()).or_default() += 1;
    }
    ran
}

/// The agent that runs it.
pub(crate) fn agent(folder: &Path, model: &Arc<Model>) -> Agent {
    let mut agent = Agent::new(
        "errand",
        "anthropic/claude-sonnet-5-5",
        Arc::clone(model) as Arc<dyn Transport>,
    );
    agent.system = "Do the errand.".to_owned();
    agent.tools = tools(folder);
    agent.policy.tool_calls_limit = Some(40);
    agent
}

/// The result of a run.
pub(crate) struct Came {
    pub(crate) report: Report,
    pub(crate) events: Vec<Event>,
    pub(crate) conversation: Conversation,
}

impl Came {
    pub(crate) fn messages(&self) -> Vec<String> {
        self.conversation.messages().map(|m| String::from_utf8(m.to_vec()).unwrap()).collect()
    }

    /// Returns the events without the parts that differ between two runs: times, durations, run
    /// ids.
    pub(crate) fn told(&self) -> Vec<Value> {
        let bare = |event: &Event| {
            let mut event = serde_json::to_value(event).unwrap();
            for member in ["ts", "ms", "run"] {
                event.as_object_mut().unwrap().remove(member);
            }
            event
        };
        self.events.iter().map(bare).collect()
    }
}

pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("journal.ndjson")
}

/// Creates or opens the journal of the folder. A run that did not begin has left none.
pub(crate) fn journal(folder: &Path) -> Journal {
    let path = path(folder);
    match std::fs::metadata(&path) {
        Ok(file) if file.len() > 0 && JournalSummary::from_path(&path).is_ok() => opened(&path),
        _ => {
            let _ = std::fs::remove_file(&path);
            Journal::create(&path).unwrap()
        }
    }
}

/// A process that another test is starting holds our files open until it executes its program.
fn opened(path: &Path) -> Journal {
    let began = std::time::Instant::now();
    loop {
        match Journal::open(path) {
            Err(error) if *error.kind() == JournalErrorKind::InUse => {
                let waited = began.elapsed().as_secs();
                assert!(waited < 60, "{} stays in use", path.display());
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            journal => return journal.unwrap(),
        }
    }
}

/// Begins the errand, or resumes it.
pub(crate) async fn run(agent: &Agent, journal: &RunJournal) -> Came {
    let (mut conversation, mut events) = (Conversation::new(), Vec::new());
    let mut hear = |event: &Event| events.push(event.clone());
    let cancel = CancellationToken::new();
    let report =
        agent.run_in_journal(journal, &mut conversation, "Go.", &mut hear, &cancel).await.unwrap();
    Came { report, events, conversation }
}

/// Runs the whole errand in one process.
pub(crate) async fn whole(folder: &Path) -> Came {
    let journal = journal(folder).root_run(&new_run_id());
    run(&agent(folder, &Model::new()), &journal).await
}

/// Returns the lines of the folder's journal.
pub(crate) fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path(folder)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
