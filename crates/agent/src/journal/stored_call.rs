//! A single call of a recorded run, found by its position.

use std::path::Path;

use super::file::RecordedRuns;
use super::record::ParentCall;
use super::{JournalError, JournalErrorKind, file};

/// The position of a call: its turn, from 1, and its index among the turn's calls, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPosition {
    /// The turn.
    pub turn: u64,
    /// The index in the turn.
    pub call: u64,
}

/// A recorded call with its whole input and result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredCall {
    /// The call's id, as the model gave it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The input as the model wrote it, usually JSON.
    pub input: String,
    /// The result; `None` while the call runs, or if the process ended before the result.
    pub result: Option<StoredResult>,
}

/// The result of a recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredResult {
    /// The output for the model, without softland's lines.
    pub content: String,
    /// True if the call failed.
    pub is_error: bool,
    /// The duration in milliseconds.
    pub ms: u64,
}

impl StoredCall {
    /// Finds the call at the end of a path of positions. The first position is in the root run;
    /// each further position is in the run that answers the call before it. `None` if there is no
    /// such call.
    ///
    /// # Errors
    /// Returns the errors of [`JournalSummary::from_path`](super::JournalSummary::from_path).
    pub fn find_in_root(
        path: &Path,
        places: &[CallPosition],
    ) -> Result<Option<Self>, JournalError> {
        let runs = file::read_only(path)?;
        let Some(root) = runs.root.clone() else {
            return Err(JournalError::new(path, JournalErrorKind::Empty));
        };
        Ok(Self::find_below(&runs, root, places))
    }

    /// Finds the call like [`Self::find_in_root`], with the first position in the run named `run`.
    ///
    /// # Errors
    /// Returns the errors of [`JournalSummary::from_path`](super::JournalSummary::from_path).
    pub fn find_in_run(
        path: &Path,
        run: &str,
        places: &[CallPosition],
    ) -> Result<Option<Self>, JournalError> {
        Ok(Self::find_below(&file::read_only(path)?, run.to_owned(), places))
    }

    fn find_below(runs: &RecordedRuns, mut run: String, places: &[CallPosition]) -> Option<Self> {
        let (last, callers) = places.split_last()?;
        for CallPosition { turn, call } in callers.iter().copied() {
            match runs.children.get(&ParentCall { run, turn, call }) {
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
            result: result.as_ref().map(|result| StoredResult {
                content: result.content.clone(),
                is_error: result.is_error,
                ms: result.took,
            }),
        })
    }
}
