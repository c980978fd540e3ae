//! A provider that plays one reply after the other, whatever it is asked, with usage as told, in
//! the protocol that it is asked in.

mod anthropic;
mod chat;
mod responses;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use softland_session::wire::Api;
use tokio::sync::{Mutex, Notify};

use super::{Message, Provider, Wire, response};

/// The reply to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These blocks, and the stop reason.
    Says(Vec<Value>, &'static str),
    /// An error: status line, headers, body.
    Error(&'static str, Vec<&'static str>, &'static str),
    /// The head, this text, and then the connection breaks.
    Cut(&'static str),
    /// The head of a stream and this text, and then the body ends in order.
    Ends(&'static str),
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
    /// The number of clients that were seen to disconnect.
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
    let form = Form::of(&asked);
    let mut wire = wire.lock().await;
    let mut waits = false;
    match reply {
        Reply::Says(blocks, stop) => wire.send(whole(form, &blocks, stop)).await,
        Reply::Error(status, headers, body) => wire.send(response(status, &headers, body)).await,
        Reply::Cut(text) => {
            wire.send(begun(form, text)).await;
            return false;
        }
        Reply::Ends(text) => wire.send(format!("{}0\r\n\r\n", begun(form, text))).await,
        Reply::Hangs(text) => {
            wire.send(begun(form, text)).await;
            waits = true;
        }
        Reply::Silent => waits = true,
        Reply::Raw(body) => {
            let kind = if form.streams { "text/event-stream" } else { "application/json" };
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

/// In which form a request wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) api: Api,
    pub(crate) streams: bool,
    /// A stream says what it costs: of Chat Completions only if it is asked to.
    pub(crate) usage: bool,
}

impl Form {
    /// With the usage in any case.
    pub(crate) fn new(api: Api, streams: bool) -> Self {
        Self { api, streams, usage: true }
    }

    /// As a request says.
    pub(crate) fn of(asked: &Message) -> Self {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let api = match asked.line.split([' ', '?']).nth(1) {
            Some("/v1/chat/completions") => Api::Chat,
            Some("/v1/responses") => Api::Responses,
            _ => Api::Anthropic,
        };
        let usage = api != Api::Chat || body["stream_options"]["include_usage"] == true;
        Self { api, streams: body["stream"] == true, usage }
    }
}

/// One event of a stream by its name.
fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().expect("a type"))
}

/// Half a stream, in chunks that go on, or half a message.
fn begun(form: Form, text: &str) -> String {
    if !form.streams {
        let body = match form.api {
            Api::Anthropic => anthropic::HALF,
            Api::Chat => chat::HALF,
            Api::Responses => responses::HALF,
        };
        let kind = "content-type: application/json\r\ncontent-length: 9000";
        return format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{body}{text}");
    }
    let events = match form.api {
        Api::Anthropic => anthropic::begun(text),
        Api::Chat => chat::begun(text),
        Api::Responses => responses::begun(text),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    format!("{head}\r\n\r\n{:x}\r\n{events}\r\n", events.len())
}

/// Returns the beginning of such a response, if it streams.
pub(crate) const fn beginning(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "message_start",
        Api::Chat => "chat.completion.chunk",
        Api::Responses => "response.created",
    }
}

/// A whole response of these blocks, streamed or not. They are Anthropic's, and so is the stop
/// reason; the other protocols say the same in their words.
pub(crate) fn whole(form: Form, blocks: &[Value], stop: &str) -> String {
    whole_with(form, blocks, stop, [INPUT, OUTPUT])
}

/// The same with the tokens of its input and its output.
pub(crate) fn whole_with(form: Form, blocks: &[Value], stop: &str, tokens: [u64; 2]) -> String {
    if !form.streams {
        let body = match form.api {
            Api::Anthropic => anthropic::body(blocks, stop, tokens),
            Api::Chat => chat::body(blocks, stop, tokens),
            Api::Responses => responses::body(blocks, stop, tokens),
        };
        return response("200 OK", &["content-type: application/json"], &body.to_string());
    }
    let events = match form.api {
        Api::Anthropic => anthropic::events(blocks, stop, tokens),
        Api::Chat => chat::events(blocks, stop, form.usage.then_some(tokens)),
        Api::Responses => responses::events(blocks, stop, tokens),
    };
    response("200 OK", &["content-type: text/event-stream"], &events)
}

/// Returns the entries in a client's history for a turn of these blocks.
pub(crate) fn items(api: Api, blocks: &[Value]) -> Vec<Value> {
    match api {
        Api::Anthropic => vec![json!({"role": "assistant", "content": blocks})],
        Api::Chat => vec![chat::message(blocks)],
        Api::Responses => responses::items(blocks),
    }
}

/// Nano-dollars a token of what clients ask for in tests: input, output.
pub(crate) const fn prices(api: Api) -> [u64; 2] {
    match api {
        // claude-sonnet-4-5
        Api::Anthropic => [3_000, 15_000],
        // gpt-4.1
        Api::Chat => [2_000, 8_000],
        // gpt-5.2
        Api::Responses => [1_750, 14_000],
    }
}
