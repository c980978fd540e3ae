//! Events in a client's stream beside its message: signs of life, and the error behind which
//! nothing comes. The caller knows when either is due.

use softland_wire::Api;
use softland_wire::chat::Event as Chunk;
use softland_wire::responses::{Event, EventKind, Phase};
use softland_wire::sse::Decoder;

use std::collections::BTreeSet;
use std::sync::Arc;

use softland_core::policy::Policy;
use softland_core::{Digest, PinnedRecord, Role, Run};
use softland_wire::Tokens;

use super::Exchange;
use crate::framing::StreamTerms;
use crate::local;
use crate::out::Output;
use crate::protocols::new_framing;
use crate::relay::Relay;

impl Exchange {
    /// Ends a stream that has no other end with the protocol's error event, unless the bytes in
    /// `out` hold such an event already. Half an event in `out` is taken back: it would swallow
    /// what follows.
    pub fn end_with_error_event(&mut self, why: &str, out: &mut Output) {
        if contains_error(self.reading.api(), &out.bytes) {
            return;
        }
        out.bytes.truncate(after_last_event(&out.bytes));
        self.relay.framing_mut().write_error(
            server_fault_kind(self.reading.api()),
            why,
            &mut out.bytes,
        );
    }
}

/// Returns a sign of life for a stream that has begun.
#[must_use]
pub fn ping_event(api: Api) -> Vec<u8> {
    let mut out = Vec::new();
    (new_framing(api, StreamTerms::default()).form().write_ping)(&mut out);
    out
}

/// Returns the error event of a stream of which nothing else was written.
#[must_use]
pub fn error_event(api: Api, kind: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    new_framing(api, StreamTerms::default()).write_error(kind, message, &mut out);
    out
}

/// Returns a whole response, streamed or not, that answers `text` to a request which softland
/// cannot read. `model` is the name in the request, as far as it is known; `at` is the time, in
/// seconds since 1970.
#[must_use]
pub fn local_response(api: Api, streams: bool, model: &str, text: &str, at: u64) -> Vec<u8> {
    let pinned = PinnedRecord::new(Arc::new(Policy::default()));
    let run = Arc::new(Run::without_limits(pinned, Role::Gateway));
    let framing = new_framing(api, StreamTerms { at, ..StreamTerms::default() });
    let mut relay = Relay::new(framing, Role::Gateway, streams, run, BTreeSet::new());
    let mut out = Output::bytes_only();
    let digest =
        Digest::from_bytes(text.as_bytes()).followed_by(Digest::from_bytes(&at.to_le_bytes()));
    let id = format!("{}{digest}", local::id_prefix(api));
    relay.close_local((&id, model), text, Tokens::default(), &[], &mut out);
    out.bytes
}

/// Returns an API's type of errors that are nobody's fault but the server's.
const fn server_fault_kind(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "api_error",
        Api::Chat | Api::Responses => "server_error",
    }
}

/// True if one of these events is the protocol's error.
fn contains_error(api: Api, bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(bytes.len());
    decoder.push(bytes);
    decoder.finish();
    while let Some(Ok(frame)) = decoder.next() {
        let told = match api {
            Api::Anthropic => frame.event == "error",
            Api::Chat => Chunk::from_data(frame.event, &frame.data)
                .is_ok_and(|event| matches!(event, Chunk::Chunk(chunk) if chunk.error.is_some())),
            Api::Responses => Event::from_data(frame.event, &frame.data)
                .is_ok_and(|event| is_failure(&event.kind)),
        };
        if told {
            return true;
        }
    }
    false
}

fn is_failure(event: &EventKind<'_>) -> bool {
    match event {
        EventKind::Error(_) => true,
        EventKind::Response { phase, .. } => *phase == Phase::Failed,
        _ => false,
    }
}

/// Returns the offset behind the last whole event. The bytes before these ended with a whole event.
fn after_last_event(bytes: &[u8]) -> usize {
    let ends = |end: &[u8]| bytes.windows(end.len()).rposition(|at| at == end);
    let of = |end: &[u8]| ends(end).map_or(0, |at| at + end.len());
    of(b"\n\n").max(of(b"\r\n\r\n")).max(of(b"\r\r"))
}
