//! The end of a request: the state that is stored, and the records for the ledger and the metrics.

mod report;
mod store_update;

use std::sync::Arc;

use futures_util::FutureExt as _;
use softland_session::core::{Admission, NanoUsd, RunUsage};
use softland_session::wire::Tokens;
use softland_session::{Done, PendingCall};

use super::flow::GovernedRequest;
use super::history;
use crate::runs::{RequestEnd, RunTotals, SnapshotEnd};
use crate::shared::Closing;
use report::{ClosingRequest, EndReport};

/// An answer of at most this many output tokens counts as given in vain where the conversation has
/// only the name of a user, who may have many programs.
const VAIN_OUTPUT: u64 = 20;

impl GovernedRequest {
    /// Ends the client's request: books its cost, stores the changes and records it.
    pub(super) async fn close_request(&mut self, done: Option<Box<Done>>) {
        let Some(closing) = self.book_request(done) else { return };
        let mut writing = Box::pin(closing.write_end());
        // It goes on even if the client leaves meanwhile.
        if writing.as_mut().now_or_never().is_none()
            && let Err(error) = tokio::spawn(writing).await
        {
            tracing::error!(%error, "a request is not stored to its end");
        }
    }

    /// Does the same in a place that cannot await.
    pub(super) fn close_now(&mut self, done: Option<Box<Done>>) {
        let Some(closing) = self.book_request(done) else { return };
        let mut writing = Box::pin(closing.write_end());
        // A state in memory is always ready.
        if writing.as_mut().now_or_never().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(writing);
        }
    }

    /// Books the request. Returns what is to be stored and recorded.
    fn book_request(&mut self, mut done: Option<Box<Done>>) -> Option<Box<ClosingRequest>> {
        if self.closed {
            return None;
        }
        self.closed = true;
        self.account.settle_usage();
        self.record_unbilled();
        let services = Arc::clone(&self.opening.asked.services);
        let now = services.now();
        services.meter.count_usage_request(self.opening.usage_labels());
        if let Some(done) = &done {
            let calls = done.calls.iter().filter(|call| call.admission.is_run()).count() as u64;
            services.meter.count_tool_calls(calls);
        }
        if self.opening.metered {
            return self.summary_update(done.as_deref(), services);
        }
        let run = Arc::clone(&self.account.state.id);
        services.running.remove_request(&run, &self.opening.asked.active);
        let summary = self.summary_clues(done.as_deref_mut());
        let request = self.request_end(run, done.as_deref(), now);
        let report = self.end_report(&request, done.as_deref(), now);
        let limited = self.exchange.run().policy().limits_money();
        let windows = self.account.windows().to_vec();
        let mut accounts = match report.is_some() && (limited || !windows.is_empty()) {
            true => self.account.own_accounts(),
            false => Vec::new(),
        };
        if request.end.is_some() {
            // What the windows keep back for this run is free now.
            accounts.extend(windows);
        }
        let shown = done.as_mut().and_then(|done| done.shown.take());
        let shown = shown.map(|shown| history::with_stored_name(&self.opening.asked, shown).into());
        self.mark_tape_end(done.is_some());
        let (scope, mut changes) =
            (self.opening.place.scope.clone(), self.store_changes(done, now));
        changes.clues.extend(summary);
        let (parent, request) = (self.parent_changes(), Some(request));
        let closing = Closing { scope, changes, parent, shown, accounts, request };
        Some(Box::new(ClosingRequest { services, closing, report }))
    }

    /// Returns the end of the request, for the run's totals.
    fn request_end(&self, run: Arc<str>, done: Option<&Done>, at: u64) -> RequestEnd {
        let used = done.map_or_else(|| self.exchange.run().used(), |done| &done.used);
        // A call that the client is given counts, also if its result never comes.
        let calls = used.calls + done.map_or(0, |done| calls_to_run(done).count() as u64);
        let facts = self.account.current_facts(at, None);
        let counted = RunUsage { calls, ..used.clone() };
        let totals = RunTotals {
            last: at,
            turns: used.turns,
            calls,
            remaining: counted.remaining_limits(self.exchange.run().policy(), &facts),
            tokens: self.account.used(),
            cost: self.account.cost(),
            before: (0, 0),
            // A response without a result of the session was passed on: it is no turn.
            failed: done.is_none(),
        };
        let end = done.and_then(|done| {
            Some(SnapshotEnd { at, ending: done.ended.clone()?, local: done.local })
        });
        RequestEnd { run, totals, observed_end: self.record.observed_end(), end }
    }

    /// Returns what is to be recorded of the run's end, if the run ends.
    fn end_report(
        &self,
        request: &RequestEnd,
        done: Option<&Done>,
        now: u64,
    ) -> Option<Box<EndReport>> {
        let (end, done) = (request.end.clone()?, done?);
        let full = self.opening.target.settings.full_contents;
        Some(Box::new(EndReport {
            run: Arc::clone(&request.run),
            end,
            owner: self.opening.run_owner(),
            policy_name: self.opening.chosen.name.clone(),
            answer: done.answer.clone().filter(|_| full),
            used: done.used.clone(),
            policy: self.exchange.run().policy().clone(),
            facts: self.account.current_facts(now, None),
            own_cost: self.account.cost().unwrap_or_default(),
            unknown: (!self.account.is_registered()).then(|| request.totals.clone()),
        }))
    }

    /// Records a request that failed, without a cost.
    pub(super) fn record_unbilled(&mut self) {
        self.record_refused("");
    }

    /// Does so with the words of the failure.
    pub(super) fn record_refused(&mut self, words: &str) {
        let cost = self.account.is_priced().then_some(NanoUsd::ZERO);
        let run = &self.account.state.id;
        let words = Some(words).filter(|words| !words.is_empty());
        self.record.record_billed((&self.opening, run), Tokens::default(), cost, words);
    }
}

fn calls_to_run(done: &Done) -> impl Iterator<Item = &PendingCall> {
    done.calls.iter().filter(|call| call.admission == Admission::Run)
}
