//! Bodies of responses to clients ([`Body`]) and of requests to upstreams ([`Outgoing`]), and
//! reading of a whole request body within bounds ([`read`]).
//!
//! Nothing here is buffered without a bound: a slow reader slows its writer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use crate::metrics::RequestTicket;

mod budget;
mod outgoing;
mod read;

pub(crate) use budget::{BodyBudget, BudgetShare};
pub(crate) use outgoing::{OutgoingBody, UploadProgress};
pub(crate) use read::{BodyError, ReadBody, read_body};

/// The body of a response to a client.
pub(crate) struct Body {
    inner: BodyKind,
    /// The metrics of the request, which end with the body.
    ticket: Option<Box<RequestTicket>>,
}

enum BodyKind {
    Whole(Bytes),
    Channel { pieces: mpsc::Receiver<Bytes>, finished: Arc<AtomicBool> },
    Upstream(UpstreamRelay),
}

impl Body {
    /// Creates a body of bytes that exist already.
    pub(crate) fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self { inner: BodyKind::Whole(bytes.into()), ticket: None }
    }

    /// Creates a body that a [`Sender`] writes, at most `capacity` pieces ahead of the client.
    pub(crate) fn channel(capacity: usize) -> (BodySender, Self) {
        let (sender, pieces) = mpsc::channel(capacity.max(1));
        let finished = Arc::new(AtomicBool::new(false));
        let inner = BodyKind::Channel { pieces, finished: Arc::clone(&finished) };
        (BodySender { pieces: sender, finished }, Self { inner, ticket: None })
    }

    /// Creates a body that passes an upstream's bytes on as they arrive.
    pub(crate) fn from_upstream(relay: UpstreamRelay) -> Self {
        Self { inner: BodyKind::Upstream(relay), ticket: None }
    }

    /// Returns true if the body is sent in pieces.
    pub(crate) fn is_stream(&self) -> bool {
        !matches!(self.inner, BodyKind::Whole(_))
    }

    /// Returns the bytes of a body that exists already.
    #[cfg(test)]
    pub(crate) fn as_bytes(&self) -> Option<&Bytes> {
        if let BodyKind::Whole(bytes) = &self.inner { Some(bytes) } else { None }
    }

    /// Attaches the metrics of the request, so that they end with this body.
    pub(crate) fn attach_ticket(&mut self, mut ticket: Box<RequestTicket>) {
        if self.is_end_stream() {
            ticket.mark_complete();
        }
        self.ticket = Some(ticket);
    }

    /// Counts a frame. A reader that knows the length does not poll for the end.
    fn update_ticket(&mut self, frame: &Option<Result<Frame<Bytes>, CutReason>>) {
        let last = frame.is_none() || self.is_end_stream();
        let Some(ticket) = &mut self.ticket else { return };
        match frame {
            Some(Err(cut)) => ticket.mark_cut(cut),
            _ if last => ticket.mark_complete(),
            _ => {}
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_stream() { "Body(stream)" } else { "Body(whole)" })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = CutReason;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        let frame = match &mut self.inner {
            BodyKind::Whole(bytes) if bytes.is_empty() => None,
            BodyKind::Whole(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            BodyKind::Channel { pieces, finished } => match ready!(pieces.poll_recv(cx)) {
                Some(bytes) => Some(Ok(Frame::data(bytes))),
                None if finished.load(Ordering::Acquire) => None,
                None => Some(Err(CutReason::Aborted)),
            },
            BodyKind::Upstream(relay) => ready!(relay.poll_frame(cx)),
        };
        self.update_ticket(&frame);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            BodyKind::Whole(bytes) => bytes.is_empty(),
            BodyKind::Channel { .. } => false,
            BodyKind::Upstream(relay) => relay.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Channel { .. } => SizeHint::default(),
            BodyKind::Upstream(relay) => relay.incoming.size_hint(),
        }
    }
}

/// The reason why a response ended early. The client's connection is broken, as the upstream's was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CutReason {
    /// The upstream's connection broke.
    Upstream(String),
    /// Nothing came from the upstream for this time.
    Idle(Duration),
    /// The writer of the response gave up.
    Aborted,
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(cause) => write!(f, "the upstream's response broke off: {cause}"),
            Self::Idle(after) => write!(f, "nothing came from the upstream for {after:?}"),
            Self::Aborted => f.write_str("the response was given up"),
        }
    }
}

impl std::error::Error for CutReason {}

/// The writing end of [`Body::channel`]. If it is dropped without [`finish`](Self::finish), the
/// client sees a broken connection: half a response must not look complete.
#[derive(Debug)]
pub(crate) struct BodySender {
    pieces: mpsc::Sender<Bytes>,
    finished: Arc<AtomicBool>,
}

/// An error: the client has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientGone;

impl BodySender {
    /// Sends a piece, waiting until there is room.
    ///
    /// # Errors
    /// Returns an error if the client has disconnected.
    pub(crate) async fn send(&self, bytes: Bytes) -> Result<(), ClientGone> {
        if bytes.is_empty() {
            return if self.pieces.is_closed() { Err(ClientGone) } else { Ok(()) };
        }
        self.pieces.send(bytes).await.map_err(|_| ClientGone)
    }

    /// Resolves when the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.pieces.closed().await;
    }

    /// Ends the body cleanly.
    pub(crate) fn finish(self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Breaks the client's connection after what was sent. Dropping does the same; this call makes
    /// it visible.
    pub(crate) fn abort(self) {
        drop(self);
    }
}

/// An upstream's response body, with a limit on the time between two pieces.
#[derive(Debug)]
pub(crate) struct UpstreamRelay {
    incoming: Incoming,
    idle: Duration,
    /// Runs while the relay waits for a piece.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl UpstreamRelay {
    pub(crate) fn new(incoming: Incoming, idle: Duration) -> Self {
        Self { incoming, idle, timer: None, waiting: false }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.waiting = false;
            let cut =
                |error: hyper::Error| CutReason::Upstream(crate::upstream::join_causes(&error));
            return Poll::Ready(frame.map(|frame| frame.map_err(cut)));
        }
        let deadline = |idle| Instant::now() + idle;
        let timer = match &mut self.timer {
            None => self.timer.insert(Box::pin(tokio::time::sleep(self.idle))),
            Some(timer) => {
                if !self.waiting {
                    timer.as_mut().reset(deadline(self.idle));
                }
                timer
            }
        };
        self.waiting = true;
        ready!(timer.as_mut().poll(cx));
        self.waiting = false;
        Poll::Ready(Some(Err(CutReason::Idle(self.idle))))
    }
}

#[cfg(test)]
mod tests;
