//! What a recording says, one step after the other.

use softland_session::core::{Evidence, Finished, NanoUsd, SignalKind, User};
use softland_session::wire::Tokens;

/// A conversation within its file, counted from 0: several may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Talk(pub usize);

/// Takes the steps of one file, in the order in which they are recorded.
///
/// Each conversation is begun once, before its first step, and ended once. Runs are cut by whoever
/// takes the steps: a conversation may hold several.
pub trait Sink: Send {
    /// A conversation begins.
    fn begin(&mut self, talk: Talk, begin: &Begin<'_>);
    /// A person or a tool spoke.
    fn user(&mut self, talk: Talk, step: &UserStep<'_>);
    /// The model spoke.
    fn turn(&mut self, talk: Talk, turn: &Turn<'_>);
    /// So many tool calls are recorded of it as a sum, whatever its turns told of them.
    fn counted(&mut self, _talk: Talk, _calls: u64) {}
    /// A loop of softland's own, or a gateway, saw this in it at the time.
    fn noted(&mut self, _talk: Talk, _noted: Noted) {}
    /// The recording says how its last run ended, in the contract's words. Of one that was landed,
    /// stopped or broken off, the model did not end it by itself, whatever it said last.
    fn outcome(&mut self, _talk: Talk, _outcome: &str, _reason: &str) {}
    /// Nothing more comes of this conversation.
    fn end(&mut self, talk: Talk);
}

/// What is known of a conversation when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begin<'a> {
    /// The recording's own session id, or the `id` of a message array; the path's where `None`.
    pub session: Option<&'a str>,
    /// The recording's own name for the one run that this conversation is, where it has one
    /// (softland's own ledgers and logs): then it is not cut into several.
    pub run: Option<&'a str>,
    /// The sub-agent, where it is one's.
    pub agent: Option<&'a str>,
    /// The recording's own name for the run that called it, where that is recorded.
    pub caller: Option<&'a str>,
    /// Whether the conversation was made out and is not recorded as one.
    pub inferred: bool,
    /// Line of the file where it begins, from 1, where lines mean something.
    pub line: Option<u64>,
}

/// A signal that softland recorded when it saw it.
#[derive(Clone, Debug)]
pub struct Noted {
    /// What was seen.
    pub signal: SignalKind,
    /// What to check it by; its turns are those of the conversation, from 1.
    pub evidence: Evidence,
}

/// A user's message.
#[derive(Debug)]
pub struct UserStep<'a> {
    /// Results and texts, in core's words. Where `machine` is set, it holds no texts.
    pub user: User<'a>,
    /// Whether the recording says that a program wrote its texts: they are left out then, so that
    /// nobody takes them for a person's.
    pub machine: bool,
    /// Milliseconds since 1970.
    pub time: Option<u64>,
    /// The line, from 1.
    pub line: Option<u64>,
}

/// A turn of the model.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Text and calls, in core's words. `output_tokens` is there only where more than a placeholder
    /// is recorded: few are no measure of how much was said.
    pub finished: Finished<'a>,
    /// The model, as recorded.
    pub model: Option<&'a str>,
    /// Tokens.
    pub usage: Usage,
    /// Whether a call of it hands in what was asked for: where that ends a run, it is the answer.
    pub submits: bool,
    /// What it cost, where that is recorded. Goes before any price table.
    pub cost: Option<NanoUsd>,
    /// Milliseconds since 1970.
    pub time: Option<u64>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// Where a row of numbers is all there is: what it says in place of content. Then `finished`
    /// holds nothing.
    pub row: Option<Row>,
}

/// Tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// As recorded.
    pub tokens: Tokens,
    /// Output by content (characters / 4) beyond the recorded.
    pub estimated: u64,
    /// Whether any was recorded.
    pub recorded: bool,
    /// Characters of what the model wrote: text, thinking, arguments of calls.
    pub chars: u64,
}

/// What a row of an activity CSV says of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Prompt tokens, cached or not.
    pub prompt: u64,
    /// Whether it is trivial by its numbers: 1 to 5 completion tokens, not cancelled, not ended by
    /// a tool call.
    pub trivial: bool,
    /// Whether it was ended by a tool call.
    pub calls: bool,
    /// Whether the client left.
    pub cancelled: bool,
}
