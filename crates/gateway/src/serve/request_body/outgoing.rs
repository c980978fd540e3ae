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
pub(crate) struct OutgoingBody(OutgoingKind);

enum OutgoingKind {
    Whole(Bytes),
    Stream(Box<ClientStream>),
}

/// A client's body that is being passed on.
struct ClientStream {
    incoming: Incoming,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
    progress: UploadProgress,
}

/// The progress of an upload, for the code that waits for the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadProgress(Arc<AtomicU64>);

impl UploadProgress {
    /// Returns the number of pieces sent so far.
    pub(crate) fn piece_count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl OutgoingBody {
    /// Streams a client's body as it arrives, with a limit on the time between two pieces.
    pub(crate) fn from_incoming(incoming: Incoming, pause: Duration) -> Self {
        if incoming.is_end_stream() {
            return Self(OutgoingKind::Whole(Bytes::new()));
        }
        let timer = Box::pin(tokio::time::sleep(pause));
        let progress = UploadProgress::default();
        Self(OutgoingKind::Stream(Box::new(ClientStream {
            incoming,
            pause,
            timer,
            waiting: false,
            progress,
        })))
    }

    /// Returns the progress of the upload; `None` if the body is complete already.
    pub(crate) fn upload_progress(&self) -> Option<UploadProgress> {
        match &self.0 {
            OutgoingKind::Whole(_) => None,
            OutgoingKind::Stream(stream) => Some(stream.progress.clone()),
        }
    }
}

impl From<Bytes> for OutgoingBody {
    fn from(bytes: Bytes) -> Self {
        Self(OutgoingKind::Whole(bytes))
    }
}

impl HttpBody for OutgoingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            OutgoingKind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            OutgoingKind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            OutgoingKind::Stream(stream) => stream.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            OutgoingKind::Whole(bytes) => bytes.is_empty(),
            OutgoingKind::Stream(stream) => stream.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            OutgoingKind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            OutgoingKind::Stream(stream) => stream.incoming.size_hint(),
        }
    }
}

impl ClientStream {
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
