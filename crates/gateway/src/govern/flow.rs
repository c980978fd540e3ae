//! Carrying out what the session says: sending requests upstream, handing on what comes back, and
//! no more of either once the client is gone.

mod send;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use softland_session::core::{Digest, Failure, Phase};
use softland_session::wire::Tokens;
use softland_session::wire::tags::StopAfter;
use softland_session::{Done, Event, Exchange, Out, Step, Unfinished, ping};
use tokio::time::{Instant, sleep_until};

use super::account::Account;
use super::end::Record;
use super::{head, open::Opening};
use crate::body::{Body, Sender};
use crate::errors;
use crate::upstream::{Response, UpstreamError};

/// Pieces that the client's connection may be behind.
const AHEAD: usize = 16;
/// What the ledger says of requests that were cut or given up before they had said what they cost.
const LEFT: &str = "estimated: the client left before the provider said what it costs";
const EXPIRED: &str = "estimated: given up when the run's time was over";
const UNSAID: &str = "unknown: the client did not ask the provider for what it costs";
const UNSAID_HELD: &str =
    "estimated: the provider did not say what it costs; the most that it can have";
const EARLY: &str =
    "estimated: ended early, as its shape says, before the provider said what it costs";
const BROKEN: &str = "estimated: the response broke off";
/// How long a stream is silent before it gets a sign of life.
const SILENCE: Duration = Duration::from_secs(10);

/// One governed request under way.
pub(crate) struct Flow {
    pub(super) opening: Box<Opening>,
    pub(super) exchange: Box<Exchange>,
    pub(super) out: Out,
    pub(super) account: Account,
    pub(super) run: Digest,
    pub(super) record: Record,
    /// The output limit of the first request, where the money says one.
    output_limit: Option<u64>,
    /// Whether the first request has its money.
    leased: bool,
    /// Requests sent upstream.
    pub(super) sent: u32,
    /// When the run's time is over.
    deadline: Option<Instant>,
    /// The head of the newest upstream response.
    headers: HeaderMap,
    /// Whether the newest response's connection broke off.
    cut: bool,
    /// Why the newest response broke off, where nothing in it says so.
    broken: Option<String>,
    /// The upstream's own body, where it is only observed.
    verbatim: Option<Bytes>,
    /// Nothing is left to be booked.
    pub(super) closed: bool,
    /// Somebody has watched this turn from its beginning.
    taped: bool,
}

/// What became of an upstream request.
enum Sent {
    /// Its response streams.
    Streams(Box<Response>),
    /// Its response was taken, or it failed and the session knows.
    Taken,
    /// Its response is the client's as it is.
    Passes(Box<http::Response<Body>>),
}

/// What became of a stream.
enum Pumped {
    Ended,
    /// The client is gone.
    Gone,
}

impl Flow {
    pub(super) fn new(
        opening: Box<Opening>,
        exchange: Box<Exchange>,
        out: Out,
        account: Account,
        run: Digest,
        (output_limit, leased): (Option<u64>, bool),
        continues: Option<Arc<str>>,
    ) -> Self {
        let now = opening.asked.gate.now();
        let policy = exchange.run().policy();
        let open = *exchange.run().phase() == Phase::Open;
        let left = account.time_left(policy, now, open);
        let record = Record::new(&exchange, continues);
        Self {
            opening,
            exchange,
            out,
            account,
            run,
            record,
            output_limit,
            leased,
            sent: 0,
            deadline: left.map(|left| Instant::now() + left),
            headers: HeaderMap::new(),
            cut: false,
            broken: None,
            verbatim: None,
            closed: false,
            taped: false,
        }
    }

    /// The response to the client.
    pub(crate) async fn respond(mut self: Box<Self>) -> http::Response<Body> {
        self.tape_history();
        self.record.begins(&self.opening, &self.account.state);
        self.watch();
        loop {
            match self.exchange.step() {
                Step::Done(done) => return self.answer(done).await,
                Step::Send(body) => match self.send(body).await {
                    Sent::Streams(response) => return self.stream(*response),
                    Sent::Passes(response) => {
                        self.close(None).await;
                        return *response;
                    }
                    // What was not sent is not told of yet: it may lead to something else.
                    Sent::Taken if self.sent == 0 => {}
                    Sent::Taken => self.tell(),
                },
            }
        }
    }

    /// A response that is there whole.
    async fn answer(mut self: Box<Self>, done: Box<Done>) -> http::Response<Body> {
        self.tell();
        self.end_stream_broken();
        let bytes = Bytes::from(std::mem::take(&mut self.out.bytes));
        let bytes = self.verbatim.take().unwrap_or(bytes);
        if bytes.is_empty() {
            return Box::pin(self.nothing(done)).await;
        }
        let head = head::of(&self, &self.headers);
        // Nothing is awaited before the request is closed: a client that leaves there would be booked
        // twice.
        self.close(Some(done)).await;
        let mut response = http::Response::new(Body::full(bytes));
        *response.headers_mut() = head;
        response
    }

