//! The runs that are open now: their totals, and the ones that nobody continues.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use softland_session::core::{NanoUsd, Outcome, Reason, RunEnding};
use softland_session::wire::Tokens;

use crate::store::IDLE_MS;

mod view;

use view::{PastRuns, RunView};
pub use view::{RequestHandle, RunInfo, RunSnapshot, SnapshotEnd};

/// The number of runs that are tracked at once; beyond it, the ones idle longest are ended.
const MOST: usize = 50_000;

/// The totals of an open run.
#[derive(Clone, Debug, Default)]
pub struct OpenRun {
    /// The end of its newest request, in milliseconds since 1970.
    pub last: u64,
    /// Its turns, with those of the runs that it continues.
    pub turns: u64,
    /// Its tool calls, with those of the runs that it continues.
    pub calls: u64,
    /// Its tokens.
    pub tokens: Tokens,
    /// `None` once a request's cost was not known.
    pub cost: Option<NanoUsd>,
    /// Turns and calls of the runs that it continues, which the ledger has in rows of their own.
    before: (u64, u64),
    /// The newest turn whose start was recorded.
    begun: u64,
    /// The end that it would have had, if it is only observed.
    fate: Option<ObservedEnd>,
    /// True if the newest request brought no turn because the provider failed.
    failed: bool,
    /// The number of running requests; while there are any, the run is not idle.
    under_way: usize,
    /// The view of the run for the pages.
    shown: RunView,
}

impl OpenRun {
    /// Creates the totals of one request.
    pub fn from_request(
        last: u64,
        (turns, calls): (u64, u64),
        tokens: Tokens,
        cost: Option<NanoUsd>,
    ) -> Self {
        Self { last, turns, calls, tokens, cost, ..Self::default() }
    }

    /// Marks a request that the provider refused.
    pub fn with_failure(self) -> Self {
        Self { failed: true, ..self }
    }

    /// Returns the run's own turns and calls.
    pub fn own_counts(&self) -> (u64, u64) {
        let (turns, calls) = self.before;
        (self.turns.saturating_sub(turns), self.calls.saturating_sub(calls))
    }

    /// Returns how the run ended, if nobody continues it.
    pub fn abandoned_end(&self) -> RunEnding {
        match self.failed {
            true => RunEnding::without_limit(Outcome::Failed, Reason::Provider),
            false => RunEnding::without_limit(Outcome::Cancelled, Reason::User),
        }
    }
}

/// The end that a run would have had if it were not only observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedEnd {
    /// It would have been brought to an answer at a limit.
    Landed,
    /// It would have ended with softland's own answer.
    Stopped,
}

/// The open runs.
#[derive(Debug, Default)]
pub struct Runs {
    open: Mutex<HashMap<String, OpenRun, RandomState>>,
    /// Counts the changes, so that a page has to read only what is new.
    version: AtomicU64,
    past: Mutex<PastRuns>,
}

impl Runs {
    /// Counts a request of a run. Returns true if the run is new. `before` are the turns and calls
    /// of the runs that a new run continues.
    pub fn begin_request(&self, run: &str, now: u64, before: (u64, u64)) -> bool {
        let mut open = self.lock();
        let version = self.next_version();
        if let Some(open) = open.get_mut(run) {
            open.last = open.last.max(now);
            open.under_way += 1;
            open.shown.version = version;
            return false;
        }
        let cost = Some(NanoUsd::ZERO);
        let shown = RunView::new(version);
        let new = OpenRun { last: now, cost, before, under_way: 1, shown, ..OpenRun::default() };
        open.insert(run.to_owned(), new);
        true
    }

    /// Notes the start of a turn. Returns true if the turn is new.
    pub fn begin_turn(&self, run: &str, turn: u64) -> bool {
        let mut open = self.lock();
        let Some(open) = open.get_mut(run).filter(|open| open.begun < turn) else { return false };
        open.begun = turn;
        true
    }

    /// Notes an intervention that was only observed. Returns the end that it would have caused, but
    /// only for the first such intervention: the later ones would not have happened.
    pub fn observe_intervention(&self, run: &str, intervention: &str) -> Option<ObservedEnd> {
        let fate = match intervention {
            // A call is also refused at its tool's own limit, and then the run continues.
            "ask" | "none" | "respond" => ObservedEnd::Landed,
            "local_answer" | "stop" => ObservedEnd::Stopped,
            _ => return None,
        };
        let mut open = self.lock();
        let open = open.get_mut(run).filter(|open| open.fate.is_none())?;
        open.fate = Some(fate);
        Some(fate)
    }

