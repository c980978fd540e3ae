//! The records of a journal: one JSON object a line, each a fact or a decision of one run.
//!
//! What a later softland must be able to read stands here and in `docs/runs.md` alike.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use softland_session::core::policy::Policy;
use softland_session::core::{Because, Digest, Facts, NanoUsd, Records};

use crate::event::Report;
use crate::tool::{ToolDef, ToolOutput};

/// The format's version.
pub(super) const VERSION: u32 = 1;

/// What stands on every line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) v: u32,
    /// The run it is of.
    pub(super) run: String,
    /// The run's time so far, in milliseconds: the time in which no process lived is not in it.
    pub(super) ms: u64,
    pub(super) kind: Kind,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Start,
    Turn,
    Short,
    Request,
    Response,
    Took,
    Call,
    Result,
    Round,
    End,
    Resume,
}

impl Kind {
    /// The word in a line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Turn => "turn",
            Self::Short => "short",
            Self::Request => "request",
            Self::Response => "response",
            Self::Took => "took",
            Self::Call => "call",
            Self::Result => "result",
            Self::Round => "round",
            Self::End => "end",
            Self::Resume => "resume",
        }
    }
}

/// A run begins: what it was begun with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The call of another run that it answers; `None` for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run whose conversation it goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// The version of softland that began it.
    pub softland: String,
    /// When, as RFC 3339 in UTC.
    pub ts: String,
    /// The agent's name.
    pub agent: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// The name of the API that is asked.
    pub api: String,
    /// The system prompt.
    pub system: String,
    /// The tools, as the model is told of them.
    pub tools: Vec<Told>,
    /// The tool that calls agents, where it may call any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Told>,
    /// Whether calls are written as text.
    pub tags: bool,
    /// What holds for the run.
    pub policy: Policy,
    /// Output tokens of a request, where that was said.
    pub max_tokens: Option<u64>,
    /// Whether thinking is shown.
    pub show_thinking: bool,
    /// Prices in force, in pico-dollars a token: input, output, cache read, cache write of five
    /// minutes and of an hour.
    pub price: Option<[u64; 5]>,
    /// The root's time when it began, in milliseconds; of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// What the conversation had cost before, in nano-dollars.
    pub session_nano: u64,
    /// Digest of what the model is shown before the messages.
    pub head: Option<Digest>,
    /// The conversation, the question included: each a JSON text.
    pub messages: Vec<String>,
    /// What was pinned in the conversation's earlier runs.
    pub records: Records,
    /// What whoever began the run wants to know when it is gone on with; nothing in here reads it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub setup: Value,
}

/// Whose call a run answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Parent {
    /// The run that made the call.
    pub run: String,
    /// The turn that made it.
    pub turn: u64,
    /// The place of the call in that turn, from 0: ids may come again.
    pub call: u64,
}

/// A tool, as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `ToolDef`")]
pub struct Told {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub reads: bool,
    /// Absent where an earlier softland kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
}

impl From<&ToolDef> for Told {
    fn from(def: &ToolDef) -> Self {
        let ToolDef { name, description, input_schema, reads, repeatable } = def.clone();
        Self { name, description, input_schema, reads, repeatable: Some(repeatable) }
    }
}

/// A turn begins: the facts that its decisions are taken on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) turn: u64,
    pub(crate) facts: Facts,
}

/// A request is not sent: too little is left of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Short {
    pub(crate) turn: u64,
    pub(crate) nth: u64,
    pub(crate) because: Because,
}

/// A request is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) turn: u64,
    /// Which one of the turn, from 1, those sent again included.
    pub(crate) nth: u64,
    /// Of its body, which follows from what stands before.
    pub(crate) digest: Digest,
    /// The body's length in bytes.
    pub(crate) bytes: u64,
    pub(crate) reserve: Reserve,
}

/// The most that a request can come to: what it is charged where nobody knows what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reserve {
    /// Input tokens.
    pub(crate) input: u64,
    /// Output tokens.
    pub(crate) output: u64,
    /// In nano-dollars; `None` without a price.
    pub(crate) nano: Option<u64>,
}

impl Reserve {
    pub(crate) fn cost(&self) -> Option<NanoUsd> {
        self.nano.map(NanoUsd)
    }
}

/// What came back for a request, or that there will be none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Came {
    pub(crate) turn: u64,
    pub(crate) nth: u64,
    pub(crate) ended: CameTo,
    /// Whether the answer came as a stream.
    pub(crate) streamed: bool,
    /// The provider's name for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// The answer's body as far as it came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body: String,
    /// The same in hexadecimal digits, where it is no text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body_hex: String,
    /// What failed; `None` where it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// Whether the request is sent again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) again: bool,
    /// The run's time then, in milliseconds.
    pub(crate) at: u64,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CameTo {
    /// It came to its end.
    Whole,
    /// The connection broke.
    Broken,
    /// It cannot be read, and the rest was not waited for.
    Unread,
    /// It has an error's status.
    Refused,
    /// There was no answer.
    Unreached,
    /// The run's time was over.
    Expired,
    /// The run was cancelled.
    Cancelled,
}

/// What a turn came to: what stands in the conversation from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Took {
    pub(crate) turn: u64,
    /// Messages, each a JSON text.
    pub(crate) messages: Vec<String>,
    /// What is pinned, where that has changed.
    pub(crate) records: Records,
    /// What the run has cost so far, in nano-dollars.
    pub(crate) nano: u64,
}

/// A call is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) turn: u64,
    /// Its place among the turn's calls, from 0.
    pub(crate) call: u64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
    /// Whether more was held back for the caller's answer, for the agents that a turn calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) held: bool,
}

impl Call {
    /// Whether it is the same call.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Self { held: other.held, ..self.clone() } == *other
    }
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallResult {
    pub(crate) turn: u64,
    pub(crate) call: u64,
    pub(crate) content: String,
    pub(crate) is_error: bool,
    /// How long it took, in milliseconds.
    pub(crate) took: u64,
    /// The process ended while it ran, and nobody knows what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
}

impl CallResult {
    pub(crate) fn output(&self) -> ToolOutput {
        ToolOutput { content: self.content.clone(), is_error: self.is_error }
    }
}

/// A turn's calls are answered: what is said with their results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) turn: u64,
    /// What was said to the run meanwhile.
    pub(crate) said: Vec<String>,
    /// The messages that answer, each a JSON text.
    pub(crate) messages: Vec<String>,
    /// Whether the run was cancelled meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
}

/// The run has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) turn: u64,
    /// The number of the event that says so.
    pub(crate) seq: u64,
    pub(crate) report: Box<Report>,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// Another process goes on with the run. An end without an answer is none any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub(crate) softland: String,
    pub(crate) ts: String,
}

/// A record of one kind.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// What its line says it is.
    const KIND: Kind;
}

macro_rules! kinds {
    ($($record:ident = $kind:ident),+ $(,)?) => {
        $(impl Record for $record { const KIND: Kind = Kind::$kind; })+
    };
}

kinds! {
    Start = Start, Turn = Turn, Short = Short, Request = Request, Came = Response, Took = Took, Call = Call,
    CallResult = Result, Round = Round, End = End, Resume = Resume,
}
