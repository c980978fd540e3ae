//! What is kept of a request, and told of it: to the store, the ledger, the counters.

use serde_json::json;
use softland_ledger as ledger;
use softland_session::core::{Admission, Digest, Ended, NanoUsd, Outcome, Reason, Used};
use softland_session::wire::anthropic::Tokens;
use softland_session::{Answered, Done, Event, Exchange, Outline};

use super::flow::Flow;
use super::open::Opening;
use super::scope::{Session, lost};
use crate::gate::Gate;
use crate::identify::Name;
use crate::runs::OpenRun;
use crate::store::{Changes, Counted, RunState};

/// With a name of the user's, which may stand for many programs, an answer in vain is short.
const VAIN_OUTPUT: u64 = 20;

/// The account that a request gives of itself.
#[derive(Debug)]
pub(super) struct Record {
    turn: u64,
    continues: Option<String>,
    /// What was done to the request, in order.
    done: Vec<&'static str>,
    /// Whether the client's request is decided on: what follows is done to the response.
    begun: bool,
    /// Whether softland itself has answered.
    local: bool,
    /// The upstream request under way: when it was sent, its status, and what it said where
    /// whole contents are kept.
    under_way: Option<(u64, Option<u16>, Option<Vec<u8>>)>,
    counted: Option<Counted>,
}

impl Record {
    pub(super) fn new(exchange: &Exchange, continues: Option<String>) -> Self {
        Self {
            turn: exchange.run().used().turns + 1,
            continues,
            done: Vec::new(),
            begun: false,
            local: false,
            under_way: None,
            counted: None,
        }
    }

    /// The request is decided on.
    pub(super) fn begins(&mut self, opening: &Opening, run: &RunState) {
        self.begun = true;
        let gate = &opening.asked.gate;
        let now = gate.now();
        if opening.metered || !gate.runs.begins(&run.id, now) {
            return;
        }
        let agent = opening.asked.parts.headers.get(http::header::USER_AGENT);
        let client = agent.and_then(|agent| agent.to_str().ok()).map(|agent| cut(agent, 200));
        gate.tell(|| {
            ledger::Record::RunStart(ledger::RunStart {
                at: now,
                run: run.id.clone(),
                session: session(opening),
                agent: opening.identity.agent.clone(),
                continues: self.continues.clone(),
                model: opening.model.clone(),
                policy: opening.chosen.name.clone(),
                client,
            })
        });
    }

