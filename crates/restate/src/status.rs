//! What the engine says of a run.

use serde::{Deserialize, Serialize};
use softland_agent::core::{Outcome, Reason};
use softland_agent::durable::RunEnd;

/// The state of a run, as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    /// The engine knows no such run, or no longer.
    Unknown,
    /// A worker is at work on it, or it waits for one.
    Active {
        /// The failure of the last attempt, if the engine is trying again.
        failure: Option<String>,
    },
    /// The engine has given up trying and waits for a person.
    Paused {
        /// The engine's id of the run.
        invocation: String,
        /// The failure of the last attempt.
        failure: Option<String>,
    },
    /// The engine was told to end the run, which has no end of its own.
    Cancelled,
    /// The run is over.
    Ended {
        /// The end, if the run itself brought it.
        end: Option<RunEnd>,
        /// The reason that the engine names.
        failure: Option<String>,
    },
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
}

/// A run in the engine's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The id of the run.
    pub run: String,
    /// The engine's word for its state.
    pub state: String,
    /// The outcome of a run that has ended, if it is known.
    #[serde(flatten)]
    pub outcome: Option<RunOutcome>,
    /// The time of its beginning, as RFC 3339.
    pub began: String,
    /// The failure of the last attempt, or the one that ended the run.
    #[serde(default)]
    pub failure: Option<String>,
}

/// What has become of a run that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunDeletion {
    /// The engine has deleted it.
    Deleted,
    /// It has not ended, and is kept.
    Open,
    /// The engine knows no such run, or no longer.
    Unknown,
}
