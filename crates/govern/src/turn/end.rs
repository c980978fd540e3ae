//! The end of a request: the state that is stored, and the records for the ledger and the metrics.

mod store_update;

use std::sync::Arc;

use futures_util::FutureExt as _;
use softland_session::core::{Admission, NanoUsd};
use softland_session::wire::Tokens;
use softland_session::{Done, PendingCall};

use super::flow::GovernedRequest;
use super::history;
use crate::records::run_end_record;
use crate::runs::OpenRun;
use store_update::StoreUpdate;

/// If the name is the user's, which may stand for many programs, only a shorter answer counts as in
/// vain.
const VAIN_OUTPUT: u64 = 20;

impl GovernedRequest {
    /// Ends the client's request: books its cost, records it and stores the changes.
    pub(super) async fn close_request(&mut self, done: Option<Box<Done>>) {
        let policy = self.exchange.run().policy();
        if policy.limits_money() && done.as_ref().is_some_and(|done| done.ended.is_some()) {
            let services = Arc::clone(&self.opening.asked.services);
            self.account.settle_usage();
            self.account.refresh_spent(&services).await;
        }
        if let Some(keeping) = self.book_request(done) {
            keeping.write_changes().await;
        }
    }

    /// Does the same in a place that cannot await.
    pub(super) fn close_now(&mut self, done: Option<Box<Done>>) {
        let Some(keeping) = self.book_request(done) else { return };
        let mut keeping = Box::pin(keeping.write_changes());
        // A store in memory is always ready.
        if keeping.as_mut().now_or_never().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(keeping);
        }
    }

    fn book_request(&mut self, mut done: Option<Box<Done>>) -> Option<Box<StoreUpdate>> {
        if self.closed {
            return None;
        }
        self.closed = true;
        self.account.settle_usage();
        self.record_unbilled();
        let services = Arc::clone(&self.opening.asked.services);
        let now = services.now();
        if let Some(done) = &mut done {
            self.set_remaining(done, now);
        }
        if let Some(done) = &done {
            let calls = done.calls.iter().filter(|call| call.admission.is_run()).count() as u64;
            services.meter.count_tool_calls(calls);
        }
        if self.opening.metered {
            return self.summary_update(done.as_deref(), services);
        }
        let summary = self.summary_clues(done.as_deref_mut());
        self.record_run(done.as_deref(), now);
        let shown = done.as_mut().and_then(|done| done.shown.take());
        let shown = shown.map(|shown| history::with_stored_name(&self.opening.asked, shown));
        self.mark_tape_end(done.is_some());
        let (scope, mut changes) =
            (self.opening.place.scope.clone(), self.store_changes(done, now));
        changes.clues.extend(summary);
        Some(Box::new(StoreUpdate {
            services,
            scope,
            changes,
            parent: self.parent_changes(),
            shown,
        }))
    }

    /// Sets what the limits leave, after this request's own money, tokens and time.
    fn set_remaining(&self, done: &mut Done, now: u64) {
        let Some(ended) = &mut done.ended else { return };
        let facts = self.account.current_facts(now, None);
        ended.remaining = done.used.remaining_limits(self.exchange.run().policy(), &facts);
    }

    /// Records a request that failed, without a cost.
    pub(super) fn record_unbilled(&mut self) {
        let cost = self.account.is_priced().then_some(NanoUsd::ZERO);
        let run = &self.account.state.id;
        self.record.record_billed((&self.opening, run), Tokens::default(), cost, None);
    }

    fn record_run(&self, done: Option<&Done>, now: u64) {
        let services = &self.opening.asked.services;
        let id = &self.account.state.id;
        let used = done.map_or_else(|| self.exchange.run().used(), |done| &done.used);
        let calls = used.calls + done.map_or(0, |done| calls_to_run(done).count() as u64);
        let spent = (self.account.used(), self.account.cost());
        let request = OpenRun::from_request(now, (used.turns, calls), spent.0, spent.1);
        // A response without a result of the session was passed on: it is no turn.
        let request = if done.is_none() { request.with_failure() } else { request };
        services.runs.end_request(id, &request);
        let Some((done, ended)) = done.and_then(|done| Some((done, done.ended.as_ref()?))) else {
            return;
        };
        if let Some(limit) = &ended.limit {
            services.meter.count_limit_hit(limit, ended.outcome.word());
        }
        services.meter.count_ended_run(ended.outcome);
        if let Some(open) = services.runs.remove_run(id) {
            services.runs.record_ended(id, &open, ended, done.local, now);
            let full = self.opening.target.settings.full_contents;
            let answer = done.answer.clone().filter(|_| full);
            services
                .write_record(|| run_end_record(now, id, ended.clone(), done.local, answer, &open));
        }
    }
}

fn calls_to_run(done: &Done) -> impl Iterator<Item = &PendingCall> {
    done.calls.iter().filter(|call| call.admission == Admission::Run)
}
