//! The differences between the APIs in requests and in the messages of a conversation: the places
//! and names of their members. This module decides nothing and sends nothing.

mod anthropic;
mod chat;
mod responses;
pub(super) mod tags;

use serde_json::Value;
use softland_session::wire::json::{Cursor, Error};

use crate::http::{Api, ServedModel};
use crate::tool::{ToolDef, ToolFormat};

/// The requests and messages of one API.
pub(super) trait ApiFormat: Send + Sync {
    /// Returns the message of a response with an error status.
    fn error_message(&self, status: u16, body: &[u8]) -> String;

    /// Returns a streaming request without its messages.
    fn request_head(&self, asks: &RequestParts<'_>) -> Value;

    /// Returns the name of the member that holds the messages.
    fn messages_member(&self) -> &'static str {
        "messages"
    }

    /// Returns the message before all others, if the API takes instructions as a message.
    fn system_message(&self, _system: &str) -> Option<Value> {
        None
    }

    /// Returns the messages of a user who asks in one or several texts.
    fn user_messages(&self, texts: &[String]) -> Vec<Value>;

    /// Returns the text of a call's result in the history.
    fn result_text(&self, answered: &AnsweredCall) -> String {
        plain_text(answered)
    }

    /// Returns the messages that answer a round of calls, in order, and then hold what a user said
    /// meanwhile.
    fn result_messages(&self, results: &[AnsweredCall], said: &[String]) -> Vec<Value>;

    /// Returns a text as the model's message.
    fn model_message(&self, text: &str) -> Value;

    /// Drops thinking that is signed over what stands before it. Returns true if there was any.
    fn drop_signed(&self, message: &mut Value) -> bool;
}

/// The content of a request besides its messages.
pub(super) struct RequestParts<'a> {
    /// The model that answers.
    pub(super) model: &'a ServedModel,
    pub(super) system: &'a str,
    pub(super) tools: &'a [ToolDef],
    /// The most output tokens.
    pub(super) max_tokens: u64,
    /// True if a model that thinks by itself is asked to show its thinking.
    pub(super) thinking: bool,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnsweredCall {
    /// The call's id.
    pub(super) id: String,
    /// The tool's name.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) how: CallStatus,
}

/// The status of an answered call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStatus {
    Succeeded,
    Failed,
    /// Not run; the text says so.
    NotRun,
}

/// Returns the format of an API.
pub(super) fn format_of(api: Api) -> &'static dyn ApiFormat {
    match api {
        Api::Anthropic => &anthropic::Anthropic,
        Api::OpenAiChat => &chat::Chat,
        Api::OpenAiResponses => &responses::Responses,
    }
}

/// Returns the format of conversations through an API with a model that calls tools in this format.
pub(super) fn conversation_format(api: Api, format: ToolFormat) -> &'static dyn ApiFormat {
    match (format, api) {
        (ToolFormat::Native, api) => format_of(api),
        (ToolFormat::Tags, Api::Anthropic) => &tags::TaggedFormat(&anthropic::Anthropic),
        (ToolFormat::Tags, Api::OpenAiChat) => &tags::TaggedFormat(&chat::Chat),
        (ToolFormat::Tags, Api::OpenAiResponses) => &tags::TaggedFormat(&responses::Responses),
    }
}

/// Splits a text that holds one or several messages, separated as in a list.
pub(super) fn split_messages(messages: Vec<u8>) -> Vec<Vec<u8>> {
    let listed = [b"[", messages.as_slice(), b"]"].concat();
    let mut spans = Vec::new();
    let read = Cursor::from_bytes(&listed).and_then(|mut cursor| {
        cursor.read_elements(|cursor| {
            spans.push(cursor.skip_value()?);
            Ok::<_, Error>(())
        })
    });
    match read {
        Ok(_) if spans.len() > 1 => {
            let one = |span: &softland_session::wire::json::Span| listed.get(span.start..span.end);
            spans.iter().filter_map(one).map(<[u8]>::to_vec).collect()
        }
        _ => vec![messages],
    }
}

/// Returns the text of a failed result for APIs that have no other sign of failure: an object with
/// an `error`, which [the detectors](softland_session::core) read as a failure.
fn failed_text(text: &str) -> String {
    let says_so = serde_json::from_str::<Value>(text).is_ok_and(|value| {
        value.get("error").is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)))
    });
    match says_so {
        true => text.to_owned(),
        false => serde_json::json!({"error": text}).to_string(),
    }
}

/// Returns the text of an answer, with a sign of failure in it.
fn plain_text(answered: &AnsweredCall) -> String {
    match answered.how {
        CallStatus::Failed => failed_text(&answered.text),
        CallStatus::Succeeded | CallStatus::NotRun => answered.text.clone(),
    }
}
