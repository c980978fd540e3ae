//! Drives one exchange over a transport: sends its requests and feeds it the responses until it is
//! done.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use softland_session::core::lease::Amount;
use softland_session::core::{
    Because, Ended, Failure, Limit, Millis, Outcome, Phase, Reason, Run, Used,
};
use softland_session::wire::Tokens;
use softland_session::{Done, Event as Shown, Exchange, Out, Step, Unfinished};
use tokio::time::{Instant, sleep, sleep_until};

use super::kept::Taken;
use super::purse::Held;
use super::{UnderWay, emit, form};
use crate::event::EventKind;
use crate::http::retry::{self, Jitter, RetryPolicy};
use crate::http::{Request, Response, ResponseHead, TransportError};
use crate::journal::{CameTo, JournalError};

/// The largest answer that is read, in bytes, streamed or not.
pub(super) const MAX_BODY: usize = 64 << 20;

/// An exchange that has ended.
pub(super) struct Driven {
    pub(super) done: Done,
    /// The last failure, if any.
    pub(super) failure: Option<String>,
}

/// The outcome of one attempt.
pub(super) enum Attempt {
    /// The exchange has taken a turn.
    Taken,
    /// The attempt failed; another attempt may succeed.
    Failed(Problem),
    /// The time for exploring is over: the run has used this much time.
    Expired(Millis),
    /// Too little is left of a limit for the request.
    Short(Because),
    Cancelled,
}

/// The step that follows a request.
pub(super) enum Next {
    Done(Attempt),
    /// Sends the request again, after this delay if it was sent just now.
    Again(Option<Duration>),
}

/// The error of a failed attempt.
pub(super) enum Problem {
    Status(u16, ResponseHead, String),
    Transport(TransportError),
    /// A response that was cut off, was garbage, or had an error in the middle of the stream.
    Stream {
        message: String,
        again: bool,
    },
    /// A failure that the journal recorded, with its message.
    Recorded(String),
    Journal(JournalError),
}

impl Problem {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Recorded(message) => message.clone(),
            Self::Journal(error) => error.to_string(),
            Self::Status(_, _, message) => message.clone(),
            Self::Transport(error) => error.to_string(),
            Self::Stream { message, .. } => message.clone(),
        }
    }
}

/// The number of retries so far, and the jitter of their delays.
struct Patience {
    retry: u32,
    jitter: Jitter,
}

impl Patience {
    /// Returns the delay before the next attempt; `None` if there is none.
    fn delay(&mut self, policy: &RetryPolicy, problem: &Problem) -> Option<Duration> {
        let delay = policy.next_delay(self.retry, problem.failure()?, self.jitter.draw());
        self.retry += 1;
        delay
    }
}

/// The head of a response that broke off.
static NO_HEAD: ResponseHead =
    ResponseHead { content_type: None, request_id: None, retry_after: None, should_retry: None };

impl Problem {
    /// Returns the failure as the retry policy sees it; `None` if it is not retried.
    fn failure(&self) -> Option<retry::Failure<'_>> {
        match self {
            Self::Status(status, head, _) => Some(retry::Failure::Status(*status, head)),
            Self::Transport(error) => Some(retry::Failure::Transport(error)),
            Self::Stream { again: true, .. } => Some(retry::Failure::Status(529, &NO_HEAD)),
            Self::Stream { .. } | Self::Recorded(_) | Self::Journal(_) => None,
        }
    }
}

impl Driven {
    /// Returns the end of an exchange that could not begin, which is a fault of softland.
    pub(super) fn ours(error: &dyn std::error::Error) -> Self {
        let done = Done {
            ended: Some(Ended::plain(Outcome::Failed, Reason::Provider)),
            answer: None,
            local: false,
            calls: Vec::new(),
            messages: Vec::new(),
            records: Default::default(),
            spent: Tokens::default(),
            used: Used::default(),
            tool_refusals: 0,
            vain: false,
            tail: None,
            seen: Vec::new(),
            shown: None,
        };
        Self { done, failure: Some(format!("internal error: {error}")) }
    }
}

