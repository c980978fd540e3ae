//! The store: what transcripts cannot show, kept between requests. It holds pins, tails, first
//! sights, the tokens and time that a run has used, and the clues to the conversation of a history
//! without a name.
//!
//! A store keeps and finds; it decides nothing. Losing all of it loses no answer: lines are then
//! made by the current policy, and counts that only a store knows restart at 0. Money is kept apart
//! ([`Accounts`](crate::money::accounts::Accounts)).

mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use softland_session::core::{
    Arrival, Digest, Millis, NanoUsd, PinnedRecords, PromptCache, RunUsage,
};
use softland_session::{ChainLink, SeenResult, ShownResponse, StoredTail};

pub use memory::MemoryStore;

/// The look-ups and changes of which [`SharedState`](crate::SharedState) is made, each on its own.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Finds the conversation of which most of these different clues are, if at least `fewest` are
    /// its. Of several the newest is taken: the last of those that have the last shared clue.
    async fn find_quoted(
        &self,
        clues: &[Digest],
        fewest: usize,
    ) -> Result<Option<Arc<str>>, StoreError>;

    /// Finds the conversation of the first of these clues that is known. `here` is the history of
    /// the request.
    async fn find_conversation(
        &self,
        clues: &[Digest],
        here: Digest,
    ) -> Result<Option<FoundConversation>, StoreError>;

    /// Returns how many of these clues are known, up to the first that is not.
    async fn count_known(&self, clues: &[Digest]) -> Result<usize, StoreError>;

    /// Returns the conversations with a name, the last stored one at the end.
    async fn find_named(&self, name: Digest) -> Result<Vec<Namesake>, StoreError>;

    /// Finds a conversation without a name that asked this and was not answered. Each is found
    /// once.
    async fn take_unanswered(&self, here: Digest) -> Result<Option<Arc<str>>, StoreError>;

    /// Returns the stored state of a conversation; empty if there is none.
    async fn load_scope(&self, scope: &str) -> Result<Arc<StoredScope>, StoreError>;

    /// Stores the changes of a request.
    async fn apply_changes(&self, scope: &str, changes: StoreChanges) -> Result<(), StoreError>;

    /// Returns the link of a response that a client was shown, from which a conversation continues.
    async fn find_link(&self, id: &str) -> Result<Option<Arc<ChainLink>>, StoreError>;

    /// Stores a response under all its ids.
    async fn store_shown(&self, shown: ShownResponse) -> Result<(), StoreError>;
}

/// The error of a store that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared store cannot be reached: {}", self.0)
    }
}

impl std::error::Error for StoreError {}

/// A conversation that was found by the content of its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundConversation {
    /// The index of the clue that matched.
    pub clue: usize,
    /// The conversation's scope.
    pub scope: Arc<str>,
    /// True if another history has continued from the same turn before. This one is a fork, which
    /// does not see what the other spends from there on.
    pub fork: bool,
    /// The state of the run when the turn was answered.
    pub then: Arc<RunState>,
    /// The run.
    pub run: Digest,
}

/// The stored state of one conversation of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredScope {
    /// The records of its runs.
    pub pins: PinnedRecords,
    /// Tails in its history, by place.
    pub tails: BTreeMap<Digest, StoredTail>,
    /// Results at first sight, by place.
    pub results: BTreeMap<Digest, SeenResult>,
    /// The states of its runs.
    pub runs: BTreeMap<Digest, Arc<RunState>>,
    /// Its newest run.
    pub newest: Option<Digest>,
    /// The messages of its users, the newest last.
    pub asked: Vec<Digest>,
    /// Its program, and what else distinguishes it from others of the same name.
    pub face: Option<Namesake>,
    /// The provider's cache, as its newest request has shown it.
    #[serde(default)]
    pub cache: PromptCache,
}

/// The properties that distinguish a conversation from others of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namesake {
    /// The conversation's scope.
    pub scope: Arc<str>,
    /// The scope of the conversation that it is a fork of; its own, if it is no fork.
    pub root: Arc<str>,
    /// The digest of its tools' names.
    pub tools: Digest,
    /// The digest of its system prompt.
    pub system: Digest,
    /// The digest of the messages before its first turn, when it was first seen.
    pub opening: Digest,
    /// The last user message among them.
    pub asked: Option<Digest>,
    /// True if the conversation has had an answer.
    pub answered: bool,
    /// The time of its newest request, in milliseconds since 1970.
    pub last: u64,
}

