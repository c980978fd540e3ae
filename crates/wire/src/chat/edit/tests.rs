//! Edits, against what they must leave alone.

use super::*;

const LINE: &str = "2 tool calls remaining";

fn request(messages: &str, tail: &str) -> String {
    format!(r#"{{ "model":"m", "messages":[{messages}]{tail} }}"#)
}

fn edited(body: &str, edit: impl FnOnce(&mut Splice, &Request<'_>)) -> String {
    let request = Request::scan(body.as_bytes()).unwrap();
    let mut splice = Splice::new();
    edit(&mut splice, &request);
    String::from_utf8(splice.apply(body.as_bytes()).unwrap()).unwrap()
}

/// Each message before, and as it must be with a line.
fn check_lines(cases: &[(&str, &str)], add: fn(&mut Splice, &Message<'_>)) {
    for (before, after) in cases {
        let body = request(before, "");
        let got = edited(&body, |splice, request| add(splice, &request.messages.list[0]));
        assert_eq!(got, request(after, ""), "{before}");
    }
}

#[test]
fn a_line_goes_to_the_end_of_a_tool_message() {
    let cases = [
        (
            r#"{"role":"tool","content":"found \"x\""}"#,
            r#"{"role":"tool","content":"found \"x\"\n\n2 tool calls remaining"}"#,
        ),
        (
            r#"{"role":"tool","content":""}"#,
            r#"{"role":"tool","content":"2 tool calls remaining"}"#,
        ),
        (
            r#"{"role":"tool","content":null}"#,
            r#"{"role":"tool","content":"2 tool calls remaining"}"#,
        ),
        (r#"{"role":"tool"}"#, r#"{"role":"tool","content":"2 tool calls remaining"}"#),
        (
            r#"{"role":"tool","content":[]}"#,
            r#"{"role":"tool","content":[{"type":"text","text":"2 tool calls remaining"}]}"#,
        ),
        (
            r#"{"role":"function","content":[{"type":"text","text":"a"},{"type":"image_url"}]}"#,
            r#"{"role":"function","content":[{"type":"text","text":"a\n\n2 tool calls remaining"},{"type":"image_url"}]}"#,
        ),
    ];
    check_lines(&cases, |splice, message| {
        assert!(splice.append_to_tool_message(message, LINE));
    });
    let other = [(r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"a"}"#)];
    check_lines(&other, |splice, message| {
        assert!(!splice.append_to_tool_message(message, LINE));
    });
}

#[test]
fn a_line_goes_to_the_end_of_any_message() {
    let cases = [
        (
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"user","content":"a\n\n2 tool calls remaining"}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a\n\n2 tool calls remaining"}]}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"file"} ]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"file"},{"type":"text","text":"2 tool calls remaining"} ]}"#,
        ),
    ];
    check_lines(&cases, |splice, message| splice.append_to_chat_message(message, LINE));
}

#[test]
fn messages_go_behind_the_last() {
    let more = [r#"{"role":"user","content":"b"}"#, r#"{"role":"user","content":"c"}"#];
    let body = request(r#"{"role":"user","content":"a"} "#, "");
    let after = format!(r#"{{"role":"user","content":"a"}},{},{} "#, more[0], more[1]);
    let got = edited(&body, |splice, r| splice.append_chat_messages(r, &more));
    assert_eq!(got, request(&after, ""));
    let got = edited(&request("", ""), |splice, r| splice.append_chat_messages(r, &more));
    assert_eq!(got, request(&more.join(","), ""));
    let got = edited(&body, |splice, r| splice.append_chat_messages::<&str>(r, &[]));
    assert_eq!(got, body);
}

#[test]
fn usage_is_asked_for_and_other_options_stay() {
    let cases = [
        ("", Some(r#" ,"stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{ }"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (
            r#","stream_options":{"include_obfuscation":false}"#,
            Some(r#","stream_options":{"include_obfuscation":false,"include_usage":true}"#),
        ),
        (
            r#","stream_options":{"include_usage":false, "x":1}"#,
            Some(r#","stream_options":{"include_usage":true, "x":1}"#),
        ),
        (r#","stream_options":{"include_usage":true}"#, None),
        (
            r#","stream_options":null"#,
            Some(r#","stream_options":null ,"stream_options":{"include_usage":true}"#),
        ),
    ];
    for (before, after) in cases {
        let body = request("", before);
        let got = edited(&body, |splice, request| {
            assert_eq!(splice.include_chat_usage(request), after.is_some(), "{before}");
        });
        // A new member goes behind the space at the object's end.
        let new = after.is_some_and(|after| after.contains(" ,"));
        let expected = request("", after.unwrap_or(before));
        let expected = if new { expected.replace(" }", "}") } else { expected };
        assert_eq!(got, expected, "{before}");
        assert!(Request::scan(got.as_bytes()).unwrap().includes_usage(), "{got}");
    }
}

#[test]
fn limits_and_choices_are_replaced_or_added() {
    let limits = [
        (r#","max_tokens":9,"max_completion_tokens":8"#, (Some(5), Some(5))),
        (r#","max_tokens":9"#, (Some(5), None)),
        ("", (None, Some(5))),
    ];
    for (tail, expected) in limits {
        let got = edited(&request("", tail), |splice, request| {
            splice.set_chat_output_limit(request, 5, "max_completion_tokens");
        });
        let again = Request::scan(got.as_bytes()).unwrap();
        let value = |limit: Option<crate::chat::MaxTokens>| limit.map(|limit| limit.value);
        let found = (value(again.max_tokens), value(again.max_completion_tokens));
        assert_eq!(found, expected, "{got}");
    }
    for tail in ["", r#","tool_choice":"auto""#, r#","tool_choice":null"#] {
        let got = edited(&request("", tail), |splice, request| {
            splice.set_chat_tool_choice(request, r#""none""#);
        });
        let choice = Request::scan(got.as_bytes()).unwrap().tool_choice.unwrap().kind;
        assert_eq!(choice, crate::chat::ToolChoiceKind::None, "{got}");
    }
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
        splice.remove_chat_spans(text, &spans(text, words));
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
