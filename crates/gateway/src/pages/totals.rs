//! Totals of runs by day, model and agent, from the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use softland_ledger::{LedgerPlace, Query, Reader, Run};
use softland_session::core::policy::Policy;
use softland_session::core::{
    Evidence, NanoUsd, Outcome, Reason, RecordedLoop, SignalKind, unite_signals,
};

const DAY: u64 = 24 * 3600 * 1000;
/// The number of runs that are added up at most, the newest ones.
const RUNS: usize = 50_000;

/// One row of a table of totals.
#[derive(Debug, Serialize)]
struct RunTotals {
    runs: u64,
    answered: u64,
    landed: u64,
    stopped: u64,
    failed: u64,
    cancelled: u64,
    /// The sum of the known costs; `None` while there are runs and none has one.
    spend_usd: Option<NanoUsd>,
    /// The part of it that signals count as waste.
    wasted_usd: Option<NanoUsd>,
    unpriced_requests: u64,
}

/// Adds up the runs of a ledger that began in the last `days` days. A day is that of a clock
/// `offset` minutes ahead of UTC. Blocks: not for async tasks.
pub(super) fn sum_ledger(
    place: &LedgerPlace,
    now: u64,
    days: u64,
    offset: i64,
) -> Result<Value, String> {
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    let since = now.saturating_sub(days.saturating_mul(DAY));
    let query = Query { since: Some(since), limit: Some(RUNS), ..Query::default() };
    let runs = reader.list_runs(&query).map_err(|error| error.to_string())?;
    let wasted = wasted_by_run(&reader, &runs, since);
    let mut all = RunTotals::default();
    let mut by: [BTreeMap<String, RunTotals>; 3] = Default::default();
    for run in &runs {
        let local = i64::try_from(run.started).unwrap_or(0).saturating_add(offset * 60_000);
        let day = softland_ledger::format_timestamp(u64::try_from(local).unwrap_or(0));
        let day = day.get(..10).unwrap_or_default().to_owned();
        let model = run.model.clone().unwrap_or_else(|| "unknown".to_owned());
        let agent = run.agent.clone().or_else(|| run.client.as_deref().map(program_name));
        let names = [day, model, agent.unwrap_or_else(|| "unnamed".to_owned())];
        let waste = wasted.get(&run.run).copied().unwrap_or(NanoUsd::ZERO);
        let outcome = run.end.as_ref().map(|end| end.outcome);
        all.add_run(outcome, run.cost, waste, run.unpriced);
        for (sums, name) in by.iter_mut().zip(names) {
            sums.entry(name).or_default().add_run(outcome, run.cost, waste, run.unpriced);
        }
    }
    let beside = reader.sum_unassigned(&query).map_err(|error| error.to_string())?;
    let [by_day, by_model, by_agent] = by;
    Ok(json!({"all": all, "more": runs.len() == RUNS, "by_day": by_day, "by_model": by_model,
        "by_agent": by_agent, "beside": {"requests": beside.requests, "spend_usd": beside.known_cost()}}))
}

impl Default for RunTotals {
    /// The totals of no run: nothing was spent.
    fn default() -> Self {
        let (spend_usd, wasted_usd) = (Some(NanoUsd::ZERO), Some(NanoUsd::ZERO));
        Self {
            runs: 0,
            answered: 0,
            landed: 0,
            stopped: 0,
            failed: 0,
            cancelled: 0,
            spend_usd,
            wasted_usd,
            unpriced_requests: 0,
        }
    }
}

impl RunTotals {
    fn add_run(
        &mut self,
        outcome: Option<Outcome>,
        cost: Option<NanoUsd>,
        waste: NanoUsd,
        no: u64,
    ) {
        let none = self.runs == 0;
        self.runs += 1;
        match outcome {
            Some(Outcome::Answered) => self.answered += 1,
            Some(Outcome::Landed) => self.landed += 1,
            Some(Outcome::Stopped) => self.stopped += 1,
            Some(Outcome::Failed) => self.failed += 1,
            Some(Outcome::Cancelled) => self.cancelled += 1,
            None => {}
        }
        if none && cost.is_none() {
            (self.spend_usd, self.wasted_usd) = (None, None);
        }
        let sum = |sum: Option<NanoUsd>, more: NanoUsd| Some(sum.unwrap_or_default() + more);
        if let Some(cost) = cost {
            self.spend_usd = sum(self.spend_usd, cost);
        }
        if cost.is_some() || waste > NanoUsd::ZERO {
            self.wasted_usd = sum(self.wasted_usd, waste);
        }
        self.unpriced_requests += no;
    }
}

/// Returns the name of a client without its version.
fn program_name(client: &str) -> String {
    client.split(['/', ' ']).next().unwrap_or(client).to_owned()
}

/// Returns the cost of the turns that signals count as waste, by run, each turn once.
fn wasted_by_run(reader: &Reader, runs: &[Run], since: u64) -> BTreeMap<String, NanoUsd> {
    let mut signals: BTreeMap<String, Vec<(SignalKind, Evidence)>> = BTreeMap::new();
    for signal in reader.list_signals(since).unwrap_or_default() {
        if let Ok(fields) = serde_json::from_str::<SignalFields>(&signal.fields) {
            signals.entry(signal.run).or_default().push((fields.signal, fields.evidence));
        }
    }
    let limits = Policy::default();
    let silenced: BTreeSet<&str> = runs
        .iter()
        .filter(|run| run.end.as_ref().is_some_and(|end| end.reason == Reason::Empty))
        .map(|run| run.run.as_str())
        .collect();
    let cost = |(run, signals): (String, Vec<(SignalKind, Evidence)>)| {
        let loops = unite_signals(signals, silenced.contains(run.as_str()), &limits);
        let turns: BTreeSet<u64> = loops.iter().flat_map(RecordedLoop::wasted_turns).collect();
        let costs = turns.iter().filter_map(|turn| reader.turn_cost(&run, *turn).ok());
        let sum = costs.fold(NanoUsd::ZERO, |sum, cost| sum + cost);
        (run, sum)
    };
    signals.into_iter().map(cost).collect()
}

/// The fields of a recorded signal that tell its waste.
#[derive(Deserialize)]
struct SignalFields {
    signal: SignalKind,
    #[serde(default)]
    evidence: Evidence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c154_a_sum_without_a_known_part_is_unknown() {
        let dollar = Some(NanoUsd(1_000_000_000));
        for (costs, wanted) in [
            (vec![], Some(0)),
            (vec![None], None),
            (vec![None, None], None),
            (vec![None, dollar], Some(1)),
            (vec![dollar, None], Some(1)),
            (vec![dollar, dollar], Some(2)),
            (vec![Some(NanoUsd::ZERO), None], Some(0)),
        ] {
            let mut totals = RunTotals::default();
            for cost in &costs {
                totals.add_run(None, *cost, NanoUsd::ZERO, u64::from(cost.is_none()));
            }
            let wanted = wanted.map(|dollars| NanoUsd(dollars * 1_000_000_000));
            assert_eq!(totals.spend_usd, wanted, "{costs:?}");
            assert_eq!(totals.wasted_usd.is_some(), wanted.is_some(), "{costs:?}");
        }
    }
}
