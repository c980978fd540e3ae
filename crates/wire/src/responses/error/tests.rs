use super::*;

fn read(status: u16, body: &str) -> ApiError {
    ApiError::from_response(status, body.as_bytes())
}

#[test]
fn the_code_says_more_than_the_status_and_the_type() {
    for (status, kind, code, expected, blame) in [
        (429, "insufficient_quota", "insufficient_quota", ErrorKind::Billing, Blame::Account),
        (429, "tokens", "rate_limit_exceeded", ErrorKind::RateLimit, Blame::Provider),
        (401, "invalid_request_error", "", ErrorKind::Authentication, Blame::Account),
        (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            ErrorKind::ContextLength,
            Blame::Request,
        ),
        (
            400,
            "invalid_request_error",
            "unknown_parameter",
            ErrorKind::InvalidRequest,
            Blame::Request,
        ),
        (
            404,
            "invalid_request_error",
            "previous_response_not_found",
            ErrorKind::PreviousResponse,
            Blame::Request,
        ),
        (500, "server_error", "", ErrorKind::Server, Blame::Provider),
        (503, "", "", ErrorKind::Overloaded, Blame::Provider),
        (418, "", "", ErrorKind::InvalidRequest, Blame::Request),
        (409, "", "", ErrorKind::Other, Blame::Provider),
        (200, "", "server_error", ErrorKind::Server, Blame::Provider),
        (302, "", "", ErrorKind::Other, Blame::Provider),
    ] {
        let body = format!(
            r#"{{"error":{{"message":"m","type":"{kind}","param":null,"code":"{code}"}}}}"#
        );
        let error = read(status, &body);
        assert_eq!((error.kind, error.blame()), (expected, blame), "{status} {kind} {code}");
        assert_eq!(error.is_retryable(), blame == Blame::Provider);
    }
}

#[test]
fn an_error_names_its_code_and_its_parameter() {
    let body = r#"{"error":{"message":"too low","type":"invalid_request_error","param":"temperature","code":"below"}}"#;
    assert_eq!(read(400, body).to_string(), "below (HTTP 400): too low [`temperature`]");
    assert_eq!(read(400, r#"{"error":"plain"}"#).to_string(), "HTTP 400: plain");
    let number = read(502, r#"{"error":{"message":"m","code":502}}"#);
    assert_eq!((number.code.as_str(), number.kind), ("502", ErrorKind::Server));
}

#[test]
fn garbage_is_quoted_short() {
    let error = read(502, "<html><head><title>Bad gateway</title></head></html>");
    assert_eq!(error.message, "not an answer of the API: Bad gateway");
    assert_eq!(read(500, "").message, "the answer has no readable body");
    let long = ApiError::from_response(500, &[0xff, b'a'].repeat(9000));
    assert!(long.message.len() <= 300);
}

#[test]
fn no_key_is_repeated() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-proj-abcdef123456. See task-based docs.","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let error = read(401, body);
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert_eq!(
        error.to_string(),
        "invalid_api_key (HTTP 401): Incorrect API key provided: sk-[masked] See task-based docs."
    );
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "a".repeat(5000));
    assert_eq!(read(400, &long).message.len(), 1000);
}

#[test]
fn a_failure_in_a_stream_is_judged_by_its_code() {
    let failure = Failure {
        kind: String::new(),
        code: "rate_limit_exceeded".to_owned(),
        message: "slow".to_owned(),
    };
    let error = ApiError::from_failure(&failure);
    assert_eq!((error.status, error.kind), (200, ErrorKind::RateLimit));
}
