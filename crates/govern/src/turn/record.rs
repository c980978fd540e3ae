//! The records of one request, for the ledger and the metrics.

use std::sync::Arc;

use softland_session::core::models::Price;
use softland_session::core::{
    CacheTurn, Digest, NanoUsd, PromptCache, Rung, SpendClasses, TurnTokens,
};
use softland_session::wire::Tokens;
use softland_session::{Event, Exchange};

use super::account::RequestAccount;
use super::open::RequestSetup;
use crate::records::{EventFields, Record, RequestRow, RunEvent, RunStart};
use crate::runs::{ObservedEnd, RunPhase, RunProgress};
use crate::shared::StateNote;
use crate::store::CountedContext;
use crate::watcher::{BilledRequest, RunPlace};

/// The remark in the ledger on a request that was running when the gateway was killed.
const KILLED: &str =
    "estimated: under way when the gateway was killed; the most that it can have cost";

/// The record of a request, for the ledger and the metrics.
#[derive(Debug)]
pub(super) struct RequestRecord {
    turn: u64,
    turns_limit: Option<u64>,
    /// Tool calls before this turn.
    calls: u64,
    landing: bool,
    /// True if interventions are only reported, not carried out.
    observed: bool,
    continues: Option<Arc<str>>,
    /// The interventions in the request, in order.
    done: Vec<&'static str>,
    /// True once something was done to the request or its response.
    intervened: bool,
    /// True once the client's request is decided on; later interventions concern the response.
    begun: bool,
    /// True if softland itself has answered.
    local: bool,
    under_way: Option<RunningRequest>,
    /// The end to which the request would have brought its run, if the run is only observed.
    observed_end: Option<ObservedEnd>,
    pub(super) counted: Option<CountedContext>,
    /// The provider's cache, as the conversation's requests show it.
    cache: PromptCache,
    cache_changed: bool,
}

/// The running upstream request.
#[derive(Debug)]
struct RunningRequest {
    /// The time at which it was sent, in milliseconds since 1970.
    at: u64,
    status: Option<u16>,
    /// Its landing rung, if any; its answer may lead to another rung.
    rung: Option<Rung>,
    /// Its body, if the ledger keeps whole contents.
    content: Option<Vec<u8>>,
}

impl RequestRecord {
    pub(super) fn new(
        exchange: &Exchange,
        continues: Option<Arc<str>>,
        cache: PromptCache,
    ) -> Self {
        let policy = exchange.run().policy();
        Self {
            turn: exchange.run().used().turns + 1,
            turns_limit: policy.turns_limit,
            calls: exchange.run().used().calls,
            landing: exchange.run().phase().is_told() && !policy.is_observing(),
            observed: policy.is_observing(),
            continues,
            done: Vec::new(),
            begun: false,
            intervened: false,
            local: false,
            under_way: None,
            observed_end: None,
            counted: None,
            cache,
            cache_changed: false,
        }
    }

    /// Returns the provider's cache, if the request has shown something about it.
    pub(super) fn changed_cache(&self) -> Option<PromptCache> {
        self.cache_changed.then_some(self.cache)
    }

    /// Marks the request as decided on. Later interventions concern the response.
    pub(super) fn mark_decided(&mut self) {
        self.begun = true;
    }

    /// Records a request of a run, which may be the run's first.
    pub(super) fn begin_request(&self, opening: &RequestSetup, account: &mut RequestAccount) {
        if opening.metered {
            return;
        }
        let services = &opening.asked.services;
        let now = services.now();
        let (is_new, begun) = account.begin_request();
        let run = &account.state.id;
        if is_new {
            self.begin_run(opening, run, now);
        }
        services.state.take_note(StateNote::Progress(RunProgress {
            run: Arc::clone(run),
            turn: self.turn,
            calls: self.calls,
            before: self.counts_before(),
            phase: self.phase(),
        }));
        services.running.add_request(run, self.turn, &opening.asked.active);
        // A retry continues its turn.
        if begun < self.turn {
            let fields = EventFields::TurnStart { turns_limit: self.turns_limit };
            self.write_event_at(now, opening, run, "turn_start", fields);
        }
    }

    /// Returns the turns and tool calls of the runs that the run continues, if it begins with this
    /// request.
    fn counts_before(&self) -> (u64, u64) {
        match self.continues {
            Some(_) => (self.turn.saturating_sub(1), self.calls),
            None => (0, 0),
        }
    }

