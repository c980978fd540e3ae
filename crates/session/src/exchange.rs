//! One client request from its first byte to the last of its answer: what is sent upstream for
//! it, and what the client gets.
//!
//! To drive an exchange, take [`Exchange::next_step`]. On [`Step::Send`] send the body, feed what
//! comes back to [`push_bytes`](Exchange::push_bytes) and
//! [`finish_response`](Exchange::finish_response) (or [`push_whole`](Exchange::push_whole), or
//! [`fail_request`](Exchange::fail_request)), and take the next step. On [`Step::Done`] the turn is
//! the client's, or the run has ended.

mod additions;
mod begin;
mod bill;
mod context;
mod done;
mod hosted;
mod notice;
mod opened;
mod plan;
mod progress;
mod reading;
mod report;
mod shown;
mod unfinished;
mod upstream;

use bytes::Bytes;
use softland_core::{
    Admission, Because, Digest, Facts, MessagePosition, NextAction, Outcome, Reason,
    RequestFailure, Role, Run, RunEnding, Rung, Signal, SignalKind, Tail, TurnClass, classify_turn,
    looks_trivial,
};
use softland_wire::Tokens;
use softland_wire::request::{Request, RequestError};

use crate::framing::{ResponseError, UpstreamEnd};
use crate::out::{Event, Output};
use crate::relay::{EndedResponse as Response, Relay, Visibility};
use crate::remembered::StoredConversation;
use crate::reply::Reply;
use bill::ExchangeBill;
use progress::LadderProgress;
use reading::RequestReading;
use upstream::UpstreamChange;

pub use begin::{BeginError, KnownFacts, KnownMoney};
pub use context::Context;
pub use done::{Done, PendingCall};
pub use notice::{error_event, local_response, ping_event};
pub use opened::OpenedRequest;
pub use unfinished::{ExchangeEnded, UnfinishedResponse, UnreadableResponse};

/// The next step of an exchange.
#[derive(Debug)]
pub enum Step {
    /// Send this body upstream.
    Send(Bytes),
    /// There is nothing more to send.
    Done(Box<Done>),
}

/// One client request and its response.
///
/// The caller sends what [`next_step`](Self::next_step) says, as often as it says so, and hands the
/// bytes of `out` to the client. A whole conversation is in the example `own_client`.
///
/// ```
/// use softland_session::core::Role;
/// use softland_session::core::policy::Policy;
/// use softland_session::{Context, Exchange, Output, Step};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy { tool_calls_limit: Some(30), ..Policy::default() };
/// let context = Context::new(Role::Gateway, policy, None, "claude-sonnet-5-5");
/// let body = r#"{"model": "claude-sonnet-5-5", "max_tokens": 100,
///     "tools": [{"name": "ls", "input_schema": {"type": "object"}}],
///     "messages": [{"role": "user", "content": "Hello"}]}"#;
///
/// let mut out = Output::default();
/// let mut exchange = Exchange::from_request(body, context, &mut out)?;
/// let Step::Send(sent) = exchange.next_step()? else { unreachable!("nothing was asked yet") };
/// assert_eq!(sent, body, "nothing is changed before it has to be");
///
/// // A stream goes in as it comes: `push_bytes` for each piece, then `finish_response`.
/// let response = r#"{"id": "msg_1", "type": "message", "role": "assistant",
///     "model": "claude-sonnet-5-5", "content": [{"type": "text", "text": "Hello to you."}],
///     "stop_reason": "end_turn", "stop_sequence": null,
///     "usage": {"input_tokens": 10, "output_tokens": 4}}"#;
/// exchange.push_whole(response.as_bytes(), &mut out)?;
/// let Step::Done(done) = exchange.next_step()? else { unreachable!("the model has answered") };
/// assert_eq!(out.bytes, response.as_bytes());
/// assert_eq!(done.answer.as_deref(), Some("Hello to you."));
/// assert_eq!(done.ended.map(|end| end.outcome.word()), Some("answered"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Exchange {
    reading: RequestReading,
    progress: LadderProgress,
    bill: ExchangeBill,
    relay: Relay,
}

