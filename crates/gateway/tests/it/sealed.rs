//! Compaction by the provider: the history becomes content that only the provider can read. A run
//! keeps its count behind it (`docs/governing.md` §7).

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::compaction::{LIMIT, user};
use crate::support::client::Client;
use crate::support::reading::read;
use crate::support::sim::governed;
use crate::support::{Message, Provider, Running, response};

/// The ways in which a provider compacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a request of its own, whose result is the next history.
    Endpoint,
    /// The same, and the result holds no message.
    Alone,
    /// In a response that was asked for nothing else.
    Triggered,
    /// In the response whose calls follow it.
    Along,
}

const WAYS: [(Api, Way); 5] = [
    (Api::Responses, Way::Endpoint),
    (Api::Responses, Way::Alone),
    (Api::Responses, Way::Triggered),
    (Api::Responses, Way::Along),
    (Api::Anthropic, Way::Along),
];

fn context(n: usize) -> String {
    format!("gAAAAABp{n:06}-what-was-done-as-only-the-provider-can-read-it")
}

fn item(n: usize) -> Value {
    json!({"type": "compaction", "id": format!("cmp_{n:06}"), "encrypted_content": context(n)})
}

/// Returns the provider's answer to its request of this number.
fn answer(n: usize, way: Way, asked: &Message) -> Value {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let usage = json!({"input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050});
    let input = json!({"path": format!("notes/{n}")});
    if asked.line.contains("/v1/messages") {
        let ends = body["tool_choice"]["type"] == "none" || asked.text().contains("Say it now");
        let mut content = match ends {
            true => vec![json!({"type": "text", "text": "It is done."})],
            false => vec![json!({"type": "tool_use", "id": "call_0", "name": "read_file",
                "input": input})],
        };
        if n.is_multiple_of(4) && !ends {
            content.insert(0, json!({"type": "compaction", "content": context(n)}));
        }
        let stop = if ends { "end_turn" } else { "tool_use" };
        return json!({"id": format!("msg_{n}"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": content, "stop_reason": stop,
            "stop_sequence": null, "usage": {"input_tokens": 1000, "output_tokens": 50}});
    }
    if asked.line.contains("/compact") {
        let kept = body["input"].as_array().unwrap().iter().filter(|item| item["role"] == "user");
        let mut output: Vec<Value> = kept
            .map(|item| {
                json!({"type": "message", "id": format!("msg_{n}"), "role": "user",
                    "status": "completed",
                    "content": [{"type": "input_text", "text": item["content"]}]})
            })
            .collect();
        output.push(item(n));
        return json!({"id": format!("resp_{n}"), "object": "response.compaction",
            "created_at": 1_795_300_000, "output": output, "usage": usage});
    }
    let ends = body["tool_choice"] == "none";
    let triggered = asked.text().contains("compaction_trigger");
    let call = json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": "call_0",
        "name": "read_file", "arguments": input.to_string(), "status": "completed"});
    let text = json!({"type": "message", "id": format!("msg_{n}"), "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is done.", "annotations": []}]});
    let mut output = vec![if ends { text } else { call }];
    if triggered {
        output = vec![item(n)];
    } else if way == Way::Along && n.is_multiple_of(4) && !ends {
        output.insert(0, item(n));
    }
    json!({"id": format!("resp_{n}"), "object": "response", "created_at": 1_795_300_000,
        "status": "completed", "model": "gpt-5.2", "error": null, "incomplete_details": null,
        "output": output, "store": false, "usage": usage})
}

async fn provider(way: Way) -> Provider {
    let count = AtomicUsize::new(1);
    Provider::does(move |asked, wire| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let body = answer(n, way, &asked).to_string();
            let said = response("200 OK", &["content-type: application/json"], &body);
            wire.lock().await.send(said).await;
            true
        }
    })
    .await
}

/// Leaves out what stands before the newest compacted context.
fn cut(history: &mut Vec<Value>) {
    let sealed = |entry: &Value| entry.to_string().contains("\"type\":\"compaction\"");
    if let Some(at) = history.iter().rposition(sealed) {
        history.drain(..at);
    }
}

