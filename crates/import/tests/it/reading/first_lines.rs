//! Recordings whose first lines are none of theirs, and what is taken for none.

use super::common::{one, turns};

const GOOD: &str =
    "{\"role\":\"user\",\"content\":\"go\"}\n{\"role\":\"assistant\",\"content\":\"fine\"}\n";
const PASSED: &str = "not a line of a known kind of recording: skipped";
const UNKNOWN: &str = "not a known kind of recording";

#[test]
fn a_first_line_that_is_none_is_listed_and_the_rest_read() {
    let bad = [
        "[INFO] starting up",
        "2026-01-01 12:00:00 begun {\"x\":1}",
        "garbage",
        "null",
        "42",
        "\"text\"",
        "{oops",
        "{\"settings\":true}",
        "[1,2]",
        "\u{1}\u{2}",
    ];
    for line in bad {
        let (kind, steps, unreadable) = one(format!("\u{feff}{line}\n{GOOD}"));
        assert_eq!((kind, turns(&steps)), (Some("messages"), 1), "{line}: {unreadable:?}");
        assert_eq!(unreadable.len(), 1, "{line}: {unreadable:?}");
        assert!(unreadable[0].starts_with("1: "), "{line}: {unreadable:?}");
    }
    let (kind, steps, unreadable) = one(format!("\n\nnoise\n\n[WARN] more\n{GOOD}"));
    assert_eq!((kind, turns(&steps)), (Some("messages"), 1));
    assert_eq!(unreadable, [format!("3: {PASSED}"), format!("5: {PASSED}")]);
    let claude = r#"{"type":"assistant","uuid":"a","sessionId":"s","message":{"id":"m","role":"assistant","content":[]}}"#;
    let (kind, steps, unreadable) = one(format!("noise\n{claude}\n"));
    assert_eq!((kind, turns(&steps), unreadable.len()), (Some("claude-code"), 1, 1));
    let document = "log: begun\n{\"messages\":[\n{\"role\":\"assistant\",\"content\":\"x\"}\n]}\n";
    let (kind, steps, unreadable) = one(document);
    assert_eq!((kind, turns(&steps), unreadable.len()), (Some("messages"), 1, 1));
}

#[test]
fn a_long_first_line_is_passed_over() {
    let long = "x".repeat(5 << 20);
    let (kind, steps, unreadable) = one(format!("{long}\n{GOOD}"));
    assert_eq!((kind, turns(&steps)), (Some("messages"), 1));
    assert_eq!(unreadable, [format!("1: {PASSED}")]);
    assert_eq!(one(long).2, [UNKNOWN]);
    // A first object of which the telling members stand far behind.
    let first = format!(
        r#"{{"message":{{"id":"m","role":"assistant","content":"{}"}},"type":"assistant","uuid":"a","sessionId":"s"}}"#,
        "x".repeat(100_000)
    );
    let (kind, steps, _) = one(first + "\n");
    assert_eq!((kind, turns(&steps)), (Some("claude-code"), 1));
}

#[test]
fn texts_and_documents_that_quote_a_recording_are_none() {
    let texts = [
        "# Read me\n\n```json\n{\"role\":\"user\",\"content\":\"hi\"}\n```\n".to_owned(),
        format!("{{\n\"examples\": [\n{}\n]}}\n", GOOD.trim().replace('\n', ",\n")),
        format!("a,b\n1,2\n3,{}\n", "4\n".repeat(60)) + GOOD,
    ];
    for text in texts {
        assert_eq!(one(&text), (None, vec![], vec![UNKNOWN.to_owned()]), "{text}");
    }
    let wide: Vec<u8> = "\u{feff}{\"role\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(one(wide).2, ["UTF-16: to be saved as UTF-8 first"]);
}
