use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use softland_session::bound::CacheWrites;
use softland_session::core::models::{self, Model, Price};
use softland_session::wire::{Api, Tokens, request::Request};
use tokio::time::{Instant, sleep};

use super::reserve::{SILENCE, STREAMS_WAIT};
use super::*;
use crate::money::accounts::{Accounts, Claim, Lease, MemoryAccounts, WaitLimits};

mod crowd;

fn opus() -> &'static Model {
    models::find_model(Some("anthropic"), "claude-opus-5-5").expect("in the table")
}

/// Returns the cost of these tokens in the normal service tier.
fn billed(tokens: &Tokens, price: &Price) -> NanoUsd {
    softland_session::price::Fees::default().bill_response("", tokens, price)
}

fn size_of(body: &str) -> InputSize {
    InputSize::from_request(
        &Request::from_body(Api::Anthropic, body.as_bytes()).expect("a request"),
    )
}

/// Returns a request with this content and these tools.
fn request(content: &str, tools: &str) -> String {
    format!(r#"{{"model":"m","tools":{tools},"messages":[{{"role":"user","content":{content}}}]}}"#)
}

#[test]
fn the_worst_case_takes_the_dearest_price_of_what_may_be_written() {
    let price = &opus().price;
    let bound = UsageBound { input: 100_000, output: 128_000, ..UsageBound::default() };
    let cost = |writes| UsageBound { writes, ..bound }.total_cost(price).to_string();
    assert_eq!(cost(CacheWrites::Nothing), "$2.96");
    assert_eq!(cost(CacheWrites::Minutes), "$3.06");
    assert_eq!(cost(CacheWrites::Hour), "$3.36");
}

#[test]
fn marks_are_read_off_the_body() {
    let writes_of = |content: &str| {
        let body = request(content, "[]");
        cache_writes(&Request::from_body(Api::Anthropic, body.as_bytes()).unwrap())
    };
    assert_eq!(writes_of(r#""say \"1h\"""#), CacheWrites::Nothing);
    let marked =
        |mark: &str| format!(r#"[{{"type":"text","text":"say \"1h\"","cache_control":{mark}}}]"#);
    assert_eq!(writes_of(&marked(r#"{"type":"ephemeral"}"#)), CacheWrites::Minutes);
    assert_eq!(writes_of(&marked(r#"{"type":"ephemeral","ttl":"5m"}"#)), CacheWrites::Minutes);
    assert_eq!(writes_of(&marked(r#"{"type":"ephemeral","ttl":"1h"}"#)), CacheWrites::Hour);
}

proptest! {
    /// The reserved amount is never less than the provider can bill for that many tokens, in
    /// whatever classes it counts them; and output within a lowered limit never costs more than is
    /// reserved.
    #[test]
    fn no_split_of_the_tokens_costs_more_than_the_bound(
        which in 0..models::all_models().len(),
        parts in proptest::array::uniform4(0..500_000_u64),
        output in 0..200_000_u64,
        less in 0..3_000_000_000_u64,
    ) {
        let [input, cache_read, cache_write_5m, cache_write_1h] = parts;
        let model = &models::all_models()[which];
        let tokens =
            Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, ..Tokens::default() };
        let total = tokens.input_total();
        let price = model.highest_price(total);
        let bound = UsageBound { input: total, output, writes: CacheWrites::Hour, ..UsageBound::default() };
        let billed = billed(&tokens, &model.price_for(total, None));
        prop_assert!(billed <= bound.total_cost(&price));

        let amount = bound.total_cost(&price).saturating_sub(NanoUsd(less)).max(bound.input_cost(&price));
        let fits = tokens_for(amount.saturating_sub(bound.input_cost(&price)), price.output);
        if price.output > 0 {
            let lowered = UsageBound { output: fits, ..bound };
            prop_assert!(lowered.total_cost(&price) <= amount);
        }
    }
}

#[test]
fn new_text_counts_a_token_a_byte_and_known_text_what_it_was() {
    let text = |text| InputSize { text, ..InputSize::default() };
    let known = KnownAncestor { tokens: 30_000, size: text(120_000) };
    assert_eq!(input_bound(None, text(120_000), 1_000_000), 120_000);
    assert_eq!(input_bound(Some(known), text(125_000), 1_000_000), 35_000);
    assert_eq!(input_bound(Some(known), text(5_000_000), 1_000_000), 1_000_000, "the window");
    let media = InputSize { media: 9_000, ..text(125_000) };
    assert_eq!(input_bound(Some(known), media, 1_000_000), 44_000);
    let seen = KnownAncestor { size: InputSize { media: 9_000, unseen: 1, ..known.size }, ..known };
    assert_eq!(input_bound(Some(known), InputSize { unseen: 1, ..media }, 1_000_000), 1_000_000);
    assert_eq!(input_bound(Some(seen), InputSize { unseen: 1, ..media }, 1_000_000), 35_000);
}

#[test]
fn output_is_bounded_by_the_request_and_its_model() {
    assert_eq!(output_bound(Some(4_096), Some(opus())), 4_096);
    assert_eq!(output_bound(Some(500_000), Some(opus())), 128_000);
    assert_eq!(output_bound(None, Some(opus())), 128_000);
    assert_eq!(output_bound(Some(4_096), None), 4_096);
    assert_eq!(output_bound(None, None), 1_000_000);
}

#[test]
fn windows_are_the_tables_and_the_large_one_where_it_has_a_price() {
    let anthropic = models::all_models().iter().filter(|model| model.provider == "anthropic");
    let largest = anthropic.filter_map(|model| model.context_window).max();
    assert_eq!(largest.map(u64::from), Some(context_window(None)));
    assert_eq!(context_window(Some(opus())), 1_000_000);
    assert_eq!(context_window(models::find_model(Some("anthropic"), "claude-haiku-4-5")), 200_000);
    let sonnet = models::find_model(Some("anthropic"), "claude-sonnet-4-5").unwrap();
    assert_eq!(sonnet.context_window, Some(200_000));
    assert_eq!(context_window(Some(sonnet)), 1_000_000, "it has a price above 200,000");
    assert_eq!(context_window(None), 1_000_000);
}

#[test]
fn images_count_by_the_table_and_not_by_their_bytes() {
    let image = |data: &str| {
        format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        )
    };
    let small = size_of(&request(&format!("[{}]", image("AAAA")), "[]"));
    let large = size_of(&request(&format!("[{}]", image(&"A".repeat(4_000_000))), "[]"));
    assert_eq!((small.media, small.unseen), (4_784, 0));
    assert_eq!(small, large);
    // Within a tool's result, and within a document of several parts.
    let result = format!(
        r#"[{{"type":"tool_result","tool_use_id":"t","content":[{{"type":"text","text":"x"}},{0},{0}]}}]"#,
        image("AAAA")
    );
    assert_eq!(size_of(&request(&result, "[]")).media, 2 * 4_784);
    let document = format!(
        r#"[{{"type":"document","source":{{"type":"content","content":[{}]}}}}]"#,
        image("AAAA")
    );
    assert_eq!(size_of(&request(&document, "[]")).media, 4_784);
}

#[test]
fn what_does_not_show_its_size_is_counted_as_unseen() {
    for source in [
        r#"{"type":"url","url":"https://example.com/a.png"}"#,
        r#"{"type":"file","file_id":"file_1"}"#,
        r#"{"type":"base64","media_type":"application/pdf","data":"AAAA"}"#,
        r#"{"type":"base64","media_type":"audio/wav","data":"AAAA"}"#,
    ] {
        let block = format!(r#"[{{"type":"document","source":{source}}}]"#);
        assert_eq!(size_of(&request(&block, "[]")).unseen, 1, "{source}");
    }
    let text =
        r#"[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"abc"}}]"#;
    assert_eq!(size_of(&request(text, "[]")).unseen, 0);
    assert_eq!(size_of(&request(text, "[]")).text, request(text, "[]").len() as u64);
    let tools = r#"[{"name":"a","input_schema":{}},{"type":"custom","name":"b"},{"type":"bash_20250124","name":"bash"}]"#;
    let size = size_of(&request(r#""hi""#, tools));
    assert_eq!((size.unseen, size.unwritten), (0, 2 * 530 + 2 * 735));
    let search = r#"[{"type":"web_search_20250305","name":"web_search"}]"#;
    assert_eq!(size_of(&request(r#""hi""#, search)).unseen, 0, "it is bounded apart");
}

#[test]
fn what_chat_and_responses_name_by_an_address_or_an_id_is_counted_as_unseen() {
    let size = |api, body: &str| {
        InputSize::from_request(&Request::from_body(api, body.as_bytes()).unwrap())
    };
    let part = |part: &str| {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        size(Api::Chat, &body)
    };
    for (text, unseen) in [
        (r#"{"type":"text","text":"https://example.com/video_url.mp4"}"#, 0),
        (r#"{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}"#, 0),
        (r#"{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}"#, 1),
        (r#"{"type":"video_url","vid\u0065o_url":{"url":"https://example.com/a.mp4"}}"#, 1),
        (r#"{"type":"audio_url","audio_url":{"url":"https://example.com/a.wav"}}"#, 1),
        (r#"{"type":"video","video":["https://example.com/1.png"]}"#, 1),
        (r#"{"type":"file","file":{"file_id":"file-1"}}"#, 1),
        (r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}"#, 1),
    ] {
        assert_eq!(part(text).unseen, unseen, "{text}");
    }
    for (members, unseen) in [
        ("", 0),
        (r#","prompt":null"#, 0),
        (r#","prompt":{"id":"pmpt_1"}"#, 1),
        (r#","pr\u006fmpt":{"id":"pmpt_1"}"#, 1),
        (r#","previous_response_id":"resp_1","prompt":{"id":"pmpt_1"}"#, 2),
    ] {
        let body = format!(r#"{{"model":"m","input":"x"{members}}}"#);
        assert_eq!(size(Api::Responses, &body).unseen, unseen, "{members}");
    }
}

proptest! {
    /// A mark is found however a client spells it: any of its letters may be an escape by number,
    /// in a name or in a value, with upper or lower case digits.
    #[test]
    fn a_mark_is_found_however_it_is_spelled(
        name in proptest::collection::vec(any::<bool>(), "cache_control".len()),
        hour in proptest::collection::vec(any::<bool>(), 2),
        capitals: bool,
        deep in 0..4_usize,
    ) {
        let spell = |text: &str, escaped: &[bool]| -> String {
            let letter = |(letter, escaped): (char, &bool)| match (escaped, capitals) {
                (true, true) => format!("\\u{:04X}", u32::from(letter)),
                (true, false) => format!("\\u{:04x}", u32::from(letter)),
                (false, _) => letter.to_string(),
            };
            text.chars().zip(escaped).map(letter).collect()
        };
        let mark = format!(
            r#"{{"type":"ephemeral","ttl":"{}"}}"#,
            spell("1h", &hour)
        );
        let block = format!(
            r#"{{"type":"text","text":"x","{}":{mark}}}"#,
            spell("cache_control", &name)
        );
        let nested = (0..deep).fold(block, |inner, _| {
            format!(r#"{{"type":"document","source":{{"type":"content","content":[{inner}]}}}}"#)
        });
        let body = request(&format!("[{nested}]"), "[]");
        let request = Request::from_body(Api::Anthropic, body.as_bytes()).unwrap();
        prop_assert_eq!(cache_writes(&request), CacheWrites::Hour);
    }
}

/// Plain base64, as a client would write it.
fn base64(bytes: &[u8]) -> String {
    const SET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(SET[(all >> (18 - 6 * place)) as usize & 63] as char);
        }
    }
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[test]
fn pages_of_a_pdf_are_counted_where_they_show() {
    let size_of_file = |file: &str| {
        let data = base64(file.as_bytes());
        let source =
            format!(r#"{{"type":"base64","media_type":"application/pdf","data":"{data}"}}"#);
        size_of(&request(&format!(r#"[{{"type":"document","source":{source}}}]"#), "[]"))
    };
    for pad in ["", " ", "  "] {
        let file = format!(
            "%PDF-1.4{pad} <</Type /Pages /Count 2>> <</Type/Page/Parent 1 0 R>> <</Type /Page>>"
        );
        let size = size_of_file(&file);
        assert_eq!((size.media, size.unseen), (2 * (4_784 + 3_000), 0), "{pad:?}");
    }
    let hidden = size_of_file("%PDF-1.5 <</Type /Page>> <</Type /ObjStm>>");
    assert_eq!((hidden.media, hidden.unseen), (0, 1));
}

const CENT: u64 = 10_000_000;

/// A request of 100,000 tokens of context to a large model: $0.50 of input at most, $2.56 of
/// output.
fn want(stream: bool) -> WorstCase {
    let price = &opus().price;
    let writes = CacheWrites::Minutes;
    let bound = UsageBound { input: 100_000, output: 128_000, writes, ..UsageBound::default() };
    let input = bound.input_cost(price);
    let (output, output_pico) = (bound.output, price.output);
    WorstCase { input, output, output_pico, floor: 4_096, input_tokens: None, stream }
}

fn claims(cents: u64) -> Vec<Claim> {
    vec![Claim::new("session:s".into(), Some(NanoUsd(cents * CENT)))]
}

async fn hold(accounts: &MemoryAccounts, claims: &[Claim], cents: u64) -> Lease {
    let ask = accounts::ReservationAmounts::from_exact(NanoUsd(cents * CENT));
    accounts.reserve_money(claims.to_vec(), ask, WaitLimits::NONE).await.unwrap()
}

/// Returns the result of a reservation, the time that it took, and how often it announced a long
/// wait.
async fn reserved(
    accounts: &MemoryAccounts,
    claims: &[Claim],
    want: WorstCase,
) -> (Reservation, Duration, u32) {
    let (began, loud) = (Instant::now(), AtomicU32::new(0));
    let told = || {
        assert_eq!(began.elapsed(), SILENCE);
        loud.fetch_add(1, Ordering::Relaxed);
    };
    let reserved = reserve_worst_case(accounts, claims.to_vec(), want, told).await;
    (reserved, began.elapsed(), loud.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn what_fits_is_sent_as_it_is() {
    let accounts = MemoryAccounts::new();
    let (result, took, loud) = reserved(&accounts, &claims(500), want(true)).await;
    let Reservation::Granted { lease, output_limit: None } = result else { panic!("{result:?}") };
    assert_eq!(lease.reserved_amount(), NanoUsd(306 * CENT));
    assert_eq!((took, loud), (Duration::ZERO, 0));
    // Without a limit there is no bound.
    let free = [Claim::new("session:s".into(), None)];
    let (result, ..) = reserved(&accounts, &free, want(true)).await;
    assert!(matches!(result, Reservation::Granted { output_limit: None, .. }));
}

#[tokio::test(start_paused = true)]
async fn the_output_limit_is_lowered_at_once_where_waiting_brings_no_more() {
    let accounts = MemoryAccounts::new();
    let claims = claims(150);
    let (result, took, _) = reserved(&accounts, &claims, want(true)).await;
    let Reservation::Granted { lease, output_limit } = result else { panic!("{result:?}") };
    assert_eq!((lease.reserved_amount(), output_limit), (NanoUsd(150 * CENT), Some(50_000)));
    assert_eq!(took, Duration::ZERO);
    lease.settle_cost(NanoUsd(92 * CENT));
    // $0.58 are left: 4,000 tokens, fewer than are held back for an answer.
    let (result, took, _) = reserved(&accounts, &claims, want(true)).await;
    assert!(matches!(result, Reservation::Land(_)), "{result:?}");
    assert_eq!(took, Duration::ZERO);
    let (result, ..) = reserved(&accounts, &claims, WorstCase { floor: 4_000, ..want(true) }).await;
    let Reservation::Granted { lease, output_limit } = result else { panic!("{result:?}") };
    assert_eq!(output_limit, Some(4_000));
    lease.settle_cost(NanoUsd::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_whole_is_waited_for_five_seconds_then_less_will_do() {
    let accounts = MemoryAccounts::new();
    let claims = claims(500);
    for stream in [false, true] {
        let held = hold(&accounts, &claims, 300).await;
        let (result, took, loud) = reserved(&accounts, &claims, want(stream)).await;
        let Reservation::Granted { lease, output_limit } = result else { panic!("{result:?}") };
        // Half of the two dollars that are left: another request is running.
        assert_eq!((lease.reserved_amount(), output_limit), (NanoUsd(100 * CENT), Some(25_000)));
        assert_eq!((took, loud), (SILENCE, 0), "served as the silence ended");
        lease.settle_cost(NanoUsd::ZERO);
        held.settle_cost(NanoUsd::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn while_others_hold_it_all_a_stream_waits_loudly_and_nobody_lands() {
    let accounts = MemoryAccounts::new();
    let claims = claims(500);
    let held = hold(&accounts, &claims, 490).await;
    let (result, took, loud) = reserved(&accounts, &claims, want(false)).await;
    assert!(
        matches!(&result, Reservation::Busy(short) if short.reserved == held.reserved_amount())
    );
    assert_eq!((took, loud), (SILENCE, 0));
    let (result, took, loud) = reserved(&accounts, &claims, want(true)).await;
    assert!(matches!(result, Reservation::Busy(_)), "{result:?}");
    assert_eq!((took, loud), (STREAMS_WAIT, 1));
    let settles = async {
        sleep(Duration::from_secs(20)).await;
        held.settle_cost(NanoUsd(10 * CENT));
    };
    let ((result, took, loud), ()) =
        tokio::join!(reserved(&accounts, &claims, want(true)), settles);
    assert!(matches!(result, Reservation::Granted { output_limit: None, .. }), "{result:?}");
    assert_eq!((took, loud), (Duration::from_secs(20), 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_takes_what_fits_and_waits_for_nobody() {
    let accounts = MemoryAccounts::new();
    let claims = claims(500);
    let held = hold(&accounts, &claims, 440).await;
    let began = Instant::now();
    let waits = reserved(&accounts, &claims, want(true));
    let now = async {
        sleep(Duration::from_secs(10)).await;
        let last = WorstCase { floor: 16, ..want(true) };
        let result = reserve_now(&accounts, claims.to_vec(), last).await;
        let Reservation::Granted { lease, output_limit } = result else { panic!("{result:?}") };
        assert_eq!(output_limit, Some(5_000), "the ten cents that are left");
        lease.settle_cost(NanoUsd::ZERO);
        let result = reserve_now(&accounts, claims.to_vec(), want(true)).await;
        let Reservation::Granted { lease, .. } = result else { panic!("{result:?}") };
        lease.settle_cost(NanoUsd::ZERO);
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        held.settle_cost(NanoUsd::ZERO);
    };
    let ((result, ..), ()) = tokio::join!(waits, now);
    assert!(matches!(result, Reservation::Granted { .. }), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_never_below_thinking_and_the_answer() {
    let accounts = MemoryAccounts::new();
    let floor = 32_000 + 4_096;
    for cents in 100..320 {
        let (result, ..) =
            reserved(&accounts, &claims(cents), WorstCase { floor, ..want(false) }).await;
        match result {
            Reservation::Granted { lease, output_limit } => {
                assert!(output_limit.unwrap_or(128_000) >= floor);
                assert!(lease.reserved_amount() <= NanoUsd(cents * CENT));
                lease.settle_cost(NanoUsd::ZERO);
            }
            Reservation::Land(short) => {
                assert!(cents < 123, "{cents}: $0.50 and 36,096 tokens are $1.22192");
                assert!(short.remaining_amount() < NanoUsd(1_221_920_000));
            }
            other => panic!("{other:?}"),
        }
    }
}