/// Compacts the history of a client, which does not send the ids of items back.
async fn compact(client: &mut Client, gateway: &Running) {
    let body = json!({"model": "gpt-5.2", "input": client.messages()}).to_string();
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    let request = gateway.request("POST /v1/responses/compact", &headers, &body);
    let message = gateway.ask(request).await;
    assert_eq!(message.status(), 200, "{}", message.text());
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    assert_eq!(body["object"], "response.compaction", "as it came");
    let mut output = body["output"].as_array().unwrap().clone();
    output.iter_mut().for_each(|item| {
        item.as_object_mut().unwrap().remove("id");
    });
    *client.messages() = output;
}

/// Works until it is landed. Returns the calls that were run.
async fn works(client: &mut Client, gateway: &Running, way: Way) -> (usize, String) {
    let (mut ran, mut trail) = (0, String::new());
    for request in 1..=2 * LIMIT {
        let (message, response) = client.turn(gateway).await;
        trail += message.header("x-softland-tool-calls").unwrap_or("-");
        trail += " ";
        if response.calls().is_empty() {
            return (ran, trail);
        }
        ran += response.calls().len();
        match way {
            Way::Along => cut(client.messages()),
            Way::Endpoint if request % 5 == 0 => compact(client, gateway).await,
            Way::Alone if request % 5 == 0 => {
                compact(client, gateway).await;
                client.messages().retain(|item| item["type"] == "compaction");
            }
            Way::Triggered if request % 5 == 0 => {
                let mut asking = client.clone();
                asking.messages().push(json!({"type": "compaction_trigger"}));
                let message = asking.post(gateway).await;
                let items = read(&message).items;
                assert!(items[0]["type"] == "compaction", "{}", message.text());
                *client.messages() = [vec![user("Go on.")], items].concat();
            }
            Way::Endpoint | Way::Alone | Way::Triggered => {}
        }
    }
    (ran, trail + "and it goes on")
}

#[tokio::test]
async fn a_run_keeps_its_count_behind_what_only_the_provider_can_read() {
    let mut failed = Vec::new();
    for (api, way) in WAYS {
        for name in ["accept: */*", "x-softland-session: s"] {
            let provider = provider(way).await;
            let keys = [("tool_calls_limit", Key::Int(LIMIT as i128))];
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let mut client = Client::on(api, false).with(name);
            let (ran, trail) = works(&mut client, &gateway, way).await;
            if ran != LIMIT {
                failed.push(format!("{api:?} {way:?} {name}: {ran}: {trail}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A compaction is billed as every request is, and refused where the limit has no room for it.
#[tokio::test]
async fn a_compaction_counts_in_the_money_of_its_run() {
    let upstream = provider(Way::Endpoint).await;
    let keys = [("cost_limit_usd", Key::Float(3.0))];
    let gateway = Running::with(governed(&upstream.url(), &keys)).await;
    let mut client = Client::on(Api::Responses, false);
    client.turn(&gateway).await;
    compact(&mut client, &gateway).await;
    client.turn(&gateway).await;
    let metrics = gateway.metrics().await;
    let spent = metrics.lines().find_map(|line| line.strip_prefix("softland_spend_usd_total "));
    // Three requests of 1,000 and 50 tokens.
    let expected = 3.0 * (1000.0 * 1.75 + 50.0 * 14.0) / 1e6;
    assert!((spent.unwrap().parse::<f64>().unwrap() - expected).abs() < 1e-6, "{spent:?}");
    let small = Running::with(governed(&upstream.url(), &[("cost_limit_usd", Key::Float(0.1))]));
    let small = small.await;
    let sent = upstream.count();
    let body = json!({"model": "gpt-5.2", "input": client.messages()}).to_string();
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    let refused = small.ask(small.request("POST /v1/responses/compact", &headers, &body)).await;
    assert_eq!(refused.status(), 400, "{}", refused.text());
    assert!(refused.text().contains("compaction"), "{}", refused.text());
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert_eq!(upstream.count(), sent, "it is not sent");
}
