//! A recap of what a gateway's process has done: how its runs ended, and which costs are unknown.
//! The program that a person started says it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softland_govern::records::{Record, RequestRow};
use softland_session::core::{NanoUsd, Outcome, RunEnding};

/// The most runs that are remembered by themselves.
const RUNS: usize = 64;
/// The most models that are remembered.
const MODELS: usize = 8;
/// The most open runs whose agents are remembered.
const AGENTS: usize = 1024;

/// What is told of the runs of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recap {
    /// The ended runs: first those that did not end by themselves, then the others, each in the
    /// order of their ends. At most 64 of each.
    pub runs: Vec<RecapRun>,
    /// The number of requests that may have cost something unknown.
    pub unpriced_requests: u64,
    /// The models of these requests; some of them.
    pub unpriced_models: Vec<String>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecapRun {
    /// The run.
    pub run: String,
    /// The sub-agent, if the run is one's.
    pub agent: Option<String>,
    /// The outcome, its reason and the limit behind it.
    pub ended: RunEnding,
    /// True if the answer is softland's own.
    pub local: bool,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The cost; `None` if a part of it is not known.
    pub cost: Option<NanoUsd>,
    /// The refusal or failure of the run's last request, in the provider's words.
    pub said: Option<String>,
}

/// The notes for a recap.
#[derive(Debug, Default)]
pub(crate) struct RecapNotes(Mutex<NotedRuns>);

#[derive(Debug, Default)]
struct NotedRuns {
    agents: BTreeMap<Arc<str>, Arc<str>>,
    /// What was said of the newest request of open runs, if it was refused.
    said: BTreeMap<Arc<str>, String>,
    /// Runs that ended by themselves, and those that did not.
    answered: Vec<RecapRun>,
    others: Vec<RecapRun>,
    unpriced: u64,
    models: BTreeSet<Arc<str>>,
}

impl NotedRuns {
    /// Notes what was said of the newest request of a run, or forgets it.
    fn note_words(&mut self, run: &Arc<str>, words: Option<&String>) {
        match words {
            Some(words) if self.said.len() < AGENTS => {
                self.said.insert(Arc::clone(run), words.clone());
            }
            _ => drop(self.said.remove(run)),
        }
    }
}

impl RecapNotes {
    /// Takes note of a record.
    pub(crate) fn note_record(&self, record: &Record<'_>) {
        match record {
            Record::RunStart(start) => {
                let Some(agent) = &start.agent else { return };
                let mut noted = self.lock_notes();
                if noted.agents.len() < AGENTS {
                    noted.agents.insert(Arc::clone(&start.run), Arc::clone(agent));
                }
            }
            Record::Request(row) => self.note_request(row),
            Record::RunEnd(end) => {
                let mut noted = self.lock_notes();
                let agent = noted.agents.remove(&end.run);
                let said = noted.said.remove(&end.run);
                let by_itself = end.ended.outcome == Outcome::Answered;
                let runs = if by_itself { &mut noted.answered } else { &mut noted.others };
                if runs.len() < RUNS {
                    runs.push(RecapRun {
                        run: end.run.to_string(),
                        agent: agent.as_deref().map(str::to_owned),
                        ended: end.ended.clone(),
                        local: end.local,
                        turns: end.turns,
                        tool_calls: end.tool_calls,
                        cost: end.cost,
                        said,
                    });
                }
            }
            Record::Sent(_) | Record::Event(_) => {}
        }
    }

    fn note_request(&self, row: &RequestRow) {
        let refused = row.status.is_some_and(|status| status >= 400);
        let mut noted = self.lock_notes();
        if let Some(run) = &row.run {
            noted.note_words(run, row.remark.as_ref().filter(|_| refused));
        }
        // Providers bill no request that they refuse.
        if row.cost.is_none() && !refused {
            noted.unpriced += 1;
            if let Some(model) = row.model.as_ref().filter(|_| noted.models.len() < MODELS) {
                noted.models.insert(Arc::clone(model));
            }
        }
    }

    /// Returns the recap so far.
    pub(crate) fn to_recap(&self) -> Recap {
        let noted = self.lock_notes();
        Recap {
            runs: noted.others.iter().chain(&noted.answered).cloned().collect(),
            unpriced_requests: noted.unpriced,
            unpriced_models: noted.models.iter().map(ToString::to_string).collect(),
        }
    }

    /// Locks the notes. A panic elsewhere leaves them whole: nothing is called while they are
    /// locked.
    fn lock_notes(&self) -> MutexGuard<'_, NotedRuns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d11_the_words_are_those_of_the_newest_request() {
        let mut noted = NotedRuns::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (first, second) = ("first".to_owned(), "second".to_owned());
        noted.note_words(&a, Some(&first));
        noted.note_words(&b, Some(&first));
        noted.note_words(&a, Some(&second));
        noted.note_words(&b, None);
        assert_eq!((noted.said.get(&a), noted.said.get(&b)), (Some(&second), None));
        for n in 0..2 * AGENTS {
            noted.note_words(&n.to_string().into(), Some(&first));
        }
        assert!(noted.said.len() <= AGENTS);
    }
}
