//! The runs that are open now: what their ends will say, and which of them nobody goes on with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use softland_session::core::{Ended, NanoUsd, Outcome, Reason};
use softland_session::wire::Tokens;

use crate::store::IDLE_MS;

mod shown;

pub(crate) use shown::{Face, Row};
use shown::{Past, Shown};

/// Runs that are told of at a time; beyond it those idle longest are ended.
const MOST: usize = 50_000;

/// What an open run has come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRun {
    /// When its newest request ended, in milliseconds since 1970.
    pub(crate) last: u64,
    pub(crate) turns: u64,
    pub(crate) calls: u64,
    pub(crate) tokens: Tokens,
    /// `None` once a request's cost was not known.
    pub(crate) cost: Option<NanoUsd>,
    /// Turns and calls of the runs that it goes on from: the ledger has them in their own rows.
    before: (u64, u64),
    /// The newest turn that was told to have begun.
    begun: u64,
    /// What would have been made of it, where it is only observed.
    fate: Option<Fate>,
    /// The newest request brought no turn, since the provider failed.
    failed: bool,
    /// Requests under way: while there are any, somebody goes on with it.
    under_way: usize,
    /// What whoever watches is shown of it.
    shown: Shown,
}

impl OpenRun {
    /// What one request came to.
    pub(crate) fn request(
        last: u64,
        (turns, calls): (u64, u64),
        tokens: Tokens,
        cost: Option<NanoUsd>,
    ) -> Self {
        Self { last, turns, calls, tokens, cost, ..Self::default() }
    }

    /// The same of one to which the provider said no.
    pub(crate) fn refused(self) -> Self {
        Self { failed: true, ..self }
    }

    /// Its own turns and calls.
    pub(crate) fn own(&self) -> (u64, u64) {
        let (turns, calls) = self.before;
        (self.turns.saturating_sub(turns), self.calls.saturating_sub(calls))
    }

    /// How it has ended, where nobody goes on with it.
    pub(crate) fn left(&self) -> Ended {
        match self.failed {
            true => Ended::plain(Outcome::Failed, Reason::Provider),
            false => Ended::plain(Outcome::Cancelled, Reason::User),
        }
    }
}

/// What would have become of a run that is only observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Landed,
    Stopped,
}

/// The open runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    open: Mutex<HashMap<String, OpenRun, RandomState>>,
    /// Counts what changes, so that whoever watches need look at what is new only.
    version: AtomicU64,
    past: Mutex<Past>,
}

impl Runs {
    /// Counts a request of a run; true if the run is new here. `before`: turns and calls of the runs
    /// that a new one goes on from.
    pub(crate) fn begins(&self, run: &str, now: u64, before: (u64, u64)) -> bool {
        let mut open = self.lock();
        let version = self.next_version();
        if let Some(open) = open.get_mut(run) {
            open.last = open.last.max(now);
            open.under_way += 1;
            open.shown.version = version;
            return false;
        }
        let cost = Some(NanoUsd::ZERO);
        let shown = Shown::new(version);
        let new = OpenRun { last: now, cost, before, under_way: 1, shown, ..OpenRun::default() };
        open.insert(run.to_owned(), new);
        true
    }

    /// A request for this turn; true if the turn is new.
    pub(crate) fn turn_begins(&self, run: &str, turn: u64) -> bool {
        let mut open = self.lock();
        let Some(open) = open.get_mut(run).filter(|open| open.begun < turn) else { return false };
        open.begun = turn;
        true
    }

    /// This would have been done to it. What would first have brought it to an end is its fate,
    /// and is told once: what follows would not have been.
    pub(crate) fn would(&self, run: &str, intervention: &str) -> Option<Fate> {
        let fate = match intervention {
            // A call is refused for its tool's own limit, too, and the run goes on.
            "ask" | "none" | "respond" => Fate::Landed,
            "local_answer" | "stop" => Fate::Stopped,
            _ => return None,
        };
        let mut open = self.lock();
        let open = open.get_mut(run).filter(|open| open.fate.is_none())?;
        open.fate = Some(fate);
        Some(fate)
    }

