//! The shared state: what every implementation does, that its values can be carried as text, and
//! how often a request calls it.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use softland_govern::money::accounts::{
    AccountsUnavailable, Claim, Grant, LeaseStore, ReservationId, WindowState,
};
use softland_govern::recall::{RecallQuery, Recalled};
use softland_govern::runs::{EndedRun, RunCancellation, RunList, RunSnapshot, RunsToEnd};
use softland_govern::shared::{Closed, Closing, ReserveQuery, Reserved};
use softland_govern::store::StoreError;
use softland_govern::suite::check_shared_state;
use softland_govern::{LocalState, SharedState, StateNote};
use softland_session::ChainLink;
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;
use softland_session::core::policy::Policy;
use tokio::sync::Notify;

use crate::support::{End, Host, Reply, add_round, call, question, says, text};

/// A state in memory at the end of a wire: every value is written as JSON and read again, and every
/// call is counted.
#[derive(Debug, Default)]
struct Wired {
    state: LocalState,
    calls: Mutex<Vec<&'static str>>,
    /// If set, a close waits until this is notified.
    holds: Option<Notify>,
}

impl Wired {
    fn carry<T: Serialize + DeserializeOwned>(value: &T) -> T {
        let text = serde_json::to_string(value).expect("it can be written");
        serde_json::from_str(&text).expect("it can be read")
    }

    fn count(&self, call: &'static str) {
        self.calls.lock().expect("no panic").push(call);
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().expect("no panic"))
    }
}

#[async_trait]
impl SharedState for Wired {
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError> {
        self.count("recall");
        self.state.recall(Self::carry(&query)).await.map(|recalled| Self::carry(&recalled))
    }

    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError> {
        self.count("links");
        self.state.recall_links(id, most).await.map(|links| Self::carry(&links))
    }

    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable> {
        self.count("reserve");
        self.state.reserve(Self::carry(&wanted)).await.map(|reserved| Self::carry(&reserved))
    }

    async fn renew_leases(
        &self,
        held: &[ReservationId],
        now: u64,
    ) -> Result<(), AccountsUnavailable> {
        self.state.renew_leases(held, now).await
    }

    async fn read_windows(
        &self,
        claims: Vec<Claim>,
        now: u64,
    ) -> Result<Vec<Option<WindowState>>, AccountsUnavailable> {
        self.state.read_windows(claims, now).await
    }

    fn take_note(&self, note: StateNote) {
        self.state.take_note(Self::carry(&note));
    }

    async fn close(&self, closing: Closing) -> Result<Closed, StoreError> {
        self.count("close");
        if let Some(holds) = &self.holds {
            holds.notified().await;
        }
        self.count("closed");
        self.state.close(Self::carry(&closing)).await.map(|closed| Self::carry(&closed))
    }

    async fn list_runs(&self, after: u64) -> Result<RunList, StoreError> {
        self.state.list_runs(after).await.map(|list| Self::carry(&list))
    }

    async fn find_run(&self, run: &str) -> Result<Option<RunSnapshot>, StoreError> {
        self.state.find_run(run).await.map(|row| Self::carry(&row))
    }

    async fn cancel_run(&self, run: &str, now: u64) -> Result<Option<RunCancellation>, StoreError> {
        self.count("cancel");
        self.state.cancel_run(run, now).await.map(|cancelled| Self::carry(&cancelled))
    }

    async fn find_cancelled(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        self.count("cancelled");
        self.state.find_cancelled(runs).await
    }

    async fn end_runs(&self, which: RunsToEnd) -> Result<Vec<EndedRun>, StoreError> {
        self.state.end_runs(Self::carry(&which)).await.map(|ended| Self::carry(&ended))
    }
}

impl LeaseStore for Wired {
    fn mark_sent(&self, grant: &Grant) {
        self.state.mark_sent(grant);
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.state.lower_reservation(grant, to);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.state.settle_lease(grant, actual);
    }
}

#[tokio::test]
async fn the_state_in_memory_does_what_every_state_does() {
    check_shared_state(async || LocalState::with_expiring_leases()).await;
}

#[tokio::test]
async fn every_value_can_be_carried_as_text() {
    let state = LocalState::with_expiring_leases;
    check_shared_state(async || Wired { state: state(), ..Wired::default() }).await;
}

