//! The body of an upstream's response, as it arrives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use softland_govern::CutReason;
use tokio::time::{Instant, Sleep};

use super::error::join_causes;

/// An upstream's response body, with a limit on the time between two pieces.
#[derive(Debug)]
pub(super) struct UpstreamRelay {
    incoming: Incoming,
    idle: Duration,
    /// Runs while the relay waits for a piece.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl UpstreamRelay {
    pub(super) fn new(incoming: Incoming, idle: Duration) -> Self {
        Self { incoming, idle, timer: None, waiting: false }
    }
}

impl HttpBody for UpstreamRelay {
    type Data = Bytes;
    type Error = CutReason;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) {
            this.waiting = false;
            let cut = |error: hyper::Error| CutReason::Upstream(join_causes(&error));
            return Poll::Ready(frame.map(|frame| frame.map_err(cut)));
        }
        let deadline = |idle| Instant::now() + idle;
        let timer = match &mut this.timer {
            None => this.timer.insert(Box::pin(tokio::time::sleep(this.idle))),
            Some(timer) => {
                if !this.waiting {
                    timer.as_mut().reset(deadline(this.idle));
                }
                timer
            }
        };
        this.waiting = true;
        ready!(timer.as_mut().poll(cx));
        this.waiting = false;
        Poll::Ready(Some(Err(CutReason::Idle(this.idle))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
