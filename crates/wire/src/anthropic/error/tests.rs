use super::*;

#[test]
fn the_body_names_the_kind_the_message_and_the_request() {
    for (status, name) in [
        (400, "invalid_request_error"),
        (403, "billing_error"),
        (529, "overloaded_error"),
        (503, "new_error"),
    ] {
        let body = format!(
            r#"{{"type":"error","error":{{"type":"{name}","message":"No\n\"x\"."}},"request_id":"req_1"}}"#
        );
        let error = ApiError::from_response(status, body.as_bytes());
        assert_eq!((error.kind.as_str(), error.status), (name, status));
        assert_eq!(error.message, "No\n\"x\".");
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
    }
}

#[test]
fn the_status_decides_where_the_body_does_not() {
    for (status, body, kind) in [
        (400, "", "invalid_request_error"),
        (401, "", "authentication_error"),
        (402, "", "billing_error"),
        (403, "", "permission_error"),
        (404, "", "not_found_error"),
        (413, "<html><h1>413 Request Entity Too Large</h1></html>", "request_too_large"),
        (429, "{}", "rate_limit_error"),
        (502, "Bad gateway", "api_error"),
        (504, "", "timeout_error"),
        (529, "{\"error\":{\"message\":\"x\"}}", "overloaded_error"),
        (408, "[1", "unexpected_answer"),
    ] {
        assert_eq!(ApiError::from_response(status, body.as_bytes()).kind, kind, "{status}");
    }
}

#[test]
fn garbage_is_quoted_in_plain_words() {
    let page =
        b"<!DOCTYPE html><html><head><title>502</title></head>\n<body>Bad  \xff gateway</body>";
    let message = ApiError::from_response(502, page).message;
    assert_eq!(message, "not an answer of the API: 502 Bad gateway");
    let empty = ApiError::from_response(502, b" \n").message;
    assert_eq!(empty, "the answer has no readable body");
    let long = ApiError::from_response(502, "x".repeat(1 << 20).as_bytes()).message;
    assert!(long.len() < 300);
}

#[test]
fn messages_are_bounded_and_keys_masked() {
    let said = |message: &str| {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        ApiError::from_response(500, body.as_bytes()).message
    };
    assert_eq!(said(&"é".repeat(5000)).chars().count(), 1000);
    assert_eq!(said("bad key: sk-ant-api03-abc_DEF."), "bad key: sk-[masked]");
    assert_eq!(said("sk-proj-12345678 and sk-proj-abcdefgh"), "sk-[masked] and sk-[masked]");
    assert_eq!(
        said("a task-based flow, task-oriented-design"),
        "a task-based flow, task-oriented-design"
    );
    // A key at the cut is masked before the text is cut.
    let at_cut = format!("{}sk-ant-secret-secret", "x ".repeat(497));
    assert!(!said(&at_cut).contains("ant"));
    let html = ApiError::from_response(401, b"<p>sk-ant-api03-secret is wrong</p>");
    assert!(!html.to_string().contains("secret"));
}

#[test]
fn the_words_name_kind_status_and_request() {
    let body =
        br#"{"error":{"type":"rate_limit_error","message":"Slow down"},"request_id":"req_9"}"#;
    let error = ApiError::from_response(429, body);
    assert_eq!(error.to_string(), "rate_limit_error (HTTP 429): Slow down [request req_9]");
}
