//! Keys of the gateway's own: where a request carries its key, what the key selects, and what is
//! kept apart by it.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use http::StatusCode;
use serde_json::{Value, json};
use softland_gateway::{ClientKey, KeyEntry, Secret, Settings, digest_token};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;
use tempfile::TempDir;

use crate::support::client::Client;
use crate::support::reading::read;
use crate::support::script::{Reply, Scripted, calls, says};
use crate::support::sim::{governed, policy, text};
use crate::support::{Message, Provider, Running, response, settings};

/// A key whose token is `NAME-token`, with an account `acme/NAME`.
fn key(name: &str) -> KeyEntry {
    let account = Some(format!("acme/{name}").into());
    let key = ClientKey { name: name.into(), account, policies: Some(Vec::new()), policy: None };
    KeyEntry { digest: digest_token(format!("{name}-token").as_bytes()), key }
}

/// A client that shows the key of this name.
fn client(name: &str) -> Client {
    Client::new(false).with(&format!("x-softland-key: {name}-token"))
}

async fn scripted(replies: Vec<Reply>, change: impl FnOnce(&mut Settings)) -> (Scripted, Running) {
    let upstream = Scripted::plays(replies).await;
    let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(30))]);
    settings.keys = ["ana", "bo"].map(key).into();
    change(&mut settings);
    (upstream, Running::with(settings).await)
}

async fn json_of(gateway: &Running, path: &str) -> Value {
    let got = gateway.ask(gateway.request(&format!("GET {path}"), &[], "")).await;
    assert_eq!(got.status(), 200, "{path}: {}", got.text());
    serde_json::from_str(got.text()).expect("JSON")
}

fn run_of(message: &Message) -> String {
    assert_eq!(message.status(), 200, "{}", message.text());
    message.header("x-softland-run").expect("a run").to_owned()
}

#[tokio::test]
async fn k01_a_request_shows_its_key_in_one_of_three_places() {
    let provider = Provider::says(response("200 OK", &[], "{}")).await;
    let mut settings = settings(&provider.url());
    settings.keys = ["ana", "bo"].map(key).into();
    settings.upstreams.get_mut("anthropic").expect("there").key = Some(Secret::new("sk-own"));
    let gateway = Running::with(settings).await;
    for headers in [
        &[][..],
        &["x-api-key: any"],
        &["x-api-key: ana-toke"],
        &["x-softland-key:"],
        &["x-softland-key: ana"],
        // What says who asks is not overruled by what may be there by accident.
        &["x-softland-key: wrong", "x-api-key: ana-token"],
        &["x-softland-key: ana-token", "x-softland-key: bo-token"],
    ] {
        for path in ["/v1/messages", "/v1/chat/completions", "/v1/models", "/to/other/v1/x"] {
            let got = gateway.ask(gateway.request(&format!("POST {path}"), headers, "{}")).await;
            assert_eq!(got.status(), StatusCode::UNAUTHORIZED.as_u16(), "{path} {headers:?}");
            assert!(got.text().contains("x-softland-key"), "{}", got.text());
            assert!(!got.text().contains("-token"), "no token is told");
        }
    }
    assert_eq!(provider.count(), 0);
    for headers in [
        &["x-api-key: ana-token"][..],
        &["authorization: Bearer bo-token"],
        &["x-softland-key: ana-token"],
        &["x-softland-key: Bearer ana-token", "x-api-key: sk-client"],
    ] {
        let got = gateway.ask(gateway.request("POST /v1/messages", headers, "{}")).await;
        assert_eq!(got.status(), 200, "{headers:?}: {}", got.text());
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        assert_eq!(asked.header("x-api-key"), Some("sk-own"));
        assert!(!format!("{asked:?}").contains("-token"), "{asked:?}");
    }
    // Credentials that pass through do so beside the key.
    let headers = ["x-softland-key: ana-token", "authorization: Bearer sk-client"];
    gateway.ask(gateway.request("POST /to/other/v1/responses", &headers, "{}")).await;
    let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-client"));
    assert_eq!(asked.header("x-softland-key"), None);
}

