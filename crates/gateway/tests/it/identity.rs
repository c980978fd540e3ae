//! The identity of requests: what real clients sent in each protocol, replayed through a gateway,
//! and unrelated clients that happen to send the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::client::{APIS, Client};
use crate::support::reading::read;
use crate::support::script::{Form, whole};
use crate::support::sim::governed;
use crate::support::{Message, Provider, Running};
use serde_json::{Value, json};
use softland_gateway::Prices;
use softland_session::core::models::Price;
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// Recorded requests of real clients, beside the checkout where they are at hand.
fn recordings() -> PathBuf {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/clients"));
    assert!(folder.is_dir(), "there are no recordings at {folder:?}");
    folder.to_owned()
}

/// One recorded request.
struct Recorded {
    name: String,
    api: Api,
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl Recorded {
    /// Its history; a question alone is a message of the user's.
    fn history(&self) -> Vec<Value> {
        let history = if self.api == Api::Responses { "input" } else { "messages" };
        match &self.body[history] {
            Value::String(text) => vec![json!({"role": "user", "content": text})],
            messages => messages.as_array().unwrap().clone(),
        }
    }

    /// The turns of the model in it, as blocks.
    fn turns(&self) -> Vec<Vec<Value>> {
        let (mut turns, mut speaking) = (Vec::<Vec<Value>>::new(), false);
        for message in self.history() {
            let blocks = said(&message);
            // The items of a turn follow one another; a message is one turn.
            let goes_on = speaking && self.api == Api::Responses;
            speaking = blocks.is_some();
            match (blocks, turns.last_mut().filter(|_| goes_on)) {
                (Some(more), Some(turn)) => turn.extend(more),
                (Some(blocks), None) => turns.push(blocks),
                (None, _) => {}
            }
        }
        turns
    }

    /// Returns the user's first message, whatever marks it has.
    fn first(&self) -> Vec<String> {
        let history = self.history();
        texts(history.iter().find(|message| message["role"] == "user").unwrap())
    }
}

/// Returns the model's part of a message or an item, as blocks; `None` if it is not the model's.
fn said(message: &Value) -> Option<Vec<Value>> {
    let call = |id: &Value, name: &Value, arguments: &Value| {
        let input: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    };
    if message["type"] == "function_call" {
        let call = call(&message["call_id"], &message["name"], &message["arguments"]);
        return Some(vec![call]);
    }
    if message["role"] != "assistant" {
        return None;
    }
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|c| call(&c["id"], &c["function"]["name"], &c["function"]["arguments"]));
    let blocks = match &message["content"] {
        Value::Array(blocks) if blocks.iter().all(|block| block["type"] != "output_text") => {
            blocks.clone()
        }
        _ => texts(message).into_iter().map(|t| json!({"type": "text", "text": t})).collect(),
    };
    Some(blocks.into_iter().chain(calls).collect())
}

fn recorded(folder: &Path) -> Vec<Recorded> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let all = files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        let value: Value = serde_json::from_str(&text).ok()?;
        let path = value["path"].as_str()?.to_owned();
        let api = match path.split('?').next()? {
            "/v1/messages" => Api::Anthropic,
            "/v1/chat/completions" => Api::Chat,
            "/v1/responses" => Api::Responses,
            _ => return None,
        };
        let headers = value["headers"].as_array()?.iter();
        let pair = |at: &Value, n: usize| at[n].as_str().unwrap_or_default().to_owned();
        Some(Recorded {
            api,
            name: file.file_stem().unwrap().to_string_lossy().into_owned(),
            headers: headers.map(|header| (pair(header, 0), pair(header, 1))).collect(),
            body: value["body"].clone(),
            path,
        })
    });
    all.collect()
}

/// A provider that says what it is told to say next.
async fn told() -> (Provider, Arc<Mutex<Vec<Value>>>) {
    let next = Arc::new(Mutex::new(Vec::new()));
    let says = Arc::clone(&next);
    let provider = Provider::does(move |asked, wire| {
        let blocks: Vec<Value> = says.lock().unwrap().clone();
        async move {
            let called = blocks.iter().any(|block| block["type"] == "tool_use");
            let stop = if called { "tool_use" } else { "end_turn" };
            wire.lock().await.send(whole(Form::of(&asked), &blocks, stop)).await;
            true
        }
    })
    .await;
    (provider, next)
}

/// Returns the turn that the client took for the answer: the one behind the request in the next
/// history.
fn answer_to(requests: &[Recorded], n: usize) -> Vec<Value> {
    let request = &requests[n];
    let turns = request.turns().len();
    let mut later = requests.iter().skip(n + 1).filter(|later| later.first() == request.first());
    let turn = later.find_map(|later| later.turns().get(turns).cloned());
    turn.unwrap_or_else(|| vec![json!({"type": "text", "text": "FINAL: it is done."})])
}

