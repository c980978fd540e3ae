//! The state that the requests of all gateways of a fleet share, as one interface over values that
//! can be serialized: a request recalls what is known of it, reserves its money, and closes.
//!
//! An implementation keeps and finds; it decides nothing about a run. While it does not answer, a
//! policy's `on_store_loss` says whether requests under a limit of money go on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use softland_session::core::{Digest, NanoUsd};
use softland_session::{ChainLink, ShownResponse};

use crate::learned::{LessonBook, ModelLessons};
use crate::money::accounts::{
    Accounts, AccountsUnavailable, Balance, Claim, Lease, LeaseStore, MemoryAccounts,
    ReservationAmounts, ReservationError, WaitLimits,
};
use crate::recall::{RecallQuery, Recalled, recall_from};
use crate::store::{MemoryStore, Store, StoreChanges, StoreError};

/// The state that requests share. A governed request makes three calls: [`recall`](Self::recall),
/// [`reserve`](Self::reserve), [`close`](Self::close). One that names a stored history makes
/// [`recall_links`](Self::recall_links) before them, and one that leads to further requests upstream
/// reserves for each.
///
/// The notes of [`LeaseStore`] wait for nothing: an implementation may send them with its next call.
#[async_trait]
pub trait SharedState: LeaseStore {
    /// Finds the conversation of a request, and returns everything that is known of it.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError>;

    /// Returns the responses behind the one with this id, oldest first, and that one; `None` if a
    /// part of them is unknown or all are larger than `most` bytes.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError>;

    /// Reserves money on all accounts of a request, or on none.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached. What was reserved is then unknown.
    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable>;

    /// Takes a note. It waits for nothing: an implementation may send it with its next call.
    fn take_note(&self, note: StateNote);

    /// Stores the changes of a request that has ended. Returns the balances that are asked for.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn close(&self, closing: Closing) -> Result<Vec<Balance>, StoreError>;
}

/// A note that is of use to later requests, and that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateNote {
    /// A run was cancelled, so that it cannot continue.
    Cancelled {
        /// The run.
        run: Arc<str>,
        /// The history in which it was cancelled.
        here: Option<Digest>,
    },
    /// A provider's refusals have taught something about a model.
    Learned {
        /// The model.
        model: Arc<str>,
        /// The lessons, which are added to those that are known.
        lessons: ModelLessons,
    },
}

/// The money that a request wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveQuery {
    /// The accounts that it counts in, with their limits.
    pub claims: Vec<Claim>,
    /// The amounts that it asks for.
    pub ask: ReservationAmounts,
    /// The time that it waits.
    pub patience: WaitLimits,
    /// The amount that is booked on the accounts first: a fork takes over what was spent before it.
    pub spent_before: NanoUsd,
}

/// The answer to a request for money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The balances of the accounts before, in the order of the claims.
    pub balances: Vec<Balance>,
    /// The reservation, or the reason why there is none.
    pub grant: Result<Grant, ReservationError>,
}

/// A reservation, which its holder settles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The accounts, each once.
    pub accounts: Vec<Arc<str>>,
    /// The amount.
    pub amount: NanoUsd,
}

/// The end of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Closing {
    /// The conversation, and its changes.
    pub scope: Arc<str>,
    /// The changes of the conversation.
    pub changes: StoreChanges,
    /// The conversation of a sub-agent's parent, and its changes.
    pub parent: Option<(Arc<str>, Box<StoreChanges>)>,
    /// The response that the client was shown, if later requests may name it.
    pub shown: Option<ShownLink>,
    /// The accounts whose balances are wanted.
    pub accounts: Vec<Arc<str>>,
}

/// A response that a client was shown, under its ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLink {
    /// The ids by which the client knows the response.
    pub ids: Vec<String>,
    /// The conversation whose newest response this is.
    pub conversation: Option<String>,
    /// The link for a request that goes on from this response.
    pub link: ChainLink,
}

impl From<ShownResponse> for ShownLink {
    fn from(shown: ShownResponse) -> Self {
        let ShownResponse { ids, conversation, link } = shown;
        Self { ids, conversation, link }
    }
}

/// The number of cancelled runs that are remembered, since their clients may come back.
const CANCELLED: usize = 4096;

/// The state of one process, in its memory.
#[derive(Debug, Default)]
pub struct LocalState {
    store: MemoryStore,
    accounts: MemoryAccounts,
    lessons: LessonBook,
    /// The cancelled runs, with the history in which each was.
    cancelled: Mutex<VecDeque<(Arc<str>, Option<Digest>)>>,
}

