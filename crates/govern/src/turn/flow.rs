//! Carries out what the session decides: sends requests upstream and passes responses on. Both stop
//! when the client disconnects.

mod broken;
mod deadline;
mod send;
mod unasked;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use softland_session::core::{Digest, Phase, RequestFailure};
use softland_session::wire::Tokens;
use softland_session::wire::tags::StopAfter;
use softland_session::{
    Done, Event, Exchange, ExchangeEnded, Output, Step, UnfinishedResponse, ping_event,
};
use tokio::time::{Instant, sleep_until};

use self::broken::SilenceWatch;
use self::deadline::wait_until;
use self::unasked::explain_remark;
use super::account::RequestAccount;
use super::end_facts::before_last_event;
use super::open::{BegunExchange, RequestSetup};
use super::record::RequestRecord;
use crate::body::{Body, BodySender};
use crate::errors;
use crate::transport::{TransportError, UpstreamResponse};

/// The number of pieces that may be queued for the client.
const AHEAD: usize = 16;
/// The remarks in the ledger on requests that were cut off or given up before a usage report came.
const LEFT: &str = "estimated: the client left before the provider said what it costs";
const EXPIRED: &str = "estimated: given up when the run's time was over";
const UNSAID: &str = "unknown: the client did not ask the provider for what it costs";
const UNSAID_HELD: &str =
    "estimated: the provider did not say what it costs; the most that it can have";
const EARLY: &str =
    "estimated: ended early, as its shape says, before the provider said what it costs";
const BROKEN: &str = "estimated: the response broke off";
/// The time for which a stream is silent before a keepalive is sent.
const SILENCE: Duration = Duration::from_secs(10);

/// One governed request that is running.
pub(crate) struct GovernedRequest {
    pub(super) opening: Box<RequestSetup>,
    pub(super) exchange: Box<Exchange>,
    pub(super) out: Output,
    pub(super) account: RequestAccount,
    pub(super) run: Digest,
    pub(super) record: RequestRecord,
    /// The output limit of the first request, if the money determines one.
    output_limit: Option<u64>,
    /// True if the first request has its money.
    leased: bool,
    /// The number of requests sent upstream.
    pub(super) sent: u32,
    /// The end of the run's time.
    deadline: Option<Instant>,
    /// The head of the newest upstream response.
    headers: HeaderMap,
    /// True if the newest response's connection broke off.
    cut: bool,
    /// The last upstream stream was closed in order, but before the message's end.
    unended: bool,
    /// The reason why the newest response broke off, if nothing in it states one.
    broken: Option<String>,
    /// The upstream's own body, if the policy only observes.
    verbatim: Option<Bytes>,
    /// True once everything has been booked.
    pub(super) closed: bool,
    /// True if somebody has watched this turn from its beginning.
    taped: bool,
}

/// The result of an upstream request.
enum SendOutcome {
    /// Its response streams.
    Streams(Box<UpstreamResponse>),
    /// Its response was taken, or it failed and the session knows.
    Taken,
    /// Its response is passed to the client unchanged.
    Passes(Box<http::Response<Body>>),
}

/// The result of relaying a stream.
enum RelayOutcome {
    Ended,
    /// The client has disconnected.
    Gone,
}

impl GovernedRequest {
    /// Creates the request that carries out a decision.
    pub(super) fn from_begun(begun: BegunExchange) -> Box<Self> {
        let BegunExchange { opening, exchange, out, account, run, output_limit, leased, continues } =
            begun;
        let now = opening.asked.services.now();
        let policy = exchange.run().policy();
        let open = *exchange.run().phase() == Phase::Open;
        let left = account.time_left(policy, now, open);
        let record = RequestRecord::new(&exchange, continues, opening.place.kept.cache);
        Box::new(Self {
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
            unended: false,
            broken: None,
            verbatim: None,
            closed: false,
            taped: false,
        })
    }

    /// Runs the request and returns the response to the client.
    pub(crate) async fn answer_client(mut self: Box<Self>) -> http::Response<Body> {
        self.send_history_events();
        self.record.begin_request(&self.opening, &mut self.account);
        self.watch_run();
        loop {
            match self.exchange.next_step() {
                Err(ended) => return self.refuse_step(ended).await,
                Ok(Step::Done(done)) => return self.answer_whole(done).await,
                Ok(Step::Send(body)) => match self.send_request(body).await {
                    SendOutcome::Streams(response) => return self.start_stream(*response),
                    SendOutcome::Passes(response) => {
                        self.close_request(None).await;
                        return *response;
                    }
                    // Events of a request that was not sent stay unreported: it may lead to
                    // something else.
                    SendOutcome::Taken if self.sent == 0 => {}
                    SendOutcome::Taken => self.report_events(),
                },
            }
        }
    }

