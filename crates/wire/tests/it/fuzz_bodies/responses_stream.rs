//! Any bytes as a Responses stream and as a response: nothing panics, bounds hold, and what is
//! written back reads the same.

use softland_wire::{
    json,
    responses::{
        Assembler, Event, Response, StreamEnd,
        respond::{self, Changes, Renumber, ResponseEnd},
    },
    sse::Decoder,
};

const LIMIT: usize = 8192;

/// The whole input is the stream and the response.
pub(crate) fn run(data: &[u8]) {
    stream(data);
    if let Ok(response) = Response::from_json(data) {
        items_are_json(&response);
    }
}

fn stream(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(data);
    decoder.finish();
    let mut assembler = Assembler::new(LIMIT);
    while let Some(Ok(frame)) = decoder.next() {
        let Ok(event) = Event::from_data(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        renumbered(frame.raw);
    }
    let _ = assembler.tokens_so_far();
    let ended = assembler.is_ended();
    let finished = assembler.finish();
    assert_eq!(ended, finished.end != StreamEnd::Cut);
    items_are_json(&finished.response);
    rebuilt(&finished.response);
}

fn items_are_json(response: &Response) {
    for item in &response.items {
        let mut out = Vec::new();
        item.write_json(&mut out);
        json::check_text(std::str::from_utf8(&out).unwrap()).unwrap();
    }
    let _ = response.text();
}

/// The response with its own items and usage as its output and usage is a response with them.
fn rebuilt(response: &Response) {
    if response.raw.is_empty() {
        return;
    }
    let items: Vec<&[u8]> = response.items.iter().map(|item| item.raw.as_bytes()).collect();
    let changes = Changes {
        id: Some("resp_shown"),
        status: Some(ResponseEnd::Completed),
        output: Some(&items),
        usage: Some(&response.usage),
        ..Changes::default()
    };
    let changed = respond::apply_changes(&response.raw, &changes).unwrap();
    let again = Response::from_json(changed.as_bytes()).unwrap();
    assert_eq!(again.id, "resp_shown");
    // Of several announcements the last one applies, and it may leave the model out.
    if let Ok(own) = Response::from_json(response.raw.as_bytes()) {
        assert_eq!((&again.model, again.created_at), (&own.model, own.created_at));
    }
    let raw = |r: &Response| r.items.iter().map(|item| item.raw.clone()).collect::<Vec<_>>();
    assert_eq!(raw(&again), raw(response));
    assert_eq!(again.usage.tokens.output, response.usage.tokens.output);
}

/// A renumbered event differs only in its numbers, and the edit is reversible.
fn renumbered(raw: &[u8]) {
    let Some((sequence, index)) = alone(raw, |e| (e.sequence_number, e.output_index)) else {
        return;
    };
    let other = Renumber {
        sequence_number: Some(9_000_000),
        output_index: Some(7_000_000),
        ..Renumber::default()
    };
    let (mut out, mut back) = (Vec::new(), Vec::new());
    respond::write_renumbered_event(&mut out, raw, &other).unwrap();
    alone(&out, |moved| {
        assert_eq!(moved.sequence_number, sequence.map(|_| 9_000_000));
        assert_eq!(moved.output_index, index.map(|_| 7_000_000));
    })
    .unwrap();
    let own = Renumber { sequence_number: sequence, output_index: index, ..Renumber::default() };
    respond::write_renumbered_event(&mut back, &out, &own).unwrap();
    alone(raw, |event| alone(&back, |again| assert_eq!(again, event)).unwrap()).unwrap();
}

/// Reads a frame's event outside of its stream, where a byte order mark may differ in meaning.
fn alone<T>(raw: &[u8], read: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
    let mut decoder = Decoder::new(4 * LIMIT);
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    Event::from_data(frame.event, &frame.data).ok().map(|event| read(&event))
}
