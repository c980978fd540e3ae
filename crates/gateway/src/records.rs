//! Records for the ledger that belong to no request.

use softland_ledger as ledger;
use softland_session::core::RunEnding;

use crate::runs::OpenRun;

/// Returns the ledger's record of a run's end.
pub(crate) fn run_end_record(
    at: u64,
    run: &str,
    ended: RunEnding,
    local: bool,
    answer: Option<String>,
    open: &OpenRun,
) -> ledger::Record {
    let (tokens, (turns, calls)) = (open.tokens, open.own_counts());
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
