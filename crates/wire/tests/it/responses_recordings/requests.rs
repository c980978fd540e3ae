//! The requests among the recordings and those of real clients, seen as their JSON has them.

use std::fs;

use serde_json::Value;
use softland_wire::{
    Splice,
    json::Span,
    responses::{Input, ItemKind, RequestBody, RequestContent, RequestRole, RequestToolChoiceKind},
};

use crate::responses_recordings::{recordings, shared};

#[test]
#[ignore = "reads recordings from ../shared"]
fn requests_scan_and_stay_as_they_are() {
    for (name, bytes) in recordings(".req.json", 10) {
        let request = RequestBody::from_body(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Splice::new().apply(&bytes).unwrap(), bytes, "{name}");
        check_request(&name, &request, &serde_json::from_slice(&bytes).unwrap());
    }
}

/// The bodies that real clients sent, rebuilt from recordings.
#[test]
#[ignore = "reads recordings from ../shared"]
fn real_clients_requests_scan() {
    let folder = shared("clients");
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
            let request =
                RequestBody::from_body(body.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            check_request(&name, &request, &record["body"]);
            seen += 1;
        }
    }
    assert!(seen >= 20, "only {seen} requests");
}

/// Compares the view of a request with its JSON: its members, and the text under every span.
fn check_request(name: &str, request: &RequestBody<'_>, body: &Value) {
    let under =
        |span: Span| -> Value { serde_json::from_str(span.slice_of(request.text)).unwrap() };
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
        assert_eq!(&at(request.find_member(key)), value, "{name}: {key}");
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

fn check_tools(name: &str, request: &RequestBody<'_>, body: &Value) {
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
        Some("none") => Some(RequestToolChoiceKind::None),
        Some("auto") => Some(RequestToolChoiceKind::Auto),
        Some("required") => Some(RequestToolChoiceKind::Required),
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
    let same = |content: &RequestContent<'_>, value: &Value| match content {
        RequestContent::Absent(_) => assert!(value.is_null(), "{name}"),
        RequestContent::Text(text, _) => assert_eq!(*text, value.as_str().unwrap(), "{name}"),
        RequestContent::Other(span) => assert_eq!(&under(*span), value, "{name}"),
        RequestContent::Parts { span, parts } => {
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
                RequestRole::User => "user",
                RequestRole::Assistant => "assistant",
                RequestRole::System => "system",
                RequestRole::Developer => "developer",
                RequestRole::Other => panic!("{name}"),
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
