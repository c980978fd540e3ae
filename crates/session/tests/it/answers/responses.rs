//! Responses of the three APIs, whole and streamed: written, and read as a client reads them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_session::wire::Api;

use super::client::{Turn, model};

/// A response with this turn.
pub(crate) fn response(api: Api, turn: &Turn, streams: bool) -> String {
    let calls: Vec<_> = turn
        .calls
        .iter()
        .enumerate()
        .map(|(n, (name, input))| {
            let mut input = input.to_string();
            if turn.cut && n + 1 == turn.calls.len() {
                input.truncate(input.len() / 2);
            }
            (format!("call_{n:03}_{name}_{}", 1000 + n), name.clone(), input)
        })
        .collect();
    match (api, streams) {
        (Api::Anthropic, false) => anthropic(turn, &calls).to_string(),
        (Api::Anthropic, true) => anthropic_stream(turn, &calls),
        (Api::Chat, false) => chat(turn, &calls).to_string(),
        (Api::Chat, true) => chat_stream(turn, &calls),
        (Api::Responses, false) => items(turn, &calls).to_string(),
        (Api::Responses, true) => items_stream(turn, &calls),
    }
}

type Calls = [(String, String, String)];

fn anthropic(turn: &Turn, calls: &Calls) -> Value {
    let mut content = Vec::new();
    if !turn.text.is_empty() {
        content.push(json!({"type": "text", "text": turn.text}));
    }
    content.extend(calls.iter().map(|(id, name, input)| {
        // What is cut is not whole JSON; the API then gives what it has.
        let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    }));
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": model(Api::Anthropic),
        "content": content, "stop_reason": stop(turn), "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 30}})
}

fn stop(turn: &Turn) -> &'static str {
    match (turn.cut, turn.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    }
}

fn anthropic_stream(turn: &Turn, calls: &Calls) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1",
        "type": "message", "role": "assistant", "model": model(Api::Anthropic), "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}}})];
    let mut index = 0;
    let mut block = |begin: Value, delta: Value| {
        let at = index;
        index += 1;
        [
            json!({"type": "content_block_start", "index": at, "content_block": begin}),
            json!({"type": "content_block_delta", "index": at, "delta": delta}),
            json!({"type": "content_block_stop", "index": at}),
        ]
    };
    if !turn.text.is_empty() {
        let delta = json!({"type": "text_delta", "text": turn.text});
        events.extend(block(json!({"type": "text", "text": ""}), delta));
    }
    for (id, name, input) in calls {
        let begin = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        events.extend(block(begin, json!({"type": "input_json_delta", "partial_json": input})));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop(turn),
        "stop_sequence": null}, "usage": {"output_tokens": 30}}));
    events.push(json!({"type": "message_stop"}));
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect()
}

fn finish(turn: &Turn) -> &'static str {
    match stop(turn) {
        "max_tokens" => "length",
        "end_turn" => "stop",
        _ => "tool_calls",
    }
}

fn chat_calls(calls: &Calls) -> Vec<Value> {
    let calls = calls.iter().enumerate();
    let call = calls.map(|(n, (id, name, arguments))| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"index": n, "id": id, "type": "function", "function": function})
    });
    call.collect()
}

fn chat(turn: &Turn, calls: &Calls) -> Value {
    let text = if turn.text.is_empty() { Value::Null } else { json!(turn.text) };
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(chat_calls(calls));
    }
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "gpt-4.1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish(turn)}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 30, "total_tokens": 40}})
}

fn chat_stream(turn: &Turn, calls: &Calls) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5,
            "model": "gpt-4.1", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut stream = chunk(json!({"role": "assistant", "content": turn.text}), None);
    for call in chat_calls(calls) {
        stream.push_str(&chunk(json!({"tool_calls": [call]}), None));
    }
    stream.push_str(&chunk(json!({}), Some(finish(turn))));
    stream + "data: [DONE]\n\n"
}