    /// A request behind the client's own has failed, and nothing can be said in its place.
    async fn nothing(mut self: Box<Self>, done: Box<Done>) -> http::Response<Body> {
        let why = self.broken.take();
        let why = why.unwrap_or_else(|| format!("upstream {} failed", self.upstream()));
        let protocol = self.opening.target.protocol;
        let mut answer = errors::shaped(protocol, StatusCode::BAD_GATEWAY, &why);
        head::add(&self, answer.headers_mut());
        self.close(Some(done)).await;
        answer
    }

    /// A response that goes on while it is read, in a task of its own: what the session holds back
    /// is not the client's connection to wait for.
    fn stream(self: Box<Self>, mut upstream: Response) -> http::Response<Body> {
        let (sender, body) = Body::channel(AHEAD);
        let mut response = http::Response::new(body);
        *response.status_mut() = upstream.status;
        // Nobody asks for them again: they are not kept for as long as the stream.
        let headers = std::mem::take(&mut upstream.headers);
        *response.headers_mut() = head::of(&self, &headers);
        let flows = self.opening.asked.gate.flows.clone();
        let (gate, asked) = (Arc::clone(&self.opening.asked.gate), Arc::clone(&self.opening.asked));
        let run = (!self.opening.metered).then(|| self.account.state.id.clone());
        let task = flows.spawn(self.relay(upstream, sender));
        if let Some(run) = run {
            gate.runs.streams(&run, &asked, task.abort_handle());
        }
        response
    }

    /// What comes at its end is in boxes, so that an open stream has no room for it.
    async fn relay(mut self: Box<Self>, mut upstream: Response, client: Sender) {
        loop {
            match self.pump(upstream, &client).await {
                Pumped::Gone => return Box::pin(self.gone()).await,
                // What came has gone on as it was.
                Pumped::Ended if self.observes() => self.out.bytes.clear(),
                Pumped::Ended => {}
            }
            upstream = loop {
                self.tell();
                // The end is looked at as a whole.
                if !self.exchange.is_done() && self.flush(&client).await.is_err() {
                    return Box::pin(self.gone()).await;
                }
                match self.exchange.step() {
                    Step::Done(done) => {
                        self.tell();
                        if self.observes() {
                            return Box::pin(self.end_observed(done, client)).await;
                        }
                        self.end_stream_broken();
                        // Kept first: who has read the end may ask again at once.
                        Box::pin(self.close(Some(done))).await;
                        let flushed = self.flush(&client).await;
                        return if flushed.is_ok() {
                            client.finish()
                        };
                    }
                    Step::Send(body) => match self.send_alive(body, &client).await {
                        None => return Box::pin(self.gone()).await,
                        Some(Sent::Streams(next)) => break *next,
                        Some(Sent::Taken | Sent::Passes(_)) => {}
                    },
                }
            };
        }
    }

    /// It breaks off where the upstream did.
    async fn end_observed(mut self: Box<Self>, done: Box<Done>, client: Sender) {
        self.close(Some(done)).await;
        if self.cut { client.abort() } else { client.finish() }
    }

    /// Sends a request that the client does not see, with signs of life.
    async fn send_alive(&mut self, body: Bytes, client: &Sender) -> Option<Sent> {
        // Seldom: in a box, so that a stream has no room for it while it only hands on.
        let api = self.opening.asked.api;
        let mut sending = Box::pin(self.send(body));
        loop {
            tokio::select! {
                biased;
                () = client.closed() => return None,
                sent = &mut sending => return Some(sent),
                () = tokio::time::sleep(SILENCE) => {
                    client.send(Bytes::from(ping(api))).await.ok()?;
                }
            }
        }
    }

