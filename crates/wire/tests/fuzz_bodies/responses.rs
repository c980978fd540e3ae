//! Any bytes as a Responses stream and as a Responses request: nothing panics, bounds hold, what is
//! written back reads the same, and an edited request says what was edited in and else what it said
//! before.

use softland_wire::{
    Splice, json,
    responses::{
        Assembler, Content, End, Event, Input, ItemKind, Request, Response, ToolChoiceKind, edit,
        respond::{self, Changes, EndOf, Renumber},
    },
    sse::Decoder,
};

const LIMIT: usize = 8192;
const LINE: &str = "3 tool calls remaining \"\\\n\u{1F6EC}";

/// The whole input is the stream, the request and the response.
pub(crate) fn run(data: &[u8]) {
    stream(data);
    request(data);
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
        let Ok(event) = Event::decode(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        renumbered(frame.raw);
    }
    let _ = assembler.so_far();
    let ended = assembler.is_ended();
    let finished = assembler.finish();
    assert_eq!(ended, finished.end != End::Cut);
    items_are_json(&finished.response);
    rebuilt(&finished.response);
}

fn items_are_json(response: &Response) {
    for item in &response.items {
        let mut out = Vec::new();
        item.write(&mut out);
        json::check(std::str::from_utf8(&out).unwrap()).unwrap();
    }
    let _ = (response.text(), response.awaits_client());
}

/// The response with its own items and usage as its output and usage is a response with them.
fn rebuilt(response: &Response) {
    if response.raw.is_empty() {
        return;
    }
    let items: Vec<&[u8]> = response.items.iter().map(|item| item.raw.as_bytes()).collect();
    let changes = Changes {
        id: Some("resp_shown"),
        status: Some(EndOf::Completed),
        output: Some(&items),
        usage: Some(&response.usage),
        ..Changes::default()
    };
    let changed = respond::changed(&response.raw, &changes).unwrap();
    let again = Response::from_json(changed.as_bytes()).unwrap();
    assert_eq!(again.id, "resp_shown");
    assert_eq!(again.model.is_empty(), response.model.is_empty() || !changed.contains("model"));
    let raw = |r: &Response| r.items.iter().map(|item| item.raw.clone()).collect::<Vec<_>>();
    assert_eq!(raw(&again), raw(response));
    assert_eq!(again.usage.tokens.output, response.usage.tokens.output);
}

/// The event under other numbers is the same event, but for the numbers; and back again.
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
    respond::write_renumbered(&mut out, raw, &other).unwrap();
    alone(&out, |moved| {
        assert_eq!(moved.sequence_number, sequence.map(|_| 9_000_000));
        assert_eq!(moved.output_index, index.map(|_| 7_000_000));
    })
    .unwrap();
    let own = Renumber { sequence_number: sequence, output_index: index, ..Renumber::default() };
    respond::write_renumbered(&mut back, &out, &own).unwrap();
    alone(raw, |event| alone(&back, |again| assert_eq!(again, event)).unwrap()).unwrap();
}

/// Reads a frame's event out of its stream, where a byte order mark may mean something else.
fn alone<T>(raw: &[u8], read: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
    let mut decoder = Decoder::new(4 * LIMIT);
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    Event::decode(frame.event, &frame.data).ok().map(|event| read(&event))
}

fn request(data: &[u8]) {
    let Ok(request) = Request::scan(data) else { return };
    assert_eq!(Splice::new().apply(data).unwrap(), data);

    let mut splice = Splice::new();
    edit::set_tool_choice(&mut splice, &request, r#""none""#);
    edit::set_max_output_tokens(&mut splice, &request, 77);
    edit::set_previous_response_id(&mut splice, &request, "resp \"1\"");
    let mut lines = 0;
    for item in request.items() {
        lines += usize::from(edit::append_to_message(&mut splice, item, LINE));
        lines += usize::from(edit::append_to_output(&mut splice, item, LINE));
    }
    lines += usize::from(edit::append_to_text_input(&mut splice, &request, LINE));
    edit::append_items(&mut splice, &request, &[r#"{"role":"user","content":"on"}"#; 2]);

    let edited = splice.apply(data).unwrap();
    let again = Request::scan(&edited).expect("an edited request is a request");
    assert_eq!(again.model, request.model);
    assert_eq!(again.tools.as_ref().map(|t| t.list.len()), request.tools.map(|t| t.list.len()));
    assert_eq!(again.tool_choice.unwrap().kind, ToolChoiceKind::None);
    assert_eq!(again.max_output_tokens.unwrap().value, 77);
    assert_eq!(again.previous_response_id.unwrap().0, "resp \"1\"");
    let before = match &request.input {
        Input::Absent(_) => 0,
        Input::Text(..) => 1,
        Input::Items(items) => items.list.len(),
    };
    assert_eq!(again.items().len(), before + 2);
    assert_eq!(again.items().iter().filter(|item| ends_in_line(&item.kind)).count(), lines);
}

fn ends_in_line(item: &ItemKind<'_>) -> bool {
    let content = match item {
        ItemKind::Message { content, .. } => content,
        ItemKind::FunctionCallOutput(output) | ItemKind::CustomToolCallOutput(output) => {
            &output.content
        }
        _ => return false,
    };
    match content {
        Content::Text(text, _) => text.unescape().ends_with(LINE),
        Content::Parts { parts, .. } => {
            let last = parts.iter().rev().find_map(|part| part.text);
            last.is_some_and(|(text, _)| text.unescape().ends_with(LINE))
        }
        Content::Absent(_) | Content::Other(_) => false,
    }
}
