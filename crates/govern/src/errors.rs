//! Errors of the gateway itself, in the shape of the client's protocol.
//!
//! Nothing here repeats a header or a body of the client, so no credential gets into an error.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::settings::Protocol;

/// Tells the vendors' SDKs whether to retry, whatever the status says.
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Returns an error in Anthropic's shape.
pub fn anthropic_error<B: From<Bytes>>(
    status: StatusCode,
    kind: &str,
    message: &str,
) -> Response<B> {
    let error = json!({"type": "error", "error": {"type": kind, "message": message}});
    json_response(status, error.to_string())
}

/// Returns an error in Anthropic's shape with `error.details`, which some of its SDKs read.
pub fn anthropic_error_with<B: From<Bytes>>(
    status: StatusCode,
    kind: &str,
    message: &str,
    details: &Value,
) -> Response<B> {
    let error = json!({"type": kind, "message": message, "details": details});
    json_response(status, json!({"type": "error", "error": error}).to_string())
}

/// Returns an error in OpenAI's shape.
pub fn openai_error<B: From<Bytes>>(status: StatusCode, kind: &str, message: &str) -> Response<B> {
    let error = json!({"message": message, "type": kind, "param": null, "code": null});
    json_response(status, json!({"error": error}).to_string())
}

/// Returns an error in the shape of a protocol, with the protocol's error type for the status.
pub fn protocol_error<B: From<Bytes>>(
    protocol: Protocol,
    status: StatusCode,
    message: &str,
) -> Response<B> {
    match protocol {
        Protocol::Anthropic => anthropic_error(status, anthropic_kind(status), message),
        Protocol::OpenAi => openai_error(status, openai_kind(status), message),
    }
}

/// Returns the same response, marked so that SDKs do not send the request again.
pub fn without_retry<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    response
}

/// A request that the gateway does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// The protocol that gives the error its shape.
    pub protocol: Protocol,
    /// The problem, and the allowed values.
    pub message: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(status: StatusCode, protocol: Protocol, message: impl Into<String>) -> Self {
        Self { status, protocol, message: message.into() }
    }

    /// Returns the response. It forbids a retry of a client error, which would fail again.
    pub fn to_response<B: From<Bytes>>(&self) -> Response<B> {
        let response = protocol_error(self.protocol, self.status, &self.message);
        if self.status.is_client_error() { without_retry(response) } else { response }
    }
}

fn json_response<B: From<Bytes>>(status: StatusCode, body: String) -> Response<B> {
    let mut response = Response::new(B::from(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the error type that Anthropic's API documents for a status.
fn anthropic_kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

fn openai_kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(response: Response<Bytes>) -> String {
        String::from_utf8(response.into_body().to_vec()).expect("UTF-8")
    }

    #[test]
    fn each_protocol_gets_its_own_shape() {
        let response = protocol_error(Protocol::Anthropic, StatusCode::BAD_GATEWAY, "gone \"x\"");
        assert_eq!(response.status(), 502);
        let wanted = r#"{"error":{"message":"gone \"x\"","type":"api_error"},"type":"error"}"#;
        assert_eq!(text(response), wanted);
        let response = protocol_error(Protocol::OpenAi, StatusCode::NOT_FOUND, "no");
        let wanted =
            r#"{"error":{"code":null,"message":"no","param":null,"type":"invalid_request_error"}}"#;
        assert_eq!(text(response), wanted);
    }

    #[test]
    fn a_refusal_by_the_clients_fault_is_final() {
        let refusal = |status| Refusal::new(status, Protocol::OpenAi, "x").to_response::<Bytes>();
        assert_eq!(refusal(StatusCode::BAD_REQUEST).headers()[&SHOULD_RETRY], "false");
        assert!(!refusal(StatusCode::BAD_GATEWAY).headers().contains_key(&SHOULD_RETRY));
    }
}
