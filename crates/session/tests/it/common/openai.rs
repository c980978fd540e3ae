//! Responses of OpenAI's two protocols as a client reads them: strict where a client would break,
//! and without hope where a stream ends before its end.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_wire::Api;

use super::reading::{self, Response};

/// How a stream of Chat Completions ends.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// Reads a response of any protocol.
pub(crate) fn read(api: Api, bytes: &[u8], streams: bool) -> Response {
    match api {
        Api::Anthropic => reading::read(bytes, streams),
        Api::Chat if streams => chat(assemble_chat(bytes)),
        Api::Chat => chat(whole(bytes).map(|response| {
            let choice = &response["choices"][0];
            let finish = choice["finish_reason"].as_str().map(str::to_owned);
            (choice["message"].clone(), finish, response["choices"].is_array())
        })),
        Api::Responses if streams => responses(assemble_responses(bytes)),
        Api::Responses => responses(whole(bytes)),
    }
}

fn whole(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

/// The data of each event. Half an event stands at the end of a stream that was cut, and only
/// there.
fn data(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let frames = text.split("\n\n").filter(|frame| !frame.trim().is_empty());
    let data = frames.filter_map(|frame| frame.lines().find_map(|l| l.strip_prefix("data: ")));
    data.map(str::to_owned).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn append(value: &mut Value, more: &Value) {
    if let Some(more) = more.as_str() {
        *value = json!(text(value) + more);
    }
}

/// The message of a stream, how it finished, and whether it came to its end.
fn assemble_chat(bytes: &[u8]) -> Option<(Value, Option<String>, bool)> {
    let stream = String::from_utf8_lossy(bytes);
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls: BTreeMap<u64, Value> = BTreeMap::new();
    let (mut finish, mut done, mut failed) = (None, false, false);
    let mut id = String::new();
    for data in data(bytes) {
        assert!(!done, "something follows the end: {stream}");
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(&data) else { break };
        failed |= !chunk["error"].is_null();
        let own = text(&chunk["id"]);
        assert!(failed || id.is_empty() || own.is_empty() || own == id, "one id: {stream}");
        id = if id.is_empty() { own } else { id };
        let Some(choice) = chunk["choices"].get(0) else { continue };
        let delta = &choice["delta"];
        let says = delta["tool_calls"].is_array() || !text(&delta["content"]).is_empty();
        assert!(finish.is_none() || !says, "behind its end: {stream}");
        for key in ["content", "refusal", "reasoning", "reasoning_content"] {
            append(&mut message[key], &delta[key]);
        }
        if let Some(details) = delta["reasoning_details"].as_array().filter(|d| !d.is_empty()) {
            let mut all = message["reasoning_details"].as_array().cloned().unwrap_or_default();
            all.extend(details.iter().cloned());
            message["reasoning_details"] = json!(all);
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = piece["index"].as_u64().unwrap();
            let newest = calls.keys().next_back().copied();
            let call = calls.entry(at).or_insert_with(|| {
                assert!(newest.is_none_or(|newest| at == newest + 1), "indexes count: {stream}");
                json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            });
            for key in ["id", "type"] {
                if !text(&piece[key]).is_empty() {
                    call[key] = piece[key].clone();
                }
            }
            if !text(&piece["function"]["name"]).is_empty() {
                call["function"]["name"] = piece["function"]["name"].clone();
            }
            append(&mut call["function"]["arguments"], &piece["function"]["arguments"]);
        }
        finish = choice["finish_reason"].as_str().map(str::to_owned).or(finish);
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into_values().collect();
    }
    let ended = !failed && finish.is_some();
    Some((message, finish, ended))
}

fn chat(read: Option<(Value, Option<String>, bool)>) -> Response {
    let Some((mut message, finish, whole)) = read else { return Response::default() };
    // What a client keeps of a message.
    let kept =
        ["role", "content", "refusal", "reasoning", "reasoning_content", "reasoning_details"];
    if let Some(members) = message.as_object_mut() {
        let keeps = |key: &String| key == "tool_calls" || kept.contains(&key.as_str());
        members.retain(|key, value| keeps(key) && (!value.is_null() || key == "content"));
    }
    let mut response = Response { whole, ..Response::default() };
    if ["reasoning", "reasoning_content", "reasoning_details"]
        .iter()
        .any(|key| message.get(key).is_some())
    {
        response.content.push(json!({"type": "reasoning"}));
    }
    for key in ["content", "refusal"] {
        if let Some(text) = message[key].as_str().filter(|text| !text.is_empty()) {
            response.content.push(json!({"type": "text", "text": text}));
        }
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let (id, function) = (text(&call["id"]), &call["function"]);
        call_of(&mut response, id, text(&function["name"]), &text(&function["arguments"]));
    }
    response.stop = match finish.as_deref().unwrap_or_default() {
        _ if message.get("refusal").is_some() => "refusal",
        "content_filter" => "refusal",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    }
    .to_owned();
    if let Some(members) = message.as_object_mut() {
        members.retain(|key, value| !value.is_null() || key == "content");
    }
    response.items = vec![message];
    response
}

fn call_of(response: &mut Response, id: String, name: String, arguments: &str) {
    let input = serde_json::from_str(arguments).ok().filter(Value::is_object);
    let input = input.unwrap_or_else(|| json!({"INVALID_JSON": arguments}));
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
    response.content.push(block);
    response.calls.push((id, name, input));
}

/// The response of a stream, if it came to its end.
fn assemble_responses(bytes: &[u8]) -> Option<Value> {
    let stream = String::from_utf8_lossy(bytes);
    let mut items: Vec<Value> = Vec::new();
    let (mut ended, mut done, mut failed) = (None, 0, false);
    let mut id = Value::Null;
    for (n, data) in data(bytes).iter().enumerate() {
        let Ok(event) = serde_json::from_str::<Value>(data) else { break };
        assert!(ended.is_none(), "something follows the end: {stream}");
        let kind = event["type"].as_str().unwrap();
        assert_eq!(event["sequence_number"].as_u64(), Some(n as u64), "{stream}");
        assert_eq!(kind == "response.created", n == 0, "one beginning: {stream}");
        match kind {
            "response.created" => id = event["response"]["id"].clone(),
            "error" => failed = true,
            "response.completed" | "response.incomplete" | "response.failed" => {
                assert_eq!(event["response"]["id"], id, "one id: {stream}");
                failed |= kind == "response.failed";
                ended = Some(event["response"].clone());
            }
            _ => {}
        }
        if let Some(index) = event["output_index"].as_u64() {
            let at = index as usize;
            match kind {
                "response.output_item.added" => {
                    assert_eq!((at, items.len()), (done, done), "{stream}");
                    items.push(Value::Null);
                }
                "response.output_item.done" => {
                    assert_eq!((at, items.len()), (done, done + 1), "{stream}");
                    items[at] = event["item"].clone();
                    done += 1;
                }
                _ => assert_eq!((at, items.len()), (done, done + 1), "{stream}"),
            }
        }
    }
    let bare = |item: &Value| {
        let mut item = item.clone();
        if let Some(members) = item.as_object_mut() {
            members.remove("encrypted_content");
        }
        item
    };
    if let Some(response) = ended.as_ref().filter(|_| !failed) {
        let output: Vec<Value> = response["output"].as_array().unwrap().iter().map(bare).collect();
        assert_eq!(output, items.iter().map(bare).collect::<Vec<_>>(), "{stream}");
        return ended;
    }
    items.truncate(done);
    // What broke off is known as far as it came.
    Some(json!({"status": "failed", "output": items}))
}

fn responses(response: Option<Value>) -> Response {
    let Some(response) = response else { return Response::default() };
    let items = response["output"].as_array().cloned().unwrap_or_default();
    let status = response["status"].as_str().unwrap_or_default();
    let mut read =
        Response { whole: ["completed", "incomplete"].contains(&status), ..Response::default() };
    let mut refused = false;
    for item in &items {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    refused |= part["type"] == "refusal";
                    let said = part["text"].as_str().or_else(|| part["refusal"].as_str());
                    read.content.push(json!({"type": "text", "text": said}));
                }
            }
            "function_call" => {
                let (id, name) = (text(&item["call_id"]), text(&item["name"]));
                call_of(&mut read, id, name, &text(&item["arguments"]));
            }
            other => read.content.push(json!({"type": other})),
        }
    }
    read.stop = match response["incomplete_details"]["reason"].as_str() {
        _ if refused => "refusal",
        Some("content_filter") => "refusal",
        Some(_) => "max_tokens",
        None if status == "incomplete" => "max_tokens",
        None if read.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
    .to_owned();
    read.items = items;
    read
}
