//! Drives one exchange over a transport: sends its requests and feeds it the responses until it is
//! done.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use softland_session::core::lease::Amount;
use softland_session::core::{
    Because, Digest, Millis, Outcome, Phase, Quantity, Reason, RequestFailure, Run, RunEnding,
    RunUsage,
};
use softland_session::wire::Tokens;
use softland_session::{Done, Event as Shown, Exchange, Output, Step, UnfinishedResponse};
use tokio::time::{Instant, sleep, sleep_until};

use super::budget::RequestLease;
use super::journaling::ReceivedAnswer;
use super::{ActiveRun, emit, form};
use crate::event::EventKind;
use crate::http::retry::{self, Jitter, RetryPolicy};
use crate::http::{Request, Response, ResponseHead, TransportError};
use crate::journal::{JournalError, ResponseEnd};

/// The largest answer that is read, in bytes, streamed or not.
pub(super) const MAX_BODY: usize = 64 << 20;

/// An exchange that has ended.
pub(super) struct FinishedExchange {
    pub(super) done: Done,
    /// The last failure, if any.
    pub(super) failure: Option<String>,
}

/// The outcome of one attempt.
pub(super) enum AttemptOutcome {
    /// The exchange has taken a turn.
    Taken,
    /// The attempt failed; another attempt may succeed.
    Failed(AttemptError),
    /// The time for exploring is over: the run has used this much time.
    Expired(Millis),
    /// Too little is left of a limit for the request.
    Short(Because),
    Cancelled,
}

/// The step that follows a request.
pub(super) enum NextStep {
    Done(AttemptOutcome),
    /// Sends the request again, after this delay if it was sent just now.
    Again(Option<Duration>),
}

/// The error of a failed attempt.
pub(super) enum AttemptError {
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

impl AttemptError {
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
struct RetryState {
    retry: u32,
    jitter: Jitter,
}

impl RetryState {
    /// Returns the delay before the next attempt; `None` if there is none.
    fn next_delay(&mut self, policy: &RetryPolicy, problem: &AttemptError) -> Option<Duration> {
        let delay =
            policy.next_delay(self.retry, problem.retry_failure()?, self.jitter.next_number());
        self.retry += 1;
        delay
    }
}

/// The head of a response that broke off.
static NO_HEAD: ResponseHead =
    ResponseHead { content_type: None, request_id: None, retry_after: None, should_retry: None };

impl AttemptError {
    /// Returns the failure as the retry policy sees it; `None` if it is not retried.
    fn retry_failure(&self) -> Option<retry::FailedAttempt<'_>> {
        match self {
            Self::Status(status, head, _) => Some(retry::FailedAttempt::Status(*status, head)),
            Self::Transport(error) => Some(retry::FailedAttempt::Transport(error)),
            Self::Stream { again: true, .. } => Some(retry::FailedAttempt::Status(529, &NO_HEAD)),
            Self::Stream { .. } | Self::Recorded(_) | Self::Journal(_) => None,
        }
    }
}

impl FinishedExchange {
    /// Returns the end of an exchange that could not begin, which is a fault of softland.
    pub(super) fn internal_error(error: &dyn std::error::Error) -> Self {
        let done = Done {
            ended: Some(RunEnding::without_limit(Outcome::Failed, Reason::Provider)),
            answer: None,
            local: false,
            calls: Vec::new(),
            sealed: Vec::new(),
            messages: Vec::new(),
            records: Default::default(),
            run: None,
            context: Digest::EMPTY,
            spent: Tokens::default(),
            abandoned: Tokens::default(),
            used: RunUsage::default(),
            tool_refusals: 0,
            vain: false,
            tail: None,
            seen: Vec::new(),
            shown: None,
        };
        Self { done, failure: Some(format!("internal error: {error}")) }
    }
}

impl ActiveRun<'_> {
    /// Drives an exchange to its end.
    pub(super) async fn drive_exchange(&mut self, mut exchange: Exchange) -> FinishedExchange {
        let mut failure = None;
        loop {
            let body = match exchange.next_step() {
                Ok(Step::Done(done)) => return FinishedExchange { done: *done, failure },
                Ok(Step::Send(body)) => body,
                Err(ended) => return FinishedExchange::internal_error(&ended),
            };
            let mut out = Output::default();
            let attempt = self.send_with_retries(&mut exchange, body).await;
            if let Some(error) = self.journal.failure() {
                return FinishedExchange::internal_error(&error);
            }
            match attempt {
                AttemptOutcome::Taken => {}
                AttemptOutcome::Failed(problem) => {
                    failure = Some(problem.message());
                    exchange.fail_request(RequestFailure::Provider, &mut out);
                }
                AttemptOutcome::Cancelled => {
                    exchange.fail_request(RequestFailure::Cancelled, &mut out)
                }
                AttemptOutcome::Expired(elapsed) => {
                    match self.time_limit_reached(exchange.run(), elapsed) {
                        Some(because) => exchange.land_at_limit(because, &mut out),
                        None => exchange.fail_request(RequestFailure::Provider, &mut out),
                    }
                }
                AttemptOutcome::Short(because) if *exchange.run().phase() == Phase::Open => {
                    exchange.land_at_limit(because, &mut out);
                }
                AttemptOutcome::Short(_) => {
                    exchange.fail_request(RequestFailure::Provider, &mut out)
                }
            }
            self.emit_output(out);
        }
    }

