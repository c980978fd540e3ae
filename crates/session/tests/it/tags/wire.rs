//! Providers' streams and answers of one text, and what a client reads of them.

use serde_json::{Value, json};
use softland_session::wire::sse::{Decoder, write_event};
use softland_session::wire::{Api, anthropic, chat, responses};

/// The APIs.
pub(crate) const APIS: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

/// Why a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Natural,
    Length,
}

/// What a client has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) text: String,
    pub(crate) ends: Option<Ends>,
}

/// A request of a conversation: its messages, as role and text.
pub(crate) fn request(api: Api, stream: bool, messages: &[(&str, &str)]) -> Vec<u8> {
    let messages: Vec<Value> =
        messages.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let system = "Write calls in <use_tool> blocks.";
    let body = match api {
        Api::Anthropic => json!({
            "model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": stream,
            "system": system, "messages": messages,
        }),
        Api::Chat => {
            let mut all = vec![json!({"role": "system", "content": system})];
            all.extend(messages);
            json!({"model": "gpt-4o", "stream": stream, "messages": all,
                   "stream_options": {"include_usage": true}})
        }
        Api::Responses => json!({
            "model": "gpt-4o", "stream": stream, "instructions": system, "input": messages,
        }),
    };
    body.to_string().into_bytes()
}

/// A whole response of one text.
pub(crate) fn whole(api: Api, text: &str, ends: Ends) -> Vec<u8> {
    let length = ends == Ends::Length;
    let body = match api {
        Api::Anthropic => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": text}],
            "stop_reason": if length { "max_tokens" } else { "end_turn" }, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 20},
        }),
        Api::Chat => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                         "finish_reason": if length { "length" } else { "stop" }}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
        }),
        Api::Responses => response(text, ends, true),
    };
    body.to_string().into_bytes()
}

fn response(text: &str, ends: Ends, done: bool) -> Value {
    let length = ends == Ends::Length;
    let status = match (done, length) {
        (false, _) => "in_progress",
        (true, true) => "incomplete",
        (true, false) => "completed",
    };
    let output = if done { vec![item(text, "completed")] } else { Vec::new() };
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-4o",
        "status": status, "output": output,
        "incomplete_details": (done && length).then(|| json!({"reason": "max_output_tokens"})),
        "usage": done.then(|| json!({"input_tokens": 10, "output_tokens": 20, "total_tokens": 30,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0}})),
    })
}

fn item(text: &str, status: &str) -> Value {
    json!({"id": "msg_item", "type": "message", "role": "assistant", "status": status,
           "content": [part(text)]})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A stream of one text in these deltas.
pub(crate) fn stream(api: Api, deltas: &[&str], ends: Ends) -> Vec<u8> {
    let mut events: Vec<(&str, Value)> = Vec::new();
    match api {
        Api::Anthropic => anthropic_events(deltas, ends, &mut events),
        Api::Chat => chat_events(deltas, ends, &mut events),
        Api::Responses => responses_events(deltas, ends, &mut events),
    }
    let mut out = Vec::new();
    for (event, data) in events {
        write_event(&mut out, event, &data.to_string());
    }
    if api == Api::Chat {
        write_event(&mut out, "", "[DONE]");
    }
    out
}

fn anthropic_events(deltas: &[&str], ends: Ends, events: &mut Vec<(&str, Value)>) {
    events.push((
        "message_start",
        json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}}}),
    ));
    events.push((
        "content_block_start",
        json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "text", "text": ""}}),
    ));
    for delta in deltas {
        events.push((
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": delta}}),
        ));
    }
    events.push(("content_block_stop", json!({"type": "content_block_stop", "index": 0})));
    let stop = if ends == Ends::Length { "max_tokens" } else { "end_turn" };
    events.push((
        "message_delta",
        json!({"type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 20}}),
    ));
    events.push(("message_stop", json!({"type": "message_stop"})));
}

fn chat_events(deltas: &[&str], ends: Ends, events: &mut Vec<(&str, Value)>) {
    let chunk = |choices: Value, usage: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
               "model": "gpt-4o", "choices": choices, "usage": usage})
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), Value::Null)
    };
    events.push(("", delta(json!({"role": "assistant", "content": ""}), Value::Null)));
    // The last piece may come with the finish reason.
    let (last, before) = match deltas.split_last() {
        Some((last, before)) if last.len() % 2 == 1 => (Some(*last), before),
        _ => (None, deltas),
    };
    for text in before {
        events.push(("", delta(json!({"content": text}), Value::Null)));
    }
    let finish = if ends == Ends::Length { "length" } else { "stop" };
    let content = last.map_or_else(|| json!({}), |text| json!({"content": text}));
    events.push(("", delta(content, finish.into())));
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30});
    events.push(("", chunk(json!([]), usage)));
}