impl LocalState {
    fn lock_cancelled(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, Option<Digest>)>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SharedState for LocalState {
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError> {
        let lessons = self.lessons.find_lessons(&query.model);
        let mut recalled = recall_from(&self.store, query).await?;
        let cancelled = self.lock_cancelled();
        let known = cancelled.iter().filter(|(run, _)| recalled.names_run(run)).cloned().collect();
        drop(cancelled);
        (recalled.lessons, recalled.cancelled) = (lessons, known);
        Ok(recalled)
    }

    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError> {
        let mut links = Vec::new();
        let (mut next, mut bytes) = (Some(id.to_owned()), 0);
        while let Some(id) = next {
            let known = if bytes > most { None } else { self.store.find_link(&id).await? };
            let Some(link) = known else { return Ok(None) };
            // The id counts, too, so that many empty links do not add up to nothing.
            bytes += link.items.len() + id.len();
            next = link.before.clone();
            links.push(Arc::unwrap_or_clone(link));
        }
        links.reverse();
        Ok(Some(links))
    }

    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable> {
        let ReserveQuery { claims, ask, patience, spent_before } = wanted;
        if spent_before > NanoUsd::ZERO {
            let free = claims.iter().map(|claim| Claim { limit: None, ..claim.clone() }).collect();
            let nothing = ReservationAmounts::from_exact(NanoUsd::ZERO);
            if let Ok(lease) = self.accounts.reserve_money(free, nothing, WaitLimits::NONE).await {
                lease.settle_cost(spent_before);
            }
        }
        let names: Vec<&str> = claims.iter().map(|claim| &*claim.account).collect();
        let balances = self.accounts.read_balances(&names).await?;
        let leased = self.accounts.reserve_money(claims, ask, patience).await;
        let grant = leased.map(|lease| {
            let (accounts, amount) = lease.detach();
            Grant { accounts, amount }
        });
        Ok(Reserved { balances, grant })
    }

    fn take_note(&self, note: StateNote) {
        match note {
            StateNote::Cancelled { run, here } => {
                let mut cancelled = self.lock_cancelled();
                if cancelled.len() >= CANCELLED {
                    cancelled.pop_front();
                }
                cancelled.push_back((run, here));
            }
            StateNote::Learned { model, lessons } => self.lessons.add_lessons(&model, lessons),
        }
    }

    async fn close(&self, closing: Closing) -> Result<Vec<Balance>, StoreError> {
        let Closing { scope, changes, parent, shown, accounts } = closing;
        if let Some(ShownLink { ids, conversation, link }) = shown {
            self.store.store_shown(ShownResponse { ids, conversation, link }).await?;
        }
        self.store.apply_changes(&scope, changes).await?;
        if let Some((scope, changes)) = parent {
            self.store.apply_changes(&scope, *changes).await?;
        }
        let names: Vec<&str> = accounts.iter().map(|name| &**name).collect();
        Ok(self.accounts.read_balances(&names).await.unwrap_or_default())
    }
}

impl LeaseStore for LocalState {
    fn lower_reservation(&self, accounts: &[Arc<str>], by: NanoUsd) {
        self.accounts.lower_reservation(accounts, by);
    }

    fn settle_lease(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd) {
        self.accounts.settle_lease(accounts, reserved, actual);
    }
}

/// The accounts of one request in the shared state.
#[derive(Debug)]
pub(crate) struct RequestLedger<'a> {
    state: &'a Arc<dyn SharedState>,
    /// The amount that is booked first.
    spent_before: NanoUsd,
    /// The balances before the newest reservation.
    balances: Mutex<Vec<Balance>>,
}

impl<'a> RequestLedger<'a> {
    pub(crate) fn new(state: &'a Arc<dyn SharedState>, spent_before: NanoUsd) -> Self {
        Self { state, spent_before, balances: Mutex::default() }
    }

    /// Returns the balances before the newest reservation; none if the state did not answer.
    pub(crate) fn take_balances(self) -> Vec<Balance> {
        self.balances.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Accounts for RequestLedger<'_> {
    async fn reserve_money(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
    ) -> Result<Lease, ReservationError> {
        let wanted = ReserveQuery { claims, ask, patience, spent_before: self.spent_before };
        let reserved = self.state.reserve(wanted).await.map_err(ReservationError::Away)?;
        if let Ok(mut balances) = self.balances.lock() {
            *balances = reserved.balances;
        }
        let Grant { accounts, amount } = reserved.grant?;
        let book: Arc<dyn SharedState> = Arc::clone(self.state);
        Ok(Lease::new(book, accounts, amount))
    }

    async fn read_balances(&self, _: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable> {
        Ok(self.balances.lock().map(|balances| balances.clone()).unwrap_or_default())
    }
}
