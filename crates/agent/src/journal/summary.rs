//! The content of a journal that is read but not opened.

use std::path::Path;

use serde_json::Value;
use softland_session::core::NanoUsd;

use super::record::{RoundRecord, StartRecord, TurnEndRecord};
use super::recorded_run::RecordedRun;
use super::{JournalError, JournalErrorKind, file};
use crate::event::Report;

/// The end of a finished run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedRun {
    /// The run's id.
    pub run: String,
    /// The end of the run.
    pub report: Report,
    /// The number of the run's terminal event.
    pub seq: u64,
    /// The turn of that event.
    pub turn: u64,
}

/// The content of a journal that is read but not opened, also while its run is active.
#[derive(Debug)]
pub struct JournalSummary {
    /// The id of the root run.
    pub run: String,
    /// The start record of the root run.
    pub start: StartRecord,
    /// The end of the root run; `None` while it is active.
    pub finished: Option<FinishedRun>,
    past: RecordedRun,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunProgress {
    /// The turns that have begun.
    pub turns: u64,
    /// The requests that were sent.
    pub requests: u64,
    /// The calls that have begun.
    pub calls: u64,
    /// The cost of the finished turns; `None` if the model has no price.
    pub cost: Option<NanoUsd>,
}

impl JournalSummary {
    /// Returns true if a process is working on the journal's runs.
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        file::is_in_use(path)
    }

    /// Reads a journal without locking it.
    ///
    /// # Errors
    /// Returns the errors of [`Journal::open`](super::Journal::open), except that the journal may be
    /// in use.
    pub fn from_path(path: &Path) -> Result<Self, JournalError> {
        let mut runs = file::read_only(path)?;
        let empty = || JournalError::new(path, JournalErrorKind::Empty);
        let run = runs.root.take().ok_or_else(empty)?;
        let mut past = runs.runs.remove(&run).ok_or_else(empty)?;
        let finished = past.end.as_ref().map(|end| FinishedRun {
            run: run.clone(),
            report: Report { failure: end.failure.clone(), ..*end.report.clone() },
            seq: end.seq,
            turn: end.turn,
        });
        Ok(Self { run, start: past.start.take().ok_or_else(empty)?, finished, past })
    }

    /// Returns what each turn added to the conversation.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (&TurnEndRecord, Option<&RoundRecord>)> {
        self.past.took.values().map(|took| (took, self.past.rounds.get(&took.turn)))
    }

    /// Returns the time at which the run began, in milliseconds since 1970.
    #[must_use]
    pub fn began_millis(&self) -> Option<u64> {
        let at = self.start.ts.parse::<jiff::Timestamp>().ok()?;
        u64::try_from(at.as_millisecond()).ok()
    }

    /// Returns the progress of the root run, without its sub-agents.
    #[must_use]
    pub fn run_progress(&self) -> RunProgress {
        let RecordedRun { turns, requests, calls, took, .. } = &self.past;
        RunProgress {
            turns: turns.len() as u64,
            requests: requests.values().filter(|asked| asked.request.is_some()).count() as u64,
            calls: calls.len() as u64,
            cost: self
                .start
                .price
                .map(|_| NanoUsd(took.values().last().map_or(0, |took| took.nano))),
        }
    }

    /// Returns the settings that the program stored when it began the run.
    #[must_use]
    pub fn setup(&self) -> &Value {
        &self.start.setup
    }
}
