//! The state that the requests of all gateways of a fleet share, as one interface over values that
//! can be serialized: a request recalls what is known of it, reserves its money, and closes.
//!
//! An implementation keeps and finds; it decides nothing about a run. While it does not answer, a
//! policy's `on_store_loss` says whether requests under a limit of money go on.

mod local;
mod run_book;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use softland_session::core::NanoUsd;
use softland_session::{ChainLink, ShownResponse};

use crate::learned::ModelLessons;
use crate::money::accounts::{
    Accounts, AccountsUnavailable, Balance, Claim, Lease, LeaseStore, ReservationAmounts,
    ReservationError, ReservationId, WaitLimits, WindowState,
};
use crate::recall::{RecallQuery, Recalled};
use crate::runs::{
    EndedRun, OpenedRun, RequestEnd, RunAfter, RunCancellation, RunList, RunOpening, RunProgress,
    RunSnapshot, RunsToEnd, SnapshotEnd,
};
use crate::services::Services;
use crate::store::{StoreChanges, StoreError};

pub use crate::money::accounts::Grant;
pub use local::LocalState;

/// The state that requests share. A governed request makes three calls: [`recall`](Self::recall),
/// [`reserve`](Self::reserve), [`close`](Self::close). One that names a stored history makes
/// [`recall_links`](Self::recall_links) before them, and one that leads to further requests
/// upstream reserves for each. The other calls are for hosts and for people who watch.
///
/// The notes of [`LeaseStore`] wait for nothing: an implementation may send them with its next
/// call. All times come with the calls; an implementation with a clock of its own uses that for
/// windows and leases, so that all hosts agree on them. A host that is killed closes nothing, so an
/// implementation that outlives its hosts forgets their requests after a time of its own choice,
/// and settles their reservations when the leases end.
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

    /// Extends the leases of these reservations, which this host still holds, to the length that
    /// each was reserved with. `now` is in milliseconds since 1970. A host calls this several times
    /// within the length of a lease.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn renew_leases(
        &self,
        held: &[ReservationId],
        now: u64,
    ) -> Result<(), AccountsUnavailable>;

    /// Returns the windows of budgets as they are now, in the order of the claims; none for a claim
    /// without a window. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn read_windows(
        &self,
        claims: Vec<Claim>,
        now: u64,
    ) -> Result<Vec<Option<WindowState>>, AccountsUnavailable>;

    /// Takes a note. It waits for nothing: an implementation may send it with its next call.
    fn take_note(&self, note: StateNote);

    /// Stores the changes of a request that has ended. Returns what is known of its run and its
    /// accounts then.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn close(&self, closing: Closing) -> Result<Closed, StoreError>;

    /// Returns the runs that have changed after a version, open and recently ended. A run is listed
    /// from its first [`StateNote::Progress`] on.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn list_runs(&self, after: u64) -> Result<RunList, StoreError>;

    /// Returns one run, open or recently ended.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn find_run(&self, run: &str) -> Result<Option<RunSnapshot>, StoreError>;

    /// Cancels an open run and its open sub-agents, so that they cannot continue: those without a
    /// running request have ended, and [`find_cancelled`](Self::find_cancelled) tells the hosts of
    /// the others. `None` if the run is not open. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn cancel_run(&self, run: &str, now: u64) -> Result<Option<RunCancellation>, StoreError>;

    /// Returns which of these runs were cancelled, by whichever host. A host asks it now and then
    /// of the runs whose requests it serves.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn find_cancelled(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError>;

    /// Ends open runs ([`RunTotals::abandoned_end`](crate::runs::RunTotals::abandoned_end)), and
    /// returns them. Each is returned once, to one host.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached.
    async fn end_runs(&self, which: RunsToEnd) -> Result<Vec<EndedRun>, StoreError>;
}

