//! Requests while the store or the accounts do not respond (contract §4, `on_store_loss`).

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::json;
use softland_govern::money::accounts::{
    Accounts, AccountsUnavailable, Balance, Claim, Lease, MemoryAccounts, ReservationAmounts,
    ReservationError, WaitLimits,
};
use softland_govern::store::{
    FoundConversation, MemoryStore, Namesake, Store, StoreChanges, StoreError, StoredScope,
};
use softland_session::core::policy::{OnStoreLoss, Policy};
use softland_session::core::{Digest, NanoUsd};
use softland_session::{ChainLink, ShownResponse};

use crate::support::{Host, Reply, add_round, question, read_json, says, text};

/// A store that can fail on demand.
#[derive(Debug, Default)]
pub(crate) struct Shaky {
    store: MemoryStore,
    accounts: MemoryAccounts,
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
        if away {
            Err(AccountsUnavailable { because: "connection refused".to_owned() })
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Store for Shaky {
    async fn find_conversation(
        &self,
        clues: &[Digest],
        here: Digest,
    ) -> Result<Option<FoundConversation>, StoreError> {
        self.up()?;
        self.store.find_conversation(clues, here).await
    }

    async fn count_known(&self, clues: &[Digest]) -> Result<usize, StoreError> {
        self.up()?;
        self.store.count_known(clues).await
    }

    async fn take_unanswered(&self, here: Digest) -> Result<Option<Arc<str>>, StoreError> {
        self.up()?;
        self.store.take_unanswered(here).await
    }

    async fn find_named(&self, name: Digest) -> Result<Vec<Namesake>, StoreError> {
        self.up()?;
        self.store.find_named(name).await
    }

    async fn load_scope(&self, scope: &str) -> Result<Arc<StoredScope>, StoreError> {
        self.up()?;
        self.store.load_scope(scope).await
    }

    async fn apply_changes(&self, scope: &str, changes: StoreChanges) -> Result<(), StoreError> {
        self.up()?;
        self.store.apply_changes(scope, changes).await
    }

    async fn find_link(&self, id: &str) -> Result<Option<Arc<ChainLink>>, StoreError> {
        self.up()?;
        self.store.find_link(id).await
    }

    async fn store_shown(&self, shown: ShownResponse) -> Result<(), StoreError> {
        self.up()?;
        self.store.store_shown(shown).await
    }
}

#[async_trait]
impl Accounts for Shaky {
    async fn reserve_money(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
    ) -> Result<Lease, ReservationError> {
        self.open().map_err(ReservationError::Away)?;
        self.accounts.reserve_money(claims, ask, patience).await
    }

    async fn read_balances(&self, accounts: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable> {
        self.open()?;
        self.accounts.read_balances(accounts).await
    }
}

/// A host with a failing store.
struct Stand {
    host: Host,
    shaky: Arc<Shaky>,
}

impl Stand {
    fn with(policy: Policy, replies: Vec<Reply>) -> Self {
        let shaky = Arc::new(Shaky::default());
        let host = Host::with(policy, replies, Arc::clone(&shaky) as _, Arc::clone(&shaky) as _);
        Self { host, shaky }
    }

    /// Makes the store, the accounts, or both fail.
    fn lose(&self, store: bool, accounts: bool) {
        self.shaky.store_away.store(store, Ordering::SeqCst);
        self.shaky.accounts_away.store(accounts, Ordering::SeqCst);
    }

    /// Returns true if nothing is reserved for the run `r`, and something was spent.
    async fn holds_nothing(&self) -> bool {
        let balances = self.shaky.accounts.read_balances(&["run:given:r", "session:r"]).await;
        let balances = balances.expect("in memory");
        balances.iter().all(|had| had.reserved == NanoUsd::ZERO && had.spent > NanoUsd::ZERO)
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
        assert!(message.contains("the cost limit cannot be held now"), "{message}");
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
    assert!(remark.contains("its cost limit was not held"), "{remark}");
    assert!(remark.contains("connection refused"), "{remark}");
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
