//! The end of a request: the state that is stored, and the records for the ledger and the metrics.

mod keep;

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use softland_ledger as ledger;
use softland_session::core::{
    Admission, Because, Digest, Ended, Evidence, NanoUsd, Phase, Rung, SignalKind,
};
use softland_session::wire::Tokens;
use softland_session::{Done, Event, Exchange, Intervention, Pending};

use super::account::Account;
use super::flow::Flow;
use super::history;
use super::open::Opening;
use super::scope::Session;
use crate::pages;
use crate::runs::{Face, OpenRun};
use crate::store::{Counted, RunState};
use keep::Keeping;

/// If the name is the user's, which may stand for many programs, only a shorter answer counts as in
/// vain.
const VAIN_OUTPUT: u64 = 20;

/// The remark in the ledger on a request that was running when the gateway was killed.
const KILLED: &str =
    "estimated: under way when the gateway was killed; the most that it can have cost";

/// The record of a request, for the ledger and the metrics.
#[derive(Debug)]
pub(super) struct Record {
    turn: u64,
    turns_limit: Option<u64>,
    /// Tool calls before this turn, and the limit on them.
    calls: u64,
    calls_limit: Option<u64>,
    landing: bool,
    /// True if interventions are only reported, not carried out.
    observed: bool,
    continues: Option<Arc<str>>,
    /// The interventions in the request, in order.
    done: Vec<&'static str>,
    /// True once the client's request is decided on; later interventions concern the response.
    begun: bool,
    /// True if softland itself has answered.
    local: bool,
    under_way: Option<UnderWay>,
    counted: Option<Counted>,
    /// Text that was removed from the response of a request that belongs to no run.
    dropped: Option<String>,
}

/// The running upstream request.
#[derive(Debug)]
struct UnderWay {
    /// The time at which it was sent, in milliseconds since 1970.
    at: u64,
    status: Option<u16>,
    /// Its landing rung, if any; its answer may lead to another rung.
    rung: Option<Rung>,
    /// Its body, if the ledger keeps whole contents.
    content: Option<Vec<u8>>,
}

impl Record {
    pub(super) fn new(exchange: &Exchange, continues: Option<Arc<str>>) -> Self {
        let policy = exchange.run().policy();
        Self {
            turn: exchange.run().used().turns + 1,
            turns_limit: policy.turns_limit,
            calls: exchange.run().used().calls,
            calls_limit: policy.tool_calls_limit,
            landing: *exchange.run().phase() != Phase::Open && !policy.observes(),
            observed: policy.observes(),
            continues,
            done: Vec::new(),
            begun: false,
            local: false,
            under_way: None,
            counted: None,
            dropped: None,
        }
    }

    /// Marks the request as decided on. Later interventions concern the response.
    pub(super) fn decided(&mut self) {
        self.begun = true;
    }

    /// Records a request of a run, which may be the run's first.
    pub(super) fn begins(&self, opening: &Opening, run: &RunState) {
        let gate = &opening.asked.gate;
        if opening.metered {
            return;
        }
        let now = gate.now();
        let before = (self.turn.saturating_sub(1), self.calls);
        let before = if self.continues.is_some() { before } else { (0, 0) };
        if gate.runs.begins(&run.id, now, before) {
            self.run_begins(opening, run, now);
        }
        let stands = (self.calls, self.phase());
        gate.runs.stands(&run.id, stands, opening.outline.here, &opening.asked);
        // A retry continues its turn.
        if gate.runs.turn_begins(&run.id, self.turn) {
            let fields = TurnBegun { turns_limit: self.turns_limit };
            self.tell_at(now, opening, &run.id, "turn_start", &fields);
        }
    }

