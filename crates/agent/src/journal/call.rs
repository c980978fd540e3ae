//! One call of a kept run, looked up by its place.

use std::path::Path;

use super::file::Runs;
use super::record::Parent;
use super::{JournalError, JournalErrorKind, file};

/// Where a call stands: its turn, from 1, and its place among the turn's calls, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The turn.
    pub turn: u64,
    /// The place in it.
    pub call: u64,
}

/// A call that is kept, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCall {
    /// Its id, as the model gave it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the model wrote: a JSON text, mostly.
    pub input: String,
    /// What it came to; `None` while it runs, or where the process ended before.
    pub result: Option<KeptResult>,
}

/// What a kept call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// What the model was given, softland's lines apart.
    pub content: String,
    /// Whether it is a failure.
    pub is_error: bool,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

impl KeptCall {
    /// The call at the end of these places in a journal: the last is a place in the run that
    /// answers the call before it, the first one in the root run. `None` where nothing stands there.
    ///
    /// # Errors
    /// As [`Glance::at`](super::Glance::at).
    pub fn at(path: &Path, places: &[Place]) -> Result<Option<Self>, JournalError> {
        let runs = file::peek(path)?;
        let Some(root) = runs.root.clone() else {
            return Err(JournalError::new(path, JournalErrorKind::Empty));
        };
        Ok(Self::below(&runs, root, places))
    }

    /// The same, the first of the places in a run of the journal's tree that is named.
    ///
    /// # Errors
    /// As [`Glance::at`](super::Glance::at).
    pub fn of_run(path: &Path, run: &str, places: &[Place]) -> Result<Option<Self>, JournalError> {
        Ok(Self::below(&file::peek(path)?, run.to_owned(), places))
    }

    fn below(runs: &Runs, mut run: String, places: &[Place]) -> Option<Self> {
        let (last, callers) = places.split_last()?;
        for Place { turn, call } in callers.iter().copied() {
            match runs.children.get(&Parent { run, turn, call }) {
                Some(child) => run = child.clone(),
                None => return None,
            }
        }
        let past = runs.runs.get(&run);
        let kept = past.and_then(|past| past.calls.get(&(last.turn, last.call)));
        kept.map(|(call, result)| Self {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            result: result.as_ref().map(|result| KeptResult {
                content: result.content.clone(),
                is_error: result.is_error,
                ms: result.took,
            }),
        })
    }
}
