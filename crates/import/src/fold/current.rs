//! The run that is being read.

use std::collections::BTreeSet;

use softland_session::core::policy::Policy;
use softland_session::core::{
    Facts, FinishedTurn, NanoUsd, Outcome, Reason, TurnClass, UserMessage,
};

use super::judge::Verdict;
use super::listed::{Listing, SeenSignals};
use super::money::{Clock, is_simulated, min_cost_limit};
use super::turn_log::{TurnLog, TurnRecord};
use super::{ReplaySettings, class_word, may_be_trivial};
use crate::export::RunTrajectory;
use crate::report::spending::RunSpending;
use crate::report::{
    ListedSignal, Moment, RunDetails, RunEnded, RunReport, StepLine, UsageSum, WhatIf, sum_costs,
    sum_tokens,
};
use crate::step::{RecordedSignal, TurnStep};

/// Steps of a run that are kept for a person to look at.
const STEPS: usize = 200;
/// Calls that a step shows, and characters of each call.
const CALLS: usize = 4;
const CALL_CHARS: usize = 100;
const HOUR: u64 = 3_600_000;

/// One run so far.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub(crate) seen: SeenSignals,
    pub(crate) clock: Clock,
    /// Signals that softland recorded at the time.
    pub(crate) noted: Vec<RecordedSignal>,
    ended: Option<RunEnded>,
    line: Option<u64>,
    spent: TurnLog,
    cost: NanoUsd,
    tool_calls: u64,
    usage: UsageSum,
    answered: bool,
    rows: bool,
    simulated: Option<NanoUsd>,
    pub(crate) spending: RunSpending,
    needed: Option<NanoUsd>,
    unknown_need: bool,
    steps: Option<Vec<StepLine>>,
    trajectory: Option<RunTrajectory>,
    /// Ids of the newest step's calls, in order.
    waiting: Vec<String>,
}

impl OpenRun {
    pub(crate) fn new(line: Option<u64>, settings: &ReplaySettings, seen: SeenSignals) -> Self {
        Self {
            seen,
            clock: Clock::default(),
            noted: Vec::new(),
            ended: None,
            line,
            spent: TurnLog::default(),
            cost: NanoUsd::ZERO,
            tool_calls: 0,
            usage: UsageSum::default(),
            answered: false,
            rows: false,
            simulated: None,
            spending: RunSpending::default(),
            needed: None,
            unknown_need: false,
            steps: settings.steps.then(Vec::new),
            trajectory: settings.trajectories.then(RunTrajectory::default),
            waiting: Vec::new(),
        }
    }

    /// Returns the number of turns so far.
    pub(crate) fn turn_count(&self) -> u64 {
        self.spent.len() as u64
    }

    /// Returns the moment of the first turn.
    pub(crate) fn first_moment(&self) -> Option<Moment> {
        self.spent.turn_at(1).and_then(|spent| spent.moment())
    }

    /// Returns the tokens and the money used so far.
    pub(crate) fn used_so_far(&self) -> (u64, NanoUsd) {
        (self.usage.recorded_tokens(), self.cost)
    }

    /// Notes the cost limit that this request would have needed.
    pub(crate) fn note_cost_needed(&mut self, facts: &Facts, priced: bool, reserve_tokens: u64) {
        // Under a cost limit, a gateway refuses models without a known price.
        self.unknown_need |= !priced || facts.output_pico == 0;
        let least = min_cost_limit(facts, reserve_tokens);
        self.needed = Some(self.needed.map_or(least, |needed| needed.max(least)));
    }

    /// Takes the recorded total of calls, if the turns told of fewer.
    pub(crate) fn take_call_total(&mut self, calls: u64) {
        self.tool_calls = self.tool_calls.max(calls);
    }

    /// Takes the recorded end of the run, which may not be the model's own.
    pub(crate) fn take_outcome(&mut self, outcome: &str, reason: &str) {
        self.answered &= outcome == Outcome::Answered.word();
        self.ended = Some(RunEnded { outcome: outcome.to_owned(), reason: reason.to_owned() });
    }

