//! Keys and messages, in an error of each protocol.

use super::*;
use crate::{anthropic, chat, responses};

/// A key of each vendor, and the part of it that is shown. All keys are invented.
const VENDORS: [(&str, &str, &str); 8] = [
    ("Anthropic", "sk-ant-api03-Zq0_Zq0-Zq0", "sk-[masked]"),
    ("OpenAI", "sk-proj-Zq0_Zq0-Zq0", "sk-[masked]"),
    ("OpenAI, quoting its end", "sk-proj-*********Zq0Z", "sk-[masked]"),
    ("DeepSeek", "sk-Zq0Zq0Zq0Zq0Zq0", "sk-[masked]"),
    ("OpenRouter", "sk-or-v1-Zq0Zq0Zq0Zq0", "sk-[masked]"),
    ("Groq", "gsk_Zq0Zq0Zq0Zq0", "gsk_[masked]"),
    ("xAI", "xai-Zq0Zq0Zq0Zq0", "xai-[masked]"),
    ("Google", "AIzaZq0Zq0Zq0_Zq0", "AIza[masked]"),
];

/// Returns everything that is shown of an error response, in each protocol.
fn shown(body: &str) -> [(&'static str, String, String); 3] {
    let body = body.as_bytes();
    let anthropic = anthropic::ApiError::from_response(401, body);
    let chat = chat::ApiError::from_response(401, body);
    let responses = responses::ApiError::from_response(401, body);
    [
        ("Anthropic", format!("{anthropic} {anthropic:?}"), anthropic.message),
        ("Chat Completions", format!("{chat} {chat:?}"), chat.message),
        ("Responses", format!("{responses} {responses:?}"), responses.message),
    ]
}

#[test]
fn a_key_of_each_vendor_is_masked_in_an_error_of_each_protocol() {
    for (vendor, key, masked) in VENDORS {
        let refused = format!(
            r#"{{"type":"error","error":{{"type":"{key}","code":"{key}","param":"{key}","message":"bad key: {key}!"}},"request_id":"{key}"}}"#
        );
        for (protocol, all, message) in shown(&refused) {
            assert_eq!(message, format!("bad key: {masked}!"), "{vendor} in {protocol}");
            assert!(!all.contains("Zq0"), "{vendor} in {protocol}: {all}");
        }
        for (protocol, all, message) in shown(&format!("<p>bad key: <b>{key}</b> is wrong</p>")) {
            let expected = format!("not an answer of the API: bad key: {masked} is wrong");
            assert_eq!(message, expected, "{vendor} in {protocol}");
            assert!(!all.contains("Zq0"), "{vendor} in {protocol}: {all}");
        }
    }
}

#[test]
fn of_a_key_at_a_cut_nothing_stays() {
    for (vendor, key, _) in VENDORS {
        for before in [QUOTED - 12, MESSAGE_LIMIT - 12] {
            let text = format!("{} {key}", "x".repeat(before));
            let refused = format!(r#"{{"error":{{"message":"{text}"}}}}"#);
            for (protocol, all, _) in shown(&refused).into_iter().chain(shown(&text)) {
                assert!(!all.contains("Zq0"), "{vendor} in {protocol}: {all}");
            }
        }
    }
}

#[test]
fn words_are_no_keys_and_a_message_is_bounded() {
    for words in ["a task-based-approach to sk-8", "risk-averse-and-slow", "xai-8 and AIza"] {
        for (protocol, _, message) in shown(&format!(r#"{{"error":{{"message":"{words}"}}}}"#)) {
            assert_eq!(message, words, "{protocol}");
        }
    }
    for (protocol, _, message) in
        shown(&format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(5000)))
    {
        assert_eq!(message.chars().count(), MESSAGE_LIMIT, "{protocol}");
    }
    for (protocol, _, message) in shown(&"<i>x</i>é ".repeat(5000)) {
        assert!(message.chars().count() < QUOTED + 50, "{protocol}: {message}");
    }
}
