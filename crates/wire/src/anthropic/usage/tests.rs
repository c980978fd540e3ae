use super::*;
use crate::ExtraCharges;

fn report(json: &str) -> UsageUpdate {
    UsageUpdate::from_cursor(&mut Cursor::new(json)).unwrap()
}

fn usage(reports: &[&str]) -> Usage {
    let mut usage = Usage::default();
    for json in reports {
        usage.apply_update(&report(json));
    }
    usage
}

#[test]
fn later_reports_override_downwards_too_and_keep_what_they_leave_out() {
    let usage = usage(&[
        r#"{"input_tokens":9,"cache_read_input_tokens":55096,"output_tokens":1}"#,
        r#"{"input_tokens":181,"cache_read_input_tokens":0,"output_tokens":null}"#,
        r#"{"output_tokens":7,"output_tokens_details":{"thinking_tokens":3},"server_tool_use":{"web_search_requests":2}}"#,
    ]);
    let tokens = Tokens { input: 181, output: 7, ..Tokens::default() };
    assert_eq!((usage.tokens, usage.thinking, usage.web_searches), (tokens, 3, 2));
    let beside = ExtraCharges { web_searches: 2, ..ExtraCharges::default() };
    assert_eq!(usage.billed_tokens(), Tokens { beside, ..tokens });
}

#[test]
fn cache_writes_are_split_by_their_time_to_live() {
    let writes = |reports: &[&str]| {
        let tokens = usage(reports).tokens;
        (tokens.cache_write_5m, tokens.cache_write_1h)
    };
    let split = r#"{"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}}"#;
    assert_eq!(writes(&[split]), (10, 20));
    assert_eq!(writes(&[r#"{"cache_creation_input_tokens":30}"#]), (30, 0), "the default is 5m");
    assert_eq!(writes(&[split, r#"{"cache_creation_input_tokens":30}"#]), (10, 20), "known split");
    assert_eq!(writes(&[split, r#"{"cache_creation_input_tokens":0}"#]), (0, 0));
    assert_eq!(writes(&[split, r#"{"cache_creation_input_tokens":40}"#]), (40, 0));
    let part =
        r#"{"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20}}"#;
    assert_eq!(writes(&[part]), (10, 20));
    assert_eq!(writes(&[split, "{}"]), (10, 20));
}

#[test]
fn iterations_are_what_is_billed() {
    let usage = usage(&[
        r#"{"input_tokens":229,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":100,"output_tokens":131,"cache_creation":{"ephemeral_5m_input_tokens":55096}},{"type":"message","model":"m","input_tokens":229,"output_tokens":5}]}"#,
    ]);
    assert_eq!(usage.tokens.input_total(), 229);
    let billed = Tokens { input: 329, output: 136, cache_write_5m: 55096, ..Tokens::default() };
    assert_eq!(usage.billed_tokens(), billed);
    assert_eq!(usage.iterations[0].kind, "compaction");
    assert_eq!(usage.iterations[1].model.as_deref(), Some("m"));
}

#[test]
fn what_is_written_reads_the_same() {
    let tokens = Tokens {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write_5m: 4,
        cache_write_1h: 5,
        ..Tokens::default()
    };
    let iteration = Iteration { kind: "message".to_owned(), model: Some("m\"".to_owned()), tokens };
    let plain = Usage { tokens, ..Usage::default() };
    let full = Usage {
        tokens,
        thinking: 6,
        web_searches: 7,
        web_fetches: 8,
        iterations: vec![iteration.clone(), Iteration { model: None, ..iteration }],
    };
    for usage in [Usage::default(), plain, full] {
        let mut out = Vec::new();
        usage.write_json(&mut out);
        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
        let mut read = Usage::default();
        read.apply_update(&report(std::str::from_utf8(&out).unwrap()));
        assert_eq!(read, usage);
    }
}

#[test]
fn sums_saturate() {
    let most = Tokens { input: u64::MAX, cache_read: 1, ..Tokens::default() };
    assert_eq!(most.input_total(), u64::MAX);
    assert_eq!(most.saturating_add(most).input, u64::MAX);
    assert_eq!(usage(&[r#"{"input_tokens":"x","output_tokens":-1}"#]), Usage::default());
    assert_eq!(report("null"), UsageUpdate::default());
}

#[test]
fn c95_a_report_of_no_input_says_nothing_of_it() {
    let begun = r#"{"input_tokens":9,"cache_read_input_tokens":100,"cache_creation_input_tokens":7,"output_tokens":1}"#;
    for zeros in [
        r#"{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":20}"#,
        r#"{"input_tokens":0,"output_tokens":20}"#,
        r#"{"input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":20}"#,
    ] {
        let tokens = usage(&[begun, zeros]).tokens;
        assert_eq!((tokens.input, tokens.cache_read, tokens.output), (9, 100, 20), "{zeros}");
        assert_eq!(tokens.cache_write_5m, 7, "{zeros}");
    }
    // All of it was read from the cache: that is a report.
    let cached = r#"{"input_tokens":0,"cache_read_input_tokens":116,"cache_creation_input_tokens":0,"output_tokens":20}"#;
    let tokens = usage(&[begun, cached]).tokens;
    assert_eq!((tokens.input, tokens.cache_read, tokens.cache_write_5m), (0, 116, 0));
    // A beginning of zeros, and the counts at the end.
    let late = r#"{"input_tokens":11,"output_tokens":5}"#;
    assert_eq!(usage(&[r#"{"input_tokens":0,"output_tokens":0}"#, late]).tokens.input, 11);
}
