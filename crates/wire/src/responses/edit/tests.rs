use super::*;

fn body(item: &str) -> String {
    format!(r#"{{"model":"m", "input":[ {item} ] }}"#)
}

/// Makes `edit` on a body with this item; returns the item afterwards, and checks that all around
/// it is untouched.
fn edited(item: &str, edit: impl FnOnce(&mut Splice, &Item<'_>)) -> String {
    let before = body(item);
    let request = Request::scan(before.as_bytes()).unwrap();
    let mut splice = Splice::new();
    edit(&mut splice, &request.items()[0]);
    let after = String::from_utf8(splice.apply(before.as_bytes()).unwrap()).unwrap();
    let (head, tail) = before.split_once(item).unwrap();
    after.strip_prefix(head).unwrap().strip_suffix(tail).unwrap().to_owned()
}

/// Makes `edit` on a whole body.
fn with(before: &str, edit: impl FnOnce(&mut Splice, &Request<'_>)) -> String {
    let request = Request::scan(before.as_bytes()).unwrap();
    let mut splice = Splice::new();
    edit(&mut splice, &request);
    String::from_utf8(splice.apply(before.as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_line_ends_an_output() {
    for (before, after) in [
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
    ] {
        let found = edited(before, |splice, item| {
            assert!(append_to_output(splice, item, "3 left"));
        });
        assert_eq!(found, after);
    }
}

#[test]
fn other_items_take_no_line() {
    for item in [
        r#"{"role":"user","content":"a"}"#,
        r#"{"type":"function_call","call_id":"c","arguments":"{}"}"#,
        r#"{"type":"shell_call_output","output":[]}"#,
        r#"{"type":"function_call_output","output":{"a":1}}"#,
    ] {
        let same = edited(item, |splice, view| {
            assert!(!append_to_output(splice, view, "x"));
            assert!(splice.is_empty());
        });
        assert_eq!(same, item);
    }
    let call = r#"{"type":"function_call","call_id":"c"}"#;
    edited(call, |splice, item| assert!(!append_to_message(splice, item, "x")));
}

#[test]
fn a_text_ends_a_message() {
    for (before, after) in [
        (r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"a\n\nb"}"#),
        (
            r#"{"role":"user","content":[{"type":"input_text","text":"a"}]}"#,
            r#"{"role":"user","content":[{"type":"input_text","text":"a\n\nb"}]}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"}]}"#,
            r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image"},{"type":"input_text","text":"b"}]}"#,
        ),
        (
            r#"{"role":"assistant","content":[]}"#,
            r#"{"role":"assistant","content":[{"type":"output_text","text":"b"}]}"#,
        ),
        (r#"{"role":"user"}"#, r#"{"role":"user","content":"b"}"#),
    ] {
        let found = edited(before, |splice, item| assert!(append_to_message(splice, item, "b")));
        assert_eq!(found, after);
    }
}

#[test]
fn items_go_behind_any_input() {
    let item = r#"{"type":"item_reference","id":"x"}"#;
    let add = |before: &str| {
        with(before, |splice, request| {
            append_items(splice, request, &[item, item]);
        })
    };
    assert_eq!(
        add(r#"{"model":"m","input":"hi\n" }"#),
        format!(
            r#"{{"model":"m","input":[{{"type":"message","role":"user","content":"hi\n"}},{item},{item}] }}"#
        )
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
    let none: [&str; 0] = [];
    let same = with(r#"{"model":"m"}"#, |splice, request| append_items(splice, request, &none));
    assert_eq!(same, r#"{"model":"m"}"#);
}

#[test]
fn a_string_input_takes_text_and_items() {
    let after = with(r#"{"model":"m","input":"hi"}"#, |splice, request| {
        // The body ends where the string does.
        set_tool_choice(splice, request, "1");
        append_items(splice, request, &["{}"]);
        assert!(append_to_text_input(splice, request, "3 left"));
    });
    assert_eq!(
        after,
        r#"{"model":"m","input":[{"type":"message","role":"user","content":"hi\n\n3 left"},{}],"tool_choice":1}"#
    );
    with(r#"{"model":"m","input":[]}"#, |splice, request| {
        assert!(!append_to_text_input(splice, request, "x"));
    });
}

#[test]
fn members_are_set_or_added() {
    let after = with(
        r#"{"model":"m","tool_choice":{"type":"web_search"},"previous_response_id":"old","x":[1, 2]}"#,
        |splice, request| {
            set_tool_choice(splice, request, r#""none""#);
            set_max_output_tokens(splice, request, 5);
            set_previous_response_id(splice, request, "new\"");
            set_member(splice, request, "store", "true");
        },
    );
    assert_eq!(
        after,
        r#"{"model":"m","tool_choice":"none","previous_response_id":"new\"","x":[1, 2],"max_output_tokens":5,"store":true}"#
    );
}
