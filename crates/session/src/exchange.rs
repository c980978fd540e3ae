//! One client request from its first byte to the last of its answer: what is sent upstream for
//! it, and what the client gets.
//!
//! To drive an exchange, take [`Exchange::step`]. On [`Step::Send`] send the body, feed what comes
//! back to [`push`](Exchange::push) and [`finish`](Exchange::finish) (or
//! [`whole`](Exchange::whole), or [`fail`](Exchange::fail)), and take the next step. On
//! [`Step::Done`] the turn is the client's, or the run has ended.

mod additions;
mod context;
mod done;
mod hosted;
mod notice;
mod opened;
mod plan;
mod shown;
mod unfinished;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use softland_core::models::capability::Capability;
use softland_core::{
    Admission, Because, Digest, Facts, Ladder, MessagePosition, NextAction, Outcome, PinnedRecord,
    PinnedRecords, Reason, RequestFailure, Role, Run, RunEnding, Rung, Signal, SignalKind, Tail,
    TurnClass, VisibleText, classify_turn, looks_trivial,
};
use softland_wire::request::{Request, RequestError, Role as RequestRole};
use softland_wire::{Api, Splice, Tokens};

use crate::chain::Chain;
use crate::framing::{JsonBytes, UpstreamEnd};
use crate::history::FoldedHistory;
use crate::out::{Event, Output};
use crate::protocols::new_framing;
use crate::relay::{EndedResponse as Response, Relay, RelayMode, Visibility};
use crate::remembered::{SeenResult, StoredConversation};
use crate::reply::Reply;
use crate::tags::{self, TagReader};

pub use context::Context;
use context::ModelLimits;
pub use done::{Done, PendingCall};
pub use notice::{error_event, local_response, ping_event};
pub use opened::OpenedRequest;
pub use unfinished::{UnfinishedResponse, UnreadableResponse};

/// The next step of an exchange.
#[derive(Debug)]
pub enum Step {
    /// Send this body upstream.
    Send(Bytes),
    /// There is nothing more to send.
    Done(Box<Done>),
}