    /// What a request of it came to. Turns and calls are the run's, tokens and cost the request's.
    pub(crate) fn goes_on(&self, run: &str, request: &OpenRun) {
        let mut open = self.lock();
        let version = self.next_version();
        if let Some(open) = open.get_mut(run) {
            open.shown.version = version;
            open.under_way = open.under_way.saturating_sub(1);
            open.failed = request.failed;
            open.last = open.last.max(request.last);
            open.turns = open.turns.max(request.turns);
            open.calls = open.calls.max(request.calls);
            open.tokens = open.tokens.plus(request.tokens);
            open.cost = open.cost.zip(request.cost).map(|(sum, cost)| sum + cost);
        }
    }

    /// A run has ended: what it came to.
    pub(crate) fn ends(&self, run: &str) -> Option<OpenRun> {
        self.lock().remove(run)
    }

    /// The runs that nobody goes on with.
    pub(crate) fn idle(&self, now: u64) -> Vec<(String, OpenRun)> {
        let mut open = self.lock();
        let limit = if open.len() > MOST { IDLE_MS / 10 } else { IDLE_MS };
        let is_idle = |_: &String, run: &mut OpenRun| {
            run.under_way == 0 && now.saturating_sub(run.last) > limit
        };
        open.extract_if(is_idle).collect()
    }

    /// All of them, ended.
    pub(crate) fn all(&self) -> Vec<(String, OpenRun)> {
        self.lock().drain().collect()
    }

    /// To be asked for under the lock of what has changed: who reads up to a version finds all of
    /// it there.
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
        assert!(runs.begins("a", 5, (0, 0)));
        assert!(!runs.begins("a", 6, (0, 0)));
        let cost = Some(NanoUsd(3));
        let request = OpenRun::request(7, (2, 1), Tokens::default(), cost);
        runs.goes_on("a", &request);
        assert!(runs.idle(8 + IDLE_MS).is_empty(), "a request of it is under way");
        runs.goes_on("a", &request);
        assert!(runs.idle(7 + IDLE_MS).is_empty());
        let idle = runs.idle(8 + IDLE_MS);
        assert_eq!(idle.len(), 1);
        assert_eq!((idle[0].1.turns, idle[0].1.cost), (2, Some(NanoUsd(6))));
        assert!(runs.ends("a").is_none());
        assert!(runs.begins("b", 5, (0, 0)));
        assert!(runs.turn_begins("b", 1) && !runs.turn_begins("b", 1));
        assert!(runs.turn_begins("b", 2) && !runs.turn_begins("b", 1) && !runs.turn_begins("c", 1));
        assert_eq!((runs.would("b", "countdown"), runs.would("b", "refuse")), (None, None));
        assert_eq!(runs.would("b", "ask"), Some(Fate::Landed));
        assert_eq!(runs.would("b", "stop"), None, "it would have ended before");
        assert_eq!(runs.would("c", "stop"), None, "no such run");
        assert_eq!((runs.all().len(), runs.all().len()), (1, 0));
    }

    #[test]
    fn who_reads_up_to_a_version_misses_nothing_of_it() {
        use std::collections::BTreeSet;
        use std::sync::atomic::AtomicUsize;
        use std::time::{Duration, Instant};

        const MANY: usize = 5000;
        let (runs, seen) = (Runs::default(), AtomicUsize::new(0));
        let until = Instant::now() + Duration::from_secs(60);
        let ended = Ended::plain(Outcome::Answered, Reason::Final);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..MANY {
                    runs.over(&n.to_string(), &OpenRun::default(), &ended, false, 0);
                    // Only so many are remembered.
                    while n > seen.load(Ordering::Relaxed) + 100 && Instant::now() < until {
                        std::thread::yield_now();
                    }
                }
            });
            let (mut version, mut found) = (0, BTreeSet::new());
            while found.len() < MANY && Instant::now() < until {
                let newest = runs.version();
                found.extend(runs.rows(version).into_iter().map(|row| row.run));
                version = newest;
                seen.store(found.len(), Ordering::Relaxed);
            }
            assert_eq!(found.len(), MANY);
        });
    }
}
