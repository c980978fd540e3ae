//! Requests while the store or the accounts do not respond (`on_store_loss` in
//! `docs/reference/policy.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::json;
use softland_govern::money::accounts::{
    AccountsUnavailable, Claim, Grant, LeaseStore, ReservationId, WindowState,
};
use softland_govern::recall::{RecallQuery, Recalled};
use softland_govern::runs::{EndedRun, RunCancellation, RunList, RunSnapshot, RunsToEnd};
use softland_govern::shared::{Closed, Closing, ReserveQuery, Reserved};
use softland_govern::store::StoreError;
use softland_govern::{LocalState, SharedState, StateNote};
use softland_session::ChainLink;
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;
use softland_session::core::policy::{OnStoreLoss, Policy};

use crate::support::{Host, Reply, add_round, question, read_balance, read_json, says, text};

/// A state that can fail on demand.
#[derive(Debug, Default)]
struct Shaky {
    state: LocalState,
    store_away: AtomicBool,
    accounts_away: AtomicBool,
}

impl Shaky {
    fn up(&self) -> Result<(), StoreError> {
        let away = self.store_away.load(Ordering::SeqCst);
        if away { Err(StoreError("connection refused".to_owned())) } else { Ok(()) }
    }

    fn open(&self) -> Result<(), AccountsUnavailable> {
        let away = self.accounts_away.load(Ordering::SeqCst);
        let because = "connection refused".to_owned();
        if away { Err(AccountsUnavailable { because }) } else { Ok(()) }
    }
}

#[async_trait]
impl SharedState for Shaky {
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError> {
        self.up()?;
        self.state.recall(query).await
    }

    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError> {
        self.up()?;
        self.state.recall_links(id, most).await
    }

    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable> {
        self.open()?;
        self.state.reserve(wanted).await
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
        self.state.take_note(note);
    }

    async fn close(&self, closing: Closing) -> Result<Closed, StoreError> {
        self.up()?;
        self.state.close(closing).await
    }

    async fn list_runs(&self, after: u64) -> Result<RunList, StoreError> {
        self.up()?;
        self.state.list_runs(after).await
    }

    async fn find_run(&self, run: &str) -> Result<Option<RunSnapshot>, StoreError> {
        self.up()?;
        self.state.find_run(run).await
    }

    async fn cancel_run(&self, run: &str, now: u64) -> Result<Option<RunCancellation>, StoreError> {
        self.up()?;
        self.state.cancel_run(run, now).await
    }

    async fn find_cancelled(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        self.up()?;
        self.state.find_cancelled(runs).await
    }

    async fn end_runs(&self, which: RunsToEnd) -> Result<Vec<EndedRun>, StoreError> {
        self.up()?;
        self.state.end_runs(which).await
    }
}

impl LeaseStore for Shaky {
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

/// A host with a failing state.
struct Stand {
    host: Host,
    shaky: Arc<Shaky>,
}

impl Stand {
    fn with(policy: Policy, replies: Vec<Reply>) -> Self {
        let shaky = Arc::new(Shaky::default());
        let host = Host::with(policy, replies, Arc::clone(&shaky) as _);
        Self { host, shaky }
    }

    /// Makes the store, the accounts, or both fail.
    fn lose(&self, store: bool, accounts: bool) {
        self.shaky.store_away.store(store, Ordering::SeqCst);
        self.shaky.accounts_away.store(accounts, Ordering::SeqCst);
    }