impl Exchange {
    /// Reads a client's request and decides what to send for it. Interventions, and what was seen
    /// in its newest message, go to `out`.
    ///
    /// # Errors
    /// When the body is no request of the context's API.
    pub fn from_request(
        body: impl Into<Bytes>,
        context: Context,
        out: &mut Output,
    ) -> Result<Self, RequestError> {
        let (body, facts) = (body.into(), context.facts);
        let request = Request::from_body(context.api, &body)?;
        let opened = OpenedRequest::read_history(
            &request,
            body.clone(),
            context,
            StoredConversation::default(),
        );
        Ok(opened.into_exchange(&facts, out))
    }

    fn from_opened(opened: OpenedRequest<'_>, facts: Facts, out: &mut Output) -> Self {
        let request = opened.request;
        let (reading, newest) = RequestReading::from_opened(opened, facts);
        let mut ladder = reading.new_ladder(request);
        let next = ladder.choose_first_action();
        report::report_effects(newest, matches!(next, NextAction::Send { .. }), out);
        let relay = reading.new_relay(request);
        let (progress, bill) = (LadderProgress::new(ladder), ExchangeBill::default());
        let mut exchange = Self { reading, progress, bill, relay };
        exchange.follow_ladder(next, None, out);
        exchange
    }

    /// Returns the next step.
    ///
    /// # Errors
    /// When the result was taken before.
    pub fn next_step(&mut self) -> Result<Step, ExchangeEnded> {
        match self.progress.take_done() {
            Some(done) => Ok(Step::Done(done)),
            None if self.progress.has_ended() => Err(ExchangeEnded),
            None => {
                self.bill.count_request();
                Ok(Step::Send(self.upstream_body()))
            }
        }
    }

