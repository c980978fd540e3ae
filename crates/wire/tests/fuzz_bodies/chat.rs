//! Any bytes as a Chat Completions stream, response and request: nothing panics, bounds hold, what
//! is written reads the same, and edits leave the rest as it was.

use softland_wire::{
    Splice,
    chat::{
        Assembler, CallDelta, Chunk, Content, Event, Finished, Message, PartKind, Request,
        RequestMessage, Role, ToolChoiceKind,
        respond::{self, Place, Rewrite},
    },
    json,
    sse::Decoder,
};

const LIMIT: usize = 4096;
const LINE: &str = "3 tool calls remaining \"\\\n\u{1F6EC}";

/// The whole input is everything.
pub(crate) fn run(data: &[u8]) {
    stream(data);
    response(data);
    request(data);
}

/// The whole input is a stream.
pub(crate) fn stream(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(data);
    decoder.finish();
    let mut assembler = Assembler::new(LIMIT);
    while let Some(Ok(frame)) = decoder.next() {
        let Ok(event) = Event::decode(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        rewritten(frame.raw);
    }
    written(assembler.finish().message);
}

/// The whole input is a response, or an error.
pub(crate) fn response(data: &[u8]) {
    let error = softland_wire::chat::ApiError::from_response(500, data);
    assert!(error.message.chars().count() <= 1000);
    if let Ok(finished) = Finished::from_json(data) {
        written(finished.message);
    }
}

/// What goes back is JSON, and a completion that is written reads the same.
fn written(mut message: Message) {
    let mut back = Vec::new();
    message.write_back(&mut back);
    json::check(std::str::from_utf8(&back).unwrap()).unwrap();
    let mut out = Vec::new();
    respond::write_completion(&mut out, &message);
    let again = Finished::from_json(&out).expect("a written completion is one").message;
    let texts = |message: &Message| {
        let Message { id, model, text, refusal, reasoning_content, created, .. } = message.clone();
        (id, model, text, refusal, reasoning_content, created)
    };
    assert_eq!(texts(&again), texts(&message));
    assert_eq!(again.usage.present, message.usage.present);
    // Of deprecated calls a message holds one, and it comes last.
    message.calls.sort_by_key(|call| call.kind == softland_wire::chat::CallKind::Legacy);
    let calls = |message: &Message| -> Vec<(String, String, String)> {
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

/// A frame with other indexes and another id is the same but for them; and back again.
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
        let place = |call: &CallDelta<'_>| Place::At(by(call.index.unwrap_or(0)));
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
    respond::write_reindexed(&mut out, raw, |_| Place::Out).unwrap();
    alone(&out, |chunk| assert_eq!(pieces(chunk).count(), 0)).unwrap();
    out.clear();
    respond::write_reindexed(&mut out, raw, |_| Place::Keep).unwrap();
    assert_eq!(out, raw);
}

fn pieces<'c, 'a>(chunk: &'c Chunk<'a>) -> impl Iterator<Item = &'c CallDelta<'a>> {
    chunk.choices.iter().flat_map(|choice| choice.delta.tool_calls.iter())
}

/// Reads a frame's chunk out of its stream, where a byte order mark may mean something else.
fn alone<T>(raw: &[u8], read: impl FnOnce(&Chunk<'_>) -> T) -> Option<T> {
    let mut decoder = Decoder::new(8 * LIMIT);
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    match Event::decode(frame.event, &frame.data).ok()? {
        Event::Chunk(chunk) => Some(read(&chunk)),
        _ => None,
    }
}

/// The whole input is a request: with every edit made, the result is a request again, which says
/// what was edited in and else what it said before.
pub(crate) fn request(data: &[u8]) {
    let Ok(request) = Request::scan(data) else { return };
    assert_eq!(Splice::new().apply(data).unwrap(), data);
    let mut splice = Splice::new();
    splice.set_chat_tool_choice(&request, r#""none""#);
    splice.set_chat_output_limit(&request, 77, "max_tokens");
    splice.include_chat_usage(&request);
    let mut results = 0;
    for message in &request.messages.list {
        if message.role == Role::Tool || message.role == Role::Function {
            results += usize::from(splice.append_to_tool_message(message, LINE));
        } else {
            splice.append_to_chat_message(message, LINE);
        }
    }
    splice.append_chat_messages(&request, &[r#"{"role":"user","content":"on"}"#; 2]);

    let edited = splice.apply(data).unwrap();
    let again = Request::scan(&edited).expect("an edited request is a request");
    assert_eq!(again.model, request.model);
    let tools = |request: &Request<'_>| request.tools.as_ref().map(|tools| tools.list.len());
    assert_eq!(tools(&again), tools(&request));
    assert_eq!(again.tool_choice.unwrap().kind, ToolChoiceKind::None);
    assert!(again.max_tokens.or(again.max_completion_tokens).is_some_and(|max| max.value == 77));
    assert!(again.stream_options.unwrap().include_usage.unwrap().value);
    let count = request.messages.list.len();
    assert_eq!(again.messages.list.len(), count + 2);
    for (message, before) in again.messages.list[..count].iter().zip(&request.messages.list) {
        assert!(texts(message).iter().any(|text| text.ends_with(LINE)), "{message:?}");
        assert_eq!((message.role, &message.name), (before.role, &before.name));
        assert_eq!(message.tool_calls.len(), before.tool_calls.len());
        assert_eq!(message.cache_marks, before.cache_marks);
        results -= usize::from(matches!(message.role, Role::Tool | Role::Function));
    }
    assert_eq!(results, 0);
    without_reasoning(data, &request);
}

/// Every message without its reasoning is a message.
fn without_reasoning(data: &[u8], request: &Request<'_>) {
    let mut splice = Splice::new();
    for message in &request.messages.list {
        let members = [message.reasoning_content, message.reasoning, message.reasoning_details];
        let spans: Vec<_> = members.into_iter().flatten().map(|found| found.member).collect();
        splice.remove_chat_spans(request.text, &spans);
    }
    let edited = splice.apply(data).unwrap();
    let again = Request::scan(&edited).expect("a request without reasoning is a request");
    assert_eq!(again.messages.list.len(), request.messages.list.len());
}

fn texts(message: &RequestMessage<'_>) -> Vec<String> {
    match &message.content {
        Content::Text(text, _) => vec![text.to_string()],
        Content::Parts { parts, .. } => {
            let texts = parts.iter().filter_map(|part| match part.kind {
                PartKind::Text(text, _) => Some(text.to_string()),
                _ => None,
            });
            texts.collect()
        }
        Content::Absent | Content::Null(_) => Vec::new(),
    }
}
