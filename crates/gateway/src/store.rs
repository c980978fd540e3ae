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
use softland_session::{KeptTail, Link, Seen, Shown};

pub(crate) use memory::MemoryStore;

/// Where a gateway keeps what it has to remember. Every call is one round trip.
#[async_trait]
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// The conversation that is known by the first of these clues that any is known by. `here` is
    /// the history that asks.
    async fn find(&self, clues: &[Digest], here: Digest) -> Result<Option<Found>, StoreError>;

    /// How many of these clues anything is known by, up to the first that nothing is.
    async fn known(&self, clues: &[Digest]) -> Result<usize, StoreError>;

    /// The conversations that go by a name, the one that was kept last in the end.
    async fn named(&self, name: Digest) -> Result<Vec<Namesake>, StoreError>;

    /// A conversation without a name that asked this and was not answered; each is found once.
    async fn asked(&self, here: Digest) -> Result<Option<Arc<str>>, StoreError>;

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

/// A conversation found by what its history shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of the clue.
    pub(crate) clue: usize,
    /// Its scope.
    pub(crate) scope: Arc<str>,
    /// Whether another history went on from the same turn before: this one is a fork, which does
    /// not see what that one spends from there on.
    pub(crate) fork: bool,
    /// The run as it was when the turn was answered.
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
    /// What its users have said, the newest last.
    pub(crate) asked: Vec<Digest>,
    /// What it is told by from others that go by the same name.
    pub(crate) face: Option<Namesake>,
}

/// What a conversation is told by from others that go by the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namesake {
    /// Its scope.
    pub(crate) scope: Arc<str>,
    /// The scope of the conversation that it is a fork of; its own, if it is none.
    pub(crate) root: Arc<str>,
    /// The digest of its tools' names.
    pub(crate) tools: Digest,
    /// The digest of its system prompt.
    pub(crate) system: Digest,
    /// What stood before its first turn when it was first met.
    pub(crate) opening: Digest,
    /// What a user said last in that.
    pub(crate) asked: Option<Digest>,
    /// Whether anything was answered in it.
    pub(crate) answered: bool,
    /// When it was last heard of, in milliseconds since 1970.
    pub(crate) last: u64,
}

/// What a store keeps of one run. Its names are shared with the states before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunState {
    /// The name it goes by.
    pub(crate) id: Arc<str>,
    /// The account of money that it has; empty before its first request.
    pub(crate) account: Arc<str>,
    /// What identifies it in the newest history of it: that changes where a client compacts.
    pub(crate) key: Digest,
    /// What it has used along this branch of its history, its newest calls included: what was not
    /// shown any more, too.
    pub(crate) used: Used,
    /// Tool calls in a row up to here that were answered in this conversation.
    pub(crate) row: usize,
    /// The digest of the calls of its newest turn.
    pub(crate) delivered: Option<Digest>,
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
    /// What users have said that is new.
    pub(crate) asked: Vec<Digest>,
    /// The names that the conversation goes by, and what it is told by under them.
    pub(crate) named: Option<(Vec<Digest>, Namesake)>,
    /// What it is found by again as it is now: the turn that was answered.
    pub(crate) clues: Vec<Digest>,
    /// The same of what it was before this request: the calls whose results have come.
    pub(crate) past_clues: Option<(Digest, Arc<RunState>, Vec<Digest>)>,
    /// The history that was not answered, where nothing else tells the conversation: whoever asks
    /// the same asks again.
    pub(crate) untaken: Option<Digest>,
}