    /// Answers where no step is left, which no request comes to.
    async fn refuse_step(mut self: Box<Self>, ended: ExchangeEnded) -> http::Response<Body> {
        let protocol = self.opening.target.protocol;
        self.close_request(None).await;
        errors::protocol_error(protocol, StatusCode::BAD_GATEWAY, &ended.to_string())
    }

    /// Answers with a response that is complete.
    async fn answer_whole(mut self: Box<Self>, done: Box<Done>) -> http::Response<Body> {
        self.report_events();
        self.end_stream_broken();
        let bytes = Bytes::from(std::mem::take(&mut self.out.bytes));
        let bytes = self.verbatim.take().unwrap_or(bytes);
        if bytes.is_empty() {
            return Box::pin(self.answer_failure(done)).await;
        }
        let mut head = self.response_head(&self.headers);
        let ending = done.ended.clone();
        // Nothing is awaited before the request is closed: a client that leaves there would be
        // booked twice.
        self.close_request(Some(done)).await;
        self.end_facts(ending.as_ref()).add_headers(&mut head);
        let bytes = match self.end_comment(ending.as_ref()) {
            Some(comment) => before_last_event(&bytes, &comment),
            None => bytes,
        };
        let mut response = http::Response::new(Body::from_bytes(bytes));
        *response.headers_mut() = head;
        response
    }

    /// Answers with an error: a request behind the client's own has failed, and no other answer
    /// exists.
    async fn answer_failure(mut self: Box<Self>, done: Box<Done>) -> http::Response<Body> {
        let why = self.broken.take();
        let why = why.unwrap_or_else(|| format!("upstream {} failed", self.upstream_name()));
        let protocol = self.opening.target.protocol;
        let mut answer = errors::protocol_error(protocol, StatusCode::BAD_GATEWAY, &why);
        self.add_headers(answer.headers_mut());
        self.close_request(Some(done)).await;
        answer
    }

    /// Starts a streamed response in a task of its own, so that text which the session holds back
    /// does not block the client's connection.
    fn start_stream(self: Box<Self>, mut upstream: UpstreamResponse) -> http::Response<Body> {
        let (sender, body) = Body::channel(AHEAD);
        let mut response = http::Response::new(body);
        *response.status_mut() = upstream.status;
        // Nothing needs the headers any more: they are not kept for the length of the stream.
        let headers = std::mem::take(&mut upstream.headers);
        *response.headers_mut() = self.response_head(&headers);
        let flows = self.opening.asked.services.tasks.clone();
        let (services, asked) =
            (Arc::clone(&self.opening.asked.services), Arc::clone(&self.opening.asked.active));
        let run = (!self.opening.metered).then(|| self.account.state.id.clone());
        let task = flows.spawn(self.relay_stream(upstream, sender));
        if let Some(run) = run {
            services.running.set_stream_task(&run, &asked, task.abort_handle());
        }
        response
    }

    /// Relays a stream. The futures at its end are boxed, so that an open stream holds no memory
    /// for them.
    async fn relay_stream(mut self: Box<Self>, mut upstream: UpstreamResponse, client: BodySender) {
        loop {
            match self.relay_response(upstream, &client).await {
                RelayOutcome::Gone => return Box::pin(self.close_gone()).await,
                // The bytes were passed on unchanged as they came.
                RelayOutcome::Ended if self.is_observed() => self.out.bytes.clear(),
                RelayOutcome::Ended => {}
            }
            upstream = loop {
                self.report_events();
                // The end is processed as a whole.
                if !self.exchange.is_done() && self.flush_bytes(&client).await.is_err() {
                    return Box::pin(self.close_gone()).await;
                }
                match self.exchange.next_step() {
                    Err(_) => return Box::pin(self.close_gone()).await,
                    Ok(Step::Done(done)) => {
                        self.report_events();
                        if self.is_observed() {
                            return Box::pin(self.end_observed(done, client)).await;
                        }
                        let breaks = self.breaks_connection();
                        if !breaks {
                            self.end_stream_broken();
                        }
                        // Stored first: a client that has read the end may send its next request at
                        // once.
                        let ending = done.ended.clone().filter(|_| !breaks);
                        Box::pin(self.close_request(Some(done))).await;
                        self.comment_end(ending.as_ref());
                        return match self.flush_bytes(&client).await {
                            Ok(()) if breaks => client.abort(),
                            Ok(()) => client.finish(),
                            Err(_) => {}
                        };
                    }
                    Ok(Step::Send(body)) => match self.send_alive(body, &client).await {
                        None => return Box::pin(self.close_gone()).await,
                        Some(SendOutcome::Streams(next)) => break *next,
                        Some(SendOutcome::Taken | SendOutcome::Passes(_)) => {}
                    },
                }
            };
        }
    }