    /// Sends one request, and sends it again as long as that may help and no part of an answer was
    /// shown.
    async fn send_with_retries(&mut self, exchange: &mut Exchange, body: Bytes) -> AttemptOutcome {
        let deadline = self.request_deadline(exchange);
        let mut patience = RetryState { retry: 0, jitter: Jitter::random() };
        loop {
            self.nth += 1;
            let delay = match self.resolve_request(exchange, &body, deadline, &mut patience).await {
                Ok(NextStep::Done(attempt)) => return attempt,
                Ok(NextStep::Again(delay)) => delay,
                Err(error) => return AttemptOutcome::Failed(AttemptError::Journal(error)),
            };
            let Some(delay) = delay else { continue };
            let ended = tokio::select! {
                biased;
                () = self.cancel.cancelled() => ResponseEnd::Cancelled,
                () = wait_until(deadline) => ResponseEnd::Expired,
                () = sleep(delay) => continue,
            };
            self.nth += 1;
            return self.record_unsent(ended);
        }
    }

    /// Takes the recorded outcome of a request, or sends it. In both cases its worst case is leased
    /// and its real cost is booked.
    async fn resolve_request(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
        deadline: Option<Instant>,
        patience: &mut RetryState,
    ) -> Result<NextStep, JournalError> {
        if self.journal.was_unsent(self.turn, self.nth)
            && let Some(next) = self.replay_request(exchange, body)?
        {
            return Ok(next);
        }
        if let Some(because) = self.journal.recorded_shortage(self.turn, self.nth) {
            return Ok(NextStep::Done(AttemptOutcome::Short(because)));
        }
        let known = self.journal.granted_output(self.turn, self.nth).is_some();
        if !known {
            self.journal.wait_until_caught_up().await;
        }
        let leased = if known {
            // A recorded grant needs no waiting.
            self.lease_request(exchange, body).await
        } else if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(NextStep::Done(self.record_unsent(ResponseEnd::Expired)));
        } else {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Ok(NextStep::Done(self.record_unsent(ResponseEnd::Cancelled)));
                }
                () = wait_until(deadline) => return Ok(NextStep::Done(self.record_unsent(ResponseEnd::Expired))),
                leased = self.lease_request(exchange, body) => leased,
            }
        };
        let (held, body) = match leased {
            Ok(leased) => leased,
            Err(because) if because.reason == Reason::Time => {
                return Ok(NextStep::Done(self.record_unsent(ResponseEnd::Expired)));
            }
            Err(because) => {
                self.journal.record_shortage(self.turn, self.nth, &because)?;
                return Ok(NextStep::Done(AttemptOutcome::Short(because)));
            }
        };
        let before = self.meter.own_usage();
        let next = match self.replay_request(exchange, &body)? {
            Some(next) => next,
            None => self.send_request(exchange, &body, deadline, patience).await?,
        };
        self.book_cost(held, before, &next, exchange);
        Ok(next)
    }

    /// Books the cost of a request. A request that was given up is booked as far as its response
    /// came, or with its input if no head came.
    fn book_cost(
        &self,
        mut held: RequestLease,
        before: Amount,
        next: &NextStep,
        exchange: &Exchange,
    ) {
        let given_up =
            matches!(next, NextStep::Done(AttemptOutcome::Cancelled | AttemptOutcome::Expired(_)));
        if !given_up {
            return held.settle_cost(self.meter.own_usage().saturating_sub(before));
        }
        let so_far = exchange.tokens_so_far();
        if so_far != Tokens::default() {
            held.note_received(self.meter.amount_of(&so_far));
        }
    }

    /// Sends a request and returns the step that follows.
    async fn send_request(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
        deadline: Option<Instant>,
        patience: &mut RetryState,
    ) -> Result<NextStep, JournalError> {
        let _under_way = self.journal.begin_effect().await;
        self.record_request(body)?;
        self.journal.wait_until_stored().await;
        let mut taken = ReceivedAnswer::new(self.journal.is_recorded());
        let attempt = tokio::select! {
            biased;
            () = self.cancel.cancelled() => AttemptOutcome::Cancelled,
            () = wait_until(deadline) => AttemptOutcome::Expired(self.meter.elapsed()),
            attempt = attempt_request(
                self.agent, exchange, body.clone(), &mut self.emit, &mut self.meter, &mut taken,
            ) => attempt,
        };
        let delay = match &attempt {
            AttemptOutcome::Failed(problem) if !exchange.has_shown() => {
                patience.next_delay(&self.agent.options.retry, problem)
            }
            _ => None,
        };
        self.record_response(taken, &attempt, delay.is_some())?;
        let Some(delay) = delay else { return Ok(NextStep::Done(attempt)) };
        self.restart_answer(exchange);
        Ok(NextStep::Again(Some(delay)))
    }

    /// Returns the deadline of the current request; a landing has the whole time limit.
    fn request_deadline(&self, exchange: &Exchange) -> Option<Instant> {
        match (exchange.rung(), exchange.run().phase()) {
            (None, Phase::Open) => self.exploring_deadline(),
            _ => self.meter.budget.end_deadline(),
        }
    }

    /// Returns the end of the run's time, without what is reserved for its answer.
    pub(super) fn exploring_deadline(&self) -> Option<Instant> {
        self.meter.budget.exploring_deadline()
    }

    fn time_limit_reached(&self, run: &Run, elapsed: Millis) -> Option<Because> {
        let limit = self.setup.policy.time_limit?;
        (*run.phase() == Phase::Open).then_some(Because::new(
            Reason::Time,
            Quantity::Time(elapsed),
            Quantity::Time(limit),
        ))
    }

    /// Emits the events of an exchange.
    pub(super) fn emit_output(&mut self, out: Output) {
        self.emit_output_of(out, 0);
    }

    /// Emits the events of an exchange whose request had `request_bytes` bytes.
    pub(super) fn emit_output_of(&mut self, out: Output, request_bytes: usize) {
        for shown in out.events {
            emit_shown(shown, request_bytes, &mut self.emit, &mut self.meter);
        }
    }
}

