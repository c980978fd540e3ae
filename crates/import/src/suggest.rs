//! Suggests limits that fit the user's own runs. The numbers behind a limit are always shown beside
//! it.

use softland_session::core::NanoUsd;

use crate::report::{RunReport, SuggestedPolicy, SuggestionEffect};

/// The least number of good runs: fewer do not tell a 99th percentile.
const ENOUGH: usize = 20;
/// A limit in percent of the 99th percentile: the next hundred runs are not those that were
/// measured.
const HEADROOM: u64 = 125;
/// Kinds of work that differ by this factor get limits of their own.
const DIFFERENT: u64 = 4;
/// Tool calls of a run that is a chat.
const CHAT: u64 = 2;

/// Suggests limits for the runs, and for each kind of work where they clearly differ.
pub(crate) fn suggest_policy(runs: &[RunReport]) -> SuggestedPolicy {
    let all: Vec<&RunReport> = runs.iter().collect();
    let mut suggested = suggest_limits(&all);
    let (agents, main): (Vec<&RunReport>, Vec<&RunReport>) =
        all.into_iter().partition(|run| run.agent.is_some());
    let (chat, work): (Vec<&RunReport>, Vec<&RunReport>) =
        main.into_iter().partition(|run| run.tool_calls <= CHAT);
    let kinds = [("chat", chat), ("work", work), ("agents", agents)];
    let enough = |runs: &[&RunReport]| runs.iter().filter(|run| is_good_run(run)).count() >= ENOUGH;
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, runs)| enough(runs)).collect();
    let middles = kinds.iter().map(|(_, runs)| middle_turns(runs));
    let (least, most) =
        middles.fold((u64::MAX, 0), |(least, most), turns| (least.min(turns), most.max(turns)));
    if kinds.len() > 1 && most >= least.saturating_mul(DIFFERENT) {
        suggested.kinds =
            kinds.iter().map(|(name, runs)| ((*name).to_owned(), suggest_limits(runs))).collect();
    }
    suggested
}

fn middle_turns(runs: &[&RunReport]) -> u64 {
    let mut turns: Vec<u64> =
        runs.iter().filter(|run| is_good_run(run)).map(|run| run.turns).collect();
    turns.sort_unstable();
    percentile(&turns, 50)
}

fn suggest_limits(runs: &[&RunReport]) -> SuggestedPolicy {
    let good: Vec<&RunReport> = runs.iter().copied().filter(|run| is_good_run(run)).collect();
    if good.len() < ENOUGH {
        let why = format!(
            "Good runs (a final answer, no signal): {}. That is too few to make limits from; \
             {ENOUGH} are needed.",
            good.len()
        );
        return SuggestedPolicy { why: vec![why], ..SuggestedPolicy::default() };
    }
    let mut why = vec![format!(
        "Made from {} good runs (a final answer, no signal) of {}. A limit is the larger of the \
         99th percentile and a quarter more, and of what the largest good run would have needed. \
         Runs far above the others are left out.",
        good.len(),
        runs.len()
    )];
    let mut count = |what: &str, of: &dyn Fn(&RunReport) -> u64, past: u64| {
        let measured = Measured::from_numbers(good.iter().map(|run| of(run)).collect());
        let Measured { middle, high, most, left_out } = measured;
        let left_out = describe_left_out(left_out);
        why.push(format!("{what} of good runs: p50 {middle}, p99 {high}, most {most}{left_out}."));
        (most > 0).then(|| round_up((high * HEADROOM).div_ceil(100).max(most + past)))
    };
    // The call that reaches the limit already lands the run; so does the turn before the last.
    let tool_calls_limit = count("Tool calls", &|run| run.tool_calls, 1);
    let turns_limit = count("Turns", &|run| run.turns, 1);
    let cost_limit_usd = suggest_cost(&good, &mut why);
    let mut suggested = SuggestedPolicy {
        tool_calls_limit,
        turns_limit,
        cost_limit_usd,
        ..SuggestedPolicy::default()
    };
    suggested.effect = measure_effect(runs, &suggested);
    let SuggestionEffect { landed, saved_usd, cut } = suggested.effect;
    let saved = match landed {
        0 => String::new(),
        _ => format!(" (and saved ${:.2} at most)", saved_usd.to_dollars()),
    };
    let good = if cut == 1 { "run" } else { "runs" };
    why.push(format!(
        "Of these runs it would have landed {landed} that were not good{saved}, and cut {cut} good \
         {good}."
    ));
    suggested.why = why;
    suggested
}

/// Returns true if limits may be derived from a run.
#[must_use]
pub fn is_good_run(run: &RunReport) -> bool {
    run.beside.answered && !run.beside.rows && run.signals.is_empty()
}

