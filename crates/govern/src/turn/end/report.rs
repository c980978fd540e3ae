//! The end of a request on its way: its changes are stored, and then the end of its run is
//! recorded, also if the client leaves in between.

use std::sync::Arc;

use softland_session::core::policy::Policy;
use softland_session::core::{Facts, NanoUsd, RunEnding, RunUsage};

use crate::money::accounts::Balance;
use crate::records::{RunOwner, run_end_record};
use crate::runs::{RunTotals, SnapshotEnd};
use crate::services::Services;
use crate::shared::{Closed, Closing, StateNote};
use crate::turn::scope::report_store_loss;
use crate::watcher::UsageLabels;

/// A request whose changes are to be stored, and its run's end recorded.
pub(super) struct ClosingRequest {
    pub(super) services: Arc<Services>,
    pub(super) closing: Closing,
    /// The end of the run, if the run ends with the request.
    pub(super) report: Option<Box<EndReport>>,
}

/// The end of a run, before it is known what its limits leave.
pub(super) struct EndReport {
    pub(super) run: Arc<str>,
    pub(super) end: SnapshotEnd,
    pub(super) owner: RunOwner,
    pub(super) policy_name: String,
    pub(super) answer: Option<String>,
    pub(super) used: RunUsage,
    pub(super) policy: Policy,
    pub(super) facts: Facts,
    /// The cost of the request itself.
    pub(super) own_cost: NanoUsd,
    /// The totals of the run if the state does not know it: those of this request.
    pub(super) unknown: Option<RunTotals>,
}

impl ClosingRequest {
    /// Stores the changes, and records what has ended.
    pub(super) async fn write_end(self: Box<Self>) {
        let Self { services, closing, report } = *self;
        let request = closing.request.clone();
        let closed = services.state.close(closing).await.unwrap_or_else(|error| {
            report_store_loss(&services, &error);
            if let Some(request) = request {
                services.state.take_note(StateNote::Ended(request));
            }
            Closed::default()
        });
        if let Some(observed_end) = closed.run.first_observed_end {
            services.meter.count_observed_end(observed_end);
        }
        if let Some(report) = report {
            report.record_end(&services, closed);
        }
    }
}

impl EndReport {
    fn record_end(self, services: &Services, closed: Closed) {
        let Self { run, mut end, answer, used, policy, unknown, .. } = self;
        let (owner, policy_name) = (self.owner, self.policy_name);
        // What the limits leave, after this request's own money, tokens and time.
        let facts = refresh_spent(self.facts, self.own_cost, &closed.balances);
        end.ending.remaining = used.remaining_limits(&policy, &facts);
        let ending: &RunEnding = &end.ending;
        if let Some(limit) = &ending.limit {
            services.meter.count_limit_hit(limit, ending.outcome.word());
        }
        let labels = UsageLabels {
            model: &owner.model,
            policy: &policy_name,
            account: owner.account.as_ref(),
        };
        services.meter.count_ended_run(ending.outcome, labels);
        let Some(totals) = closed.run.ended.or(unknown) else { return };
        services.write_record(|| {
            run_end_record(end.at, (&run, owner), end.ending.clone(), end.local, answer, &totals)
        });
        services.state.take_note(StateNote::EndKnown { run, end });
    }
}

/// Returns the facts with what the run and its session have spent, after this request's own cost
/// was booked: other requests may have spent more since it began.
fn refresh_spent(facts: Facts, own_cost: NanoUsd, balances: &[Balance]) -> Facts {
    let [run, session] = balances else { return facts };
    Facts { cost: run.spent.max(own_cost), session_cost: session.spent.max(own_cost), ..facts }
}
