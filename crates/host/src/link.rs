//! The way to the upstream as a program walks it: governing asks, the program does what was asked
//! and tells what came of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame};
use softland_govern::{CutReason, Transport, TransportError, UpstreamRequest, UpstreamResponse};

/// A wish of governing.
#[derive(Debug)]
pub(crate) enum Wish {
    /// To send this body to this path.
    Send { body: Bytes, path: String },
    /// To read the next bytes of the response.
    Read,
}

/// The link between governing and the program that carries out its wishes.
#[derive(Debug, Default)]
pub(crate) struct Link(Mutex<LinkState>);

#[derive(Debug, Default)]
struct LinkState {
    /// The number of the newest request; what comes for an older one is dropped.
    newest: u64,
    wish: Option<Wish>,
    head: Option<Result<(StatusCode, HeaderMap), TransportError>>,
    pieces: VecDeque<Bytes>,
    /// The end of the response's body.
    end: Option<Result<(), CutReason>>,
    /// True if the head of the newest response was taken.
    has_head: bool,
    deadline: Option<Instant>,
    /// Wakes whoever waits for a head or for bytes.
    waiting: Option<Waker>,
    /// Wakes the program's side.
    driver: Option<Waker>,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the wish of governing, if there is one.
    pub(crate) fn poll_wish(&self, cx: &Context<'_>) -> Option<Wish> {
        let mut state = self.lock();
        state.driver = Some(cx.waker().clone());
        state.wish.take()
    }

    /// Puts a wish back that was taken too early.
    pub(crate) fn put_back(&self, wish: Wish) {
        self.lock().wish = Some(wish);
    }

    /// Returns the time that is left for the running request, if it has a deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.lock().deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Takes the head of the response. A whole body may come with it.
    pub(crate) fn give_head(&self, status: StatusCode, headers: HeaderMap, body: Option<Bytes>) {
        let mut state = self.lock();
        state.head = Some(Ok((status, headers)));
        if let Some(body) = body {
            state.pieces.push_back(body);
            state.end = Some(Ok(()));
        }
        state.wake_waiting();
    }

    /// Takes the next bytes of the response.
    pub(crate) fn give_bytes(&self, bytes: Bytes) {
        let mut state = self.lock();
        state.pieces.push_back(bytes);
        state.wake_waiting();
    }

    /// Notes the end of the response.
    pub(crate) fn give_end(&self) {
        let mut state = self.lock();
        state.end = Some(Ok(()));
        state.wake_waiting();
    }

    /// Notes that the request has failed, before or behind the head of its response. `is_late` says
    /// that the provider has the whole request and did not answer in time.
    pub(crate) fn give_failure(&self, message: &str, is_late: bool) {
        let mut state = self.lock();
        if state.has_head || state.head.is_some() {
            state.end = Some(Err(CutReason::Upstream(message.to_owned())));
        } else {
            let status =
                if is_late { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
            state.head = Some(Err(TransportError { message: message.to_owned(), status, is_late }));
        }
        state.wake_waiting();
    }
}

impl LinkState {
    fn wake_waiting(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    fn set_wish(&mut self, wish: Wish) {
        self.wish = Some(wish);
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Forgets what belongs to the response of an earlier request.
    fn begin_request(&mut self, wish: Wish, deadline: Option<Instant>) -> u64 {
        self.newest += 1;
        (self.head, self.end, self.has_head) = (None, None, false);
        self.pieces.clear();
        self.deadline = deadline;
        self.set_wish(wish);
        self.newest
    }
}

/// The transport of one client request.
#[derive(Debug)]
pub(crate) struct LinkTransport(pub(crate) Arc<Link>);

#[async_trait]
impl Transport for LinkTransport {
    async fn send(&self, request: UpstreamRequest<'_>) -> Result<UpstreamResponse, TransportError> {
        let UpstreamRequest { upstream, path, deadline, body, .. } = request;
        let wish = Wish::Send { body, path: path.as_str().to_owned() };
        let mut answer = LinkBody { link: Arc::clone(&self.0), number: 0 };
        answer.number = self.0.lock().begin_request(wish, deadline);
        let (status, headers) = poll_fn(|cx| answer.poll_head(cx)).await?;
        Ok(UpstreamResponse::new(Arc::clone(upstream), status, headers, answer))
    }

    fn raises_failures(&self) -> bool {
        true
    }
}

/// The body of a response, which the program reads when it is asked to.
struct LinkBody {
    link: Arc<Link>,
    number: u64,
}

impl LinkBody {
    fn poll_head(&self, cx: &Context<'_>) -> Poll<Result<(StatusCode, HeaderMap), TransportError>> {
        let mut state = self.link.lock();
        match state.head.take() {
            Some(head) => {
                state.has_head = head.is_ok();
                Poll::Ready(head)
            }
            None => {
                state.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl HttpBody for LinkBody {
    type Data = Bytes;
    type Error = CutReason;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        let mut state = self.link.lock();
        if let Some(bytes) = state.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match &state.end {
            Some(Ok(())) => return Poll::Ready(None),
            Some(Err(cut)) => return Poll::Ready(Some(Err(cut.clone()))),
            None => {}
        }
        state.waiting = Some(cx.waker().clone());
        state.set_wish(Wish::Read);
        Poll::Pending
    }
}

impl Drop for LinkBody {
    /// Withdraws a wish that nobody waits for any more.
    fn drop(&mut self) {
        let mut state = self.link.lock();
        if state.newest == self.number {
            (state.wish, state.waiting) = (None, None);
        }
    }
}
