//! The end of a request: the state that is stored, and the records for the ledger and the metrics.

mod store_update;

use std::sync::Arc;

use futures_util::FutureExt as _;
use softland_session::core::{Admission, NanoUsd, RunEnding, RunUsage};
use softland_session::wire::Tokens;
use softland_session::{Done, PendingCall};

use super::flow::GovernedRequest;
use super::history;
use crate::money::accounts::Balance;
use crate::records::run_end_record;
use crate::runs::OpenRun;
use crate::shared::Closing;
use store_update::StoreUpdate;

/// If the name is the user's, which may stand for many programs, only a shorter answer counts as in
/// vain.
const VAIN_OUTPUT: u64 = 20;

impl GovernedRequest {
    /// Ends the client's request: books its cost, stores the changes and records it.
    pub(super) async fn close_request(&mut self, done: Option<Box<Done>>) {
        let Some(update) = self.book_request(done) else { return };
        let mut writing = Box::pin(update.write_changes());
        let balances = match writing.as_mut().now_or_never() {
            Some(balances) => balances,
            // The changes are stored even if the client leaves while they are on their way.
            None => tokio::spawn(writing).await.unwrap_or_default(),
        };
        self.record_end(&balances);
    }

    /// Does the same in a place that cannot await.
    pub(super) fn close_now(&mut self, done: Option<Box<Done>>) {
        let Some(update) = self.book_request(done) else { return };
        let mut writing = Box::pin(update.write_changes());
        // A state in memory is always ready.
        let balances = writing.as_mut().now_or_never();
        if balances.is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(writing);
        }
        self.record_end(&balances.unwrap_or_default());
    }

    /// Books the request. Returns the changes to store, and keeps what is to be recorded.
    fn book_request(&mut self, mut done: Option<Box<Done>>) -> Option<Box<StoreUpdate>> {
        if self.closed {
            return None;
        }
        self.closed = true;
        self.account.settle_usage();
        self.record_unbilled();
        let services = Arc::clone(&self.opening.asked.services);
        let now = services.now();
        if let Some(done) = &done {
            let calls = done.calls.iter().filter(|call| call.admission.is_run()).count() as u64;
            services.meter.count_tool_calls(calls);
        }
        if self.opening.metered {
            return self.summary_update(done.as_deref(), services);
        }
        let summary = self.summary_clues(done.as_deref_mut());
        let report = self.end_report(done.as_deref(), now);
        let limited = self.exchange.run().policy().limits_money();
        let accounts = match report.ended.is_some() && limited {
            true => self.account.own_accounts(),
            false => Vec::new(),
        };
        self.report = Some(Box::new(report));
        let shown = done.as_mut().and_then(|done| done.shown.take());
        let shown = shown.map(|shown| history::with_stored_name(&self.opening.asked, shown).into());
        self.mark_tape_end(done.is_some());
        let (scope, mut changes) =
            (self.opening.place.scope.clone(), self.store_changes(done, now));
        changes.clues.extend(summary);
        let parent = self.parent_changes();
        let closing = Closing { scope, changes, parent, shown, accounts };
        Some(Box::new(StoreUpdate { services, closing }))
    }

    /// Returns what is to be recorded of the request's end.
    fn end_report(&self, done: Option<&Done>, now: u64) -> EndReport {
        let used = done.map_or_else(|| self.exchange.run().used(), |done| &done.used);
        let calls = used.calls + done.map_or(0, |done| calls_to_run(done).count() as u64);
        let full = self.opening.target.settings.full_contents;
        EndReport {
            at: now,
            used: used.clone(),
            calls,
            is_turn: done.is_some(),
            ended: done.and_then(|done| done.ended.clone()),
            local: done.is_some_and(|done| done.local),
            answer: done.and_then(|done| done.answer.clone()).filter(|_| full),
        }
    }

    /// Records a request that failed, without a cost.
    pub(super) fn record_unbilled(&mut self) {
        let cost = self.account.is_priced().then_some(NanoUsd::ZERO);
        let run = &self.account.state.id;
        self.record.record_billed((&self.opening, run), Tokens::default(), cost, None);
    }

    /// Records the end of the request, and of its run if it has ended. `balances` are those of the
    /// run and its session now, if they are known.
    pub(super) fn record_end(&mut self, balances: &[Balance]) {
        let Some(report) = self.report.take() else { return };
        let EndReport { at, used, calls, is_turn, ended, local, answer } = *report;
        self.account.refresh_spent(balances);
        let services = &self.opening.asked.services;
        let id = &self.account.state.id;
        let spent = (self.account.used(), self.account.cost());
        let request = OpenRun::from_request(at, (used.turns, calls), spent.0, spent.1);
        // A response without a result of the session was passed on: it is no turn.
        let request = if is_turn { request } else { request.with_failure() };
        services.runs.end_request(id, &request);
        let Some(mut ended) = ended else { return };
        // What the limits leave, after this request's own money, tokens and time.
        let facts = self.account.current_facts(at, None);
        ended.remaining = used.remaining_limits(self.exchange.run().policy(), &facts);
        if let Some(limit) = &ended.limit {
            services.meter.count_limit_hit(limit, ended.outcome.word());
        }
        services.meter.count_ended_run(ended.outcome);
        if let Some(open) = services.runs.remove_run(id) {
            services.runs.record_ended(id, &open, &ended, local, at);
            services.write_record(|| run_end_record(at, id, ended.clone(), local, answer, &open));
        }
    }
}

/// The facts of a request's end, recorded once its changes are stored.
#[derive(Debug)]
pub(super) struct EndReport {
    at: u64,
    used: RunUsage,
    calls: u64,
    /// True if the request brought a turn.
    is_turn: bool,
    ended: Option<RunEnding>,
    local: bool,
    answer: Option<String>,
}

fn calls_to_run(done: &Done) -> impl Iterator<Item = &PendingCall> {
    done.calls.iter().filter(|call| call.admission == Admission::Run)
}
