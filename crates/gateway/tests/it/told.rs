//! The reports on requests: in headers, the ledger, the counters and the log. All of them agree,
//! and none claims that a policy that only observes has changed anything.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::client::{APIS, Client, all};
use crate::support::script::{Reply, Scripted, calls, says};
use crate::support::sim::{governed, text};
use crate::support::{Provider, Running, response};
use serde_json::{Value, json};
use softland_gateway::Settings;
use softland_ledger::{Query, Reader, Step};
use softland_session::core::NanoUsd;
use softland_session::core::policy::PolicyValue as Key;

fn kept(url: &str, keys: &[(&str, Key)], folder: &Path) -> Settings {
    let mut settings = governed(url, keys);
    settings.ledger = Some(folder.join("ledger.db").into());
    settings
}

fn reader(folder: &Path) -> Reader {
    Reader::open(folder.join("ledger.db")).expect("a ledger")
}

/// The steps of the only run, and their fields.
fn steps(folder: &Path) -> Vec<(Step, Value)> {
    let reader = reader(folder);
    let runs = reader.list_runs(&Query::default()).expect("runs");
    assert_eq!(runs.len(), 1, "{runs:?}");
    let steps = reader.read_steps(&runs.first().expect("one").run).expect("steps").into_iter();
    let fields = |step: &Step| serde_json::from_str(&step.fields).expect("an object");
    steps.map(|step| (step.clone(), fields(&step))).collect()
}

/// A counter, in the text of the metrics.
fn counter(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}

/// The lines that are written to the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Nano-dollars of a session.
const CAP: u64 = 200_000_000;

#[tokio::test]
async fn what_cannot_be_read_is_booked_alike_everywhere_and_no_header_is_logged() {
    let packed = |api| (api, "content-encoding: gzip", "packed as nobody has asked for");
    let foreign = |api| (api, "x-any: thing", "[\"no message of the protocol\"]");
    for (api, form, body) in APIS.into_iter().flat_map(|api| [packed(api), foreign(api)]) {
        let (folder, log) = (tempfile::tempdir().expect("a folder"), Log::default());
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = subscriber.with_writer(move || written.clone()).finish();
        let _guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
        let headers = [
            "content-type: application/json",
            form,
            "set-cookie: session=SECRET",
            "anthropic-organization-id: org-SECRET",
        ];
        let provider = Provider::says(response("200 OK", &headers, body)).await;
        let keys = [("session_cost_limit_usd", text("0.2"))];
        let mut gateway = Running::with(kept(&provider.url(), &keys, folder.path())).await;
        for n in 0..10 {
            let client =
                Client::on(api, false).with("x-softland-session: s").asking(&format!("{n}?"));
            let got = client.post(&gateway).await;
            assert_eq!(got.status(), 200, "{}", got.text());
            if n == 0 {
                assert_eq!(got.text(), body, "it passes as it is");
            }
        }
        let metrics = gateway.metrics().await;
        let summary = gateway.stopped().await;
        let sent = provider.count();
        assert!((1..10).contains(&sent), "the account is charged: {sent}");
        let runs = reader(folder.path()).list_runs(&Query::default()).expect("runs");
        let booked: u64 = runs.iter().filter_map(|run| run.cost).map(|cost| cost.0).sum();
        assert_eq!(summary.spend, NanoUsd(booked), "the counters say what the ledger says");
        let counted = counter(&metrics, "softland_spend_usd_total ");
        assert!((counted - NanoUsd(booked).to_dollars()).abs() < 1e-9, "{counted}");
        assert!(booked > CAP / 2 && booked <= CAP, "{booked} is what the account has");
        let of_run = |run: &str| reader(folder.path()).read_steps(run).expect("steps");
        let mut steps = runs.iter().flat_map(|run| of_run(&run.run));
        let remark = "estimated: the response cannot be read";
        assert!(steps.any(|step| step.fields.contains(remark)));
        let log = log.text();
        let said = ["cannot be read as it was asked for", "passed on ungoverned"];
        assert!(said.iter().any(|said| log.contains(said)), "{log}");
        assert_eq!(log.contains("set-cookie"), form.contains("gzip"), "{log}");
        assert!(!log.contains("SECRET"), "{log}");
    }
}

