//! Sums of what was used, and runs by the names that clients gave them, over the pages' API.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_gateway::{ClientKey, KeyEntry, digest_token};
use softland_session::wire::Api;

use crate::support::client::Client;
use crate::support::sim::{Simulated, governed};
use crate::support::{Message, Provider, Running, response};

fn key(name: &str) -> KeyEntry {
    let account = Some(format!("acme/{name}").into());
    let key = ClientKey { name: name.into(), account, ..ClientKey::default() };
    KeyEntry { digest: digest_token(format!("{name}-token").as_bytes()), key }
}

fn client(api: Api, name: &str) -> Client {
    Client::on(api, false).with(&format!("x-softland-key: {name}-token"))
}

async fn get(gateway: &Running, path: &str) -> Message {
    gateway.ask(gateway.request(&format!("GET {path}"), &[], "")).await
}

async fn get_json(gateway: &Running, path: &str) -> Value {
    let got = get(gateway, path).await;
    assert_eq!(got.status(), 200, "{path}: {}", got.text());
    serde_json::from_str(got.text()).expect("JSON")
}

/// Requests are summed by the groups that are asked for, as JSON and as CSV.
#[tokio::test]
async fn k15_usage_is_summed_by_what_is_asked_for() {
    let (sim, folder) = (Simulated::playing("sweeper").await, tempfile::tempdir().expect("one"));
    let mut settings = governed(&sim.url, &[]);
    settings.keys = ["ana", "bo"].map(key).into();
    settings.ledger = Some(folder.path().join("softland.db").into());
    let mut gateway = Running::with(settings.clone()).await;
    for (api, name) in [(Api::Anthropic, "ana"), (Api::Chat, "ana"), (Api::Anthropic, "bo")] {
        assert_eq!(client(api, name).post(&gateway).await.status(), 200);
    }
    gateway.stopped().await;
    let gateway = Running::with(settings.clone()).await;
    let by_account = get_json(&gateway, "/api/usage?by=account,model").await;
    let rows = by_account["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| (&row["account"], &row["requests"])).collect();
    let (ana, bo) = (json!("acme/ana"), json!("acme/bo"));
    assert_eq!(names, [(&ana, &json!(1)), (&ana, &json!(1)), (&bo, &json!(1))], "two models");
    let cost: f64 = rows.iter().filter_map(|row| row["cost_usd"].as_f64()).sum();
    assert!((cost * 1e9 - sim.billed() as f64).abs() < 1.0, "{cost} and {}", sim.billed());
    let whole = get_json(&gateway, "/api/usage?account=acme").await;
    assert_eq!((&whole["by"], &whole["rows"][0]["requests"]), (&json!(["day"]), &json!(3)));
    let day = whole["rows"][0]["day"].as_str().expect("a day").to_owned();
    let none = get_json(&gateway, &format!("/api/usage?by=key&to={day}")).await;
    assert_eq!(none["rows"], json!([]));
    let csv = get(&gateway, &format!("/api/usage?by=key,policy&from={day}&format=csv")).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.text().lines().collect();
    let heads =
        "key,policy,requests,input,output,cache_read,cache_write,cost_usd,unpriced_requests";
    assert_eq!((lines[0], lines.len()), (heads, 3));
    assert!(lines[1].starts_with("ana,default,2,") && lines[1].ends_with(",0"), "{lines:?}");
    for wrong in ["by=x", "by=day,day", "by=", "format=xml", "from=soon", "since=2026-01-01"] {
        assert_eq!(get(&gateway, &format!("/api/usage?{wrong}")).await.status(), 400, "{wrong}");
    }
    settings.ledger = None;
    let gateway = Running::with(settings).await;
    assert_eq!(get(&gateway, "/api/usage").await.status(), 404, "there is no ledger");
}

/// A run is found and cancelled by its id and by the client's name for it: the newest, while this process knows
/// it and afterwards in the ledger.
#[tokio::test]
async fn k15_a_run_is_found_by_its_name() {
    let (sim, folder) = (Simulated::playing("sweeper").await, tempfile::tempdir().expect("one"));
    let mut settings = governed(&sim.url, &[]);
    settings.ledger = Some(folder.path().join("softland.db").into());
    let mut gateway = Running::with(settings.clone()).await;
    let mut newest = String::new();
    for question in ["What is first?", "What is next?"] {
        let asks = Client::on(Api::Anthropic, false).with("x-softland-run: job#7/a");
        let got = asks.asking(question).post(&gateway).await;
        assert_eq!(got.status(), 200, "{}", got.text());
        newest = got.header("x-softland-run").expect("a run").to_owned();
    }
    let path = "/api/runs/job%237%2Fa";
    assert_eq!(get_json(&gateway, path).await["run"], newest);
    assert_eq!(get_json(&gateway, &format!("/api/runs/{newest}")).await["name"], "job#7/a");
    let url = gateway.handle.pages_url();
    let bearer = format!("authorization: Bearer {}", url.split_once("#token=").expect("one").1);
    let cancel = gateway.request(&format!("POST {path}/cancel"), &[&bearer], "");
    let done: Value = serde_json::from_str(gateway.ask(cancel).await.text()).expect("JSON");
    assert_eq!(done["cancelled"], json!([newest]));
    gateway.stopped().await;
    let gateway = Running::with(settings).await;
    assert_eq!(get_json(&gateway, path).await["run"], newest);
    assert_eq!(get(&gateway, "/api/runs/job").await.status(), 404);
}

/// Requests of a model without a price have not cost nothing.
#[tokio::test]
async fn money_that_is_not_known_is_no_zero() {
    let body = json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "of-no-list",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "All is well, as far as I see."}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}});
    let provider = Provider::says(response("200 OK", &[], &body.to_string())).await;
    let folder = tempfile::tempdir().expect("one");
    let mut settings = governed(&provider.url(), &[]);
    settings.ledger = Some(folder.path().join("softland.db").into());
    let mut gateway = Running::with(settings.clone()).await;
    let client = Client::on(Api::Chat, false).set("model", json!("of-no-list"));
    assert_eq!(client.post(&gateway).await.status(), 200);
    gateway.stopped().await;
    let gateway = Running::with(settings).await;
    let row = &get_json(&gateway, "/api/usage").await["rows"][0];
    assert_eq!((&row["requests"], &row["unpriced_requests"]), (&json!(1), &json!(1)));
    assert_eq!(row["cost_usd"], Value::Null);
    let csv = get(&gateway, "/api/usage?format=csv").await;
    assert!(csv.text().ends_with(",,1\r\n"), "{}", csv.text());
}
