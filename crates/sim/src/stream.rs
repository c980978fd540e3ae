//! Server-sent events in the manner of the real wire: padded JSON, pings, a provisional usage at
//! the start. It writes what it is given; it knows no rule and no scenario.

use crate::json::{Json, map};
use crate::message::Message;
use crate::reply::{Chunk, Piece};
use crate::turn::{Fault, Turn};

/// Writes a message as a stream, with the delays and the fault of its turn.
pub(crate) fn write(message: &Message, turn: &Turn) -> Vec<Chunk> {
    let mut events = events(message);
    if let Some(first) = events.first_mut() {
        first.delay_ms = turn.first_delay_ms;
    }
    for event in events.iter_mut().filter(|e| e.is_delta) {
        event.delay_ms = turn.delta_delay_ms;
    }
    match turn.fault {
        Some(Fault::ErrorEvent { after }) => {
            events.truncate(after.max(1));
            events.push(Event::new("error", &overloaded()));
            events.into_iter().map(Event::chunk).collect()
        }
        Some(Fault::Cut { after }) => cut(events, after),
        _ => events.into_iter().map(Event::chunk).collect(),
    }
}

/// The body of an `error` event and of its HTTP form.
pub(crate) fn overloaded() -> Json {
    let error = map([("type", "overloaded_error".into()), ("message", "Overloaded".into())]);
    map([("type", "error".into()), ("error", error)])
}

/// Re-cuts the bytes of a stream into pieces of at most `size` bytes, wherever that falls.
pub(crate) fn recut(chunks: Vec<Chunk>, size: usize) -> Vec<Chunk> {
    let mut out = Vec::new();
    for chunk in chunks {
        let Piece::Bytes(bytes) = &chunk.piece else {
            out.push(chunk);
            continue;
        };
        for (i, piece) in bytes.chunks(size.max(1)).enumerate() {
            let delay_ms = if i == 0 { chunk.delay_ms } else { 0 };
            out.push(Chunk { delay_ms, piece: Piece::Bytes(piece.to_vec()) });
        }
    }
    out
}

struct Event {
    bytes: Vec<u8>,
    delay_ms: u64,
    is_delta: bool,
}

impl Event {
    fn new(name: &str, data: &Json) -> Self {
        let mut text = data.text();
        // The provider pads events with blanks before the closing brace; how many means nothing.
        if text.ends_with('}') && name != "error" {
            text.pop();
            text.push_str(&" ".repeat(text.len() % 13));
            text.push('}');
        }
        let bytes = format!("event: {name}\ndata: {text}\n\n").into_bytes();
        Self { bytes, delay_ms: 0, is_delta: name == "content_block_delta" }
    }

    fn ping() -> Self {
        let bytes = b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec();
        Self { bytes, delay_ms: 0, is_delta: false }
    }

    fn chunk(self) -> Chunk {
        Chunk { delay_ms: self.delay_ms, piece: Piece::Bytes(self.bytes) }
    }
}

fn cut(events: Vec<Event>, after: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (i, mut event) in events.into_iter().enumerate() {
        if i == after {
            event.bytes.truncate(event.bytes.len() / 2);
            chunks.push(event.chunk());
            break;
        }
        chunks.push(event.chunk());
    }
    chunks.push(Chunk { delay_ms: 0, piece: Piece::Cut });
    chunks
}

fn events(message: &Message) -> Vec<Event> {
    let mut provisional = message.usage;
    (provisional.output, provisional.thinking) = (1, 0);
    let head = message.envelope(Vec::new(), false, provisional.json(true));
    let mut events = vec![Event::new(
        "message_start",
        &map([("type", "message_start".into()), ("message", head)]),
    )];
    for (index, block) in message.blocks.iter().enumerate() {
        let index = || Json::from(index as u64);
        events.push(Event::new(
            "content_block_start",
            &map([
                ("type", "content_block_start".into()),
                ("index", index()),
                ("content_block", block.start.clone()),
            ]),
        ));
        if events.len() == 2 {
            events.push(Event::ping());
        }
        for delta in &block.deltas {
            let data = map([
                ("type", "content_block_delta".into()),
                ("index", index()),
                ("delta", delta.clone()),
            ]);
            events.push(Event::new("content_block_delta", &data));
        }
        let stop = map([("type", "content_block_stop".into()), ("index", index())]);
        events.push(Event::new("content_block_stop", &stop));
    }
    let delta = map([
        ("type", "message_delta".into()),
        ("delta", message.ending()),
        ("usage", message.usage.json(false)),
    ]);
    events.push(Event::new("message_delta", &delta));
    events.push(Event::new("message_stop", &map([("type", "message_stop".into())])));
    events
}