    /// Adds the totals of a request. Turns and calls are the run's, tokens and cost the request's.
    pub fn end_request(&self, run: &str, request: &OpenRun) {
        let mut open = self.lock();
        let version = self.next_version();
        if let Some(open) = open.get_mut(run) {
            open.shown.version = version;
            open.under_way = open.under_way.saturating_sub(1);
            open.failed = request.failed;
            open.last = open.last.max(request.last);
            open.turns = open.turns.max(request.turns);
            open.calls = open.calls.max(request.calls);
            open.tokens = open.tokens.saturating_add(request.tokens);
            open.cost = open.cost.zip(request.cost).map(|(sum, cost)| sum + cost);
        }
    }

    /// Removes a run that has ended. Returns its totals.
    pub fn remove_run(&self, run: &str) -> Option<OpenRun> {
        self.lock().remove(run)
    }

    /// Removes and returns the runs that nobody continues.
    pub fn take_idle(&self, now: u64) -> Vec<(String, OpenRun)> {
        let mut open = self.lock();
        let limit = if open.len() > MOST { IDLE_MS / 10 } else { IDLE_MS };
        let is_idle = |_: &String, run: &mut OpenRun| {
            run.under_way == 0 && now.saturating_sub(run.last) > limit
        };
        open.extract_if(is_idle).collect()
    }

    /// Removes and returns all runs.
    pub fn take_all(&self) -> Vec<(String, OpenRun)> {
        self.lock().drain().collect()
    }

    /// Returns a new version. The caller holds the lock of what has changed, so that a reader of
    /// this version finds all of it there.
    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenRun, RandomState>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_new_once_and_idle_in_the_end() {
        let runs = Runs::default();
        assert!(runs.begin_request("a", 5, (0, 0)));
        assert!(!runs.begin_request("a", 6, (0, 0)));
        let cost = Some(NanoUsd(3));
        let request = OpenRun::from_request(7, (2, 1), Tokens::default(), cost);
        runs.end_request("a", &request);
        assert!(runs.take_idle(8 + IDLE_MS).is_empty(), "a request of it is under way");
        runs.end_request("a", &request);
        assert!(runs.take_idle(7 + IDLE_MS).is_empty());
        let idle = runs.take_idle(8 + IDLE_MS);
        assert_eq!(idle.len(), 1);
        assert_eq!((idle[0].1.turns, idle[0].1.cost), (2, Some(NanoUsd(6))));
        assert!(runs.remove_run("a").is_none());
        assert!(runs.begin_request("b", 5, (0, 0)));
        assert!(runs.begin_turn("b", 1) && !runs.begin_turn("b", 1));
        assert!(runs.begin_turn("b", 2) && !runs.begin_turn("b", 1) && !runs.begin_turn("c", 1));
        assert_eq!(
            (runs.observe_intervention("b", "countdown"), runs.observe_intervention("b", "refuse")),
            (None, None)
        );
        assert_eq!(runs.observe_intervention("b", "ask"), Some(ObservedEnd::Landed));
        assert_eq!(runs.observe_intervention("b", "stop"), None, "it would have ended before");
        assert_eq!(runs.observe_intervention("c", "stop"), None, "no such run");
        assert_eq!((runs.take_all().len(), runs.take_all().len()), (1, 0));
    }

    #[test]
    fn who_reads_up_to_a_version_misses_nothing_of_it() {
        use std::collections::BTreeSet;
        use std::sync::atomic::AtomicUsize;
        use std::time::{Duration, Instant};

        const MANY: usize = 5000;
        let (runs, seen) = (Runs::default(), AtomicUsize::new(0));
        let until = Instant::now() + Duration::from_secs(60);
        let ended = RunEnding::without_limit(Outcome::Answered, Reason::Final);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..MANY {
                    runs.record_ended(&n.to_string(), &OpenRun::default(), &ended, false, 0);
                    // The number of remembered runs is bounded.
                    while n > seen.load(Ordering::Relaxed) + 100 && Instant::now() < until {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut version, mut found) = (0, BTreeSet::new());
            while found.len() < MANY && Instant::now() < until {
                let newest = runs.version();
                found.extend(runs.changed_rows(version).into_iter().map(|row| row.run));
                version = newest;
                seen.store(found.len(), Ordering::Relaxed);
            }
            assert_eq!(found.len(), MANY);
        });
    }
}
