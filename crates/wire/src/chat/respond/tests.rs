//! The writers, tested against the readers.

use super::*;
use crate::{
    Splice,
    chat::{Assembler, CallKind, Event, Finished, ResponsePart, StreamEnd},
    json::Span,
    sse::Decoder,
};

const HEAD: Head<'_> = Head { id: "i\"", created: 7, model: "m" };

fn folded(stream: &[u8]) -> Finished {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream);
    decoder.finish();
    let mut assembler = Assembler::new(1 << 20);
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        assert!(!frame.cut, "{frame:?}");
        assembler.push(&Event::from_data(frame.event, &frame.data).unwrap()).unwrap();
    }
    assembler.finish()
}

fn call(id: &str, kind: CallKind, index: u32) -> Call {
    Call {
        id: id.to_owned(),
        name: "n\n".to_owned(),
        arguments: r#"{"a":"\""}"#.to_owned(),
        complete: true,
        index,
        kind,
        extra: [("extra_content".to_owned(), r#"{"g":1}"#.to_owned())].into(),
    }
}

fn whole() -> ResponseMessage {
    ResponseMessage {
        id: "i\"".to_owned(),
        created: 7,
        model: "m".to_owned(),
        text: "Hi \u{1F6EC}\n".to_owned(),
        refusal: Some("no".to_owned()),
        reasoning: "r".to_owned(),
        reasoning_content: Some("rc".to_owned()),
        reasoning_details: vec![r#"{"index":0}"#.to_owned(), r#"{"index":1}"#.to_owned()],
        calls: vec![call("c1", CallKind::Function, 0), call("c2", CallKind::Custom, 1)],
        finish: Some(Finish::ToolCalls),
        usage: Usage { present: true, reasoning: 2, cost_nano_usd: Some(5), ..Usage::default() },
        ..ResponseMessage::default()
    }
}

#[test]
fn a_written_stream_reads_as_what_was_meant() {
    let message = whole();
    let mut out = Vec::new();
    write_role(&mut out, HEAD);
    write_reasoning(&mut out, HEAD, "reasoning", "r");
    write_reasoning(&mut out, HEAD, "reasoning_content", "rc");
    write_reasoning_details(&mut out, HEAD, &message.reasoning_details);
    write_text(&mut out, HEAD, "Hi \u{1F6EC}");
    write_text(&mut out, HEAD, "\n");
    write_refusal(&mut out, HEAD, "no");
    write_call(&mut out, HEAD, 0, &message.calls[0]);
    write_call(&mut out, HEAD, 1, &message.calls[1]);
    write_finish(&mut out, HEAD, &Finish::ToolCalls);
    write_usage(&mut out, HEAD, &message.usage);
    write_done(&mut out);
    let finished = folded(&out);
    assert_eq!((finished.message, finished.end, finished.strays), (message, StreamEnd::Stop, 0));
}

#[test]
fn a_call_may_be_written_in_pieces() {
    let mut out = Vec::new();
    write_call_start(&mut out, HEAD, 3, "c", "f");
    write_call_arguments(&mut out, HEAD, 3, "{\"a\"");
    write_call_arguments(&mut out, HEAD, 3, ":1}");
    write_finish(&mut out, HEAD, &Finish::from_name("tool_calls"));
    write_done(&mut out);
    let calls = folded(&out).message.calls;
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].input(), calls[0].index, calls[0].complete), (r#"{"a":1}"#, 3, true));
}

#[test]
fn a_written_completion_reads_as_what_was_meant() {
    let cases = [
        whole(),
        ResponseMessage {
            parts: vec![
                ResponsePart::Thinking("r".to_owned()),
                ResponsePart::Text("Hi \u{1F6EC}\n".to_owned()),
            ],
            reasoning: "r".to_owned(),
            ..whole()
        },
        ResponseMessage { text: String::new(), native_finish: Some("x".to_owned()), ..whole() },
        ResponseMessage { finish: None, calls: Vec::new(), usage: Usage::default(), ..whole() },
        ResponseMessage { extra: [("annotations".to_owned(), "[1]".to_owned())].into(), ..whole() },
        ResponseMessage { finish: Some(Finish::Stop), ..ResponseMessage::default() },
    ];
    for message in cases {
        let mut out = Vec::new();
        write_completion(&mut out, &message);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(ResponseMessage::from_json(text.as_bytes()).unwrap(), message, "{text}");
    }
}

#[test]
fn errors_are_in_openais_shape() {
    let mut out = Vec::new();
    write_error(&mut out, "server_error", "it \"broke\"", Some("c"));
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "data: {\"error\":{\"message\":\"it \\\"broke\\\"\",\"type\":\"server_error\",\"param\":null,\"code\":\"c\"}}\n\n"
    );
    assert!(matches!(folded(&out).end, StreamEnd::Error(error) if error.message == "it \"broke\""));
    let body = error_body("invalid_request_error", "m", None);
    assert!(body.ends_with(br#""code":null}}"#));
}

#[test]
fn messages_are_written_whole() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(text(request_message("user", "a\"")), r#"{"role":"user","content":"a\""}"#);
    assert_eq!(
        text(tool_message("c", "r\n")),
        r#"{"role":"tool","tool_call_id":"c","content":"r\n"}"#
    );
}

fn rewritten(
    raw: &str,
    rewrite: &Rewrite<'_>,
    place: impl FnMut(&crate::chat::CallDelta<'_>) -> CallEdit,
) -> String {
    let mut out = Vec::new();
    write_rewritten(&mut out, raw.as_bytes(), rewrite, place).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn indexes_are_changed_and_nothing_else() {
    let raw = "event: x\r\ndata:{\"id\" : \"a\", \"choices\":[{\"delta\":{\"tool_calls\":[ {\"index\": 0 ,\"id\":\"c\"}, {\"id\":\"d\"} ]},\"index\":0}]} \r\n\r\n";
    let mut next = 5;
    let got = rewritten(raw, &Rewrite::default(), |_| {
        next += 1;
        CallEdit::At(next)
    });
    let expected = raw
        .replace("\"index\": 0 ,\"id\":\"c\"", "\"index\": 6 ,\"id\":\"c\"")
        .replace("{\"id\":\"d\"}", "{\"index\":7,\"id\":\"d\"}");
    assert_eq!(got, expected);
    assert_eq!(rewritten(raw, &Rewrite::default(), |_| CallEdit::Keep), raw);
}

#[test]
fn pieces_are_taken_out_and_with_the_last_the_list() {
    let raw = |calls: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"role\":\"assistant\"{calls}}}}}]}}\n\n")
    };
    let both = raw(r#","tool_calls":[{"index":0,"id":"c"},{"index":1,"id":"d"}]"#);
    let out = |id: &'static str| {
        rewritten(&both, &Rewrite::default(), move |call| match call.id {
            Some(found) if found == id || id == "all" => CallEdit::Out,
            _ => CallEdit::At(9),
        })
    };
    assert_eq!(out("c"), raw(r#","tool_calls":[{"index":9,"id":"d"}]"#));
    assert_eq!(out("d"), raw(r#","tool_calls":[{"index":9,"id":"c"}]"#));
    assert_eq!(out("all"), raw(""));
}

#[test]
fn heads_ends_and_text_are_changed_where_they_stand() {
    let raw = r#"data: {"id":"a","created":1,"model":"x","choices":[{"delta":{"content":"b\n"},"finish_reason":"stop"}]}"#;
    let rewrite = Rewrite {
        id: Some("i\""),
        created: Some(7),
        model: Some("m"),
        finish_reason: Some("null"),
        before_text: "\n\n",
        ..Rewrite::default()
    };
    let expected = r#"data: {"id":"i\"","created":7,"model":"m","choices":[{"delta":{"content":"\n\nb\n"},"finish_reason":null}]}"#;
    assert_eq!(rewritten(raw, &rewrite, |_| CallEdit::Keep), expected);
    // Missing members are not added, and no text is inserted before empty text.
    for raw in [
        "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":null}}],\"usage\":null}\n\n",
        "data: [DONE]\n\n",
        ": OPENROUTER PROCESSING\n\n",
        "event: ping\n\n",
    ] {
        assert_eq!(rewritten(raw, &rewrite, |_| CallEdit::Out), raw);
    }
    let mut out = Vec::new();
    write_with_id(&mut out, b"data: {\"id\":\"a\"}\n\n", "b").unwrap();
    assert_eq!(out, b"data: {\"id\":\"b\"}\n\n");
    assert!(write_with_id(&mut out, b"data: x\n\n", "b").is_err());
}

#[test]
fn data_of_several_lines_is_written_anew() {
    let raw = "event: e\ndata: {\"id\":\"a\",\ndata: \"created\":1}\n\n";
    let got = rewritten(raw, &Rewrite { id: Some("b"), ..Rewrite::default() }, |_| CallEdit::Keep);
    assert_eq!(got, "event: e\ndata: {\"id\":\"b\",\ndata: \"created\":1}\n\n");
    assert_eq!(rewritten(raw, &Rewrite::default(), |_| CallEdit::Keep), raw);
}

#[test]
fn spans_go_with_one_comma_each() {
    let spans = |text: &str, words: &[&str]| -> Vec<Span> {
        let span = |word: &&str| {
            let start = text.find(word).unwrap();
            Span::new(start, start + word.len())
        };
        words.iter().map(span).collect()
    };
    let check = |text: &str, words: &[&str], expected: &str| {
        let mut splice = Splice::new();
        for cut in rewrite::merge_cuts(text.as_bytes(), &spans(text, words)) {
            splice.replace(cut, "");
        }
        let got = splice.apply(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), expected, "{text} without {words:?}");
    };
    check("[1, 2, 3]", &["1"], "[ 2, 3]");
    check("[1, 2, 3]", &["2"], "[1, 3]");
    check("[1, 2, 3]", &["3"], "[1, 2]");
    check("[1, 2, 3]", &["1", "2"], "[ 3]");
    check("[1, 2, 3]", &["3", "1"], "[ 2]");
    check("[1 , 2 ,3]", &["2", "3", "2"], "[1 ]");
    check("[ 1,2,3 ]", &["1", "2", "3"], "[  ]");
    check(r#"{"a":1,"b":2}"#, &[r#""a":1"#], r#"{"b":2}"#);
}
