use std::{cell::Cell, fmt::Write};

use super::*;

thread_local! {
    /// The counter of `markup::count_examined`.
    pub(super) static LOOKED: Cell<usize> = const { Cell::new(0) };
}

fn tags() -> Tags {
    Tags::new(["use_tool", "read_file"]).unwrap()
}

/// Returns the number of bytes examined or moved to shape a text in chunks of this size.
fn work(text: &str, chunk: usize, shape: &Shape) -> usize {
    LOOKED.with(|count| count.set(0));
    let mut shaper = Shaper::new(shape.clone());
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(rest.ceil_char_boundary(chunk.min(rest.len())));
        shaper.push(head, &mut |_| {}).unwrap();
        rest = tail;
    }
    shaper.finish(&mut |_| {}).unwrap();
    LOOKED.with(Cell::get)
}

#[test]
fn hostile_text_costs_in_proportion_to_its_length() {
    let mut shape = Shape::watch_only(tags());
    shape.held_limit = 1 << 24;
    shape.suppress_tail = true;
    shape.drop_repeated = true;
    let call = "<use_tool>{\"name\":\"a\"}</use_tool>";
    for part in HOSTILE {
        for before in
            ["", "<use_tool>", "<use_tool>[", "<use_tool><a>", call, "```\n", "<use_tool a=\""]
        {
            for chunk in [1, 13, 1 << 20] {
                let text = |bytes: usize| format!("{before}{}", part.repeat(bytes / part.len()));
                let (short, long) = (text(20_000), text(80_000));
                let (less, more) = (work(&short, chunk, &shape), work(&long, chunk, &shape));
                let case = format!("{part:?} behind {before:?} in chunks of {chunk}");
                // Four times the text needs about four times the work. Quadratic work would be
                // sixteen times.
                assert!(more <= 5 * less, "{case}: {less} and {more}");
                let most = if chunk == 1 { 160 } else { 16 };
                assert!(more <= most * long.len(), "{case}: {} per byte", more / long.len());
            }
        }
    }
}

const HOSTILE: &[&str] = &[
    "<",
    "<use_tool",
    "<use_tool ",
    "<use_tool a=\"",
    "<use_tool a='b\"",
    "<use_tool>",
    "<use_tool>[\"</use_tool>",
    "<use_tool>[\"</use_tool><use_tool>\",\"",
    "<use_tool><a>",
    "<use_tool><a>[</a>",
    "<use_tool><a>[\"</a></use_tool>",
    "<a>",
    "<a><a/>",
    "<a b=\"",
    "</",
    "</use_tool",
    "</use_tool ",
    "`",
    "\n```",
    "\n``` x",
    "\n``` `",
    "\n~~~ ",
    "```",
    "~",
    "\n",
    "\n   ",
    " ",
    "\n<think>",
    "</think",
    "\n[",
    "\nTool 'x",
    "\n[a for 'b",
    "\n**",
    "\"",
    "\\",
    "[",
    "[\"",
    "{\"a\":",
    "],",
    "<![CDATA[",
    "]]",
    "]]>",
    "é",
    "<use_tool></use_tool>",
    "<use_tool>a</use_tool>\nb",
];

fn call_of(block: &str) -> Result<TextCall, MalformedCall> {
    let reading = parse_text(block, &tags());
    assert_eq!(reading.blocks.len(), 1, "{block}");
    assert_eq!(reading.blocks[0].span.len(), block.len());
    reading.blocks[0].call.clone()
}

