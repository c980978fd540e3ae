use super::*;
use crate::{Api, SpliceError};

/// A request around one user message's content.
fn body(content: &str) -> String {
    format!(r#"{{"model":"m", "messages":[ {{"role":"user","content":{content}}} ] }}"#)
}

/// Makes `edit` on a body with this content; returns the content afterwards, and checks that all
/// around it is untouched.
fn edited(content: &str, edit: impl FnOnce(&mut Splice, &Message<'_>)) -> String {
    let before = body(content);
    let request = Request::scan(before.as_bytes()).unwrap();
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
        let request = Request::scan(body.as_bytes()).unwrap();
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
        let request = Request::scan(body.as_bytes()).unwrap();
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
