//! The records of a journal: one JSON object a line, each a fact or a decision of one run.
//!
//! Later versions of softland must be able to read these records. `docs/runs.md` describes the same
//! format.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use softland_session::core::policy::Policy;
use softland_session::core::{Because, Digest, Facts, NanoUsd, PinnedRecords};

use crate::event::Report;
use crate::http::ServedModel;
use crate::tool::{ToolDef, ToolOutput};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordKind {
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

impl RecordKind {
    /// Returns the word for the kind in a line.
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

/// The start of a run and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// The call of another run that this run answers; `None` for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentCall>,
    /// The run whose conversation this run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// The version of softland that began the run.
    pub softland: String,
    /// The time of the start, as RFC 3339 in UTC.
    pub ts: String,
    /// The agent's name.
    pub agent: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// The model that answers, if it is not the one that `model` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedModel>,
    /// The name of the API that is asked.
    pub api: String,
    /// The system prompt.
    pub system: String,
    /// The tools as the model is told about them.
    pub tools: Vec<RecordedToolDef>,
    /// The tool that calls agents, if the agent may call any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<RecordedToolDef>,
    /// True if calls are written as text.
    pub tags: bool,
    /// The policy of the run.
    pub policy: Policy,
    /// The output tokens of a request, if they were set.
    pub max_tokens: Option<u64>,
    /// True if thinking is shown.
    pub show_thinking: bool,
    /// The prices in force, in pico-dollars a token: input, output, cache read, cache write for
    /// five minutes and for an hour.
    pub price: Option<[u64; 5]>,
    /// The time of the root run when this run began, in milliseconds; only for a sub-agent's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// The cost of the conversation before the run, in nano-dollars.
    pub session_nano: u64,
    /// The digest of the system prompt and the tools.
    pub head: Option<Digest>,
    /// The conversation with the question, each message a JSON text.
    pub messages: Vec<String>,
    /// The records that were pinned in earlier runs of the conversation.
    pub records: PinnedRecords,
    /// Settings of the program that began the run, for resuming it. This crate does not read them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub setup: Value,
}

/// The call that a run answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParentCall {
    /// The run that made the call.
    pub run: String,
    /// The turn that made it.
    pub turn: u64,
    /// The index of the call in that turn, from 0. Ids of calls may repeat.
    pub call: u64,
}

/// The definition of a tool as a model is told it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `ToolDef`")]
pub struct RecordedToolDef {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub reads: bool,
    /// `None` in journals of earlier softland versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
}

impl From<&ToolDef> for RecordedToolDef {
    fn from(def: &ToolDef) -> Self {
        let ToolDef { name, description, input_schema, reads, repeatable } = def.clone();
        Self { name, description, input_schema, reads, repeatable: Some(repeatable) }
    }
}

/// The start of a turn: the facts on which its decisions depend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnRecord {
    pub(crate) turn: u64,
    pub(crate) facts: Facts,
}

/// A request that is not sent because too little is left of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShortageRecord {
    pub(crate) turn: u64,
    pub(crate) nth: u64,
    pub(crate) because: Because,
}

/// A request that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestRecord {
    pub(crate) turn: u64,
    /// The number of the request in the turn, from 1, retries included.
    pub(crate) nth: u64,
    /// The digest of the request body, which follows from the records before it.
    pub(crate) digest: Digest,
    /// The length of the body in bytes.
    pub(crate) bytes: u64,
    pub(crate) reserve: WorstCase,
}

/// The most that a request can cost: the charge for a request whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorstCase {
    /// Input tokens.
    pub(crate) input: u64,
    /// Output tokens.
    pub(crate) output: u64,
    /// The cost in nano-dollars; `None` without a price.
    pub(crate) nano: Option<u64>,
}

impl WorstCase {
    pub(crate) fn cost(&self) -> Option<NanoUsd> {
        self.nano.map(NanoUsd)
    }
}

/// The response to a request, or the note that there will be none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResponseRecord {
    pub(crate) turn: u64,
    pub(crate) nth: u64,
    pub(crate) ended: ResponseEnd,
    /// True if the response was a stream.
    pub(crate) streamed: bool,
    /// The provider's name for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// The response body as far as it was received.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body: String,
    /// The body in hexadecimal digits if it is not text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body_hex: String,
    /// The message of the failure; `None` if the response was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// True if the request is sent again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) again: bool,
    /// The time of the run at that moment, in milliseconds.
    pub(crate) at: u64,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResponseEnd {
    /// The response was complete.
    Whole,
    /// The connection broke.
    Broken,
    /// The response cannot be read, and its rest was not awaited.
    Unread,
    /// The response has an error status.
    Refused,
    /// There was no response.
    Unreached,
    /// The run's time was over.
    Expired,
    /// The run was cancelled.
    Cancelled,
}

/// The result of a turn: the messages that it added to the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnEndRecord {
    pub(crate) turn: u64,
    /// The messages, each a JSON text.
    pub(crate) messages: Vec<String>,
    /// The pinned records that have changed.
    pub(crate) records: PinnedRecords,
    /// The cost of the run so far, in nano-dollars.
    pub(crate) nano: u64,
}

/// A call that is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    pub(crate) turn: u64,
    /// The index of the call in the turn, from 0.
    pub(crate) call: u64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
    /// True if more was held back for the caller's answer because the turn calls agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) held: bool,
}

impl CallRecord {
    /// Returns true if both are the same call.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { held: other.held, ..self.clone() } == *other
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallResultRecord {
    pub(crate) turn: u64,
    pub(crate) call: u64,
    pub(crate) content: String,
    pub(crate) is_error: bool,
    /// The duration of the call, in milliseconds.
    pub(crate) took: u64,
    /// True if the process ended while the call ran, so that its effect is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
}

impl CallResultRecord {
    pub(crate) fn to_output(&self) -> ToolOutput {
        ToolOutput { content: self.content.clone(), is_error: self.is_error }
    }
}

/// The answers to a turn's calls, with what was said to the run meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoundRecord {
    pub(crate) turn: u64,
    /// The messages of a person to the run during the round.
    pub(crate) said: Vec<String>,
    /// The messages that answer the calls, each a JSON text.
    pub(crate) messages: Vec<String>,
    /// True if the run was cancelled during the round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
}

/// The end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    pub(crate) turn: u64,
    /// The number of the terminal event.
    pub(crate) seq: u64,
    pub(crate) report: Box<Report>,
    /// The message of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// Another process resumes the run. Any earlier end without an answer is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResumeRecord {
    pub(crate) softland: String,
    pub(crate) ts: String,
}

/// A record of one kind.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// The kind in the record's line.
    const KIND: RecordKind;
}

macro_rules! kinds {
    ($($record:ident = $kind:ident),+ $(,)?) => {
        $(impl Record for $record { const KIND: RecordKind = RecordKind::$kind; })+
    };
}

kinds! {
    StartRecord = Start, TurnRecord = Turn, ShortageRecord = Short, RequestRecord = Request, ResponseRecord = Response, TurnEndRecord = Took, CallRecord = Call,
    CallResultRecord = Result, RoundRecord = Round, EndRecord = End, ResumeRecord = Resume,
}
