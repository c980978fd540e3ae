//! Bodies of responses to clients: complete, written piece by piece, or passed on.
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
use tokio::sync::mpsc;

/// The body of a response to a client.
pub struct Body {
    inner: BodyKind,
    /// Dropped with the body.
    observer: Option<Box<dyn BodyObserver>>,
}

/// A party that is told how a body ends.
pub trait BodyObserver: Send {
    /// Notes that the body has ended completely.
    fn mark_complete(&mut self);

    /// Notes that the body broke off.
    fn mark_cut(&mut self, cut: &CutReason);
}

/// A body whose bytes come from elsewhere.
type RelayedBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = CutReason> + Send>>;

enum BodyKind {
    Whole(Bytes),
    Channel { pieces: mpsc::Receiver<Bytes>, finished: Arc<AtomicBool> },
    Relayed(RelayedBody),
}

impl Body {
    /// Creates a body of bytes that exist already.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self { inner: BodyKind::Whole(bytes.into()), observer: None }
    }

    /// Creates a body that a [`BodySender`] writes, at most `capacity` pieces ahead of the client.
    pub fn channel(capacity: usize) -> (BodySender, Self) {
        let (sender, pieces) = mpsc::channel(capacity.max(1));
        let finished = Arc::new(AtomicBool::new(false));
        let inner = BodyKind::Channel { pieces, finished: Arc::clone(&finished) };
        (BodySender { pieces: sender, finished }, Self { inner, observer: None })
    }

    /// Creates a body that passes another's bytes on as they arrive.
    pub fn from_relay(
        relay: impl HttpBody<Data = Bytes, Error = CutReason> + Send + 'static,
    ) -> Self {
        Self { inner: BodyKind::Relayed(Box::pin(relay)), observer: None }
    }

    /// Returns true if the body is sent in pieces.
    pub fn is_stream(&self) -> bool {
        !matches!(self.inner, BodyKind::Whole(_))
    }

    /// Attaches an observer, which is told the end of this body.
    pub fn attach_observer(&mut self, mut observer: Box<dyn BodyObserver>) {
        if self.is_end_stream() {
            observer.mark_complete();
        }
        self.observer = Some(observer);
    }

    /// Tells the observer of a frame. A reader that knows the length does not poll for the end.
    fn tell_observer(&mut self, frame: &Option<Result<Frame<Bytes>, CutReason>>) {
        let last = frame.is_none() || self.is_end_stream();
        let Some(observer) = &mut self.observer else { return };
        match frame {
            Some(Err(cut)) => observer.mark_cut(cut),
            _ if last => observer.mark_complete(),
            _ => {}
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::from_bytes(bytes)
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
            BodyKind::Relayed(relay) => ready!(relay.as_mut().poll_frame(cx)),
        };
        self.tell_observer(&frame);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            BodyKind::Whole(bytes) => bytes.is_empty(),
            BodyKind::Channel { .. } => false,
            BodyKind::Relayed(relay) => relay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Channel { .. } => SizeHint::default(),
            BodyKind::Relayed(relay) => relay.size_hint(),
        }
    }
}

/// The reason why a response ended early. The client's connection is broken, as the upstream's was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutReason {
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
pub struct BodySender {
    pieces: mpsc::Sender<Bytes>,
    finished: Arc<AtomicBool>,
}

/// An error: the client has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientGone;

impl BodySender {
    /// Sends a piece, waiting until there is room.
    ///
    /// # Errors
    /// Returns an error if the client has disconnected.
    pub async fn send(&self, bytes: Bytes) -> Result<(), ClientGone> {
        if bytes.is_empty() {
            return if self.pieces.is_closed() { Err(ClientGone) } else { Ok(()) };
        }
        self.pieces.send(bytes).await.map_err(|_| ClientGone)
    }

    /// Resolves when the client has disconnected.
    pub async fn closed(&self) {
        self.pieces.closed().await;
    }

    /// Ends the body cleanly.
    pub fn finish(self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Breaks the client's connection after what was sent. Dropping does the same; this call makes
    /// it visible.
    pub fn abort(self) {
        drop(self);
    }
}

#[cfg(test)]
mod tests;
