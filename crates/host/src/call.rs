//! One request, step by step.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use softland_govern::{Body, is_failure};
use tokio::runtime::Runtime;

use crate::governor::GovernorInner;
use crate::link::{Link, Wish};

/// The next step of a request.
#[derive(Debug)]
pub enum Step {
    /// Send this request, then call [`Call::respond`] or [`Call::fail`].
    Send(Outgoing),
    /// The head of the client's response, whose body streams. Call [`Call::advance`] for its bytes.
    Head(StatusCode, HeaderMap),
    /// The client's whole response.
    Answer {
        /// The status.
        status: StatusCode,
        /// The headers, without a length.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
        /// True if the request failed upstream: what the transport raised says it better.
        failed: bool,
    },
    /// Pass these bytes on, if there are any, read more of the upstream's response, and call
    /// [`Call::push`], [`Call::finish`] or [`Call::fail`].
    Read(Bytes),
    /// Pass these bytes on, and call [`Call::advance`].
    Give(Bytes),
    /// Pass these bytes on. The response is complete, or has broken off.
    End {
        /// The last bytes.
        bytes: Bytes,
        /// True if the response has broken off.
        broken: bool,
    },
    /// Nothing can be done now: call [`Call::advance`] again in a while.
    Wait,
}

/// A request to the upstream.
#[derive(Debug)]
pub struct Outgoing {
    /// The body.
    pub body: Bytes,
    /// The path from `/v1/` on, with its query.
    pub path: String,
    /// The time until the run's deadline.
    pub time_left: Option<Duration>,
}

/// A client's request while it is being answered. Dropping it gives it up, and books what came.
pub struct Call {
    stage: Stage,
    /// Bytes for the client that were not given yet.
    out: BytesMut,
    link: Arc<Link>,
    runtime: Option<Runtime>,
    governor: Arc<GovernorInner>,
}

type Making = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

enum Stage {
    /// The response is being made.
    Making(Making),
    /// The response's body arrives. Its head was not given yet if it is still here.
    Body(Option<Box<http::response::Parts>>, Body),
    /// It has ended.
    Over,
}

/// The number of times that governing's tasks are run before a step counts as a wait.
const TRIES: u32 = 4;

impl Call {
    pub(crate) fn new(
        governor: Arc<GovernorInner>,
        runtime: Runtime,
        link: Arc<Link>,
        making: impl Future<Output = Response<Body>> + Send + 'static,
    ) -> Self {
        let stage = Stage::Making(Box::pin(making));
        Self { stage, out: BytesMut::new(), link, runtime: Some(runtime), governor }
    }

    /// Returns the next step. With `waits`, it waits until there is one that is not
    /// [`Step::Wait`]: for money that other requests hold, for instance.
    pub fn advance(&mut self, waits: bool) -> Step {
        let Some(runtime) = self.runtime.take() else {
            return Step::End { bytes: Bytes::new(), broken: false };
        };
        let mut tries = TRIES;
        let step = runtime.block_on(poll_fn(|cx| self.poll_step(cx, &mut tries, waits)));
        match step {
            Step::End { .. } | Step::Answer { .. } => {
                self.stage = Stage::Over;
                self.governor.runtimes.give_back(runtime);
            }
            _ => self.runtime = Some(runtime),
        }
        step
    }

    /// Takes the upstream's response: its head, and its whole body unless that is to be read in
    /// pieces.
    pub fn respond(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
        body: Option<Bytes>,
        waits: bool,
    ) -> Step {
        self.link.give_head(status, headers, body);
        self.advance(waits)
    }

    /// Takes the next bytes of the upstream's response.
    pub fn push(&mut self, bytes: Bytes, waits: bool) -> Step {
        self.link.give_bytes(bytes);
        self.advance(waits)
    }

    /// Notes the end of the upstream's response.
    pub fn finish(&mut self, waits: bool) -> Step {
        self.link.give_end();
        self.advance(waits)
    }

    /// Notes that the upstream's response does not come, or broke off. `is_late` says that the
    /// provider has the whole request and did not answer in time.
    pub fn fail(&mut self, message: &str, is_late: bool, waits: bool) -> Step {
        self.link.give_failure(message, is_late);
        self.advance(waits)
    }

    /// Returns the time that is left for the running upstream request, if it has a deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.link.time_left()
    }

    fn poll_step(&mut self, cx: &mut Context<'_>, tries: &mut u32, waits: bool) -> Poll<Step> {
        loop {
            match &mut self.stage {
                Stage::Over => return Poll::Ready(self.end(false)),
                Stage::Making(making) => match making.as_mut().poll(cx) {
                    Poll::Ready(response) => {
                        let (head, body) = response.into_parts();
                        self.stage = Stage::Body(Some(Box::new(head)), body);
                    }
                    Poll::Pending => return self.poll_wish(cx, tries, waits),
                },
                Stage::Body(head, body) => match Pin::new(body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Ok(bytes) = frame.into_data() {
                            self.out.extend_from_slice(&bytes);
                        }
                    }
                    Poll::Ready(None) => {
                        let head = head.take();
                        return Poll::Ready(match head {
                            Some(head) => self.answer(*head),
                            None => self.end(false),
                        });
                    }
                    Poll::Ready(Some(Err(_))) => {
                        return Poll::Ready(match head.take() {
                            Some(head) => Step::Head(head.status, head.headers),
                            None => self.end(true),
                        });
                    }
                    Poll::Pending => {
                        if let Some(head) = head.take() {
                            return Poll::Ready(Step::Head(head.status, head.headers));
                        }
                        return self.poll_wish(cx, tries, waits);
                    }
                },
            }
        }
    }

    fn poll_wish(&mut self, cx: &Context<'_>, tries: &mut u32, waits: bool) -> Poll<Step> {
        match self.link.poll_wish(cx) {
            Some(Wish::Send { body, path }) if self.out.is_empty() => {
                let time_left = self.link.time_left();
                return Poll::Ready(Step::Send(Outgoing { body, path, time_left }));
            }
            Some(send @ Wish::Send { .. }) => {
                // What belongs to the response before it goes first.
                self.link.put_back(send);
                return Poll::Ready(Step::Give(self.take_out()));
            }
            Some(Wish::Read) => return Poll::Ready(Step::Read(self.take_out())),
            None => {}
        }
        if *tries > 0 {
            *tries -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !self.out.is_empty() {
            return Poll::Ready(Step::Give(self.take_out()));
        }
        if waits { Poll::Pending } else { Poll::Ready(Step::Wait) }
    }

    fn answer(&mut self, head: http::response::Parts) -> Step {
        let failed = is_failure(&head.extensions);
        let (status, headers) = (head.status, head.headers);
        Step::Answer { status, headers, body: self.take_out(), failed }
    }

    fn end(&mut self, broken: bool) -> Step {
        Step::End { bytes: self.take_out(), broken }
    }

    fn take_out(&mut self) -> Bytes {
        self.out.split().freeze()
    }
}

impl Drop for Call {
    /// Gives the request up. What is dropped books what came.
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        {
            let _context = runtime.enter();
            self.stage = Stage::Over;
        }
        self.governor.runtimes.give_back(runtime);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
