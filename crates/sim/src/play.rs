//! Which turn of a scenario answers a request: the counters of its run. Runs are told apart by
//! what they begin with; everything else a scenario needs is in the conversation.

use crate::history::{History, Role};
use crate::scenario::{Scenario, View, human_at};
use crate::turn::{Stop, Turn};
use std::collections::BTreeMap;

/// Runs whose request counts are kept; past it all are forgotten.
const MAX_RUNS: usize = 100_000;

/// What was played so far.
#[derive(Debug, Default)]
pub(crate) struct Plays {
    runs: BTreeMap<u128, Played>,
    played: usize,
}

/// What of a run was played.
#[derive(Clone, Copy, Debug, Default)]
struct Played {
    /// Requests.
    requests: u64,
    /// It has had an answer, so that its first request, asked again, begins another run.
    answered: bool,
}

impl Plays {
    /// The next turn of the run `key`.
    pub(crate) fn next(&mut self, scenario: &Scenario, history: &History<'_>, key: u128) -> Turn {
        if self.runs.len() >= MAX_RUNS {
            self.runs.clear();
        }
        let run = self.runs.entry(key).or_default();
        let first = is_first(history);
        if first && run.answered {
            *run = Played::default();
        }
        let turn = scenario.play(&View::of(history, run.requests, self.played));
        run.requests += 1;
        // After a fault, an empty or a cut turn a client asks the same again and goes on with the
        // run.
        let whole =
            !matches!(turn.stop, Some(Stop::MaxTokens | Stop::PauseTurn | Stop::ContextWindow));
        run.answered |= !first || (turn.fault.is_none() && whole && !turn.parts.is_empty());
        self.played += 1;
        turn
    }
}

/// Whether the model has said nothing since the human message.
fn is_first(history: &History<'_>) -> bool {
    let since = human_at(&history.turns).map_or(0, |at| at + 1);
    history.turns.iter().skip(since).all(|turn| turn.role != Role::Assistant)
}
