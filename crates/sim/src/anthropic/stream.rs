//! Server-sent events in the manner of the real API: padded JSON, pings, a provisional usage at the
//! start. This module knows no rule and no scenario.

use crate::anthropic::message::{Message, usage_json};
use crate::events::{self, Event};
use crate::json::{Json, json_object};
use crate::reply::Chunk;
use crate::turn::Turn;

/// Writes a message as a stream, with the delays and the fault of its turn.
pub(crate) fn write_stream(message: &Message, turn: &Turn) -> Vec<Chunk> {
    events::send_events(build_events(message), turn, |_| {
        vec![to_event("error", &overloaded_json())]
    })
}

/// Returns the body of an `error` event and of its HTTP form.
pub(crate) fn overloaded_json() -> Json {
    let error =
        json_object([("type", "overloaded_error".into()), ("message", "Overloaded".into())]);
    json_object([("type", "error".into()), ("error", error)])
}

fn to_event(name: &str, data: &Json) -> Event {
    let mut text = data.to_text();
    // The provider pads events with blanks before the closing brace; their number means nothing.
    if text.ends_with('}') && name != "error" {
        text.pop();
        text.push_str(&" ".repeat(text.len() % 13));
        text.push('}');
    }
    Event::new(format!("event: {name}\ndata: {text}\n\n"), name == "content_block_delta")
}

fn ping_event() -> Event {
    Event::new("event: ping\ndata: {\"type\": \"ping\"}\n\n".to_owned(), false)
}

fn build_events(message: &Message) -> Vec<Event> {
    let mut provisional = message.usage;
    (provisional.output, provisional.thinking) = (1, 0);
    let head = message.envelope_json(Vec::new(), false, usage_json(&provisional, true));
    let mut events = vec![to_event(
        "message_start",
        &json_object([("type", "message_start".into()), ("message", head)]),
    )];
    for (index, block) in message.blocks.iter().enumerate() {
        let index = || Json::from(index as u64);
        events.push(to_event(
            "content_block_start",
            &json_object([
                ("type", "content_block_start".into()),
                ("index", index()),
                ("content_block", block.start.clone()),
            ]),
        ));
        if events.len() == 2 {
            events.push(ping_event());
        }
        for delta in &block.deltas {
            let data = json_object([
                ("type", "content_block_delta".into()),
                ("index", index()),
                ("delta", delta.clone()),
            ]);
            events.push(to_event("content_block_delta", &data));
        }
        let stop = json_object([("type", "content_block_stop".into()), ("index", index())]);
        events.push(to_event("content_block_stop", &stop));
    }
    let delta = json_object([
        ("type", "message_delta".into()),
        ("delta", message.ending_json()),
        ("usage", usage_json(&message.usage, false)),
    ]);
    events.push(to_event("message_delta", &delta));
    events.push(to_event("message_stop", &json_object([("type", "message_stop".into())])));
    events
}
