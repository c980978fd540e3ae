//! Governed requests through a real gateway, in front of the strict simulator: countdown, landing,
//! repair, identity, money, all over loopback sockets.

use crate::support;

use crate::support::client::{APIS, Client, all};
use crate::support::sim::{Simulated, governed, text};
use crate::support::{Message, Running};
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

#[tokio::test]
async fn a_run_is_counted_down_and_landed_streaming_and_not() {
    for (api, stream) in all() {
        for scenario in ["looper", "sweeper", "stubborn", "mute", "parallel"] {
            let upstream = Simulated::playing(scenario).await;
            let keys = [("tool_calls_limit", Key::Int(4)), ("repeat_limit", Key::Int(50))];
            let gateway = Running::with(governed(&upstream.url, &keys)).await;
            let mut client = Client::on(api, stream);
            let (turns, last, response) = client.run(&gateway).await;
            let name = format!("{api:?}, {scenario}, stream: {stream}");
            assert!(!response.text().trim().is_empty(), "{name}: no answer");
            assert!(turns <= 6, "{name}: {turns} turns");
            assert_eq!(last.header("x-softland-phase"), Some("landing"), "{name}");
            assert_eq!(last.header("x-softland-tool-calls"), Some("4/4"), "{name}");
            assert_eq!(upstream.refused(), 0, "{name}: {:?}", upstream.sim.stats().refusals);
        }
    }
}

#[tokio::test]
async fn the_head_says_what_was_done() {
    for api in APIS {
        let upstream = Simulated::playing("sweeper").await;
        let gateway =
            Running::with(governed(&upstream.url, &[("tool_calls_limit", Key::Int(4))])).await;
        let mut client = Client::on(api, false);
        let mut phases = Vec::new();
        let mut runs = std::collections::BTreeSet::new();
        loop {
            let (message, response) = client.turn(&gateway).await;
            phases.push(message.header("x-softland-phase").unwrap().to_owned());
            runs.insert(message.header("x-softland-run").unwrap().to_owned());
            if response.calls().is_empty() {
                break;
            }
        }
        assert_eq!(phases, ["silent", "silent", "countdown", "countdown", "landing"], "{api:?}");
        assert_eq!(runs.len(), 1, "found by its content: {api:?}, {runs:?}");
        let metrics = gateway.metrics().await;
        for (phase, times) in [("silent", 2), ("countdown", 2), ("landing", 1)] {
            let line = format!("softland_phases_total{{phase=\"{phase}\"}} {times}\n");
            assert!(metrics.contains(&line), "{line} is not in {metrics}");
        }
    }
}

