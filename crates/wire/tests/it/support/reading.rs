//! An independent reading of responses and requests, with `serde_json::Value` and no code of the
//! crate under test.

use serde_json::{Map, Value, json};
use softland_wire::anthropic::{ResponseBlock, ResponseMessage};
use softland_wire::request::{
    Block as RequestBlock, BlockKind, CallInput, Content, Request, ResultContent, Role,
};

/// The content of a response.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) blocks: Vec<Value>,
    pub(crate) stop: Value,
    pub(crate) stop_sequence: Value,
    pub(crate) stop_details: Value,
    pub(crate) usage: Map<String, Value>,
}

pub(crate) fn read_message(message: &Value) -> Reading {
    Reading {
        id: message["id"].as_str().unwrap().to_owned(),
        model: message["model"].as_str().unwrap().to_owned(),
        blocks: message["content"].as_array().unwrap().clone(),
        stop: message["stop_reason"].clone(),
        stop_sequence: message["stop_sequence"].clone(),
        stop_details: message["stop_details"].clone(),
        usage: message["usage"].as_object().unwrap().clone(),
    }
}

/// Reads a stream whose events are separated by empty lines.
pub(crate) fn read_events(stream: &str) -> Reading {
    let mut reading = Reading::default();
    let mut inputs: Vec<String> = Vec::new();
    for event in stream.replace("\r\n", "\n").split("\n\n") {
        let data: String = event
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .collect::<Vec<_>>()
            .join("\n");
        if !data.trim().is_empty() {
            let value: Value = serde_json::from_str(&data).unwrap();
            read_event(&mut reading, &mut inputs, &value);
        }
    }
    for (block, input) in reading.blocks.iter_mut().zip(&inputs) {
        if !input.is_empty() {
            let parsed = serde_json::from_str(input);
            block["input"] = parsed.unwrap_or_else(|_| json!({ "INVALID_JSON": input }));
        }
    }
    reading
}

fn read_event(reading: &mut Reading, inputs: &mut Vec<String>, event: &Value) {
    match event["type"].as_str().unwrap() {
        "message_start" => {
            let message = read_message(&event["message"]);
            if reading.id.is_empty() {
                *reading = message;
            }
        }
        "content_block_start" => {
            assert_eq!(event["index"], reading.blocks.len(), "recordings number in order");
            reading.blocks.push(event["content_block"].clone());
            inputs.push(String::new());
        }
        "content_block_delta" => {
            let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
            read_delta(&mut reading.blocks[index], &mut inputs[index], &event["delta"]);
        }
        "message_delta" => {
            let delta = &event["delta"];
            reading.stop = delta["stop_reason"].clone();
            reading.stop_sequence = delta["stop_sequence"].clone();
            reading.stop_details = delta["stop_details"].clone();
            for (key, value) in event["usage"].as_object().unwrap() {
                reading.usage.insert(key.clone(), value.clone());
            }
        }
        "content_block_stop" | "message_stop" | "ping" | "error" => {}
        other => panic!("{other}"),
    }
}

fn read_delta(block: &mut Value, input: &mut String, delta: &Value) {
    let append = |block: &mut Value, key: &str| {
        let text = format!("{}{}", block[key].as_str().unwrap_or(""), delta[key].as_str().unwrap());
        block[key] = Value::String(text);
    };
    match delta["type"].as_str().unwrap() {
        "text_delta" => append(block, "text"),
        "thinking_delta" => append(block, "thinking"),
        "signature_delta" => block["signature"] = delta["signature"].clone(),
        "input_json_delta" => input.push_str(delta["partial_json"].as_str().unwrap()),
        "citations_delta" => {
            if !block["citations"].is_array() {
                block["citations"] = json!([]);
            }
            block["citations"].as_array_mut().unwrap().push(delta["citation"].clone());
        }
        other => panic!("{other}"),
    }
}

/// Compares the crate's reading of a response with the independent one.
pub(crate) fn check_message(name: &str, message: &ResponseMessage, expected: &Reading) {
    assert_eq!(message.id, expected.id, "{name}");
    assert_eq!(message.model, expected.model, "{name}");
    let stop = message.stop.as_ref().map(|stop| stop.name().to_owned());
    assert_eq!(stop.as_deref(), expected.stop.as_str(), "{name}");
    assert_eq!(message.stop_sequence.as_deref(), expected.stop_sequence.as_str(), "{name}");
    let details = message.stop_details.as_deref().map(|raw| serde_json::from_str(raw).unwrap());
    assert_eq!(details.unwrap_or(Value::Null), expected.stop_details, "{name}");
    assert_eq!(message.blocks.len(), expected.blocks.len(), "{name}");
    for (n, (block, expected)) in message.blocks.iter().zip(&expected.blocks).enumerate() {
        check_block(&format!("{name} block {n}"), block, expected);
    }
    check_usage(name, message, &expected.usage);
}

fn check_block(name: &str, block: &ResponseBlock, expected: &Value) {
    match block {
        ResponseBlock::Text { text, .. } => {
            assert_eq!(text, expected["text"].as_str().unwrap(), "{name}")
        }
        ResponseBlock::ToolUse { id, name: tool, input, complete, server, kind, .. } => {
            assert_eq!(id, expected["id"].as_str().unwrap(), "{name}");
            assert_eq!(tool, expected["name"].as_str().unwrap(), "{name}");
            assert_eq!(*kind, expected["type"].as_str().unwrap(), "{name}");
            assert_eq!(*server, *kind != "tool_use", "{name}");
            if *complete {
                let input: Value = serde_json::from_str(input).unwrap();
                assert_eq!(input, expected["input"], "{name}");
            }
        }
        ResponseBlock::Thinking { .. }
        | ResponseBlock::Redacted { .. }
        | ResponseBlock::Other { .. } => {}
    }
    let mut written = Vec::new();
    block.write_json(&mut written);
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(&written, expected, "{name}");
}

