//! One exchange over a transport: send what it says, feed it what comes, until it is done.

use bytes::Bytes;
use futures_util::StreamExt as _;
use softland_session::core::{
    Because, Ended, Failure, Limit, Millis, Outcome, Phase, Reason, Run, Used,
};
use softland_session::wire::Tokens;
use softland_session::{Done, Event as Shown, Exchange, Out, Step, Unfinished};
use tokio::time::{Instant, sleep, sleep_until};

use super::{UnderWay, emit, form};
use crate::event::EventKind;
use crate::http::retry::{self, Jitter};
use crate::http::{Request, Response, ResponseHead, TransportError};

/// The largest whole (not streamed) body that is taken, in bytes.
const MAX_BODY: usize = 64 << 20;

/// An exchange that came to its end.
pub(super) struct Driven {
    pub(super) done: Done,
    /// What failed last, if something did.
    pub(super) failure: Option<String>,
}

/// How one attempt ended.
enum Attempt {
    /// The exchange has taken a turn.
    Taken,
    /// It failed, and perhaps may be tried again.
    Failed(Problem),
    /// The time for exploring is over.
    Expired,
    /// What is left of a limit is not enough for the request.
    Short(Because),
    Cancelled,
}

/// What failed.
enum Problem {
    Status(u16, ResponseHead, String),
    Transport(TransportError),
    /// Cut, garbage, or an error in the middle of a stream.
    Stream {
        message: String,
        again: bool,
    },
}

impl Problem {
    fn message(&self) -> String {
        match self {
            Self::Status(_, _, message) => message.clone(),
            Self::Transport(error) => error.to_string(),
            Self::Stream { message, .. } => message.clone(),
        }
    }
}

impl Driven {
    /// A request that could not even begin: softland's own fault.
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
            match self.request_turn(&mut exchange, body).await {
                Attempt::Taken => {}
                Attempt::Failed(problem) => {
                    failure = Some(problem.message());
                    exchange.fail(Failure::Provider, &mut out);
                }
                Attempt::Cancelled => exchange.fail(Failure::Cancelled, &mut out),
                Attempt::Expired => match self.time_is_up(exchange.run()) {
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

    /// One request, sent again as long as that may help and nothing of an answer was shown.
    async fn request_turn(&mut self, exchange: &mut Exchange, body: Bytes) -> Attempt {
        let deadline = self.deadline(exchange);
        let mut jitter = Jitter::random();
        let mut retry = 0;
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Attempt::Expired;
            }
            let leased = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Attempt::Cancelled,
                () = until(deadline) => return Attempt::Expired,
                leased = self.lease(exchange, &body) => leased,
            };
            let (mut held, body) = match leased {
                Ok(leased) => leased,
                Err(because) if because.reason == Reason::Time => return Attempt::Expired,
                Err(because) => return Attempt::Short(because),
            };
            let before = self.meter.own();
            let attempt = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Attempt::Cancelled,
                () = until(deadline) => Attempt::Expired,
                attempt = attempt(self.agent, exchange, body, &mut self.emit, &mut self.meter) => attempt,
            };
            match attempt {
                // What was given up is paid as far as it came; before its head came, its input.
                Attempt::Cancelled | Attempt::Expired if exchange.so_far() != Tokens::default() => {
                    held.received(self.meter.amount(&exchange.so_far()));
                    drop(held);
                }
                Attempt::Cancelled | Attempt::Expired => drop(held),
                _ => held.settle(self.meter.own().less(before)),
            }
            let Attempt::Failed(problem) = attempt else { return attempt };
            let policy = self.agent.options.retry;
            let delay = match &problem {
                Problem::Status(status, head, _) => {
                    policy.next_delay(retry, retry::Failure::Status(*status, head), jitter.draw())
                }
                Problem::Transport(error) => {
                    policy.next_delay(retry, retry::Failure::Transport(error), jitter.draw())
                }
                Problem::Stream { again: true, .. } => {
                    let head = ResponseHead::default();
                    policy.next_delay(retry, retry::Failure::Status(529, &head), jitter.draw())
                }
                Problem::Stream { .. } => None,
            };
            let Some(delay) = delay.filter(|_| !exchange.has_shown()) else {
                return Attempt::Failed(problem);
            };
            retry += 1;
            let mut out = Out::default();
            exchange.again(&mut out);
            self.tell(out);
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Attempt::Cancelled,
                () = until(deadline) => return Attempt::Expired,
                () = sleep(delay) => {}
            }
        }
    }

    /// Until when the request under way may take; a landing has the whole limit.
    fn deadline(&self, exchange: &Exchange) -> Option<Instant> {
        match (exchange.rung(), exchange.run().phase()) {
            (None, Phase::Open) => self.exploring_ends(),
            _ => self.meter.purse.until(),
        }
    }

    /// When the run's time is over, but for what is held back for its answer.
    pub(super) fn exploring_ends(&self) -> Option<Instant> {
        self.meter.purse.exploring_until()
    }

    fn time_is_up(&self, run: &Run) -> Option<Because> {
        let limit = self.setup.policy.time_limit?;
        let elapsed: Millis = self.meter.elapsed();
        (*run.phase() == Phase::Open).then_some(Because {
            reason: Reason::Time,
            used: Limit::Time(elapsed),
            limit: Limit::Time(limit),
        })
    }

    /// Tells what an exchange put out.
    pub(super) fn tell(&mut self, out: Out) {
        for shown in out.events {
            tell(shown, 0, &mut self.emit, &mut self.meter);
        }
    }
}

