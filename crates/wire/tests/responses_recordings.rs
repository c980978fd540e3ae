//! Every recording of OpenAI Responses in the shared folder: the same response however the stream
//! is cut, equal to an independent reading of its JSON; its requests and those of real clients,
//! seen as their JSON has them. The folder is not part of the repository; where it is absent these
//! tests say so and pass.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "in a test, a failed step is a failed test; the recordings are read at run time"
)]

mod support;

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::{Value, json};
use softland_wire::{
    Splice,
    json::Span,
    responses::{
        ApiError, Assembler, Blame, Content, End, Event, EventKind, Finished, Input, ItemKind,
        OutputItem, OutputKind, Request, Response, Role, ToolChoiceKind,
        respond::{self, Changes, Renumber},
    },
};
use support::{each_frame, frames};

fn shared(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(folder);
    if !path.is_dir() {
        println!("skipped: nothing at {}", path.display());
        return None;
    }
    Some(path)
}

/// Name and bytes of every recording that ends in `suffix`; at least so many.
fn recordings(suffix: &str, at_least: usize) -> Vec<(String, Vec<u8>)> {
    let Some(folder) = shared("recordings/openai-responses") else { return Vec::new() };
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(found.len() >= at_least, "only {} recordings end in {suffix}", found.len());
    found
}

fn streams() -> Vec<(String, Vec<u8>)> {
    recordings(".sse", 15)
}

/// This one's head and end are broken JSON, as its index says.
fn is_broken(name: &str) -> bool {
    name == "multi_tool_use_wrapper_stream.sse"
}

/// This one was shortened by its recorder: deltas and one item are missing.
fn is_shortened(name: &str) -> bool {
    name == "phase_stream.sse"
}

/// What a stream that arrives in these chunks adds up to, and how many frames were no JSON.
fn assembled(chunks: &[&[u8]]) -> (Finished, usize) {
    let mut assembler = Assembler::new(1 << 24);
    let mut broken = 0;
    each_frame(chunks, |event, data, _| {
        if data.is_empty() {
            return;
        }
        match Event::decode(event, data) {
            Ok(event) => assembler.push(&event).unwrap(),
            Err(_) => broken += 1,
        }
    });
    (assembler.finish(), broken)
}

/// The JSON of a stream's events, read line by line, but for those that are no JSON.
fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The items of a stream as their `output_item.done` has them, by their index.
fn items_of(events: &[Value]) -> Vec<Value> {
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let by_index: BTreeMap<u64, Value> = done
        .map(|event| (event["output_index"].as_u64().unwrap(), event["item"].clone()))
        .collect();
    by_index.into_values().collect()
}

/// What was streamed of an item's text.
fn streamed(events: &[Value], kind: &str, index: usize) -> String {
    let deltas = events.iter().filter(|e| e["type"] == kind && e["output_index"] == index);
    deltas.map(|event| event["delta"].as_str().unwrap()).collect()
}

fn terminal(events: &[Value]) -> Option<&Value> {
    let ends = ["response.completed", "response.incomplete", "response.failed"];
    let last = events.iter().find(|event| ends.contains(&event["type"].as_str().unwrap()));
    last.map(|event| &event["response"])
}

#[test]
fn streams_add_up_alike_however_they_are_cut() {
    let mut seed: u64 = 0x5eed;
    for (name, bytes) in streams() {
        let whole = assembled(&[&bytes]);
        let all = bytes.len() <= 8500;
        let cuts: Vec<usize> = if all {
            (0..=bytes.len()).collect()
        } else {
            let random = |_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as usize % bytes.len()
            };
            (0..600).map(random).collect()
        };
        for &cut in &cuts {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(assembled(&[head, tail]), whole, "{name} cut at {cut}");
        }
        let three: Vec<&[u8]> = bytes.chunks(3).collect();
        assert_eq!(assembled(&three), whole, "{name} in threes");
        let raw: Vec<u8> = frames(&[&bytes]).into_iter().flat_map(|frame| frame.raw).collect();
        assert_eq!(raw, bytes, "{name}");
        println!("{name}: {} bytes, {} cuts", bytes.len(), cuts.len());
    }
}

