//! The three protocols as a client knows them: requests, and strict readers of its own.

use serde_json::{Value, json};
use softland_session::wire::Api;
use softland_sim::{Request, Response, Sim};

use super::reading;

pub(crate) const ALL: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

/// What a client gets for one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// Id and name.
    pub(crate) calls: Vec<(String, String)>,
    /// What goes back into the history.
    pub(crate) items: Vec<Value>,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

pub(crate) fn model(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "claude-opus-4-6",
        Api::Chat => "gpt-4.1",
        Api::Responses => "gpt-5.2",
    }
}

pub(crate) fn body(api: Api, streams: bool, history: &[Value]) -> Vec<u8> {
    let schema = json!({"type": "object"});
    let mut body = json!({"model": model(api), "stream": streams});
    match api {
        Api::Anthropic => {
            body["max_tokens"] = 4096.into();
            body["thinking"] = json!({"type": "adaptive"});
            body["tools"] = json!([{"name": "grep", "input_schema": schema}]);
        }
        Api::Chat => {
            let function = json!({"name": "grep", "parameters": schema});
            body["tools"] = json!([{"type": "function", "function": function}]);
            if streams {
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        Api::Responses => {
            body["store"] = false.into();
            body["reasoning"] = json!({"effort": "medium", "summary": "auto"});
            body["tools"] = json!([{"type": "function", "name": "grep", "parameters": schema}]);
        }
    }
    let messages = if api == Api::Responses { "input" } else { "messages" };
    body[messages] = history.into();
    body.to_string().into_bytes()
}

pub(crate) fn results(api: Api, calls: &[(String, String)]) -> Vec<Value> {
    let one = |(id, _): &(String, String)| match api {
        Api::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": "found"}),
        Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": "found"}),
        Api::Responses => {
            json!({"type": "function_call_output", "call_id": id, "output": "found"})
        }
    };
    let list: Vec<Value> = calls.iter().map(one).collect();
    if api == Api::Anthropic { vec![json!({"role": "user", "content": list})] } else { list }
}

pub(crate) fn post(api: Api, sim: &Sim, body: &[u8]) -> Response {
    let (path, headers): (&str, &[(&str, &str)]) = match api {
        Api::Anthropic => {
            ("/v1/messages", &[("x-api-key", "k"), ("anthropic-version", "2023-06-01")])
        }
        Api::Chat => ("/v1/chat/completions", &[("authorization", "Bearer k")]),
        Api::Responses => ("/v1/responses", &[("authorization", "Bearer k")]),
    };
    let headers: Vec<_> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    sim.respond(0, &Request { method: "POST", path, headers: &headers, body })
}

/// Reads a response, and refuses one that is not valid.
pub(crate) fn read(api: Api, bytes: &[u8], streams: bool) -> Said {
    match api {
        Api::Anthropic => read_anthropic(bytes, streams),
        Api::Chat => read_chat(&if streams { assemble_chat(bytes) } else { whole(bytes) }),
        Api::Responses => {
            read_responses(&if streams { assemble_responses(bytes) } else { whole(bytes) })
        }
    }
}

fn whole(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn events(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn read_anthropic(bytes: &[u8], streams: bool) -> Said {
    let response = reading::read(bytes, streams);
    assert!(response.whole, "{}", String::from_utf8_lossy(bytes));
    let texts = response.content.iter().map(|block| text(&block["text"]));
    let usage = match streams {
        true => events(bytes).iter().rev().find(|e| e["type"] == "message_delta").unwrap()["usage"]
            .clone(),
        false => whole(bytes)["usage"].clone(),
    };
    Said {
        text: texts.collect(),
        calls: response.calls.iter().map(|(id, name, _)| (id.clone(), name.clone())).collect(),
        items: vec![json!({"role": "assistant", "content": response.content})],
        input_tokens: usage["input_tokens"].as_u64().unwrap_or(0),
        output_tokens: usage["output_tokens"].as_u64().unwrap(),
    }
}

fn assemble_chat(bytes: &[u8]) -> Value {
    let stream = std::str::from_utf8(bytes).unwrap();
    assert_eq!(stream.matches("data: [DONE]").count(), 1, "{stream}");
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    let chunks = events(bytes);
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls: Vec<Value> = Vec::new();
    let (mut finish, mut usage) = (Vec::new(), Value::Null);
    for chunk in &chunks {
        assert_eq!(chunk["id"], chunks[0]["id"], "{stream}");
        if !chunk["usage"].is_null() {
            usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        let delta = &choice["delta"];
        assert!(finish.is_empty() || delta == &json!({}), "behind its end: {stream}");
        if let Some(piece) = delta["content"].as_str() {
            message["content"] = (text(&message["content"]) + piece).into();
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            if at == calls.len() {
                calls.push(json!({"id": piece["id"], "type": "function",
                    "function": {"name": piece["function"]["name"], "arguments": ""}}));
            }
            let function = &mut calls[at]["function"];
            function["arguments"] =
                (text(&function["arguments"]) + &text(&piece["function"]["arguments"])).into();
        }
        finish.extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
    assert_eq!(finish.len(), 1, "{stream}");
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({"choices": [{"message": message, "finish_reason": finish[0]}], "usage": usage})
}

fn read_chat(response: &Value) -> Said {
    let message = &response["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<_> =
        calls.map(|call| (text(&call["id"]), text(&call["function"]["name"]))).collect();
    let finish = &response["choices"][0]["finish_reason"];
    assert_eq!(finish == "tool_calls", !calls.is_empty(), "{response}");
    Said {
        text: text(&message["content"]),
        calls,
        items: vec![message.clone()],
        input_tokens: response["usage"]["prompt_tokens"].as_u64().unwrap(),
        output_tokens: response["usage"]["completion_tokens"].as_u64().unwrap(),
    }
}

fn assemble_responses(bytes: &[u8]) -> Value {
    let stream = String::from_utf8_lossy(bytes);
    let events = events(bytes);
    let mut items: Vec<Value> = Vec::new();
    let mut done = 0;
    let last = events.len() - 1;
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"].as_u64(), Some(n as u64), "{stream}");
        let kind = event["type"].as_str().unwrap();
        assert_eq!(kind == "response.created", n == 0, "{stream}");
        let ends = matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
        assert_eq!(ends, n == last, "{stream}");
        if let Some(index) = event["output_index"].as_u64() {
            let at = usize::try_from(index).unwrap();
            match kind {
                "response.output_item.added" => {
                    assert_eq!((at, items.len()), (done, done), "{stream}");
                    items.push(Value::Null);
                }
                "response.output_item.done" => {
                    assert_eq!(at, done, "{stream}");
                    items[at] = event["item"].clone();
                    done += 1;
                }
                _ => assert_eq!((at, items.len()), (done, done + 1), "{stream}"),
            }
        }
    }
    let response = &events[last]["response"];
    assert_eq!(response["id"], events[0]["response"]["id"], "{stream}");
    let strip = |item: &Value| {
        let mut item = item.clone();
        item.as_object_mut().unwrap().remove("encrypted_content");
        item
    };
    let shown: Vec<Value> = response["output"].as_array().unwrap().iter().map(strip).collect();
    assert_eq!(shown, items.iter().map(strip).collect::<Vec<_>>(), "{stream}");
    response.clone()
}

fn read_responses(response: &Value) -> Said {
    let mut said = Said {
        items: response["output"].as_array().unwrap().clone(),
        input_tokens: response["usage"]["input_tokens"].as_u64().unwrap(),
        output_tokens: response["usage"]["output_tokens"].as_u64().unwrap(),
        ..Said::default()
    };
    for item in &said.items {
        match item["type"].as_str().unwrap() {
            "message" => said.text.push_str(&text(&item["content"][0]["text"])),
            "function_call" => said.calls.push((text(&item["call_id"]), text(&item["name"]))),
            _ => {}
        }
    }
    said
}
