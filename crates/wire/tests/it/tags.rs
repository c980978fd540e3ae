//! The shaper of text tool calls against a reference that reads whole texts, however they are
//! cut, and the behaviours b38–b40 and b49–b62.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod properties;
mod texts;

use std::num::NonZeroU32;

use crate::fuzz_bodies::tags as body;
use body::{
    Seeded, cut, off, on, own,
    reference::{self, Got, joined},
    shaped as run, shapes, tags,
};
use softland_wire::tags::{
    MalformedCall, PartialBlocks, Shape, ShapeError, ShapeSummary, ShapedPiece, Shaper, StopAfter,
    StopReason, Tags, parse_text,
};

/// Returns the text that reaches the client.
fn sent(shape: &Shape, text: &str) -> String {
    forwarded(&run(shape, [text]).0)
}

fn forwarded(pieces: &[Got]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Got::Text(text) => text.as_str(),
            Got::Block { raw, .. } | Got::Partial { raw, passed: true, .. } => raw,
            _ => "",
        })
        .collect()
}

fn all_texts() -> Vec<String> {
    let mut all: Vec<String> = texts::BY_HAND.iter().map(|text| (*text).to_owned()).collect();
    all.extend(texts::generated(160));
    all
}

#[test]
fn the_whole_text_is_shaped_as_the_reference_says() {
    let mut all = all_texts();
    all.extend(texts::long());
    all.extend(texts::generated(4000));
    assert!(all.len() > 4200);
    for text in &all {
        for shape in &shapes() {
            let got = run(shape, [text.as_str()]).0;
            assert_eq!(got, joined(reference::shape(text, shape)), "{text:?} under {shape:?}");
        }
    }
}

#[test]
fn b52_b55_every_cutting_gives_what_the_whole_gives() {
    let all = all_texts();
    assert!(all.len() > 200, "{} texts", all.len());
    let mut seeded = Seeded(99);
    let shapes = shapes();
    for (n, text) in all.iter().enumerate() {
        let whole: Vec<_> = shapes.iter().map(|shape| run(shape, [text.as_str()])).collect();
        for i in 0..1000 {
            let which = (n + i) % shapes.len();
            let chunks = cut(text, &mut seeded);
            let got = run(&shapes[which], chunks.iter().copied());
            assert_eq!(got, whole[which], "{chunks:?} under {:?}", shapes[which]);
        }
        every_single_cut(text, &shapes, &whole);
    }
}

fn every_single_cut(text: &str, shapes: &[Shape], whole: &[(Vec<Got>, ShapeSummary)]) {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for (shape, whole) in shapes.iter().zip(whole) {
        for &at in &ends {
            let (head, tail) = text.split_at(at);
            assert_eq!(&run(shape, [head, tail]), whole, "{text:?} cut at {at} under {shape:?}");
        }
        let by_one = text.split_inclusive(|_: char| true);
        assert_eq!(&run(shape, by_one), whole, "{text:?} by characters under {shape:?}");
    }
}

#[test]
fn long_lines_are_cut_alike() {
    let shapes = [off(), on(), Shape { stop_at_echo: true, ..off() }];
    for text in texts::long() {
        for shape in &shapes {
            let whole = run(shape, [text.as_str()]);
            let near =
                |at: &usize| text.len() < 300 || at.is_multiple_of(97) || (1000..1040).contains(at);
            for at in (0..text.len()).filter(near).filter(|at| text.is_char_boundary(*at)) {
                let (head, tail) = text.split_at(at);
                assert_eq!(run(shape, [head, tail]), whole, "{text:?} cut at {at}");
            }
            assert_eq!(run(shape, text.split_inclusive(|_: char| true)), whole, "{text:?}");
        }
    }
}

const CALL: &str = r#"<use_tool>{"name":"ls","arguments":{}}</use_tool>"#;
const OTHER: &str = r#"<use_tool>{"name":"cat","arguments":{"path":"a"}}</use_tool>"#;

#[test]
fn b38_text_without_calls_is_the_answer_whatever_it_quotes() {
    for text in ["<b>x</b>", "[Tool Result] 3", "<tool_result>x</tool_result>", "`<use`"] {
        let (got, summary) = run(&on(), [text]);
        assert_eq!(got, [Got::Text(text.to_owned())]);
        assert_eq!(summary, ShapeSummary::default());
    }
}