/// The stored state of one run. Its names are shared with the states before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The run's name.
    pub id: Arc<str>,
    /// The run's account of money; empty before its first request.
    pub account: Arc<str>,
    /// The digest that identifies the run in its newest history, which changes if a client compacts
    /// it.
    pub key: Digest,
    /// The usage along this branch of its history, with its newest calls and with calls that the
    /// history no longer shows.
    pub used: RunUsage,
    /// The number of consecutive tool calls up to here that were answered in this conversation.
    pub row: usize,
    /// The digest of the calls of its newest turn.
    pub delivered: Option<Digest>,
    /// Tokens of all its requests.
    pub tokens: u64,
    /// The cost of all its requests, as far as it is known.
    pub cost: NanoUsd,
    /// True if the run was reported to have ended: a continuation gets another name.
    pub ended: bool,
    /// The time of its first request, in milliseconds since 1970.
    pub begun: u64,
    /// The time at which its newest request ended, or began.
    pub last: u64,
    /// Milliseconds that count against its time limit, up to `last`.
    pub active: u64,
    /// The number of turns that were refused at a tool's own limit and that the transcript does not
    /// show.
    pub tool_refusals: u64,
    /// The context that was answered last, and how often it was answered in vain.
    pub vain: Option<(Digest, u64)>,
    /// The newest context whose size the provider has counted.
    pub known: Option<CountedContext>,
    /// The end of its newest turn.
    pub turn: Option<TurnEnd>,
}

/// The end of a turn that a client received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The digest of the messages that it answers.
    pub context: Digest,
    /// The time of the end, in milliseconds since 1970.
    pub at: u64,
    /// True if softland landed the run with it.
    pub landed: bool,
    /// True if it brought a summary of the conversation.
    #[serde(default)]
    pub summary: bool,
}

impl TurnEnd {
    /// Returns how a message arrives behind this turn at a time.
    pub fn arrival_at(self, now: u64) -> Arrival {
        Arrival { pause: Millis(now.saturating_sub(self.at)), landed: self.landed }
    }
}

/// A context that the provider has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedContext {
    /// The digest of its messages.
    pub context: Digest,
    /// Its tokens, including the answer's.
    pub tokens: u64,
    /// Its bytes of text, its media tokens by the table, and its content of unknown size.
    pub shown: [u64; 3],
}

/// A gap between requests that is longer than this does not count against a time limit, and ends a
/// run.
pub const IDLE_MS: u64 = 10 * 60 * 1000;

impl RunState {
    /// Returns the milliseconds that count against the time limit at this moment.
    pub fn active_at(&self, now: u64) -> u64 {
        let gap = now.saturating_sub(self.last);
        self.active + if gap <= IDLE_MS { gap } else { 0 }
    }

    /// Notes that the run continues at this moment.
    pub fn continue_at(&mut self, now: u64) {
        self.active = self.active_at(now);
        self.last = self.last.max(now);
    }
}

/// The changes of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoreChanges {
    /// Records of runs. Of two records of a run, the one that has looked further wins.
    pub pins: PinnedRecords,
    /// Tails, by place.
    pub tails: Vec<(Digest, StoredTail)>,
    /// Results at first sight, by place.
    pub results: Vec<(Digest, SeenResult)>,
    /// The run and its new state. Tokens and cost are added, the rest is replaced.
    pub run: Option<(Digest, RunState)>,
    /// Tokens of a sub-agent, which count for another run of the conversation.
    pub child_tokens: Option<(Digest, u64)>,
    /// The new messages of users.
    pub asked: Vec<Digest>,
    /// The names of the conversation, if it has any, and its properties.
    pub named: Option<(Vec<Digest>, Namesake)>,
    /// The clues of the conversation as it is now: the turn that was answered.
    pub clues: Vec<Digest>,
    /// The clues of the conversation before this request: the calls whose results have come.
    pub past_clues: Option<(Digest, Arc<RunState>, Vec<Digest>)>,
    /// The history that was not answered, if nothing else identifies the conversation: the same
    /// question then continues it.
    pub untaken: Option<Digest>,
    /// The provider's cache, as the request has shown it.
    #[serde(default)]
    pub cache: Option<PromptCache>,
}
