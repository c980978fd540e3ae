//! [`SharedState`] over a store's script.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use softland_govern::money::accounts::{
    AccountsUnavailable, Claim, Grant, LeaseStore, ReservationError, ReservationId, WindowState,
};
use softland_govern::recall::{RecallQuery, Recalled};
use softland_govern::runs::{
    EndedRun, OpenedRun, RunCancellation, RunList, RunSnapshot, RunsToEnd,
};
use softland_govern::shared::{Closed, Closing, ReserveQuery, Reserved};
use softland_govern::store::{IDLE_MS, StoreError};
use softland_govern::{SharedState, StateNote};
use softland_session::ChainLink;
use softland_session::core::lease::Amount;
use tokio::time::{Instant, sleep, timeout};

use crate::answer::Answer;
use crate::money::{
    encode_lowering, encode_renewal, encode_reservation, encode_settlement, encode_window_query,
    encode_withdrawal, read_balances, read_decision, read_window_state,
};
use crate::notes::NoteQueue;
use crate::operation::{encode_closing, encode_link_query, encode_note, encode_recall, to_number};
use crate::read::{
    read_chain_link, read_elements, read_ended_run, read_list, read_number, read_opened_run,
    read_recalled, read_run_after, read_run_snapshot, read_text, read_texts,
};

/// The time for which notes wait for a call that takes them along.
const NOTES_WAIT: Duration = Duration::from_millis(50);
/// The pause between two attempts to bring notes to a store that is away.
const AWAY: Duration = Duration::from_millis(500);
/// The interval at which a gateway says that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// The shortest and the longest pause after which a waiting request asks again. Between them it is an
/// eighth of the time that it has waited.
const ASK_AGAIN: [Duration; 2] = [Duration::from_millis(25), Duration::from_millis(250)];

/// A store that runs a script.
#[async_trait]
pub trait ScriptStore: fmt::Debug + Send + Sync + 'static {
    /// Runs operations in order, in one round trip, for the gateway of this name. Returns for each
    /// whether it succeeded, and what it returned.
    ///
    /// # Errors
    /// Returns the reason if the store did not answer. What was done is then unknown.
    async fn run(&self, host: &str, operations: &[String]) -> Result<Vec<Answer>, String>;
}

/// The state of a fleet in a store that runs a script.
#[derive(Debug)]
pub struct RemoteState<S> {
    shared: Arc<Shared<S>>,
    /// True if times come with the calls, for tests; otherwise the store's clock counts.
    times_given: bool,
}

/// What the task that brings notes shares with the calls.
#[derive(Debug)]
struct Shared<S> {
    store: S,
    /// The name of this gateway among the others.
    host: String,
    notes: NoteQueue,
    /// True while the last call has failed.
    is_away: AtomicBool,
}

impl<S: ScriptStore> RemoteState<S> {
    /// Creates the state over a store, and begins to bring notes to it. Has to be called within a
    /// runtime.
    #[must_use]
    pub fn new(store: S) -> Self {
        let host = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let (notes, is_away) = (NoteQueue::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { store, host, notes, is_away });
        tokio::spawn(bring_notes(Arc::downgrade(&shared)));
        Self { shared, times_given: false }
    }

    /// Takes the times of the calls for windows and leases, and not the store's: for tests.
    #[must_use]
    pub fn with_given_times(self) -> Self {
        Self { times_given: true, ..self }
    }

    fn given(&self, at: u64) -> Option<u64> {
        self.times_given.then_some(at)
    }

    async fn call(&self, operation: &serde_json::Value) -> Result<Answer, String> {
        self.shared.call(Some(operation)).await.map(Option::unwrap_or_default)
    }

    pub(crate) async fn ask(&self, operation: &serde_json::Value) -> Result<Answer, StoreError> {
        self.call(operation).await.map_err(StoreError)
    }

    async fn ask_money(
        &self,
        operation: &serde_json::Value,
    ) -> Result<Answer, AccountsUnavailable> {
        self.call(operation).await.map_err(|because| AccountsUnavailable { because })
    }
}

