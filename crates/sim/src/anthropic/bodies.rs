//! Bodies other than messages: errors that a scenario asks for, and the list of models.

use crate::anthropic::error::Refusal;
use crate::bodies::whole;
use crate::json::{Json, map};
use crate::models::{self, Model};
use crate::reply::Response;

/// Returns the body of `GET /v1/models`.
pub(crate) fn model_list() -> Vec<u8> {
    let row = |m: &Model| {
        map([("type", "model".into()), ("id", m.id.into()), ("display_name", m.id.into())])
    };
    let ids = models::all();
    let edge = |m: Option<&Model>| m.map_or(Json::Null, |m| m.id.into());
    map([
        ("data", Json::List(ids.iter().map(row).collect())),
        ("has_more", Json::Bool(false)),
        ("first_id", edge(ids.first())),
        ("last_id", edge(ids.last())),
    ])
    .text()
    .into_bytes()
}

/// Creates a failure that a scenario asks for, in the provider's shape.
pub(crate) fn http_fault(status: u16, retry_after: Option<u64>, delay_ms: u64) -> Response {
    let (kind, message) = match status {
        401 => ("authentication_error", "API key is invalid."),
        403 => ("permission_error", "Your API key does not have permission."),
        404 => ("not_found_error", "Not found"),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => ("rate_limit_error", "This request would exceed your rate limit."),
        529 => ("overloaded_error", "Overloaded"),
        400..=499 => ("invalid_request_error", "The scenario refuses this request."),
        _ => ("api_error", "Internal server error"),
    };
    let mut response =
        whole(status, delay_ms, Refusal::new(status, kind, message).body("req_fault"));
    if let Some(seconds) = retry_after {
        response.headers.push(("retry-after".to_owned(), seconds.to_string()));
    }
    response
}
