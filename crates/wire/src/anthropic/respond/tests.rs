use super::*;
use crate::{
    Tokens,
    anthropic::{Assembler, Event, StreamEnd},
    sse::Decoder,
};

fn events(stream: &[u8], mut each: impl FnMut(&Event<'_>)) {
    let mut decoder = Decoder::new(1 << 16);
    decoder.push(stream);
    decoder.finish();
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        assert!(!frame.cut);
        let event = Event::from_data("", &frame.data).unwrap();
        assert!(!matches!(event, Event::Unknown { .. }));
        each(&event);
    }
}

fn message() -> ResponseMessage {
    let tokens = Tokens { input: 5, output: 6, cache_read: 7, ..Tokens::default() };
    let stop_details = Some(r#"{"type":"refusal"}"#.to_owned());
    let body = br#"{"id":"msg_1","model":"m","content":[{"type":"text","text":"Limit \"30\"\n"},{"type":"tool_use","id":"t","name":"n","input":{"a":1}}]}"#;
    ResponseMessage {
        stop: Some(Stop::StopSequence),
        stop_sequence: Some("END".to_owned()),
        stop_details,
        usage: Usage { tokens, ..Usage::default() },
        ..ResponseMessage::from_json(body).unwrap()
    }
}

#[test]
fn a_written_stream_folds_to_its_message() {
    let message = message();
    let mut out = Vec::new();
    write_message_start(&mut out, &message.id, &message.model, &Usage::default());
    write_ping(&mut out);
    write_text_block(&mut out, 0, "Limit \"30\"\n");
    write_block_start(&mut out, 1, r#"{"type":"tool_use","id":"t","name":"n","input":{}}"#);
    write_input_json_delta(&mut out, 1, "{\"a\":1}");
    write_block_stop(&mut out, 1);
    let (sequence, details) = (message.stop_sequence.as_deref(), message.stop_details.as_deref());
    let stop = message.stop.as_ref().unwrap();
    write_message_delta(&mut out, stop, sequence, details, &message.usage);
    write_message_stop(&mut out);

    let mut assembler = Assembler::new(1 << 16);
    events(&out, |event| assembler.push(event).unwrap());
    let finished = assembler.finish();
    assert_eq!((finished.message, finished.end), (message, StreamEnd::Stop));
    assert_eq!((finished.restarts, finished.strays), (0, 0));
}

#[test]
fn a_written_message_reads_the_same() {
    let mut out = Vec::new();
    write_message(&mut out, &message());
    assert_eq!(ResponseMessage::from_json(&out).unwrap(), message());
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&value["type"], &value["role"]), (&"message".into(), &"assistant".into()));
    assert_eq!(value["content"][0]["text"], "Limit \"30\"\n");
}

#[test]
fn errors_are_written_as_the_api_does() {
    let mut out = Vec::new();
    write_error(&mut out, "api_error", "a \"b\"");
    events(&out, |event| {
        let Event::Error { kind, message } = event else { panic!("{event:?}") };
        assert_eq!((kind.raw(), message.unescape()), ("api_error", "a \"b\"".into()));
    });
    let body = error_body("api_error", "x", Some("req_1"));
    let error = crate::anthropic::ApiError::from_response(500, &body);
    assert_eq!((error.message.as_str(), error.request_id.as_deref()), ("x", Some("req_1")));
}

#[test]
fn another_index_changes_its_digits_only() {
    for (raw, index, expected) in [
        (
            "event: content_block_stop\r\nid: 1\r\ndata: {\"type\":\"content_block_stop\", \"index\" : 9 }   \r\n\r\n",
            10,
            "event: content_block_stop\r\nid: 1\r\ndata: {\"type\":\"content_block_stop\", \"index\" : 10 }   \r\n\r\n",
        ),
        (
            "data: {\"delta\":{\"index\":1,\"text\":\"\\\"index\\\":2\"},\"index\":3,\"type\":\"x\"}\n\n",
            0,
            "data: {\"delta\":{\"index\":1,\"text\":\"\\\"index\\\":2\"},\"index\":0,\"type\":\"x\"}\n\n",
        ),
        ("data: {\"type\": \"ping\"}\n\n", 4, "data: {\"type\": \"ping\"}\n\n"),
        (": comment\n\n", 4, ": comment\n\n"),
        ("data: {\"index\":-1}\n\n", 4, "data: {\"index\":-1}\n\n"),
        ("data: {\"index\":4294967296}\n\n", 4, "data: {\"index\":4294967296}\n\n"),
        (
            "event: e\ndata: {\"index\":\ndata: 1}\n\n",
            2,
            "event: e\ndata: {\"index\":\ndata: 2}\n\n",
        ),
    ] {
        let mut out = b"before".to_vec();
        write_reindexed(&mut out, raw.as_bytes(), index).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("before{expected}"));
    }
    assert!(write_reindexed(&mut Vec::new(), b"data: {\"index\":\n\n", 1).is_err());
}
