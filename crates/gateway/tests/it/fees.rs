//! Money beside plain tokens: tools that the provider runs, tiers, what no request shows; and what
//! becomes of a request that a limit has no room for.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use serde_json::{Value, json};
use softland_gateway::Prices;
use softland_session::core::models::Price;
use softland_session::wire::Api;

use crate::support::client::{APIS, Client, all};
use crate::support::reading::{End, read};
use crate::support::script::{Form, whole_with};
use crate::support::sim::{governed, text};
use crate::support::{Provider, Running, response};

/// A provider that answers, counts tokens as `counts` says, and keeps what it was asked.
async fn provider(counts: Option<u64>, usage: [u64; 2]) -> Provider {
    Provider::does(move |asked, wire| async move {
        let says = if asked.line.contains("count_tokens") || asked.line.contains("input_tokens") {
            match counts {
                Some(tokens) => {
                    let body = json!({"input_tokens": tokens}).to_string();
                    response("200 OK", &["content-type: application/json"], &body)
                }
                None => response("404 Not Found", &["content-type: application/json"], "{}"),
            }
        } else {
            let blocks = [json!({"type": "text", "text": "the answer, long enough"})];
            whole_with(Form::of(&asked), &blocks, "end_turn", usage)
        };
        wire.lock().await.send(&says).await;
        true
    })
    .await
}

/// The requests for turns that went upstream.
fn turns(provider: &Provider) -> Vec<Value> {
    let asked = provider.asked.lock().unwrap();
    let turns = asked.iter().filter(|asked| {
        !asked.line.contains("count_tokens") && !asked.line.contains("input_tokens")
    });
    turns.map(|asked| serde_json::from_slice(&asked.body).unwrap()).collect()
}

fn codex(stream: bool, tool: &str) -> Client {
    let mut client = Client::on(Api::Responses, stream).set("model", json!("gpt-5.5"));
    client.body["tools"].as_array_mut().unwrap().push(json!({"type": tool}));
    client.body["input"] = json!([
        {"role": "developer", "content": "You are an agent. ".repeat(3000)},
        {"role": "user", "content": "<environment_context>cwd</environment_context>"},
        {"role": "user", "content": "Look at the notes."},
    ]);
    client
}

#[tokio::test]
async fn an_agent_with_a_search_of_its_providers_works_under_a_few_dollars() {
    for (stream, limit) in [(true, "8.00"), (false, "3.00"), (true, "20.00")] {
        let provider = provider(None, [1000, 100]).await;
        let gateway = Running::with(governed(&provider.url(), &[("cost_limit_usd", text(limit))]));
        let gateway = gateway.await;
        for _ in 0..2 {
            let answer = read(&codex(stream, "web_search").post(&gateway).await);
            assert_eq!(answer.end, End::Whole);
            assert_eq!(answer.text(), "the answer, long enough");
        }
        let sent = turns(&provider);
        assert_eq!(sent.len(), 2);
        let uses: Vec<_> = sent.iter().map(|body| body["max_tool_calls"].as_u64()).collect();
        assert!(uses[0].is_some_and(|uses| uses >= 1) && uses[0] == uses[1], "{uses:?}");
        let least = sent.iter().filter_map(|body| body["max_output_tokens"].as_u64()).min();
        assert!(least.is_none_or(|least| least >= 4096), "{least:?}");
    }
    // Without a limit of money nothing is added.
    let provider = provider(None, [1000, 100]).await;
    let gateway = Running::before(&provider).await;
    read(&codex(true, "web_search").post(&gateway).await);
    assert_eq!(turns(&provider)[0].get("max_tool_calls"), None);
}