#[test]
fn streams_say_what_their_json_says() {
    for (name, bytes) in streams() {
        let events = events(&bytes);
        let (finished, broken) = assembled(&[&bytes]);
        assert_eq!((finished.strays, finished.restarts), (0, 0), "{name}");
        assert_eq!(broken, if is_broken(&name) { 2 } else { 0 }, "{name}");
        let items = items_of(&events);
        check_items(&name, &finished.response, &items);
        match terminal(&events) {
            Some(response) => {
                check_head(&name, &finished.response, response);
                assert_eq!(finished.end, End::Stop, "{name}");
            }
            None => {
                assert!(is_broken(&name), "{name}");
                assert_eq!(finished.end, End::Cut, "{name}");
            }
        }
    }
}

#[test]
fn pieces_add_up_to_the_items() {
    for (name, bytes) in streams() {
        if is_shortened(&name) {
            continue;
        }
        let events = events(&bytes);
        for (n, item) in assembled(&[&bytes]).0.response.items.iter().enumerate() {
            let streamed = |kind: &str| streamed(&events, kind, n);
            match &item.kind {
                OutputKind::Message { text, refusal, .. } => {
                    assert_eq!(*text, streamed("response.output_text.delta"), "{name}");
                    let said = streamed("response.refusal.delta");
                    assert_eq!(refusal.clone().unwrap_or_default(), said, "{name}");
                }
                OutputKind::Call { arguments, custom: true, .. } => {
                    let input = streamed("response.custom_tool_call_input.delta");
                    assert_eq!(*arguments, input, "{name}");
                }
                OutputKind::Call { arguments, .. } => {
                    let pieces = streamed("response.function_call_arguments.delta");
                    assert_eq!(*arguments, pieces, "{name}");
                }
                OutputKind::Reasoning { summary, text, .. } => {
                    assert_eq!(*text, streamed("response.reasoning_text.delta"), "{name}");
                    let shown = streamed("response.reasoning_summary_text.delta");
                    assert_eq!(summary.replace("\n\n", ""), shown.replace("\n\n", ""), "{name}");
                }
                OutputKind::Other { .. } => {}
            }
        }
    }
}

/// A stream cut before an item was done has of it what was streamed, and its calls are not whole.
#[test]
fn a_cut_stream_keeps_what_came() {
    for (name, bytes) in streams() {
        let all = frames(&[&bytes]);
        let until = |kind: &str| all.iter().position(|frame| frame.data.contains(kind));
        let Some(done) = until("\"response.output_item.done\"") else { panic!("{name}") };
        let events: Vec<Value> = events(&bytes).into_iter().take(done).collect();
        let raw: Vec<u8> = all.iter().take(done).flat_map(|frame| frame.raw.clone()).collect();
        let (finished, _) = assembled(&[&raw]);
        assert_eq!(finished.end, End::Cut, "{name}");
        let [item] = &finished.response.items[..] else { panic!("{name}") };
        assert!(!item.done, "{name}");
        let back: Value = serde_json::from_str(&item.raw).unwrap();
        assert_eq!(back["status"], "incomplete", "{name}");
        match &item.kind {
            OutputKind::Call { arguments, complete, custom, .. } => {
                let channel =
                    if *custom { "custom_tool_call_input" } else { "function_call_arguments" };
                let pieces = streamed(&events, &format!("response.{channel}.delta"), 0);
                assert_eq!(*arguments, pieces, "{name}");
                assert_eq!(back[if *custom { "input" } else { "arguments" }], *pieces, "{name}");
                assert!(!complete, "{name}");
            }
            OutputKind::Message { text, .. } if !text.is_empty() => {
                assert_eq!(back["content"][0]["text"], **text, "{name}");
            }
            OutputKind::Reasoning { encrypted, .. } => {
                assert!(!encrypted && back["encrypted_content"].is_null(), "{name}");
            }
            _ => {}
        }
    }
}

#[test]
fn every_event_of_every_stream_is_known() {
    for (name, bytes) in streams() {
        let mut sequence = 0;
        for frame in frames(&[&bytes]) {
            let Ok(event) = Event::decode(&frame.event, &frame.data) else { continue };
            assert!(!matches!(event.kind, EventKind::Unknown { .. }), "{name}: {event:?}");
            let value: Value = serde_json::from_str(&frame.data).unwrap();
            let index = event.output_index.map(u64::from);
            assert_eq!(index, value["output_index"].as_u64(), "{name}");
            assert_eq!(event.sequence_number, value["sequence_number"].as_u64(), "{name}");
            if let (Some(number), false) = (event.sequence_number, is_shortened(&name)) {
                assert_eq!(number, sequence, "{name}");
                sequence += 1;
            }
        }
    }
}