    /// Returns true if nothing is reserved for the run `r`, and something was spent.
    async fn holds_nothing(&self) -> bool {
        let balance = read_balance(&*self.shaky, "run:given:r").await;
        balance.reserved == NanoUsd::ZERO && balance.spent > NanoUsd::ZERO
    }
}

fn limited(on_store_loss: OnStoreLoss) -> Policy {
    Policy { cost_limit_usd: Some(NanoUsd(5_000_000_000)), on_store_loss, ..Policy::default() }
}

#[tokio::test]
async fn closed_refuses_what_has_a_limit_of_money_and_serves_again_when_the_store_is_back() {
    for (store, accounts) in [(false, true), (true, false), (true, true)] {
        let stand = Stand::with(limited(OnStoreLoss::Closed), vec![Reply::Whole(text())]);
        stand.lose(store, accounts);
        let (status, answer) = stand.host.ask(&question()).await;
        assert_eq!((status, &answer["error"]["type"]), (503, &json!("api_error")), "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains("the cost limit cannot be enforced now"), "{message}");
        assert!(message.contains("connection refused"), "{message}");
        assert_eq!(stand.host.sent(), 0, "nothing goes out that is not held");
        stand.lose(false, false);
        let named = [("x-softland-run", "r")];
        let answer = stand.host.send(&question(), &named).await;
        assert_eq!(read_json(answer).await.0, 200);
        assert!(stand.holds_nothing().await, "nothing stays reserved");
    }
}

#[tokio::test]
async fn open_goes_on_and_says_so() {
    let stand = Stand::with(limited(OnStoreLoss::Open), vec![Reply::Whole(text())]);
    stand.lose(true, true);
    let (status, answer) = stand.host.ask(&question()).await;
    assert_eq!((status, stand.host.sent()), (200, 1), "{answer}");
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.");
    assert!(stand.host.counts("accounts_lost") && stand.host.counts("store_lost"));
    let remark = stand.host.remarks();
    assert!(remark.contains("the cost limit was not held"), "{remark}");
    assert!(remark.contains("connection refused"), "{remark}");
}

/// What was spent without a reservation is booked once the accounts are back, and what was not sent
/// is not.
#[tokio::test]
async fn k17_what_is_spent_meanwhile_is_booked_afterwards() {
    let replies = || vec![Reply::Whole(text()), Reply::Whole(text()), Reply::Whole(text())];
    let named = [("x-softland-run", "r")];
    let stand = Stand::with(limited(OnStoreLoss::Open), replies());
    stand.lose(false, true);
    for _ in 0..2 {
        assert_eq!(read_json(stand.host.send(&question(), &named).await).await.0, 200);
    }
    stand.host.services.book_unheld_spend().await;
    let spent = async || read_balance(&*stand.shaky, "run:given:r").await;
    stand.lose(false, false);
    assert_eq!(spent().await.spent, NanoUsd::ZERO, "the accounts were still away");
    stand.host.services.book_unheld_spend().await;
    let two = spent().await;
    assert!(two.spent > NanoUsd::ZERO && two.reserved == NanoUsd::ZERO, "{two:?}");
    stand.host.services.book_unheld_spend().await;
    assert_eq!(spent().await, two, "each once");
    assert_eq!(read_json(stand.host.send(&question(), &named).await).await.0, 200);
    assert_eq!(spent().await.spent.0, two.spent.0 / 2 * 3, "as if they had never been away");

    let stand = Stand::with(limited(OnStoreLoss::Closed), replies());
    stand.lose(false, true);
    assert_eq!(read_json(stand.host.send(&question(), &named).await).await.0, 503);
    stand.lose(false, false);
    stand.host.services.book_unheld_spend().await;
    let balance = read_balance(&*stand.shaky, "run:given:r").await;
    assert_eq!(balance.spent, NanoUsd::ZERO, "nothing was sent");
}

#[tokio::test]
async fn without_a_limit_of_money_everything_goes_on() {
    let observes = Policy {
        mode: softland_session::core::policy::Mode::Observe,
        ..limited(OnStoreLoss::Closed)
    };
    for policy in [Policy::default(), observes] {
        let stand = Stand::with(policy, vec![Reply::Whole(text())]);
        stand.lose(true, true);
        assert_eq!(stand.host.ask(&question()).await.0, 200);
        assert!(stand.host.counts("accounts_lost") && stand.host.counts("store_lost"));
    }
}

#[tokio::test]
async fn requests_behind_the_clients_own_go_on_too_where_they_may() {
    let call = json!([{"type": "tool_use", "id": "toolu_0123456789cd", "name": "read_file",
        "input": {"path": "b"}}]);
    let replies = vec![Reply::Whole(says(&call, "tool_use")), Reply::Whole(text())];
    let policy = Policy { tool_calls_limit: Some(1), ..limited(OnStoreLoss::Open) };
    let stand = Stand::with(policy, replies);
    stand.lose(true, true);
    let mut used_up = question();
    add_round(&mut used_up, 1);
    let (status, answer) = stand.host.ask(&used_up).await;
    assert_eq!((status, stand.host.sent()), (200, 2), "{answer}");
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.", "{answer}");
}
