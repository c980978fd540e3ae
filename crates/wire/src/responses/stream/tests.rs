use super::*;

fn decode(data: &str) -> Event<'_> {
    Event::from_data("", data).unwrap()
}

#[test]
fn pieces_are_told_apart_by_their_channel() {
    for (kind, extra, channel, at) in [
        ("response.output_text.delta", r#""content_index":2"#, Channel::Text, 2),
        ("response.refusal.delta", r#""content_index":1"#, Channel::Refusal, 1),
        ("response.reasoning_summary_text.delta", r#""summary_index":3"#, Channel::Summary, 3),
        ("response.reasoning_text.delta", r#""content_index":0"#, Channel::Reasoning, 0),
        ("response.function_call_arguments.delta", r#""x":1"#, Channel::Arguments, 0),
        ("response.custom_tool_call_input.delta", r#""x":1"#, Channel::Input, 0),
    ] {
        let data = format!(
            r#"{{"delta":"a\n",{extra},"sequence_number":9,"type":"{kind}","output_index":4}}"#
        );
        let event = decode(&data);
        assert_eq!((event.sequence_number, event.output_index), (Some(9), Some(4)));
        let text = Str::from_plain("a").unwrap();
        let EventKind::Delta { channel: found, at: place, text: piece } = event.kind else {
            panic!("{kind}")
        };
        assert_eq!((found, place), (channel, at), "{kind}");
        assert!(piece == "a\n" && text == "a");
    }
    let done = r#"{"type":"response.refusal.done","refusal":"no","text":"x"}"#;
    assert!(matches!(
        decode(done).kind,
        EventKind::Done { channel: Channel::Refusal, text, .. } if text == "no"
    ));
}

#[test]
fn the_frames_name_counts_where_the_data_has_no_type() {
    let event = Event::from_data("response.refusal.delta", r#"{"delta":"a"}"#).unwrap();
    assert!(matches!(event.kind, EventKind::Delta { channel: Channel::Refusal, .. }));
    let event = Event::from_data("ping", r#"{"type":"response.output_text.delta","delta":"a"}"#);
    assert!(matches!(event.unwrap().kind, EventKind::Delta { .. }));
}

#[test]
fn an_error_is_flat_or_nested() {
    for data in [
        r#"{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null,"sequence_number":3}"#,
        r#"{"error":{"type":"x","code":"rate_limit_exceeded","message":"slow","param":null},"type":"error","sequence_number":3}"#,
    ] {
        let event = decode(data);
        let EventKind::Error(error) = event.kind else { panic!("{data}") };
        assert!(error.code == "rate_limit_exceeded" && error.message == "slow", "{data}");
        assert_eq!(event.sequence_number, Some(3));
    }
}

#[test]
fn a_failed_response_says_why() {
    let data = r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"boom"},"output":[],"usage":{"input_tokens":3}}}"#;
    let EventKind::Response { phase, response } = decode(data).kind else { panic!() };
    assert!(phase.is_last() && phase.event_type() == "response.failed");
    assert_eq!(response.error.unwrap().code, "server_error");
    assert_eq!((response.output, response.usage.unwrap().tokens.input), ("[]", 3));
}

#[test]
fn built_in_tools_progress_is_known_and_the_unknown_is_not_an_error() {
    for kind in [
        "response.web_search_call.searching",
        "response.mcp_call.failed",
        "response.mcp_call_arguments.done",
        "response.shell_call_output_content.delta",
        "response.image_generation_call.partial_image",
    ] {
        let data = format!(r#"{{"type":"{kind}","output_index":1}}"#);
        let event = decode(&data);
        assert!(matches!(event.kind, EventKind::Progress { .. }), "{kind}");
        assert_eq!(event.output_index, Some(1));
    }
    for data in [
        r#"{"type":"response.new_thing","output_index":1}"#,
        r#"{"type":"response.output_text.delta"}"#,
        r#"{"type":"response.output_item.added","item":3}"#,
        r#"{"type":"response.completed","response":null}"#,
        r#"{"x":1}"#,
    ] {
        assert!(matches!(decode(data).kind, EventKind::Unknown { .. }), "{data}");
    }
    assert!(matches!(decode(r#"{"type":"keepalive"}"#).kind, EventKind::Ping));
    assert!(Event::from_data("", "[DONE]").is_err());
}

#[test]
fn items_are_told_apart() {
    let kind = |item: &'static str| {
        let data = format!(r#"{{"type":"response.output_item.done","item":{item}}}"#).leak();
        let EventKind::ItemDone(found) = decode(data).kind else { panic!() };
        assert_eq!(found.raw, item);
        found.kind
    };
    assert!(matches!(
        kind(r#"{"type":"custom_tool_call","input":"a","arguments":"b"}"#),
        StreamItemKind::Call { arguments, custom: true, .. } if arguments == "a"
    ));
    assert!(matches!(
        kind(r#"{"arguments":"{}","namespace":"n","type":"function_call"}"#),
        StreamItemKind::Call { namespace: Some(_), custom: false, .. }
    ));
    assert!(matches!(
        kind(r#"{"type":"reasoning","encrypted_content":null}"#),
        StreamItemKind::Reasoning { encrypted: false }
    ));
    assert!(matches!(kind(r#"{"type":"program"}"#), StreamItemKind::Other { .. }));
}