/// Half a call looks like a whole one, but for its status and its arguments.
#[test]
fn a_truncated_call_is_not_complete() {
    for (name, bytes) in recordings("incomplete_mid_tool_call_stream.sse", 1) {
        let (finished, _) = assembled(&[&bytes]);
        let [item] = &finished.response.items[..] else { panic!("{name}") };
        let OutputKind::Call { complete, arguments, .. } = &item.kind else { panic!("{name}") };
        assert!(!complete && item.done && !item.completed, "{name}");
        assert!(serde_json::from_str::<Value>(arguments).is_err(), "{name}");
        assert_eq!(finished.response.incomplete_reason.as_deref(), Some("max_output_tokens"));
    }
}

#[test]
fn a_wrapper_of_parallel_calls_is_kept() {
    for (name, bytes) in recordings("multi_tool_use_wrapper_stream.sse", 1) {
        let (finished, _) = assembled(&[&bytes]);
        let [item] = &finished.response.items[..] else { panic!("{name}") };
        let OutputKind::Call { complete, name: tool, .. } = &item.kind else { panic!("{name}") };
        assert!(*complete && tool == "parallel", "{name}");
    }
}

/// A program's call is said to be in progress in a response that is completed: it is whole.
#[test]
fn a_programs_call_is_complete() {
    for (name, bytes) in recordings("programmatic_tool_calling_stream.sse", 1) {
        let response = assembled(&[&bytes]).0.response;
        let calls = response.items.iter().filter_map(|item| match &item.kind {
            OutputKind::Call { complete, .. } => Some(*complete && !item.completed),
            _ => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), [true], "{name}");
    }
}

fn check_head(name: &str, response: &Response, expected: &Value) {
    assert_eq!(response.id, expected["id"].as_str().unwrap(), "{name}");
    assert_eq!(response.model, expected["model"].as_str().unwrap(), "{name}");
    assert_eq!(response.created_at, expected["created_at"].as_u64(), "{name}");
    let status = response.status.as_ref().map(|status| status.name());
    assert_eq!(status, expected["status"].as_str(), "{name}");
    let reason = expected["incomplete_details"]["reason"].as_str();
    assert_eq!(response.incomplete_reason.as_deref(), reason, "{name}");
    assert_eq!(&serde_json::from_str::<Value>(&response.raw).unwrap(), expected, "{name}");
    let count = |path: &str| expected["usage"].pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let (cached, written) = (
        count("/input_tokens_details/cached_tokens"),
        count("/input_tokens_details/cache_write_tokens"),
    );
    let tokens = response.usage.tokens;
    assert_eq!(tokens.input, count("/input_tokens") - cached - written, "{name}");
    assert_eq!((tokens.cache_read, tokens.cache_write_5m), (cached, written), "{name}");
    assert_eq!((tokens.output, tokens.cache_write_1h), (count("/output_tokens"), 0), "{name}");
    let reasoning = count("/output_tokens_details/reasoning_tokens");
    assert_eq!(response.usage.reasoning, reasoning, "{name}");
}

fn check_items(name: &str, response: &Response, expected: &[Value]) {
    assert_eq!(response.items.len(), expected.len(), "{name}");
    for (item, expected) in response.items.iter().zip(expected) {
        check_item(name, item, expected);
    }
    let calls = ["function_call", "custom_tool_call"];
    let called = expected.iter().any(|item| calls.contains(&item["type"].as_str().unwrap()));
    assert_eq!(response.awaits_client(), called, "{name}");
}

