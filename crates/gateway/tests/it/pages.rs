//! The pages' API: what it says of runs while they go on and afterwards, who may read it, and
//! cancelling.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::events::Events;
use crate::support::script::{Reply, Scripted, calls, says};
use crate::support::sim::governed;
use crate::support::{Message, Running};
use serde_json::{Value, json};
use softland_gateway::{Secret, Settings};
use softland_ledger::{Ledger, Options, Payer, Record, RunEnd, RunOwner, RunStart};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::core::{Outcome, Reason, RunEnding};
use tempfile::TempDir;
use tokio::time::timeout;

/// Longer than anything here takes on a machine that has much to do.
const LONG: Duration = Duration::from_secs(120);

async fn gateway(
    upstream: &Scripted,
    folder: Option<&Path>,
    change: impl FnOnce(&mut Settings),
) -> Running {
    let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(4))]);
    settings.ledger = folder.map(|folder| folder.join("ledger.db").into());
    change(&mut settings);
    Running::with(settings).await
}

async fn get(gateway: &Running, path: &str) -> Message {
    gateway.ask(gateway.request(&format!("GET {path}"), &[], "")).await
}

async fn json_of(gateway: &Running, path: &str) -> Value {
    let got = get(gateway, path).await;
    assert_eq!(got.status(), 200, "{path}: {}", got.text());
    serde_json::from_str(got.text()).expect("JSON")
}

fn token(gateway: &Running) -> String {
    let url = gateway.handle.pages_url();
    let (_, token) = url.split_once("#token=").expect("a token in the fragment");
    token.to_owned()
}

async fn cancel(gateway: &Running, run: &str, headers: &[&str]) -> Message {
    let line = format!("POST /api/runs/{run}/cancel");
    gateway.ask(gateway.request(&line, headers, "{}")).await
}

fn words(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().filter_map(|(_, event)| event["event"].as_str()).collect()
}