impl<S: ScriptStore> Shared<S> {
    /// Runs an operation after the notes that wait, in one round trip.
    async fn call(&self, operation: Option<&serde_json::Value>) -> Result<Option<Answer>, String> {
        let notes = self.notes.take();
        let mut operations: Vec<String> = notes.texts().map(str::to_owned).collect();
        operations.extend(operation.map(ToString::to_string));
        let answers = self.store.run(&self.host, &operations).await;
        let was_away = self.is_away.swap(answers.is_err(), Ordering::Relaxed);
        let answers = match answers {
            Ok(answers) => answers,
            Err(because) => {
                if !was_away {
                    tracing::warn!(because, "the shared store does not answer");
                }
                return Err(because);
            }
        };
        notes.mark_brought();
        if was_away {
            tracing::info!("the shared store answers again");
        }
        let mut last = None;
        for answer in answers {
            last = Some(read_answer(answer));
        }
        match last {
            Some(answer) if operation.is_some() => answer.map(Some),
            _ => Ok(None),
        }
    }
}

/// Returns what an operation has returned.
fn read_answer(answer: Answer) -> Result<Answer, String> {
    let Some([ok, value]) = read_elements(answer) else {
        return Err("its answer cannot be read".to_owned());
    };
    if read_number(&ok) == 1 {
        return Ok(value);
    }
    let error = read_text(&value).unwrap_or("an operation failed").to_owned();
    tracing::warn!(error, "the shared store refused an operation");
    Err(error)
}

/// Brings notes to the store until the state is dropped, and tells it that this gateway lives.
async fn bring_notes<S: ScriptStore>(shared: Weak<Shared<S>>) {
    loop {
        let Some(state) = shared.upgrade() else { return };
        let came = timeout(SIGN_OF_LIFE, state.notes.wait_for_note()).await.is_ok();
        drop(state);
        if came {
            sleep(NOTES_WAIT).await;
        }
        loop {
            let Some(state) = shared.upgrade() else { return };
            if came && state.notes.is_empty() {
                break;
            }
            let brought = state.call(None).await.is_ok();
            if brought && state.notes.is_empty() {
                break;
            }
            drop(state);
            if !brought {
                sleep(AWAY).await;
            }
        }
    }
}

/// A reservation that nobody has answered yet. Dropped without an answer, it is given up.
struct Unanswered<'a> {
    notes: &'a NoteQueue,
    id: &'a ReservationId,
    is_answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.notes.push(encode_withdrawal(self.id), true);
        }
    }
}

#[async_trait]
impl<S: ScriptStore> SharedState for RemoteState<S> {
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError> {
        let answer = self.ask(&encode_recall(&query)).await?;
        read_recalled(answer).ok_or_else(unreadable)
    }

    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError> {
        let answer = self.ask(&encode_link_query(id, most)).await?;
        let Answer::List(links) = answer else { return Ok(None) };
        Ok(Some(links.into_iter().rev().map(read_chain_link).collect()))
    }

    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable> {
        let asking = encode_reservation(&wanted, self.given(wanted.at));
        let mut place =
            Unanswered { notes: &self.shared.notes, id: &wanted.id, is_answered: false };
        let unreadable = || AccountsUnavailable { because: unreadable().0 };
        let answer = self.ask_money(&asking.reserve).await?;
        let [decided, balances, opened] = read_elements(answer).ok_or_else(unreadable)?;
        let balances = read_balances(balances);
        let mut state = (read_decision(&wanted.id, decided), opened);
        let since = Instant::now();
        let decided = loop {
            let (decided, opened) = state;
            if let Some(decided) = decided {
                break (decided, opened);
            }
            let [shortest, longest] = ASK_AGAIN;
            sleep((since.elapsed() / 8).clamp(shortest, longest)).await;
            let answer = self.ask_money(&asking.poll).await?;
            let [decided, opened] = read_elements(answer).ok_or_else(unreadable)?;
            state = (read_decision(&wanted.id, decided), opened);
        };
        place.is_answered = true;
        let (grant, opened) = decided;
        if let Err(ReservationError::Away(away)) = grant {
            return Err(away);
        }
        let opened: Option<OpenedRun> = read_opened_run(opened);
        Ok(Reserved { balances, grant, opened })
    }