/// Emits one event and counts usage.
fn emit_shown(
    shown: Shown,
    request_bytes: usize,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
) {
    if let Shown::Usage(tokens) = &shown {
        if tokens.is_unreported() {
            return;
        }
        let cost = meter.count_response(*tokens, request_bytes);
        let request_id = emit.request_id.take();
        emit.emit_event(EventKind::Usage {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cost_usd: cost.map(softland_session::core::NanoUsd::to_dollars),
            request_id,
        });
    } else {
        emit.emit_shown(shown);
    }
}

pub(super) async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Sends one request and feeds the response to the exchange.
async fn attempt_request(
    agent: &super::Agent,
    exchange: &mut Exchange,
    body: Bytes,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
    taken: &mut ReceivedAnswer,
) -> AttemptOutcome {
    let bytes = body.len();
    let form = form::format_of(agent.options.api);
    let request = Request { path: agent.options.api.path(), headers: Vec::new(), body };
    let response = match agent.transport.send(request).await {
        Ok(response) => response,
        Err(error) => return AttemptOutcome::Failed(AttemptError::Transport(error)),
    };
    if !(200..300).contains(&response.status) {
        taken.ended = ResponseEnd::Refused;
        return AttemptOutcome::Failed(read_refusal(form, response).await);
    }
    taken.request_id.clone_from(&response.head.request_id);
    emit.request_id.clone_from(&response.head.request_id);
    let streamed = response.head.content_type.as_deref().is_none_or(is_event_stream);
    let mut tell_all = |out: Output| {
        for shown in out.events {
            emit_shown(shown, bytes, emit, meter);
        }
    };
    let mut out = Output::default();
    (taken.ended, taken.streamed) = (ResponseEnd::Broken, streamed);
    let read = if streamed {
        read_stream(exchange, response, &mut tell_all, taken).await
    } else {
        match response.read_body(MAX_BODY).await {
            Ok(body) => {
                taken.ended = ResponseEnd::Whole;
                taken.push_chunk(&body);
                exchange.push_whole(&body, &mut out).map_err(|error| AttemptError::Stream {
                    message: error.to_string(),
                    again: false,
                })
            }
            Err(error) => Err(AttemptError::Transport(error)),
        }
    };
    tell_all(out);
    match read {
        Ok(()) => AttemptOutcome::Taken,
        Err(problem) => AttemptOutcome::Failed(problem),
    }
}

