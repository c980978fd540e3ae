//! Token counts from the provider. A count is free, and is requested only before a run would land
//! for want of money, if the bound of one token per byte exceeds the money that is left.

use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use softland_session::core::{Digest, models};
use softland_session::wire::Api;
use softland_session::wire::json::{Cursor, Error, write_str};
use softland_session::wire::request::Request;
use tokio::time::timeout;

use crate::request::ClientRequest;
use crate::target::Target;
use crate::transport::UpstreamRequest;

/// The time to wait for a count.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest response that is read: it holds one number.
const ANSWER: usize = 64 << 10;
/// Anthropic calls its count an estimate, so one part in this many is added.
const MARGIN: u64 = 50;

/// The members of a request that Anthropic's endpoint accepts.
const MEMBERS: [&str; 8] = [
    "model",
    "messages",
    "system",
    "tools",
    "thinking",
    "output_config",
    "mcp_servers",
    "context_management",
];

/// The members of a request that OpenAI's endpoint accepts.
const MEMBERS_OPENAI: [&str; 9] = [
    "model",
    "input",
    "instructions",
    "tools",
    "previous_response_id",
    "conversation",
    "reasoning",
    "text",
    "truncation",
];

/// Returns the input tokens of a request, as its provider counts them; `None` if it gives no count.
pub(super) async fn ask_provider(
    asked: &ClientRequest,
    target: &Target,
    request: &Request<'_>,
) -> Option<u64> {
    if !is_counted(request.api, &request.model.unescape()) {
        return None;
    }
    let body = count_body(request)?;
    let content = Digest::from_bytes(&body);
    let services = &asked.services;
    if let Some(known) = services.counts.find_count(&content) {
        return known;
    }
    let counted = timeout(PATIENCE, send_count(asked, target, body)).await.ok().flatten();
    let counted = counted.map(|tokens| tokens.saturating_add(tokens / MARGIN));
    tracing::info!(id = %target.id, counted, "asked how many tokens a request has");
    services.counts.store_count(content, counted);
    counted
}

/// Returns true if the provider may count the tokens of `model`. Most providers speak Chat
/// Completions, and only OpenAI's models have a counting endpoint.
fn is_counted(api: Api, model: &str) -> bool {
    api != Api::Chat || models::find_model(None, model).is_none_or(|row| row.provider == "openai")
}

async fn send_count(asked: &ClientRequest, target: &Target, body: Vec<u8>) -> Option<u64> {
    let path = match asked.active.api {
        Api::Anthropic => "/v1/messages/count_tokens",
        Api::Chat | Api::Responses => "/v1/responses/input_tokens",
    };
    let path = match (asked.active.api, target.path.query()) {
        (Api::Anthropic, Some(query)) => format!("{path}?{query}"),
        _ => path.to_owned(),
    };
    let path = PathAndQuery::try_from(path).ok()?;
    let sent = asked.transport.send(UpstreamRequest {
        upstream: &target.upstream,
        protocol: target.protocol,
        path: &path,
        headers: &asked.parts.headers,
        governed: true,
        deadline: None,
        body: Bytes::from(body),
    });
    let mut response = sent.await.ok()?;
    if !response.status.is_success() {
        return None;
    }
    let bytes = response.read_whole(ANSWER).await.ok()?;
    parse_count(&bytes)
}

fn parse_count(body: &[u8]) -> Option<u64> {
    let mut counted = None;
    Cursor::from_bytes(body)
        .ok()?
        .read_members(|cursor, member| {
            if member.key.eq_str("input_tokens") {
                counted = cursor.read_uint_or_skip()?;
            }
            Ok::<_, Error>(())
        })
        .ok()?;
    counted.filter(|tokens| *tokens > 0)
}

/// Returns the body of a count request: the request's members that the endpoint accepts. The
/// messages of Chat Completions are counted as one text, which has more tokens than they have.
fn count_body(request: &Request<'_>) -> Option<Vec<u8>> {
    let taken: &[&str] = match request.api {
        Api::Anthropic => &MEMBERS,
        Api::Responses => &MEMBERS_OPENAI,
        Api::Chat => return Some(as_text(request)),
    };
    let mut body = b"{".to_vec();
    let text = request.text;
    Cursor::new(text)
        .read_members(|cursor, member| {
            let name = member.key.unescape();
            let value = cursor.skip_value()?.slice_of(text);
            if taken.contains(&&*name) && value != "null" {
                if body.len() > 1 {
                    body.push(b',');
                }
                write_str(&mut body, &name);
                body.push(b':');
                body.extend_from_slice(value.as_bytes());
            }
            Ok::<_, Error>(())
        })
        .ok()?;
    body.push(b'}');
    Some(body)
}

fn as_text(request: &Request<'_>) -> Vec<u8> {
    let mut body = br#"{"model":"#.to_vec();
    write_str(&mut body, &request.model.unescape());
    body.extend_from_slice(br#","input":"#);
    let tools = request.tools.as_ref().map_or("", |tools| tools.span.slice_of(request.text));
    write_str(&mut body, &[request.messages.span.slice_of(request.text), tools].concat());
    body.push(b'}');
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(api: Api, text: &str) -> String {
        let request = Request::from_body(api, text.as_bytes()).unwrap();
        String::from_utf8(count_body(&request).unwrap()).unwrap()
    }

    #[test]
    fn only_what_an_endpoint_takes_is_sent_to_be_counted() {
        let text = r#"{"model":"m","max_tokens":5,"stream":true,"system":null,"messages":[{"role":"user","content":"x"}],"tools":[]}"#;
        let expected = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[]}"#;
        assert_eq!(of(Api::Anthropic, text), expected);
        let text = r#"{"model":"m","input":"x","max_output_tokens":5,"store":false}"#;
        assert_eq!(of(Api::Responses, text), r#"{"model":"m","input":"x"}"#);
        let text = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
        let expected = r#"{"model":"m","input":"[{\"role\":\"user\",\"content\":\"x\"}]"}"#;
        assert_eq!(of(Api::Chat, text), expected);
    }

    #[test]
    fn models_that_only_chat_completions_serves_are_not_counted() {
        assert!(is_counted(Api::Chat, "gpt-5.1"));
        assert!(is_counted(Api::Chat, "a-model-of-ones-own"));
        assert!(!is_counted(Api::Chat, "anthropic/claude-opus-5.5"));
        assert!(is_counted(Api::Anthropic, "claude-opus-4-8"));
    }

    #[test]
    fn an_answer_without_a_count_says_nothing() {
        assert_eq!(parse_count(br#"{"input_tokens":12}"#), Some(12));
        assert_eq!(parse_count(br#"{"input_tokens":0}"#), None);
        assert_eq!(parse_count(br#"{"error":{}}"#), None);
        assert_eq!(parse_count(b"no"), None);
    }
}