/// A note that is of use to later requests, and that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateNote {
    /// A request of an open run is about to be sent.
    Progress(RunProgress),
    /// A request of this run was given up before it was sent. If it had opened the run, the run is
    /// forgotten.
    Withdrawn(Arc<str>),
    /// A request has ended whose [`close`](SharedState::close) failed. Its changes are lost.
    Ended(RequestEnd),
    /// The end of a run that has ended, with what its limits leave.
    EndKnown {
        /// The run.
        run: Arc<str>,
        /// Its end.
        end: SnapshotEnd,
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
    /// The name of the reservation. If an answer was lost, the same query can be made again: it
    /// returns the reservation that was made.
    pub id: ReservationId,
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// The length of the lease, in milliseconds. If the reservation is not settled by then, and not
    /// [renewed](SharedState::renew_leases), its host is taken for dead.
    pub lease: u64,
    /// The accounts that it counts in, with their limits.
    pub claims: Vec<Claim>,
    /// The amounts that it asks for.
    pub ask: ReservationAmounts,
    /// The time that it waits.
    pub patience: WaitLimits,
    /// The amount that is booked on the accounts without windows first: a fork takes over what was
    /// spent before it, and budgets have counted that already.
    pub spent_before: NanoUsd,
    /// The run whose request begins once this is answered, with or without money; `None` if it has
    /// begun, or belongs to no run.
    pub opens: Option<Box<RunOpening>>,
}

/// The answer to a request for money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The balances of the accounts before, in the order of the claims.
    pub balances: Vec<Balance>,
    /// The reservation, or the reason why there is none.
    pub grant: Result<Grant, ReservationError>,
    /// The run whose request has begun.
    pub opened: Option<OpenedRun>,
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
    /// The accounts whose balances are wanted, windows by their own names. What windows among them
    /// keep back for the answer of the request's run ends with the run.
    pub accounts: Vec<Arc<str>>,
    /// The end of the request, if it belongs to a run.
    pub request: Option<RequestEnd>,
}

/// The answer to the end of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The balances that were wanted, in their order; none if the accounts do not answer.
    pub balances: Vec<Balance>,
    /// The request's run.
    pub run: RunAfter,
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

/// The length of the lease of a reservation, in milliseconds.
pub(crate) const LEASE_MS: u64 = 60_000;

/// The accounts of one request in the shared state.
#[derive(Debug)]
pub(crate) struct RequestLedger<'a> {
    services: &'a Services,
    /// The amount that is booked first.
    spent_before: NanoUsd,
    /// The run that begins with the first reservation.
    opens: Mutex<Option<Box<RunOpening>>>,
    /// What the newest reservation brought beside its money.
    brought: Mutex<LedgerAnswer>,
}

/// What a reservation brings beside its money.
#[derive(Debug, Default)]
pub(crate) struct LedgerAnswer {
    /// The balances before; none if the state did not answer.
    pub(crate) balances: Vec<Balance>,
    /// The run whose request has begun.
    pub(crate) opened: Option<OpenedRun>,
    /// The reservation that got no answer.
    pub(crate) unanswered: Option<ReserveQuery>,
}

impl<'a> RequestLedger<'a> {
    pub(crate) fn new(
        services: &'a Services,
        spent_before: NanoUsd,
        opens: Option<Box<RunOpening>>,
    ) -> Self {
        Self { services, spent_before, opens: Mutex::new(opens), brought: Mutex::default() }
    }

    /// Returns what the newest reservation brought beside its money.
    pub(crate) fn take_answer(self) -> LedgerAnswer {
        self.brought.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_answer(&self) -> MutexGuard<'_, LedgerAnswer> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
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
        let opens = self.opens.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spent_before = self.spent_before;
        let Services { state, names, .. } = self.services;
        let (id, at, lease) = (names.next_reservation(), self.services.now(), LEASE_MS);
        let (again, named) = (claims.clone(), id.clone());
        let wanted = ReserveQuery { id, at, lease, claims, ask, patience, spent_before, opens };
        let reserved = state.reserve(wanted).await.map_err(|away| {
            let (id, claims, opens) = (named, again, None);
            let unanswered =
                ReserveQuery { id, at, lease, claims, ask, patience, spent_before, opens };
            self.lock_answer().unanswered = Some(unanswered);
            ReservationError::Away(away)
        })?;
        let Reserved { balances, grant, opened } = reserved;
        *self.lock_answer() = LedgerAnswer { balances, opened, unanswered: None };
        let grant = grant?;
        Ok(Lease::new(self.services.held.keep(state, &grant), grant))
    }

    async fn read_balances(&self, _: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable> {
        Ok(self.lock_answer().balances.clone())
    }
}
