use super::*;
use crate::{Api, SpliceError};

/// Returns a request around the content of one user message.
fn body(content: &str) -> String {
    format!(r#"{{"model":"m", "messages":[ {{"role":"user","content":{content}}} ] }}"#)
}

/// Makes `edit` on a body with this content. Returns the content afterwards, and checks that
/// everything around it is untouched.
fn edited(content: &str, edit: impl FnOnce(&mut Splice, &Message<'_>)) -> String {
    let before = body(content);
    let request = Request::from_body(Api::Anthropic, before.as_bytes()).unwrap();
    let mut splice = Splice::new();
    edit(&mut splice, &request.messages.list[0]);
    let after = String::from_utf8(splice.apply(before.as_bytes()).unwrap()).unwrap();
    let (head, tail) = before.split_once(content).unwrap();
    after.strip_prefix(head).unwrap().strip_suffix(tail).unwrap().to_owned()
}

fn with_result_line(block: &str) -> String {
    let content = edited(&format!("[{block}]"), |splice, message| {
        let Content::Blocks { blocks, .. } = &message.content else { panic!() };
        assert!(splice.append_to_result(Api::Anthropic, &blocks[0], "3 left"));
    });
    content.strip_prefix('[').unwrap().strip_suffix(']').unwrap().to_owned()
}

#[test]
fn a_line_ends_a_tool_result() {
    for (before, after) in [
        (
            r#"{"type":"tool_result","content":"a\\" , "x": 1}"#,
            r#"{"type":"tool_result","content":"a\\\n\n3 left" , "x": 1}"#,
        ),
        (r#"{"content":"","type":"tool_result"}"#, r#"{"content":"3 left","type":"tool_result"}"#),
        (
            r#"{"content":" \n","type":"tool_result"}"#,
            r#"{"content":" \n\n\n3 left","type":"tool_result"}"#,
        ),
        (
            r#"{"type":"tool_result","tool_use_id":"t" }"#,
            r#"{"type":"tool_result","tool_use_id":"t" ,"content":"3 left"}"#,
        ),
        (
            r#"{"content":null,"type":"tool_result"}"#,
            r#"{"content":"3 left","type":"tool_result"}"#,
        ),
        (
            r#"{"type":"tool_result","content":[ ]}"#,
            r#"{"type":"tool_result","content":[ {"type":"text","text":"3 left"}]}"#,
        ),
        (
            r#"{"type":"tool_result","content":[{"type":"image"} ]}"#,
            r#"{"type":"tool_result","content":[{"type":"image"},{"type":"text","text":"3 left"} ]}"#,
        ),
        (
            r#"{"type":"tool_result","content":[{"type":"text","text":"a"},{"text":"b","type":"text","cache_control":{}},{"type":"image"}]}"#,
            r#"{"type":"tool_result","content":[{"type":"text","text":"a"},{"text":"b\n\n3 left","type":"text","cache_control":{}},{"type":"image"}]}"#,
        ),
        (
            r#"{"type":"tool_result","content":[{"type":"text","text":""}]}"#,
            r#"{"type":"tool_result","content":[{"type":"text","text":"3 left"}]}"#,
        ),
    ] {
        assert_eq!(with_result_line(before), after);
    }
}

#[test]
fn only_tool_results_take_a_line() {
    let content = r#"[{"type":"text","text":"a"}]"#;
    let same = edited(content, |splice, message| {
        let Content::Blocks { blocks, .. } = &message.content else { panic!() };
        assert!(!splice.append_to_result(Api::Anthropic, &blocks[0], "x"));
        assert!(splice.is_empty());
    });
    assert_eq!(same, content);
}

#[test]
fn a_text_ends_a_message() {
    let with = |content: &str| {
        edited(content, |splice, m| splice.append_to_message(Api::Anthropic, m, "\"no\""))
    };
    assert_eq!(with(r#""hi""#), r#""hi\n\n\"no\"""#);
    assert_eq!(with(r#""""#), r#""\"no\"""#);
    let marked = |text| {
        format!(r#"[{{"type":"text","text":"{text}","cache_control":{{"type":"ephemeral"}}}}]"#)
    };
    assert_eq!(with(&marked("a")), marked(r#"a\n\n\"no\""#));
    let image = r#"{"type":"image","source":{},"cache_control":{"type":"ephemeral"}}"#;
    let added = r#"{"type":"text","text":"\"no\""}"#;
    assert_eq!(with(&format!("[{image}\n]")), format!("[{image},{added}\n]"));
    assert_eq!(with("[]"), format!("[{added}]"));
}

#[test]
fn members_are_replaced_or_added() {
    let set = |body: &str| {
        let request = Request::from_body(Api::Anthropic, body.as_bytes()).unwrap();
        let mut splice = Splice::new();
        splice.set_max_tokens(&request, 9);
        splice.set_tool_choice(&request, r#"{"type":"none"}"#);
        String::from_utf8(splice.apply(body.as_bytes()).unwrap()).unwrap()
    };
    assert_eq!(
        set(r#"{ "max_tokens": 5, "tool_choice":{"type":"auto"} ,"model":"m","messages":[]}"#),
        r#"{ "max_tokens": 9, "tool_choice":{"type":"none"} ,"model":"m","messages":[]}"#
    );
    assert_eq!(
        set(r#"{"model":"m","messages":[] }"#),
        r#"{"model":"m","messages":[] ,"max_tokens":9,"tool_choice":{"type":"none"}}"#
    );
}

#[test]
fn messages_are_added_at_the_end() {
    let add = |body: &str, twice: bool| {
        let request = Request::from_body(Api::Anthropic, body.as_bytes()).unwrap();
        let mut splice = Splice::new();
        splice.append_messages(&request, &["{\"role\":\"user\"}", "{}"]);
        splice.append_messages::<&str>(&request, &[]);
        if twice {
            splice.append_messages(&request, &["[]"]);
        }
        let after = splice.apply(body.as_bytes()).unwrap();
        String::from_utf8(after).unwrap()
    };
    let empty = r#"{"model":"m","messages":[ ]}"#;
    assert_eq!(add(empty, false), r#"{"model":"m","messages":[ {"role":"user"},{}]}"#);
    assert_eq!(add(empty, true), r#"{"model":"m","messages":[ {"role":"user"},{},[]]}"#);
    let one = r#"{"model":"m","messages":[{"role":"user","content":"x"} ]}"#;
    let expected =
        r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"user"},{},[] ]}"#;
    assert_eq!(add(one, true), expected);
}

/// Returns a request around one message or item.
fn around(api: Api, message: &str) -> String {
    let list = if api == Api::Responses { "input" } else { "messages" };
    format!(r#"{{"model":"m", "{list}":[ {message} ] }}"#)
}

/// Makes `edit` on a body.
fn with(api: Api, before: &str, edit: impl FnOnce(&mut Splice, &Request<'_>)) -> String {
    let request = Request::from_body(api, before.as_bytes()).unwrap();
    let mut splice = Splice::new();
    edit(&mut splice, &request);
    String::from_utf8(splice.apply(before.as_bytes()).unwrap()).unwrap()
}

/// Each message or item before, and as it must be once its result has a line.
fn check_results(api: Api, cases: &[(&str, &str)]) {
    for (before, after) in cases {
        let found = with(api, &around(api, before), |splice, request| {
            let Content::Blocks { blocks, .. } = &request.messages.list[0].content else {
                panic!("{before}")
            };
            assert_eq!(splice.append_to_result(api, &blocks[0], "3 left"), before != after);
        });
        assert_eq!(found, around(api, after), "{before}");
    }
}

/// Each message or item before, and as it must be with a text.
fn check_messages(api: Api, cases: &[(&str, &str)]) {
    for (before, after) in cases {
        let found = with(api, &around(api, before), |splice, request| {
            splice.append_to_message(api, &request.messages.list[0], "b");
        });
        assert_eq!(found, around(api, after), "{before}");
    }
}

#[test]
fn a_line_ends_a_chats_tool_message() {
    check_results(
        Api::Chat,
        &[
            (
                r#"{"role":"tool","content":"found \"x\""}"#,
                r#"{"role":"tool","content":"found \"x\"\n\n3 left"}"#,
            ),
            (r#"{"role":"tool","content":""}"#, r#"{"role":"tool","content":"3 left"}"#),
            (r#"{"role":"tool","content":null}"#, r#"{"role":"tool","content":"3 left"}"#),
            (r#"{"role":"tool"}"#, r#"{"role":"tool","content":"3 left"}"#),
            (
                r#"{"role":"tool","content":[]}"#,
                r#"{"role":"tool","content":[{"type":"text","text":"3 left"}]}"#,
            ),
            (
                r#"{"role":"function","content":[{"type":"text","text":"a"},{"type":"image_url"}]}"#,
                r#"{"role":"function","content":[{"type":"text","text":"a\n\n3 left"},{"type":"image_url"}]}"#,
            ),
        ],
    );
}

#[test]
fn a_line_ends_an_output() {
    check_results(
        Api::Responses,
        &[
            (
                r#"{"type":"function_call_output","output":"a\\" , "x": 1}"#,
                r#"{"type":"function_call_output","output":"a\\\n\n3 left" , "x": 1}"#,
            ),
            (
                r#"{"output":"","type":"custom_tool_call_output"}"#,
                r#"{"output":"3 left","type":"custom_tool_call_output"}"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c" }"#,
                r#"{"type":"function_call_output","call_id":"c" ,"output":"3 left"}"#,
            ),
            (
                r#"{"output":null,"type":"function_call_output"}"#,
                r#"{"output":"3 left","type":"function_call_output"}"#,
            ),
            (
                r#"{"type":"function_call_output","output":[ ]}"#,
                r#"{"type":"function_call_output","output":[ {"type":"input_text","text":"3 left"}]}"#,
            ),
            (
                r#"{"type":"function_call_output","output":[{"type":"input_text","text":"a"},{"type":"input_image"} ]}"#,
                r#"{"type":"function_call_output","output":[{"type":"input_text","text":"a\n\n3 left"},{"type":"input_image"} ]}"#,
            ),
            (
                r#"{"type":"function_call_output","output":{"a":1}}"#,
                r#"{"type":"function_call_output","output":{"a":1}}"#,
            ),
            (
                r#"{"type":"function_call","call_id":"c","arguments":"{}"}"#,
                r#"{"type":"function_call","call_id":"c","arguments":"{}"}"#,
            ),
        ],
    );
}

#[test]
fn a_text_ends_a_chats_message() {
    check_messages(
        Api::Chat,
        &[
            (r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"a\n\nb"}"#),
            (
                r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"a\n\nb"}]}"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"file"} ]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"file"},{"type":"text","text":"b"} ]}"#,
            ),
            (r#"{"role":"user"}"#, r#"{"role":"user","content":"b"}"#),
            (
                r#"{"role":"user","content":null}"#,
                r#"{"role":"user","content":null,"content":"b"}"#,
            ),
            (r#"{"role":"assistant","content":"a"}"#, r#"{"role":"assistant","content":"a\n\nb"}"#),
            (
                r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#,
                r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#,
            ),
            (r#"{"role":"tool","content":"a"}"#, r#"{"role":"tool","content":"a"}"#),
        ],
    );
}

#[test]
fn a_text_ends_an_items_message() {
    check_messages(
        Api::Responses,
        &[
            (r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"a\n\nb"}"#),
            (
                r#"{"role":"user","content":[{"type":"input_text","text":"a"}]}"#,
                r#"{"role":"user","content":[{"type":"input_text","text":"a\n\nb"}]}"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"}]}"#,
                r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"},{"type":"input_text","text":"b"}]}"#,
            ),
            (r#"{"role":"user"}"#, r#"{"role":"user","content":"b"}"#),
            (
                r#"{"role":"assistant","content":[{"type":"output_text","text":"a"}]}"#,
                r#"{"role":"assistant","content":[{"type":"output_text","text":"a\n\nb"}]}"#,
            ),
            (r#"{"type":"reasoning","id":"r"}"#, r#"{"type":"reasoning","id":"r"}"#),
            (
                r#"{"type":"function_call_output","output":"a"}"#,
                r#"{"type":"function_call_output","output":"a"}"#,
            ),
        ],
    );
}

#[test]
fn items_go_behind_any_input() {
    let item = r#"{"type":"item_reference","id":"x"}"#;
    let add = |before: &str| {
        with(Api::Responses, before, |splice, request| {
            splice.append_messages(request, &[item, item]);
        })
    };
    assert_eq!(
        add(r#"{"model":"m","input":"hi\n" }"#),
        format!(r#"{{"model":"m","input":[{{"role":"user","content":"hi\n"}},{item},{item}] }}"#)
    );
    assert_eq!(
        add(r#"{"model":"m","input":[ {"a":1} ]}"#),
        format!(r#"{{"model":"m","input":[ {{"a":1}},{item},{item} ]}}"#)
    );
    assert_eq!(
        add(r#"{"input":[ ],"model":"m"}"#),
        format!(r#"{{"input":[ {item},{item}],"model":"m"}}"#)
    );
    let expected = format!(r#"{{"model":"m","input":[{item},{item}]}}"#);
    assert_eq!(add(r#"{"model":"m"}"#), expected);
    assert_eq!(add(r#"{"model":"m","input":null}"#), expected);
    // A message without content is not in the view, and it keeps its position.
    let silent = r#"{"role":"user","content":"hi"},{"role":"assistant","content":[]}"#;
    assert_eq!(
        add(&format!(r#"{{"model":"m","input":[{silent} ]}}"#)),
        format!(r#"{{"model":"m","input":[{silent},{item},{item} ]}}"#)
    );
    let same = with(Api::Responses, r#"{"model":"m"}"#, |splice, request| {
        splice.append_messages::<&str>(request, &[]);
    });
    assert_eq!(same, r#"{"model":"m"}"#);
}

#[test]
fn a_string_input_takes_text_and_items() {
    let after = with(Api::Responses, r#"{"model":"m","input":"hi"}"#, |splice, request| {
        // The body ends with the string.
        splice.set_tool_choice(request, "1");
        splice.append_messages(request, &["{}"]);
        splice.append_to_message(Api::Responses, &request.messages.list[0], "3 left");
    });
    assert_eq!(
        after,
        r#"{"model":"m","input":[{"role":"user","content":"hi\n\n3 left"},{}],"tool_choice":1}"#
    );
}

#[test]
fn limits_go_where_the_protocol_has_them() {
    for (api, tail, expected) in [
        (Api::Chat, r#","messages":[],"max_tokens":9"#, r#""max_tokens":77"#),
        (Api::Chat, r#","messages":[],"max_completion_tokens":9"#, r#""max_completion_tokens":77"#),
        (Api::Chat, r#","messages":[]"#, r#""max_tokens":77"#),
        (Api::Responses, r#","max_output_tokens":90"#, r#""max_output_tokens":77"#),
        (Api::Responses, "", r#""max_output_tokens":77"#),
    ] {
        let body = format!(r#"{{"model":"m"{tail}}}"#);
        let got = with(api, &body, |splice, request| splice.set_max_tokens(request, 77));
        assert!(got.contains(expected), "{got}");
        assert_eq!(Request::from_body(api, got.as_bytes()).unwrap().max_tokens.unwrap().value, 77);
    }
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
    let body = |tail: &str| format!(r#"{{ "model":"m", "messages":[]{tail} }}"#);
    for (before, after) in cases {
        let got = with(Api::Chat, &body(before), |splice, request| {
            let edits =
                splice.request_stream_usage(request.text, request.span, request.stream_options);
            assert_eq!(edits, after.is_some(), "{before}");
        });
        // A new member goes after the space at the object's end.
        let new = after.is_some_and(|after| after.contains(" ,"));
        let expected = body(after.unwrap_or(before));
        let expected = if new { expected.replace(" }", "}") } else { expected };
        assert_eq!(got, expected, "{before}");
        let again = crate::chat::RequestBody::from_body(got.as_bytes()).unwrap();
        assert!(again.includes_usage(), "{got}");
    }
}

#[test]
fn edits_come_in_any_order_and_must_not_overlap() {
    let apply = |edits: &[(usize, usize, &str)]| {
        let mut splice = Splice::new();
        for &(start, end, with) in edits {
            splice.replace(Span::new(start, end), with);
        }
        splice.apply(b"0123456789").map(|out| String::from_utf8(out).unwrap())
    };
    assert_eq!(apply(&[]).unwrap(), "0123456789");
    assert_eq!(apply(&[(8, 9, "x"), (0, 2, ""), (5, 5, "<"), (5, 5, ">")]).unwrap(), "234<>567x9");
    assert_eq!(apply(&[(3, 6, "r"), (3, 3, "i"), (6, 6, "j")]).unwrap(), "012irj6789");
    assert_eq!(apply(&[(10, 10, "!")]).unwrap(), "0123456789!");
    assert_eq!(apply(&[(2, 5, ""), (4, 6, "")]), Err(SpliceError::Overlap { at: 4 }));
    assert_eq!(apply(&[(2, 5, ""), (3, 3, "x")]), Err(SpliceError::Overlap { at: 3 }));
    assert_eq!(apply(&[(9, 11, "")]), Err(SpliceError::OutOfRange { at: 9 }));
    assert_eq!(apply(&[(11, 11, "")]), Err(SpliceError::OutOfRange { at: 11 }));
    assert_eq!(apply(&[(5, 4, "")]), Err(SpliceError::OutOfRange { at: 5 }));
}