    /// True if there is nothing to send: the next step is the last.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.progress.has_ended()
    }

    /// True if the client asked for a stream.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.reading.request.is_streaming()
    }

    /// Returns the rung of the request under way.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.progress.ladder.rung()
    }

    /// True if the client has seen text or a call of this turn. A failed request can then not be
    /// sent again unnoticed.
    #[must_use]
    pub fn has_shown(&self) -> bool {
        self.relay.has_shown()
    }

    /// Returns the run as its history shows it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.reading.run
    }

    /// Returns the client's request, joined with the history before it.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        self.reading.request.view()
    }

    /// Returns the output limit of the newest request, in tokens, if it has one.
    #[must_use]
    pub fn sent_output_limit(&self) -> Option<u64> {
        self.reading.sent_limit(&self.progress.upstream_change())
    }

    /// Returns the body of the newest request with another output limit.
    #[must_use]
    pub fn body_with_output_limit(&self, tokens: u64) -> Bytes {
        self.change_body(UpstreamChange { limit: Some(tokens), ..self.progress.upstream_change() })
    }

    /// Returns the tokens of the response under way so far, for a response that is given up.
    /// Responses that ended are reported by [`Event::Usage`].
    #[must_use]
    pub fn tokens_so_far(&self) -> Tokens {
        self.relay.tokens_so_far()
    }

    /// Returns the position of the newest message; `None` where it is not a user's.
    #[must_use]
    pub fn newest_position(&self) -> Option<MessagePosition> {
        self.reading.here
    }

    /// Returns the digest that identifies the run; `None` where there is no run.
    #[must_use]
    pub fn run_key(&self) -> Option<Digest> {
        self.reading.key
    }

    /// True if the response under way is to be ended here, since all of it that may pass has
    /// passed. The caller gives up the upstream request and calls [`Self::finish_response`], which
    /// takes the response as ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.relay.stop_reason().is_some()
    }

    /// True if text is held back. The client of a stream then needs a sign of life now and then.
    #[must_use]
    pub fn holds_text(&self) -> bool {
        self.relay.holds_text()
    }

    /// Returns the time at which to end the response under way if no further call begins, in
    /// milliseconds on the clock of [`Self::advance_clock`].
    #[must_use]
    pub fn shape_deadline_ms(&self) -> Option<u64> {
        self.relay.shape_deadline_ms()
    }

    /// Sets the time, in milliseconds of any clock that does not go back. Where `stop_after_tools`
    /// is `burst`, it has to be called before each [`Self::push_bytes`] and at the time that
    /// [`shape_deadline_ms`](Self::shape_deadline_ms) returns; see
    /// [`is_stopped`](Self::is_stopped).
    pub fn advance_clock(&mut self, now_ms: u64, out: &mut Output) {
        self.relay.advance_clock(now_ms, out);
    }

    /// Takes bytes of an upstream stream.
    ///
    /// # Errors
    /// When the stream cannot be read; call [`Self::fail_request`] then.
    pub fn push_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), UnreadableResponse> {
        self.check_open()?;
        self.relay.push_bytes(bytes, out).map_err(UnreadableResponse)
    }

    /// Returns the number of events in the upstream's stream so far. Signs of life, such as `ping`
    /// and comments, are none.
    #[must_use]
    pub fn count_events(&self) -> usize {
        self.relay.count_events()
    }

    /// Notes that the connection of the upstream's stream broke, before
    /// [`finish_response`](Self::finish_response).
    pub fn note_broken_stream(&mut self) {
        self.relay.note_broken();
    }

    /// Ends the upstream stream, whether whole or cut.
    ///
    /// # Errors
    /// When it was cut, ended in an error, or cannot be read; call [`Self::fail_request`] then, or
    /// [`Self::retry_request`] where nothing was shown.
    pub fn finish_response(&mut self, out: &mut Output) -> Result<(), UnfinishedResponse> {
        self.check_open().map_err(UnfinishedResponse::Unreadable)?;
        let so_far = self.relay.tokens_so_far();
        let response = self
            .relay
            .finish_response(out)
            .map_err(|b| UnfinishedResponse::Unreadable(UnreadableResponse(b)))?;
        let unfinished = match response.end {
            UpstreamEnd::Stop => {
                self.take_response(response, out);
                return Ok(());
            }
            UpstreamEnd::Cut if response.foreign => UnfinishedResponse::Foreign(response.words),
            UpstreamEnd::Cut => UnfinishedResponse::Cut(response.words),
            UpstreamEnd::Error { kind, message } => UnfinishedResponse::Error { kind, message },
        };
        self.count_broken_off(so_far);
        Err(unfinished)
    }

    /// Refuses a response that comes after the end.
    fn check_open(&self) -> Result<(), UnreadableResponse> {
        match self.progress.has_ended() {
            true => Err(UnreadableResponse(ResponseError::Ended)),
            false => Ok(()),
        }
    }

    /// Counts the tokens that a response reported before it broke off.
    fn count_broken_off(&mut self, so_far: Tokens) {
        self.bill.count_broken_off(so_far, self.relay.is_live());
    }

    /// Takes a whole upstream response that was not streamed.
    ///
    /// # Errors
    /// When it is no response; call [`Self::fail_request`] then.
    pub fn push_whole(&mut self, body: &[u8], out: &mut Output) -> Result<(), UnreadableResponse> {
        self.check_open()?;
        let response = self.relay.push_whole(body, out);
        let response = response.map_err(|error| UnreadableResponse::from_body(error, body))?;
        self.take_response(response, out);
        Ok(())
    }

    /// Gives up the request, which brought no turn even when it was tried again.
    pub fn fail_request(&mut self, failure: RequestFailure, out: &mut Output) {
        if self.progress.has_ended() {
            return;
        }
        self.count_broken_off(self.relay.tokens_so_far());
        let next = if self.relay.cannot_continue() {
            NextAction::End {
                ended: RunEnding::without_limit(Outcome::Failed, Reason::Provider),
                local: false,
            }
        } else {
            self.progress.ladder.handle_failure(failure)
        };
        self.follow_ladder(next, None, out);
    }

    /// Lands the run for a limit that the transcript does not show, reached while the request was
    /// under way. The caller has given the request up. If the client has been shown a call, no
    /// answer can follow it: the run then fails, and its message breaks off.
    pub fn land_at_limit(&mut self, because: Because, out: &mut Output) {
        if self.progress.has_ended() {
            return;
        }
        self.count_broken_off(self.relay.tokens_so_far());
        let next = if self.relay.cannot_continue() {
            NextAction::End {
                ended: RunEnding::from_because(Outcome::Failed, &because, None),
                local: false,
            }
        } else {
            self.progress.ladder.handle_expiry(because)
        };
        self.follow_ladder(next, None, out);
    }

    /// Answers in the model's place because money is short. The request that
    /// [`next_step`](Self::next_step) returned last was not sent. If the client has been shown a
    /// call, no answer can follow it: the run then fails for that limit.
    pub fn deny_request(&mut self, because: &Because, out: &mut Output) {
        if self.progress.has_ended() {
            return;
        }
        self.bill.take_back_request();
        let next = if self.relay.cannot_continue() {
            NextAction::End {
                ended: RunEnding::from_because(Outcome::Failed, because, None),
                local: false,
            }
        } else {
            self.progress.ladder.handle_denial(because)
        };
        self.follow_ladder(next, None, out);
    }

    /// Prepares to send the same request once more.
    pub fn retry_request(&mut self, out: &mut Output) {
        self.count_broken_off(self.relay.tokens_so_far());
        self.relay.begin_response(self.progress.next_mode(&self.reading), out);
    }

    fn take_response(&mut self, response: Response, out: &mut Output) {
        let reply = response.reply;
        self.progress.note_logged();
        self.bill.count_response(reply.tokens, reply.billed);
        let (class, admissions, next) = self.judge_reply(&reply, out);
        let show = self.decide_visibility(&reply, class, &next);
        // The engine shows its own calls as they come, whatever becomes of them.
        let all = self.reading.role == Role::Engine && show == Visibility::All;
        let admissions = if all { Vec::new() } else { admissions };
        self.relay.settle_response(&reply, show, &admissions, out);
        if show != Visibility::Nothing || self.relay.has_shown_newest_response() {
            self.bill.count_shown(reply.tokens.output);
        }
        self.progress.newest = Some(reply);
        self.follow_ladder(next, Some(class), out);
    }

    /// Classifies a turn, and returns what follows from it, with what is decided on its calls.
    fn judge_reply(
        &mut self,
        reply: &Reply,
        out: &mut Output,
    ) -> (TurnClass, Vec<Admission>, NextAction) {
        let Self { reading, progress, .. } = self;
        let finished = reply.as_finished_turn();
        let class = classify_turn(&finished, |call| reading.run.is_answer(call));
        progress.vain = class == TurnClass::Empty || looks_trivial(&finished);
        let mut admissions = reading.run.admit_calls(&finished.calls);
        if let Some(because) = progress.ladder.landing().filter(|_| finished.cut_call)
            && let Some(cut) = admissions.last_mut()
        {
            // A call that was cut is no answer.
            *cut = Admission::Refused(because.clone());
        }
        let because = all_refused(&admissions).filter(|_| !reading.is_observing());
        let text = progress.has_said() || !finished.text.is_blank();
        let class = if reading.is_observing() {
            report::report_observed(&reading.run, class, out);
            plan::as_observed(class)
        } else {
            class
        };
        if reply.tagged.as_ref().is_some_and(|tagged| tagged.echo) {
            let turn = reading.run.used().turns + 1;
            out.events.push(Event::Signal(Signal::from_turn(SignalKind::Echo, turn, None)));
        }
        let dropped = reply.tagged.as_ref().is_some_and(|tagged| tagged.trimmed > 0);
        if dropped && reading.here.is_some() {
            progress.ladder.enable_repairs();
        }
        let next = match progress.ladder.handle_turn(class, because.as_ref(), text) {
            NextAction::Send { tail: Tail::Nudge(because), .. }
                if progress.is_bare_again(reading, reply) =>
            {
                progress.ladder.abandon_nudge(&because)
            }
            next => next,
        };
        if reading.role == Role::Gateway && next == NextAction::Pass {
            report::report_taken_out(&finished.calls, &admissions, out);
        }
        (class, admissions, next)
    }

    /// Returns how much of a response's held part the client gets.
    fn decide_visibility(&self, reply: &Reply, class: TurnClass, next: &NextAction) -> Visibility {
        let (lands, bare) = (self.progress.ladder.landing().is_some(), self.progress.has_no_tail());
        match next {
            NextAction::Pass => Visibility::All,
            NextAction::End { local: true, .. } => Visibility::Nothing,
            // Thinking is signed over the client's history, where no tail stands before it.
            NextAction::End { .. } if lands && bare => Visibility::Landed,
            NextAction::End { .. } if lands => Visibility::Answer,
            NextAction::End { .. } if bare => Visibility::All,
            // A call that goes back takes its thinking along, and the tail is kept for it. Clients
            // leave a call out that was cut.
            NextAction::End { .. }
                if class == TurnClass::Answer
                    && reply.whole
                    && self.reading.role == Role::Gateway =>
            {
                Visibility::All
            }
            NextAction::End { .. } if class == TurnClass::Answer => Visibility::Answer,
            NextAction::End { .. } => Visibility::Text,
            NextAction::Send { tail: Tail::Continue | Tail::Resume, .. } => Visibility::Text,
            NextAction::Send { .. } => Visibility::Nothing,
        }
    }

    /// Carries out what the ladder says.
    fn follow_ladder(&mut self, next: NextAction, class: Option<TurnClass>, out: &mut Output) {
        let Self { reading, progress, relay, .. } = self;
        match next {
            NextAction::Send { rung, tail, grow } => {
                let advice =
                    rung.and_then(|rung| reading.policy_advice(rung, progress.newest.as_ref()));
                progress.extend_tail(&tail, reading, relay.framing(), out);
                if let Some(rung) = rung.filter(|rung| *rung != Rung::Ask) {
                    report::report_rung(rung, progress.ladder.landing(), advice, out);
                }
                progress.begin_request(rung, tail, grow);
                relay.begin_response(progress.next_mode(reading), out);
            }
            end => {
                if progress.is_left_open() {
                    progress.close_pause(reading);
                }
                let done = self.finish_exchange(end, class, out);
                self.progress.end(done);
            }
        }
    }

    /// Returns the request with its history governed and nothing behind it, as for counting its
    /// tokens.
    #[must_use]
    pub fn governed_body(&self) -> Bytes {
        self.reading.governed_body()
    }

    /// Returns the body of the next request.
    fn upstream_body(&self) -> Bytes {
        self.change_body(self.progress.upstream_change())
    }

    fn change_body(&self, change: UpstreamChange<'_>) -> Bytes {
        let Self { reading, progress, relay, .. } = self;
        let unlogged = || progress.unlogged_items(reading.api(), relay.framing());
        reading.upstream_body(&change, unlogged)
    }
}

/// Returns the reason why every call of a turn is refused, if it is so.
fn all_refused(admissions: &[Admission]) -> Option<Because> {
    let refusal = |admission: &Admission| match admission {
        Admission::Refused(because) | Admission::ToolRefused(because) => Some(because.clone()),
        Admission::Run | Admission::Server | Admission::Answer => None,
    };
    let first = admissions.iter().find_map(refusal)?;
    admissions.iter().all(|admission| refusal(admission).is_some()).then_some(first)
}
