//! Every recording of OpenAI Responses in the shared folder: the same response however the stream
//! is cut, equal to an independent reading of its JSON; its requests and those of real clients,
//! seen as their JSON has them. The folder is not part of the repository; where it is absent these
//! tests say so and pass.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "in a test, a failed step is a failed test; the recordings are read at run time"
)]

mod requests;

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::support::{each_frame, frames};
use serde_json::{Value, json};
use softland_wire::responses::{
    ApiError, Assembler, Event, EventKind, Finished, OutputItem, OutputKind, Response, StreamEnd,
    respond::{self, Changes, Renumber},
};

fn shared(folder: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(folder);
    assert!(path.is_dir(), "there are no recordings at {path:?}");
    path
}

/// Returns name and bytes of every recording that ends in `suffix`, and checks their number.
fn recordings(suffix: &str, at_least: usize) -> Vec<(String, Vec<u8>)> {
    let folder = shared("recordings/openai-responses");
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

/// Assembles a stream that arrives in these chunks. Also counts the frames that are not JSON.
fn assembled(chunks: &[&[u8]]) -> (Finished, usize) {
    let mut assembler = Assembler::new(1 << 24);
    let mut broken = 0;
    each_frame(chunks, |event, data, _| {
        if data.is_empty() {
            return;
        }
        match Event::from_data(event, data) {
            Ok(event) => assembler.push(&event).unwrap(),
            Err(_) => broken += 1,
        }
    });
    (assembler.finish(), broken)
}

/// The JSON of a stream's events, read line by line. Events that are not JSON are left out.
fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The items of a stream as in their `output_item.done`, by index.
fn items_of(events: &[Value]) -> Vec<Value> {
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let by_index: BTreeMap<u64, Value> = done
        .map(|event| (event["output_index"].as_u64().unwrap(), event["item"].clone()))
        .collect();
    by_index.into_values().collect()
}

/// Returns the part of an item's text that was streamed.
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
#[ignore = "reads recordings from ../shared"]
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
#[ignore = "reads recordings from ../shared"]
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
                assert_eq!(finished.end, StreamEnd::Stop, "{name}");
            }
            None => {
                assert!(is_broken(&name), "{name}");
                assert_eq!(finished.end, StreamEnd::Cut, "{name}");
            }
        }
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
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

/// A stream cut before an item is done yields its streamed part, and its calls are incomplete.
#[test]
#[ignore = "reads recordings from ../shared"]
fn a_cut_stream_keeps_what_came() {
    for (name, bytes) in streams() {
        let all = frames(&[&bytes]);
        let until = |kind: &str| all.iter().position(|frame| frame.data.contains(kind));
        let Some(done) = until("\"response.output_item.done\"") else { panic!("{name}") };
        let events: Vec<Value> = events(&bytes).into_iter().take(done).collect();
        let raw: Vec<u8> = all.iter().take(done).flat_map(|frame| frame.raw.clone()).collect();
        let (finished, _) = assembled(&[&raw]);
        assert_eq!(finished.end, StreamEnd::Cut, "{name}");
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
#[ignore = "reads recordings from ../shared"]
fn every_event_of_every_stream_is_known() {
    for (name, bytes) in streams() {
        let mut sequence = 0;
        for frame in frames(&[&bytes]) {
            let Ok(event) = Event::from_data(&frame.event, &frame.data) else { continue };
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

/// A partial call looks like a whole one, except for its status and its arguments.
#[test]
#[ignore = "reads recordings from ../shared"]
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
#[ignore = "reads recordings from ../shared"]
fn a_wrapper_of_parallel_calls_is_kept() {
    for (name, bytes) in recordings("multi_tool_use_wrapper_stream.sse", 1) {
        let (finished, _) = assembled(&[&bytes]);
        let [item] = &finished.response.items[..] else { panic!("{name}") };
        let OutputKind::Call { complete, name: tool, .. } = &item.kind else { panic!("{name}") };
        assert!(*complete && tool == "parallel", "{name}");
    }
}

/// A program's call is marked in progress in a completed response: the call is whole.
#[test]
#[ignore = "reads recordings from ../shared"]
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
}

fn check_item(name: &str, item: &OutputItem, expected: &Value) {
    let mut out = Vec::new();
    item.write_json(&mut out);
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
#[ignore = "reads recordings from ../shared"]
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
            let texts = |r: &Response| (r.text(), r.items.len());
            assert_eq!(texts(&finished), texts(&response), "{name}");
        }
    }
}

/// Renumbering a frame changes nothing else, and reversing it gives the same bytes.
#[test]
#[ignore = "reads recordings from ../shared"]
fn renumbered_frames_change_in_nothing_else() {
    for (name, bytes) in streams() {
        for frame in frames(&[&bytes]) {
            let Ok(event) = Event::from_data(&frame.event, &frame.data) else { continue };
            let numbers = Renumber {
                sequence_number: Some(70_001),
                output_index: Some(80_002),
                item_id: Some("item \"x\""),
                response_id: Some("resp_other"),
            };
            let mut out = Vec::new();
            respond::write_renumbered_event(&mut out, &frame.raw, &numbers).unwrap();
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
            respond::write_renumbered_event(&mut again, &out, &back).unwrap();
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

/// A terminal response with a rebuilt output keeps all its other members.
#[test]
#[ignore = "reads recordings from ../shared"]
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
        let changed = respond::apply_changes(&response.raw, &changes).unwrap();
        let mut expected: Value = serde_json::from_str(&response.raw).unwrap();
        expected["id"] = "resp_shown".into();
        expected["output"] = items_of(&events(&bytes)).into();
        // The usage is rewritten with the members of the API.
        let mut changed: Value = serde_json::from_str(&changed).unwrap();
        let (old, new) = (expected["usage"].take(), changed["usage"].take());
        for path in ["/input_tokens", "/output_tokens", "/total_tokens"] {
            assert_eq!(old.pointer(path), new.pointer(path), "{name}");
        }
        assert_eq!(changed, expected, "{name}");
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn error_answers_say_what_their_json_says() {
    for (name, bytes) in recordings(".json", 2) {
        if name.starts_with("error_") && !name.ends_with(".req.json") {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let error = ApiError::from_response(400, &bytes);
            assert_eq!(error.type_name, value["error"]["type"], "{name}");
            assert_eq!(error.code, value["error"]["code"], "{name}");
            assert_eq!(error.param, value["error"]["param"], "{name}");
            assert_eq!(error.message, value["error"]["message"].as_str().unwrap(), "{name}");
        }
    }
}
