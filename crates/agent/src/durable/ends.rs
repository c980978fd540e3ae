//! Terminal events of runs that cannot tell one themselves.

use softland_session::core::{Outcome, Reason, RunEnding};

use crate::event::{Event, EventKind, Report, UsageTotal};
use crate::journal::now_rfc3339;

/// Returns the only event of a run that is refused for this reason.
pub(super) fn refused_end(run: &str, why: &str) -> Event {
    let report = Report {
        ended: RunEnding::without_limit(Outcome::Failed, Reason::Setup),
        answer: None,
        answered_by: None,
        turns: 0,
        tool_calls: 0,
        usage: UsageTotal::default(),
        cost_usd: Some(0.0),
        resume: None,
        failure: Some(why.to_owned()),
    };
    error_event(run.to_owned(), (0, now_rfc3339()), report)
}

/// Returns the terminal event of a run, with its number and its time.
pub(super) fn error_event(run: String, (seq, ts): (u64, String), report: Report) -> Event {
    let (turn, message) = (report.turns, report.failure.clone().unwrap_or_default());
    let kind = EventKind::Error { message, report: Box::new(report) };
    Event { v: 1, seq, ts, run, turn, replayed: false, kind }
}