#[tokio::test]
async fn a_governed_request_makes_three_calls() {
    let policy = Policy {
        tool_calls_limit: Some(2),
        cost_limit_usd: Some(NanoUsd(5_000_000_000)),
        ..Policy::default()
    };
    let calls = (1..=2).map(|n| Reply::Whole(says(&json!([call(n)]), "tool_use")));
    let replies = calls.chain([Reply::Whole(text())]).collect();
    let wired = Arc::new(Wired::default());
    let host = Host::with(policy, replies, Arc::clone(&wired) as _);
    let mut body = question();
    for n in 1..=2 {
        assert_eq!(host.ask(&body).await.0, 200);
        assert_eq!(wired.take_calls(), ["recall", "reserve", "close", "closed"], "request {n}");
        add_round(&mut body, n);
    }
    // The last one lands the run, whose end says what the limits leave.
    let (_, answer) = host.ask(&body).await;
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.");
    assert_eq!(wired.take_calls(), ["recall", "reserve", "close", "closed"]);
    // A client that compacts is found by its calls, or not at all, in one call as well.
    body["messages"].as_array_mut().expect("messages").drain(1..3);
    host.ask(&body).await;
    assert_eq!(wired.take_calls().iter().filter(|call| **call == "recall").count(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_changes_are_stored_loses_none() {
    let wired = Arc::new(Wired { holds: Some(Notify::new()), ..Wired::default() });
    let host = Host::with(Policy::default(), vec![Reply::Whole(text())], Arc::clone(&wired) as _);
    let body = question();
    let mut asking = Box::pin(host.send(&body, &[]));
    while !wired.calls.lock().expect("no panic").contains(&"close") {
        assert!(futures_util::poll!(&mut asking).is_pending(), "it waits for its changes");
        tokio::task::yield_now().await;
    }
    drop(asking);
    wired.holds.as_ref().expect("it holds").notify_one();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wired.take_calls(), ["recall", "reserve", "close", "closed"]);
    let rows = wired.list_runs(0).await.expect("the state answers").runs;
    assert!(!rows.is_empty() && rows.iter().all(|row| !row.is_busy && row.end.is_some()));
}

#[tokio::test]
async fn a_run_is_listed_and_cancelled_by_a_host_that_does_not_serve_it() {
    let wired = Arc::new(Wired::default());
    let host = |replies| Host::with(Policy::default(), replies, Arc::clone(&wired) as _);
    let head = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\
                \"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"claude-sonnet-4-5\",\
                \"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n";
    let serving = host(vec![Reply::Stream(head.to_owned(), End::Hangs)]);
    let other = host(Vec::new());
    let mut body = question();
    body["stream"] = json!(true);
    let mut stream = serving.send(&body, &[]).await.into_body();
    let rows = other.services.state.list_runs(0).await.expect("the state answers").runs;
    let [row] = rows.as_slice() else { panic!("one run is open: {rows:?}") };
    assert!(row.is_busy && row.end.is_none(), "{row:?}");
    let family = other.services.cancel_run(&row.run).await.expect("the state answers");
    assert_eq!(family.as_deref(), Some([Arc::clone(&row.run)].as_slice()));
    // The host that serves it hears of it when it asks.
    let is_over = async || {
        let row = other.services.state.find_run(&row.run).await.expect("the state answers");
        row.is_some_and(|row| row.end.is_some())
    };
    assert!(!is_over().await, "its request still runs");
    serving.services.stop_cancelled().await;
    while stream.frame().await.is_some_and(|frame| frame.is_ok()) {}
    serving.services.tasks.close();
    serving.services.tasks.wait().await;
    assert!(is_over().await, "its request has ended it");
    assert_eq!(serving.script.dropped.load(Ordering::SeqCst), 1, "the provider is left");
    // Its client is refused by another host, too.
    body["stream"] = json!(false);
    let (status, answer) = other.ask(&body).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("a message").contains("cancelled"));
}

#[tokio::test]
async fn nobody_is_asked_of_cancellations_while_nothing_runs() {
    let wired = Arc::new(Wired::default());
    let host = Host::with(Policy::default(), vec![Reply::Whole(text())], Arc::clone(&wired) as _);
    assert_eq!(host.ask(&question()).await.0, 200);
    wired.take_calls();
    host.services.stop_cancelled().await;
    assert_eq!(wired.take_calls(), [""; 0]);
}
