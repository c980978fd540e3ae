//! What differs between the APIs in a request and in the messages of a conversation: where things
//! stand and what they are called. It decides nothing and sends nothing.

mod anthropic;
mod chat;
mod responses;
pub(super) mod tags;

use serde_json::Value;
use softland_session::wire::json::{Cursor, Error};

use crate::http::provider::Api;
use crate::tool::{ToolDef, ToolFormat};

/// One API's requests and messages.
pub(super) trait Form: Send + Sync {
    /// Where its requests go, after the base URL.
    fn path(&self) -> &'static str;

    /// What an answer with an error status says.
    fn refusal(&self, status: u16, body: &[u8]) -> String;

    /// A streaming request without its messages.
    fn head(&self, asks: &Asks<'_>) -> Value;

    /// The member of a request that its messages stand in.
    fn messages(&self) -> &'static str {
        "messages"
    }

    /// The message before all others, where instructions are one.
    fn opening(&self, _system: &str) -> Option<Value> {
        None
    }

    /// What a user asks, in one or several texts.
    fn question(&self, texts: &[String]) -> Vec<Value>;

    /// The text that stands in the history for a call's answer.
    fn told(&self, answered: &Answered) -> String {
        plain_text(answered)
    }

    /// What answers a round of calls, in their order, and what a user said meanwhile.
    fn results(&self, results: &[Answered], said: &[String]) -> Vec<Value>;

    /// A text in the model's place.
    fn answer(&self, text: &str) -> Value;

    /// Leaves out thinking that is signed over what stands before it; whether there was any.
    fn drop_signed(&self, message: &mut Value) -> bool;
}

/// What a request asks for.
pub(super) struct Asks<'a> {
    /// The provider, where one is named.
    pub(super) provider: Option<&'a str>,
    /// The model as the provider is to read it.
    pub(super) model: &'a str,
    /// The model that is meant, where a simulated one poses as it.
    pub(super) posed: &'a str,
    pub(super) system: &'a str,
    pub(super) tools: &'a [ToolDef],
    /// Output tokens at most.
    pub(super) max_tokens: u64,
    /// Whether thinking is to be shown, of a model that thinks without being told.
    pub(super) thinking: bool,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// The call's id.
    pub(super) id: String,
    /// The tool's name.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) how: How,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Succeeded,
    Failed,
    /// It was not run, and its text says so.
    NotRun,
}

/// The form of an API.
pub(super) fn of(api: Api) -> &'static dyn Form {
    match api {
        Api::Anthropic => &anthropic::Anthropic,
        Api::OpenAiChat => &chat::Chat,
        Api::OpenAiResponses => &responses::Responses,
    }
}

/// The form of an API's conversations with a model whose calls have this format.
pub(super) fn spoken(api: Api, format: ToolFormat) -> &'static dyn Form {
    match (format, api) {
        (ToolFormat::Native, api) => of(api),
        (ToolFormat::Tags, Api::Anthropic) => &tags::Written(&anthropic::Anthropic),
        (ToolFormat::Tags, Api::OpenAiChat) => &tags::Written(&chat::Chat),
        (ToolFormat::Tags, Api::OpenAiResponses) => &tags::Written(&responses::Responses),
    }
}

/// The messages of a text that holds one or several, as they stand in a list.
pub(super) fn each(messages: Vec<u8>) -> Vec<Vec<u8>> {
    let listed = [b"[", messages.as_slice(), b"]"].concat();
    let mut spans = Vec::new();
    let read = Cursor::from_bytes(&listed).and_then(|mut cursor| {
        cursor.elements(|cursor| {
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

/// A result that says of itself that it failed, for APIs that have no other place for that: as an
/// object with an `error`, which [the detectors](softland_session::core) read as a failure.
fn failed_text(text: &str) -> String {
    let says_so = serde_json::from_str::<Value>(text).is_ok_and(|value| {
        value.get("error").is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)))
    });
    match says_so {
        true => text.to_owned(),
        false => serde_json::json!({"error": text}).to_string(),
    }
}

/// The text of an answer where there is no other sign of failure.
fn plain_text(answered: &Answered) -> String {
    match answered.how {
        How::Failed => failed_text(&answered.text),
        How::Succeeded | How::NotRun => answered.text.clone(),
    }
}