/// A message's texts, whatever their marks.
fn texts(message: &Value) -> Vec<String> {
    match &message["content"] {
        Value::String(text) => vec![text.clone()],
        blocks => {
            let blocks = blocks.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
        }
    }
}

async fn send(gateway: &Running, request: &Recorded) -> Message {
    let own = |name: &str| {
        ["host", "content-length", "connection", "transfer-encoding", "accept-encoding"]
            .iter()
            .any(|taken| name.eq_ignore_ascii_case(taken))
    };
    let headers = request.headers.iter().filter(|(name, _)| !own(name));
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let line = format!("POST {}", request.path);
    gateway.ask(gateway.request(&line, &headers, &request.body.to_string())).await
}

/// Replays a folder: for each request its run, as a letter in order of appearance, and the tool
/// calls that were counted; `metered` where it belongs to no run, `400` where it was refused.
async fn replayed(folder: &Path) -> Vec<String> {
    let (provider, next) = told().await;
    let keys = [("tool_calls_limit", Key::Int(100)), ("cost_limit_usd", Key::Float(100.0))];
    let mut settings = governed(&provider.url(), &keys);
    let price = Price {
        input: 1_000_000,
        output: 1_000_000,
        cache_read: 0,
        cache_write_5m: 0,
        cache_write_1h: 0,
    };
    settings.prices =
        Prices::new(["fake-model", "fake-small"].map(|name| (name.to_owned(), price)).to_vec());
    let gateway = Running::with(settings).await;
    let requests = recorded(folder);
    assert!(!requests.is_empty(), "{}", folder.display());
    let mut runs: Vec<String> = Vec::new();
    let mut told = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        *next.lock().unwrap() = answer_to(&requests, n);
        let message = send(&gateway, request).await;
        if message.status() != 200 {
            told.push(format!("{} {}", request.name, message.status()));
            continue;
        }
        read(&message);
        let calls = message.header("x-softland-tool-calls").map(str::to_owned);
        let Some(run) = message.header("x-softland-run").map(str::to_owned) else {
            assert_eq!(calls, None, "{}", request.name);
            told.push(format!("{} metered", request.name));
            continue;
        };
        let calls = calls.unwrap();
        let at = runs.iter().position(|known| *known == run).unwrap_or(runs.len());
        if at == runs.len() {
            runs.push(run);
        }
        told.push(format!("{} {} {calls}", request.name, char::from(b'A' + at as u8)));
    }
    told
}