#[tokio::test]
async fn k02_a_key_selects_its_policy_and_those_that_it_may() {
    let (_upstream, gateway) = scripted(vec![says("Done."); 6], |settings| {
        for (name, calls) in [("strict", 12), ("lax", 13), ("free", 14)] {
            settings.policies.insert(name.into(), policy(&[("tool_calls_limit", Key::Int(calls))]));
        }
        settings.header_policies = vec!["free".to_owned()];
        let [ana, bo] = &mut settings.keys[..] else { unreachable!() };
        ana.key.policy = Some("strict".to_owned());
        ana.key.policies = Some(vec!["strict".to_owned(), "lax".to_owned()]);
        bo.key.policies = Some(Vec::new());
        settings.keys.push(KeyEntry::from_token("carl-token"));
    })
    .await;
    for (name, header, wanted) in [
        ("ana", None, Ok("0/12")),
        ("ana", Some("lax"), Ok("0/13")),
        ("ana", Some("strict"), Ok("0/12")),
        ("ana", Some("free"), Err("they may choose strict, lax")),
        ("ana", Some("default"), Err("they may choose strict, lax")),
        ("bo", None, Ok("0/30")),
        ("bo", Some("strict"), Err("no policy may be chosen")),
        // A token without a key's table selects what every client may.
        ("carl", Some("free"), Ok("0/14")),
        ("carl", Some("lax"), Err("they may choose free")),
    ] {
        let mut client = client(name).asking(&format!("{name} asks for {header:?}"));
        if let Some(header) = header {
            client = client.with(&format!("x-softland-policy: {header}"));
        }
        let got = client.post(&gateway).await;
        match wanted {
            Ok(calls) => assert_eq!(got.header("x-softland-tool-calls"), Some(calls), "{name}"),
            Err(says) => {
                assert_eq!(got.status(), 403, "{name} {header:?}");
                assert!(got.text().contains(says), "{}", got.text());
            }
        }
    }
}

/// The same content, session, run and agent of another key is another run.
#[tokio::test]
async fn k03_nobody_joins_a_run_of_another_key() {
    for names in [&[][..], &["x-softland-run: nightly"], &["x-softland-session: s"]] {
        let replies = vec![calls(1), says("Done."), says("Mine."), says("Both.")];
        let (_upstream, gateway) = scripted(replies, |_| {}).await;
        let with = |name: &str| names.iter().fold(client(name), |client, name| client.with(name));
        let mut ana = with("ana");
        let (first, _) = ana.turn(&gateway).await;
        let run = run_of(&first);
        let mut bo = with("bo");
        bo.body = ana.body.clone();
        assert_ne!(run_of(&bo.post(&gateway).await), run, "{names:?}: a copied history");
        assert_eq!(run_of(&ana.post(&gateway).await), run, "{names:?}: one's own");
        let shown = json_of(&gateway, &format!("/api/runs/{run}")).await;
        assert_eq!((&shown["key"], &shown["account"]), (&json!("ana"), &json!("acme/ana")));
    }
}

/// A first request that brought no turn is found again by its content, and only by its own key.
#[tokio::test]
async fn k03_a_question_that_was_not_answered_is_nobody_elses() {
    let away = || Reply::Error("500 Internal Server Error", vec![], "{}");
    let (_upstream, gateway) = scripted(vec![away(), says("Mine."), says("Yours.")], |_| {}).await;
    client("ana").post(&gateway).await;
    let [bo, ana] = [client("bo").post(&gateway).await, client("ana").post(&gateway).await];
    assert_ne!(run_of(&bo), run_of(&ana));
    let runs = json_of(&gateway, "/api/runs?key=ana").await;
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "the same run again: {runs}");
}

/// Money of a run or a session that clients name is not shared by clients with other keys, whatever
/// their names look like.
#[tokio::test]
async fn k04_nobody_spends_what_another_key_has() {
    let names = ["ana", "bo", "a", "a.run"];
    for (limit, header) in [
        ("cost_limit_usd", "x-softland-run: x"),
        ("session_cost_limit_usd", "x-softland-session: x"),
    ] {
        let replies = (0..100).map(|_| says("Done.")).collect();
        let (_upstream, gateway) = scripted(replies, |settings| {
            settings.policies.insert("default".to_owned(), policy(&[(limit, text("0.2"))]));
            settings.keys = names.map(key).into();
        })
        .await;
        let lands = async |name: &str, n: usize| {
            let asks = client(name).with(header).asking(&format!("Question {n}"));
            let message = asks.post(&gateway).await;
            assert_eq!(message.status(), 200, "{}", message.text());
            message.header("x-softland-phase") == Some("landing")
        };
        let mut asked = 0;
        while !lands("ana", asked).await {
            asked += 1;
            assert!(asked < 60, "the limit is reached");
        }
        for name in names.into_iter().skip(1) {
            assert!(!lands(name, 0).await, "{name} has its own under {header}");
        }
        assert!(lands("ana", 70).await, "and ana has none");
    }
}