    fn run_begins(&self, opening: &Opening, run: &RunState, now: u64) {
        let gate = &opening.asked.gate;
        if self.observed {
            gate.metrics.run_observed();
        }
        // The old run was idle for so long that its end may not have been recorded yet.
        if let Some(old) = &self.continues {
            gate.end_left(old);
        }
        let agent = opening.asked.parts.headers.get(http::header::USER_AGENT);
        let client = agent.and_then(|agent| agent.to_str().ok()).map(|agent| cut(agent, 200));
        let (parent, agent) = (opening.parent_run(), opening.identity.agent.clone());
        if let Some(tape) = parent.as_ref().and_then(|parent| gate.tapes.of(parent)) {
            let fields = serde_json::json!({"child_run": &*run.id, "agent": agent});
            tape.write(pages::step(now, 0, "child", &fields));
        }
        gate.runs.met(
            &run.id,
            Face {
                started: now,
                session: session(opening),
                name: opening.identity.run.clone(),
                agent,
                parent,
                continues: self.continues.clone(),
                model: opening.model.clone(),
                policy: opening.chosen.name.clone(),
                client: client.clone(),
                observed: self.observed,
                calls_limit: self.calls_limit,
            },
        );
        gate.tell(|| {
            ledger::Record::RunStart(ledger::RunStart {
                at: now,
                run: run.id.clone(),
                session: session(opening),
                name: opening.identity.run.clone(),
                observed: self.observed,
                agent: opening.identity.agent.clone(),
                continues: self.continues.clone(),
                model: opening.model.clone(),
                policy: opening.chosen.name.clone(),
                client,
            })
        });
    }

    /// Returns the number of the request's turn.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    fn phase(&self) -> &'static str {
        let counts = self.done.iter().any(|done| matches!(*done, "countdown" | "warn"));
        match (self.landing, counts) {
            (true, _) => "landing",
            (false, true) => "countdown",
            (false, false) => "silent",
        }
    }

    /// Returns the interventions in the request, without repetitions.
    pub(super) fn done_to_request(&self) -> Vec<&'static str> {
        let mut done = self.done.clone();
        done.dedup();
        done
    }

    pub(super) fn answered_locally(&self) -> bool {
        self.local
    }

    /// Records an event of the session. Returns the intervention in the response, if it is one.
    pub(super) fn event(
        &mut self,
        opening: &Opening,
        run: &Arc<str>,
        event: &Event,
    ) -> Option<&'static str> {
        let gate = &opening.asked.gate;
        let mut to_response = None;
        match event {
            Event::Signal(signal) => {
                gate.metrics.signal(signal.signal.word());
                let fields = Signalled { evidence: &signal.evidence, signal: signal.signal };
                self.tell(opening, run, "signal", &fields);
            }
            Event::Intervention { intervention, because, text } => {
                let word = intervention.word();
                if self.observed {
                    gate.metrics.would(word, gate.runs.would(run, word));
                } else {
                    gate.metrics.intervention(word);
                }
                if self.begun {
                    to_response = Some(word);
                } else {
                    self.done.push(word);
                }
                self.local |= matches!(word, "local_answer" | "stop");
                if opening.metered && *intervention == Intervention::TrimTail && !self.observed {
                    self.dropped.clone_from(text);
                }
                let (because, text) = (because.as_ref(), text.as_deref());
                let observed = self.observed;
                let fields = Intervened { because, intervention: word, observed, text };
                self.tell(opening, run, "intervention", &fields);
            }
            Event::Shaped(note) => tracing::info!(id = %opening.target.id, %note, "shaped"),
            _ => {}
        }
        to_response
    }

    /// Records that a request beside the client's own got no money.
    pub(super) fn denied(&self, opening: &Opening, run: &Arc<str>, why: &str) {
        opening.asked.gate.metrics.intervention("deny_spend");
        let fields = Intervened {
            because: None,
            intervention: "deny_spend",
            observed: self.observed,
            text: Some(why),
        };
        self.tell(opening, run, "intervention", &fields);
    }

    fn tell(
        &self,
        opening: &Opening,
        run: &Arc<str>,
        event: &'static str,
        fields: &impl Serialize,
    ) {
        self.tell_at(opening.asked.gate.now(), opening, run, event, fields);
    }

    fn tell_at(
        &self,
        at: u64,
        opening: &Opening,
        run: &Arc<str>,
        event: &'static str,
        fields: &impl Serialize,
    ) {
        // A request that is only metered belongs to no run.
        if opening.metered {
            return;
        }
        opening.asked.gate.tell(|| {
            let (turn, run) = (self.turn, Arc::clone(run));
            let fields = ledger::Fields::of(fields);
            ledger::Record::Event(ledger::Event { at, run, turn, event, fields })
        });
    }

    /// Records a request that is sent upstream.
    pub(super) fn sends(
        &mut self,
        opening: &Opening,
        account: &Account,
        rung: Option<Rung>,
        body: &[u8],
    ) {
        let gate = &opening.asked.gate;
        let full = opening.target.live.settings.ledger_full && gate.ledger.is_some();
        let content = full.then(|| body.to_vec());
        let under_way = UnderWay { at: gate.now(), status: None, rung, content: None };
        gate.tell(|| {
            let run = &account.state.id;
            ledger::Record::Sent(self.row((opening, run), &under_way, account.worst(), KILLED))
        });
        self.under_way = Some(UnderWay { content, ..under_way });
    }

    /// Returns true if an upstream request is running.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn status(&mut self, status: u16) {
        if let Some(under_way) = &mut self.under_way {
            under_way.status = Some(status);
        }
    }

    /// Notes the provider's count of the client's own context.
    pub(super) fn counted(&mut self, context: Digest, (tokens, shown): (u64, [u64; 3])) {
        self.counted = Some(Counted { context, tokens, shown });
    }

    /// Records the end of the running request, and its cost.
    pub(super) fn billed(
        &mut self,
        (opening, run): (&Opening, &Arc<str>),
        tokens: Tokens,
        cost: Option<NanoUsd>,
        remark: Option<&str>,
    ) {
        let gate = &opening.asked.gate;
        if let Some(cost) = cost {
            gate.metrics.spend(cost);
        }
        let Some(mut under_way) = self.under_way.take() else { return };
        let dropped = self.dropped.take();
        let metered = || opening.metered.then_some("metered: no tools");
        let remark = remark.or(opening.unheld.as_deref()).or_else(metered);
        let remarks: Vec<&str> = remark.into_iter().chain(dropped.as_deref()).collect();
        gate.tell(|| {
            let content = under_way.content.take();
            let row = self.row((opening, run), &under_way, (tokens, cost), &remarks.join("; "));
            let millis = gate.now().saturating_sub(under_way.at);
            ledger::Record::Request(ledger::Request { millis, content, ..row })
        });
    }

    /// Returns the ledger's row of an upstream request, without its content and its duration.
    fn row(
        &self,
        (opening, run): (&Opening, &Arc<str>),
        under_way: &UnderWay,
        (tokens, cost): (Tokens, Option<NanoUsd>),
        remark: &str,
    ) -> ledger::Request {
        ledger::Request {
            at: under_way.at,
            id: opening.target.id.text(),
            run: (!opening.metered).then(|| Arc::clone(run)),
            session: Some(session(opening)),
            turn: self.turn,
            upstream: Arc::clone(opening.target.origin.label()),
            path: opening.target.path.path().to_owned(),
            model: Some(opening.model.clone()),
            rung: under_way.rung.map(|rung| rung.word().to_owned()),
            status: under_way.status,
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cost,
            millis: 0,
            remark: (!remark.is_empty()).then(|| remark.to_owned()),
            content: None,
        }
    }
}

