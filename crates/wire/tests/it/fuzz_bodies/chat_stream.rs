//! Any bytes as a Chat Completions stream and as a response: nothing panics, bounds hold, and what
//! is written reads the same.

use softland_wire::{
    chat::{
        Assembler, CallDelta, Chunk, Event, Finished, ResponseMessage,
        respond::{self, CallEdit, Rewrite},
    },
    json,
    sse::Decoder,
};

const LIMIT: usize = 4096;

/// The whole input is both.
pub(crate) fn run(data: &[u8]) {
    stream(data);
    response(data);
}

/// The whole input is a stream.
fn stream(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(data);
    decoder.finish();
    let mut assembler = Assembler::new(LIMIT);
    while let Some(Ok(frame)) = decoder.next() {
        let Ok(event) = Event::from_data(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        rewritten(frame.raw);
    }
    written(assembler.finish().message);
}

/// The whole input is a response, or an error.
fn response(data: &[u8]) {
    let error = softland_wire::chat::ApiError::from_response(500, data);
    assert!(error.message.chars().count() <= 1000);
    if let Ok(finished) = Finished::from_json(data) {
        written(finished.message);
    }
}

/// The message that goes back is JSON, and a completion that is written reads the same.
fn written(mut message: ResponseMessage) {
    let mut back = Vec::new();
    message.write_back(&mut back);
    json::check_text(std::str::from_utf8(&back).unwrap()).unwrap();
    let mut out = Vec::new();
    respond::write_completion(&mut out, &message);
    let again = Finished::from_json(&out).expect("a written completion is one").message;
    let texts = |message: &ResponseMessage| {
        let ResponseMessage { id, model, text, refusal, reasoning_content, created, .. } =
            message.clone();
        (id, model, text, refusal, reasoning_content, created)
    };
    assert_eq!(texts(&again), texts(&message));
    assert_eq!(again.usage.present, message.usage.present);
    // A message contains only one deprecated call, and it comes last.
    message.calls.sort_by_key(|call| call.kind == softland_wire::chat::CallKind::Legacy);
    let calls = |message: &ResponseMessage| -> Vec<(String, String, String)> {
        let call = |call: &softland_wire::chat::Call| {
            let legacy = call.kind == softland_wire::chat::CallKind::Legacy;
            let id = if legacy { String::new() } else { call.id.clone() };
            (id, call.name.clone(), call.input().to_owned())
        };
        message.calls.iter().map(call).collect()
    };
    let named = message.calls.iter().all(|call| !call.name.is_empty() || !call.id.is_empty());
    if named {
        assert_eq!(calls(&again), calls(&message));
    }
}

/// A frame with other indexes and another id differs only in them, and the edit is reversible.
fn rewritten(raw: &[u8]) {
    let Some((id, numbered)) = alone(raw, |chunk| {
        let numbered = pieces(chunk).all(|call| call.index.is_some());
        (chunk.id.unescape().into_owned(), numbered)
    }) else {
        return;
    };
    let moved = |raw: &[u8], id: &str, by: fn(u32) -> u32| {
        let mut out = Vec::new();
        let rewrite = Rewrite { id: Some(id), ..Rewrite::default() };
        let place = |call: &CallDelta<'_>| CallEdit::At(by(call.index.unwrap_or(0)));
        respond::write_rewritten(&mut out, raw, &rewrite, place).unwrap();
        out
    };
    let there = moved(raw, "other", |index| index ^ (1 << 31));
    let back = moved(&there, &id, |index| index ^ (1 << 31));
    alone(&there, |chunk| {
        assert!(pieces(chunk).all(|call| call.index.is_some()));
    });
    if numbered {
        alone(raw, |chunk| alone(&back, |again| assert_eq!(again, chunk)).unwrap());
    }
    let mut out = Vec::new();
    respond::write_reindexed(&mut out, raw, |_| CallEdit::Out).unwrap();
    alone(&out, |chunk| assert_eq!(pieces(chunk).count(), 0)).unwrap();
    out.clear();
    respond::write_reindexed(&mut out, raw, |_| CallEdit::Keep).unwrap();
    assert_eq!(out, raw);
}

fn pieces<'c, 'a>(chunk: &'c Chunk<'a>) -> impl Iterator<Item = &'c CallDelta<'a>> {
    chunk.choices.iter().flat_map(|choice| choice.delta.tool_calls.iter())
}

/// Reads a frame's chunk outside of its stream, where a byte order mark may differ in meaning.
fn alone<T>(raw: &[u8], read: impl FnOnce(&Chunk<'_>) -> T) -> Option<T> {
    let mut decoder = Decoder::new(8 * LIMIT);
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    match Event::from_data(frame.event, &frame.data).ok()? {
        Event::Chunk(chunk) => Some(read(&chunk)),
        _ => None,
    }
}