#[test]
fn b39_a_call_beside_an_invented_result_is_told_and_not_to_be_run() {
    let text = format!("{CALL}\n[Tool Result] a\nb\nSo there are two.");
    let (got, summary) = run(&off(), [text.as_str()]);
    assert!(summary.echo && got.contains(&Got::Echo("[Tool Result]".to_owned())));
    assert_eq!(forwarded(&got), text);
    let reading = parse_text(&text, &tags());
    assert_eq!((reading.blocks.len(), reading.runnable_calls().count()), (1, 0));
    // The gateway drops the text after the block, and ends there.
    let shape = Shape { stop_at_echo: true, ..on() };
    let (got, summary) = run(&shape, [text.as_str()]);
    assert_eq!(forwarded(&got), CALL);
    assert_eq!(summary.stop, Some(StopReason::Echo));
    // A call after it is not beside an honest turn either.
    let text = format!("{CALL}\n[Tool Result] a\n{OTHER}");
    assert_eq!(sent(&shape, &text), CALL);
    // A mere quotation is not a result: before any call, in a sentence, in a fence.
    for text in [
        format!("[Tool Result] said 3.\n{CALL}"),
        format!("{CALL}\nThe tool result: unknown yet."),
        format!("{CALL}\n```\n[Tool Result] a\n```\n"),
    ] {
        assert!(!run(&off(), [text.as_str()]).1.echo, "{text}");
        assert_eq!(parse_text(&text, &tags()).runnable_calls().count(), 1);
    }
}

#[test]
fn b40_a_malformed_block_has_a_reason_and_is_no_completion() {
    for (text, reason) in [
        ("<use_tool></use_tool>", "it is empty"),
        ("<use_tool>ls -la</use_tool>", "it holds neither a JSON object nor parameter elements"),
        ("<use_tool>{\"arguments\":{}}</use_tool>", "it names no tool"),
        ("<use_tool>{\"name\":\"x\"", "its closing tag is missing"),
    ] {
        let reading = parse_text(text, &tags());
        assert_eq!(reading.first_malformed().map(ToString::to_string).as_deref(), Some(reason));
        assert_eq!(reading.runnable_calls().count(), 0);
    }
    // Text after a malformed block may have been its argument: it is not run.
    let text = format!("<use_tool>{{\"t\": \"say \"hi\" {CALL}\"}}</use_tool>");
    let reading = parse_text(&text, &tags());
    assert!(reading.blocks[0].call.is_err());
    assert_eq!(reading.runnable_calls().count(), 0);
}

#[test]
fn b49_off_passes_bytes_and_on_passes_up_to_the_last_block() {
    let text = format!("Look. {CALL}\nI see: a, b.");
    assert_eq!(sent(&off(), &text), text);
    let (got, summary) = run(&on(), [text.as_str()]);
    assert_eq!(forwarded(&got), format!("Look. {CALL}"));
    assert_eq!(summary.stop, None, "the stream still ends as it ended");
}

#[test]
fn b50_without_a_block_all_passes_to_the_last_byte() {
    for text in [
        "No call.",
        "a <",
        "a <use",
        "a <use_tool",
        "a </use_tool>",
        "<use_tool x",
        "\n",
        "~~~",
        "so:\n```rust",
    ] {
        assert_eq!(sent(&on(), text), text);
        assert_eq!(run(&on(), text.split_inclusive(|_: char| true)).1, ShapeSummary::default());
    }
}

#[test]
fn b51_preamble_burst_and_the_text_between_pass_in_order() {
    let text = format!("Both.{CALL} then {OTHER}");
    assert_eq!(sent(&on(), &format!("{text} done")), text);
    // The text between is held until the second block is complete.
    let mut shaper = Shaper::new(on());
    let mut out = String::new();
    let mut sink = |piece: ShapedPiece<'_>| out.push_str(piece.forward_text().unwrap_or_default());
    shaper.push(&format!("Both.{CALL} then "), &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 6);
    shaper.push(OTHER, &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 0);
    assert_eq!(out, text);
}

#[test]
fn b52_never_half_a_tag_and_repeated_letters_stay() {
    let text = format!("haha haha<use_to <use_tool{CALL}hahaha");
    let mut shaper = Shaper::new(off());
    let mut chunks = Vec::new();
    let mut sink = |piece: ShapedPiece<'_>| chunks.extend(piece.forward_text().map(str::to_owned));
    for chunk in text.split_inclusive(|_: char| true) {
        shaper.push(chunk, &mut sink).unwrap();
    }
    shaper.finish(&mut sink).unwrap();
    assert_eq!(chunks.concat(), text);
    let half = |chunk: &&String| chunk.contains("<use_tool>") && !chunk.contains("</use_tool>");
    assert_eq!(chunks.iter().filter(half).count(), 0, "{chunks:?}");
    assert!(chunks.contains(&CALL.to_owned()));
}