/// For each folder: which requests are one run, and the calls counted before each.
const EXPECTED: &[(&str, &[&str])] = &[
    ("ai-sdk-anthropic", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("ai-sdk-compatible", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("ai-sdk-openai", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("ai-sdk7-anthropic", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("ai-sdk7-compatible", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("ai-sdk7-openai", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    // It has no tools.
    ("aider", &["01 metered", "02 metered"]),
    // The user's id in its metadata is no session.
    ("anthropic-python-loop", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    // It is told to send everything, and does in the next folder.
    ("anthropic-python-tool_runner", &["01 400", "02 400"]),
    ("anthropic-tool_runner-unthreaded", &["01 400", "02 A 0/100", "03 A 1/100", "04 A 2/100"]),
    ("claude-agent-sdk", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("claude-code", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("claude-code-2.1.197", &["02 A 0/100", "03 A 1/100", "04 A 2/100"]),
    // A further prompt of the same session, and a fork of it: runs of their own.
    ("claude-code-resume", &["01 A 0/100", "02 A 1/100", "03 B 0/100", "04 C 0/100"]),
    // Its sub-agent is 02 to 04.
    (
        "claude-code-subagent",
        &["01 A 0/100", "02 B 0/100", "03 B 1/100", "04 B 2/100", "05 A 1/100", "06 A 2/100"],
    ),
    ("codex", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("codex-hdr", &["01 A 0/100", "02 A 1/100"]),
    // Its sub-agent is 03 to 05; the last is told what that found.
    (
        "codex-subagent",
        &["01 A 0/100", "02 A 1/100", "03 B 0/100", "04 B 1/100", "05 B 2/100", "06 A 2/100"],
    ),
    ("langchain-anthropic", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("langchain-openai", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("openai-agents-chat", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("openai-agents-responses", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("openai-python-chat", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    ("openai-python-responses", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    // A title, without tools.
    ("opencode-anthropic", &["01 metered", "02 A 0/100", "03 A 1/100", "04 A 2/100"]),
    ("opencode-openai", &["01 metered", "02 A 0/100", "03 A 1/100", "04 A 2/100"]),
    // Its sub-agent is 03 to 05.
    (
        "opencode-subagent",
        &[
            "01 metered",
            "02 A 0/100",
            "03 B 0/100",
            "04 B 1/100",
            "05 B 2/100",
            "06 A 1/100",
            "07 A 2/100",
        ],
    ),
    ("pydantic-ai-openai", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    // The last is a validation retry: nobody asks, though the run had its answer and was told to
    // have ended, so that it goes on under another name.
    ("pydantic-ai-anthropic-structured", &["01 A 0/100", "02 A 1/100", "03 A 2/100", "04 B 2/100"]),
];

#[tokio::test]
#[ignore = "reads recordings from ../shared"]
async fn recorded_clients_are_told_apart() {
    let folder = recordings();
    for (client, expected) in EXPECTED {
        let got = replayed(&folder.join(client)).await;
        assert_eq!(got, *expected, "{client}");
    }
    // None of the recordings is left out.
    let mut left_out = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let listed = EXPECTED.iter().any(|(known, _)| *known == name);
        if path.is_dir() && !listed && !recorded(&path).is_empty() {
            left_out.push(name);
        }
    }
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// A provider that gives each call an id of its own, and then answers.
async fn working() -> Provider {
    calling(|n| format!("toolu_{n:08}abcd")).await
}

/// A provider that calls by these ids, three times, and then answers.
async fn calling(id: impl Fn(usize) -> String + Send + Sync + 'static) -> Provider {
    let count = AtomicUsize::new(0);
    Provider::does(move |asked, wire| {
        let id = id(count.fetch_add(1, Ordering::SeqCst));
        async move {
            let form = Form::of(&asked);
            let result = match form.api {
                Api::Anthropic => "tool_result",
                Api::Chat => "tool_call_id",
                Api::Responses => "function_call_output",
            };
            let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}});
            let text = json!({"type": "text", "text": "It is done, and this is the answer."});
            let greets = asked.text().contains(r#""content":"hi""#);
            let calls = asked.text().matches(result).count() < 3 && !greets;
            let (block, stop) = if calls { (call, "tool_use") } else { (text, "end_turn") };
            wire.lock().await.send(whole(form, &[block], stop)).await;
            true
        }
    })
    .await
}

fn run_of(message: &Message) -> String {
    message.header("x-softland-run").unwrap_or_else(|| panic!("{message:?}")).to_owned()
}

#[tokio::test]
async fn strangers_who_ask_the_same_are_strangers() {
    for api in APIS {
        let provider = working().await;
        let gateway = Running::with(governed(&provider.url(), &[])).await;
        let (mut one, mut other) = (Client::on(api, true), Client::on(api, true));
        let mut runs = (Vec::new(), Vec::new());
        for _ in 0..3 {
            runs.0.push(run_of(&one.turn(&gateway).await.0));
            runs.1.push(run_of(&other.turn(&gateway).await.0));
        }
        assert!(runs.0.iter().all(|run| *run == runs.0[0]), "{api:?}: {runs:?}");
        assert!(runs.1.iter().all(|run| *run == runs.1[0]), "{api:?}: {runs:?}");
        assert_ne!(runs.0[0], runs.1[0]);
    }
}

#[tokio::test]
async fn strangers_who_are_told_the_same_are_strangers() {
    for api in APIS {
        let provider = working().await;
        let keys = [("cost_limit_usd", Key::Float(5.0))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let mut strangers =
            [Client::on(api, true).asking("hi"), Client::on(api, true).asking("hi")];
        for stranger in &mut strangers {
            stranger.turn(&gateway).await;
        }
        let mut runs = Vec::new();
        for stranger in &mut strangers {
            stranger.says("And now the same of both of us.");
            runs.push(run_of(&stranger.turn(&gateway).await.0));
        }
        assert_ne!(runs[0], runs[1], "an answer without a call tells nobody from anybody");
    }
}

/// Tests and evaluations do: what was asked and answered before, word for word, is had again, one
/// after another and side by side.
#[tokio::test]
async fn a_conversation_that_is_had_again_is_one_run_of_its_own() {
    for api in APIS {
        let provider = calling(|_| "call_0".to_owned()).await;
        let gateway = Running::with(governed(&provider.url(), &[])).await;
        let mut runs = Vec::new();
        for _ in 0..2 {
            let mut pair = [Client::on(api, true), Client::on(api, true)];
            let mut seen = [Vec::new(), Vec::new()];
            for _ in 0..3 {
                for (client, seen) in pair.iter_mut().zip(&mut seen) {
                    seen.push(run_of(&client.turn(&gateway).await.0));
                }
            }
            runs.extend(seen);
        }
        for run in &runs {
            assert!(run.iter().all(|id| *id == run[0]), "{api:?}: {runs:?}");
        }
        let distinct: BTreeSet<_> = runs.iter().map(|run| &run[0]).collect();
        assert_eq!(distinct.len(), 4, "{api:?}: {runs:?}");
    }
}

#[tokio::test]
async fn an_empty_name_is_nobodys() {
    for api in APIS {
        let provider = working().await;
        let gateway = Running::with(governed(&provider.url(), &[])).await;
        let empty =
            || Client::on(api, true).with("x-claude-code-session-id: ").with("x-session-id:  ");
        let (one, other) = (empty().post(&gateway).await, empty().post(&gateway).await);
        assert_ne!(run_of(&one), run_of(&other));
    }
}

/// Names that a client gives, in a header.
#[tokio::test]
async fn conversations_under_one_name_are_runs_of_their_own() {
    for api in APIS {
        let provider = working().await;
        let gateway = Running::with(governed(&provider.url(), &[])).await;
        for header in ["x-softland-session: s", "x-softland-run: r"] {
            let mut one = Client::on(api, true).with(header).asking("one");
            let mut other = Client::on(api, true).with(header).asking("other");
            let first =
                (run_of(&one.turn(&gateway).await.0), run_of(&other.turn(&gateway).await.0));
            let second =
                (run_of(&one.turn(&gateway).await.0), run_of(&other.turn(&gateway).await.0));
            assert_ne!(first.0, first.1, "{api:?}, {header}");
            assert_eq!(first, second, "{api:?}, {header}");
        }
    }
}

#[tokio::test]
async fn what_a_harness_says_starts_no_run() {
    for api in APIS {
        for header in ["x-claude-code-session-id: c", "x-softland-session: s", "accept: */*"] {
            let provider = working().await;
            let keys = [("tool_calls_limit", Key::Int(50))];
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let mut client = Client::on(api, true).with(header);
            client.run(&gateway).await;
            client.says("<system-reminder>The list of tasks is empty.</system-reminder>");
            let (message, _) = client.turn(&gateway).await;
            assert_eq!(message.header("x-softland-tool-calls"), Some("3/50"), "{api:?}, {header}");
            client.says("And what else?");
            let (message, _) = client.turn(&gateway).await;
            assert_eq!(message.header("x-softland-tool-calls"), Some("0/50"), "{api:?}, {header}");
        }
    }
}

#[tokio::test]
async fn a_compacted_history_goes_on_counting_and_one_written_anew_does_not_count_twice() {
    for api in APIS {
        let provider = working().await;
        let keys = [("tool_calls_limit", Key::Int(50))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let counted =
            |message: &Message| message.header("x-softland-tool-calls").unwrap().to_owned();
        let mut client = Client::on(api, true).with("x-claude-code-session-id: c");
        client.turn(&gateway).await;
        client.turn(&gateway).await;
        // The harness writes its part of the first message anew: all of the run still stands there.
        let question = client.messages()[0]["content"].clone();
        let text = if api == Api::Responses { "input_text" } else { "text" };
        client.messages()[0]["content"] = json!([
            {"type": text, "text": "<system-reminder>It is Tuesday now.</system-reminder>"},
            {"type": text, "text": question}
        ]);
        let (message, _) = client.turn(&gateway).await;
        assert_eq!(counted(&message), "2/50");
        let summary = "This session is being continued from a previous conversation that ran out of \
                   context. Three files were read.";
        let mut compacted = client.clone().asking(summary);
        let (message, _) = compacted.turn(&gateway).await;
        assert_eq!(counted(&message), "3/50");
        let (message, _) = compacted.turn(&gateway).await;
        assert_eq!(counted(&message), "4/50", "once, not again with each request");
    }
}

#[tokio::test]
async fn a_history_that_was_rewound_counts_from_what_it_shows() {
    for api in APIS {
        let provider = working().await;
        let keys = [("tool_calls_limit", Key::Int(50))];
        for header in ["x-claude-code-session-id: c", "x-softland-session: s", "accept: */*"] {
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let mut client = Client::on(api, true).with(header);
            for _ in 0..3 {
                client.turn(&gateway).await;
            }
            client.messages().truncate(3);
            let (message, _) = client.turn(&gateway).await;
            assert_eq!(message.header("x-softland-tool-calls"), Some("1/50"), "{api:?}, {header}");
        }
    }
}