/// One client request and its response.
#[derive(Debug)]
pub struct Exchange {
    role: Role,
    capability: Capability,
    most: ModelLimits,
    api: Api,
    /// The client's body, joined with the history before it.
    body: Bytes,
    chain: Option<Chain>,
    /// The position of its newest message, if that is a user's.
    here: Option<MessagePosition>,
    /// Results that are not remembered yet, as they are now.
    seen: Vec<(Digest, SeenResult)>,
    /// The lines that govern its history.
    lines: Splice,
    /// The output limit that the client asked for, in tokens.
    asked: Option<u64>,
    /// The digest that identifies the run; `None` where there is no run.
    key: Option<Digest>,
    records: PinnedRecords,
    run: Arc<Run>,
    facts: Facts,
    ladder: Ladder,
    /// Messages behind the governed history.
    tail: Vec<JsonBytes>,
    /// The part of the tail that is in a provider's log.
    log: additions::ProviderLog,
    /// A paused turn in the tail that waits for its tool's result: the index of its message, and
    /// the message without that call.
    paused: Option<(usize, Option<JsonBytes>)>,
    /// True if the history ends in a system message. Not every API lets another one follow.
    ends_in_system: bool,
    /// The number of times that `max_tokens` was doubled.
    grown: u32,
    nudged_bare: bool,
    /// The answer tool that a rung may force.
    forced_answer: Option<String>,
    relay: Relay,
    /// The reader of a history in which calls are written as text.
    reader: Option<TagReader>,
    streams: bool,
    /// Text of the turn's earlier pieces.
    pieces: String,
    /// The newest response.
    newest: Option<Reply>,
    spent: Tokens,
    /// The tokens of the newest response that reported what its request held.
    last: Tokens,
    /// The tokens of each upstream response, or those that it reported before it broke off.
    billed: Vec<Tokens>,
    shown_output: u64,
    /// Requests sent upstream.
    requests: u64,
    /// True if the newest turn was empty, or nearly so.
    vain: bool,
    next: Option<NextAction>,
    done: Option<Box<Done>>,
    /// The caller's remark for an answer that is given for want of money.
    remark: Option<String>,
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
        let OpenedRequest { request, body, role, mut fold, capability, most, .. } = opened;
        let OpenedRequest { chain, policy, reader, asked_at, uses, remark, .. } = opened;
        let (here, newest) = (fold.here, fold.fold_newest(&facts));
        let FoldedHistory { transcript, splice: mut lines, fresh, .. } = fold;
        // A history without a user message has no run: it is passed on as it is.
        let (key, run, records) = transcript.into_parts();
        let run =
            run.unwrap_or_else(|| Arc::new(Run::without_limits(PinnedRecord::new(policy), role)));
        let ids = if role == Role::Engine { plan::call_ids(request) } else { BTreeSet::new() };
        let forced_answer = plan::answer_to_force(request, &run);
        let mut setting = plan::ladder_setting(
            request,
            &run,
            &capability,
            &facts,
            forced_answer.is_some(),
            reader.as_ref(),
        );
        // Behind a model turn that the client lets go on, there is no place for a repair.
        setting.repairs &= role == Role::Engine || here.is_some();
        let ends_in_system =
            request.messages.list.last().is_some_and(|m| m.role == RequestRole::System);
        let (streams, asked) = (request.stream, request.max_tokens.map(|max| max.value));
        let phase =
            if run.policy().is_observing() { &softland_core::Phase::Open } else { run.phase() };
        let mut ladder = Ladder::new(setting, phase);
        let next = ladder.choose_first_action();
        plan::report_effects(newest, matches!(next, NextAction::Send { .. }), out);
        let asks = plan::usage_options(request, &run, asked_at);
        hosted::write_use_limits(request, &run, uses, &mut lines);
        if asks.hidden_usage {
            lines.request_stream_usage(request.text, request.span, request.stream_options);
        }
        let framing = new_framing(request.api, asks);
        let mut relay = Relay::new(framing, role, streams, Arc::clone(&run), ids);
        if let Some(reader) = &reader {
            let shape = tags::shape_in_force(&reader.shape, role, run.policy().is_observing());
            let reader = TagReader { shape: Arc::new(shape), role };
            relay.shape_by(reader, run.used().turns + 1);
        }
        let mut exchange = Self {
            role,
            capability,
            most,
            api: request.api,
            body,
            chain,
            here,
            seen: fresh.unwrap_or_default(),
            lines,
            asked,
            key,
            records,
            run,
            facts,
            ladder,
            tail: Vec::new(),
            log: additions::ProviderLog::default(),
            paused: None,
            ends_in_system,
            grown: 0,
            nudged_bare: false,
            forced_answer,
            relay,
            reader,
            streams,
            pieces: String::new(),
            newest: None,
            spent: Tokens::default(),
            last: Tokens::default(),
            billed: Vec::new(),
            shown_output: 0,
            requests: 0,
            vain: false,
            next: None,
            done: None,
            remark,
        };
        exchange.follow_ladder(next, None, out);
        exchange
    }

    /// Returns the next step.
    #[must_use]
    pub fn next_step(&mut self) -> Step {
        match self.done.take() {
            Some(done) => Step::Done(done),
            None => {
                self.requests += 1;
                Step::Send(self.upstream_body())
            }
        }
    }

    /// True if there is nothing to send: the next step is the last.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// True if the client asked for a stream.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.streams
    }

    /// Returns the rung of the request under way.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.ladder.rung()
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
        &self.run
    }

    /// Returns the tokens of the response under way so far, for a response that is given up.
    /// Responses that ended are reported by [`Event::Usage`](crate::Event::Usage).
    #[must_use]
    pub fn tokens_so_far(&self) -> Tokens {
        self.relay.tokens_so_far()
    }

    /// Returns the position of the newest message; `None` where it is not a user's.
    #[must_use]
    pub fn newest_position(&self) -> Option<MessagePosition> {
        self.here
    }

    /// Returns the digest that identifies the run; `None` where there is no run.
    #[must_use]
    pub fn run_key(&self) -> Option<Digest> {
        self.key
    }

    /// True if the response under way is to be ended here, since all of it that may pass has
    /// passed. The caller gives up the upstream request and calls [`finish`](Self::finish_response), which
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
    /// milliseconds on the clock of [`tick`](Self::advance_clock).
    #[must_use]
    pub fn shape_deadline_ms(&self) -> Option<u64> {
        self.relay.shape_deadline_ms()
    }

    /// Sets the time, in milliseconds of any clock that does not go back. Where `stop_after_tools`
    /// is `burst`, it has to be called before each [`push`](Self::push_bytes) and at the time that
    /// [`shape_deadline_ms`](Self::shape_deadline_ms) returns; see
    /// [`is_stopped`](Self::is_stopped).
    pub fn advance_clock(&mut self, now_ms: u64, out: &mut Output) {
        self.relay.advance_clock(now_ms, out);
    }

    /// Takes bytes of an upstream stream.
    ///
    /// # Errors
    /// When the stream cannot be read; call [`fail`](Self::fail_request) then.
    pub fn push_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), UnreadableResponse> {
        self.relay.push_bytes(bytes, out).map_err(UnreadableResponse)
    }

    /// Ends the upstream stream, whether whole or cut.
    ///
    /// # Errors
    /// When it was cut, ended in an error, or cannot be read; call [`fail`](Self::fail_request) then, or
    /// [`again`](Self::retry_request) where nothing was shown.
    pub fn finish_response(&mut self, out: &mut Output) -> Result<(), UnfinishedResponse> {
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
            UpstreamEnd::Cut if response.foreign => UnfinishedResponse::Foreign,
            UpstreamEnd::Cut => UnfinishedResponse::Cut,
            UpstreamEnd::Error { kind, message } => UnfinishedResponse::Error { kind, message },
        };
        self.count_broken_off(so_far);
        Err(unfinished)
    }

    /// Counts the tokens that a response reported before it broke off.
    fn count_broken_off(&mut self, so_far: Tokens) {
        if so_far.is_unreported() {
            return;
        }
        if so_far.input_total() > 0 {
            self.last = so_far;
        }
        self.billed.push(so_far);
        if self.relay.is_live() {
            self.shown_output = self.shown_output.saturating_add(so_far.output);
        }
    }

    /// Takes a whole upstream response that was not streamed.
    ///
    /// # Errors
    /// When it is no response; call [`fail`](Self::fail_request) then.
    pub fn push_whole(&mut self, body: &[u8], out: &mut Output) -> Result<(), UnreadableResponse> {
        let response = self.relay.push_whole(body, out).map_err(UnreadableResponse)?;
        self.take_response(response, out);
        Ok(())
    }

    /// Gives up the request, which brought no turn even when it was tried again.
    pub fn fail_request(&mut self, failure: RequestFailure, out: &mut Output) {
        if self.done.is_some() {
            return;
        }
        self.count_broken_off(self.relay.tokens_so_far());
        let next = if self.relay.is_stuck() {
            NextAction::End {
                ended: RunEnding::without_limit(Outcome::Failed, Reason::Provider),
                local: false,
            }
        } else {
            self.ladder.handle_failure(failure)
        };
        self.follow_ladder(next, None, out);
    }

    /// Lands the run for a limit that the transcript does not show, reached while the request was
    /// under way. The caller has given the request up. Behind a call that the client was shown
    /// nothing can follow: the run then fails, and its message breaks off.
    pub fn land_at_limit(&mut self, because: Because, out: &mut Output) {
        if self.done.is_some() {
            return;
        }
        self.count_broken_off(self.relay.tokens_so_far());
        let next = if self.relay.is_stuck() {
            NextAction::End {
                ended: RunEnding::from_because(Outcome::Failed, &because, None),
                local: false,
            }
        } else {
            self.ladder.handle_expiry(because)
        };
        self.follow_ladder(next, None, out);
    }

    /// Answers for want of money. The request that [`step`](Self::next_step) returned last was not sent.
    /// Behind a call that the client was shown nothing can follow: the run then fails for that
    /// limit.
    pub fn deny_request(&mut self, because: &Because, out: &mut Output) {
        if self.done.is_some() {
            return;
        }
        self.requests = self.requests.saturating_sub(1);
        let next = if self.relay.is_stuck() {
            NextAction::End {
                ended: RunEnding::from_because(Outcome::Failed, because, None),
                local: false,
            }
        } else {
            self.ladder.handle_denial(because)
        };
        self.follow_ladder(next, None, out);
    }

    /// Prepares to send the same request once more.
    pub fn retry_request(&mut self, out: &mut Output) {
        self.count_broken_off(self.relay.tokens_so_far());
        let mode = self.next_mode();
        self.relay.begin_response(mode, out);
    }

    fn take_response(&mut self, response: Response, out: &mut Output) {
        let reply = response.reply;
        self.log =
            additions::ProviderLog { told: Some(self.tail.len()), unanswered: JsonBytes::new() };
        self.spent = self.spent.saturating_add(reply.billed);
        self.billed.push(reply.billed);
        self.last = reply.tokens;
        let finished = reply.as_finished_turn();
        let class = classify_turn(&finished, |call| self.run.is_answer(call));
        self.vain = class == TurnClass::Empty || looks_trivial(&finished);
        let mut admissions = self.run.admit_calls(&finished.calls);
        if let Some(because) = self.ladder.landing().filter(|_| finished.cut_call)
            && let Some(cut) = admissions.last_mut()
        {
            // A call that was cut is no answer.
            *cut = Admission::Refused(because.clone());
        }
        let passes = admissions
            .iter()
            .any(|a| !matches!(a, Admission::Refused(_) | Admission::ToolRefused(_)));
        let refused = admissions.iter().find_map(|a| match a {
            Admission::Refused(b) | Admission::ToolRefused(b) => Some(b.clone()),
            _ => None,
        });
        let because = refused.filter(|_| !passes && !self.run.policy().is_observing());
        let text = !VisibleText::is_invisible_text(&self.pieces) || !finished.text.is_blank();
        let class = if self.run.policy().is_observing() {
            plan::report_observed(&self.run, class, out);
            plan::as_observed(class)
        } else {
            class
        };
        if reply.tagged.as_ref().is_some_and(|tagged| tagged.echo) {
            let turn = self.run.used().turns + 1;
            out.events.push(Event::Signal(Signal::from_turn(SignalKind::Echo, turn, None)));
        }
        let dropped = reply.tagged.as_ref().is_some_and(|tagged| tagged.trimmed > 0);
        if dropped && self.here.is_some() {
            self.ladder.enable_repairs();
        }
        let next = match self.ladder.handle_turn(class, because.as_ref(), text) {
            NextAction::Send { tail: Tail::Nudge(because), .. } if self.is_bare_again(&reply) => {
                self.ladder.abandon_nudge(&because)
            }
            next => next,
        };
        if self.role == Role::Gateway && next == NextAction::Pass {
            plan::report_taken_out(&finished.calls, &admissions, out);
        }
        let show = self.decide_visibility(&reply, class, &next);
        // The engine shows its own calls as they come, whatever becomes of them.
        let all = self.role == Role::Engine && show == Visibility::All;
        let admissions = if all { Vec::new() } else { admissions };
        self.relay.settle_response(&reply, show, &admissions, out);
        if show != Visibility::Nothing || self.relay.has_shown_newest() {
            self.shown_output = self.shown_output.saturating_add(reply.tokens.output);
        }
        self.newest = Some(reply);
        self.follow_ladder(next, Some(class), out);
    }

    /// Returns how much of a response's held part the client gets.
    fn decide_visibility(&self, reply: &Reply, class: TurnClass, next: &NextAction) -> Visibility {
        match next {
            NextAction::Pass => Visibility::All,
            NextAction::End { local: true, .. } => Visibility::Nothing,
            // Thinking is signed over the client's history, where no tail stands before it.
            NextAction::End { .. } if self.ladder.landing().is_some() && self.tail.is_empty() => {
                Visibility::Landed
            }
            NextAction::End { .. } if self.ladder.landing().is_some() => Visibility::Answer,
            NextAction::End { .. } if self.tail.is_empty() => Visibility::All,
            // A call that goes back takes its thinking along, and the tail is kept for it. Clients
            // leave a call out that was cut.
            NextAction::End { .. }
                if class == TurnClass::Answer && reply.whole && self.role == Role::Gateway =>
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
        match next {
            NextAction::Send { rung, tail, grow } => {
                let advice = rung.and_then(|rung| plan::policy_advice(self, rung));
                self.extend_tail(&tail, out);
                if let Some(rung) = rung.filter(|rung| *rung != Rung::Ask) {
                    plan::report_rung(rung, self.ladder.landing(), advice, out);
                }
                self.grown += u32::from(grow);
                self.next = Some(NextAction::Send { rung, tail, grow });
                let mode = self.next_mode();
                self.relay.begin_response(mode, out);
            }
            end => {
                let done = self.end_exchange(end, class, out);
                self.done = Some(Box::new(done));
            }
        }
    }

    /// Returns the mode in which the next response is shown.
    fn next_mode(&self) -> RelayMode {
        if self.ladder.landing().is_some() {
            return match self.ladder.rung() {
                Some(Rung::Ask) => RelayMode::Live { calls: false },
                _ => RelayMode::Held { until_call: false },
            };
        }
        let calls = plan::calls_pass(&self.run, self.role);
        match &self.next {
            Some(NextAction::Send { tail: Tail::Nudge(_) | Tail::ToolRefuse, .. }) => {
                RelayMode::Held { until_call: calls }
            }
            _ => RelayMode::Live { calls },
        }
    }

    /// Returns the request with its history governed and nothing behind it, as for counting its
    /// tokens.
    #[must_use]
    pub fn governed_body(&self) -> Bytes {
        plan::apply_edits(self, &self.lines)
    }

    /// Returns the body of the next request.
    fn upstream_body(&self) -> Bytes {
        plan::upstream_body(self)
    }

    fn end_exchange(
        &mut self,
        end: NextAction,
        class: Option<TurnClass>,
        out: &mut Output,
    ) -> Done {
        if self.paused.is_some() && !self.newest.as_ref().is_some_and(Reply::resolves_call) {
            self.close_pause();
        }
        done::finish_exchange(self, end, class, out)
    }
}
