//! The runs that are open now: what their ends will say, and which of them nobody goes on with.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use softland_session::core::NanoUsd;
use softland_session::wire::Tokens;

use crate::store::IDLE_MS;

/// Runs that are told of at a time; beyond it those idle longest are ended.
const MOST: usize = 50_000;

/// What an open run has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenRun {
    /// When its newest request ended, in milliseconds since 1970.
    pub(crate) last: u64,
    pub(crate) turns: u64,
    pub(crate) calls: u64,
    pub(crate) tokens: Tokens,
    /// `None` once a request's cost was not known.
    pub(crate) cost: Option<NanoUsd>,
}

/// The open runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    open: Mutex<HashMap<String, OpenRun>>,
}

impl Runs {
    /// Counts a request of a run; true if the run is new here.
    pub(crate) fn begins(&self, run: &str, now: u64) -> bool {
        let mut open = self.lock();
        let known = open.get_mut(run).map(|open| open.last = open.last.max(now)).is_some();
        if !known {
            let new = OpenRun { last: now, cost: Some(NanoUsd::ZERO), ..OpenRun::default() };
            open.insert(run.to_owned(), new);
        }
        !known
    }

    /// What a request of it came to. Turns and calls are the run's, tokens and cost the request's.
    pub(crate) fn goes_on(&self, run: &str, request: &OpenRun) {
        if let Some(open) = self.lock().get_mut(run) {
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
        let is_idle = |_: &String, run: &mut OpenRun| now.saturating_sub(run.last) > limit;
        open.extract_if(is_idle).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenRun>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_new_once_and_idle_in_the_end() {
        let runs = Runs::default();
        assert!(runs.begins("a", 5));
        assert!(!runs.begins("a", 6));
        let cost = Some(NanoUsd(3));
        let request = OpenRun { last: 7, turns: 2, calls: 1, cost, ..OpenRun::default() };
        runs.goes_on("a", &request);
        runs.goes_on("a", &request);
        assert!(runs.idle(7 + IDLE_MS).is_empty());
        let idle = runs.idle(8 + IDLE_MS);
        assert_eq!(idle.len(), 1);
        assert_eq!((idle[0].1.turns, idle[0].1.cost), (2, Some(NanoUsd(6))));
        assert_eq!(runs.ends("a"), None);
    }
}
