//! A provider that plays one reply after the other, whatever it is asked, with usage as told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};

use super::{Message, Provider, Wire, response};

/// What it says to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These blocks, and the stop reason.
    Says(Vec<Value>, &'static str),
    /// An error: status line, headers, body.
    Error(&'static str, Vec<&'static str>, &'static str),
    /// The head, this text, and then the connection breaks.
    Cut(&'static str),
    /// The head and this text, and nothing more.
    Hangs(&'static str),
    /// Not even a head.
    Silent,
    /// These bytes as the body of a stream, or of a message.
    Raw(&'static str),
    /// The connection is reset.
    Reset,
}

/// A text.
pub(crate) fn says(text: &str) -> Reply {
    Reply::Says(vec![json!({"type": "text", "text": text})], "end_turn")
}

/// Nothing at all.
pub(crate) fn nothing() -> Reply {
    Reply::Says(Vec::new(), "end_turn")
}

/// One call.
pub(crate) fn calls(n: u32) -> Reply {
    let id = format!("toolu_script{n:04}");
    let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": id}});
    Reply::Says(vec![call], "tool_use")
}

/// Tokens of each reply's input, and of the output of one that ends.
pub(crate) const INPUT: u64 = 1000;
pub(crate) const OUTPUT: u64 = 50;

/// A provider with a script.
pub(crate) struct Scripted {
    pub(crate) provider: Provider,
    /// How many clients were seen to go away.
    pub(crate) left: Arc<AtomicUsize>,
    /// Told when a reply has come to where it waits.
    pub(crate) stands: Arc<Notify>,
}

impl Scripted {
    /// Plays these, and the last one for ever.
    pub(crate) async fn plays(replies: Vec<Reply>) -> Self {
        let (next, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stands = Arc::new(Notify::new());
        let (seen, stood) = (Arc::clone(&left), Arc::clone(&stands));
        let provider = Provider::does(move |asked, wire| {
            let n = next.fetch_add(1, Ordering::SeqCst);
            let reply = replies.get(n).or_else(|| replies.last()).expect("a reply").clone();
            play(reply, asked, wire, Arc::clone(&seen), Arc::clone(&stood))
        })
        .await;
        Self { provider, left, stands }
    }

    pub(crate) fn url(&self) -> String {
        self.provider.url()
    }

    /// The body of a request by number.
    pub(crate) fn asked(&self, n: usize) -> Value {
        let asked = self.provider.asked.lock().expect("no panic");
        serde_json::from_slice(&asked.get(n).expect("so many requests").body).expect("JSON")
    }

    /// Waits until so many were seen to leave.
    pub(crate) async fn until_left(&self, clients: usize) {
        let waited = tokio::time::timeout(super::LONG, async {
            while self.left.load(Ordering::SeqCst) < clients {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        waited.await.expect("the upstream request is cancelled");
    }
}

async fn play(
    reply: Reply,
    asked: Message,
    wire: Arc<Mutex<Wire>>,
    left: Arc<AtomicUsize>,
    stands: Arc<Notify>,
) -> bool {
    let streams = asked.text().contains("\"stream\":true");
    let mut wire = wire.lock().await;
    let mut waits = false;
    match reply {
        Reply::Says(blocks, stop) => wire.send(whole(&blocks, stop, streams)).await,
        Reply::Error(status, headers, body) => wire.send(response(status, &headers, body)).await,
        Reply::Cut(text) => {
            wire.send(begun(text, streams)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            return false;
        }
        Reply::Hangs(text) => {
            wire.send(begun(text, streams)).await;
            waits = true;
        }
        Reply::Silent => waits = true,
        Reply::Raw(body) => {
            let kind = if streams { "text/event-stream" } else { "application/json" };
            wire.send(response("200 OK", &[&format!("content-type: {kind}")], body)).await;
        }
        Reply::Reset => {
            let _ = wire.stream.set_zero_linger();
            return false;
        }
    }
    if waits {
        stands.notify_one();
        wire.rest().await;
        left.fetch_add(1, Ordering::SeqCst);
        return false;
    }
    true
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().expect("a type"))
}

fn head() -> String {
    event(&json!({"type": "message_start", "message": {"id": "msg_script", "type": "message",
        "role": "assistant", "content": [], "model": "claude-sonnet-4-5", "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": INPUT, "output_tokens": 1}}}))
}

/// Half a stream, in chunks that go on, or half a message.
fn begun(text: &str, streams: bool) -> String {
    if !streams {
        let body = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"";
        let kind = "content-type: application/json\r\ncontent-length: 9000";
        return format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{body}{text}");
    }
    let mut events = head();
    if !text.is_empty() {
        events += &event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}));
        events += &event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}));
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    format!("{head}\r\n\r\n{:x}\r\n{events}\r\n", events.len())
}

/// A whole response of these blocks, streamed or not.
pub(crate) fn whole(blocks: &[Value], stop: &str, streams: bool) -> String {
    whole_with(blocks, stop, streams, INPUT, OUTPUT)
}

/// The same with its usage.
pub(crate) fn whole_with(
    blocks: &[Value],
    stop: &str,
    streams: bool,
    input: u64,
    output: u64,
) -> String {
    let usage = json!({"input_tokens": input, "output_tokens": output});
    if !streams {
        let body = json!({"id": "msg_script", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": blocks, "stop_reason": stop,
            "stop_sequence": null, "usage": usage});
        return response("200 OK", &["content-type: application/json"], &body.to_string());
    }
    let mut events =
        head().replace(&format!("\"input_tokens\":{INPUT}"), &format!("\"input_tokens\":{input}"));
    for (n, block) in blocks.iter().enumerate() {
        let (mut start, delta) = (
            block.clone(),
            match block["type"].as_str() {
                Some("text") => json!({"type": "text_delta", "text": block["text"]}),
                Some("tool_use") => {
                    json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
                }
                _ => Value::Null,
            },
        );
        match start["type"].as_str() {
            Some("text") => start["text"] = json!(""),
            Some("tool_use") => start["input"] = json!({}),
            _ => {}
        }
        events +=
            &event(&json!({"type": "content_block_start", "index": n, "content_block": start}));
        if !delta.is_null() {
            events += &event(&json!({"type": "content_block_delta", "index": n, "delta": delta}));
        }
        events += &event(&json!({"type": "content_block_stop", "index": n}));
    }
    events += &event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}));
    events += &event(&json!({"type": "message_stop"}));
    response("200 OK", &["content-type: text/event-stream"], &events)
}