    /// Ends an observed stream: cleanly, or broken off if the upstream broke off.
    async fn end_observed(mut self: Box<Self>, done: Box<Done>, client: BodySender) {
        self.close_request(Some(done)).await;
        if self.cut { client.abort() } else { client.finish() }
    }

    /// Sends a request that the client does not see, with keepalives. Returns `None` if the client
    /// disconnects.
    async fn send_alive(&mut self, body: Bytes, client: &BodySender) -> Option<SendOutcome> {
        // Rare, so boxed: a stream holds no memory for it while it only passes bytes on.
        let api = self.opening.asked.active.api;
        let mut sending = Box::pin(self.send_request(body));
        loop {
            tokio::select! {
                biased;
                () = client.closed() => return None,
                sent = &mut sending => return Some(sent),
                () = tokio::time::sleep(SILENCE) => {
                    client.send(Bytes::from(ping_event(api))).await.ok()?;
                }
            }
        }
    }

    /// Passes on one upstream response as it arrives.
    async fn relay_response(
        &mut self,
        mut upstream: UpstreamResponse,
        client: &BodySender,
    ) -> RelayOutcome {
        let deadline = self.deadline;
        let mut billed = false;
        let mut said = Instant::now();
        let shaping = self.opening.chosen.shaping.as_ref();
        let silence = shaping.map_or(SILENCE, |shaping| shaping.keepalive);
        let times = shaping
            .is_some_and(|shaping| matches!(shaping.shape.stop_after, StopAfter::Burst { .. }));
        let clock = Instant::now();
        let mut watch = SilenceWatch::new(&upstream);
        loop {
            let chunk = tokio::select! {
                biased;
                () = client.closed() => return RelayOutcome::Gone,
                () = wait_until(deadline) => {
                    self.expire_run(0);
                    return RelayOutcome::Ended;
                }
                // The client does not see text that is held back.
                () = sleep_until(said + silence), if self.is_hidden() || self.exchange.holds_text() => {
                    self.out.bytes.extend(ping_event(self.opening.asked.active.api));
                    Ok(Some(Bytes::new()))
                }
                () = wait_until(self.call_due(clock)) => Ok(Some(Bytes::new())),
                after = watch.wait_for_silence() => Err(upstream.silence_error(after)),
                chunk = upstream.next_chunk() => chunk,
            };
            if times {
                let now = clock.elapsed().as_millis();
                self.exchange.advance_clock(u64::try_from(now).unwrap_or(u64::MAX), &mut self.out);
            }
            match chunk {
                Ok(Some(bytes)) => {
                    if let Err(error) = self.exchange.push_bytes(&bytes, &mut self.out) {
                        self.fail_response(Some(error.to_string()));
                        if self.is_observed() {
                            return self.relay_unread(bytes, upstream, client).await;
                        }
                        return RelayOutcome::Ended;
                    }
                    watch.note_events(self.exchange.count_events());
                    billed =
                        billed || self.account.note_billed_input(self.exchange.tokens_so_far());
                    if self.is_observed() {
                        self.out.bytes = bytes.into();
                    }
                    self.report_events();
                    if !self.out.bytes.is_empty() {
                        said = Instant::now();
                    }
                    if self.flush_bytes(client).await.is_err() {
                        return RelayOutcome::Gone;
                    }
                    if self.exchange.is_stopped() {
                        self.end_early(upstream.received_bytes());
                        return RelayOutcome::Ended;
                    }
                }
                Ok(None) => {
                    self.finish_response(None);
                    return RelayOutcome::Ended;
                }
                Err(error) => {
                    self.finish_response(Some(error));
                    return RelayOutcome::Ended;
                }
            }
        }
    }