fn check_item(name: &str, item: &OutputItem, expected: &Value) {
    let mut out = Vec::new();
    item.write(&mut out);
    assert_eq!(&serde_json::from_slice::<Value>(&out).unwrap(), expected, "{name}");
    assert_eq!(item.id, expected["id"].as_str().unwrap_or(""), "{name}");
    assert!(item.done, "{name}");
    let parts = |list: &str, kind: &str, member: &str| -> String {
        let parts = expected[list].as_array().into_iter().flatten();
        parts.filter(|p| p["type"] == kind).map(|p| p[member].as_str().unwrap()).collect()
    };
    match &item.kind {
        OutputKind::Message { text, refusal, phase } => {
            assert_eq!(expected["type"], "message", "{name}");
            assert_eq!(*text, parts("content", "output_text", "text"), "{name}");
            let refused = parts("content", "refusal", "refusal");
            assert_eq!(refusal.clone().unwrap_or_default(), refused, "{name}");
            assert_eq!(phase.as_deref(), expected["phase"].as_str(), "{name}");
        }
        OutputKind::Call { call_id, name: tool, namespace, arguments, complete, custom } => {
            let kind = if *custom { "custom_tool_call" } else { "function_call" };
            assert_eq!(expected["type"], kind, "{name}");
            assert_eq!(expected["call_id"], **call_id, "{name}");
            assert_eq!(expected["name"], **tool, "{name}");
            assert_eq!(namespace.as_deref(), expected["namespace"].as_str(), "{name}");
            let member = if *custom { "input" } else { "arguments" };
            assert_eq!(expected[member], **arguments, "{name}");
            let whole = *custom || serde_json::from_str::<Value>(arguments).is_ok();
            assert_eq!(*complete, whole && expected["status"] != "incomplete", "{name}");
        }
        OutputKind::Reasoning { summary, text, encrypted } => {
            assert_eq!(expected["type"], "reasoning", "{name}");
            let shown = parts("summary", "summary_text", "text");
            assert_eq!(summary.replace("\n\n", ""), shown.replace("\n\n", ""), "{name}");
            assert_eq!(*text, parts("content", "reasoning_text", "text"), "{name}");
            assert_eq!(*encrypted, expected["encrypted_content"].is_string(), "{name}");
        }
        OutputKind::Other { kind, call_id } => {
            assert_eq!(expected["type"], **kind, "{name}");
            assert_eq!(*call_id, expected["call_id"].as_str().unwrap_or(""), "{name}");
        }
    }
}

#[test]
fn whole_responses_say_what_their_json_says() {
    for (name, bytes) in recordings("tool_choice_none.json", 1) {
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let response = Response::from_json(&bytes).unwrap();
        check_head(&name, &response, &value);
        check_items(&name, &response, value["output"].as_array().unwrap());
    }
    // The last event of a stream holds a whole response too.
    for (name, bytes) in streams() {
        let events = events(&bytes);
        let Some(expected) = terminal(&events) else { continue };
        let response = Response::from_json(expected.to_string().as_bytes()).unwrap();
        check_head(&name, &response, expected);
        check_items(&name, &response, expected["output"].as_array().unwrap());
        let finished = assembled(&[&bytes]).0.response;
        if !is_shortened(&name) {
            let texts = |r: &Response| (r.text(), r.items.len(), r.awaits_client());
            assert_eq!(texts(&finished), texts(&response), "{name}");
        }
    }
}

/// Every frame under other numbers: nothing else changes, and going back gives the same bytes.
#[test]
fn renumbered_frames_change_in_nothing_else() {
    for (name, bytes) in streams() {
        for frame in frames(&[&bytes]) {
            let Ok(event) = Event::decode(&frame.event, &frame.data) else { continue };
            let numbers = Renumber {
                sequence_number: Some(70_001),
                output_index: Some(80_002),
                item_id: Some("item \"x\""),
                response_id: Some("resp_other"),
            };
            let mut out = Vec::new();
            respond::write_renumbered(&mut out, &frame.raw, &numbers).unwrap();
            let moved: Value = serde_json::from_str(&frames(&[&out])[0].data).unwrap();
            let original: Value = serde_json::from_str(&frame.data).unwrap();
            assert_eq!(moved, renumbered(original.clone()), "{name}");

            let id = original["item_id"].as_str().or_else(|| original["item"]["id"].as_str());
            let back = Renumber {
                sequence_number: event.sequence_number,
                output_index: event.output_index,
                item_id: id,
                response_id: original["response"]["id"].as_str(),
            };
            let mut again = Vec::new();
            respond::write_renumbered(&mut again, &out, &back).unwrap();
            assert_eq!(again, frame.raw, "{name}");
        }
    }
}

fn renumbered(mut event: Value) -> Value {
    for (path, with) in [
        ("/sequence_number", json!(70_001)),
        ("/output_index", json!(80_002)),
        ("/item_id", json!("item \"x\"")),
        ("/item/id", json!("item \"x\"")),
        ("/response/id", json!("resp_other")),
    ] {
        if let Some(value) = event.pointer_mut(path) {
            *value = with;
        }
    }
    event
}

