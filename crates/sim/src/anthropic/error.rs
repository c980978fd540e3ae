//! Refusals in the shape of Anthropic's errors. This module knows statuses and types, not rules.

use crate::json::{Json, json_object};

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnthropicRefusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Json>,
}

pub(crate) type AnthropicResult<T = ()> = Result<T, AnthropicRefusal>;

impl AnthropicRefusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), details: None }
    }

    /// Returns the JSON body. The request id is null if the provider sends none.
    pub(crate) fn to_body(&self, request_id: &str) -> Vec<u8> {
        let mut error = vec![
            ("type".to_owned(), Json::from(self.kind)),
            ("message".to_owned(), Json::from(self.message.as_str())),
        ];
        if let Some(details) = &self.details {
            error.push(("details".to_owned(), details.clone()));
        }
        let id = if self.status == 401 { Json::Null } else { Json::from(request_id) };
        json_object([("type", "error".into()), ("error", Json::Map(error)), ("request_id", id)])
            .to_text()
            .into_bytes()
    }
}

/// Refuses with a 400 `invalid_request_error`.
pub(crate) fn refuse_with<T>(message: impl Into<String>) -> AnthropicResult<T> {
    Err(AnthropicRefusal::new(400, "invalid_request_error", message))
}

/// Refuses with 400 unless `ok`. The message is created only when needed.
pub(crate) fn ensure(ok: bool, message: impl FnOnce() -> String) -> AnthropicResult {
    if ok { Ok(()) } else { refuse_with(message()) }
}