    /// Returns the time at which the response is ended if no further call begins. `began` is the
    /// time at which the stream's clock began.
    fn call_due(&self, began: Instant) -> Option<Instant> {
        let due = self.exchange.shape_deadline_ms()?;
        began.checked_add(Duration::from_millis(due))
    }

    /// Passes on to its end a response that cannot be read and is only observed.
    async fn relay_unread(
        &mut self,
        first: Bytes,
        mut upstream: UpstreamResponse,
        client: &BodySender,
    ) -> RelayOutcome {
        let mut next = Ok(Some(first));
        loop {
            match next {
                Ok(Some(bytes)) => {
                    if client.send(bytes).await.is_err() {
                        return RelayOutcome::Gone;
                    }
                }
                Ok(None) => {
                    self.broken = None;
                    return RelayOutcome::Ended;
                }
                Err(_) => {
                    self.cut = true;
                    return RelayOutcome::Ended;
                }
            }
            next = tokio::select! {
                biased;
                () = client.closed() => return RelayOutcome::Gone,
                chunk = upstream.next_chunk() => chunk,
            };
        }
    }

    /// Ends the upstream's stream. A complete message counts as complete, however the connection
    /// ended behind its end.
    fn finish_response(&mut self, error: Option<TransportError>) {
        self.cut = error.is_some();
        self.unended = false;
        if self.cut {
            self.exchange.note_broken_stream();
        }
        let so_far = self.exchange.tokens_so_far();
        let Err(unfinished) = self.exchange.finish_response(&mut self.out) else { return };
        // Its own usage report covers only its beginning.
        self.out.events.retain(|event| !matches!(event, Event::Usage(_)));
        self.unended = error.is_none() && matches!(unfinished, UnfinishedResponse::Cut(_));
        self.broken = match (unfinished, error) {
            (_, Some(error)) => Some(error.to_string()),
            (unfinished, None) => Some(unfinished.to_string()),
        };
        self.bill_broken(so_far, 0);
        self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
    }

    /// Ends a response whose remaining text must not pass. Its cost has not been reported yet.
    fn end_early(&mut self, received: u64) {
        let so_far = self.exchange.tokens_so_far();
        if let Err(unfinished) = self.exchange.finish_response(&mut self.out) {
            self.broken = Some(unfinished.to_string());
            self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
        }
        self.out.events.retain(|event| !matches!(event, Event::Usage(_)));
        self.bill_unfinished(so_far, received, EARLY);
    }

    /// Gives up the running response, and books what came of it.
    fn fail_response(&mut self, broken: Option<String>) {
        self.broken = broken;
        self.bill_broken(self.exchange.tokens_so_far(), 0);
        self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
    }

    /// Gives up the running request at the end of the run's time. `received` is the number of bytes
    /// of a body that was not read.
    fn expire_run(&mut self, received: u64) {
        self.bill_unfinished(self.exchange.tokens_so_far(), received, EXPIRED);
        let run = self.exchange.run();
        let (policy, open) = (run.policy(), *run.phase() == Phase::Open);
        let now = self.opening.asked.services.now();
        let because = self.account.time_is_up(policy, now).filter(|_| open && self.sent <= 1);
        let left = self.account.time_left(policy, now, false);
        match because {
            Some(because) => {
                // If nothing can follow what was shown, the client is told the reason.
                self.broken = Some("softland: the run's time is over".to_owned());
                self.exchange.land_at_limit(because, &mut self.out);
                // The time that was held back for the answer.
                self.deadline = left.map(|left| Instant::now() + left);
            }
            None => {
                self.deadline = None;
                self.broken = Some("softland: the run's time is over".to_owned());
                self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
            }
        }
    }

    /// Takes the events out of the session, and writes them to the records and the tape.
    fn report_events(&mut self) {
        let mut comments = Vec::new();
        let events = std::mem::take(&mut self.out.events);
        self.watch_run();
        for event in events {
            match event {
                Event::Usage(tokens) => self.count_usage(tokens),
                event => {
                    self.write_tape(&event);
                    let done =
                        self.record.record_event(&self.opening, &self.account.state.id, &event);
                    let told =
                        self.exchange.is_streaming() && !self.is_observed() && self.comments();
                    let done = done.filter(|_| told);
                    comments.extend(done.map(|word| format!(": softland {word}\n\n")));
                }
            }
        }
        // In front of the queued bytes: only there is it certain that an event has ended.
        if !comments.is_empty() {
            let waiting = std::mem::take(&mut self.out.bytes);
            self.out.bytes = [comments.concat().into_bytes(), waiting].concat();
        }
    }