/// A terminal response with its output rebuilt keeps all it said besides.
#[test]
fn ends_are_rebuilt_around_what_was_shown() {
    for (name, bytes) in streams() {
        let response = assembled(&[&bytes]).0.response;
        if is_broken(&name) {
            continue;
        }
        let shown: Vec<&[u8]> = response.items.iter().map(|item| item.raw.as_bytes()).collect();
        let changes = Changes {
            id: Some("resp_shown"),
            output: Some(&shown),
            usage: Some(&response.usage),
            ..Changes::default()
        };
        let changed = respond::changed(&response.raw, &changes).unwrap();
        let mut expected: Value = serde_json::from_str(&response.raw).unwrap();
        expected["id"] = "resp_shown".into();
        expected["output"] = items_of(&events(&bytes)).into();
        // The usage is written anew, with the members that the API has.
        let mut changed: Value = serde_json::from_str(&changed).unwrap();
        let (old, new) = (expected["usage"].take(), changed["usage"].take());
        for path in ["/input_tokens", "/output_tokens", "/total_tokens"] {
            assert_eq!(old.pointer(path), new.pointer(path), "{name}");
        }
        assert_eq!(changed, expected, "{name}");
    }
}

#[test]
fn requests_scan_and_stay_as_they_are() {
    for (name, bytes) in recordings(".req.json", 10) {
        let request = Request::scan(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Splice::new().apply(&bytes).unwrap(), bytes, "{name}");
        check_request(&name, &request, &serde_json::from_slice(&bytes).unwrap());
    }
}

/// The bodies that real clients sent, written anew from the recordings of them.
#[test]
fn real_clients_requests_scan() {
    let Some(folder) = shared("clients") else { return };
    let mut seen = 0;
    for client in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let files = fs::read_dir(&client).into_iter().flatten().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.extension().is_some_and(|e| e == "json")) {
            let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            let path = record["path"].as_str().unwrap_or("");
            if !path.contains("/responses") {
                continue;
            }
            let (name, body) = (file.display().to_string(), record["body"].to_string());
            let request = Request::scan(body.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            check_request(&name, &request, &record["body"]);
            seen += 1;
        }
    }
    assert!(seen >= 20, "only {seen} requests");
}

/// Compares the view of a request with its JSON: members, and every span by what stands under it.
fn check_request(name: &str, request: &Request<'_>, body: &Value) {
    let under = |span: Span| -> Value { serde_json::from_str(span.of(request.text)).unwrap() };
    let at = |span: Option<Span>| span.map(under).unwrap_or_default();
    assert_eq!(request.model, body["model"].as_str().unwrap(), "{name}");
    assert_eq!(request.stream, body["stream"] == true, "{name}");
    assert_eq!(request.background, body["background"] == true, "{name}");
    assert_eq!(request.store, body["store"].as_bool(), "{name}");
    let limit = request.max_output_tokens;
    assert_eq!(limit.map(|m| m.value), body["max_output_tokens"].as_u64(), "{name}");
    assert_eq!(at(limit.map(|m| m.span)), body["max_output_tokens"], "{name}");
    assert_eq!(at(request.instructions), body["instructions"], "{name}");
    assert_eq!(at(request.metadata), body["metadata"], "{name}");
    assert_eq!(at(request.client_metadata), body["client_metadata"], "{name}");
    assert_eq!(at(request.reasoning.map(|r| r.span)), body["reasoning"], "{name}");
    let effort = request.reasoning.and_then(|r| r.effort).map(|e| e.unescape().into_owned());
    assert_eq!(effort.as_deref(), body["reasoning"]["effort"].as_str(), "{name}");
    assert_eq!(at(request.include.map(|i| i.span)), body["include"], "{name}");
    let previous = request.previous_response_id.map(|(id, _)| id.unescape().into_owned());
    assert_eq!(previous.as_deref(), body["previous_response_id"].as_str(), "{name}");
    let key = request.prompt_cache_key.map(|key| key.unescape().into_owned());
    assert_eq!(key.as_deref(), body["prompt_cache_key"].as_str(), "{name}");
    let parallel = request.parallel_tool_calls.map(|p| p.value);
    assert_eq!(parallel, body["parallel_tool_calls"].as_bool(), "{name}");
    let format = request.text_format.map(|f| f.unescape().into_owned());
    assert_eq!(format.as_deref(), body["text"]["format"]["type"].as_str(), "{name}");
    for (key, value) in body.as_object().unwrap() {
        assert_eq!(&at(request.member(key)), value, "{name}: {key}");
    }
    assert_eq!(request.members.len(), body.as_object().unwrap().len(), "{name}");
    check_tools(name, request, body);
    match &request.input {
        Input::Absent(_) => assert!(body["input"].is_null(), "{name}"),
        Input::Text(text, span) => {
            assert_eq!(*text, body["input"].as_str().unwrap(), "{name}");
            assert_eq!(under(*span), body["input"], "{name}");
        }
        Input::Items(items) => assert_eq!(under(items.span), body["input"], "{name}"),
    }
    for (item, expected) in request.items().iter().zip(body["input"].as_array().unwrap()) {
        assert_eq!(&under(item.span), expected, "{name}");
        assert_eq!(item.id, expected["id"].as_str().unwrap_or(""), "{name}");
        check_input_item(name, &item.kind, expected, &under);
    }
}