#[tokio::test]
async fn what_is_only_observed_says_so_wherever_it_is_told() {
    for (api, stream) in all() {
        let folder = tempfile::tempdir().expect("a folder");
        let replies = vec![calls(1), calls(2), calls(3), says("all of it")];
        let upstream = Scripted::plays(replies).await;
        let keys = [("tool_calls_limit", Key::Int(2)), ("mode", text("observe"))];
        let mut gateway = Running::with(kept(&upstream.url(), &keys, folder.path())).await;
        let mut client = Client::on(api, stream).with("x-softland-session: s");
        for calls in 0..4 {
            let (message, _) = client.turn(&gateway).await;
            assert_eq!(message.header("x-softland-phase"), Some("silent"), "nothing was said");
            let counted = format!("{calls}/2");
            assert_eq!(message.header("x-softland-tool-calls"), Some(&*counted));
            assert_eq!(message.header("x-softland-interventions"), None);
            assert!(!message.text().contains(": softland"), "{}", message.text());
        }
        let metrics = gateway.metrics().await;
        let would = gateway.stopped().await.would;
        assert_eq!((would.runs, would.landed, would.stopped), (1, 1, 0), "stream {stream}");
        assert!(would.times.iter().sum::<u64>() >= 2, "{would:?}");
        assert!(!metrics.contains("softland_interventions_total{"), "{metrics}");
        let asked =
            counter(&metrics, r#"softland_observed_interventions_total{intervention="ask"}"#);
        assert!(asked >= 1.0, "{metrics}");
        let steps = steps(folder.path());
        let mut done = steps.iter().filter(|(step, _)| step.event == "intervention").peekable();
        assert!(done.peek().is_some());
        assert!(done.all(|(_, fields)| fields["observed"] == true), "{steps:?}");
        let (_, begun) = steps.first().expect("a beginning");
        assert_eq!(begun["mode"], "observe");
    }
}

#[tokio::test]
async fn what_is_enforced_is_not_called_observed() {
    for api in APIS {
        let folder = tempfile::tempdir().expect("a folder");
        let upstream = Scripted::plays(vec![calls(1), calls(2), says("all of it")]).await;
        let keys = [("tool_calls_limit", Key::Int(2))];
        let mut gateway = Running::with(kept(&upstream.url(), &keys, folder.path())).await;
        Client::on(api, true).told_usage().with("x-softland-session: s").run(&gateway).await;
        let metrics = gateway.metrics().await;
        assert_eq!(gateway.stopped().await.would, Default::default());
        assert!(
            metrics.contains(r#"softland_interventions_total{intervention="ask"} 1"#),
            "{metrics}"
        );
        assert!(!metrics.contains("softland_observed_interventions_total{"), "{metrics}");
        for (step, fields) in steps(folder.path()) {
            assert!(fields.get("observed").is_none() && fields.get("mode").is_none(), "{step:?}");
        }
    }
}

#[tokio::test]
async fn a_turn_begins_once_and_says_what_it_may_be() {
    for (api, stream) in all() {
        for limit in [None, Some(9)] {
            let folder = tempfile::tempdir().expect("a folder");
            let failed = Reply::Error("500 Internal Server Error", vec![], "{}");
            let replies = vec![calls(1), failed, calls(2), says("all of it")];
            let upstream = Scripted::plays(replies).await;
            let keys: Vec<_> =
                limit.map(|limit| ("turns_limit", Key::Int(limit))).into_iter().collect();
            let mut gateway = Running::with(kept(&upstream.url(), &keys, folder.path())).await;
            let mut client = Client::on(api, stream).with("x-softland-session: s");
            client.turn(&gateway).await;
            assert_eq!(client.post(&gateway).await.status(), 500);
            client.run(&gateway).await;
            gateway.stopped().await;
            let steps = steps(folder.path());
            let events: Vec<_> = steps.iter().map(|(step, _)| step.event.as_str()).collect();
            assert_eq!(events[..3], ["run_start", "turn_start", "usage"], "{events:?}");
            let begun = steps.iter().filter(|(step, _)| step.event == "turn_start");
            let begun: Vec<_> = begun.map(|(step, fields)| (step.turn, fields.clone())).collect();
            let fields =
                limit.map_or_else(|| json!({}), |limit| json!({"turns_limit": limit as u64}));
            assert_eq!(begun, [1, 2, 3].map(|turn| (turn, fields.clone())), "stream {stream}");
        }
    }
}

#[tokio::test]
async fn a_run_is_found_by_its_clients_name_and_what_belongs_to_none_is_summed() {
    for api in APIS {
        let folder = tempfile::tempdir().expect("a folder");
        let upstream = Scripted::plays(vec![calls(1), says("all of it")]).await;
        let mut gateway = Running::with(kept(&upstream.url(), &[], folder.path())).await;
        let mut client = Client::on(api, true).told_usage().with("x-softland-run: build-42");
        let (_, message, _) = client.run(&gateway).await;
        let run = message.header("x-softland-run").expect("its run").to_owned();
        let mut title =
            Client::on(api, false).with("x-softland-run: build-42").asking("A title, please.");
        title.body.as_object_mut().expect("an object").remove("tools");
        for _ in 0..2 {
            let (message, _) = title.clone().turn(&gateway).await;
            assert_eq!(message.header("x-softland-run"), None, "it belongs to no run");
        }
        let summary = gateway.stopped().await;
        let reader = reader(folder.path());
        let named = reader.find_named("build-42").expect("runs");
        assert_eq!(named.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), [run.as_str()]);
        let session = Some("build-42".to_owned());
        let beside = reader.sum_unassigned(&Query { session, ..Query::default() }).expect("a sum");
        assert_eq!(beside.requests, 2);
        let of_run = named.first().and_then(|run| run.cost).expect("a price");
        assert!(beside.cost > NanoUsd::ZERO && of_run > NanoUsd::ZERO);
        assert_eq!(summary.spend, NanoUsd(of_run.0 + beside.cost.0), "nothing is left out");
    }
}