fn is_event_stream(content_type: &str) -> bool {
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

async fn read_refusal(form: &dyn form::ApiFormat, response: Response) -> AttemptError {
    let (status, head) = (response.status, response.head.clone());
    let body = response.read_body(MAX_BODY).await.unwrap_or_default();
    AttemptError::Status(status, head, form.error_message(status, &body))
}

async fn read_stream(
    exchange: &mut Exchange,
    mut response: Response,
    tell: &mut (dyn FnMut(Output) + Send),
    taken: &mut ReceivedAnswer,
) -> Result<(), AttemptError> {
    let garbage = |message: String| AttemptError::Stream { message, again: false };
    while let Some(chunk) = response.body.next().await {
        let mut out = Output::default();
        let pushed = match chunk {
            Ok(chunk) => {
                if !taken.push_chunk(&chunk) {
                    taken.ended = ResponseEnd::Unread;
                    return Err(garbage(format!("the answer is larger than {MAX_BODY} bytes")));
                }
                exchange.push_bytes(&chunk, &mut out)
            }
            Err(error) => {
                // Received data is counted. If the response was complete, nothing is lost.
                let finished = exchange.finish_response(&mut out);
                tell(out);
                return finished.map_err(|_| AttemptError::Transport(error));
            }
        };
        tell(out);
        if let Err(error) = pushed {
            taken.ended = ResponseEnd::Unread;
            return Err(garbage(error.to_string()));
        }
    }
    taken.ended = ResponseEnd::Whole;
    let mut out = Output::default();
    let finished = exchange.finish_response(&mut out);
    tell(out);
    finished.map_err(|unfinished| match unfinished {
        UnfinishedResponse::Unreadable(_) | UnfinishedResponse::Foreign(_) => {
            garbage(unfinished.to_string())
        }
        UnfinishedResponse::Cut(_) | UnfinishedResponse::Error { .. } => {
            AttemptError::Stream { message: unfinished.to_string(), again: true }
        }
    })
}
