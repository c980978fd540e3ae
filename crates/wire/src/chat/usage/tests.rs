//! The token counts of each vendor. The objects are written for these tests after the shapes of
//! recordings and of the vendors' documentation.

use super::{cost, *};

fn read(json: &str) -> Usage {
    Usage::from_cursor(&mut Cursor::new(json)).unwrap().unwrap()
}

fn tokens(input: u64, output: u64, cache_read: u64, cache_write_5m: u64) -> Tokens {
    Tokens { input, output, cache_read, cache_write_5m, ..Tokens::default() }
}

#[test]
fn prompt_tokens_hold_what_the_cache_gave_and_took() {
    let openai = read(
        r#"{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}"#,
    );
    assert_eq!(openai.tokens, tokens(10, 7, 60, 30));
    assert_eq!((openai.reasoning, openai.cost_nano_usd, openai.present), (5, None, true));
}

#[test]
fn deepseek_counts_hits_and_misses() {
    let both = read(
        r#"{"completion_tokens":4,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36,"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":64},"total_tokens":104}"#,
    );
    assert_eq!(both.tokens, tokens(36, 4, 64, 0));
    let only = read(
        r#"{"completion_tokens":4,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#,
    );
    assert_eq!(only.tokens, tokens(36, 4, 64, 0));
}

#[test]
fn reasoning_that_is_left_out_of_the_output_is_found_in_the_total() {
    // xAI.
    let xai = read(
        r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94},"cost_in_usd_ticks":37756005}"#,
    );
    assert_eq!(xai.tokens, tokens(26, 103, 6, 0));
    assert_eq!(xai.cost_nano_usd, Some(3_775_601));
    // Gemini's layer does not report reasoning.
    let gemini = read(r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45}"#);
    assert_eq!(gemini.tokens, tokens(10, 35, 0, 0));
}

#[test]
fn a_prompt_that_leaves_the_cache_out_is_not_reduced_again() {
    let proxy = read(
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":95,"cache_read_input_tokens":50,"cache_creation_input_tokens":30}"#,
    );
    assert_eq!(proxy.tokens, tokens(10, 5, 50, 30));
}

#[test]
fn counts_never_wrap() {
    let odd = read(
        r#"{"prompt_tokens":5,"completion_tokens":18446744073709551615,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":18446744073709551615}}"#,
    );
    assert_eq!(odd.tokens.input, 0);
    let nothing =
        read(r#"{"prompt_tokens":null,"completion_tokens":-1,"prompt_tokens_details":null}"#);
    assert_eq!((nothing.tokens, nothing.present), (Tokens::default(), true));
    assert_eq!(Usage::from_cursor(&mut Cursor::new("null")).unwrap(), None);
}

#[test]
fn openrouters_cost_is_what_is_billed() {
    let own = read(
        r#"{"prompt_tokens":1,"completion_tokens":1,"cost":0.0001,"is_byok":true,"cost_details":{"upstream_inference_cost":0.002}}"#,
    );
    assert_eq!(own.cost_nano_usd, Some(2_100_000));
    let theirs = read(
        r#"{"cost_details":{"upstream_inference_cost":0.002},"cost":0.00225,"is_byok":false}"#,
    );
    assert_eq!(theirs.cost_nano_usd, Some(2_250_000));
    let unknown =
        read(r#"{"cost":null,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}"#);
    assert_eq!(unknown.cost_nano_usd, None);
}

#[test]
fn money_is_read_without_floating_point() {
    let check =
        |text: &str, nano: Option<u64>| assert_eq!(cost::parse_nano_usd(text), nano, "{text}");
    check("0", Some(0));
    check("0.00069195", Some(691_950));
    check("2.4e-6", Some(2400));
    check("1E2", Some(100_000_000_000));
    check("12.5", Some(12_500_000_000));
    check("0.0000000005", Some(1));
    check("0.00000000049", Some(0));
    check("5e-10", Some(1));
    check("4e-10", Some(0));
    check("9e-11", Some(0));
    check("1e-300", Some(0));
    check("0e300", Some(0));
    check("18446744073.709551615", Some(u64::MAX));
    check("18446744073.7095516155", None);
    check("1e30", None);
    check("9e999999999999999999", None);
    check("-0.1", None);
    check("NaN", None);
    check("", None);
    let mut read = None;
    cost::read_cost(&mut Cursor::new(r#""0.5""#), &mut read).unwrap();
    assert_eq!(read, Some(500_000_000));
}

#[test]
fn what_is_written_reads_the_same() {
    for usage in [
        Usage {
            tokens: tokens(10, 7, 60, 30),
            reasoning: 5,
            cost_nano_usd: Some(1_000_000_001),
            present: true,
        },
        Usage { present: true, cost_nano_usd: Some(0), ..Usage::default() },
        Usage { present: true, ..Usage::default() },
    ] {
        let mut out = Vec::new();
        usage.write_json(&mut out);
        assert_eq!(read(std::str::from_utf8(&out).unwrap()), usage);
    }
}

#[test]
fn a_later_report_holds_and_a_known_cost_stays() {
    let mut usage = read(r#"{"prompt_tokens":3,"completion_tokens":1,"cost":0.1}"#);
    usage.apply_update(&read(r#"{"prompt_tokens":3,"completion_tokens":9}"#));
    assert_eq!(usage.tokens, tokens(3, 9, 0, 0));
    assert_eq!(usage.cost_nano_usd, Some(100_000_000));
}
