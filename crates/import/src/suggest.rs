//! Suggests limits that fit the user's own runs. The numbers behind a limit are always shown beside
//! it.

use softland_session::core::NanoUsd;

use crate::report::{RunReport, SuggestedPolicy};

/// The least number of good runs: fewer do not tell a 99th percentile.
const ENOUGH: usize = 20;
/// A limit in percent of the 99th percentile: the next hundred runs are not those that were
/// measured.
const HEADROOM: u64 = 125;

/// Suggests limits for the runs.
pub(crate) fn suggest_policy(runs: &[RunReport]) -> SuggestedPolicy {
    let good: Vec<&RunReport> = runs.iter().filter(|run| is_good_run(run)).collect();
    if good.len() < ENOUGH {
        let why = format!(
            "{} good runs (a final answer, no signal) are too few to make limits from; {ENOUGH} \
             are needed.",
            good.len()
        );
        return SuggestedPolicy { why: vec![why], ..SuggestedPolicy::default() };
    }
    let mut why = vec![format!(
        "Made from {} good runs (a final answer, no signal) of {}. A limit is the larger of the \
         99th percentile and a quarter more, and of what the largest good run would have needed.",
        good.len(),
        runs.len()
    )];
    let mut count = |what: &str, of: &dyn Fn(&RunReport) -> u64, past: u64| {
        let mut numbers: Vec<u64> = good.iter().map(|run| of(run)).collect();
        numbers.sort_unstable();
        let most = numbers.last().copied().unwrap_or(0);
        let (middle, high) = (percentile(&numbers, 50), percentile(&numbers, 99));
        why.push(format!("{what} of good runs: p50 {middle}, p99 {high}, most {most}."));
        (most > 0).then(|| round_up((high * HEADROOM).div_ceil(100).max(most + past)))
    };
    // The call that reaches the limit already lands the run; so does the turn before the last.
    let tool_calls_limit = count("Tool calls", &|run| run.tool_calls, 1);
    let turns_limit = count("Turns", &|run| run.turns, 1);
    let cost_limit_usd = suggest_cost(&good, &mut why);
    SuggestedPolicy { tool_calls_limit, turns_limit, cost_limit_usd, why }
}

/// Returns true if limits may be derived from a run.
#[must_use]
pub fn is_good_run(run: &RunReport) -> bool {
    run.beside.answered && !run.beside.rows && run.signals.is_empty()
}

/// Suggests a cost limit, only if the cost of every good run is known.
fn suggest_cost(good: &[&RunReport], why: &mut Vec<String>) -> Option<NanoUsd> {
    let needed: Option<Vec<u64>> =
        good.iter().map(|run| run.beside.cost_needed.map(|cost| cost.0)).collect();
    let Some(mut needed) = needed else {
        why.push("No limit of money: not every good run has a known cost.".to_owned());
        return None;
    };
    needed.sort_unstable();
    let most = needed.last().copied().unwrap_or(0);
    let high = percentile(&needed, 99);
    why.push(format!(
        "Money that good runs needed, the reserve for their answers included: p50 {}, p99 {}, \
         most {}.",
        NanoUsd(percentile(&needed, 50) / CENT * CENT),
        NanoUsd(high.div_ceil(CENT) * CENT),
        NanoUsd(most.div_ceil(CENT) * CENT),
    ));
    let limit = (high / 100).saturating_mul(HEADROOM).max(most.saturating_add(1));
    (most > 0).then(|| NanoUsd(round_up(limit.div_ceil(CENT)).saturating_mul(CENT)))
}

const CENT: u64 = 10_000_000;

/// Returns the value at a percentile, by nearest rank; 0 for an empty list.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Rounds up to two significant figures, as a person would set a limit.
fn round_up(number: u64) -> u64 {
    let mut unit = 1_u64;
    while number / unit >= 100 {
        unit = unit.saturating_mul(10);
    }
    number.div_ceil(unit).saturating_mul(unit)
}

impl SuggestedPolicy {
    /// Formats the limits as a config for `serve`, `wrap` and `run`.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::from("[policy.default]\n");
        for line in &self.why {
            text += &format!("# {line}\n");
        }
        let mut set = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text += &format!("{key} = {value}\n");
            }
        };
        set("tool_calls_limit", self.tool_calls_limit.map(|limit| limit.to_string()));
        set("turns_limit", self.turns_limit.map(|limit| limit.to_string()));
        let dollars = |limit: NanoUsd| limit.to_string().trim_start_matches('$').to_owned();
        set("cost_limit_usd", self.cost_limit_usd.map(dollars));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let numbers: Vec<u64> = (1..=200).collect();
        for (percent, wanted) in [(50, 100), (99, 198), (100, 200)] {
            assert_eq!(percentile(&numbers, percent), wanted);
        }
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 99), 0);
    }

    #[test]
    fn limits_have_two_figures_and_never_less() {
        for (number, wanted) in [(1, 1), (99, 99), (100, 100), (101, 110), (1234, 1300)] {
            assert_eq!(round_up(number), wanted);
        }
    }
}