    /// What was done to the request, each once.
    pub(super) fn done_to_request(&self) -> Vec<&'static str> {
        let mut done = self.done.clone();
        done.dedup();
        done
    }

    pub(super) fn answered_locally(&self) -> bool {
        self.local
    }

    /// Something happened that the session tells of.
    pub(super) fn event(&mut self, opening: &Opening, run: &str, event: &Event) {
        let gate = &opening.asked.gate;
        let (name, fields) = match event {
            Event::Signal(signal) => {
                gate.metrics.signal(signal.signal.word());
                let fields = json!({"signal": signal.signal, "evidence": signal.evidence});
                ("signal", fields)
            }
            Event::Intervention { intervention, because, text } => {
                let word = intervention.word();
                gate.metrics.intervention(word);
                if !self.begun {
                    self.done.push(word);
                }
                self.local |= matches!(word, "local_answer" | "stop");
                let mut fields = json!({"intervention": word, "because": because});
                if let (Some(text), Some(fields)) = (text, fields.as_object_mut()) {
                    fields.insert("text".to_owned(), json!(text));
                }
                ("intervention", fields)
            }
            _ => return,
        };
        let (at, turn, run) = (gate.now(), self.turn, run.to_owned());
        gate.tell(|| {
            let fields = fields.to_string();
            ledger::Record::Event(ledger::Event { at, run, turn, event: name, fields })
        });
    }

    /// A request goes upstream.
    pub(super) fn sends(&mut self, opening: &Opening, body: &[u8]) {
        let gate = &opening.asked.gate;
        let full = opening.target.live.settings.ledger_full && gate.ledger.is_some();
        self.under_way = Some((gate.now(), None, full.then(|| body.to_vec())));
    }

    pub(super) fn status(&mut self, status: u16) {
        if let Some((_, known, _)) = &mut self.under_way {
            *known = Some(status);
        }
    }

    /// The provider has counted the client's own context.
    pub(super) fn counted(&mut self, context: Digest, (tokens, shown): (u64, [u64; 3])) {
        self.counted = Some(Counted { context, tokens, shown });
    }

    /// The request under way is over, and was billed so much.
    pub(super) fn billed(
        &mut self,
        flow: (&Opening, &Exchange, &str),
        tokens: Tokens,
        cost: Option<NanoUsd>,
    ) {
        let (opening, exchange, run) = flow;
        let gate = &opening.asked.gate;
        if let Some(cost) = cost {
            gate.metrics.spend(cost);
        }
        let Some((at, status, content)) = self.under_way.take() else { return };
        let now = gate.now();
        let request = || ledger::Request {
            at,
            id: opening.target.id.to_string(),
            run: (!opening.metered).then(|| run.to_owned()),
            session: Some(session(opening)),
            turn: self.turn,
            upstream: opening.target.origin.name().to_owned(),
            path: opening.target.path.path().to_owned(),
            model: Some(opening.model.clone()),
            rung: exchange.rung().map(|rung| rung.word().to_owned()),
            status,
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cost,
            millis: now.saturating_sub(at),
            remark: opening.metered.then(|| "metered: no tools".to_owned()),
            content,
        };
        gate.tell(|| ledger::Record::Request(request()));
    }
}

