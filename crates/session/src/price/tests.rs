use proptest::prelude::*;
use softland_core::models::{self, Model};
use softland_wire::ExtraCharges;

use super::*;

fn gpt() -> &'static Model {
    models::find_model(Some("openai"), "gpt-5.5").expect("in the table")
}

fn bound(api: Api, body: &str, added: Option<u64>) -> HostedToolBound {
    HostedToolBound::from_request(
        &Request::from_body(api, body.as_bytes()).expect("a request"),
        added,
    )
}

fn responses(members: &str, tools: &str) -> String {
    format!(r#"{{"model":"gpt-5.5","input":"x"{members},"tools":[{tools}]}}"#)
}

fn anthropic(tools: &str) -> String {
    let messages = r#"[{"role":"user","content":"x"}]"#;
    format!(r#"{{"model":"m","max_tokens":9,"messages":{messages},"tools":[{tools}]}}"#)
}

#[test]
fn what_tools_bring_is_bounded_by_their_number_of_uses() {
    const SEARCH: &str = r#"{"type":"web_search"}"#;
    let dollars = |text: &str| text.parse::<NanoUsd>().expect("an amount");
    for (api, body, added, fees, uses, unbounded) in [
        (Api::Responses, responses("", ""), Some(2), "0", None, None),
        (Api::Responses, responses("", r#"{"type":"function","name":"f"}"#), None, "0", None, None),
        (Api::Responses, responses("", SEARCH), Some(2), "0.02", Some((2, 128_000)), None),
        (Api::Responses, responses("", SEARCH), None, "0.01", None, Some("web_search")),
        (
            Api::Responses,
            responses(r#","max_tool_calls":3"#, SEARCH),
            Some(2),
            "0.03",
            Some((3, 128_000)),
            None,
        ),
        (Api::Responses, responses("", r#"{"type":"mcp"}"#), Some(2), "0", None, Some("mcp")),
        (
            Api::Responses,
            responses("", r#"{"type":"code_interpreter","container":{"type":"auto"}}"#),
            Some(2),
            "0.03",
            None,
            Some("code_interpreter"),
        ),
        (
            Api::Responses,
            responses(
                "",
                r#"{"type":"code_interpreter","container":{"type":"auto","memory_limit":"4g"}}"#,
            ),
            Some(2),
            "1.92",
            None,
            Some("code_interpreter"),
        ),
        (
            Api::Anthropic,
            anthropic(r#"{"type":"web_search_20250305","name":"web_search","max_uses":50}"#),
            Some(2),
            "0.50",
            None,
            Some("web_search_20250305"),
        ),
        (
            Api::Anthropic,
            anthropic(
                r#"{"type":"web_fetch_20250910","name":"web_fetch","max_content_tokens":1000}"#,
            ),
            Some(2),
            "0",
            Some((2, 1000)),
            None,
        ),
        (
            Api::Anthropic,
            anthropic(r#"{"type":"bash_20250124","name":"b"}"#),
            None,
            "0",
            None,
            None,
        ),
    ] {
        let found = bound(api, &body, added);
        let expected = (dollars(fees), uses, unbounded.map(str::to_owned));
        assert_eq!((found.fees, found.uses, found.unbounded), expected, "{body}");
    }
}

#[test]
fn a_search_is_affordable_under_a_limit_of_a_few_dollars() {
    // A context of 60,000 tokens on a large model, as Codex has it.
    for (limit, most) in [("8", 1), ("20", 2), ("50", 3)] {
        let limit: NanoUsd = limit.parse().expect("an amount");
        let uses =
            uses_under(limit, gpt().highest_price(u64::MAX).highest_input(false), Api::Responses);
        assert_eq!(uses, most);
        let bound = bound(Api::Responses, &responses("", r#"{"type":"web_search"}"#), Some(uses));
        let input = bound.max_billed_input(60_000, 1_000_000);
        let price = gpt().highest_price(input);
        let answer =
            NanoUsd::from_tokens(60_000, price.input) + NanoUsd::from_tokens(8_192, price.output);
        let needed = NanoUsd::from_tokens(input, price.highest_input(false)) + bound.fees + answer;
        assert!(needed < limit, "{needed} of {limit}");
    }
}

/// The service of a provider for one request, within what is documented.
#[derive(Clone, Debug)]
struct Done {
    /// The tokens that each search brings.
    brings: Vec<u64>,
    output: u64,
    tier: &'static str,
    /// True if the response says how it was served.
    says: bool,
    cached: bool,
}

fn done() -> impl Strategy<Value = Done> {
    let tiers = proptest::sample::select(vec!["default", "flex", "priority", "ultrafast", "new"]);
    let brings = proptest::collection::vec(0..=128_000_u64, 0..6);
    (brings, 0..100_000_u64, tiers, any::<bool>(), any::<bool>()).prop_map(
        |(brings, output, tier, says, cached)| Done { brings, output, tier, says, cached },
    )
}

proptest! {
    /// A provider that searches as often as it may, reads all again at each step, and serves as it
    /// was asked to, never bills more than was reserved.
    #[test]
    fn what_is_billed_is_never_more_than_what_is_reserved(
        done in done(),
        own in 1..400_000_u64,
        uses in 1..8_u64,
    ) {
        let members = format!(r#","service_tier":"{}""#, done.tier);
        let body = responses(&members, r#"{"type":"web_search"}"#);
        let request = Request::from_body(Api::Responses, body.as_bytes()).expect("a request");
        let (fees, bound) = (Fees::from_request(&request), HostedToolBound::from_request(&request, Some(uses)));
        let window = 1_000_000;
        let most = bound.max_billed_input(own, window);
        let price = gpt().highest_price(most).scaled_by(fees.max_thousandths("gpt-5.5"));
        let reserved = NanoUsd::from_tokens(most, price.highest_input(false))
            + NanoUsd::from_tokens(done.output, price.output)
            + bound.fees;

        let mut context = own;
        let mut read = own;
        let mut searches = 0;
        for brings in done.brings.iter().take(usize::try_from(uses).expect("few")) {
            context = (context + brings).min(window);
            read += context;
            searches += 1;
        }
        let beside = ExtraCharges {
            web_searches: searches,
            served: if done.says { ServiceTier::from_tier(done.tier, false) } else { ServiceTier::Unsaid },
            ..ExtraCharges::default()
        };
        let cache_read = if done.cached { read - own } else { 0 };
        let input = read - cache_read;
        let tokens = Tokens { input, output: done.output, cache_read, beside, ..Tokens::default() };
        let billed = fees.bill_response("gpt-5.5", &tokens, &gpt().highest_price(tokens.input_total()));
        prop_assert!(billed <= reserved, "{billed} of {reserved}");
    }
}

#[test]
fn what_a_response_reports_beside_its_tokens_is_billed() {
    let (thousand, dear) = (Tokens { input: 1000, output: 1000, ..Tokens::default() }, 30_000_000);
    let price = Price {
        input: 5_000_000,
        output: dear,
        cache_read: 0,
        cache_write_5m: 0,
        cache_write_1h: 0,
    };
    let cost = |beside: ExtraCharges| {
        Fees::default().bill_response("gpt-5.1", &Tokens { beside, ..thousand }, &price).to_string()
    };
    let none = ExtraCharges::default();
    assert_eq!(cost(none), "$0.035");
    assert_eq!(cost(ExtraCharges { web_searches: 3, ..none }), "$0.065");
    assert_eq!(cost(ExtraCharges { served: ServiceTier::Priority, ..none }), "$0.07");
    assert_eq!(cost(ExtraCharges { served: ServiceTier::Flex, ..none }), "$0.0175");
    assert_eq!(cost(ExtraCharges { programs: 4, ..none }), "$0.065", "one container");
    assert_eq!(
        cost(ExtraCharges { stated: Some(90_000_000), ..none }),
        "$0.09",
        "it says so itself"
    );
    assert_eq!(
        cost(ExtraCharges { stated: Some(0), ..none }),
        "$0.035",
        "never less than the table"
    );
}