#[test]
fn b53_an_open_block_passes_or_is_dropped_and_a_nested_tag_is_literal() {
    let text = r#"Now <use_tool>{"name":"ls"#;
    let drop = Shape { partial: PartialBlocks::Drop, ..on() };
    assert_eq!(sent(&on(), text), text);
    assert_eq!(sent(&drop, text), "Now ");
    for (shape, passed) in [(on(), true), (drop, false)] {
        let (got, summary) = run(&shape, [text]);
        let raw = text[4..].to_owned();
        assert!(got.contains(&Got::Partial { raw, nested: 0, passed }) && summary.partial);
    }
    let nested = r#"<use_tool>{"name":"w","arguments":{"t":"<use_tool>"}}</use_tool>"#;
    let (got, _) = run(&on(), [nested]);
    assert!(matches!(&got[1], Got::Block { raw, nested: 1, .. } if raw == nested));
}

#[test]
fn b54_the_tail_is_told_once_and_only_if_there_was_one() {
    let tail = "\nI see.";
    let (got, summary) = run(&on(), [format!("{CALL}{tail}").as_str()]);
    assert_eq!(got.last(), Some(&Got::Trimmed(tail.len() as u64)));
    assert_eq!(got.iter().filter(|piece| matches!(piece, Got::Trimmed(_))).count(), 1);
    assert_eq!(summary.dropped_bytes, tail.len() as u64);
    let (got, summary) = run(&on(), [CALL]);
    assert!(!got.iter().any(|piece| matches!(piece, Got::Trimmed(_))));
    assert_eq!(summary.dropped_bytes, 0);
}

#[test]
fn b54_finishing_twice_tells_it_once() {
    let mut shaper = Shaper::new(on());
    let mut trimmed = 0;
    let mut sink = |piece: ShapedPiece<'_>| {
        trimmed += usize::from(matches!(piece, ShapedPiece::Trimmed { .. }))
    };
    shaper.push(&format!("{CALL}tail"), &mut sink).unwrap();
    let first = shaper.finish(&mut sink).unwrap();
    shaper.push(" more", &mut sink).unwrap();
    assert_eq!(shaper.finish(&mut sink).unwrap(), first);
    assert_eq!(trimmed, 1);
}

#[test]
fn b56_first_and_max_tools_end_the_response_and_say_so() {
    let text = format!("a{CALL}b{OTHER}c");
    let first = Shape { stop_after: StopAfter::First, ..off() };
    let (got, summary) = run(&first, [text.as_str()]);
    assert_eq!(forwarded(&got), format!("a{CALL}"));
    assert_eq!(summary.stop, Some(StopReason::First));
    assert_eq!(summary.dropped_bytes as usize, 2 + OTHER.len());
    for (most, end) in [(1, format!("a{CALL}")), (2, format!("a{CALL}b{OTHER}")), (3, text.clone())]
    {
        let shape = Shape { max_tools: NonZeroU32::new(most), ..off() };
        let (got, summary) = run(&shape, [text.as_str()]);
        assert_eq!(forwarded(&got), end);
        assert_eq!(summary.stop, (most < 3).then_some(StopReason::MaxTools));
    }
}

#[test]
fn b56_a_burst_ends_when_no_block_begins_in_time() {
    let shape = Shape { stop_after: StopAfter::Burst { burst_ms: 100 }, ..on() };
    let mut shaper = Shaper::new(shape.clone());
    let mut out = Vec::new();
    let mut sink = |piece: ShapedPiece<'_>| out.push(own(piece, &shape.tags));
    shaper.tick(1000, &mut sink);
    shaper.push("Both. ", &mut sink).unwrap();
    assert_eq!(shaper.deadline_ms(), None, "no call yet");
    shaper.push(CALL, &mut sink).unwrap();
    assert_eq!(shaper.deadline_ms(), Some(1100));
    shaper.tick(1090, &mut sink);
    shaper.push("\n<use_tool>{\"name\":", &mut sink).unwrap();
    assert_eq!(shaper.deadline_ms(), None, "a block is under way");
    shaper.tick(1500, &mut sink);
    shaper.push("\"cat\"}</use_tool>", &mut sink).unwrap();
    assert_eq!(shaper.deadline_ms(), Some(1600));
    shaper.push(" tail", &mut sink).unwrap();
    shaper.tick(1600, &mut sink);
    assert_eq!(shaper.held_bytes(), 0);
    shaper.tick(1700, &mut sink);
    shaper.push(OTHER, &mut sink).unwrap();
    let summary = shaper.finish(&mut sink).unwrap();
    assert_eq!(summary.stop, Some(StopReason::Burst));
    assert_eq!(summary.calls, 2);
    assert_eq!(summary.dropped_bytes as usize, 5 + OTHER.len());
    assert_eq!(out.iter().filter(|piece| matches!(piece, Got::Stop(_))).count(), 1);
    assert!(forwarded(&out).ends_with("\"cat\"}</use_tool>"));
}