fn items(turn: &Turn, calls: &Calls) -> Value {
    let mut output = Vec::new();
    if !turn.text.is_empty() {
        let content = json!([{"type": "output_text", "text": turn.text, "annotations": []}]);
        output.push(json!({"type": "message", "id": "msg_1", "role": "assistant",
            "status": "completed", "content": content}));
    }
    output.extend(calls.iter().map(|(id, name, arguments)| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
            "arguments": arguments, "status": if turn.cut { "incomplete" } else { "completed" }})
    }));
    let mut response = json!({"id": "resp_1", "object": "response", "created_at": 5,
        "status": "completed", "model": "gpt-4.1", "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 30, "total_tokens": 40}});
    if turn.cut {
        response["status"] = json!("incomplete");
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response
}

fn items_stream(turn: &Turn, calls: &Calls) -> String {
    let whole = items(turn, calls);
    let mut begun = whole.clone();
    (begun["status"], begun["output"], begun["usage"]) =
        (json!("in_progress"), json!([]), Value::Null);
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (n, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        let event = |kind: &str| json!({"type": kind, "output_index": n, "item_id": item["id"]});
        let mut added = event("response.output_item.added");
        added["item"] = item.clone();
        let mut delta;
        if item["type"] == "message" {
            added["item"]["content"] = json!([]);
            events.push(added);
            let mut part = event("response.content_part.added");
            part["content_index"] = json!(0);
            part["part"] = json!({"type": "output_text", "text": "", "annotations": []});
            events.push(part);
            delta = event("response.output_text.delta");
            delta["content_index"] = json!(0);
            delta["delta"] = item["content"][0]["text"].clone();
        } else {
            added["item"]["arguments"] = json!("");
            events.push(added);
            delta = event("response.function_call_arguments.delta");
            delta["delta"] = item["arguments"].clone();
        }
        events.push(delta);
        let mut done = event("response.output_item.done");
        done["item"] = item.clone();
        events.push(done);
    }
    let end = if turn.cut { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": end, "response": whole}));
    let mut stream = String::new();
    for (n, mut event) in events.into_iter().enumerate() {
        event["sequence_number"] = json!(n);
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        stream.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    }
    stream
}

/// The text and the calls of what a client got.
pub(crate) fn read(
    api: Api,
    bytes: &str,
    streams: bool,
) -> (String, Vec<(String, String, String)>) {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let events =
        || bytes.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|d| *d != "[DONE]");
    match (api, streams) {
        (Api::Anthropic, false) => of_blocks(parsed(bytes)["content"].as_array().unwrap()),
        (Api::Chat, false) => of_message(&parsed(bytes)["choices"][0]["message"]),
        (Api::Responses, false) => of_items(parsed(bytes)["output"].as_array().unwrap()),
        (Api::Anthropic, true) => of_blocks(&blocks(events().map(parsed))),
        (Api::Chat, true) => of_message(&message(events().map(parsed))),
        (Api::Responses, true) => {
            let end = events().map(parsed).next_back().unwrap();
            of_items(end["response"]["output"].as_array().unwrap())
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn of_blocks(blocks: &[Value]) -> (String, Vec<(String, String, String)>) {
    let text = blocks.iter().map(|block| text_of(&block["text"])).collect();
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    let call = |block: &Value| {
        let input = &block["input"];
        let input = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
        (text_of(&block["id"]), text_of(&block["name"]), input)
    };
    (text, calls.map(call).collect())
}

fn of_message(message: &Value) -> (String, Vec<(String, String, String)>) {
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    let call = |call: &Value| {
        let function = &call["function"];
        (text_of(&call["id"]), text_of(&function["name"]), text_of(&function["arguments"]))
    };
    (text_of(&message["content"]), calls.iter().map(call).collect())
}

fn of_items(items: &[Value]) -> (String, Vec<(String, String, String)>) {
    let text = items.iter().map(|item| text_of(&item["content"][0]["text"])).collect();
    let calls = items.iter().filter(|item| item["type"] == "function_call");
    let call = |item: &Value| {
        (text_of(&item["call_id"]), text_of(&item["name"]), text_of(&item["arguments"]))
    };
    (text, calls.map(call).collect())
}

/// The blocks of an Anthropic stream; a call's input is its text.
fn blocks(events: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    for event in events {
        let Some(index) = event["index"].as_u64() else { continue };
        let add = |block: &mut Value, member: &str, more: &Value| {
            block[member] = json!(text_of(&block[member]) + &text_of(more));
        };
        match event["type"].as_str() {
            Some("content_block_start") => {
                let mut block = event["content_block"].clone();
                if block["type"] == "tool_use" {
                    block["input"] = json!("");
                }
                assert!(blocks.insert(index, block).is_none(), "block {index} begins twice");
            }
            Some("content_block_delta") => {
                let block = blocks.get_mut(&index).unwrap();
                add(block, "text", &event["delta"]["text"]);
                add(block, "input", &event["delta"]["partial_json"]);
            }
            _ => {}
        }
    }
    blocks.into_values().collect()
}

/// The message of a stream of Chat Completions.
fn message(chunks: impl Iterator<Item = Value>) -> Value {
    let (mut text, mut calls) = (String::new(), BTreeMap::<u64, Value>::new());
    for chunk in chunks {
        let delta = &chunk["choices"][0]["delta"];
        text.push_str(&text_of(&delta["content"]));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap();
            if let Some(known) = calls.get_mut(&index) {
                let more = text_of(&call["function"]["arguments"]);
                let arguments = text_of(&known["function"]["arguments"]) + &more;
                known["function"]["arguments"] = json!(arguments);
            } else {
                calls.insert(index, call.clone());
            }
        }
    }
    let calls: Vec<_> = calls.into_values().collect();
    json!({"content": text, "tool_calls": calls})
}
