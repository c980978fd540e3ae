//! Bodies that are no message: errors that a scenario wants, broken bodies, the list of models.

use crate::error::Refusal;
use crate::json::{Json, map};
use crate::models::{self, Model};
use crate::reply::{Body, Chunk, Piece, Response};

/// The body of `GET /v1/models`.
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

/// A whole JSON body.
pub(crate) fn whole(status: u16, delay_ms: u64, bytes: Vec<u8>) -> Response {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Response { status, headers, body: Body::Whole { delay_ms, bytes } }
}

/// Half a body, and then nothing.
pub(crate) fn cut_whole(mut body: Vec<u8>) -> Response {
    body.truncate(body.len() / 2);
    let chunks = vec![
        Chunk { delay_ms: 0, piece: Piece::Bytes(body) },
        Chunk { delay_ms: 0, piece: Piece::Cut },
    ];
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Response { status: 200, headers, body: Body::Stream(chunks) }
}

/// A failure that a scenario wants, in the provider's shape.
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