#[test]
fn the_common_forms_of_a_call_are_read() {
    let arguments = r#"{"path": "a.txt", "limit": 5, "tags": ["x", {"y": "</p>"}]}"#;
    for block in [
        format!(r#"<use_tool>{{"name":"read","arguments":{arguments}}}</use_tool>"#),
        format!(r#"<use_tool>{{"tool":"read","input":{arguments}}}</use_tool>"#),
        format!(r#"<use_tool> [{{"tool_name":"read","parameters":{arguments}}}] </use_tool>"#),
        format!(
            "<use_tool>\n```json\n{{\"name\":\"read\",\"args\":{arguments}}}\n```\n</use_tool>"
        ),
        format!(
            r#"<use_tool>{{"type":"function","function":{{"name":"read","arguments":{arguments}}}}}</use_tool>"#
        ),
        format!(r#"<use_tool>{{"name":"read","arguments":{}}}</use_tool>"#, quoted(arguments)),
        format!(r#"<use_tool>{{"name":"read", {}</use_tool>"#, &arguments[1..]),
        format!(r#"<use_tool name="read">{arguments}</use_tool>"#),
        format!("<use_tool name='read'>\n```\n{arguments}\n```\n</use_tool>"),
        format!(r#"<use_tool name="read">{{"name":"read","arguments":{arguments}}}</use_tool>"#),
        format!(r#"<use_tool name="read"><arguments>{arguments}</arguments></use_tool>"#),
        format!("<use_tool><name> read </name><arguments>{arguments}</arguments></use_tool>"),
        format!(
            "<use_tool>\n <tool_name>read</tool_name>\n <input>\n{arguments}\n</input>\n</use_tool>"
        ),
    ] {
        let call = call_of(&block).unwrap();
        let expected = ("read", json(arguments));
        assert_eq!((call.name.as_str(), json(&call.input.to_json())), expected, "{block}");
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn parameter_elements_are_texts_as_written() {
    let block = "<use_tool>\n<name>edit</name>\n<path>a.rs</path>\n<old>\n  if a < b {\n</old>\n\
                 <new><![CDATA[</new></use_tool>]]></new>\n<list>[\"a\", \"b\"]</list>\n\
                 <parameter name=\"all\">true</parameter>\n<empty/>\n<p>1</p><p>&lt;2</p>\n</use_tool>";
    let call = call_of(block).unwrap();
    assert_eq!(call.name, "edit");
    let expected = serde_json::json!({
        "path": "a.rs", "old": "  if a < b {", "new": "</new></use_tool>", "list": ["a", "b"],
        "all": "true", "empty": "", "p": ["1", "&lt;2"],
    });
    assert_eq!(json(&call.input.to_json()), expected);
    let TextCallInput::Texts(texts) = &call.input else { panic!("texts") };
    assert_eq!(texts[3], ("list".to_owned(), "[\"a\", \"b\"]".to_owned()));
    let nested = "<use_tool name=\"q\"><parameters><a>1</a><b><c>2</c></b></parameters></use_tool>";
    let expected = serde_json::json!({"a": "1", "b": "<c>2</c>"});
    assert_eq!(json(&call_of(nested).unwrap().input.to_json()), expected);
}

#[test]
fn a_tag_that_is_no_general_one_names_the_tool() {
    let call = call_of("<read_file>\n<path>a</path>\n<name>n</name>\n</read_file>").unwrap();
    assert_eq!(call.name, "read_file");
    assert_eq!(json(&call.input.to_json()), serde_json::json!({"path": "a", "name": "n"}));
    let call = call_of("<read_file>{\"path\":\"a\"}</read_file>").unwrap();
    assert_eq!((call.name.as_str(), &*call.input.to_json()), ("read_file", "{\"path\":\"a\"}"));
    assert_eq!(call_of("<read_file/>").unwrap().name, "read_file");
    // A tag with a custom name, with whole calls inside.
    for block in [
        "<read_file>{\"name\":\"ls\",\"arguments\":{}}</read_file>",
        "<read_file><name>ls</name><arguments>{}</arguments></read_file>",
    ] {
        assert_eq!(call_of(block).unwrap().name, "ls");
    }
}

#[test]
fn a_line_break_in_a_string_becomes_an_escape() {
    let call =
        call_of("<use_tool>{\"name\":\"w\",\"arguments\":{\"t\":\"a\n\tb\\\"\n\"\n}}</use_tool>");
    let input = call.unwrap().input;
    assert_eq!(json(&input.to_json())["t"], "a\n\tb\"\n");
}

#[test]
fn each_way_to_be_malformed_has_its_reason() {
    for (block, expected) in [
        ("<use_tool/>", "Empty"),
        ("<use_tool> \n </use_tool>", "Empty"),
        ("<use_tool>[]</use_tool>", "Empty"),
        ("<use_tool>{}</use_tool>", "NoName"),
        ("<use_tool>{\"name\":\" \",\"arguments\":{}}</use_tool>", "NoName"),
        ("<use_tool>{\"function\":{\"function\":{}}}</use_tool>", "NoName"),
        ("<use_tool><path>a</path></use_tool>", "NoName"),
        ("<use_tool><name></name><path>a</path></use_tool>", "NoName"),
        ("<use_tool>ls(\"a\")</use_tool>", "Text"),
        ("<use_tool>{'name': 'ls'}</use_tool>", "Json"),
        ("<use_tool>{\"name\":\"ls\",}</use_tool>", "Json"),
        ("<use_tool>{\"name\":\"ls\"} and more</use_tool>", "Json"),
        ("<use_tool>{\"name\":\"w\",\"arguments\":{\"t\":\"say \"hi\"\"}}</use_tool>", "Json"),
        ("<use_tool><name>w</name><arguments>{\"t\":}</arguments></use_tool>", "Json"),
        ("<use_tool>{\"name\":\"ls\",\"arguments\":[1]}</use_tool>", "NotObject"),
        ("<use_tool>{\"name\":\"ls\",\"arguments\":\"5\"}</use_tool>", "NotObject"),
        ("<use_tool>[1]</use_tool>", "NotObject"),
        ("<use_tool>{\"name\":\"w\",\"arguments\":{\"t\":\"\\ud800\"}}</use_tool>", "Unreadable"),
        ("<use_tool>[{\"name\":\"a\"},{\"name\":\"b\"}]</use_tool>", "Several"),
        ("<use_tool>do <name>ls</name></use_tool>", "Text"),
        ("<use_tool><name>ls</name> now</use_tool>", "Stray"),
        ("<use_tool><use_tool><name>ls</name></use_tool>", "Stray"),
        ("<use_tool><read_file><name>ls</name></use_tool>", "Stray"),
        ("<use_tool><name>w</name><c>a</c>b</c></use_tool>", "Stray"),
    ] {
        let reason = call_of(block).unwrap_err();
        let name = format!("{reason:?}");
        assert_eq!(name.split('(').next(), Some(expected), "{block}");
        assert!(!reason.to_string().is_empty());
    }
    assert_eq!(
        parse_text("<use_tool>{", &tags()).first_malformed(),
        Some(&MalformedCall::Unclosed)
    );
}

#[test]
fn results_are_told_apart_by_tags_and_by_names() {
    let text = "<tool_use_result>\n  <name>ls</name>\n  <result>a\nb</result>\n</tool_use_result>\n\
                <tool_result name=\"cat\">x <tool_result> y</tool_result></tool_result>\n\
                And be quick.\n<use_tool_result/>";
    let found = parse_results(text, &tags());
    let expected = [
        TextResult { name: Some("ls"), content: "a\nb" },
        TextResult { name: Some("cat"), content: "x <tool_result> y</tool_result>" },
        TextResult { name: None, content: "" },
    ];
    assert_eq!((found.answers.as_slice(), found.apart), (&expected[..], true));
    let beside: Vec<_> = found.beside.iter().map(|span| span.slice_of(text).trim()).collect();
    assert_eq!(beside, ["And be quick."]);
    assert_eq!(found.line_at, text.len());

    let text = "<function_results>\n<result>\n<tool_name>ls</tool_name>\n<stdout>\na\n</stdout>\n\
                </result>\n<result><tool_name>cat</tool_name><stdout>b</stdout></result>\n\
                </function_results>";
    let names: Vec<_> =
        parse_results(text, &tags()).answers.iter().map(|a| (a.name, a.content)).collect();
    assert_eq!(names, [(Some("ls"), "a"), (Some("cat"), "b")]);

    let text = "Tool 'localSearch' result: {\"a\": 1}\n\nTool 'webSearch' result: two\nlines";
    let names: Vec<_> =
        parse_results(text, &tags()).answers.iter().map(|a| (a.name, a.content)).collect();
    assert_eq!(names, [(Some("localSearch"), "{\"a\": 1}"), (Some("webSearch"), "two\nlines")]);
}

#[test]
fn other_messages_are_one_result() {
    for text in
        ["", "3 files", "<p>x</p>", "<tool_result>never closed", "I have Tool 'x' result: y"]
    {
        let found = parse_results(text, &tags());
        assert_eq!(found.answers, [TextResult { name: None, content: text }]);
        assert!(!found.apart && found.beside.is_empty());
        assert_eq!(found.line_at, text.len());
    }
    let mut many = String::new();
    for _ in 0..20_000 {
        write!(many, "<tool_result>").unwrap();
    }
    LOOKED.with(|count| count.set(0));
    assert!(!parse_results(&many, &tags()).apart);
    assert!(LOOKED.with(Cell::get) < 16 * many.len());
}

#[test]
fn blocks_say_what_they_are() {
    let reading = parse_text("<use_tool a='1' b=2 >x<use_tool/></use_tool\n>", &tags());
    let block = reading.blocks[0].block;
    assert_eq!((block.tag(), block.opening()), ("use_tool", "<use_tool a='1' b=2 >"));
    assert_eq!((block.inner(), block.count_nested(&tags())), ("x<use_tool/>", 1));
    let found: Vec<_> = markup::split_attributes(block.opening()).collect();
    assert_eq!(found, [("a", "1"), ("b", "2")]);
}

#[test]
fn the_shape_that_watches_changes_nothing() {
    let shape = Shape::watch_only(tags());
    assert_eq!(shape.stop_after, StopAfter::Off);
    let mut shaper = Shaper::new(shape);
    let mut out = String::new();
    let mut sink = |piece: ShapedPiece<'_>| out.push_str(piece.forward_text().unwrap_or_default());
    shaper.push("a <use_tool>x</use_tool>\nTool result: b <use_tool>", &mut sink).unwrap();
    let summary = shaper.finish(&mut sink).unwrap();
    assert_eq!(out, "a <use_tool>x</use_tool>\nTool result: b <use_tool>");
    assert!(summary.echo && summary.partial && summary.calls == 1);
}
