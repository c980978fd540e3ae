//! A provider that sends prepared replies, byte for byte, cut as prepared: for replies that no
//! strict simulator would send.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use softland_agent::http::{
    Request, Response, ResponseHead, Transport, TransportError, TransportErrorKind,
};

/// A block as it starts, and its deltas.
pub(crate) type Block = (Value, Vec<Value>);

/// One answer of the provider.
pub(crate) enum Reply {
    /// A stream of these bytes in pieces of that size.
    Stream(String, usize),
    /// A stream that begins so and then says nothing more.
    Hangs(String),
    /// A stream that breaks after these bytes.
    Breaks(String),
    /// A whole response.
    Whole(Value),
    /// A failure, with the seconds of `retry-after`.
    Fails(u16, Option<u64>),
}

/// Replies in order, and the requests that came.
#[derive(Default)]
pub(crate) struct Canned {
    replies: Mutex<VecDeque<Reply>>,
    pub(crate) bodies: Mutex<Vec<String>>,
    /// The number of response bodies that were dropped before or at their end.
    pub(crate) dropped: Arc<AtomicU64>,
}

struct OnDrop(Arc<AtomicU64>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Canned {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

#[async_trait]
impl Transport for Canned {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        self.bodies.lock().unwrap().push(body);
        let reply = self.replies.lock().unwrap().pop_front().expect("one request too many");
        let error = json!({"type": "error", "error": {"type": "api_error", "message": "no"}});
        let hangs = matches!(reply, Reply::Hangs(_));
        let (status, kind, after, pieces) = match reply {
            Reply::Stream(text, size) => (200, "text/event-stream", None, cut(&text, size)),
            Reply::Hangs(text) => (200, "text/event-stream", None, cut(&text, 7)),
            Reply::Breaks(text) => {
                let kind = TransportErrorKind::Broken { detail: "cut".into() };
                let mut pieces = cut(&text, 64);
                pieces.push(Err(TransportError::new("canned", kind)));
                return Ok(self.response(200, "text/event-stream", None, pieces, false));
            }
            Reply::Whole(body) => (200, "application/json", None, cut(&body.to_string(), 9)),
            Reply::Fails(status, after) => {
                (status, "application/json", after, cut(&error.to_string(), 9))
            }
        };
        Ok(self.response(status, kind, after, pieces, hangs))
    }
}

impl Canned {
    fn response(
        &self,
        status: u16,
        kind: &str,
        after: Option<u64>,
        pieces: Vec<Result<Bytes, TransportError>>,
        hangs: bool,
    ) -> Response {
        let guard = OnDrop(Arc::clone(&self.dropped));
        let head = ResponseHead {
            content_type: Some(kind.to_owned()),
            retry_after: after.map(Duration::from_secs),
            ..ResponseHead::default()
        };
        let said = futures_util::stream::iter(pieces);
        let said = match hangs {
            true => said.chain(futures_util::stream::pending()).boxed(),
            false => said.boxed(),
        };
        let kept = move |piece| {
            let _kept = &guard;
            piece
        };
        let body = said.map(kept).boxed();
        Response { status, head, body }
    }
}

fn cut(text: &str, size: usize) -> Vec<Result<Bytes, TransportError>> {
    text.as_bytes().chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
}

// --- what a provider sends

/// The events of a response of these blocks, each block's deltas as given.
pub(crate) fn events(blocks: &[Block], stop: &str) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1",
        "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}}})];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop,
        "stop_sequence": null}, "usage": {"output_tokens": 5}}));
    events.push(json!({"type": "message_stop"}));
    events
}

pub(crate) fn stream(events: &[Value]) -> String {
    let event =
        |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

/// A whole stream of these blocks.
pub(crate) fn reply(blocks: &[Block], stop: &str) -> Reply {
    Reply::Stream(stream(&events(blocks, stop)), 1 << 20)
}

/// The same as a whole response of complete blocks.
pub(crate) fn whole(blocks: &[Value], stop: &str) -> Reply {
    Reply::Whole(json!({"id": "msg_1", "type": "message", "role": "assistant",
        "model": "claude-sonnet-5-5", "content": blocks, "stop_reason": stop,
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}}))
}

pub(crate) fn text(text: &str) -> Block {
    (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": text})])
}

/// A call whose arguments come in these pieces.
pub(crate) fn tool(id: &str, name: &str, pieces: &[&str]) -> Block {
    let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let delta = |piece: &&str| json!({"type": "input_json_delta", "partial_json": piece});
    (start, pieces.iter().map(delta).collect())
}

pub(crate) fn thinking(thought: &str, signature: &str) -> Block {
    let start = json!({"type": "thinking", "thinking": "", "signature": ""});
    let deltas = vec![
        json!({"type": "thinking_delta", "thinking": thought}),
        json!({"type": "signature_delta", "signature": signature}),
    ];
    (start, deltas)
}