    fn is_observed(&self) -> bool {
        self.exchange.run().policy().is_observing()
    }

    fn count_usage(&mut self, tokens: Tokens) {
        if self.sent == 1 && !tokens.is_unreported() {
            self.record
                .set_counted(self.opening.outline.here, self.account.counted_context(tokens));
        }
        self.bill_usage(tokens);
    }

    /// Books the cost of an upstream request. If the response does not report usage (a stream of
    /// Chat Completions whose client did not ask for it), a money limit takes the reserved amount;
    /// without a limit the cost is unknown.
    fn bill_usage(&mut self, tokens: Tokens) {
        self.note_cache(&tokens);
        let limited = self.exchange.run().policy().counts_usage();
        let (tokens, cost, remark) = match tokens.is_unreported() {
            false => (tokens, self.account.add_usage(tokens), None),
            true if limited => {
                let tokens = self.account.count_estimate(self.exchange.tokens_so_far().output);
                (tokens, self.account.book_reserved(), Some(UNSAID_HELD))
            }
            true => {
                self.account.release_unbilled();
                (tokens, None, Some(UNSAID))
            }
        };
        let run = &self.account.state.id;
        self.record.record_billed((&self.opening, run), tokens, cost, remark);
    }

    /// Books what came of a request that was cut off or given up. If nothing reports its cost, its
    /// input is booked, and one token for four of the bytes `received`.
    fn bill_unfinished(&mut self, so_far: Tokens, received: u64, why: &str) {
        // A running stream of OpenAI's protocols has not reported its input yet.
        let unsaid = so_far.input_total() == 0 && self.record.is_request_running();
        self.note_cache(&so_far);
        let (tokens, cost) = match unsaid {
            true => self.account.book_unanswered(so_far.output.max(received / 4)),
            false => (so_far, self.account.add_usage(so_far)),
        };
        let run = &self.account.state.id;
        self.record.record_billed((&self.opening, run), tokens, cost, Some(why));
    }

    /// Does so for a response that broke off, and records the reason why.
    fn bill_broken(&mut self, so_far: Tokens, received: u64) {
        let why = self.broken.as_deref();
        let remark = why.map_or_else(|| BROKEN.to_owned(), |why| explain_remark(BROKEN, why));
        self.bill_unfinished(so_far, received, &remark);
    }

    /// Notes what the running request shows about the provider's cache.
    fn note_cache(&mut self, tokens: &Tokens) {
        let (run, cost) = (&self.account.state.id, self.account.token_cost(tokens));
        self.record.note_cache((&self.opening, run), tokens, cost);
    }

    /// Drops the interventions of a client request for which nothing was sent.
    fn drop_interventions(&mut self) {
        if self.sent == 0 {
            self.out.events.retain(|event| !matches!(event, Event::Intervention { .. }));
        }
    }

    async fn flush_bytes(&mut self, client: &BodySender) -> Result<(), crate::body::ClientGone> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        client.send(Bytes::from(std::mem::take(&mut self.out.bytes))).await
    }

    /// Drops the upstream request after the client has disconnected, and books what came of it.
    async fn close_gone(mut self: Box<Self>) {
        let done = self.give_up();
        self.close_request(done).await;
    }

    fn give_up(&mut self) -> Option<Box<Done>> {
        self.drop_interventions();
        self.report_events();
        self.bill_unfinished(self.exchange.tokens_so_far(), 0, LEFT);
        self.exchange.fail_request(RequestFailure::Cancelled, &mut self.out);
        self.report_events();
        match self.exchange.next_step() {
            Ok(Step::Done(done)) => Some(done),
            Ok(Step::Send(_)) | Err(_) => None,
        }
    }
}

impl Drop for GovernedRequest {
    /// Books what came and tells the store. A client that waits for the head of a response is gone
    /// when its request's future is dropped.
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let done = self.give_up();
        self.close_now(done);
    }
}