fn check_usage(name: &str, message: &ResponseMessage, usage: &Map<String, Value>) {
    let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
    let tokens = message.usage.tokens;
    assert_eq!(tokens.input, count(usage.get("input_tokens")), "{name}");
    assert_eq!(tokens.output, count(usage.get("output_tokens")), "{name}");
    assert_eq!(tokens.cache_read, count(usage.get("cache_read_input_tokens")), "{name}");
    let written = count(usage.get("cache_creation_input_tokens"));
    assert_eq!(tokens.cache_write_5m + tokens.cache_write_1h, written, "{name}");
    let empty = Vec::new();
    let iterations = usage.get("iterations").and_then(Value::as_array).unwrap_or(&empty);
    let all: Vec<&Value> = iterations.iter().collect();
    let sum = |key: &str| all.iter().map(|i| count(i.get(key))).sum::<u64>();
    if !all.is_empty() {
        let billed = message.usage.billed_tokens();
        assert_eq!(billed.input, sum("input_tokens"), "{name}");
        assert_eq!(billed.output, sum("output_tokens"), "{name}");
        assert_eq!(billed.cache_read, sum("cache_read_input_tokens"), "{name}");
        let written = billed.cache_write_5m + billed.cache_write_1h;
        assert_eq!(written, sum("cache_creation_input_tokens"), "{name}");
    }
}

/// Compares the view of a request with its JSON: its members, and the text under every span.
pub(crate) fn check_request(name: &str, request: &Request<'_>, body: &Value) {
    let under = |span: softland_wire::json::Span| -> Value {
        serde_json::from_str(span.slice_of(request.text)).unwrap()
    };
    assert_eq!(request.model, body["model"].as_str().unwrap(), "{name}");
    assert_eq!(request.stream, body["stream"].as_bool().unwrap_or(false), "{name}");
    assert_eq!(request.max_tokens.map(|m| m.value), body["max_tokens"].as_u64(), "{name}");
    assert_eq!(request.system.map(under).unwrap_or_default(), body["system"], "{name}");
    let tools = request.tools.as_ref();
    assert_eq!(tools.map(|t| under(t.span)).unwrap_or_default(), body["tools"], "{name}");
    for (n, tool) in tools.iter().flat_map(|t| &t.list).enumerate() {
        assert_eq!(tool.name, body["tools"][n]["name"].as_str().unwrap_or(""), "{name}");
    }
    let choice = request.tool_choice.as_ref();
    assert_eq!(choice.map(|c| under(c.span)).unwrap_or_default(), body["tool_choice"], "{name}");
    assert_eq!(request.thinking.span.map(under).unwrap_or_default(), body["thinking"], "{name}");
    assert_eq!(under(request.messages.span), body["messages"], "{name}");
    for (n, message) in request.messages.list.iter().enumerate() {
        let expected = &body["messages"][n];
        assert_eq!(&under(message.span), expected, "{name}");
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Other => panic!("{name}"),
        };
        assert_eq!(role, expected["role"], "{name}");
        match &message.content {
            Content::Text(text, span) => {
                assert_eq!(*text, expected["content"].as_str().unwrap(), "{name}");
                assert_eq!(under(*span), expected["content"], "{name}");
            }
            Content::Blocks { span, blocks } => {
                assert_eq!(under(*span), expected["content"], "{name}");
                for (k, block) in blocks.iter().enumerate() {
                    assert_eq!(under(block.span), expected["content"][k], "{name}");
                    check_request_block(name, block, &expected["content"][k], &under);
                }
            }
        }
    }
}

fn check_request_block(
    name: &str,
    block: &RequestBlock<'_>,
    expected: &Value,
    under: &impl Fn(softland_wire::json::Span) -> Value,
) {
    let kind = expected["type"].as_str().unwrap_or("");
    assert_eq!(block.cache_control, !expected["cache_control"].is_null(), "{name}");
    match &block.kind {
        BlockKind::Text { text, span } => {
            assert_eq!(*text, expected["text"].as_str().unwrap(), "{name}");
            assert_eq!(text.char_count(), text.unescape().chars().count(), "{name}");
            assert_eq!(under(*span), expected["text"], "{name}");
        }
        BlockKind::ToolUse { id, name: tool, input, server, .. } => {
            assert_eq!(*id, expected["id"].as_str().unwrap(), "{name}");
            assert_eq!(*tool, expected["name"].as_str().unwrap(), "{name}");
            let CallInput::Json(input) = input else { panic!("{name}: {input:?}") };
            assert_eq!(under(*input), expected["input"], "{name}");
            assert_eq!(*server, kind != "tool_use", "{name}");
        }
        BlockKind::ToolResult(result) => {
            assert_eq!(result.tool_use_id, expected["tool_use_id"].as_str().unwrap(), "{name}");
            assert_eq!(result.is_error, expected["is_error"] == true, "{name}");
            match &result.content {
                ResultContent::Absent(_) => assert!(expected["content"].is_null(), "{name}"),
                ResultContent::Opaque(_) => panic!("{name}: no content of this API is opaque"),
                ResultContent::Text(text, _) => {
                    assert_eq!(*text, expected["content"].as_str().unwrap(), "{name}");
                }
                ResultContent::Parts { span, .. } => {
                    assert_eq!(under(*span), expected["content"], "{name}");
                }
            }
        }
        BlockKind::Thinking => assert_eq!(kind, "thinking", "{name}"),
        BlockKind::RedactedThinking => assert_eq!(kind, "redacted_thinking", "{name}"),
        BlockKind::Other { kind: other } => assert_eq!(*other, kind, "{name}"),
    }
}