#[tokio::test]
async fn a_run_is_told_in_block_order_and_goes_on_after_a_reconnect() {
    let folder = TempDir::new().expect("a folder");
    let thinks = vec![
        json!({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}),
        json!({"type": "text", "text": "First the notes."}),
        json!({"type": "tool_use", "id": "toolu_a", "name": "read_file", "input": {"path": "a"}}),
        json!({"type": "text", "text": "Then the list."}),
        json!({"type": "tool_use", "id": "toolu_b", "name": "list_dir", "input": {"path": "b"}}),
    ];
    let replies = vec![calls(1), Reply::Says(thinks, "tool_use"), says("All of it is there.")];
    let upstream = Scripted::plays(replies).await;
    let gateway = gateway(&upstream, Some(folder.path()), |_| {}).await;
    let mut client = Client::new(true);
    let (message, _) = client.turn(&gateway).await;
    let run = message.header("x-softland-run").expect("a run").to_owned();
    let path = format!("/api/runs/{run}/events");

    // Somebody begins to watch after the first turn, which nobody had seen.
    let mut first = Events::of(&gateway, &path, None).await;
    client.turn(&gateway).await;
    let mut seen = Vec::new();
    while words(&seen).iter().filter(|word| **word == "block_stop").count() < 6 {
        seen.push(first.next().await.expect("more"));
    }
    drop(first);
    let last = seen.last().expect("some").0.clone();
    let (_, response) = client.turn(&gateway).await;
    assert!(response.calls().is_empty());
    let mut second = Events::of(&gateway, &path, Some(&last)).await;
    seen.extend(second.rest().await);

    let seqs: Vec<u64> = seen.iter().filter_map(|(_, event)| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "no gap and none twice");
    let of_turn = |turn: u64| -> Vec<&str> {
        let own = seen.iter().filter(|(_, event)| event["turn"] == turn);
        let own = own.filter_map(|(_, event)| event["event"].as_str());
        let told = |word: &&str| !word.ends_with("_delta") && *word != "block_stop";
        own.filter(told).collect()
    };
    let second = [
        "turn_start",
        "thinking_start",
        "text_start",
        "tool_start",
        "text_start",
        "tool_start",
        "usage",
        "tool_result",
        "tool_result",
    ];
    let had = of_turn(2);
    let had: Vec<&str> = had.iter().filter(|word| **word != "turn_again").copied().collect();
    assert_eq!(had, second, "{seen:#?}");
    let third = ["turn_start", "intervention", "intervention", "text_start", "usage", "done"];
    assert_eq!(of_turn(3), third, "one line on each of two results");
    assert!(of_turn(1).ends_with(&["turn_again", "tool_start", "tool_result"]), "{seen:#?}");
    assert_eq!(words(&seen).last(), Some(&"done"));
    let result = seen.iter().find(|(_, event)| event["id"] == "toolu_b" && event["ok"] == true);
    assert_eq!(result.expect("a result").1["content"], r#"notes of {"path":"b"}"#);
    let question = seen.iter().find(|(_, event)| event["event"] == "question").expect("one");
    assert!(question.1["text"].as_str().is_some_and(|text| text.contains("notes")));
    // A tape that is not there any more is begun anew.
    let mut other = Events::of(&gateway, &path, Some("3.other")).await;
    assert_eq!(other.next().await.expect("one").1["kind"], "resync");
}

#[tokio::test]
async fn the_list_tells_of_five_hundred_open_runs_and_totals_add_them_up() {
    let folder = TempDir::new().expect("a folder");
    let upstream = Scripted::plays(vec![calls(1)]).await;
    let gateway = gateway(&upstream, Some(folder.path()), |_| {}).await;
    let mut list = Events::of(&gateway, "/api/events", None).await;
    for n in 0..500 {
        let header = format!("x-softland-run: run-{n}");
        Client::new(true).with(&header).turn(&gateway).await;
    }
    let mut seen = std::collections::BTreeMap::new();
    let mut last = String::new();
    while seen.len() < 500 || seen.values().any(|busy| *busy == json!(true)) {
        let (id, row) = list.next().await.expect("more");
        seen.insert(row["name"].to_string(), row["busy"].clone());
        if !id.is_empty() {
            last = id;
        }
    }
    // One who comes back hears of what is new only.
    let mut again = Events::of(&gateway, "/api/events", Some(&last)).await;
    Client::new(true).with("x-softland-run: the-next").turn(&gateway).await;
    assert_eq!(again.next().await.expect("one").1["name"], "the-next");
    let listed = json_of(&gateway, "/api/runs").await;
    let runs = listed["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 501);
    assert_eq!(listed["ledger"], json!({"on": true, "content": "digests"}));
    assert!(runs.iter().all(|run| run["tool_calls_limit"] == 4 && run.get("outcome").is_none()));
    let watched = json_of(&gateway, "/api/runs").await["runs"][0]["run"].clone();
    let path = format!("/api/runs/{}", watched.as_str().expect("a run"));
    assert_eq!(json_of(&gateway, &path).await["run"], watched);
    let mut settled = json_of(&gateway, "/api/totals?days=7&offset=60").await;
    while settled["all"]["runs"] != 501 {
        settled = json_of(&gateway, "/api/totals?days=7&offset=60").await;
    }
    assert!(settled["by_model"]["claude-sonnet-4-5"]["runs"] == 501, "{settled}");
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("softland_active_streams 0"), "who watches is no stream: {metrics}");
}

#[tokio::test]
async fn a_run_is_cancelled_with_the_token_only_and_stays_so() {
    let upstream = Scripted::plays(vec![calls(1), Reply::Hangs(": begun\n\n"), says("no")]).await;
    let gateway = gateway(&upstream, None, |_| {}).await;
    let mut client = Client::new(true);
    let (message, _) = client.turn(&gateway).await;
    let run = message.header("x-softland-run").expect("a run").to_owned();
    let bearer = format!("authorization: Bearer {}", token(&gateway));
    let wrong = format!("authorization: {}", token(&gateway));
    let form = "content-type: application/x-www-form-urlencoded";
    for headers in [&[][..], &[form], &["authorization: Bearer x"], &[&wrong]] {
        assert_eq!(cancel(&gateway, &run, headers).await.status(), 401, "{headers:?}");
    }
    let foreign = [&*bearer, "origin: https://evil.example"];
    assert_eq!(cancel(&gateway, &run, &foreign).await.status(), 403);
    let asked = gateway.request(&format!("GET /api/runs/{run}/cancel"), &[&bearer], "");
    assert_eq!(gateway.ask(asked).await.status(), 405);
    assert_eq!(cancel(&gateway, "nobody", &[&bearer]).await.status(), 404);

    // While its stream is under way.
    let mut wire = gateway.client().await;
    wire.send(client.request(&gateway)).await;
    wire.head().await.expect("a head");
    let done = cancel(&gateway, &run, &[&bearer]).await;
    assert_eq!(done.status(), 200, "{}", done.text());
    assert_eq!(
        serde_json::from_str::<Value>(done.text()).expect("JSON")["cancelled"],
        json!([run])
    );
    assert!(timeout(LONG, wire.chunks()).await.expect("it ends").is_none(), "it breaks off");
    let row = json_of(&gateway, &format!("/api/runs/{run}")).await;
    assert_eq!((&row["outcome"], &row["reason"]), (&json!("cancelled"), &json!("user")));
    assert_eq!(cancel(&gateway, &run, &[&bearer]).await.status(), 404, "it is over");
    let again = client.post(&gateway).await;
    assert_eq!((again.status(), again.header("x-should-retry")), (400, Some("false")));
    assert_eq!(upstream.provider.count(), 2, "nothing more is asked");
    client.says("Then something else.");
    let (new, _) = client.turn(&gateway).await;
    assert_ne!(new.header("x-softland-run"), Some(&*run), "a new message begins a new run");
    let path = format!("/api/runs/{}", new.header("x-softland-run").expect("a run"));
    assert_eq!(json_of(&gateway, &path).await["continues"], json!(run));
}

#[tokio::test]
async fn the_sub_agents_of_a_cancelled_run_are_cancelled_too() {
    let upstream = Scripted::plays(vec![calls(1)]).await;
    let gateway = gateway(&upstream, None, |_| {}).await;
    let session = "x-claude-code-session-id: 1f0c6f5e-7a43-4a6e-9d4b-0a1c2b3d4e5f";
    let mut parent = Client::new(true).with(session);
    let run = parent.turn(&gateway).await.0.header("x-softland-run").expect("one").to_owned();
    let agent = "x-claude-code-agent-id: a1b2c3";
    let mut child = Client::new(true).with(session).with(agent).asking("Look at one part.");
    let sub = child.turn(&gateway).await.0.header("x-softland-run").expect("one").to_owned();
    let row = json_of(&gateway, &format!("/api/runs/{sub}")).await;
    assert_eq!(row["parent"], json!(run), "{row}");
    let bearer = format!("authorization: Bearer {}", token(&gateway));
    let done = cancel(&gateway, &run, &[&bearer]).await;
    let done: Value = serde_json::from_str(done.text()).expect("JSON");
    assert_eq!(done["cancelled"], json!([run, sub]));
    assert_eq!(child.post(&gateway).await.status(), 400);
    assert_eq!(parent.post(&gateway).await.status(), 400);
}

#[tokio::test]
async fn pages_protect_themselves_and_off_loopback_need_the_token() {
    let upstream = Scripted::plays(vec![says("x")]).await;
    let loopback = gateway(&upstream, None, |_| {}).await;
    for path in ["/", "/app.js", "/app.css", "/view.js", "/feed.js", "/api/runs", "/api/none"] {
        let got = get(&loopback, path).await;
        let policy = got.header("content-security-policy").expect("a policy");
        for part in ["default-src 'none'", "script-src 'self'", "connect-src 'self'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert!(got.body.len() < 100_000 && !got.text().contains("https://"), "{path}");
    }
    let host = "GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    assert_eq!(loopback.ask(host).await.status(), 403);
    let through = ["x-forwarded-for: 192.0.2.7"];
    let passed_on = loopback.request("GET /api/runs", &through, "");
    assert_eq!(loopback.ask(passed_on).await.status(), 401, "a proxy's client may be anywhere");
    let bearer = format!("authorization: Bearer {}", token(&loopback));
    let passed_on = loopback.request("GET /api/runs", &[through[0], &bearer], "");
    assert_eq!(loopback.ask(passed_on).await.status(), 200);
    let cross = loopback.request("GET /api/runs", &["sec-fetch-site: cross-site"], "");
    assert_eq!(loopback.ask(cross).await.status(), 403);

    for given in [None, Some("configured")] {
        let everywhere = gateway(&upstream, None, |settings| {
            settings.listen = "0.0.0.0:0".parse().expect("an address");
            settings.admin.token = given.map(Secret::new);
        })
        .await;
        let at = format!("127.0.0.1:{}", everywhere.address.port());
        let anywhere = format!("0.0.0.0:{}", everywhere.address.port());
        let named = format!("GET /healthz HTTP/1.1\r\nhost: {anywhere}\r\n\r\n");
        assert_eq!(everywhere.ask(named).await.status(), 200, "as it was printed");
        let asked =
            |path: &str, header: &str| format!("GET {path} HTTP/1.1\r\nhost: {at}\r\n{header}\r\n");
        let printed = everywhere.handle.pages_url();
        let token = match given {
            Some(token) => {
                assert!(!printed.contains("token"), "{printed}");
                token.to_owned()
            }
            None => token(&everywhere),
        };
        assert_eq!(everywhere.ask(asked("/", "")).await.status(), 200);
        for path in ["/api/runs", "/api/events", "/api/totals", "/api/budgets", "/api/usage"] {
            assert_eq!(everywhere.ask(asked(path, "")).await.status(), 401, "{path}");
        }
        let bearer = format!("authorization: Bearer {token}\r\n");
        assert_eq!(everywhere.ask(asked("/api/runs", &bearer)).await.status(), 200);
    }
}

#[tokio::test]
async fn past_runs_show_what_was_said_where_whole_contents_are_kept() {
    for full in [false, true] {
        let folder = TempDir::new().expect("a folder");
        let thinks = vec![
            json!({"type": "thinking", "thinking": "Secret thought.", "signature": "c2ln"}),
            json!({"type": "tool_use", "id": "toolu_a", "name": "read_file",
                "input": {"path": "a"}}),
        ];
        let upstream =
            Scripted::plays(vec![Reply::Says(thinks, "tool_use"), says("The answer.")]).await;
        let gateway =
            gateway(&upstream, Some(folder.path()), |settings| settings.ledger_full = full).await;
        let mut client = Client::new(true);
        let run = client.turn(&gateway).await.0.header("x-softland-run").expect("a").to_owned();
        client.turn(&gateway).await;
        let path = format!("/api/runs/{run}/events");
        let all = Events::of(&gateway, &path, None).await.rest().await;
        let text = format!("{all:?}");
        for said in ["Secret thought.", "toolu_a", "notes of", "The answer."] {
            assert_eq!(text.contains(said), full, "{said}: {text}");
        }
        assert_eq!(words(&all).first(), Some(&"run_start"));
        assert_eq!(words(&all).last(), Some(&"done"));
        // It reads the same again, from anywhere.
        let from = all.get(1).expect("two").0.clone();
        let rest = Events::of(&gateway, &path, Some(&from)).await.rest().await;
        assert_eq!(rest, all.get(2..).expect("more"));
    }
}

#[tokio::test]
async fn what_the_api_does_not_know_is_refused_with_what_it_knows() {
    let upstream = Scripted::plays(vec![says("x")]).await;
    let gateway = gateway(&upstream, None, |_| {}).await;
    for (path, why) in [
        ("/api/totals?days=0", "days must be a whole number from 1 to 3660"),
        ("/api/totals?days=a", "days must be a whole number from 1 to 3660"),
        ("/api/totals?days=7&offset=99999", "offset must be a whole number from -1440 to 1440"),
        ("/api/totals?days=7&days=8", "days is there more than once"),
        ("/api/totals?day=7", "there is no parameter \"day\"; known here: days, offset"),
        ("/api/totals?days", "days must be a whole number from 1 to 3660"),
        ("/api/runs?limit=7", "there is no parameter \"limit\"; known here: search, state"),
        ("/api/events?x=1", "none is known here"),
        ("/api/runs/nobody/events?from=1", "none is known here"),
    ] {
        let got = get(&gateway, path).await;
        let said: Value = serde_json::from_str(got.text()).expect("JSON");
        let message = said["error"]["message"].as_str().expect("a message");
        assert!(got.status() == 400 && message.contains(why), "{path}: {message}");
    }
    for path in ["/api/totals", "/api/totals?days=3660&offset=-1440", "/api/runs", "/?from=mail"] {
        assert_eq!(get(&gateway, path).await.status(), 200, "{path}");
    }
}

/// The year 2100, which no sweep finds old.
const NEWER: u64 = 4_102_444_800_000;

/// A ledger with that many runs that have been answered, a second apart.
fn kept(path: &Path, runs: u64) {
    let clock = std::sync::Arc::new(|| 0);
    let ledger = Ledger::open(Options::with_path(path), clock).expect("a ledger");
    for n in 0..runs {
        let (at, run): (_, std::sync::Arc<str>) = (NEWER + n * 1000, format!("old-{n}").into());
        ledger.record(Record::RunStart(RunStart {
            at,
            run: run.clone(),
            session: "s".into(),
            payer: Payer::default(),
            name: None,
            agent: None,
            continues: None,
            model: "claude-opus-4-5".into(),
            policy: "default".to_owned(),
            client: None,
            observed: false,
        }));
        ledger.record(Record::RunEnd(RunEnd {
            at,
            run,
            owner: RunOwner::default(),
            ended: RunEnding::without_limit(Outcome::Answered, Reason::Final),
            local: false,
            answer: None,
            turns: 1,
            tool_calls: Some(0),
            input: 1,
            output: 1,
            cache_read: 0,
            cache_write: 0,
            cost: None,
        }));
    }
    ledger.close(LONG).expect("it is written");
}

#[tokio::test]
async fn of_many_runs_the_newest_are_listed_and_the_others_found() {
    let folder = TempDir::new().expect("a folder");
    kept(&folder.path().join("ledger.db"), 1_100);
    let upstream = Scripted::plays(vec![calls(1)]).await;
    let gateway = gateway(&upstream, Some(folder.path()), |_| {}).await;
    let names = |listed: &Value| -> Vec<String> {
        let runs = listed["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["run"].as_str().expect("a run").to_owned()).collect()
    };
    let (message, _) = Client::new(true).turn(&gateway).await;
    let open = message.header("x-softland-run").expect("a run").to_owned();
    let listed = json_of(&gateway, "/api/runs").await;
    assert_eq!(listed["more"], true, "{:?}", listed["ledger"]);
    let found = names(&listed);
    assert!((1_000..=1_001).contains(&found.len()), "{}", found.len());
    assert!(found.contains(&open) && found.contains(&"old-1099".to_owned()));
    assert!(!found.contains(&"old-7".to_owned()));
    assert_eq!(json_of(&gateway, "/api/runs/old-7").await["outcome"], "answered");
    let found = json_of(&gateway, "/api/runs?search=OLD-7&state=answered").await;
    assert_eq!(found["more"], false);
    let found = names(&found);
    assert!(found.contains(&"old-7".to_owned()) && found.contains(&"old-799".to_owned()));
    assert!(!found.contains(&"old-8".to_owned()));
    let none = json_of(&gateway, "/api/runs?search=old-7&state=landed").await;
    assert_eq!(names(&none), Vec::<String>::new(), "what is in memory is filtered, too");
    let id = open.to_ascii_uppercase();
    for query in ["state=open", &format!("search={id}"), &format!("search={id}&state=open")] {
        let found = names(&json_of(&gateway, &format!("/api/runs?{query}")).await);
        assert_eq!(found, std::slice::from_ref(&open), "{query}");
    }
    let other = json_of(&gateway, &format!("/api/runs?search={id}&state=answered")).await;
    assert!(names(&other).is_empty());
    assert_eq!(get(&gateway, "/api/runs?state=running").await.status(), 400);
    assert_eq!(get(&gateway, "/api/runs/old-").await.status(), 404, "half a name");
    let totals = json_of(&gateway, "/api/totals?days=3660").await;
    assert_eq!(totals["more"], false);
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_is_said() {
    let folder = TempDir::new().expect("a folder");
    let upstream = Scripted::plays(vec![calls(1)]).await;
    let gateway = gateway(&upstream, Some(folder.path()), |_| {}).await;
    let path = folder.path().join("ledger.db");
    // A file that is gone is begun anew; a folder in its place is not.
    let away = || std::fs::rename(&path, folder.path().join("away.db"));
    while away().is_err() || std::fs::create_dir(&path).is_err() {
        tokio::task::yield_now().await;
    }
    let one = get(&gateway, "/api/runs/run-1").await;
    assert!(
        one.status() == 503 && one.text().contains("the ledger cannot be read"),
        "{}",
        one.text()
    );
    for path in ["/api/runs", "/api/totals"] {
        let said = json_of(&gateway, path).await;
        let trouble =
            if path == "/api/runs" { &said["ledger"]["trouble"] } else { &said["trouble"] };
        let trouble = trouble.as_str().unwrap_or_default();
        assert!(trouble.starts_with("the ledger cannot be read: "), "{path}: {said}");
    }
}

#[tokio::test]
async fn runs_without_a_name_are_listed_with_their_question_where_it_is_kept() {
    for full in [false, true] {
        let folder = TempDir::new().expect("a folder");
        let upstream = Scripted::plays(vec![calls(1), says("The answer.")]).await;
        let gateway =
            gateway(&upstream, Some(folder.path()), |settings| settings.ledger_full = full).await;
        let mut client = Client::new(true);
        let run = client.turn(&gateway).await.0.header("x-softland-run").expect("a").to_owned();
        client.turn(&gateway).await;
        // Its contents are written when the stream of its events has been read to its end.
        let path = format!("/api/runs/{run}/events");
        Events::of(&gateway, &path, None).await.rest().await;
        let listed = json_of(&gateway, &format!("/api/runs/{run}")).await;
        let question = listed["question"].as_str();
        assert_eq!(question.is_some_and(|text| text.contains("notes")), full, "{listed}");
    }
}
