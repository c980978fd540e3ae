use super::*;

fn decode(data: &str) -> Event<'_> {
    Event::from_data("", data).unwrap()
}

#[test]
fn deltas_are_read_in_any_order_of_keys() {
    for data in [
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"hi"}}   "#,
        r#"{"delta":{"text":"hi","type":"text_delta"},"index":3,"type":"content_block_delta"}"#,
        r#"{"index":3,"new":[{"index":4}],"delta":{"text":"hi","type":"text_delta","new":{}},"type":"content_block_delta"}"#,
        r#"{"type":"content_block_delta","index":9,"index":3,"delta":{"text":"hi","type":"text_delta"}}"#,
        r#"{"ty\u0070e":"content_block_delta","index":3,"delta":{"text":"\u0068i","type":"text_delta"}}"#,
    ] {
        let Event::TextDelta { index: 3, text } = decode(data) else { panic!("{data}") };
        assert_eq!(text, "hi");
    }
}

#[test]
fn every_delta_has_its_event() {
    let delta = |delta: &str| {
        let data = format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
        format!("{:?}", decode(&data))
    };
    for (json, event) in [
        (r#"{"type":"thinking_delta","thinking":""}"#, r#"ThinkingDelta { index: 0, text: "" }"#),
        (
            r#"{"type":"signature_delta","signature":"s="}"#,
            r#"SignatureDelta { index: 0, signature: "s=" }"#,
        ),
        (
            r#"{"type":"input_json_delta","partial_json":"{\"a\""}"#,
            r#"InputJsonDelta { index: 0, partial_json: "{\"a\"" }"#,
        ),
        (
            r#"{"type":"citations_delta","citation":{"a": 1}}"#,
            r#"CitationsDelta { index: 0, citation: "{\"a\": 1}" }"#,
        ),
        (
            r#"{"type":"new_delta","x": 1}"#,
            r#"OtherDelta { index: 0, kind: "new_delta", raw: "{\"type\":\"new_delta\",\"x\": 1}" }"#,
        ),
    ] {
        assert_eq!(delta(json), event);
    }
    // A known delta without its text counts as unknown.
    assert!(delta(r#"{"type":"text_delta","text":null}"#).starts_with("OtherDelta"));
}

#[test]
fn blocks_begin_as_what_they_are() {
    let kind = |block: &'static str| {
        let data = format!(r#"{{"type":"content_block_start","index":1,"content_block":{block}}}"#);
        let Event::BlockStart { index: 1, block: start } = decode(&data) else { panic!("{data}") };
        assert_eq!(start.raw, block);
        format!("{:?}", start.kind)
    };
    for (block, expected) in [
        (r#"{"type":"text","text":""}"#, r#"Text { text: "" }"#),
        (
            r#"{"signature":"","thinking":"","type":"thinking"}"#,
            r#"Thinking { thinking: "", signature: "" }"#,
        ),
        (r#"{"type":"redacted_thinking","data":"x"}"#, r#"Redacted { data: "x" }"#),
        (
            r#"{"type":"tool_use","id":"t","name":"n","input":{"a": 1}}"#,
            r#"ToolUse { id: "t", name: "n", input: "{\"a\": 1}", server: false, kind: "tool_use" }"#,
        ),
        (
            r#"{"type":"mcp_tool_use","id":"t","name":"n","input":{}}"#,
            r#"ToolUse { id: "t", name: "n", input: "{}", server: true, kind: "mcp_tool_use" }"#,
        ),
        (r#"{"type":"new","text":"x"}"#, r#"Other { kind: "new" }"#),
    ] {
        assert_eq!(kind(block), expected);
    }
}

#[test]
fn blocks_say_whether_they_have_members_beyond_those_of_their_kind() {
    let extended = |block: &str| {
        let data = format!(r#"{{"type":"content_block_start","index":1,"content_block":{block}}}"#);
        let Event::BlockStart { block, .. } = decode(&data) else { panic!("{data}") };
        block.extended
    };
    for block in [
        r#"{"text":"","type":"text","text":"x"}"#,
        r#"{"signature":"","thinking":"","type":"thinking"}"#,
        r#"{"type":"redacted_thinking","data":"x"}"#,
        r#"{"type":"tool_use","id":"t","name":"n","input":{}}"#,
    ] {
        assert!(!extended(block), "{block}");
    }
    for block in [
        r#"{"type":"text","text":"","citations":null}"#,
        r#"{"type":"text","text":"","id":"t"}"#,
        r#"{"type":"thinking","thinking":"","data":""}"#,
        r#"{"type":"tool_use","id":"t","name":"n","input":{},"text":""}"#,
        r#"{"type":"mcp_tool_use","id":"t","name":"n","input":{},"server_name":"s"}"#,
    ] {
        assert!(extended(block), "{block}");
    }
}

#[test]
fn a_message_may_start_with_content_and_stop_reason() {
    let data = r#"{"type":"message_start","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"t","name":"n","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":4}}}"#;
    let Event::MessageStart(start) = decode(data) else { panic!() };
    assert_eq!(
        (start.id, start.model),
        (Str::from_plain("m").unwrap(), Str::from_plain("x").unwrap())
    );
    assert_eq!(
        (start.content.len(), start.stop_reason.unwrap()),
        (1, Str::from_plain("tool_use").unwrap())
    );
    assert_eq!(start.usage.input, Some(4));
}

#[test]
fn the_name_of_the_frame_counts_where_the_data_has_no_type() {
    assert_eq!(Event::from_data("ping", "{}").unwrap(), Event::Ping);
    assert_eq!(Event::from_data("ping", r#"{"type":"message_stop"}"#).unwrap(), Event::MessageStop);
}

#[test]
fn what_is_unknown_or_unfit_is_no_error() {
    for (data, kind) in [
        (r#"{"type":"new_event","index":1}"#, "new_event"),
        (r#"{"type":"content_block_stop","index":-1}"#, "content_block_stop"),
        (r#"{"type":"content_block_stop","index":4294967296}"#, "content_block_stop"),
        (r#"{"type":"content_block_delta","index":1,"delta":[]}"#, "content_block_delta"),
        (r#"{"type":"message_start"}"#, "message_start"),
        ("{}", ""),
    ] {
        let kind = Str::from_plain(kind).unwrap();
        assert_eq!(decode(data), Event::Unknown { kind }, "{data}");
    }
    for data in ["", "[DONE]", "[]", "{\"type\":\"ping\"", "{} {}"] {
        assert!(Event::from_data("ping", data).is_err(), "{data}");
    }
}

#[test]
fn errors_and_ends_are_read() {
    let data = r#"{"type":"error","error":{"type":"overloaded_error","message":"Over\nloaded"}}"#;
    let Event::Error { kind, message } = decode(data) else { panic!() };
    assert_eq!(
        (kind.unescape(), message.unescape()),
        ("overloaded_error".into(), "Over\nloaded".into())
    );

    let data = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type": "refusal"}},"usage":{"output_tokens":7}}"#;
    let Event::MessageDelta(delta) = decode(data) else { panic!() };
    assert_eq!(delta.stop_reason.unwrap(), "refusal");
    assert_eq!((delta.stop_sequence, delta.stop_details), (None, Some(r#"{"type": "refusal"}"#)));
    assert_eq!(delta.usage.output, Some(7));
}