fn responses_events(deltas: &[&str], ends: Ends, events: &mut Vec<(&str, Value)>) {
    let text = deltas.concat();
    let at = json!({"item_id": "msg_item", "output_index": 0, "content_index": 0});
    let with = |kind: &str, more: Value| {
        let mut event = at.clone();
        event["type"] = kind.into();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let mut add = |kind: &'static str, event: Value| {
        let mut event = event;
        event["type"] = kind.into();
        event["sequence_number"] = events.len().into();
        events.push((kind, event));
    };
    add("response.created", json!({"response": response("", ends, false)}));
    add("response.in_progress", json!({"response": response("", ends, false)}));
    let mut begun = item("", "in_progress");
    begun["content"] = json!([]);
    add("response.output_item.added", json!({"output_index": 0, "item": begun}));
    add("response.content_part.added", with("", json!({"part": part("")})));
    for delta in deltas {
        add("response.output_text.delta", with("", json!({"delta": delta, "logprobs": []})));
    }
    add("response.output_text.done", with("", json!({"text": text, "logprobs": []})));
    add("response.content_part.done", with("", json!({"part": part(&text)})));
    add("response.output_item.done", json!({"output_index": 0, "item": item(&text, "completed")}));
    let kind = if ends == Ends::Length { "response.incomplete" } else { "response.completed" };
    add(kind, json!({"response": response(&text, ends, true)}));
}

/// Reads what a client gets, streamed or whole. What it is told twice must be the same.
pub(crate) fn read(api: Api, stream: bool, bytes: &[u8]) -> Read {
    match (api, stream) {
        (Api::Anthropic, true) => {
            let mut all = anthropic::Assembler::new(1 << 20);
            frames(bytes, |event, data| {
                all.push(&anthropic::Event::from_data(event, data).unwrap()).unwrap();
            });
            let finished = all.finish();
            assert_eq!((finished.end, finished.strays), (anthropic::StreamEnd::Stop, 0));
            of_message(&finished.message)
        }
        (Api::Anthropic, false) => {
            of_message(&anthropic::ResponseMessage::from_json(bytes).unwrap())
        }
        (Api::Chat, true) => {
            let mut all = chat::Assembler::new(1 << 20);
            frames(bytes, |event, data| {
                all.push(&chat::Event::from_data(event, data).unwrap()).unwrap();
            });
            let finished = all.finish();
            assert_eq!(finished.end, chat::StreamEnd::Stop);
            of_chat(&finished.message)
        }
        (Api::Chat, false) => of_chat(&chat::Finished::from_json(bytes).unwrap().message),
        (Api::Responses, true) => {
            let mut all = responses::Assembler::new(1 << 20);
            let (mut deltas, mut numbers, mut last) = (String::new(), Vec::new(), Value::Null);
            frames(bytes, |event, data| {
                all.push(&responses::Event::from_data(event, data).unwrap()).unwrap();
                let json: Value = serde_json::from_str(data).unwrap();
                deltas.push_str(json["delta"].as_str().unwrap_or_default());
                numbers.push(json["sequence_number"].as_u64().unwrap());
                last = json;
            });
            assert!(
                numbers.iter().enumerate().all(|(n, number)| n as u64 == *number),
                "{numbers:?}"
            );
            let finished = all.finish();
            assert_eq!(finished.end, responses::StreamEnd::Stop);
            let read = of_response(&finished.response);
            assert_eq!(deltas, read.text, "the pieces are the whole");
            let text = |item: &Value| item["content"][0]["text"].as_str().unwrap().to_owned();
            let output: String =
                last["response"]["output"].as_array().unwrap().iter().map(text).collect();
            assert_eq!(output, read.text, "and what the end says again");
            read
        }
        (Api::Responses, false) => of_response(&responses::Response::from_json(bytes).unwrap()),
    }
}

fn frames(bytes: &[u8], mut take: impl FnMut(&str, &str)) {
    let mut decoder = Decoder::new(bytes.len() + 1);
    decoder.push(bytes);
    decoder.finish();
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        if !frame.data.is_empty() {
            take(frame.event, &frame.data);
        }
    }
}

fn of_message(message: &anthropic::ResponseMessage) -> Read {
    let text = |block: &anthropic::ResponseBlock| match block {
        anthropic::ResponseBlock::Text { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    let ends = match message.stop {
        Some(anthropic::Stop::EndTurn) => Some(Ends::Natural),
        Some(anthropic::Stop::MaxTokens) => Some(Ends::Length),
        _ => None,
    };
    Read { text: message.blocks.iter().map(text).collect(), ends }
}

fn of_chat(message: &chat::ResponseMessage) -> Read {
    let ends = match message.finish {
        Some(chat::Finish::Stop) => Some(Ends::Natural),
        Some(chat::Finish::Length) => Some(Ends::Length),
        _ => None,
    };
    Read { text: message.text.clone(), ends }
}

fn of_response(response: &responses::Response) -> Read {
    let text = |item: &responses::OutputItem| match &item.kind {
        responses::OutputKind::Message { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    let ends = match response.status {
        Some(responses::Status::Completed) => Some(Ends::Natural),
        Some(responses::Status::Incomplete) => Some(Ends::Length),
        _ => None,
    };
    Read { text: response.items.iter().map(text).collect(), ends }
}