impl Flow {
    /// The client's request is over: books, tells and keeps.
    pub(super) async fn close(&mut self, done: Option<Done>) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.account.settle();
        self.settle_record();
        let gate = self.opening.asked.gate.clone();
        if let Some(done) = &done {
            let calls = done.calls.iter().filter(|call| call.admission.runs()).count() as u64;
            gate.metrics.tool_calls(calls);
        }
        if self.opening.metered {
            return;
        }
        self.told_of_run(done.as_ref());
        let changes = self.changes(done);
        if let Err(error) = gate.store.keep(&self.opening.place.scope, changes).await {
            lost(&gate, &error);
        }
        self.tell_parent(&gate).await;
    }

    /// A request that failed is told of too.
    fn settle_record(&mut self) {
        let (id, opening) = (self.account.state.id.clone(), &self.opening);
        self.record.billed((opening, &self.exchange, &id), Tokens::default(), None);
    }

    fn told_of_run(&self, done: Option<&Done>) {
        let gate = &self.opening.asked.gate;
        let id = &self.account.state.id;
        let used = done.map_or_else(|| self.exchange.run().used().clone(), with_calls);
        let request = OpenRun {
            last: gate.now(),
            turns: used.turns,
            calls: used.calls,
            tokens: self.account.used(),
            cost: self.account.cost(),
        };
        gate.runs.goes_on(id, &request);
        let Some((done, ended)) = done.and_then(|done| Some((done, done.ended.as_ref()?))) else {
            return;
        };
        if let Some(limit) = &ended.limit {
            gate.metrics.limit_hit(limit, ended.outcome.word());
        }
        gate.metrics.run_ended(ended.outcome);
        if let Some(open) = gate.runs.ends(id) {
            let full = self.opening.target.live.settings.ledger_full;
            let answer = done.answer.clone().filter(|_| full);
            gate.tell(|| ends(gate.now(), id, ended.clone(), done.local, answer, &open));
        }
    }

    fn changes(&self, done: Option<Done>) -> Changes {
        let Some(done) = done else { return self.untaken() };
        let (outline, before) = (&self.opening.outline, &self.account.state);
        let now = self.opening.asked.gate.now();
        let total = self.account.used();
        let mut state = RunState {
            tokens: total.input_total().saturating_add(total.output),
            cost: self.account.cost().unwrap_or(NanoUsd::ZERO),
            account: self.account.run_account().to_owned(),
            tool_refusals: done.tool_refusals,
            vain: self.vain(&done),
            known: self.record.counted.or(before.known),
            ended: done.ended.is_some(),
            ..before.clone()
        };
        state.touch(now);
        let ids: Vec<&str> = done.calls.iter().map(|call| call.id.as_str()).collect();
        let turn = Answered { before: outline.here, calls: Outline::calls_of(&ids) };
        let found_by_content = self.opening.identity.session.is_none();
        Changes {
            used: Some(with_calls(&done)),
            pins: done.records,
            tails: done.tail.into_iter().collect(),
            results: done.seen,
            run: Some((self.run, state)),
            child_tokens: None,
            first: Some(outline.first),
            tools: Some(outline.tools),
            turn: found_by_content.then_some(turn),
        }
    }

    /// Of a request that brought no turn: the time that it took, and what it cost.
    fn untaken(&self) -> Changes {
        let total = self.account.used();
        let mut state = RunState {
            tokens: total.input_total().saturating_add(total.output),
            cost: self.account.cost().unwrap_or(NanoUsd::ZERO),
            account: self.account.run_account().to_owned(),
            ..self.account.state.clone()
        };
        state.touch(self.opening.asked.gate.now());
        Changes { run: Some((self.run, state)), ..Changes::default() }
    }

    fn vain(&self, done: &Done) -> Option<(Digest, u64)> {
        let given = matches!(self.opening.identity.session, Some(Name::Given(_)));
        let vain = done.vain && (!given || done.spent.output <= VAIN_OUTPUT);
        let here = self.opening.outline.here;
        let before = self.account.state.vain.filter(|(context, _)| *context == here);
        vain.then(|| (here, before.map_or(0, |(_, times)| times) + 1))
    }

    /// What a sub-agent uses is its parent's, too.
    async fn tell_parent(&self, gate: &Gate) {
        let Some((scope, kept)) = &self.opening.place.parent else { return };
        let Some(run) = kept.newest else { return };
        let total = self.account.used();
        let tokens = total.input_total().saturating_add(total.output);
        let changes = Changes { child_tokens: Some((run, tokens)), ..Changes::default() };
        if let Err(error) = gate.store.keep(scope, changes).await {
            lost(gate, &error);
        }
    }

    /// The client is gone in the middle of a response that it waited for as a whole.
    pub(super) fn dropped(&mut self) {
        self.settle_record();
        if self.opening.metered {
            return;
        }
        let ended = Ended::plain(Outcome::Cancelled, Reason::User);
        let gate = &self.opening.asked.gate;
        let id = &self.account.state.id;
        gate.metrics.run_ended(ended.outcome);
        if let Some(open) = gate.runs.ends(id) {
            let cost = open.cost.zip(self.account.cost()).map(|(sum, cost)| sum + cost);
            let open = OpenRun { tokens: open.tokens.plus(self.account.used()), cost, ..open };
            gate.tell(|| ends(gate.now(), id, ended, false, None, &open));
        }
    }
}

/// The end of a run.
pub(crate) fn ends(
    at: u64,
    run: &str,
    ended: Ended,
    local: bool,
    answer: Option<String>,
    open: &OpenRun,
) -> ledger::Record {
    let tokens = open.tokens;
    ledger::Record::RunEnd(ledger::RunEnd {
        at,
        run: run.to_owned(),
        ended,
        local,
        answer,
        turns: open.turns,
        tool_calls: open.calls,
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
        cost: open.cost,
    })
}

/// What a run has used when its newest calls are run, which its next history will show.
fn with_calls(done: &Done) -> Used {
    let mut used = done.used.clone();
    for call in done.calls.iter().filter(|call| call.admission == Admission::Run) {
        used.calls += 1;
        *used.by_tool.entry(call.name.clone()).or_default() += 1;
    }
    used
}

fn session(opening: &Opening) -> String {
    match &opening.place.session {
        Session::Named(name) => name.clone(),
        Session::Alone => opening.place.scope.clone(),
    }
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}