    /// Hands on one upstream response as it comes.
    async fn pump(&mut self, mut upstream: Response, client: &Sender) -> Pumped {
        let deadline = self.deadline;
        let mut billed = false;
        let mut said = Instant::now();
        let shaping = self.opening.chosen.shaping.as_ref();
        let silence = shaping.map_or(SILENCE, |shaping| shaping.keepalive);
        let times = shaping
            .is_some_and(|shaping| matches!(shaping.shape.stop_after, StopAfter::Burst { .. }));
        let clock = Instant::now();
        loop {
            let chunk = tokio::select! {
                biased;
                () = client.closed() => return Pumped::Gone,
                () = until(deadline) => {
                    self.expire(0);
                    return Pumped::Ended;
                }
                // What is held is not heard.
                () = sleep_until(said + silence), if self.is_hidden() || self.exchange.holds_text() => {
                    self.out.bytes.extend(ping(self.opening.asked.api));
                    Ok(Some(Bytes::new()))
                }
                () = until(self.call_due(clock)) => Ok(Some(Bytes::new())),
                chunk = upstream.chunk() => chunk,
            };
            if times {
                let now = clock.elapsed().as_millis();
                self.exchange.tick(u64::try_from(now).unwrap_or(u64::MAX), &mut self.out);
            }
            match chunk {
                Ok(Some(bytes)) => {
                    if let Err(error) = self.exchange.push(&bytes, &mut self.out) {
                        self.fail(Some(error.to_string()));
                        if self.observes() {
                            return self.hand_on(bytes, upstream, client).await;
                        }
                        return Pumped::Ended;
                    }
                    billed = billed || self.account.head(self.exchange.so_far());
                    if self.observes() {
                        self.out.bytes = bytes.into();
                    }
                    self.tell();
                    if !self.out.bytes.is_empty() {
                        said = Instant::now();
                    }
                    if self.flush(client).await.is_err() {
                        return Pumped::Gone;
                    }
                    if self.exchange.is_stopped() {
                        self.end_early(upstream.received());
                        return Pumped::Ended;
                    }
                }
                Ok(None) => {
                    self.finish(None);
                    return Pumped::Ended;
                }
                Err(error) => {
                    self.finish(Some(error));
                    return Pumped::Ended;
                }
            }
        }
    }

    /// When the response is to be ended if no further call begins, on a clock that began then.
    fn call_due(&self, began: Instant) -> Option<Instant> {
        let due = self.exchange.shape_deadline_ms()?;
        began.checked_add(Duration::from_millis(due))
    }

    /// What cannot be read and is only observed goes on to its end.
    async fn hand_on(&mut self, first: Bytes, mut upstream: Response, client: &Sender) -> Pumped {
        let mut next = Ok(Some(first));
        loop {
            match next {
                Ok(Some(bytes)) => {
                    if client.send(bytes).await.is_err() {
                        return Pumped::Gone;
                    }
                }
                Ok(None) => {
                    self.broken = None;
                    return Pumped::Ended;
                }
                Err(_) => {
                    self.cut = true;
                    return Pumped::Ended;
                }
            }
            next = tokio::select! {
                biased;
                () = client.closed() => return Pumped::Gone,
                chunk = upstream.chunk() => chunk,
            };
        }
    }

    /// The upstream's stream is over. What was all there is whole, however the connection ended.
    fn finish(&mut self, error: Option<UpstreamError>) {
        self.cut = error.is_some();
        let so_far = self.exchange.so_far();
        let Err(unfinished) = self.exchange.finish(&mut self.out) else { return };
        // What it reports of itself is of its beginning.
        self.out.events.retain(|event| !matches!(event, Event::Usage(_)));
        match unfinished {
            // The provider says itself that it failed.
            Unfinished::Error { .. } if so_far.is_unsaid() => self.bill(so_far),
            _ => self.bill_unfinished(so_far, 0, BROKEN),
        }
        self.broken = match (unfinished, error) {
            (_, Some(error)) => Some(error.to_string()),
            (unfinished, None) => Some(unfinished.to_string()),
        };
        self.exchange.fail(Failure::Provider, &mut self.out);
    }

    /// What of the response may pass has passed: the rest is not waited for, and what it has cost
    /// was not said yet.
    fn end_early(&mut self, received: u64) {
        let so_far = self.exchange.so_far();
        if let Err(unfinished) = self.exchange.finish(&mut self.out) {
            self.broken = Some(unfinished.to_string());
            self.exchange.fail(Failure::Provider, &mut self.out);
        }
        self.out.events.retain(|event| !matches!(event, Event::Usage(_)));
        self.bill_unfinished(so_far, received, EARLY);
    }

    /// The response under way is given up: what came of it is paid.
    fn fail(&mut self, broken: Option<String>) {
        self.bill_unfinished(self.exchange.so_far(), 0, BROKEN);
        self.broken = broken;
        self.exchange.fail(Failure::Provider, &mut self.out);
    }

    /// The run's time is over, and the request under way is given up; `received`: bytes of a body
    /// that nobody has read.
    fn expire(&mut self, received: u64) {
        self.bill_unfinished(self.exchange.so_far(), received, EXPIRED);
        let run = self.exchange.run();
        let (policy, open) = (run.policy(), *run.phase() == Phase::Open);
        let now = self.opening.asked.gate.now();
        let because = self.account.time_is_up(policy, now).filter(|_| open && self.sent <= 1);
        let left = self.account.time_left(policy, now, false);
        match because {
            Some(because) => {
                // Where nothing can follow what was shown, the client is told why.
                self.broken = Some("softland: the run's time is over".to_owned());
                self.exchange.expire(because, &mut self.out);
                // What was held back for the answer.
                self.deadline = left.map(|left| Instant::now() + left);
            }
            None => {
                self.deadline = None;
                self.broken = Some("softland: the run's time is over".to_owned());
                self.exchange.fail(Failure::Provider, &mut self.out);
            }
        }
    }

