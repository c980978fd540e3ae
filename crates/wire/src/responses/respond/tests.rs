use super::*;
use crate::{
    Tokens, json,
    responses::{
        Assembler, Event, OutputKind, Response, StreamEnd, Usage,
        request::{ItemKind, RequestBody, RequestRole},
        response::Finished,
    },
    sse::Decoder,
};

fn fold(stream: &[u8]) -> Finished {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream);
    decoder.finish();
    let mut assembler = Assembler::new(1 << 20);
    let mut sequence = 0;
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        let event = Event::from_data(frame.event, &frame.data).unwrap();
        assert_eq!(event.sequence_number, Some(sequence), "{}", frame.data);
        assert!(frame.data.contains(&format!(r#""type":"{}""#, frame.event)));
        sequence += 1;
        assembler.push(&event).unwrap();
    }
    assembler.finish()
}

fn usage() -> Usage {
    let tokens =
        Tokens { input: 10, output: 5, cache_read: 60, cache_write_5m: 30, ..Tokens::default() };
    Usage { tokens, reasoning: 2 }
}

const HEAD: Head<'static> =
    Head { id: "resp_1", model: "m \"x\"", created_at: 7, previous_response_id: None };

#[test]
fn a_stream_of_our_own_reads_as_written() {
    let (mut out, mut sequence) = (Vec::new(), 0);
    write_head(
        &mut out,
        &mut sequence,
        &format_response(&HEAD, ResponseEnd::InProgress, &[], None),
    );
    write_text_item(&mut out, &mut sequence, 0, "msg_1", "Done \"x\"\n");
    write_call_item(&mut out, &mut sequence, 1, "fc_1", ("call_1", "f", r#"{"a":1}"#));
    let items =
        [text_item("msg_1", "Done \"x\"\n"), call_item("fc_1", "call_1", "f", r#"{"a":1}"#)];
    let output: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    let usage = usage();
    let whole = format_response(&HEAD, ResponseEnd::Completed, &output, Some(&usage));
    write_end(&mut out, &mut sequence, &Status::Completed, &whole);

    let finished = fold(&out);
    assert_eq!((finished.strays, finished.restarts), (0, 0));
    assert_eq!(finished.end, StreamEnd::Stop);
    assert_eq!(finished.response, Response::from_json(whole.as_bytes()).unwrap());
    let r = finished.response;
    assert_eq!((r.id.as_str(), r.model.as_str(), r.created_at), ("resp_1", "m \"x\"", Some(7)));
    assert_eq!(
        (r.text().as_str(), r.usage, r.status),
        ("Done \"x\"\n", usage, Some(Status::Completed))
    );
    let OutputKind::Call { complete, name, .. } = &r.items[1].kind else { panic!() };
    assert!(*complete && name == "f" && sequence == 13);
}

#[test]
fn every_end_is_written() {
    let failure = Failure {
        kind: "t".to_owned(),
        code: "server_error".to_owned(),
        message: "boom".to_owned(),
    };
    for end in [ResponseEnd::Incomplete("max_output_tokens"), ResponseEnd::Failed(&failure)] {
        let (mut out, mut sequence) = (Vec::new(), 0);
        write_head(
            &mut out,
            &mut sequence,
            &format_response(&HEAD, ResponseEnd::InProgress, &[], None),
        );
        write_end(&mut out, &mut sequence, &end.status(), &format_response(&HEAD, end, &[], None));
        let finished = fold(&out);
        assert_eq!(finished.response.status, Some(end.status()));
        match end {
            ResponseEnd::Failed(_) => {
                assert!(matches!(finished.end, StreamEnd::Error(f) if f.message == "boom"));
            }
            _ => {
                let reason = finished.response.incomplete_reason;
                assert_eq!(reason.as_deref(), Some("max_output_tokens"));
            }
        }
    }
    let (mut out, mut sequence) = (Vec::new(), 0);
    write_error(&mut out, &mut sequence, &failure);
    let StreamEnd::Error(found) = fold(&out).end else { panic!() };
    assert_eq!((found.code, found.message), (failure.code, failure.message));
}

#[test]
fn every_channel_is_written_as_it_is_read() {
    for channel in [
        Channel::Text,
        Channel::Refusal,
        Channel::Summary,
        Channel::Reasoning,
        Channel::Arguments,
        Channel::Input,
    ] {
        for step in ["delta", "done"] {
            let (mut out, mut sequence) = (Vec::new(), 3);
            write_piece(&mut out, &mut sequence, channel, step, 6, "id", "é\"");
            let mut decoder = Decoder::new(4096);
            decoder.push(&out);
            let frame = decoder.next().unwrap().unwrap();
            let event = Event::from_data(frame.event, &frame.data).unwrap();
            assert_eq!(
                (event.sequence_number, event.output_index, sequence),
                (Some(3), Some(6), 4)
            );
            let (found, text) = match event.kind {
                crate::responses::EventKind::Delta { channel, text, .. } if step == "delta" => {
                    (channel, text)
                }
                crate::responses::EventKind::Done { channel, text, .. } if step == "done" => {
                    (channel, text)
                }
                other => panic!("{other:?}"),
            };
            assert!(found == channel && text == "é\"");
        }
    }
    let (mut out, mut sequence) = (Vec::new(), 0);
    write_delta(&mut out, &mut sequence, Channel::Text, (0, "id"), "x");
    assert!(out.starts_with(b"event: response.output_text.delta\n"));
}

#[test]
fn changed_members_are_the_only_ones_that_change() {
    let before = r#"{ "id":"a", "new": [1,  2], "status":"incomplete","incomplete_details":{"reason":"x"}, "output":[{"type":"web_search_call"}],"usage":null}"#;
    let changes = Changes {
        status: Some(ResponseEnd::Completed),
        output: Some(&[br#"{"type":"message"}"#, b"{}"]),
        ..Changes::default()
    };
    assert_eq!(
        apply_changes(before, &changes).unwrap(),
        r#"{ "id":"a", "new": [1,  2], "status":"completed","incomplete_details":null, "output":[{"type":"message"},{}],"usage":null,"error":null}"#
    );
    assert_eq!(apply_changes(before, &Changes::default()).unwrap(), before);
    let all = Changes { id: Some("b"), previous_response_id: Some("p"), ..Changes::default() };
    assert_eq!(apply_changes(" {} ", &all).unwrap(), r#" {"id":"b","previous_response_id":"p"} "#);
    assert!(apply_changes("[]", &all).is_err());
}

#[test]
fn a_frame_is_renumbered_where_it_stands() {
    let numbers = Renumber {
        sequence_number: Some(12),
        output_index: Some(3),
        item_id: Some("i"),
        response_id: Some("r"),
    };
    let renumbered = |raw: &str| {
        let mut out = Vec::new();
        write_renumbered_event(&mut out, raw.as_bytes(), &numbers).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (before, after) in [
        (
            "event: e\r\ndata: { \"output_index\" : 0,\"item\":{\"x\":{\"id\":1},\"id\":\"a\"},\"sequence_number\":  9 } \r\nid: 4\r\n\r\n",
            "event: e\r\ndata: { \"output_index\" : 3,\"item\":{\"x\":{\"id\":1},\"id\":\"i\"},\"sequence_number\":  12 } \r\nid: 4\r\n\r\n",
        ),
        (
            "data: {\"response\":{\"id\":\"a\",\"output\":[{\"id\":\"b\"}]},\"item_id\":\"c\"}\n\n",
            "data: {\"response\":{\"id\":\"r\",\"output\":[{\"id\":\"b\"}]},\"item_id\":\"i\"}\n\n",
        ),
        (
            "event: e\ndata: {\"output_index\":\ndata: 0}\n\n",
            "event: e\ndata: {\"output_index\":\ndata: 3}\n\n",
        ),
        ("data: {\"output_index\":\"x\"}\n\n", "data: {\"output_index\":\"x\"}\n\n"),
        (": comment\n\n", ": comment\n\n"),
        ("data:\n\n", "data:\n\n"),
    ] {
        assert_eq!(renumbered(before), after);
    }
    let mut out = Vec::new();
    assert!(write_renumbered_event(&mut out, b"data: [DONE]\n\n", &numbers).is_err());
}

#[test]
fn input_items_of_our_own_are_items() {
    let items = [
        request_message(RequestRole::User, "a\n"),
        request_message(RequestRole::Assistant, "b"),
        function_call("c", "f", "{}"),
        function_call_output("c", "out \"x\""),
        custom_tool_call("d", "g", "any"),
        custom_tool_call_output("d", ""),
    ];
    let list = items.join(b",".as_slice());
    let body = [br#"{"model":"m","input":["#.as_slice(), &list, b"]}"].concat();
    let request = RequestBody::from_body(&body).unwrap();
    let kinds: Vec<_> = request.items().iter().map(|item| &item.kind).collect();
    assert!(matches!(
        &kinds[..],
        [
            ItemKind::Message { role: RequestRole::User, .. },
            ItemKind::Message { role: RequestRole::Assistant, .. },
            ItemKind::FunctionCall(call),
            ItemKind::FunctionCallOutput(output),
            ItemKind::CustomToolCall(_),
            ItemKind::CustomToolCallOutput(_),
        ] if call.name == "f" && output.call_id == "c"
    ));
}

#[test]
fn an_error_body_reads_as_an_error() {
    let body = error_body("invalid_request_error", "", "model", "no \"such\" model");
    json::check_text(std::str::from_utf8(&body).unwrap()).unwrap();
    let error = crate::responses::ApiError::from_response(400, &body);
    assert_eq!((error.message.as_str(), error.code.as_str()), ("no \"such\" model", ""));
    assert_eq!(error.param, "model");
}