impl UnderWay<'_> {
    /// Drives an exchange to its end.
    pub(super) async fn drive(&mut self, mut exchange: Exchange) -> Driven {
        let mut failure = None;
        loop {
            let body = match exchange.step() {
                Step::Done(done) => return Driven { done: *done, failure },
                Step::Send(body) => body,
            };
            let mut out = Out::default();
            let attempt = self.request_turn(&mut exchange, body).await;
            if let Some(error) = self.journal.failure() {
                return Driven::ours(&error);
            }
            match attempt {
                Attempt::Taken => {}
                Attempt::Failed(problem) => {
                    failure = Some(problem.message());
                    exchange.fail(Failure::Provider, &mut out);
                }
                Attempt::Cancelled => exchange.fail(Failure::Cancelled, &mut out),
                Attempt::Expired(elapsed) => match self.time_is_up(exchange.run(), elapsed) {
                    Some(because) => exchange.expire(because, &mut out),
                    None => exchange.fail(Failure::Provider, &mut out),
                },
                Attempt::Short(because) if *exchange.run().phase() == Phase::Open => {
                    exchange.expire(because, &mut out);
                }
                Attempt::Short(_) => exchange.fail(Failure::Provider, &mut out),
            }
            self.tell(out);
        }
    }

    /// Sends one request, and sends it again as long as that may help and no part of an answer was
    /// shown.
    async fn request_turn(&mut self, exchange: &mut Exchange, body: Bytes) -> Attempt {
        let deadline = self.deadline(exchange);
        let mut patience = Patience { retry: 0, jitter: Jitter::random() };
        loop {
            self.nth += 1;
            let delay = match self.next(exchange, &body, deadline, &mut patience).await {
                Ok(Next::Done(attempt)) => return attempt,
                Ok(Next::Again(delay)) => delay,
                Err(error) => return Attempt::Failed(Problem::Journal(error)),
            };
            let Some(delay) = delay else { continue };
            let ended = tokio::select! {
                biased;
                () = self.cancel.cancelled() => CameTo::Cancelled,
                () = until(deadline) => CameTo::Expired,
                () = sleep(delay) => continue,
            };
            self.nth += 1;
            return self.unsent(ended);
        }
    }

    /// Takes the recorded outcome of a request, or sends it. In both cases its worst case is leased
    /// and its real cost is booked.
    async fn next(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
        deadline: Option<Instant>,
        patience: &mut Patience,
    ) -> Result<Next, JournalError> {
        if self.journal.was_unsent(self.turn, self.nth)
            && let Some(next) = self.recorded(exchange, body)?
        {
            return Ok(next);
        }
        if let Some(because) = self.journal.was_short(self.turn, self.nth) {
            return Ok(Next::Done(Attempt::Short(because)));
        }
        let known = self.journal.granted(self.turn, self.nth).is_some();
        if !known {
            self.journal.caught_up().await;
        }
        let leased = if known {
            // A recorded grant needs no waiting.
            self.lease(exchange, body).await
        } else if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(Next::Done(self.unsent(CameTo::Expired)));
        } else {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Ok(Next::Done(self.unsent(CameTo::Cancelled)));
                }
                () = until(deadline) => return Ok(Next::Done(self.unsent(CameTo::Expired))),
                leased = self.lease(exchange, body) => leased,
            }
        };
        let (held, body) = match leased {
            Ok(leased) => leased,
            Err(because) if because.reason == Reason::Time => {
                return Ok(Next::Done(self.unsent(CameTo::Expired)));
            }
            Err(because) => {
                self.journal.short(self.turn, self.nth, &because)?;
                return Ok(Next::Done(Attempt::Short(because)));
            }
        };
        let before = self.meter.own();
        let next = match self.recorded(exchange, &body)? {
            Some(next) => next,
            None => self.send(exchange, &body, deadline, patience).await?,
        };
        self.book(held, before, &next, exchange);
        Ok(next)
    }

    /// Books the cost of a request. A request that was given up is booked as far as its response
    /// came, or with its input if no head came.
    fn book(&self, mut held: Held, before: Amount, next: &Next, exchange: &Exchange) {
        let given_up = matches!(next, Next::Done(Attempt::Cancelled | Attempt::Expired(_)));
        if !given_up {
            return held.settle(self.meter.own().less(before));
        }
        let so_far = exchange.so_far();
        if so_far != Tokens::default() {
            held.received(self.meter.amount(&so_far));
        }
    }

    /// Sends a request and returns the step that follows.
    async fn send(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
        deadline: Option<Instant>,
        patience: &mut Patience,
    ) -> Result<Next, JournalError> {
        self.asks(body)?;
        let mut taken = Taken::new(self.journal.keeps());
        let attempt = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Attempt::Cancelled,
            () = until(deadline) => Attempt::Expired(self.meter.elapsed()),
            attempt = attempt(
                self.agent, exchange, body.clone(), &mut self.emit, &mut self.meter, &mut taken,
            ) => attempt,
        };
        let delay = match &attempt {
            Attempt::Failed(problem) if !exchange.has_shown() => {
                patience.delay(&self.agent.options.retry, problem)
            }
            _ => None,
        };
        self.came(taken, &attempt, delay.is_some())?;
        let Some(delay) = delay else { return Ok(Next::Done(attempt)) };
        self.again(exchange);
        Ok(Next::Again(Some(delay)))
    }

    /// Returns the deadline of the current request; a landing has the whole time limit.
    fn deadline(&self, exchange: &Exchange) -> Option<Instant> {
        match (exchange.rung(), exchange.run().phase()) {
            (None, Phase::Open) => self.exploring_ends(),
            _ => self.meter.purse.until(),
        }
    }

    /// Returns the end of the run's time, without what is reserved for its answer.
    pub(super) fn exploring_ends(&self) -> Option<Instant> {
        self.meter.purse.exploring_until()
    }

    fn time_is_up(&self, run: &Run, elapsed: Millis) -> Option<Because> {
        let limit = self.setup.policy.time_limit?;
        (*run.phase() == Phase::Open).then_some(Because::new(
            Reason::Time,
            Limit::Time(elapsed),
            Limit::Time(limit),
        ))
    }

    /// Emits the events of an exchange.
    pub(super) fn tell(&mut self, out: Out) {
        self.tell_of(out, 0);
    }

    /// Emits the events of an exchange whose request had `request_bytes` bytes.
    pub(super) fn tell_of(&mut self, out: Out, request_bytes: usize) {
        for shown in out.events {
            tell(shown, request_bytes, &mut self.emit, &mut self.meter);
        }
    }
}

