//! The beginning of a response's body, read ahead of the body.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::UpstreamResponse;
use crate::body::CutReason;

type FrameResult = Result<Frame<Bytes>, CutReason>;

/// A response's body, of which some frames may have been read ahead.
pub(super) struct PeekedBody {
    ahead: VecDeque<FrameResult>,
    body: Pin<Box<dyn HttpBody<Data = Bytes, Error = CutReason> + Send>>,
}

impl PeekedBody {
    pub(super) fn new(
        body: impl HttpBody<Data = Bytes, Error = CutReason> + Send + 'static,
    ) -> Self {
        Self { ahead: VecDeque::new(), body: Box::pin(body) }
    }

    /// Returns the number of bytes that were read ahead.
    fn count_ahead(&self) -> usize {
        self.ahead.iter().flatten().filter_map(Frame::data_ref).map(Bytes::len).sum()
    }
}

impl HttpBody for PeekedBody {
    type Data = Bytes;
    type Error = CutReason;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        match self.ahead.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, ahead) = (self.body.size_hint(), self.count_ahead() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            whole.set_upper(upper.saturating_add(ahead));
        }
        whole
    }
}

impl UpstreamResponse {
    /// Reads ahead until `enough` holds for the bytes so far, the body ends, or `limit` bytes are
    /// there, and returns them. They stay in the body. Cancel safe.
    pub(crate) async fn peek_start(
        &mut self,
        limit: usize,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Vec<u8> {
        let mut start = Vec::new();
        for frame in self.body.ahead.iter().flatten() {
            start.extend_from_slice(frame.data_ref().map_or(&[][..], |bytes| bytes));
        }
        while start.len() < limit && !enough(&start) {
            let Some(frame) = self.body.body.frame().await else { break };
            let failed = frame.is_err();
            if let Some(bytes) = frame.as_ref().ok().and_then(Frame::data_ref) {
                start.extend_from_slice(bytes);
            }
            self.body.ahead.push_back(frame);
            if failed {
                break;
            }
        }
        start
    }
}