#[test]
fn b57_only_blocks_equal_as_a_whole_are_taken_out() {
    let shape = Shape { drop_repeated: true, ..off() };
    let spaced = CALL.replace(':', ": ");
    let text = format!("{CALL} a {OTHER} b {CALL} c {spaced} d");
    let (got, summary) = run(&shape, [text.as_str()]);
    assert_eq!(forwarded(&got), format!("{CALL} a {OTHER} b  c {spaced} d"));
    assert_eq!((summary.calls, summary.repeated), (3, 1));
    let plain = "again again\nagain again\n";
    assert_eq!(sent(&shape, plain), plain);
    // With suppression, too: the text between passes, the repeated block does not.
    let shape = Shape { drop_repeated: true, ..on() };
    assert_eq!(sent(&shape, &format!("{CALL} a {CALL} b")), format!("{CALL} a "));
}

#[test]
fn b58_every_opened_block_is_closed_repeated_or_partial() {
    let shape = Shape { drop_repeated: true, ..off() };
    for text in all_texts() {
        let (got, _) = run(&shape, [text.as_str()]);
        let count = |is: fn(&Got) -> bool| got.iter().filter(|piece| is(piece)).count();
        let opened = count(|piece| matches!(piece, Got::Opened(_)));
        let ended = count(|piece| {
            matches!(piece, Got::Block { .. } | Got::Repeated(_) | Got::Partial { .. })
        });
        assert_eq!(opened, ended, "{text:?}");
    }
}

#[test]
fn b59_only_a_broken_block_is_told_from_an_answer() {
    let broken =
        ["<use_tool>ls</use_tool>\n", "<use_tool>{\"name\"", " <use_tool></use_tool><use_tool>x"];
    for text in broken {
        assert!(parse_text(text, &tags()).is_only_broken(text), "{text}");
    }
    for text in ["", " ", "Hi.", CALL, "Hi. <use_tool>ls</use_tool>"] {
        assert!(!parse_text(text, &tags()).is_only_broken(text), "{text}");
    }
}

