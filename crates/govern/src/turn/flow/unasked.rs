//! Responses that are none, or that are not in the form that was asked for: what they are, and the
//! words of an error in them.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use softland_session::wire::json::{Cursor, Error, Kind};
use softland_session::wire::{Api, anthropic, chat, find_error_words, responses};
use tokio::time::timeout;

use super::GovernedRequest;
use crate::transport::UpstreamResponse;

/// The most of an error's body that is looked at, in bytes, and the time for which it is waited
/// for.
const ERROR: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(2);
/// The most of a body that is looked at to tell a stream.
const START: usize = 4 << 10;
/// The longest quotation of a provider in the ledger, in characters.
const QUOTED: usize = 300;

impl GovernedRequest {
    /// Returns true if a response is a stream of events, as its type says. Where a stream was asked
    /// for, its first bytes say so, too: some servers state another type, or none.
    pub(super) async fn is_stream(&self, response: &mut UpstreamResponse) -> bool {
        if response.headers.get(CONTENT_TYPE).is_some_and(is_event_stream) {
            return true;
        }
        if !self.exchange.is_streaming() || is_packed(&response.headers) {
            return false;
        }
        let start = response.peek_start(START, |start| begins_stream(start).is_some()).await;
        begins_stream(&start).unwrap_or(false)
    }

    /// Returns the words of an error response, with its kind.
    pub(super) async fn refusal_words(&self, response: &mut UpstreamResponse) -> String {
        let body = peek_error(response).await;
        describe_refusal(self.opening.asked.active.api, response.status, &body)
    }
}

/// Describes an error response by its kind and its words.
pub(super) fn describe_refusal(api: Api, status: StatusCode, body: &[u8]) -> String {
    let status = status.as_u16();
    match api {
        Api::Anthropic => anthropic::ApiError::from_response(status, body).to_string(),
        Api::Chat => chat::ApiError::from_response(status, body).to_string(),
        Api::Responses => responses::ApiError::from_response(status, body).to_string(),
    }
}

/// Returns the words of an error that came in place of a stream.
pub(super) async fn words_in_place(response: &mut UpstreamResponse) -> Option<String> {
    let body = peek_error(response).await;
    find_error_words(&body).filter(|_| !is_answer(&body))
}

/// Returns true if a body is a whole response of one of the protocols.
fn is_answer(body: &[u8]) -> bool {
    let mut answers = false;
    let read = Cursor::from_bytes(body).and_then(|mut cursor| {
        cursor.read_members(|cursor, member| {
            let lists = cursor.peek()? == Kind::Array;
            answers |= lists && matches!(&*member.key.unescape(), "choices" | "content" | "output");
            Ok::<_, Error>(())
        })
    });
    read.is_ok() && answers
}

async fn peek_error(response: &mut UpstreamResponse) -> Vec<u8> {
    // What came within the time stays in the body.
    let _ = timeout(PATIENCE, response.peek_start(ERROR, |_| false)).await;
    response.peek_start(0, |_| true).await
}

/// Returns a remark of the ledger with the reason behind it.
pub(super) fn explain_remark(remark: &str, why: &str) -> String {
    let why: String = why.chars().take(QUOTED).collect();
    if remark.is_empty() { why } else { format!("{remark}: {why}") }
}

/// Returns whether these first bytes of a body begin a stream of events; `None` if they do not tell.
fn begins_stream(start: &[u8]) -> Option<bool> {
    const FIELDS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    if FIELDS.iter().any(|field| start.starts_with(field)) {
        return Some(true);
    }
    let may_become = FIELDS.iter().any(|field| field.starts_with(start));
    (!may_become).then_some(false)
}

/// Returns true if the response is compressed, although `identity` was requested.
pub(super) fn is_packed(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity")
}

fn is_event_stream(kind: &http::HeaderValue) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    kind.as_bytes().get(..KIND.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}

#[cfg(test)]
mod tests {
    use super::begins_stream;

    #[test]
    fn c153_the_first_bytes_tell_a_stream() {
        for (start, wanted) in [
            ("data: {}", Some(true)),
            ("\n\r\n event: ping\n", Some(true)),
            (": alive\n", Some(true)),
            ("id:1\n", Some(true)),
            ("\u{feff}data:", Some(true)),
            ("da", None),
            ("", None),
            (" \n", None),
            ("{\"id\":1}", Some(false)),
            ("[", Some(false)),
            ("<html>", Some(false)),
            ("date: 1", Some(false)),
            ("error", Some(false)),
        ] {
            assert_eq!(begins_stream(start.as_bytes()), wanted, "{start:?}");
        }
    }
}
