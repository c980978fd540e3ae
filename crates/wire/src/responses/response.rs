//! A finished response: its items, how it ended and what it used.
//!
//! [`Response::from_json`] reads a whole response, [`Assembler`] folds the events of a stream; the
//! same answer gives equal items either way, but for what the API itself spells differently (the
//! encrypted reasoning of the terminal event is not that of the item). An [`OutputItem`] keeps
//! itself as it goes back in the next request. What the answer means (empty, final, truncated) is
//! not decided here.

mod assemble;
mod item;
#[cfg(test)]
mod tests;

use std::fmt;

pub use assemble::{Assembler, End, Finished};
pub use item::{OutputItem, OutputKind};

use super::{
    stream::{Snapshot, StreamError, snapshot, stream_item},
    usage::Usage,
};
use crate::{
    Beside, Served,
    json::{self, Cursor, Kind, Str},
};

/// A response of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The response's id, as last announced: that of the terminal event is the one that a
    /// `previous_response_id` names, and proxies change ids from event to event (recorded).
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// When it was made, in seconds since the epoch.
    pub created_at: Option<u64>,
    /// `status`; `None` where nothing was said of it.
    pub status: Option<Status>,
    /// `incomplete_details.reason`: `max_output_tokens` or `content_filter`.
    pub incomplete_reason: Option<String>,
    /// Why it failed.
    pub error: Option<Failure>,
    /// The output, in order.
    pub items: Vec<OutputItem>,
    /// What it used.
    pub usage: Usage,
    /// The response object as last received, a JSON object; empty where none came.
    pub raw: String,
}

/// `status`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// `completed`; calls among the items make it a turn that goes on.
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

/// Why a response failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The error's type; empty where it has none, as in a failed response.
    pub kind: String,
    /// The error's code; empty where it has none.
    pub code: String,
    /// What it says.
    pub message: String,
}

/// Why a body is not a response of the model.
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
    /// The status that the API calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Self {
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

    /// The API's name for the status.
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
        Self { kind: error.kind.owned(), code: error.code.owned(), message: error.message.owned() }
    }
}

impl Response {
    /// Reads a whole, non-streamed response, one that failed included.
    ///
    /// # Errors
    /// When it is not JSON, or has neither an `output` list nor a `status`.
    pub fn from_json(body: &[u8]) -> Result<Self, ResponseError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let found = snapshot(&mut cursor)?;
        cursor.end()?;
        if found.output.is_empty() && found.status.is_none() {
            return Err(ResponseError::NoOutput);
        }
        let mut response = Self::default();
        response.update(&found);
        response.items = whole_items(found.output);
        response.settle();
        Ok(response)
    }

    /// All text of the messages, in order, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        self.items.iter().filter_map(OutputItem::text).collect()
    }

    /// Whether the client must answer before the model goes on: there is a call of a client's
    /// tool, or of a built-in tool that the client runs and whose output is not among the items.
    #[must_use]
    pub fn awaits_client(&self) -> bool {
        self.items.iter().any(|item| match &item.kind {
            OutputKind::Call { .. } => true,
            OutputKind::Other { kind, call_id } => match kind.as_str() {
                "local_shell_call" | "computer_call" | "apply_patch_call" | "shell_call"
                | "tool_search_call" => !self.answers(kind, call_id),
                "mcp_approval_request" => true,
                _ => false,
            },
            OutputKind::Message { .. } | OutputKind::Reasoning { .. } => false,
        })
    }

    /// Whether the output of a built-in tool's call is among the items.
    fn answers(&self, call: &str, call_id: &str) -> bool {
        let output = |kind: &str| kind.strip_prefix(call) == Some("_output");
        let search = |kind: &str| call == "tool_search_call" && kind == "tool_search_output";
        self.items.iter().any(|item| match &item.kind {
            OutputKind::Other { kind, call_id: id } => {
                (output(kind) || search(kind)) && id == call_id
            }
            _ => false,
        })
    }

    /// Takes over what a response object says, but for its output.
    fn update(&mut self, found: &Snapshot<'_>) {
        let set = |target: &mut String, text: Str<'_>| {
            if !text.is_empty() {
                *target = text.owned();
            }
        };
        set(&mut self.id, found.id);
        set(&mut self.model, found.model);
        self.created_at = found.created_at.or(self.created_at);
        if let Some(status) = found.status {
            self.status = Some(Status::named(&status.unescape()));
        }
        self.incomplete_reason = found.incomplete_reason.map(Str::owned);
        if let Some(error) = &found.error {
            self.error = Some(Failure::new(error));
        }
        let beside = self.usage.tokens.beside;
        if let Some(usage) = found.usage {
            self.usage = usage;
            self.usage.tokens.beside = beside;
        }
        if found.served != Served::Unsaid {
            self.usage.tokens.beside.served = found.served;
        }
        found.raw.clone_into(&mut self.raw);
    }

    /// Counts the uses of the provider's tools by the items there are.
    fn count_uses(&mut self) {
        let served = self.usage.tokens.beside.served;
        let mut beside = Beside { served, ..Beside::default() };
        for item in &self.items {
            if let OutputKind::Other { kind, .. } = &item.kind {
                beside.count(kind);
            }
        }
        self.usage.tokens.beside = beside;
    }

    /// Judges the calls anew by how the response ended: in one that was cut, only a call that is
    /// said to be completed is.
    fn settle(&mut self) {
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

/// The items of an `output` list.
fn whole_items(output: &str) -> Vec<OutputItem> {
    let mut items = Vec::new();
    if output.is_empty() {
        return items;
    }
    // It was scanned before, so there is no error to report.
    let _ = Cursor::new(output).elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            items.push(OutputItem::whole(&stream_item(cursor)?));
        }
        Ok::<_, json::Error>(())
    });
    items
}
