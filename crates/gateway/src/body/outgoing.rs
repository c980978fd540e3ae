//! The body of a request to an upstream: complete bytes, or a client's body as it arrives.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::read::BodyError;

/// The body of a request to an upstream.
pub(crate) struct Outgoing(Inner);

enum Inner {
    Whole(Bytes),
    Stream(Box<Stream>),
}

/// A client's body that is being passed on.
struct Stream {
    incoming: Incoming,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
    progress: Progress,
}

/// The progress of an upload, for the code that waits for the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Returns the number of pieces sent so far.
    pub(crate) fn pieces(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Outgoing {
    /// Streams a client's body as it arrives, with a limit on the time between two pieces.
    pub(crate) fn stream(incoming: Incoming, pause: Duration) -> Self {
        if incoming.is_end_stream() {
            return Self(Inner::Whole(Bytes::new()));
        }
        let timer = Box::pin(tokio::time::sleep(pause));
        let progress = Progress::default();
        Self(Inner::Stream(Box::new(Stream { incoming, pause, timer, waiting: false, progress })))
    }

    /// Returns the progress of the upload; `None` if the body is complete already.
    pub(crate) fn progress(&self) -> Option<Progress> {
        match &self.0 {
            Inner::Whole(_) => None,
            Inner::Stream(stream) => Some(stream.progress.clone()),
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Whole(bytes))
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Inner::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Inner::Stream(stream) => stream.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::Stream(stream) => stream.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Stream(stream) => stream.incoming.size_hint(),
        }
    }
}

impl Stream {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.waiting = false;
            self.progress.0.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(frame.map(|frame| frame.map_err(|_| BodyError::Broken)));
        }
        if !self.waiting {
            self.timer.as_mut().reset(Instant::now() + self.pause);
            self.waiting = true;
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Slow { after: self.pause })))
    }
}
