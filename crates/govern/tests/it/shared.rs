//! The shared state: what every implementation does, that its values can be carried as text, and how
//! often a request calls it.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use softland_govern::money::accounts::{AccountsUnavailable, Balance, LeaseStore};
use softland_govern::recall::{RecallQuery, Recalled};
use softland_govern::shared::{Closing, ReserveQuery, Reserved};
use softland_govern::store::StoreError;
use softland_govern::suite::check_shared_state;
use softland_govern::{LocalState, SharedState, StateNote};
use softland_session::ChainLink;
use softland_session::core::NanoUsd;
use softland_session::core::policy::Policy;
use tokio::sync::Notify;

use crate::support::{Host, Reply, add_round, call, question, says, text};

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

    fn take_note(&self, note: StateNote) {
        self.state.take_note(Self::carry(&note));
    }

    async fn close(&self, closing: Closing) -> Result<Vec<Balance>, StoreError> {
        self.count("close");
        if let Some(holds) = &self.holds {
            holds.notified().await;
        }
        self.count("closed");
        self.state.close(Self::carry(&closing)).await.map(|balances| Self::carry(&balances))
    }
}

impl LeaseStore for Wired {
    fn lower_reservation(&self, accounts: &[Arc<str>], by: NanoUsd) {
        self.state.lower_reservation(accounts, by);
    }

    fn settle_lease(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd) {
        self.state.settle_lease(accounts, reserved, actual);
    }
}

#[tokio::test]
async fn the_state_in_memory_does_what_every_state_does() {
    check_shared_state(async || LocalState::default()).await;
}

#[tokio::test]
async fn every_value_can_be_carried_as_text() {
    check_shared_state(async || Wired::default()).await;
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
    let rows = host.services.runs.changed_rows(0);
    assert!(!rows.is_empty() && rows.iter().all(|row| !row.is_busy && row.end.is_some()));
    wired.holds.as_ref().expect("it holds").notify_one();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wired.take_calls(), ["recall", "reserve", "close", "closed"]);
}