    /// Takes what happened out of the session, for whoever watches.
    fn tell(&mut self) {
        let mut comments = Vec::new();
        let mut events = std::mem::take(&mut self.out.events);
        // Where no run could be told what was done to a response, the row of what it cost says so.
        if self.opening.metered {
            events.sort_by_key(|event| matches!(event, Event::Usage(_)));
        }
        self.watch();
        for event in events {
            match event {
                Event::Usage(tokens) => self.count(tokens),
                event => {
                    self.tape(&event);
                    let done = self.record.event(&self.opening, &self.account.state.id, &event);
                    let done = done.filter(|_| self.exchange.streams() && !self.observes());
                    comments.extend(done.map(|word| format!(": softland {word}\n\n")));
                }
            }
        }
        // In front of what waits: there, and maybe only there, one event has ended.
        if !comments.is_empty() {
            let waiting = std::mem::take(&mut self.out.bytes);
            self.out.bytes = [comments.concat().into_bytes(), waiting].concat();
        }
    }

    fn observes(&self) -> bool {
        self.exchange.run().policy().observes()
    }

    fn count(&mut self, tokens: Tokens) {
        if self.sent == 1 && !tokens.is_unsaid() {
            self.record.counted(self.opening.outline.here, self.account.counted(tokens));
        }
        self.bill(tokens);
    }

    /// An upstream request has cost this much. Where its answer does not say (a stream of Chat
    /// Completions whose client did not ask), a limit of money takes what was held for it, and
    /// without one nobody knows.
    fn bill(&mut self, tokens: Tokens) {
        let limited = self.exchange.run().policy().counts_usage();
        let (tokens, cost, remark) = match tokens.is_unsaid() {
            false => (tokens, self.account.add(tokens), None),
            true if limited => {
                let tokens = self.account.estimated(self.exchange.so_far().output);
                (tokens, self.account.unread(), Some(UNSAID_HELD))
            }
            true => {
                self.account.nothing();
                (tokens, None, Some(UNSAID))
            }
        };
        let run = &self.account.state.id;
        self.record.billed((&self.opening, run), tokens, cost, remark);
    }

    /// One that was cut or given up is paid for what came of it; where nothing says what it costs,
    /// that it was read is paid, and one token for four of the bytes `received`.
    fn bill_unfinished(&mut self, so_far: Tokens, received: u64, why: &str) {
        // Of OpenAI's protocols a stream that goes on has said nothing of its input.
        let unsaid = so_far.input_total() == 0 && self.record.is_under_way();
        let (tokens, cost) = match unsaid {
            true => self.account.unanswered(so_far.output.max(received / 4)),
            false => (so_far, self.account.add(so_far)),
        };
        let run = &self.account.state.id;
        self.record.billed((&self.opening, run), tokens, cost, Some(why));
    }

    /// What the client's request led to is not done: none is sent.
    fn unsay(&mut self) {
        if self.sent == 0 {
            self.out.events.retain(|event| !matches!(event, Event::Intervention { .. }));
        }
    }

    async fn flush(&mut self, client: &Sender) -> Result<(), crate::body::Gone> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        client.send(Bytes::from(std::mem::take(&mut self.out.bytes))).await
    }

    /// A stream that broke off without a word gets the protocol's error event.
    fn end_stream_broken(&mut self) {
        if let Some(why) = self.broken.take().filter(|_| self.exchange.streams())
            && !self.record.answered_locally()
        {
            self.exchange.break_off(&why, &mut self.out);
        }
    }

    /// The client went away: the upstream request is dropped, and what came is booked.
    async fn gone(mut self: Box<Self>) {
        let done = self.give_up();
        self.close(done).await;
    }

    fn give_up(&mut self) -> Option<Box<Done>> {
        self.unsay();
        self.tell();
        self.bill_unfinished(self.exchange.so_far(), 0, LEFT);
        self.exchange.fail(Failure::Cancelled, &mut self.out);
        self.tell();
        match self.exchange.step() {
            Step::Done(done) => Some(done),
            Step::Send(_) => None,
        }
    }
}

impl Drop for Flow {
    /// Whoever waits for the head of a response is gone when its request's future is: what came
    /// is booked, and the store is told.
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let done = self.give_up();
        self.close_now(done);
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