    fn begin_run(&self, opening: &RequestSetup, run: &Arc<str>, now: u64) {
        let services = &opening.asked.services;
        if self.observed {
            services.meter.count_observed_run();
        }
        let (parent, agent) = (opening.parent_run(), opening.identity.agent.as_ref());
        if let Some(parent) = &parent {
            let place = RunPlace { run: parent, turn: 0, at: now };
            services.watcher.show_child(place, run, agent);
        }
        services.write_record(|| {
            Record::RunStart(RunStart {
                at: now,
                run: Arc::clone(run),
                session: opening.session_name(),
                name: opening.identity.run.clone(),
                observed: self.observed,
                agent: opening.identity.agent.clone(),
                continues: self.continues.clone(),
                model: opening.model.clone(),
                policy: opening.chosen.name.clone(),
                client: opening.client_name(),
                key: opening.key_name(),
                account: opening.account_name(),
                before: self.counts_before(),
            })
        });
    }

    /// Returns the number of the request's turn.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    fn phase(&self) -> RunPhase {
        let counts = self.done.iter().any(|done| matches!(*done, "countdown" | "warn"));
        match (self.landing, counts) {
            (true, _) => RunPhase::Landing,
            (false, true) => RunPhase::Countdown,
            (false, false) => RunPhase::Silent,
        }
    }

    /// Returns true if something was done to the request or its response.
    pub(super) fn has_intervened(&self) -> bool {
        self.intervened
    }

    /// Returns the interventions in the request, without repetitions.
    pub(super) fn request_interventions(&self) -> Vec<&'static str> {
        let mut done = self.done.clone();
        done.dedup();
        done
    }

    /// Returns the end to which the request would have brought its run, if the run is only observed.
    pub(super) fn observed_end(&self) -> Option<ObservedEnd> {
        self.observed_end
    }

    pub(super) fn answered_locally(&self) -> bool {
        self.local
    }

    /// Records an event of the session. Returns the intervention in the response, if it is one.
    pub(super) fn record_event(
        &mut self,
        opening: &RequestSetup,
        run: &Arc<str>,
        event: &Event,
    ) -> Option<&'static str> {
        let services = &opening.asked.services;
        let mut to_response = None;
        match event {
            Event::Signal(signal) => {
                services.meter.count_signal(signal.signal.word());
                let fields =
                    EventFields::Signal { evidence: &signal.evidence, signal: signal.signal };
                self.write_event(opening, run, "signal", fields);
            }
            Event::Intervention { intervention, because, text } => {
                let word = intervention.word();
                if self.observed {
                    services.meter.count_observed(word);
                    self.observed_end =
                        self.observed_end.or_else(|| ObservedEnd::from_intervention(word));
                } else {
                    services.meter.count_intervention(word);
                }
                self.intervened |= !self.observed;
                if self.begun {
                    to_response = Some(word);
                } else {
                    self.done.push(word);
                }
                self.local |= matches!(word, "local_answer" | "stop");
                let (because, text) = (because.as_ref(), text.as_deref());
                let observed = self.observed;
                let fields =
                    EventFields::Intervention { because, intervention: word, observed, text };
                self.write_event(opening, run, "intervention", fields);
            }
            Event::Shaped(note) => {
                tracing::info!(id = %opening.target.id, %note, "shaped");
                if note.is_change() && !self.observed {
                    let text = note.to_string();
                    self.write_event(opening, run, "shaped", EventFields::Shaped { text });
                }
            }
            _ => {}
        }
        to_response
    }

    /// Records that a request beside the client's own got no money.
    pub(super) fn record_denial(&self, opening: &RequestSetup, run: &Arc<str>, why: &str) {
        opening.asked.services.meter.count_intervention("deny_spend");
        let fields = EventFields::Intervention {
            because: None,
            intervention: "deny_spend",
            observed: self.observed,
            text: Some(why),
        };
        self.write_event(opening, run, "intervention", fields);
    }

    fn write_event(
        &self,
        opening: &RequestSetup,
        run: &Arc<str>,
        event: &'static str,
        fields: EventFields<'_>,
    ) {
        self.write_event_at(opening.asked.services.now(), opening, run, event, fields);
    }

    fn write_event_at(
        &self,
        at: u64,
        opening: &RequestSetup,
        run: &Arc<str>,
        event: &'static str,
        fields: EventFields<'_>,
    ) {
        // A request that is only metered belongs to no run.
        if opening.metered {
            return;
        }
        opening.asked.services.write_record(|| {
            let (turn, run) = (self.turn, Arc::clone(run));
            Record::Event(RunEvent { at, run, turn, event, fields })
        });
    }

    /// Records a request that is sent upstream.
    pub(super) fn record_sent(
        &mut self,
        opening: &RequestSetup,
        account: &RequestAccount,
        rung: Option<Rung>,
        body: &[u8],
    ) {
        let services = &opening.asked.services;
        let full = opening.target.settings.full_contents && services.watcher.keeps_contents();
        let content = full.then(|| body.to_vec());
        let under_way = RunningRequest { at: services.now(), status: None, rung, content: None };
        services.write_record(|| {
            let run = &account.state.id;
            Record::Sent(self.request_row((opening, run), &under_way, account.worst_case(), KILLED))
        });
        self.under_way = Some(RunningRequest { content, ..under_way });
    }

    /// Returns true if an upstream request is running.
    pub(super) fn is_request_running(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn set_status(&mut self, status: u16) {
        if let Some(under_way) = &mut self.under_way {
            under_way.status = Some(status);
        }
    }

    /// Notes the provider's count of the client's own context.
    pub(super) fn set_counted(&mut self, context: Digest, (tokens, shown): (u64, [u64; 3])) {
        self.counted = Some(CountedContext { context, tokens, shown });
    }

    /// Notes what the running request shows about the provider's cache, and records what was lost to
    /// it. `cost` is that of the tokens alone, with their price.
    pub(super) fn note_cache(
        &mut self,
        (opening, run): (&RequestSetup, &Arc<str>),
        tokens: &Tokens,
        cost: Option<(NanoUsd, Price)>,
    ) {
        // A request without tools has a context of its own.
        let Some(under_way) = self.under_way.as_ref().filter(|_| !opening.metered) else { return };
        let tokens = TurnTokens {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write_5m: tokens.cache_write_5m,
            cache_write_1h: tokens.cache_write_1h,
        };
        if tokens.context() == 0 {
            return;
        }
        let model = Some(Digest::from_bytes(opening.model.as_bytes()));
        let turn = CacheTurn { tokens, model, time: Some(under_way.at) };
        self.cache_changed = true;
        let Some(rewrite) = self.cache.take_turn(turn).rewrite else { return };
        let lost_usd = cost.map(|(cost, price)| {
            SpendClasses::split(cost, NanoUsd::ZERO, &tokens, &price, rewrite.tokens).lost
        });
        let meter = &opening.asked.services.meter;
        meter.count_cache_loss(rewrite.cause, rewrite.tokens, lost_usd.unwrap_or_default());
        let fields = EventFields::CacheLoss {
            cause: rewrite.cause,
            tokens: rewrite.tokens,
            still_read: tokens.cache_read,
            lost_usd,
            pause_ms: rewrite.pause,
        };
        self.write_event(opening, run, "cache_loss", fields);
    }

    /// Records the end of the running request, and its cost.
    pub(super) fn record_billed(
        &mut self,
        (opening, run): (&RequestSetup, &Arc<str>),
        tokens: Tokens,
        cost: Option<NanoUsd>,
        remark: Option<&str>,
    ) {
        let services = &opening.asked.services;
        if let Some(cost) = cost {
            services.meter.add_spend(cost);
            if let Some(key) = &opening.target.key {
                services.meter.add_key_spend(key, cost);
            }
        }
        let Some(mut under_way) = self.under_way.take() else { return };
        let served = under_way.status.is_some_and(|status| status < 400);
        let billed = BilledRequest { tokens, cost, served };
        services.meter.add_usage(opening.usage_labels(), &billed);
        let metered = || opening.metered.then_some("metered: no tools");
        let remark = remark.or(opening.unheld.as_deref()).or_else(metered);
        let remark = remark.unwrap_or_default();
        services.write_record(|| {
            let content = under_way.content.take();
            let row = self.request_row((opening, run), &under_way, (tokens, cost), remark);
            let millis = services.now().saturating_sub(under_way.at);
            Record::Request(RequestRow { millis, content, ..row })
        });
    }

    /// Returns the ledger's row of an upstream request, without its content and its duration.
    fn request_row(
        &self,
        (opening, run): (&RequestSetup, &Arc<str>),
        under_way: &RunningRequest,
        (tokens, cost): (Tokens, Option<NanoUsd>),
        remark: &str,
    ) -> RequestRow {
        RequestRow {
            at: under_way.at,
            id: opening.target.id.to_text(),
            run: (!opening.metered).then(|| Arc::clone(run)),
            session: Some(opening.session_name()),
            name: opening.identity.run.clone(),
            key: opening.key_name(),
            account: opening.account_name(),
            turn: self.turn,
            upstream: Arc::clone(&opening.target.upstream),
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
