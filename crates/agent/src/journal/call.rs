//! A single call of a recorded run, found by its position.

use std::path::Path;

use super::file::Runs;
use super::record::Parent;
use super::{JournalError, JournalErrorKind, file};

/// The position of a call: its turn, from 1, and its index among the turn's calls, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The turn.
    pub turn: u64,
    /// The index in the turn.
    pub call: u64,
}

/// A recorded call with its whole input and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCall {
    /// The call's id, as the model gave it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The input as the model wrote it, usually JSON.
    pub input: String,
    /// The result; `None` while the call runs, or if the process ended before the result.
    pub result: Option<KeptResult>,
}

/// The result of a recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// The output for the model, without softland's lines.
    pub content: String,
    /// True if the call failed.
    pub is_error: bool,
    /// The duration in milliseconds.
    pub ms: u64,
}

impl KeptCall {
    /// Finds the call at the end of a path of positions. The first position is in the root run;
    /// each further position is in the run that answers the call before it. `None` if there is no
    /// such call.
    ///
    /// # Errors
    /// Returns the errors of [`JournalSummary::from_path`](super::JournalSummary::from_path).
    pub fn at(path: &Path, places: &[Place]) -> Result<Option<Self>, JournalError> {
        let runs = file::peek(path)?;
        let Some(root) = runs.root.clone() else {
            return Err(JournalError::new(path, JournalErrorKind::Empty));
        };
        Ok(Self::below(&runs, root, places))
    }

    /// Finds the call like [`Self::find_in_root`], with the first position in the run named `run`.
    ///
    /// # Errors
    /// Returns the errors of [`JournalSummary::from_path`](super::JournalSummary::from_path).
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