/// The ledger's fields of a turn's start. The turn's number is in every record.
#[derive(Serialize)]
struct TurnBegun {
    #[serde(skip_serializing_if = "Option::is_none")]
    turns_limit: Option<u64>,
}

/// The ledger's fields of a signal.
#[derive(Serialize)]
struct Signalled<'a> {
    evidence: &'a Evidence,
    signal: SignalKind,
}

/// The ledger's fields of an intervention.
#[derive(Serialize)]
struct Intervened<'a> {
    because: Option<&'a Because>,
    intervention: &'a str,
    /// True if it was not carried out, since the policy only observes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    observed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Flow {
    /// Ends the client's request: books its cost, records it and stores the changes.
    pub(super) async fn close(&mut self, done: Option<Box<Done>>) {
        let policy = self.exchange.run().policy();
        if policy.limits_money() && done.as_ref().is_some_and(|done| done.ended.is_some()) {
            let gate = Arc::clone(&self.opening.asked.gate);
            self.account.settle();
            self.account.look_again(&gate).await;
        }
        if let Some(keeping) = self.book(done) {
            keeping.keep().await;
        }
    }

    /// Does the same in a place that cannot await.
    pub(super) fn close_now(&mut self, done: Option<Box<Done>>) {
        let Some(keeping) = self.book(done) else { return };
        let mut keeping = Box::pin(keeping.keep());
        // A store in memory is always ready.
        if keeping.as_mut().now_or_never().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(keeping);
        }
    }

    fn book(&mut self, mut done: Option<Box<Done>>) -> Option<Box<Keeping>> {
        if self.closed {
            return None;
        }
        self.closed = true;
        self.account.settle();
        self.settle_record();
        let gate = Arc::clone(&self.opening.asked.gate);
        let now = gate.now();
        if let Some(done) = &mut done {
            self.tell_what_is_left(done, now);
        }
        if let Some(done) = &done {
            let calls = done.calls.iter().filter(|call| call.admission.runs()).count() as u64;
            gate.metrics.tool_calls(calls);
        }
        if self.opening.metered {
            return self.summed_up(done.as_deref(), gate);
        }
        let summary = self.summary(done.as_deref_mut());
        self.told_of_run(done.as_deref(), now);
        let shown = done.as_mut().and_then(|done| done.shown.take());
        let shown = shown.map(|shown| history::kept_as(&self.opening.asked, shown));
        self.tape_ends(done.is_some());
        let (scope, mut changes) = (self.opening.place.scope.clone(), self.changes(done, now));
        changes.clues.extend(summary);
        Some(Box::new(Keeping { gate, scope, changes, parent: self.parent_changes(), shown }))
    }

    /// Sets what the limits leave, after this request's own money, tokens and time.
    fn tell_what_is_left(&self, done: &mut Done, now: u64) {
        let Some(ended) = &mut done.ended else { return };
        let facts = self.account.facts(now, None);
        ended.remaining = done.used.remaining(self.exchange.run().policy(), &facts);
    }

    /// Records a request that failed, without a cost.
    pub(super) fn settle_record(&mut self) {
        let cost = self.account.is_priced().then_some(NanoUsd::ZERO);
        let run = &self.account.state.id;
        self.record.billed((&self.opening, run), Tokens::default(), cost, None);
    }

    fn told_of_run(&self, done: Option<&Done>, now: u64) {
        let gate = &self.opening.asked.gate;
        let id = &self.account.state.id;
        let used = done.map_or_else(|| self.exchange.run().used(), |done| &done.used);
        let calls = used.calls + done.map_or(0, |done| calls_to_run(done).count() as u64);
        let spent = (self.account.used(), self.account.cost());
        let request = OpenRun::request(now, (used.turns, calls), spent.0, spent.1);
        // A response without a result of the session was passed on: it is no turn.
        let request = if done.is_none() { request.refused() } else { request };
        gate.runs.goes_on(id, &request);
        let Some((done, ended)) = done.and_then(|done| Some((done, done.ended.as_ref()?))) else {
            return;
        };
        if let Some(limit) = &ended.limit {
            gate.metrics.limit_hit(limit, ended.outcome.word());
        }
        gate.metrics.run_ended(ended.outcome);
        if let Some(open) = gate.runs.ends(id) {
            gate.runs.over(id, &open, ended, done.local, now);
            let full = self.opening.target.live.settings.ledger_full;
            let answer = done.answer.clone().filter(|_| full);
            gate.tell(|| ends(now, id, ended.clone(), done.local, answer, &open));
        }
    }
}

/// Returns the ledger's record of a run's end.
pub(crate) fn ends(
    at: u64,
    run: &str,
    ended: Ended,
    local: bool,
    answer: Option<String>,
    open: &OpenRun,
) -> ledger::Record {
    let (tokens, (turns, calls)) = (open.tokens, open.own());
    ledger::Record::RunEnd(ledger::RunEnd {
        at,
        run: run.into(),
        ended,
        local,
        answer,
        turns,
        tool_calls: Some(calls),
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
        cost: open.cost,
    })
}

fn calls_to_run(done: &Done) -> impl Iterator<Item = &Pending> {
    done.calls.iter().filter(|call| call.admission == Admission::Run)
}

fn session(opening: &Opening) -> Arc<str> {
    match &opening.place.session {
        Session::Named(name) => name.clone(),
        Session::Alone => opening.place.scope.clone(),
    }
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}