    /// Counts a turn.
    pub(crate) fn count_turn(
        &mut self,
        turn: &TurnStep<'_>,
        (cost, held): (Option<NanoUsd>, (NanoUsd, u64)),
        class: TurnClass,
    ) {
        // A run that went on had not ended.
        self.ended = None;
        let usage = UsageSum::from_turn(&turn.usage);
        self.usage.add(&usage);
        let own = turn.finished.calls.iter().filter(|call| !call.server);
        self.tool_calls += own.count() as u64;
        self.answered = turn.row.is_none()
            && (turn.submits || matches!(class, TurnClass::Final | TurnClass::Answer));
        self.rows |= turn.row.is_some();
        let tokens = turn.usage.recorded.then(|| usage.recorded_tokens());
        self.cost += cost.unwrap_or(NanoUsd::ZERO);
        if let Some(cost) = cost.filter(|_| turn.model.is_some_and(is_simulated)) {
            self.simulated = Some(self.simulated.unwrap_or_default() + cost);
        }
        self.spent.push(TurnRecord { cost, tokens, time: turn.time, line: turn.line, held });
        if let Some(trajectory) = &mut self.trajectory {
            trajectory.take_turn(turn, cost);
        }
        let number = self.turn_count();
        let Some(steps) = self.steps.as_mut() else { return };
        if steps.len() < STEPS {
            let shown = turn.finished.calls.iter().take(CALLS);
            let calls = shown.clone().map(|call| shorten_call(call.name, call.input)).collect();
            self.waiting = shown.map(|call| call.id.to_owned()).collect();
            let what = class_word(class);
            steps.push(StepLine {
                turn: number,
                what,
                calls,
                tokens,
                cost_usd: cost,
                wasted: false,
            });
        } else {
            self.waiting.clear();
        }
    }

    /// Puts results beside the calls that they answer.
    pub(crate) fn attach_results(&mut self, user: &UserMessage<'_>, time: Option<u64>) {
        if let Some(trajectory) = &mut self.trajectory {
            trajectory.take_message(user, time);
        }
        let Some(step) = self.steps.as_mut().and_then(|steps| steps.last_mut()) else { return };
        for result in &user.results {
            let place = self.waiting.iter().position(|id| *id == result.id);
            if let Some(call) = place.and_then(|at| step.calls.get_mut(at)) {
                let digest: String = result.digest.to_string().chars().take(8).collect();
                let failed = if result.failed { "failed, " } else { "" };
                call.push_str(&format!(" → {failed}{} characters, {digest}", result.chars));
            }
        }
    }

    /// Checks the newest turn for what the fold does not look for. Returns the reason if the policy
    /// would have stopped the run after it.
    pub(crate) fn check_turn(
        &mut self,
        turn: &TurnStep<'_>,
        finished: &FinishedTurn<'_>,
        class: TurnClass,
        (limits, policy): (&Policy, &Policy),
    ) -> Option<Reason> {
        let number = self.turn_count();
        let trivial = may_be_trivial(finished, class);
        let text = finished.text.digest.filter(|_| turn.row.is_none());
        let silent = self.seen.take_turn(number, class, text, trivial, limits);
        if silent.is_some_and(|count| count >= policy.empty_limit.max(1)) {
            return Some(Reason::Empty);
        }
        let row = turn.row?;
        // A row without an output tells nothing alone, but many of one prompt do.
        let trivial = match turn.usage.tokens.output {
            _ if row.cancelled => None,
            0 => (!row.calls).then_some(true),
            _ => Some(row.trivial),
        };
        let stale = self.seen.take_row(number, row.prompt, trivial, limits);
        (policy.stale_limit > 0 && stale >= policy.stale_limit).then_some(Reason::Stale)
    }