fn check_tools(name: &str, request: &Request<'_>, body: &Value) {
    let tools = request.tools.as_ref();
    let expected = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(tools.map_or(0, |t| t.list.len()), expected.len(), "{name}");
    for (tool, expected) in tools.iter().flat_map(|t| &t.list).zip(expected) {
        assert_eq!(tool.name, expected["name"].as_str().unwrap_or(""), "{name}");
        assert_eq!(tool.kind, expected["type"].as_str().unwrap(), "{name}");
        let inner = expected["tools"].as_array().map_or(0, Vec::len);
        assert_eq!(tool.tools.len(), inner, "{name}");
    }
    let choice = request.tool_choice.map(|choice| choice.kind);
    let expected = match body["tool_choice"].as_str() {
        Some("none") => Some(ToolChoiceKind::None),
        Some("auto") => Some(ToolChoiceKind::Auto),
        Some("required") => Some(ToolChoiceKind::Required),
        _ => None,
    };
    assert_eq!(choice, expected, "{name}");
}

fn check_input_item(
    name: &str,
    kind: &ItemKind<'_>,
    expected: &Value,
    under: &impl Fn(Span) -> Value,
) {
    let same = |content: &Content<'_>, value: &Value| match content {
        Content::Absent(_) => assert!(value.is_null(), "{name}"),
        Content::Text(text, _) => assert_eq!(*text, value.as_str().unwrap(), "{name}"),
        Content::Other(span) => assert_eq!(&under(*span), value, "{name}"),
        Content::Parts { span, parts } => {
            assert_eq!(&under(*span), value, "{name}");
            for (part, value) in parts.iter().zip(value.as_array().unwrap()) {
                let text = part.text.map(|(text, _)| text.unescape().into_owned());
                assert_eq!(text.as_deref(), value["text"].as_str(), "{name}");
            }
        }
    };
    match kind {
        ItemKind::Message { role, content, phase } => {
            let named = match role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::System => "system",
                Role::Developer => "developer",
                Role::Other => panic!("{name}"),
            };
            assert_eq!(expected["role"], named, "{name}");
            let phase = phase.map(|phase| phase.unescape().into_owned());
            assert_eq!(phase.as_deref(), expected["phase"].as_str(), "{name}");
            same(content, &expected["content"]);
        }
        ItemKind::FunctionCall(call) => {
            assert_eq!(call.call_id, expected["call_id"].as_str().unwrap(), "{name}");
            assert_eq!(call.name, expected["name"].as_str().unwrap(), "{name}");
            assert_eq!(call.arguments, expected["arguments"].as_str().unwrap(), "{name}");
            assert_eq!(under(call.span), expected["arguments"], "{name}");
            let namespace = call.namespace.map(|n| n.unescape().into_owned());
            assert_eq!(namespace.as_deref(), expected["namespace"].as_str(), "{name}");
        }
        ItemKind::FunctionCallOutput(output) => {
            assert_eq!(output.call_id, expected["call_id"].as_str().unwrap(), "{name}");
            same(&output.content, &expected["output"]);
        }
        ItemKind::Reasoning { encrypted } => {
            let content = encrypted.map(under).unwrap_or_default();
            assert_eq!(content, expected["encrypted_content"], "{name}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn error_answers_say_what_their_json_says() {
    for (name, bytes) in recordings(".json", 2) {
        if name.starts_with("error_") && !name.ends_with(".req.json") {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let error = ApiError::from_response(400, &bytes);
            assert_eq!(error.type_name, value["error"]["type"], "{name}");
            assert_eq!(error.code, value["error"]["code"], "{name}");
            assert_eq!(error.param, value["error"]["param"], "{name}");
            assert_eq!(error.message, value["error"]["message"].as_str().unwrap(), "{name}");
            assert_eq!(error.blame(), Blame::Request, "{name}");
        }
    }
}
