//! Errors of each vendor. The bodies are written for these tests after recordings and the vendors'
//! documentation.

use super::*;
use crate::chat::{Chunk, Event};

fn check(status: u16, body: &str, kind: &str, message: &str) {
    let error = ApiError::from_response(status, body.as_bytes());
    assert_eq!((&*error.kind, &*error.message), (kind, message), "{body}");
}

#[test]
fn every_vendors_shape_is_read() {
    check(
        400,
        r#"{"error":{"code":"invalid_request_error","message":"Thinking mode does not support this tool_choice","param":null,"type":"invalid_request_error"}}"#,
        "invalid_request_error",
        "Thinking mode does not support this tool_choice",
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        "insufficient_quota",
        "You exceeded your current quota",
    );
    check(
        429,
        r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
        "rate_limit_exceeded",
        "Rate limit reached",
    );
    check(
        400,
        r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        "context_length_exceeded",
        "too long",
    );
    check(
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-abcdefghijkl.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        "authentication_error",
        "Incorrect API key provided: sk-[masked]",
    );
    check(
        400,
        r#"{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        "content_filter",
        "filtered",
    );
    // xAI
    check(
        400,
        r#"{"code":"Client specified an invalid argument","error":"Model not found: grok-9"}"#,
        "invalid_request_error",
        "Model not found: grok-9",
    );
    // Gemini's layer
    check(
        503,
        r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
        "overloaded_error",
        "The model is overloaded.",
    );
    // Mistral
    check(
        400,
        r#"{"object":"error","message":"bad","type":"invalid_request_error","param":null,"code":null}"#,
        "invalid_request_error",
        "bad",
    );
    check(
        422,
        r#"{"detail":[{"loc":["body","model"],"msg":"Field required","type":"missing"}]}"#,
        "invalid_request_error",
        "Field required",
    );
    // z.ai
    check(
        429,
        r#"{"error":{"code":"1302","message":"High concurrency"}}"#,
        "rate_limit_exceeded",
        "High concurrency",
    );
    // Groq, non-streaming
    check(
        400,
        r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<f>"}}"#,
        "tool_use_failed",
        "Failed to call a function.",
    );
    // Azure's front door.
    check(
        401,
        r#"{"statusCode":401,"message":"Access denied"}"#,
        "authentication_error",
        "Access denied",
    );
}

#[test]
fn openrouter_quotes_the_vendor_behind_it() {
    let body = r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream is down","provider_name":"X"}},"user_id":"u"}"#;
    let error = ApiError::from_response(502, body.as_bytes());
    assert_eq!(
        error.to_string(),
        "server_error (HTTP 502): Provider returned error: upstream is down"
    );
    assert_eq!(error.code.as_deref(), Some("502"));
}

#[test]
fn garbage_is_quoted_and_judged_by_its_status() {
    let error = ApiError::from_response(502, b"<html><h1>Bad Gateway</h1></html>");
    assert_eq!(error.kind, "server_error");
    assert_eq!(error.message, "not an answer of the API: Bad Gateway");
    let empty = ApiError::from_response(302, b"");
    assert_eq!(empty.kind, "unexpected_answer");
    assert_eq!(empty.message, "the answer has no readable body");
    let short = ApiError::from_response(400, br#"{"error":{}}"#);
    assert_eq!(short.kind, "invalid_request_error");
    let relayed = ApiError::from_response(401, br#"{"error":{"code":503,"message":"m"}}"#);
    assert_eq!((relayed.status, relayed.kind.as_str()), (401, "authentication_error"));
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(5000));
    assert_eq!(ApiError::from_response(400, long.as_bytes()).message.len(), 1000);
}

#[test]
fn keys_of_every_vendor_are_masked_and_words_are_not() {
    let said = |text: &str| {
        let body = format!(r#"{{"error":{{"message":"{text}"}}}}"#);
        ApiError::from_response(401, body.as_bytes()).message
    };
    assert_eq!(said("key gsk_0123456789abc!"), "key gsk_[masked]!");
    assert_eq!(said("key xai-0123456789abc"), "key xai-[masked]");
    assert_eq!(
        said("key sk-or-v1-0123456789, key AIza0123456789"),
        "key sk-[masked], key AIza[masked]"
    );
    assert_eq!(said("a task-based-approach to sk-8"), "a task-based-approach to sk-8");
}

#[test]
fn errors_in_a_stream_name_their_own_status() {
    let error = |name: &str, data: &str| {
        let Event::Chunk(Chunk { error, .. }) = Event::from_data(name, data).unwrap() else {
            panic!("{data}")
        };
        ApiError::from_chunk(&error.unwrap())
    };
    let groq = error(
        "error",
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"x","status_code":400}}"#,
    );
    assert_eq!((groq.status, groq.kind.as_str()), (400, "tool_use_failed"));
    let openrouter = error("", r#"{"id":"g","error":{"code":429,"message":"slow"},"choices":[]}"#);
    assert_eq!((openrouter.status, openrouter.kind.as_str()), (429, "rate_limit_exceeded"));
    let openai = error("", r#"{"error":{"message":"m","type":"server_error","code":null}}"#);
    assert_eq!((openai.status, openai.kind.as_str()), (200, "server_error"));
    let flat = error("error", r#"{"message":"m","type":"odd_error"}"#);
    assert_eq!(flat.kind, "odd_error");
    let vllm = error("", r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#);
    assert_eq!((vllm.status, vllm.kind.as_str()), (400, "invalid_request_error"));
    let bare = error("", r#"{"error":"m"}"#);
    assert_eq!(bare.message, "m");
}