    async fn renew_leases(
        &self,
        held: &[ReservationId],
        now: u64,
    ) -> Result<(), AccountsUnavailable> {
        self.ask_money(&encode_renewal(held, self.given(now))).await.map(drop)
    }

    async fn read_windows(
        &self,
        claims: Vec<Claim>,
        now: u64,
    ) -> Result<Vec<Option<WindowState>>, AccountsUnavailable> {
        let answer = self.ask_money(&encode_window_query(&claims, self.given(now))).await?;
        Ok(read_list(answer).into_iter().map(read_window_state).collect())
    }

    fn take_note(&self, note: StateNote) {
        self.shared.notes.push(encode_note(note), false);
    }

    async fn close(&self, closing: Closing) -> Result<Closed, StoreError> {
        let observed = closing.request.as_ref().and_then(|request| request.observed_end);
        let answer = self.ask(&encode_closing(closing)).await?;
        let [balances, run] = read_elements(answer).ok_or_else(unreadable)?;
        let run = read_run_after(run, observed).unwrap_or_default();
        Ok(Closed { balances: read_balances(balances), run })
    }

    async fn list_runs(&self, after: u64) -> Result<RunList, StoreError> {
        let answer = self.ask(&json!({"op": "list", "after": after})).await?;
        let [version, rows] = read_elements(answer).ok_or_else(unreadable)?;
        let rows = read_list(rows).into_iter().filter_map(read_run_snapshot);
        // Nothing of a run was sent before its first turn.
        let mut runs: Vec<RunSnapshot> =
            rows.filter(|row| row.turns > 0 || row.end.is_some()).collect();
        runs.sort_by_key(|row| row.info.started);
        Ok(RunList { version: read_number(&version), runs })
    }

    async fn find_run(&self, run: &str) -> Result<Option<RunSnapshot>, StoreError> {
        Ok(read_run_snapshot(self.ask(&json!({"op": "find", "run": run})).await?))
    }

    async fn cancel_run(&self, run: &str, now: u64) -> Result<Option<RunCancellation>, StoreError> {
        let asked = json!({"op": "cancel", "run": run, "now": to_number(now)});
        let Some([family, ended]) = read_elements(self.ask(&asked).await?) else { return Ok(None) };
        let ended = read_list(ended).into_iter().filter_map(read_ended_run).collect();
        Ok(Some(RunCancellation { family: read_texts(family), ended }))
    }

    async fn find_cancelled(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(read_texts(self.ask(&json!({"op": "cancelled", "runs": runs})).await?))
    }

    async fn end_runs(&self, which: RunsToEnd) -> Result<Vec<EndedRun>, StoreError> {
        let RunsToEnd::Idle { now } = which else {
            // The state outlives this process, but the notes that still wait do not.
            while !self.shared.notes.is_empty() {
                self.shared.call(None).await.map_err(StoreError)?;
            }
            return Ok(Vec::new());
        };
        let answer = self.ask(&json!({"op": "end_idle", "now": now, "idle": IDLE_MS})).await?;
        Ok(read_list(answer).into_iter().filter_map(read_ended_run).collect())
    }
}

impl<S: ScriptStore> LeaseStore for RemoteState<S> {
    fn mark_sent(&self, _: &Grant) {
        // A note that is lost with its host would release what was spent: each counts as sent.
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.shared.notes.push(encode_lowering(&grant.id, to), true);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.shared.notes.push(encode_settlement(&grant.id, actual), true);
    }
}

pub(crate) fn unreadable() -> StoreError {
    StoreError("its answer cannot be read".to_owned())
}