    /// Builds the report of the run. The caller fills in the names.
    pub(crate) fn into_report(
        mut self,
        verdict: Verdict,
        inferred: bool,
        limits: &Policy,
    ) -> RunReport {
        let silenced = Reason::Empty.to_string();
        let silenced = self.ended.as_ref().is_some_and(|ended| ended.reason == silenced);
        let (of_context, noted): (Vec<_>, Vec<_>) = std::mem::take(&mut self.noted)
            .into_iter()
            .partition(|noted| noted.signal.is_of_context());
        self.spending
            .note_signals(of_context.into_iter().map(RecordedSignal::into_signal).collect());
        self.seen.list_recorded(noted, silenced, limits);
        self.seen.finish_run();
        let signals: Vec<ListedSignal> =
            self.seen.listings().iter().map(|listing| self.describe_listing(listing)).collect();
        let wasted: BTreeSet<u64> =
            self.seen.listings().iter().flat_map(Listing::wasted_turns).collect();
        let unpriced =
            |turn: &&u64| self.spent.turn_at(**turn).is_some_and(|spent| spent.cost.is_none());
        let wasted_unpriced = wasted.iter().filter(unpriced).count() as u64;
        let (wasted_usd, wasted_tokens) = self.sum_turns(&wasted);
        let what_if = self.what_if(verdict);
        let hours = self.sum_hours(&wasted);
        let mut steps = self.steps.take().unwrap_or_default();
        if signals.is_empty() && what_if.is_none() {
            steps.clear();
        }
        for step in &mut steps {
            step.wasted = wasted.contains(&step.turn);
        }
        let left_out = if steps.is_empty() { 0 } else { self.turn_count() - steps.len() as u64 };
        RunReport {
            run: String::new(),
            session: String::new(),
            agent: None,
            source: String::new(),
            line: self.line,
            inferred,
            turns: self.turn_count(),
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost_usd: sum_costs(self.spent.iter().map(|spent| spent.cost)),
            simulated_usd: self.simulated,
            wasted_usd,
            wasted_tokens,
            signals,
            what_if,
            ended: self.ended,
            spending: self.spending,
            beside: RunDetails {
                name: None,
                caller: None,
                spends: self.spent.iter().filter_map(|spent| spent.turn_spend()).collect(),
                wasted_turns: wasted.len() as u64,
                wasted_unpriced,
                unpriced_turns: self.spent.iter().filter(|spent| spent.cost.is_none()).count()
                    as u64,
                answered: self.answered,
                rows: self.rows,
                started: self.spent.iter().find_map(|spent| spent.time),
                hours,
                cost_needed: self.needed.filter(|_| !self.unknown_need),
                steps,
                steps_left_out: left_out,
                trajectory: self.trajectory,
            },
        }
    }

    fn describe_listing(&self, listing: &Listing) -> ListedSignal {
        let wasted = listing.wasted_turns().collect();
        let (wasted_usd, wasted_tokens) = self.sum_turns(&wasted);
        ListedSignal {
            signal: listing.kind,
            from_turn: listing.members.first().copied().unwrap_or(0),
            to_turn: listing.members.last().copied().unwrap_or(0),
            turns: listing.members.len() as u64,
            wasted_usd,
            wasted_tokens,
            evidence: listing.evidence(),
            recorded: listing.recorded,
        }
    }

    /// Returns the money and the tokens of the given turns.
    fn sum_turns(&self, turns: &BTreeSet<u64>) -> (Option<NanoUsd>, Option<u64>) {
        let spent: Vec<TurnRecord> =
            turns.iter().filter_map(|turn| self.spent.turn_at(*turn)).collect();
        let tokens = sum_tokens(spent.iter().map(|spent| spent.tokens));
        (sum_costs(spent.iter().map(|spent| spent.cost)), tokens)
    }

    fn what_if(&self, verdict: Verdict) -> Option<WhatIf> {
        let Verdict { warned, ended } = verdict;
        let reason = ended.as_ref().or(warned.as_ref()).map(|(_, reason)| reason.to_string())?;
        let ended_at_turn = ended.map(|(turn, _)| turn);
        // A warning after the end would not have been given.
        let warned = warned.filter(|(turn, _)| ended_at_turn.is_none_or(|end| *turn <= end));
        let after = ended_at_turn.map_or(u64::MAX, |turn| turn.saturating_add(1));
        let saved = (after..=self.turn_count()).collect();
        let (saved_usd, saved_tokens) = self.sum_turns(&saved);
        Some(WhatIf {
            warned_at_turn: warned.map(|(turn, _)| turn),
            ended_at_turn,
            saved_usd,
            saved_turns: saved.len() as u64,
            saved_tokens,
            reason,
        })
    }

    fn sum_hours(&self, wasted: &BTreeSet<u64>) -> Vec<(u64, NanoUsd, NanoUsd)> {
        let mut hours: Vec<(u64, NanoUsd, NanoUsd)> = Vec::new();
        for (number, spent) in (1..).zip(self.spent.iter()) {
            let (Some(time), Some(cost)) = (spent.time, spent.cost) else { continue };
            let hour = time / HOUR;
            let waste = if wasted.contains(&number) { cost } else { NanoUsd::ZERO };
            match hours.last_mut() {
                Some((last, total, of_waste)) if *last == hour => {
                    *total += cost;
                    *of_waste += waste;
                }
                _ => hours.push((hour, cost, waste)),
            }
        }
        hours
    }
}

/// Shortens a call for a person.
fn shorten_call(name: &str, input: &str) -> String {
    let mut shown: String = input.chars().take(CALL_CHARS).collect();
    if shown.len() < input.len() {
        shown.push('…');
    }
    format!("{name} {shown}")
}