#[tokio::test]
async fn an_empty_turn_is_repaired() {
    for (api, stream) in all() {
        let upstream = Simulated::playing("empty").await;
        let gateway = Running::with(governed(&upstream.url, &[])).await;
        let mut client = Client::on(api, stream);
        let (_, _, response) = client.run(&gateway).await;
        assert!(!response.text().trim().is_empty(), "{api:?}, stream: {stream}");
        assert_eq!(upstream.refused(), 0, "{api:?}: {:?}", upstream.sim.stats().refusals);
        gateway.until_metrics(r#"softland_interventions_total{intervention="nudge"} 1"#).await;
    }
}

#[tokio::test]
async fn below_the_limits_not_a_byte_is_changed() {
    for scenario in ["reader", "thinker"] {
        for (api, stream) in all() {
            let mut sides = Vec::new();
            for limit in [None, Some(("tool_calls_limit", Key::Int(100)))] {
                let upstream = Simulated::playing(scenario).await;
                let keys: Vec<_> = limit.clone().into_iter().collect();
                let gateway = Running::with(governed(&upstream.url, &keys)).await;
                let mut client = Client::on(api, stream).with("x-softland-session: same");
                let (_, message, _) = client.run(&gateway).await;
                assert_eq!(message.header("x-softland-interventions"), None);
                assert_eq!(message.text().contains(": softland {"), stream && limit.is_some());
                sides.push((client.body, message.without_end()));
            }
            assert_eq!(sides[0], sides[1], "{api:?}, {scenario}, stream: {stream}");
        }
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_under_a_cost_limit() {
    let upstream = Simulated::playing("reader").await;
    let keys = [("cost_limit_usd", text("1.00"))];
    let gateway = Running::with(governed(&upstream.url, &keys)).await;
    let mut client = Client::new(true);
    client.body["model"] = json!("mystery-7");
    let response = client.post(&gateway).await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.header("x-should-retry"), Some("false"));
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(body["type"], "error");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("mystery-7") && message.contains("[[price]]"), "{message}");
}

#[tokio::test]
async fn a_search_that_no_answer_counts_is_refused_under_a_limit_of_searches() {
    let upstream = Simulated::playing("reader").await;
    for (limited, status) in [("grep", 200), ("web_search", 400)] {
        let limits = Key::Map(vec![(limited.to_owned(), Key::Int(3))]);
        let gateway = Running::with(governed(&upstream.url, &[("tool_limits", limits)])).await;
        let mut client = Client::on(Api::Chat, false);
        client.body["web_search_options"] = json!({});
        let response = client.post(&gateway).await;
        assert_eq!(response.status(), status, "{limited}");
        let said = String::from_utf8_lossy(&response.body).into_owned();
        let named = said.contains("web_search_options") && said.contains("Chat Completions");
        assert_eq!(named, status == 400, "{said}");
    }
}

#[tokio::test]
async fn money_lands_a_run_and_is_never_overspent() {
    for (api, stream) in all() {
        let upstream = Simulated::playing("sweeper").await;
        // Of what a turn costs: the models' prices differ.
        let (limit, nano) = match api {
            Api::Anthropic => ("0.20", 200_000_000),
            Api::Chat | Api::Responses => ("0.05", 50_000_000),
        };
        let gateway =
            Running::with(governed(&upstream.url, &[("cost_limit_usd", text(limit))])).await;
        let mut client = Client::on(api, stream);
        let (_, message, response) = client.run(&gateway).await;
        assert!(!response.text().trim().is_empty());
        assert_eq!(message.header("x-softland-phase"), Some("landing"));
        let spent = upstream.billed();
        assert!(spent <= nano, "{api:?}: {spent}");
        assert_eq!(upstream.refused(), 0, "{:?}", upstream.sim.stats().refusals);
    }
}

#[tokio::test]
async fn tokens_are_counted_on_the_governed_body() {
    let upstream = Simulated::playing("sweeper").await;
    let gateway =
        Running::with(governed(&upstream.url, &[("tool_calls_limit", Key::Int(1))])).await;
    let mut client = Client::new(false);
    client.turn(&gateway).await;
    let mut body = client.body.clone();
    body.as_object_mut().unwrap().remove("max_tokens");
    body.as_object_mut().unwrap().remove("stream");
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    let path = "POST /v1/messages/count_tokens";
    let governed = gateway.ask(gateway.request(path, &headers, &body.to_string())).await;
    let direct = Running::with(support::settings(&upstream.url)).await;
    let plain = direct.ask(direct.request(path, &headers, &body.to_string())).await;
    let tokens = |response: &Message| {
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        body["input_tokens"].as_u64().unwrap()
    };
    assert!(tokens(&governed) > tokens(&plain), "{} {}", tokens(&governed), tokens(&plain));
}

#[tokio::test]
async fn a_thread_is_refused_so_that_the_sdk_sends_everything() {
    let upstream = Simulated::playing("reader").await;
    let gateway = Running::with(governed(&upstream.url, &[])).await;
    let mut client = Client::new(false);
    client.body["thread"] = json!({"type": "create"});
    let response = client.post(&gateway).await;
    assert_eq!(response.status(), 400);
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(body["error"]["details"]["error_code"], "thread_unsupported_request");
}

#[tokio::test]
async fn who_only_observes_changes_nothing_and_says_what_would_have_been_done() {
    let upstream = Simulated::playing("parallel").await;
    let keys = [("tool_calls_limit", Key::Int(2)), ("mode", text("observe"))];
    let gateway = Running::with(governed(&upstream.url, &keys)).await;
    let mut client = Client::new(true);
    let (turns, response, _) = client.run(&gateway).await;
    assert_eq!(turns, 4, "three batches and an answer, as without softland");
    assert_eq!(response.header("x-softland-interventions"), None);
    assert!(!client.body.to_string().contains("remaining"));
    let would = r#"softland_observed_interventions_total{intervention="ask"}"#;
    gateway.until_metrics(would).await;
    let metrics = gateway.metrics().await;
    assert!(!metrics.contains("softland_interventions_total{"), "nothing was done:\n{metrics}");
}

/// A response that cannot be followed is no turn of a run: a background response, several choices.
#[tokio::test]
async fn what_is_no_single_answer_passes_unmetered_or_not_at_all() {
    let cases = [
        (Api::Responses, json!({"model": "gpt-5.2", "input": "hi", "background": true})),
        (Api::Responses, json!({"model": "gpt-5.2", "input": "hi", "background": "true"})),
        (
            Api::Chat,
            json!({"model": "gpt-4.1", "n": 2,
            "messages": [{"role": "user", "content": "hi"}]}),
        ),
    ];
    for (api, body) in cases {
        let provider = support::Provider::says(odd()).await;
        let mut client = Client::on(api, false);
        client.body = body;
        let keys = [("tool_calls_limit", Key::Int(4))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let got = client.post(&gateway).await;
        assert_eq!((got.status(), got.text()), (200, "{\"x\": 1}"));
        assert_eq!(provider.only().text(), client.body.to_string());
        gateway.until_metrics("{event=\"unmetered\"} 1").await;

        let keys = [("cost_limit_usd", text("1.00"))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let got = client.post(&gateway).await;
        assert_eq!((got.status(), got.header("x-should-retry")), (400, Some("false")));
        assert!(got.text().contains("allow_unmetered"), "{}", got.text());
        assert_eq!(provider.count(), 1);
    }
}

fn odd() -> String {
    support::response("200 OK", &["content-type: application/json"], "{\"x\": 1}")
}

/// A request that cannot be read passes where no limit holds for it, since another reader may take
/// it. Under any limit it is stopped, with an answer that the client can read.
#[tokio::test]
async fn what_cannot_be_read_is_stopped_under_any_limit() {
    let keys: [&[(&str, Key)]; 11] = [
        &[],
        &[("mode", text("observe")), ("tool_calls_limit", Key::Int(4))],
        &[("repeat_limit", Key::Int(2))],
        &[("tool_calls_limit", Key::Int(4))],
        &[("tool_limits", text("read_file=3"))],
        &[("turns_limit", Key::Int(4))],
        &[("result_chars_limit", Key::Int(4000))],
        &[("tokens_limit", Key::Int(4000))],
        &[("time_limit", text("1m"))],
        &[("cost_limit_usd", text("1.00"))],
        &[("session_cost_limit_usd", text("1.00"))],
    ];
    for (api, stream) in all() {
        let whole = Client::on(api, stream).body;
        let member = if api == Api::Responses { "input" } else { "messages" };
        let (mut nameless, mut odd_history) = (whole.clone(), whole.clone());
        nameless.as_object_mut().unwrap().remove("model");
        odd_history[member] = json!(3);
        let whole = whole.to_string();
        let bodies = [
            nameless.to_string(),
            odd_history.to_string(),
            // What other readers let pass.
            whole.replace("\"stream\"", "\"top_p\":NaN,\"stream\"").replacen("{", "{\"a\":0,", 1),
            format!("{whole} x"),
        ];
        for (n, body) in bodies.iter().enumerate() {
            let keys = keys.iter().enumerate().filter(|(at, _)| *at < 4 || at % 4 == n);
            for (at, keys) in keys {
                let name = format!("{api:?}, stream: {stream}, {keys:?}: {body}");
                let provider = support::Provider::says(odd()).await;
                let gateway = Running::with(governed(&provider.url(), keys)).await;
                let client = Client::on(api, stream);
                let got = gateway.ask(client.request_of(&gateway, body)).await;
                if at < 3 {
                    assert_eq!((got.status(), got.text()), (200, "{\"x\": 1}"), "{name}");
                    assert_eq!(provider.only().text(), *body, "{name}");
                    continue;
                }
                assert_eq!((got.status(), provider.count()), (200, 0), "{name}: {}", got.text());
                assert_eq!(got.header("x-softland-interventions"), Some("stop"), "{name}");
                let response = support::reading::read(&got);
                assert_eq!(response.end, support::reading::End::Whole, "{name}: {}", got.text());
                assert!(response.text().contains("softland's, not the model's"), "{name}");
                assert!(response.text().contains("could not read"), "{name}: {}", response.text());
            }
        }
    }
}

/// A stream of Chat Completions says what it costs only if asked: under a limit of money it is
/// asked, and the client sees nothing of that.
#[tokio::test]
async fn usage_that_the_client_did_not_ask_for_is_counted_and_not_shown() {
    for (limit, said) in
        [(("cost_limit_usd", text("5.00")), true), (("turns_limit", Key::Int(9)), false)]
    {
        let upstream = Simulated::playing("reader").await;
        let gateway = Running::with(governed(&upstream.url, &[limit])).await;
        let (message, response) = Client::on(Api::Chat, true).turn(&gateway).await;
        assert_eq!(response.usage, Value::Null);
        assert!(!message.text().contains("\"usage\":{"), "{}", message.text());
        assert!(upstream.billed() > 0);
        let metrics = gateway.metrics().await;
        let spent = metrics.lines().find_map(|l| l.strip_prefix("softland_spend_usd_total "));
        let spent: f64 = spent.unwrap().parse().unwrap();
        assert_eq!(spent > 0.0, said, "{metrics}");
    }
}
