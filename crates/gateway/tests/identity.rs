//! Whose request is it: what real clients sent, replayed through a gateway, and strangers who
//! happen to say the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use softland_session::core::policy::Value as Key;
use support::client::Client;
use support::reading::read;
use support::script::whole;
use support::sim::governed;
use support::{Message, Provider, Running};

/// Recorded requests of real clients, beside the checkout where they are at hand.
fn recordings() -> Option<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/clients"));
    if folder.is_dir() {
        return Some(folder.to_owned());
    }
    println!("skipped: there are no recordings at {}", folder.display());
    None
}

/// One recorded request.
struct Recorded {
    name: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

fn recorded(folder: &Path) -> Vec<Recorded> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let all = files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        let value: Value = serde_json::from_str(&text).ok()?;
        let path = value["path"].as_str()?.to_owned();
        let is_messages = path.split('?').next() == Some("/v1/messages");
        let headers = value["headers"].as_array()?.iter();
        let pair = |at: &Value, n: usize| at[n].as_str().unwrap_or_default().to_owned();
        is_messages.then(|| Recorded {
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
            let streams = asked.text().contains("\"stream\":true");
            wire.lock().await.send(whole(&blocks, stop, streams)).await;
            true
        }
    })
    .await;
    (provider, next)
}

/// What the client took for the answer to a request: the turn behind it in the next history.
fn answer_to(requests: &[Recorded], n: usize) -> Vec<Value> {
    let said = |at: usize| requests[at].body["messages"].as_array().unwrap();
    let turns = said(n).iter().filter(|message| message["role"] == "assistant").count();
    let later = requests.iter().skip(n + 1).find_map(|later| {
        let messages = later.body["messages"].as_array().unwrap();
        if texts(&messages[0]) != texts(&said(n)[0]) {
            return None;
        }
        messages.iter().filter(|message| message["role"] == "assistant").nth(turns)
    });
    let done = || vec![json!({"type": "text", "text": "FINAL: it is done."})];
    match later.map(|message| &message["content"]) {
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        _ => done(),
    }
}

/// A message's texts, whatever their marks.
fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        blocks => {
            blocks.as_array().into_iter().flatten().filter_map(|b| b["text"].as_str()).collect()
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
    let gateway = Running::with(governed(&provider.url(), &keys)).await;
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
    ("ai-sdk7-anthropic", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
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
    ("langchain-anthropic", &["01 A 0/100", "02 A 1/100", "03 A 2/100"]),
    // A title, without tools.
    ("opencode-anthropic", &["01 metered", "02 A 0/100", "03 A 1/100", "04 A 2/100"]),
    // The last is a validation retry: nobody asks, though the run had its answer and was told to
    // have ended, so that it goes on under another name.
    ("pydantic-ai-anthropic-structured", &["01 A 0/100", "02 A 1/100", "03 A 2/100", "04 B 2/100"]),
];

#[tokio::test]
async fn what_real_clients_send_is_told_apart() {
    let Some(folder) = recordings() else { return };
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
    let count = AtomicUsize::new(0);
    Provider::does(move |asked, wire| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let results = asked.text().matches("tool_result").count();
            let id = format!("toolu_{n:08}abcd");
            let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}});
            let text = json!({"type": "text", "text": "It is done, and this is the answer."});
            let greets = body["messages"][0]["content"] == "hi";
            let (block, stop) =
                if results < 3 && !greets { (call, "tool_use") } else { (text, "end_turn") };
            wire.lock().await.send(whole(&[block], stop, body["stream"] == true)).await;
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
    let provider = working().await;
    let gateway = Running::with(governed(&provider.url(), &[])).await;
    let (mut one, mut other) = (Client::new(true), Client::new(true));
    let mut runs = (Vec::new(), Vec::new());
    for _ in 0..3 {
        runs.0.push(run_of(&one.turn(&gateway).await.0));
        runs.1.push(run_of(&other.turn(&gateway).await.0));
    }
    assert!(runs.0.iter().all(|run| *run == runs.0[0]), "{runs:?}");
    assert!(runs.1.iter().all(|run| *run == runs.1[0]), "{runs:?}");
    assert_ne!(runs.0[0], runs.1[0]);
}

