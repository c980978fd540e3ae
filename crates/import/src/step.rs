//! The steps of a recording, one after the other.

use softland_session::core::{
    Digest, Evidence, FinishedTurn, NanoUsd, Signal, SignalKind, UserMessage,
};
use softland_session::wire::Tokens;

/// The stand-in for a message that a program wrote and that carries no information.
pub(crate) const MACHINE: &str = "<system-reminder></system-reminder>";

/// A conversation of a file, counted from 0. Several may be open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(pub usize);

/// Takes the steps of one file, in the order in which they are recorded.
///
/// Each conversation begins once, before its first step, and ends once. The sink cuts conversations
/// into runs: a conversation may hold several.
pub trait Sink: Send {
    /// Begins a conversation.
    fn begin_conversation(&mut self, talk: ConversationId, begin: &ConversationStart<'_>);
    /// Takes a message of a person or a tool.
    fn take_user_step(&mut self, talk: ConversationId, step: &UserStep<'_>);
    /// Takes a turn of the model.
    fn take_turn(&mut self, talk: ConversationId, turn: &TurnStep<'_>);
    /// Takes a turn that stands here, too, but counts in another file: the next turn goes on from
    /// it.
    fn take_known_turn(&mut self, _talk: ConversationId, _turn: &KnownTurn<'_>) {}
    /// Takes the recorded total of a conversation's tool calls, whatever its turns say about them.
    fn take_call_total(&mut self, _talk: ConversationId, _calls: u64) {}
    /// Takes a signal that softland's own loop, or a gateway, saw in the conversation at the time.
    fn take_signal(&mut self, _talk: ConversationId, _noted: RecordedSignal) {}
    /// Takes the recorded end of the conversation's last run, in the words of events. A run that
    /// was landed, stopped or broken off was not ended by the model, whatever it said last.
    fn take_outcome(&mut self, _talk: ConversationId, _outcome: &str, _reason: &str) {}
    /// Ends a conversation: no further steps follow.
    fn end_conversation(&mut self, talk: ConversationId);
}

/// The facts that are known when a conversation begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConversationStart<'a> {
    /// The recording's own session id, or the `id` of a message array; `None` stands for the path.
    pub session: Option<&'a str>,
    /// The recording's own name of the run, if the conversation is exactly one run (in softland's
    /// own ledgers and logs). Such a conversation is not cut into several runs.
    pub run: Option<&'a str>,
    /// The sub-agent, if the conversation is a sub-agent's.
    pub agent: Option<&'a str>,
    /// The recording's own name of the run that called this one, if it is recorded.
    pub caller: Option<&'a str>,
    /// The folder that the agent worked in, or another name of the project, if it is recorded.
    pub project: Option<&'a str>,
    /// True if the conversation was inferred and is not recorded as one.
    pub inferred: bool,
    /// Line of the file where the conversation begins, from 1, if the file is read by lines.
    pub line: Option<u64>,
}

/// A signal that softland recorded when it saw it.
#[derive(Clone, Debug)]
pub struct RecordedSignal {
    /// The signal.
    pub signal: SignalKind,
    /// The evidence to check the signal by. Its turns are those of the conversation, from 1.
    pub evidence: Evidence,
}

impl RecordedSignal {
    /// Returns the signal as the core has it. Signals of one kind at one place are the same.
    pub(crate) fn into_signal(self) -> Signal {
        let Self { signal, evidence } = self;
        let first = evidence.turns.first().copied().unwrap_or(0);
        let call = Digest::from_bytes(evidence.call.as_deref().unwrap_or_default().as_bytes());
        let identity = call.followed_by(Digest::from_bytes(&first.to_le_bytes()));
        Signal { signal, evidence, because: None, identity }
    }
}

/// A turn that counts in another file.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownTurn<'a> {
    /// The model, as recorded.
    pub model: Option<&'a str>,
    /// The tokens.
    pub tokens: Tokens,
    /// Time in milliseconds since 1970.
    pub time: Option<u64>,
}

/// A user's message.
#[derive(Debug)]
pub struct UserStep<'a> {
    /// Results and texts, as the core's types. No texts if `machine` is set.
    pub user: UserMessage<'a>,
    /// True if the recording says that a program wrote the texts. They are left out then, so that
    /// nothing takes them for a person's.
    pub machine: bool,
    /// Time in milliseconds since 1970.
    pub time: Option<u64>,
    /// The line, from 1.
    pub line: Option<u64>,
}

/// A turn of the model.
#[derive(Debug)]
pub struct TurnStep<'a> {
    /// Text and calls, as the core's types. `output_tokens` is set only if more than a placeholder
    /// is recorded: a few tokens do not tell how much was said.
    pub finished: FinishedTurn<'a>,
    /// The model, as recorded.
    pub model: Option<&'a str>,
    /// The tokens.
    pub usage: TurnUsage,
    /// True if one of its calls submits the result. If the run ends there, the call is the answer.
    pub submits: bool,
    /// The recorded cost, if any. It takes precedence over every price table.
    pub cost: Option<NanoUsd>,
    /// Time in milliseconds since 1970.
    pub time: Option<u64>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The requests of the turn, if several are recorded.
    pub requests: &'a [RequestUsage],
    /// The numbers of the turn, if a row of numbers is all that is recorded. `finished` is empty
    /// then.
    pub row: Option<ActivityRow>,
}

/// One of several requests that a turn took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// The tokens.
    pub tokens: Tokens,
    /// The cost, if it is recorded.
    pub cost: Option<NanoUsd>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnUsage {
    /// The tokens, as recorded.
    pub tokens: Tokens,
    /// Output tokens estimated from the content (characters / 4) beyond the recorded ones.
    pub estimated: u64,
    /// True if any tokens were recorded.
    pub recorded: bool,
    /// Characters that the model wrote: text, thinking, arguments of calls.
    pub chars: u64,
}

/// A turn, as a row of an activity CSV describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityRow {
    /// Prompt tokens, cached or not.
    pub prompt: u64,
    /// True if the row is trivial by its numbers: 1 to 5 completion tokens, not cancelled, not
    /// ended by a tool call.
    pub trivial: bool,
    /// True if a tool call ended the turn.
    pub calls: bool,
    /// True if the client went away.
    pub cancelled: bool,
}
