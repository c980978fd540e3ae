//! A finished response: its items, its status and its usage.
//!
//! [`Response::from_json`] reads a whole response, [`Assembler`] assembles the events of a stream.
//! The same answer gives equal items either way, except for what the API itself spells differently
//! (the encrypted reasoning of the terminal event is not that of the item). An [`OutputItem`] keeps
//! the form in which it goes back in the next request. This module does not decide what the answer
//! means (empty, final, truncated).

mod assemble;
mod item;
#[cfg(test)]
mod tests;

use std::fmt;

pub use assemble::{Assembler, Finished, StreamEnd};
pub use item::{OutputItem, OutputKind};

use super::{
    stream::{Snapshot, StreamError, read_snapshot, read_stream_item},
    usage::Usage,
};
use crate::{
    ExtraCharges, ServiceTier,
    json::{self, Cursor, Kind, Str},
};

/// A response of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The response's id as last announced. A `previous_response_id` names the id of the terminal
    /// event, and proxies change ids from event to event (recorded).
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The creation time, in seconds since the epoch.
    pub created_at: Option<u64>,
    /// `status`; `None` if it was not stated.
    pub status: Option<Status>,
    /// `incomplete_details.reason`: `max_output_tokens` or `content_filter`.
    pub incomplete_reason: Option<String>,
    /// The failure, if the response failed.
    pub error: Option<Failure>,
    /// The output, in order.
    pub items: Vec<OutputItem>,
    /// The usage.
    pub usage: Usage,
    /// The response object as last received, a JSON object; empty if none was received.
    pub raw: String,
}

/// `status`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// `completed`. If there are calls among the items, the turn continues.
    Completed,
    /// `incomplete`: cut by a limit or a filter.
    Incomplete,
    /// `failed`
    Failed,
    /// `in_progress`
    InProgress,
    /// `queued`
    Queued,
    /// `cancelled`
    Cancelled,
    /// A status this module does not know.
    Other(String),
}

/// The failure of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The error's type; empty if it has none, as in a failed response.
    pub kind: String,
    /// The error's code; empty if it has none.
    pub code: String,
    /// The error's message.
    pub message: String,
}

/// The reason a body is not a response of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// Not JSON.
    Json(json::Error),
    /// JSON, but with neither an `output` list nor a `status`: perhaps an error body.
    NoOutput,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the response is {error}"),
            Self::NoOutput => f.write_str("the response has neither an `output` list nor a status"),
        }
    }
}

impl std::error::Error for ResponseError {}

impl From<json::Error> for ResponseError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

impl Status {
    /// Returns the status that the API calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "completed" => Self::Completed,
            "incomplete" => Self::Incomplete,
            "failed" => Self::Failed,
            "in_progress" => Self::InProgress,
            "queued" => Self::Queued,
            "cancelled" => Self::Cancelled,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the API's name for the status.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::Queued => "queued",
            Self::Cancelled => "cancelled",
            Self::Other(name) => name,
        }
    }
}

impl Failure {
    pub(super) fn new(error: &StreamError<'_>) -> Self {
        Self {
            kind: error.kind.into_string(),
            code: error.code.into_string(),
            message: error.message.into_string(),
        }
    }
}

impl Response {
    /// Reads a whole, non-streamed response, including one that failed.
    ///
    /// # Errors
    /// Fails if the body is not JSON, or has neither an `output` list nor a `status`.
    pub fn from_json(body: &[u8]) -> Result<Self, ResponseError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let found = read_snapshot(&mut cursor)?;
        cursor.expect_end()?;
        if found.output.is_empty() && found.status.is_none() {
            return Err(ResponseError::NoOutput);
        }
        let mut response = Self::default();
        response.apply_snapshot(&found);
        response.items = read_whole_items(found.output);
        response.settle_calls();
        Ok(response)
    }

    /// Returns the text of all messages, concatenated in order.
    #[must_use]
    pub fn text(&self) -> String {
        self.items.iter().filter_map(OutputItem::text).collect()
    }

    /// Takes over the members of a response object, except for its output.
    fn apply_snapshot(&mut self, found: &Snapshot<'_>) {
        let set = |target: &mut String, text: Str<'_>| {
            if !text.is_empty() {
                *target = text.into_string();
            }
        };
        set(&mut self.id, found.id);
        set(&mut self.model, found.model);
        self.created_at = found.created_at.or(self.created_at);
        if let Some(status) = found.status {
            self.status = Some(Status::from_name(&status.unescape()));
        }
        self.incomplete_reason = found.incomplete_reason.map(Str::into_string);
        if let Some(error) = &found.error {
            self.error = Some(Failure::new(error));
        }
        let beside = self.usage.tokens.beside;
        if let Some(usage) = found.usage {
            self.usage = usage;
            self.usage.tokens.beside = beside;
        }
        if found.served != ServiceTier::Unsaid {
            self.usage.tokens.beside.served = found.served;
        }
        found.raw.clone_into(&mut self.raw);
    }

    /// Counts the uses of the provider's tools by the items received.
    fn count_uses(&mut self) {
        let served = self.usage.tokens.beside.served;
        let mut beside = ExtraCharges { served, ..ExtraCharges::default() };
        for item in &self.items {
            if let OutputKind::Other { kind, .. } = &item.kind {
                beside.count_item(kind);
            }
        }
        self.usage.tokens.beside = beside;
    }

    /// Rechecks the calls by the response's status: in a response that was cut, only calls with
    /// status `completed` are complete.
    fn settle_calls(&mut self) {
        self.count_uses();
        let cut = [Status::Incomplete, Status::Failed, Status::Cancelled];
        if !self.status.as_ref().is_some_and(|status| cut.contains(status)) {
            return;
        }
        for item in &mut self.items {
            if let OutputKind::Call { complete, .. } = &mut item.kind {
                *complete &= item.completed;
            }
        }
    }
}

/// Reads the items of an `output` list.
fn read_whole_items(output: &str) -> Vec<OutputItem> {
    let mut items = Vec::new();
    if output.is_empty() {
        return items;
    }
    // The list was scanned before, so there is no error to report.
    let _ = Cursor::new(output).read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            items.push(OutputItem::from_whole(&read_stream_item(cursor)?));
        }
        Ok::<_, json::Error>(())
    });
    items
}