#[tokio::test]
async fn strangers_who_are_told_the_same_are_strangers() {
    let provider = working().await;
    let keys = [("cost_limit_usd", Key::Float(5.0))];
    let gateway = Running::with(governed(&provider.url(), &keys)).await;
    let mut strangers = [Client::new(true).asking("hi"), Client::new(true).asking("hi")];
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

#[tokio::test]
async fn an_empty_name_is_nobodys() {
    let provider = working().await;
    let gateway = Running::with(governed(&provider.url(), &[])).await;
    let empty = || Client::new(true).with("x-claude-code-session-id: ").with("x-session-id:  ");
    let (one, other) = (empty().post(&gateway).await, empty().post(&gateway).await);
    assert_ne!(run_of(&one), run_of(&other));
}

/// Names that a client gives, in a header.
#[tokio::test]
async fn conversations_under_one_name_are_runs_of_their_own() {
    let provider = working().await;
    let gateway = Running::with(governed(&provider.url(), &[])).await;
    for header in ["x-softland-session: s", "x-softland-run: r"] {
        let mut one = Client::new(true).with(header).asking("one");
        let mut other = Client::new(true).with(header).asking("other");
        let first = (run_of(&one.turn(&gateway).await.0), run_of(&other.turn(&gateway).await.0));
        let second = (run_of(&one.turn(&gateway).await.0), run_of(&other.turn(&gateway).await.0));
        assert_ne!(first.0, first.1, "{header}");
        assert_eq!(first, second, "{header}");
    }
}

#[tokio::test]
async fn what_a_harness_says_starts_no_run() {
    for header in ["x-claude-code-session-id: c", "x-softland-session: s", "accept: */*"] {
        let provider = working().await;
        let keys = [("tool_calls_limit", Key::Int(50))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let mut client = Client::new(true).with(header);
        client.run(&gateway).await;
        client.says("<system-reminder>The list of tasks is empty.</system-reminder>");
        let (message, _) = client.turn(&gateway).await;
        assert_eq!(message.header("x-softland-tool-calls"), Some("3/50"), "{header}");
        client.says("And what else?");
        let (message, _) = client.turn(&gateway).await;
        assert_eq!(message.header("x-softland-tool-calls"), Some("0/50"), "{header}");
    }
}

#[tokio::test]
async fn a_compacted_history_goes_on_counting_and_one_written_anew_does_not_count_twice() {
    let provider = working().await;
    let keys = [("tool_calls_limit", Key::Int(50))];
    let gateway = Running::with(governed(&provider.url(), &keys)).await;
    let counted = |message: &Message| message.header("x-softland-tool-calls").unwrap().to_owned();
    let mut client = Client::new(true).with("x-claude-code-session-id: c");
    client.turn(&gateway).await;
    client.turn(&gateway).await;
    // The harness writes its part of the first message anew: all of the run still stands there.
    let question = client.messages()[0]["content"].clone();
    client.messages()[0]["content"] = json!([
        {"type": "text", "text": "<system-reminder>It is Tuesday now.</system-reminder>"},
        {"type": "text", "text": question}
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

#[tokio::test]
async fn a_history_that_was_rewound_counts_from_what_it_shows() {
    let provider = working().await;
    let keys = [("tool_calls_limit", Key::Int(50))];
    for header in ["x-claude-code-session-id: c", "x-softland-session: s", "accept: */*"] {
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let mut client = Client::new(true).with(header);
        for _ in 0..3 {
            client.turn(&gateway).await;
        }
        client.messages().truncate(3);
        let (message, _) = client.turn(&gateway).await;
        assert_eq!(message.header("x-softland-tool-calls"), Some("1/50"), "{header}");
    }
}