/// Suggests a cost limit from the good runs whose cost is known.
fn suggest_cost(good: &[&RunReport], why: &mut Vec<String>) -> Option<NanoUsd> {
    let needed: Vec<u64> =
        good.iter().filter_map(|run| run.beside.cost_needed.map(|cost| cost.0)).collect();
    let unknown = good.len() - needed.len();
    if needed.len() < ENOUGH {
        why.push(format!(
            "No limit of money: the cost of {unknown} of the good runs is not known."
        ));
        return None;
    }
    let Measured { middle, high, most, left_out } = Measured::from_numbers(needed);
    let unknown = match unknown {
        0 => String::new(),
        runs => format!(
            " The cost of {runs} of the good runs is not known: a gateway refuses their models under a \
             limit of money, unless a `[[price]]` names them."
        ),
    };
    why.push(format!(
        "Money that good runs needed, the reserve for their answers included: p50 {}, p99 {}, \
         most {}{}.{unknown}",
        NanoUsd(middle / CENT * CENT),
        NanoUsd(high.div_ceil(CENT) * CENT),
        NanoUsd(most.div_ceil(CENT) * CENT),
        describe_left_out(left_out),
    ));
    let limit = (high / 100).saturating_mul(HEADROOM).max(most.saturating_add(1));
    (most > 0).then(|| NanoUsd(round_up(limit.div_ceil(CENT)).saturating_mul(CENT)))
}

fn describe_left_out(runs: usize) -> String {
    match runs {
        0 => String::new(),
        1 => ", one run far above left out".to_owned(),
        runs => format!(", {runs} runs far above left out"),
    }
}

const CENT: u64 = 10_000_000;

/// The needs of good runs, without those far above the others.
struct Measured {
    middle: u64,
    high: u64,
    most: u64,
    left_out: usize,
}

impl Measured {
    /// A number is far above where it is more than the third power of the middle half's spread above
    /// that half: Tukey's outer fence, for numbers whose logarithms are spread evenly.
    fn from_numbers(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        let (low, high) = (percentile(&numbers, 25).max(1), percentile(&numbers, 75).max(1));
        let spread = (high as f64 / low as f64).max(1.5);
        let fence = high as f64 * spread.powi(3);
        let inside = numbers.partition_point(|number| *number as f64 <= fence);
        let left_out = numbers.len() - inside;
        numbers.truncate(inside);
        Self {
            middle: percentile(&numbers, 50),
            high: percentile(&numbers, 99),
            most: numbers.last().copied().unwrap_or(0),
            left_out,
        }
    }
}

/// Returns what the limits would have done to the runs, as far as counts and costs tell.
fn measure_effect(runs: &[&RunReport], limits: &SuggestedPolicy) -> SuggestionEffect {
    let mut effect = SuggestionEffect::default();
    for run in runs {
        let counts = [
            (run.tool_calls, limits.tool_calls_limit),
            (run.turns, limits.turns_limit),
            (run.cost_usd.unwrap_or_default().0, limits.cost_limit_usd.map(|limit| limit.0)),
        ];
        let kept = counts.into_iter().filter_map(|(number, limit)| {
            limit.filter(|limit| number >= *limit).map(|limit| (limit, number))
        });
        // The limit that is reached first leaves the smallest part of the run.
        let kept = kept.min_by(|(a, all), (b, whole)| {
            (u128::from(*a) * u128::from(*whole)).cmp(&(u128::from(*b) * u128::from(*all)))
        });
        let Some((limit, number)) = kept else { continue };
        if is_good_run(run) {
            effect.cut += 1;
            continue;
        }
        effect.landed += 1;
        let cost = u128::from(run.cost_usd.unwrap_or_default().0);
        let saved = cost * u128::from(number - limit) / u128::from(number.max(1));
        effect.saved_usd += NanoUsd(u64::try_from(saved).unwrap_or(u64::MAX));
    }
    effect
}

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
        let mut text = self.to_table("default");
        for (name, limits) in &self.kinds {
            text += &format!("\n{}", limits.to_table(name));
        }
        text
    }

    /// Returns the limits as flags of `softland wrap`; empty if there are none.
    #[must_use]
    pub fn to_flags(&self) -> Vec<String> {
        self.list_limits()
            .map(|(key, value)| format!("--{} {value}", key.replace('_', "-")))
            .collect()
    }

    fn to_table(&self, name: &str) -> String {
        let mut text = format!("[policy.{name}]\n");
        for line in &self.why {
            text += &format!("# {line}\n");
        }
        for (key, value) in self.list_limits() {
            text += &format!("{key} = {value}\n");
        }
        text
    }

    /// Lists the limits that are suggested, by their keys.
    fn list_limits(&self) -> impl Iterator<Item = (&'static str, String)> {
        let dollars = |limit: NanoUsd| limit.to_string().trim_start_matches('$').to_owned();
        let limits = [
            ("tool_calls_limit", self.tool_calls_limit.map(|limit| limit.to_string())),
            ("turns_limit", self.turns_limit.map(|limit| limit.to_string())),
            ("cost_limit_usd", self.cost_limit_usd.map(dollars)),
        ];
        limits.into_iter().filter_map(|(key, value)| Some((key, value?)))
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

    #[test]
    fn what_is_far_above_the_others_sets_no_limit() {
        let spread = || (1..=100).map(|n| 10 + n % 30);
        let measured = Measured::from_numbers(spread().chain([90]).collect());
        assert_eq!((measured.most, measured.left_out), (90, 0), "a long run is a run");
        let measured = Measured::from_numbers(spread().chain([50_000, 7_000]).collect());
        assert_eq!((measured.most, measured.left_out), (39, 2));
        let measured = Measured::from_numbers(vec![1; 50]);
        assert_eq!((measured.most, measured.left_out), (1, 0));
    }
}