#[test]
fn b60_argument_text_arrives_whole_or_the_call_is_refused() {
    let hard = [
        "</use_tool>",
        "<use_tool>{\"name\":\"x\"}</use_tool>",
        "a \"quoted\" [1, {\"b\": \"</use_tool>\"}]",
        "<p>x</p> & <tool_result>\\n\\\\",
        "```\n</use_tool>\n```\nTool result: 3\n",
        "\n\n  indented\n",
        "</arguments></content>",
        "",
        "é 🦀",
    ];
    for argument in hard {
        let json = serde_json::to_string(argument).unwrap();
        let arguments = format!(r#"{{"path":"a","content":{json}}}"#);
        let expected: serde_json::Value = serde_json::from_str(&arguments).unwrap();
        for block in [
            format!(r#"<use_tool>{{"name":"write","arguments":{arguments}}}</use_tool>"#),
            format!(r#"<use_tool name="write">{arguments}</use_tool>"#),
            format!("<use_tool><name>write</name><arguments>{arguments}</arguments></use_tool>"),
            format!(
                "<use_tool>\n<tool_name>write</tool_name>\n<parameters>\n{arguments}\n</parameters>\
                 \n</use_tool>"
            ),
        ] {
            let text = format!("Go. {block} tail </use_tool>");
            assert_eq!(sent(&on(), &text), format!("Go. {block}"));
            let reading = parse_text(&text, &tags());
            let call = reading.blocks[0].call.as_ref().unwrap();
            assert_eq!(call.name, "write");
            let got: serde_json::Value = serde_json::from_str(&call.input.to_json()).unwrap();
            assert_eq!(got, expected, "{block}");
        }
        whole_or_refused(argument);
    }
}

/// As an element, text can hold its own closing tag: then nothing may be made of it.
fn whole_or_refused(argument: &str) {
    let block = format!(
        "<use_tool><name>write</name><path>a</path><content>{argument}</content></use_tool>"
    );
    let reading = parse_text(&block, &tags());
    let Some(Ok(call)) = reading.blocks.first().map(|found| found.call.clone()) else {
        assert!(argument.contains("</content>"), "{argument} is refused");
        return;
    };
    let input: serde_json::Value = serde_json::from_str(&call.input.to_json()).unwrap();
    let trimmed = argument.strip_prefix('\n').unwrap_or(argument);
    let trimmed = trimmed.strip_suffix('\n').unwrap_or(trimmed);
    assert_eq!(input["content"], trimmed, "{block}");
}

#[test]
fn b61_blocks_in_fences_and_in_written_thinking_are_text() {
    for (text, open) in [
        (format!("```\n{CALL}\n```\n"), false),
        (format!("~~~xml\n{CALL}\n~~~\n"), false),
        (format!("   ````\n```\n{CALL}\n````\n"), false),
        (format!("<think>\n{CALL}\n</think>\nNow: "), false),
        (format!("```\n{CALL}\n"), true),
        (format!("~~~~\n{CALL}\n~~~\n"), true),
        (format!("<think>\n{CALL}\n"), true),
    ] {
        let (got, summary) = run(&on(), [text.as_str()]);
        assert_eq!(got, [Got::Text(text.clone())]);
        assert_eq!(summary.calls, 0);
        // After it a block is a call again, unless it is open to the end.
        let summary = run(&on(), [format!("{text}{CALL}").as_str()]).1;
        assert_eq!(summary.calls, u32::from(!open), "{text}");
    }
}

#[test]
fn b62_what_is_held_is_told() {
    let mut shaper = Shaper::new(on());
    let mut sink = |_: ShapedPiece<'_>| {};
    shaper.push("Look. ", &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 0);
    shaper.push("<use_tool>{", &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 11);
    shaper.push("}</use_tool>", &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 0);
    shaper.push("tail", &mut sink).unwrap();
    assert_eq!(shaper.held_bytes(), 4);
}

#[test]
fn what_is_held_is_bounded_by_a_named_error_wherever_the_text_is_cut() {
    let limit = 8 * 1024;
    let long = "x".repeat(limit);
    for (text, after) in [
        (format!("a<use_tool>{long}</use_tool>b"), "a"),
        (format!("a<use_tool>{long}"), "a"),
        (format!("a{CALL}{long}y"), ""),
    ] {
        let shape = Shape { held_limit: limit, ..on() };
        let after = if after.is_empty() { format!("a{CALL}") } else { after.to_owned() };
        for size in [1, 7, 1000, text.len()] {
            let mut shaper = Shaper::new(shape.clone());
            let mut out = String::new();
            let mut sink =
                |piece: ShapedPiece<'_>| out.push_str(piece.forward_text().unwrap_or_default());
            let chunks =
                text.as_bytes().chunks(size).map(|chunk| std::str::from_utf8(chunk).unwrap());
            let pushed: Vec<_> = chunks.map(|chunk| shaper.push(chunk, &mut sink)).collect();
            assert_eq!(pushed.last(), Some(&Err(ShapeError::Held { limit })));
            assert_eq!(shaper.finish(&mut sink), Err(ShapeError::Held { limit }));
            assert_eq!(out, after);
        }
        assert_eq!(sent(&Shape { held_limit: limit + 100, ..off() }, &text), text);
    }
    let shape = Shape { held_limit: limit, drop_repeated: true, ..off() };
    let blocks: String = (0..9).map(|n| format!("<tool>{n}{}</tool>", &long[..1000])).collect();
    let mut shaper = Shaper::new(shape);
    assert_eq!(shaper.push(&blocks, &mut |_| {}), Err(ShapeError::Kept { limit }));
}

#[test]
fn names_of_tags_are_checked() {
    for bad in ["", "a b", "<x>", "a/b", "a=b", "a\"", &"n".repeat(65)] {
        assert!(Tags::new([bad]).is_err(), "{bad}");
    }
    assert!(Tags::new(Vec::<String>::new()).is_err());
    let odd = Tags::new(["appel·outil", "|call|"]).unwrap();
    let text = "<appel·outil>{\"name\":\"a\"}</appel·outil><|call|>{\"name\":\"b\"}</|call|>";
    let reading = parse_text(text, &odd);
    assert_eq!(reading.blocks.len(), 2);
    assert_eq!(reading.first_malformed(), None::<&MalformedCall>);
}