/// Emits one event and counts usage.
fn tell(
    shown: Shown,
    request_bytes: usize,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
) {
    if let Shown::Usage(tokens) = &shown {
        if tokens.is_unsaid() {
            return;
        }
        let cost = meter.add(*tokens, request_bytes);
        let request_id = emit.request_id.take();
        emit.send(EventKind::Usage {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cost_usd: cost.map(softland_session::core::NanoUsd::dollars),
            request_id,
        });
    } else if let Some(kind) = emit::kind(shown) {
        emit.send(kind);
    }
}

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Sends one request and feeds the response to the exchange.
async fn attempt(
    agent: &super::Agent,
    exchange: &mut Exchange,
    body: Bytes,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
    taken: &mut Taken,
) -> Attempt {
    let bytes = body.len();
    let form = form::of(agent.options.api);
    let request = Request { path: form.path(), headers: Vec::new(), body };
    let response = match agent.transport.send(request).await {
        Ok(response) => response,
        Err(error) => return Attempt::Failed(Problem::Transport(error)),
    };
    if !(200..300).contains(&response.status) {
        taken.ended = CameTo::Refused;
        return Attempt::Failed(refused(form, response).await);
    }
    taken.request_id.clone_from(&response.head.request_id);
    emit.request_id.clone_from(&response.head.request_id);
    let streamed = response.head.content_type.as_deref().is_none_or(is_event_stream);
    let mut tell_all = |out: Out| {
        for shown in out.events {
            tell(shown, bytes, emit, meter);
        }
    };
    let mut out = Out::default();
    (taken.ended, taken.streamed) = (CameTo::Broken, streamed);
    let read = if streamed {
        stream(exchange, response, &mut tell_all, taken).await
    } else {
        match response.read(MAX_BODY).await {
            Ok(body) => {
                taken.ended = CameTo::Whole;
                taken.keep(&body);
                exchange
                    .whole(&body, &mut out)
                    .map_err(|error| Problem::Stream { message: error.to_string(), again: false })
            }
            Err(error) => Err(Problem::Transport(error)),
        }
    };
    tell_all(out);
    match read {
        Ok(()) => Attempt::Taken,
        Err(problem) => Attempt::Failed(problem),
    }
}

fn is_event_stream(content_type: &str) -> bool {
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

async fn refused(form: &dyn form::Form, response: Response) -> Problem {
    let (status, head) = (response.status, response.head.clone());
    let body = response.read(MAX_BODY).await.unwrap_or_default();
    Problem::Status(status, head, form.refusal(status, &body))
}

async fn stream(
    exchange: &mut Exchange,
    mut response: Response,
    tell: &mut (dyn FnMut(Out) + Send),
    taken: &mut Taken,
) -> Result<(), Problem> {
    let garbage = |message: String| Problem::Stream { message, again: false };
    while let Some(chunk) = response.body.next().await {
        let mut out = Out::default();
        let pushed = match chunk {
            Ok(chunk) => {
                if !taken.keep(&chunk) {
                    taken.ended = CameTo::Unread;
                    return Err(garbage(format!("the answer is larger than {MAX_BODY} bytes")));
                }
                exchange.push(&chunk, &mut out)
            }
            Err(error) => {
                // Received data is counted. If the response was complete, nothing is lost.
                let finished = exchange.finish(&mut out);
                tell(out);
                return finished.map_err(|_| Problem::Transport(error));
            }
        };
        tell(out);
        if let Err(error) = pushed {
            taken.ended = CameTo::Unread;
            return Err(garbage(error.to_string()));
        }
    }
    taken.ended = CameTo::Whole;
    let mut out = Out::default();
    let finished = exchange.finish(&mut out);
    tell(out);
    finished.map_err(|unfinished| match unfinished {
        Unfinished::Unreadable(_) | Unfinished::Foreign => garbage(unfinished.to_string()),
        Unfinished::Cut | Unfinished::Error { .. } => {
            Problem::Stream { message: unfinished.to_string(), again: true }
        }
    })
}