/// Also where the newest message is a second one of the user's, which begins no run.
#[tokio::test]
async fn what_a_limit_has_no_room_for_is_a_whole_answer_that_names_tool_and_amount() {
    for stream in [true, false] {
        let provider = provider(None, [1000, 100]).await;
        let keys = [("cost_limit_usd", text("1.00"))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let answer = codex(stream, "mcp").post(&gateway).await;
        assert_eq!(answer.status(), 200);
        let answer = read(&answer);
        assert_eq!(answer.end, End::Whole);
        let said = answer.text();
        assert!(said.contains("softland's, not the model's") && said.contains("`mcp`"), "{said}");
        assert!(said.contains("cost_limit_usd: $0.00 of $1.00"), "{said}");
        assert!(said.contains("one more request can use ($1"), "{said}");
        assert_eq!(turns(&provider).len(), 0);
    }
}

#[tokio::test]
async fn a_long_context_is_counted_by_its_provider_before_a_run_lands_for_it() {
    let context = "all work and no play ".repeat(480_000 / 21);
    for (api, stream) in all() {
        let model = if api == Api::Anthropic { "claude-opus-5-5" } else { "gpt-6.2-sol" };
        let ask = |provider: &Provider| {
            let settings = governed(&provider.url(), &[("cost_limit_usd", text("2.00"))]);
            let mut client = Client::on(api, stream).set("model", json!(model)).asking(&context);
            if api == Api::Anthropic {
                client.body["max_tokens"] = 128_000.into();
            }
            async move { read(&client.post(&Running::with(settings).await).await).text() }
        };
        let counting = provider(Some(120_000), [120_000, 500]).await;
        assert_eq!(ask(&counting).await, "the answer, long enough", "{api:?}");
        let asked = counting.asked.lock().unwrap().len();
        assert_eq!(asked, 2, "one count and one turn");
        // Where nobody counts, a token for a byte is what can be proven.
        let other = provider(None, [120_000, 500]).await;
        assert!(ask(&other).await.contains("softland's"), "{api:?}");
    }
}

/// Tiers and members in requests, and what is booked of a response that says how it served.
#[tokio::test]
async fn a_dearer_tier_is_booked_at_its_price() {
    for (api, model, member, value, cents_of_million) in [
        (Api::Chat, "gpt-5.1", "service_tier", "priority", [250, 2000]),
        (Api::Chat, "gpt-5.1", "service_tier", "default", [125, 1000]),
        (Api::Responses, "gpt-5.5", "service_tier", "priority", [1250, 7500]),
        (Api::Anthropic, "claude-opus-4-6", "speed", "fast", [3000, 15000]),
        (Api::Anthropic, "claude-opus-5", "speed", "fast", [1000, 5000]),
        (Api::Anthropic, "claude-opus-5", "inference_geo", "us", [550, 2750]),
    ] {
        let provider = provider(None, [1000, 1000]).await;
        let keys = [("cost_limit_usd", text("50.00"))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let client = Client::on(api, false).set("model", json!(model)).set(member, json!(value));
        assert_eq!(read(&client.post(&gateway).await).text(), "the answer, long enough");
        let [input, output] = cents_of_million.map(|cents: u64| cents * 1000 * 10);
        let expected = input + output;
        assert_eq!(gateway.handle.summary().spend.0, expected, "{model} {member} {value}");
    }
}

#[tokio::test]
async fn a_price_for_any_model_is_for_those_that_nothing_else_prices() {
    for api in APIS {
        let provider = provider(None, [1000, 1000]).await;
        let mut settings = governed(&provider.url(), &[("cost_limit_usd", text("5.00"))]);
        let price = Price {
            input: 7_000_000,
            output: 11_000_000,
            cache_read: 0,
            cache_write_5m: 0,
            cache_write_1h: 0,
        };
        settings.prices = Prices::new(vec![("*".to_owned(), price)]);
        let gateway = Running::with(settings).await;
        let running = &gateway;
        let ask = |model: &str| {
            let client = Client::on(api, false).set("model", json!(model));
            async move { client.post(running).await.status() }
        };
        assert_eq!(ask("nobody-knows").await, 200);
        assert_eq!(gateway.handle.summary().spend.0, 18_000_000);
        assert_eq!(ask("claude-haiku-4-5").await, 200);
        assert_eq!(gateway.handle.summary().spend.0, 18_000_000 + 6_000_000, "by the table");
    }
}
