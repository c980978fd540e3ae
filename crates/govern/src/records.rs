//! Records of what happened, for a ledger. The host writes them down, or does not.

use std::sync::Arc;

use serde::Serialize;
use softland_session::core::{Because, Evidence, LossCause, NanoUsd, RunEnding, SignalKind};

use crate::runs::{RunInfo, RunTotals};

/// One fact to keep. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// A run was seen for the first time.
    RunStart(RunStart),
    /// A request is about to be sent upstream, with the most that it can cost.
    Sent(RequestRow),
    /// A request has ended, whether or not it was sent upstream.
    Request(RequestRow),
    /// A signal, an intervention, or another event of a run.
    Event(RunEvent<'a>),
    /// A run ended.
    RunEnd(RunEnd),
}

/// The beginning of a run.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// The time of the record.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// The session, which shares money.
    pub session: Arc<str>,
    /// The client's name for the run.
    pub name: Option<Arc<str>>,
    /// The agent within the session, where the client names one.
    pub agent: Option<Arc<str>>,
    /// The ended run that this run continues.
    pub continues: Option<Arc<str>>,
    /// The model.
    pub model: Arc<str>,
    /// The policy's name.
    pub policy: String,
    /// The client, as its `user-agent` names it.
    pub client: Option<String>,
    /// The name of the key that asks.
    pub key: Option<Arc<str>>,
    /// The account that pays.
    pub account: Option<Arc<str>>,
    /// True if the run is only observed.
    pub observed: bool,
    /// Turns and tool calls of the runs that it continues, which a state counts as its own until it
    /// has ended.
    pub before: (u64, u64),
}

/// One upstream request.
#[derive(Clone, Debug)]
pub struct RequestRow {
    /// The time at which the request was sent.
    pub at: u64,
    /// The host's id for the client's request.
    pub id: String,
    /// The run; `None` if the request belongs to no run.
    pub run: Option<Arc<str>>,
    /// The session, which shares money.
    pub session: Option<Arc<str>>,
    /// The client's name for the run, also if the request belongs to no run.
    pub name: Option<Arc<str>>,
    /// The name of the key that asks.
    pub key: Option<Arc<str>>,
    /// The account that pays.
    pub account: Option<Arc<str>>,
    /// The turn of the run, counted from 1.
    pub turn: u64,
    /// The upstream's name.
    pub upstream: Arc<str>,
    /// The path, without its query.
    pub path: String,
    /// The model.
    pub model: Option<Arc<str>>,
    /// The landing rung, unless this is the client's own turn.
    pub rung: Option<String>,
    /// The upstream's status code; `None` if no response arrived.
    pub status: Option<u16>,
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to the prompt cache.
    pub cache_write: u64,
    /// The cost; `None` if the model has no known price.
    pub cost: Option<NanoUsd>,
    /// The time from the request's sending to the end of its response, in milliseconds.
    pub millis: u64,
    /// A remark on how the request was metered or governed.
    pub remark: Option<String>,
    /// The body sent upstream, if contents are kept.
    pub content: Option<Vec<u8>>,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub struct RunEvent<'a> {
    /// The time of the event.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// The turn, counted from 1.
    pub turn: u64,
    /// The event's name.
    pub event: &'static str,
    /// Its other fields.
    pub fields: EventFields<'a>,
}

/// The fields of an event, which are serialized as one object.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum EventFields<'a> {
    /// The fields of a turn's start. The turn's number is in every record.
    TurnStart {
        /// The limit on turns.
        #[serde(skip_serializing_if = "Option::is_none")]
        turns_limit: Option<u64>,
    },
    /// The fields of a signal.
    Signal {
        /// The turns and numbers that were seen.
        evidence: &'a Evidence,
        /// The signal.
        signal: SignalKind,
    },
    /// Those of another change that a shape makes in a response.
    Shaped {
        /// The change, for people.
        text: String,
    },
    /// Those of a loss to the provider's cache.
    CacheLoss {
        /// The cause.
        cause: LossCause,
        /// The tokens that were written or sent again.
        tokens: u64,
        /// The tokens that were still read from the cache.
        still_read: u64,
        /// The cost beyond the price of reading; `None` if the model has no known price.
        lost_usd: Option<NanoUsd>,
        /// Milliseconds since the request before.
        #[serde(skip_serializing_if = "Option::is_none")]
        pause_ms: Option<u64>,
    },
    /// Those of an intervention.
    Intervention {
        /// The cause.
        because: Option<&'a Because>,
        /// The intervention's word.
        intervention: &'a str,
        /// True if it was not carried out, since the policy only observes.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        observed: bool,
        /// The text that was added or removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The time of the end.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// Whose it is, for a ledger from which its beginning was deleted.
    pub owner: RunOwner,
    /// The outcome and its reason.
    pub ended: RunEnding,
    /// True if the answer is softland's own.
    pub local: bool,
    /// The answer, if contents are kept.
    pub answer: Option<String>,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// Uncached input tokens of the run.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to the prompt cache.
    pub cache_write: u64,
    /// The cost; `None` if it is not known.
    pub cost: Option<NanoUsd>,
}

/// Whose a run is, and its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOwner {
    /// The session, which shares money.
    pub session: Arc<str>,
    /// The model.
    pub model: Arc<str>,
    /// The name of the key that asks.
    pub key: Option<Arc<str>>,
    /// The account that pays.
    pub account: Option<Arc<str>>,
}

impl From<&RunInfo> for RunOwner {
    fn from(info: &RunInfo) -> Self {
        Self {
            session: Arc::clone(&info.session),
            model: Arc::clone(&info.model),
            key: info.key.clone(),
            account: info.account.clone(),
        }
    }
}

/// Returns the record of a run's end.
pub(crate) fn run_end_record(
    at: u64,
    (run, owner): (&Arc<str>, RunOwner),
    ended: RunEnding,
    local: bool,
    answer: Option<String>,
    totals: &RunTotals,
) -> Record<'static> {
    let (tokens, (turns, calls)) = (totals.tokens, totals.own_counts());
    Record::RunEnd(RunEnd {
        at,
        run: Arc::clone(run),
        owner,
        ended,
        local,
        answer,
        turns,
        tool_calls: calls,
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
        cost: totals.cost,
    })
}