/// Tells one event; usage is counted on the way.
fn tell(
    shown: Shown,
    request_bytes: usize,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
) {
    if let Shown::Usage(tokens) = &shown {
        if *tokens == Tokens::default() {
            return;
        }
        let cost = meter.add(*tokens, request_bytes);
        emit.send(EventKind::Usage {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cost_usd: cost.map(softland_session::core::NanoUsd::dollars),
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

/// Sends one request and feeds the exchange with what comes back.
async fn attempt(
    agent: &super::Agent,
    exchange: &mut Exchange,
    body: Bytes,
    emit: &mut emit::Emitter<'_>,
    meter: &mut super::Meter,
) -> Attempt {
    let bytes = body.len();
    let form = form::of(agent.options.api);
    let request = Request { path: form.path(), headers: Vec::new(), body };
    let response = match agent.transport.send(request).await {
        Ok(response) => response,
        Err(error) => return Attempt::Failed(Problem::Transport(error)),
    };
    if !(200..300).contains(&response.status) {
        return Attempt::Failed(refused(form, response).await);
    }
    let streamed = response.head.content_type.as_deref().is_none_or(is_event_stream);
    let mut tell_all = |out: Out| {
        for shown in out.events {
            tell(shown, bytes, emit, meter);
        }
    };
    let mut out = Out::default();
    let taken = if streamed {
        stream(exchange, response, &mut tell_all).await
    } else {
        match response.read(MAX_BODY).await {
            Ok(body) => exchange
                .whole(&body, &mut out)
                .map_err(|error| Problem::Stream { message: error.to_string(), again: false }),
            Err(error) => Err(Problem::Transport(error)),
        }
    };
    tell_all(out);
    match taken {
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
) -> Result<(), Problem> {
    let garbage = |message: String| Problem::Stream { message, again: false };
    while let Some(chunk) = response.body.next().await {
        let mut out = Out::default();
        let pushed = match chunk {
            Ok(chunk) => exchange.push(&chunk, &mut out),
            Err(error) => {
                // What came is counted; if it was all there, nothing is lost.
                let finished = exchange.finish(&mut out);
                tell(out);
                return finished.map_err(|_| Problem::Transport(error));
            }
        };
        tell(out);
        pushed.map_err(|error| garbage(error.to_string()))?;
    }
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
