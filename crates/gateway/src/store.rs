//! What transcripts cannot show, kept between requests: pins, tails, first sights, what a run has
//! used of tokens and time, and which conversation a history without a name belongs to.
//!
//! A store keeps and finds; it decides nothing. Losing all of it loses no answer: lines are then
//! made by the current policy, and counts that only a store knows begin at 0. Money has its own
//! place ([`Accounts`](crate::accounts::Accounts)).

#[cfg(test)]
mod lost;
mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use softland_session::core::{Digest, NanoUsd, Records, Used};
use softland_session::{Answered, KeptTail, Link, Seen, Shown};

pub(crate) use memory::MemoryStore;

/// Where a gateway keeps what it has to remember. Every call is one round trip.
#[async_trait]
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// The conversation in which one of these turns was answered, the newest turn that is known
    /// first. `here` is the history that asks.
    async fn find(&self, turns: &[Answered], here: Digest) -> Result<Option<Found>, StoreError>;

    /// What is kept of a conversation; empty where nothing is.
    async fn recall(&self, scope: &str) -> Result<Arc<Scope>, StoreError>;

    /// Keeps what a request has changed.
    async fn keep(&self, scope: &str, changes: Changes) -> Result<(), StoreError>;

    /// What goes on from a response that a client was shown.
    async fn link(&self, id: &str) -> Result<Option<Arc<Link>>, StoreError>;

    /// Remembers a response under all its ids.
    async fn show(&self, shown: Shown) -> Result<(), StoreError>;
}

/// A store that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreError(pub(crate) String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared store cannot be reached: {}", self.0)
    }
}

impl std::error::Error for StoreError {}

/// A conversation found by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its scope.
    pub(crate) scope: Arc<str>,
    /// Whether another history went on from the same turn before: this one is a fork, which does
    /// not see what that one spends from there on.
    pub(crate) fork: bool,
    /// What the run had used when the turn was answered, and what it was.
    pub(crate) then: Arc<RunState>,
    /// The run.
    pub(crate) run: Digest,
}

/// What is kept of one conversation of one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scope {
    /// The records of its runs.
    pub(crate) pins: Records,
    /// Tails that stand in its history, by place.
    pub(crate) tails: BTreeMap<Digest, KeptTail>,
    /// Results at first sight, by place.
    pub(crate) results: BTreeMap<Digest, Seen>,
    /// What its runs have used.
    pub(crate) runs: BTreeMap<Digest, Arc<RunState>>,
    /// Its newest run.
    pub(crate) newest: Option<Digest>,
    /// The digest of its first message.
    pub(crate) first: Option<Digest>,
    /// The digest of its tools' names.
    pub(crate) tools: Option<Digest>,
    /// What the newest run's transcript showed last.
    pub(crate) used: Used,
}

/// What a store keeps of one run. Its names are shared with the states before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunState {
    /// The name it goes by.
    pub(crate) id: Arc<str>,
    /// The account of money that it has; empty before its first request.
    pub(crate) account: Arc<str>,
    /// Tokens of all its requests.
    pub(crate) tokens: u64,
    /// What they cost, as far as is known.
    pub(crate) cost: NanoUsd,
    /// Whether it has been told to have ended: what follows goes by another name.
    pub(crate) ended: bool,
    /// Milliseconds since 1970 of its first request.
    pub(crate) begun: u64,
    /// When its newest request ended, or began.
    pub(crate) last: u64,
    /// Milliseconds that count against its time limit, up to `last`.
    pub(crate) active: u64,
    /// Turns that its tools' own limits refused and its transcript does not show.
    pub(crate) tool_refusals: u64,
    /// The context answered last, and how often it was answered in vain.
    pub(crate) vain: Option<(Digest, u64)>,
    /// The newest context whose size the provider has counted.
    pub(crate) known: Option<Counted>,
    /// The end of its newest turn.
    pub(crate) turn: Option<TurnEnd>,
}

/// The end of a turn that a client was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnEnd {
    /// The digest of the messages that it answers.
    pub(crate) context: Digest,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    /// Whether softland landed it.
    pub(crate) landed: bool,
}

/// A context that the provider has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The digest of its messages.
    pub(crate) context: Digest,
    /// Its tokens, the answer's included.
    pub(crate) tokens: u64,
    /// Its bytes of text, its media by their table, and what did not show its size.
    pub(crate) shown: [u64; 3],
}

/// Idle gaps longer than this do not count against a time limit, and end a run.
pub(crate) const IDLE_MS: u64 = 10 * 60 * 1000;

impl RunState {
    /// Milliseconds that count at this moment.
    pub(crate) fn active_at(&self, now: u64) -> u64 {
        let gap = now.saturating_sub(self.last);
        self.active + if gap <= IDLE_MS { gap } else { 0 }
    }

    /// The run goes on at this moment.
    pub(crate) fn touch(&mut self, now: u64) {
        self.active = self.active_at(now);
        self.last = self.last.max(now);
    }
}

/// What a request has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Records of runs; one that has looked further wins.
    pub(crate) pins: Records,
    pub(crate) tails: Vec<(Digest, KeptTail)>,
    pub(crate) results: Vec<(Digest, Seen)>,
    /// The run, and what its state is now. Tokens and cost are added, the rest replaced.
    pub(crate) run: Option<(Digest, RunState)>,
    /// Tokens that another run of the conversation answers for: a sub-agent's.
    pub(crate) child_tokens: Option<(Digest, u64)>,
    pub(crate) first: Option<Digest>,
    pub(crate) tools: Option<Digest>,
    pub(crate) used: Option<Used>,
    /// The turn that was answered, by which the conversation is found again.
    pub(crate) turn: Option<Answered>,
}
