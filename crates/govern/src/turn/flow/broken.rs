//! Streams that break off: how a client is told, and when a silent one counts as broken.

use std::time::Duration;

use softland_session::wire::Api;
use tokio::time::{Instant, sleep_until};

use super::GovernedRequest;
use crate::transport::UpstreamResponse;

/// Notices a stream that brings nothing but signs of life.
#[derive(Debug)]
pub(super) struct SilenceWatch {
    limit: Option<Duration>,
    /// The number of events so far, and the time of the last one, at first of the request.
    events: usize,
    since: Instant,
}

impl SilenceWatch {
    pub(super) fn new(response: &UpstreamResponse) -> Self {
        Self { limit: response.silence, events: 0, since: response.silent_since.into() }
    }

    /// Notes how many events have come so far.
    pub(super) fn note_events(&mut self, events: usize) {
        if events != self.events {
            (self.events, self.since) = (events, Instant::now());
        }
    }

    /// Waits until the stream has been silent for too long, and returns that time.
    pub(super) async fn wait_for_silence(&self) -> Duration {
        match self.limit.and_then(|limit| Some((limit, self.since.checked_add(limit)?))) {
            Some((limit, due)) => {
                sleep_until(due).await;
                limit
            }
            None => std::future::pending().await,
        }
    }
}

impl GovernedRequest {
    /// Ends a stream that broke off without an error with the protocol's error event.
    pub(super) fn end_stream_broken(&mut self) {
        if let Some(why) = self.broken.take().filter(|_| self.exchange.is_streaming())
            && !self.record.answered_locally()
        {
            self.exchange.end_with_error_event(&why, &mut self.out);
        }
    }

    /// True if the client's connection is to break, because nothing else ends the stream. Chat
    /// Completions has no error event: clients that try a broken connection again, or a stream
    /// without an end, take one for the provider's last word. Where the transport raises what broke
    /// the stream off, an event would say it twice; it raises nothing if the upstream closed the
    /// stream in order.
    pub(super) fn breaks_connection(&self) -> bool {
        let chat = self.opening.asked.active.api == Api::Chat;
        let raised = self.opening.asked.transport.raises_failures();
        let ends_short = self.cut || (!raised && self.unended);
        let breaks = (chat || raised) && ends_short && !self.record.answered_locally();
        let why = self.broken.as_ref().filter(|_| breaks && self.exchange.is_streaming());
        if let Some(why) = why {
            tracing::warn!(id = %self.opening.target.id, %why, "the client's connection is broken too");
        }
        why.is_some()
    }
}