#[tokio::test]
async fn k05_a_stored_response_of_another_key_is_not_continued() {
    let replies = vec![says("One."), says("Two.")];
    let (upstream, gateway) = scripted(replies, |_| {}).await;
    let responses = |name: &str| {
        let mut client =
            Client::on(Api::Responses, false).with(&format!("x-softland-key: {name}-token"));
        client.body.as_object_mut().expect("an object").remove("store");
        client
    };
    let first = responses("ana").post(&gateway).await;
    let id = read(&first).id;
    let goes_on = |name: &str| {
        let next = json!([{"role": "user", "content": "And then?"}]);
        responses(name).set("previous_response_id", id.clone().into()).set("input", next)
    };
    let asked = upstream.provider.count();
    let foreign = goes_on("bo").post(&gateway).await;
    assert_eq!(foreign.status(), 404, "{}", foreign.text());
    assert!(foreign.text().contains("made with this key"), "{}", foreign.text());
    assert_eq!(upstream.provider.count(), asked, "nothing was sent");
    let own = goes_on("ana").post(&gateway).await;
    assert_eq!(own.status(), 200, "{}", own.text());
}

#[tokio::test]
async fn k06_ledger_metrics_and_lists_name_the_key_and_its_account() {
    let folder = TempDir::new().expect("a folder");
    let replies = (0..4).map(|_| says("Done.")).collect();
    let (_upstream, gateway) = scripted(replies, |settings| {
        settings.ledger = Some(folder.path().join("ledger.db").into());
    })
    .await;
    for name in ["ana", "bo"] {
        client(name).asking(&format!("{name} asks")).post(&gateway).await;
    }
    for (filter, wanted) in [
        ("key=ana", &["ana"][..]),
        ("account=acme", &["ana", "bo"]),
        ("account=acme/bo", &["bo"]),
        ("account=acm", &[]),
        ("key=ana&account=acme/bo", &[]),
        ("policy=default&key=bo", &["bo"]),
        ("policy=strict", &[]),
        ("model=claude-sonnet-4-5&search=acme/ana", &["ana"]),
        ("session=nobody", &[]),
        ("agent=nobody", &[]),
    ] {
        let runs = json_of(&gateway, &format!("/api/runs?{filter}")).await;
        let rows = runs["runs"].as_array().expect("runs");
        let mut keys: Vec<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, wanted, "{filter}");
    }
    let metrics = gateway.metrics().await;
    for name in ["ana", "bo"] {
        let labels =
            format!("softland_key_spend_usd_total{{key=\"{name}\",account=\"acme/{name}\"}}");
        assert!(metrics.contains(&labels), "{metrics}");
    }
    drop(gateway);
}

#[tokio::test]
async fn k61_metrics_are_labelled_by_model_policy_and_account_within_bounds() {
    let refused = || Reply::Error("404 Not Found", vec!["content-type: application/json"], "{}");
    let replies = [vec![says("Done."); 2], (0..20).map(|_| refused()).collect()].concat();
    let (_upstream, gateway) = scripted(replies, |_| {}).await;
    for name in ["ana", "bo"] {
        client(name).asking(&format!("{name} asks")).post(&gateway).await;
    }
    for n in 0..20 {
        let asking = client("ana").asking(&format!("question {n}"));
        asking.set("model", format!("invented-{n}").into()).post(&gateway).await;
    }
    let metrics = gateway.metrics().await;
    for name in ["ana", "bo"] {
        let set = format!("model=\"claude-sonnet-4-5\",policy=\"default\",account=\"acme/{name}\"");
        for counter in [
            format!("softland_usage_requests_total{{{set}}} 1"),
            format!("softland_usage_runs_total{{outcome=\"answered\",{set}}} 1"),
            format!("softland_usage_tokens_total{{kind=\"output\",{set}}} "),
            format!("softland_usage_spend_usd_total{{{set}}} 0."),
        ] {
            assert!(metrics.contains(&counter), "{counter} is not in {metrics}");
        }
    }
    let other = "softland_usage_requests_total{model=\"other\",policy=\"default\",\
                 account=\"acme/ana\"} 20";
    assert!(metrics.contains(other) && !metrics.contains("invented"), "{metrics}");
}
