//! Counters of requests per run, which select the turn of a scenario. Runs are told apart by their
//! beginning. Everything else that a scenario needs is in the conversation.

use crate::history::{History, Role};
use crate::scenario::{RequestView, Scenario, find_human_turn};
use crate::turn::{Stop, Turn};
use std::collections::BTreeMap;

/// The maximum number of runs with counters; beyond it, all counters are dropped.
const MAX_RUNS: usize = 100_000;

/// The counters of all runs.
#[derive(Debug, Default)]
pub(crate) struct RunCounters {
    runs: BTreeMap<u128, RunCounter>,
    played: usize,
}

/// The counters of one run.
#[derive(Clone, Copy, Debug, Default)]
struct RunCounter {
    /// The number of requests.
    requests: u64,
    /// True once the run had an answer; repeating its first request then begins another run.
    answered: bool,
}

impl RunCounters {
    /// Returns the next turn of the run `key`.
    pub(crate) fn next_turn(
        &mut self,
        scenario: &Scenario,
        history: &History<'_>,
        key: u128,
    ) -> Turn {
        if self.runs.len() >= MAX_RUNS {
            self.runs.clear();
        }
        let run = self.runs.entry(key).or_default();
        let first = is_first(history);
        if first && run.answered {
            *run = RunCounter::default();
        }
        let turn =
            scenario.choose_turn(&RequestView::from_history(history, run.requests, self.played));
        run.requests += 1;
        // After a fault, or an empty or cut turn, a client repeats the request, which continues the
        // run.
        let whole =
            !matches!(turn.stop, Some(Stop::MaxTokens | Stop::PauseTurn | Stop::ContextWindow));
        run.answered |= !first || (turn.fault.is_none() && whole && !turn.parts.is_empty());
        self.played += 1;
        turn
    }
}

/// True if the model has said nothing since the human message.
fn is_first(history: &History<'_>) -> bool {
    let since = find_human_turn(&history.turns).map_or(0, |at| at + 1);
    history.turns.iter().skip(since).all(|turn| turn.role != Role::Assistant)
}
