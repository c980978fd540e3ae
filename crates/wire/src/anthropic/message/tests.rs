use serde_json::{Value, json};

use super::*;
use crate::anthropic::{AssembleError, Event};

/// Assembles events given as JSON.
fn fold(events: &[Value]) -> Finished {
    let mut assembler = Assembler::new(1 << 16);
    for event in events {
        assembler.push(&Event::from_data("", &event.to_string()).unwrap()).unwrap();
    }
    assembler.finish()
}

fn start(id: &str) -> Value {
    json!({"type": "message_start", "message": {"id": id, "model": "m", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}})
}

fn begin(index: u32, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u32, text: &str) -> Value {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn input(index: u32, piece: &str) -> Value {
    delta(index, &json!({"type": "input_json_delta", "partial_json": piece}))
}

fn stop(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn call() -> Value {
    json!({"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}})
}

/// Returns each block in the form that goes back.
fn written(message: &ResponseMessage) -> Vec<Value> {
    let write = |block: &ResponseBlock| {
        let mut out = Vec::new();
        block.write_json(&mut out);
        serde_json::from_slice(&out).unwrap()
    };
    message.blocks.iter().map(write).collect()
}

fn texts(message: &ResponseMessage) -> Vec<&str> {
    let text = |block: &'_ ResponseBlock| matches!(block, ResponseBlock::Text { .. });
    let blocks = message.blocks.iter().filter(|block| text(block));
    blocks
        .map(|block| if let ResponseBlock::Text { text, .. } = block { text.as_str() } else { "" })
        .collect()
}

#[test]
fn a_stream_and_a_whole_response_give_equal_messages() {
    let citation = json!({"type": "page", "n": [1, 2]});
    let result =
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"x": "é"}]});
    let mut events = vec![
        start("msg_1"),
        begin(0, &json!({"type": "thinking", "thinking": "", "signature": "", "new": 1})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "h"})),
        json!({"type": "ping"}),
        delta(0, &json!({"type": "thinking_delta", "thinking": "m\n"})),
        delta(0, &json!({"type": "signature_delta", "signature": "sig=="})),
        stop(0),
        begin(1, &json!({"type": "redacted_thinking", "data": "zz"})),
        stop(1),
        begin(2, &json!({"type": "text", "text": "", "citations": []})),
        text(2, "A \"b"),
        delta(2, &json!({"type": "citations_delta", "citation": citation})),
        text(2, "\" 東京"),
        delta(2, &json!({"type": "citations_delta", "citation": 2})),
        stop(2),
        begin(3, &result),
        stop(3),
        begin(4, &call()),
        input(4, ""),
        input(4, "{\"b\":"),
        input(4, "[1],\"a\":\"\\u00e9\"}"),
        stop(4),
    ];
    events.extend(end("tool_use"));
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm\n", "signature": "sig==", "new": 1},
            {"type": "redacted_thinking", "data": "zz"},
            {"type": "text", "text": "A \"b\" 東京", "citations": [citation, 2]},
            result,
            {"type": "tool_use", "id": "t", "name": "n", "input": "INPUT", "caller": {"type": "direct"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 3, "output_tokens": 9},
    });
    // The key order of an input must survive, which a `Value` would not show.
    let raw = body.to_string().replace("\"INPUT\"", r#"{"b":[1],"a":"\u00e9"}"#);
    let whole = ResponseMessage::from_json(raw.as_bytes()).unwrap();
    let finished = fold(&events);
    assert_eq!(finished.message, whole);
    assert_eq!((finished.end, finished.restarts, finished.strays), (StreamEnd::Stop, 0, 0));
    let expected: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(Value::from(written(&whole)), expected["content"]);
    let mut out = Vec::new();
    whole.blocks[4].write_json(&mut out);
    assert!(String::from_utf8(out).unwrap().contains(r#""input":{"b":[1],"a":"\u00e9"},"#));
}

/// Assembles a call with this start input and these pieces. Returns input and completeness.
fn one_call(start_input: &Value, pieces: &[&str], closed: bool) -> (String, bool) {
    let mut block = call();
    block["input"] = start_input.clone();
    let mut events = vec![start("m"), begin(0, &block)];
    events.extend(pieces.iter().map(|piece| input(0, piece)));
    events.extend(closed.then(|| stop(0)));
    match fold(&events).message.blocks.remove(0) {
        ResponseBlock::ToolUse { input, complete, .. } => (input, complete),
        other => panic!("{other:?}"),
    }
}

#[test]
fn inputs_are_whole_or_marked() {
    let none = json!({});
    let full = json!({"a": 1});
    for (start_input, pieces, closed, expected) in [
        (&none, [].as_slice(), true, ("{}", true)),
        (&none, &[""], true, ("{}", true)),
        (&none, &[" \n"], true, ("{}", true)),
        (&none, &["{\"a\"", ": 1}"], true, ("{\"a\": 1}", true)),
        (&full, &[], true, (r#"{"a":1}"#, true)),
        (&full, &[""], true, (r#"{"a":1}"#, true)),
        (&full, &["{\"b\":2}"], true, ("{\"b\":2}", true)),
        (&none, &["{\"a\": "], true, ("{\"a\": ", false)),
        (&none, &["{\"a\": 1}}"], true, ("{\"a\": 1}}", false)),
        (&none, &["[1]"], true, ("[1]", false)),
        (&none, &["{\"a\":\"\\ud83d\"}"], true, ("{\"a\":\"\\ud83d\"}", false)),
        (&none, &["{\"a\":\"\n\"}"], true, ("{\"a\":\"\n\"}", false)),
        (&none, &["{\"a\": 1}"], false, ("{\"a\": 1}", false)),
        (&none, &[], false, ("{}", false)),
    ] {
        let (input, complete) = one_call(start_input, pieces, closed);
        assert_eq!((input.as_str(), complete), expected, "{start_input} {pieces:?} {closed}");
    }
}

#[test]
fn an_incomplete_input_goes_back_wrapped() {
    let finished = fold(&[start("m"), begin(0, &call()), input(0, "{\"a\": \"x")]);
    let back = &written(&finished.message)[0];
    assert_eq!(back["input"], json!({"INVALID_JSON": "{\"a\": \"x"}));
    assert_eq!(back["caller"], json!({"type": "direct"}));
    assert_eq!(finished.end, StreamEnd::Cut);
    assert_eq!(finished.message.stop, None);
}

#[test]
fn a_message_announced_twice_is_one() {
    let mut events = vec![start("a"), start("b"), begin(0, &json!({"type": "text", "text": "x"}))];
    events.extend([text(0, "y"), stop(0)]);
    events.extend(end("end_turn"));
    let finished = fold(&events);
    assert_eq!(finished.message.id, "a");
    assert_eq!(texts(&finished.message), ["xy"]);
    assert_eq!((finished.restarts, finished.strays, finished.end), (1, 0, StreamEnd::Stop));
}

#[test]
fn a_spliced_message_is_appended() {
    let empty = json!({"type": "text", "text": ""});
    let mut events = vec![start("a"), begin(0, &empty), text(0, "first"), begin(1, &call())];
    events.extend([start("b"), begin(0, &empty), text(0, "second"), stop(0)]);
    events.extend(end("end_turn"));
    let finished = fold(&events);
    assert_eq!((finished.message.id.as_str(), finished.restarts), ("a", 1));
    assert_eq!(texts(&finished.message), ["first", "second"]);
    assert!(matches!(finished.message.blocks[1], ResponseBlock::ToolUse { complete: false, .. }));

    // The same without a second `message_start`.
    let finished =
        fold(&[start("a"), begin(0, &empty), text(0, "1"), begin(0, &empty), text(0, "2")]);
    assert_eq!((texts(&finished.message), finished.restarts), (vec!["1", "2"], 1));
}

#[test]
fn a_start_may_hold_the_whole_message() {
    let whole = json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": [call()], "stop_reason": "tool_use", "usage": {}}});
    let finished = fold(&[whole, json!({"type": "message_stop"})]);
    assert!(matches!(finished.message.blocks[0], ResponseBlock::ToolUse { complete: true, .. }));
    assert_eq!((finished.message.stop, finished.end), (Some(Stop::ToolUse), StreamEnd::Stop));
}

#[test]
fn events_without_a_place_are_counted() {
    let finished = fold(&[
        text(0, "no start"),
        text(0, " at all"),
        input(7, "{}"),
        stop(8),
        delta(0, &json!({"type": "signature_delta", "signature": "s"})),
        delta(0, &json!({"type": "new_delta"})),
    ]);
    assert_eq!(texts(&finished.message), ["no start at all"]);
    assert_eq!(finished.strays, 5);
}

#[test]
fn nothing_is_added_after_an_error() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Over"}});
    let text_block = json!({"type": "text", "text": ""});
    let events = [start("m"), begin(0, &text_block), text(0, "a"), error, text(0, "b"), stop(0)];
    let finished = fold(&events);
    assert_eq!(texts(&finished.message), ["a"]);
    let end = StreamEnd::Error { kind: "overloaded_error".to_owned(), message: "Over".to_owned() };
    assert_eq!((finished.end, finished.strays), (end, 2));
}

#[test]
fn a_compaction_arrives_in_its_delta() {
    let compaction =
        json!({"type": "compaction_delta", "content": "sum", "encrypted_content": "e"});
    let finished = fold(&[
        start("m"),
        begin(0, &json!({"type": "compaction", "content": null})),
        delta(0, &compaction),
        stop(0),
    ]);
    let expected = json!({"type": "compaction", "content": "sum", "encrypted_content": "e"});
    assert_eq!(written(&finished.message), [expected]);
}

#[test]
fn what_was_cut_has_cost_what_was_written_of_it() {
    let mut assembler = Assembler::new(1 << 16);
    let mut so_far = |event: &Value| {
        assembler.push(&Event::from_data("", &event.to_string()).unwrap()).unwrap();
        (assembler.tokens_so_far().input, assembler.tokens_so_far().output)
    };
    assert_eq!(so_far(&start("m1")), (3, 1), "what it reports");
    assert_eq!(so_far(&begin(0, &json!({"type": "text", "text": ""}))), (3, 1), "nothing is said");
    assert_eq!(so_far(&text(0, &"x".repeat(56))), (3, 14), "one token for four bytes");
    so_far(&stop(0));
    let called = so_far(&begin(1, &call()));
    assert!(called.1 <= 15, "{called:?}: a block's frame is nobody's output");
    assert_eq!(so_far(&input(1, &"y".repeat(400))).1, (56 + "n{}".len() as u64 + 400) / 4);
}

#[test]
fn a_message_is_bounded_by_name() {
    let mut assembler = Assembler::new(1000);
    let text_event = text(0, &"x".repeat(100));
    let data = text_event.to_string();
    let event = Event::from_data("", &data).unwrap();
    let results: Vec<_> = (0..12).map(|_| assembler.push(&event)).collect();
    let error = Err(AssembleError::TooLarge { limit: 1000 });
    assert_eq!(results[9..], [Ok(()), error, error]);
    assert_eq!(texts(&assembler.finish().message), ["x".repeat(1000)]);

    let mut assembler = Assembler::new(1000);
    let tiny = begin(0, &json!({"type": "text", "text": ""})).to_string();
    let event = Event::from_data("", &tiny).unwrap();
    assert!((0..10).any(|_| assembler.push(&event).is_err()), "empty blocks cost too");
}

#[test]
fn stops_have_names_both_ways() {
    for name in [
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "compaction",
        "new_reason",
    ] {
        assert_eq!(Stop::from_name(name).name(), name);
        assert_eq!(matches!(Stop::from_name(name), Stop::Other(_)), name == "new_reason");
    }
}

#[test]
fn a_body_that_is_no_message_is_refused() {
    let error = br#"{"type":"error","error":{"type":"api_error","message":"x"}}"#;
    assert_eq!(ResponseMessage::from_json(error), Err(MessageError::NoContent));
    assert!(matches!(ResponseMessage::from_json(b"<html>"), Err(MessageError::Json(_))));
    let empty = ResponseMessage::from_json(br#"{"content":[],"stop_reason":"end_turn"}"#).unwrap();
    assert!(empty.blocks.is_empty());
}
