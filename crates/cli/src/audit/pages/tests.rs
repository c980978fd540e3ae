use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn session(rounds: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Look into it."})];
    for n in 0..rounds {
        let id = format!("toolu_{n}");
        let input = json!({"path": "<img src=x onerror=alert(1)>"});
        messages.push(json!({"role": "assistant", "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 10, "output_tokens": 10},
            "content": [{"type": "tool_use", "id": id, "name": "read_file", "input": input}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "the same"}]}));
    }
    json!({"id": "s<b>", "messages": messages}).to_string()
}

fn asked(pages: &PageReports, bytes: &[u8], form: AuditFormat, stop: bool) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spooled");
    std::fs::write(&path, bytes).unwrap();
    let text = pages.write_report(&AuditRequest {
        path: &path,
        name: Some("a <i>name"),
        form,
        stop: &AtomicBool::new(stop),
    });
    let place = folder.path().display().to_string();
    assert!(!text.contains(&place), "where it was kept is nobody's business");
    text
}

fn json_of(pages: &PageReports, bytes: &[u8], stop: bool) -> Value {
    serde_json::from_str(&asked(pages, bytes, AuditFormat::Json, stop)).unwrap()
}

fn pages() -> PageReports {
    PageReports::new(Policy::default(), Vec::new())
}

#[test]
fn a_recording_has_the_documented_shape_under_its_own_name() {
    let report = json_of(&pages(), session(6).as_bytes(), false);
    assert_eq!((&report["v"], &report["totals"]["turns"]), (&json!(2), &json!(6)));
    assert_eq!(report["sources"][0]["path"], "a <i>name");
    assert_eq!(report["runs"][0]["signals"][0]["signal"], "repeat");
    let page = asked(&pages(), session(6).as_bytes(), AuditFormat::Page, false);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && !page.contains("<img"));
    assert!(page.contains("a &lt;i&gt;name") && !page.contains("<i>name"));
    // The gateway's pages block inline styles and scripts.
    assert!(!page.contains(" style=") && !page.contains("<script>") && !page.contains("href="));
    assert_eq!(page.matches("class=\"wasted\"").count(), 5, "its steps");
}

#[test]
fn what_is_no_recording_is_listed_and_nothing_panics() {
    let whole = session(3);
    let cut = whole.get(..whole.len() - 40).unwrap();
    let packed = [&[0x1f, 0x8b, 8, 0][..], b"no gzip"].concat();
    let bad: [&[u8]; 6] =
        [b"", b"{", &[0xff, 0xd8, 0], cut.as_bytes(), &packed, b"SQLite format 3\0 and more"];
    for bytes in bad {
        let report = json_of(&pages(), bytes, false);
        let listed = report["unreadable"].as_array().unwrap();
        assert!(!listed.is_empty(), "{bytes:?}: {report}");
        assert!(listed.iter().all(|one| one["path"] == "a <i>name"), "{report}");
    }
    let page = asked(&pages(), &[0xff, 0xd8, 0], AuditFormat::Page, false);
    assert!(page.contains("Nothing in it could be read") && page.contains("<details open>"));
}

#[test]
fn a_report_is_bounded_and_given_up_when_nobody_waits() {
    let lines: Vec<String> = (0..20).map(|_| session(20)).collect();
    let bytes = lines.join("\n").into_bytes();
    let all = json_of(&pages(), &bytes, false);
    assert_eq!(all["totals"]["turns"], 400);
    let few = PageReports { steps: 100, ..pages() };
    let report = json_of(&few, &bytes, false);
    assert!(report["totals"]["turns"].as_u64().unwrap() < 100, "{report}");
    let said = report["unreadable"].to_string();
    assert!(said.contains("only its first 100 messages were read"), "{said}");
    let given_up = json_of(&pages(), &bytes, true);
    assert_eq!(given_up["runs"], json!([]));
    assert!(given_up["unreadable"].to_string().contains("given up"));
}
