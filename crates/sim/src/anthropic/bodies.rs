//! Bodies other than messages: errors that a scenario asks for, and the list of models.

use crate::anthropic::error::AnthropicRefusal;
use crate::bodies::whole_response;
use crate::json::{Json, json_object};
use crate::models::{self, Model};
use crate::reply::Response;

/// Returns the body of `GET /v1/models`.
pub(crate) fn model_list() -> Vec<u8> {
    let row = |m: &Model| {
        json_object([("type", "model".into()), ("id", m.id.into()), ("display_name", m.id.into())])
    };
    let ids = models::all_models();
    let edge = |m: Option<&Model>| m.map_or(Json::Null, |m| m.id.into());
    json_object([
        ("data", Json::List(ids.iter().map(row).collect())),
        ("has_more", Json::Bool(false)),
        ("first_id", edge(ids.first())),
        ("last_id", edge(ids.last())),
    ])
    .to_text()
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
    let mut response = whole_response(
        status,
        delay_ms,
        AnthropicRefusal::new(status, kind, message).to_body("req_fault"),
    );
    if let Some(seconds) = retry_after {
        response.headers.push(("retry-after".to_owned(), seconds.to_string()));
    }
    response
}
