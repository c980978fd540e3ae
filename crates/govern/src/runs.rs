//! Runs as the shared state knows them: what is told of a request that begins and ends, the totals
//! of open runs, and the runs that have ended not long ago. All of it can be serialized.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use softland_session::core::{Digest, NanoUsd, Outcome, Reason, Remaining, RunEnding};
use softland_session::wire::Tokens;

/// The totals of a run, or of one of its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTotals {
    /// The end of the newest request, in milliseconds since 1970.
    pub last: u64,
    /// The turns of the run, with those of the runs that it continues.
    pub turns: u64,
    /// The tool calls of the run, with those of the runs that it continues.
    pub calls: u64,
    /// The tokens.
    pub tokens: Tokens,
    /// The cost; `None` once a request's cost was not known.
    pub cost: Option<NanoUsd>,
    /// Turns and calls of the runs that it continues, which a ledger has in rows of their own.
    pub before: (u64, u64),
    /// True if the newest request brought no turn because the provider failed.
    pub failed: bool,
    /// The rest of every limit after the newest request.
    #[serde(default)]
    pub remaining: Remaining,
}

impl RunTotals {
    /// Adds the totals of a request. Turns and calls are the run's, tokens and cost the request's.
    pub fn add_request(&mut self, request: &Self) {
        self.failed = request.failed;
        self.remaining.clone_from(&request.remaining);
        self.last = self.last.max(request.last);
        self.turns = self.turns.max(request.turns);
        self.calls = self.calls.max(request.calls);
        self.tokens = self.tokens.saturating_add(request.tokens);
        self.cost = self.cost.zip(request.cost).map(|(sum, cost)| sum + cost);
    }

    /// Returns the run's own turns and calls.
    #[must_use]
    pub fn own_counts(&self) -> (u64, u64) {
        let (turns, calls) = self.before;
        (self.turns.saturating_sub(turns), self.calls.saturating_sub(calls))
    }

    /// Returns how the run ended, if nobody continues it.
    #[must_use]
    pub fn abandoned_end(&self) -> RunEnding {
        let (outcome, reason) = match self.failed {
            true => (Outcome::Failed, Reason::Provider),
            false => (Outcome::Cancelled, Reason::User),
        };
        let remaining = self.remaining.clone();
        RunEnding { remaining, ..RunEnding::without_limit(outcome, reason) }
    }
}

/// The end that a run would have had if it were not only observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservedEnd {
    /// It would have been brought to an answer at a limit.
    Landed,
    /// It would have ended with softland's own answer.
    Stopped,
}

impl ObservedEnd {
    /// Returns the end that an intervention would have caused, if any.
    #[must_use]
    pub fn from_intervention(intervention: &str) -> Option<Self> {
        match intervention {
            // A call is also refused at its tool's own limit, and then the run continues.
            "ask" | "none" | "respond" => Some(Self::Landed),
            "local_answer" | "stop" => Some(Self::Stopped),
            _ => None,
        }
    }
}

/// The constant properties of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The time of its first request, in milliseconds since 1970.
    pub started: u64,
    /// The session, which shares money.
    pub session: Arc<str>,
    /// The client's name for the run.
    pub name: Option<Arc<str>>,
    /// The agent within the session.
    pub agent: Option<Arc<str>>,
    /// The parent run, if the run is a sub-agent's.
    pub parent: Option<Arc<str>>,
    /// The ended run that it continues.
    pub continues: Option<Arc<str>>,
    /// Its model.
    pub model: Arc<str>,
    /// The policy's name.
    pub policy: String,
    /// The client, as its `user-agent` names it.
    pub client: Option<String>,
    /// The name of the key that asks.
    #[serde(default)]
    pub key: Option<Arc<str>>,
    /// The account that pays.
    #[serde(default)]
    pub account: Option<Arc<str>>,
    /// True if the run is only observed.
    pub observed: bool,
    /// The limit on tool calls.
    pub calls_limit: Option<u64>,
}

/// A request of a run that begins. A state that does not know the run opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOpening {
    /// The run.
    pub run: Arc<str>,
    /// Its properties, should it be new. If it then continues another run, that one ends.
    pub info: RunInfo,
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// The request's history.
    pub here: Digest,
}

/// The answer to a request that begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedRun {
    /// True if the run is new.
    pub is_new: bool,
    /// The newest turn that has begun; 0 for a new run.
    pub begun: u64,
    /// The run that this one continues, if it was still open. It has ended now.
    pub superseded: Option<EndedRun>,
}

/// The progress of a run at a request that is about to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The run.
    pub run: Arc<str>,
    /// The turn that the request asks for, counted from 1.
    pub turn: u64,
    /// The tool calls so far.
    pub calls: u64,
    /// Turns and calls of the runs that it continues.
    pub before: (u64, u64),
    /// The phase.
    pub phase: RunPhase,
}

/// The phase of a run, as a person is shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPhase {
    /// Nothing is said to the model.
    #[default]
    Silent,
    /// The model is told what remains.
    Countdown,
    /// The run is being brought to an answer.
    Landing,
}

/// The end of a request of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEnd {
    /// The run.
    pub run: Arc<str>,
    /// The totals of the request.
    pub totals: RunTotals,
    /// The end to which the request would have brought the run, if the run is only observed.
    pub observed_end: Option<ObservedEnd>,
    /// The end of the run, if it ends with the request.
    pub end: Option<SnapshotEnd>,
}

/// A run that has ended, with its totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// The run.
    pub run: Arc<str>,
    /// Its properties.
    #[serde(default)]
    pub info: Arc<RunInfo>,
    /// Its totals.
    pub totals: RunTotals,
}

/// A run after one of its requests has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAfter {
    /// Its totals, if it has ended with this request and not before.
    pub ended: Option<RunTotals>,
    /// The end to which this request would have brought it first, if it is only observed.
    pub first_observed_end: Option<ObservedEnd>,
}

/// The runs to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsToEnd {
    /// The runs that have had no request for too long.
    Idle {
        /// The time, in milliseconds since 1970.
        now: u64,
    },
    /// The runs that are lost when this process ends: all runs of a state in memory, and none of
    /// a state that outlives the process.
    Lost {
        /// The time, in milliseconds since 1970.
        now: u64,
    },
}

/// A run that was cancelled, with its open sub-agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancellation {
    /// The runs, the parent first.
    pub family: Vec<Arc<str>>,
    /// The cancelled runs that had no running request, and so have ended.
    pub ended: Vec<EndedRun>,
}

/// The runs that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunList {
    /// The version up to which all changes are in the list.
    pub version: u64,
    /// The runs, the first that began at the front.
    pub runs: Vec<RunSnapshot>,
}

/// A run as it is now, or as it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSnapshot {
    /// The run.
    pub run: Arc<str>,
    /// Its constant properties.
    pub info: Arc<RunInfo>,
    /// The end of its newest request, in milliseconds since 1970.
    pub last: u64,
    /// The phase.
    pub phase: RunPhase,
    /// True if a request of the run is with the provider now.
    pub is_busy: bool,
    /// Its turns, with the one that has begun.
    pub turns: u64,
    /// Its tool calls.
    pub calls: u64,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost; `None` if it is not known.
    pub cost: Option<NanoUsd>,
    /// Its end, if it has ended.
    pub end: Option<SnapshotEnd>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEnd {
    /// The time of the end, in milliseconds since 1970.
    pub at: u64,
    /// The outcome and its reason.
    pub ending: RunEnding,
    /// True if the answer is softland's own.
    pub local: bool,
}
