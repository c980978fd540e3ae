use super::*;

fn read(status: u16, body: &str) -> ApiError {
    ApiError::from_response(status, body.as_bytes())
}

#[test]
fn an_error_names_its_code_and_its_parameter() {
    let body = r#"{"error":{"message":"too low","type":"invalid_request_error","param":"temperature","code":"below"}}"#;
    assert_eq!(read(400, body).to_string(), "below (HTTP 400): too low [`temperature`]");
    assert_eq!(read(400, r#"{"error":"plain"}"#).to_string(), "HTTP 400: plain");
    let number = read(502, r#"{"error":{"message":"m","code":502}}"#);
    assert_eq!(number.code, "502");
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
    assert_eq!(
        error.to_string(),
        "invalid_api_key (HTTP 401): Incorrect API key provided: sk-[masked] See task-based docs."
    );
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "a".repeat(5000));
    assert_eq!(read(400, &long).message.len(), 1000);
}
