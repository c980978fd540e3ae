//! The parties that are told what happens: counters, a ledger, people who watch. Every method has a
//! default that does nothing, and none may wait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use softland_session::Event;
use softland_session::core::{LossCause, NanoUsd, Outcome};
use softland_session::wire::Tokens;
use softland_session::wire::request::Request;

use crate::key::ClientKey;
use crate::records::Record;
use crate::runs::ObservedEnd;

/// Counts what happens.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Observes the time that softland itself took before a request was sent upstream.
    fn observe_added_latency(&self, _took: Duration) {}
    /// Counts the tool calls of a response that a client receives.
    fn count_tool_calls(&self, _calls: u64) {}
    /// Counts a governed request by the phase of its run.
    fn count_phase(&self, _phase: &'static str) {}
    /// Counts an intervention.
    fn count_intervention(&self, _intervention: &'static str) {}
    /// Counts an intervention that was only observed.
    fn count_observed(&self, _intervention: &'static str) {}
    /// Counts the end to which the first such intervention would have brought a run.
    fn count_observed_end(&self, _end: ObservedEnd) {}
    /// Counts a run that begins and is only observed.
    fn count_observed_run(&self) {}
    /// Counts a signal of a detector.
    fn count_signal(&self, _signal: &'static str) {}
    /// Counts tokens that had been in the provider's cache and were written or sent again, and the
    /// cost of that beyond the price of reading, as far as it is known.
    fn count_cache_loss(&self, _cause: LossCause, _tokens: u64, _lost: NanoUsd) {}
    /// Counts a run that ended at a limit (a policy key).
    fn count_limit_hit(&self, _limit: &str, _outcome: &'static str) {}
    /// Adds money that was spent.
    fn add_spend(&self, _amount: NanoUsd) {}
    /// Adds money that a key has spent.
    fn add_key_spend(&self, _key: &ClientKey, _amount: NanoUsd) {}
    /// Counts an event that an operator should know about: a word of a closed list.
    fn count_event(&self, _event: &'static str) {}
    /// Counts a run that has ended.
    fn count_ended_run(&self, _outcome: Outcome, _labels: UsageLabels<'_>) {}
    /// Counts a client's request that has ended, governed or metered.
    fn count_usage_request(&self, _labels: UsageLabels<'_>) {}
    /// Adds what a request upstream has used.
    fn add_usage(&self, _labels: UsageLabels<'_>, _billed: &BilledRequest) {}
}

/// Gets the records, and shows runs to whoever watches them.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// Returns true if records are wanted now.
    fn wants_records(&self) -> bool {
        false
    }
    /// Returns true if the records of requests should have their contents.
    fn keeps_contents(&self) -> bool {
        false
    }
    /// Takes a record.
    fn write_record(&self, _record: Record<'_>) {}
    /// Returns true if somebody watches this run.
    fn is_watched(&self, _run: &Arc<str>) -> bool {
        false
    }
    /// Shows the history that the request of a watched run's turn carries.
    fn show_history(&self, _place: RunPlace<'_>, _request: &Request<'_>) {}
    /// Shows an event of a run, if somebody watches it.
    fn show_event(&self, _place: RunPlace<'_>, _event: &Event) {}
    /// Shows that a run has begun a sub-agent's run.
    fn show_child(&self, _place: RunPlace<'_>, _child: &Arc<str>, _agent: Option<&Arc<str>>) {}
    /// Notes that a turn of a watched run was shown from its beginning to its end.
    fn mark_shown(&self, _place: RunPlace<'_>) {}
}

/// Whose usage is counted.
#[derive(Clone, Copy, Debug)]
pub struct UsageLabels<'a> {
    /// The model, as the client names it.
    pub model: &'a Arc<str>,
    /// The policy's name.
    pub policy: &'a str,
    /// The account that pays.
    pub account: Option<&'a Arc<str>>,
}

/// What a request upstream has used.
#[derive(Clone, Copy, Debug)]
pub struct BilledRequest {
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost, if it is known.
    pub cost: Option<NanoUsd>,
    /// True if the provider has served it.
    pub served: bool,
}

/// A turn of a run, and the time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace<'a> {
    /// The run.
    pub run: &'a Arc<str>,
    /// The turn, counted from 1; 0 for the run as a whole.
    pub turn: u64,
    /// The time.
    pub at: u64,
}

/// A meter and watcher that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Meter for Unwatched {}
impl Watcher for Unwatched {}
