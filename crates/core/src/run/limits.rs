//! The limits of a run: which of them is reached, and what the next request may cost.

use alloc::vec::Vec;

use super::{Phase, Run};
use crate::because::{Because, Reason};
use crate::event::Facts;
use crate::pinned::FactDecision;
use crate::policy::Policy;
use crate::rules;
use crate::time::Millis;

/// The allowance of a run's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAllowance {
    /// The output tokens that it may have; `None` without a limit.
    pub output_room: Option<u64>,
    /// True if the limits leave enough to pay for any answer at all.
    pub affordable: bool,
    /// The time that it may take; `None` without a limit.
    pub time_room: Option<Millis>,
}

/// The fewest output tokens that make an answer. The reserve under a money limit is held back
/// whole: a request is never sent with less than `reserve_tokens`.
const LEAST_ANSWER: u64 = 16;

impl Run {
    /// Returns the facts if no facts were looked at in this place before. Otherwise a limit that
    /// they reach lands the run late, and no line changes.
    pub(super) fn take_unseen_facts<'f>(&mut self, facts: Option<&'f Facts>) -> Option<&'f Facts> {
        let facts = facts?;
        let round = self.used.rounds;
        if self.pinned.looked.is_none_or(|looked| looked < round) {
            self.pinned.looked = Some(round);
            return Some(facts);
        }
        self.land_late(facts);
        None
    }

    /// Lands the run late if the facts reach a limit, whatever its newest message is. A message
    /// that neither begins a run nor ends a round has no place for a line, so the note stands
    /// behind it.
    pub(crate) fn land_late(&mut self, facts: &Facts) {
        if let (Phase::Open, Some(because)) =
            (&self.phase, find_fact_limit(facts, &self.pinned.policy))
        {
            self.phase = Phase::Late { because };
        }
    }

    /// Returns the first limit that is reached here, in the order of `docs/governing.md` §12. A
    /// decision on facts is recorded for this place, so that it is made the same way again.
    pub(super) fn find_limit(&mut self, facts: Option<&Facts>) -> Option<Because> {
        let policy = &self.pinned.policy;
        rules::calls::check_limit(&self.used, policy)
            .or_else(|| rules::tool::check_limit(&self.used, 0, policy))
            .or_else(|| rules::tool::check_hosted_limit(&self.used, &self.hosted, policy))
            .or_else(|| rules::plain::check_limit(&self.used, policy))
            .or_else(|| rules::turns::check_limit(&self.used, policy))
            .or_else(|| self.decide_on_facts(facts))
    }

    /// Returns the limits whose warning is due here and was not given before.
    pub(super) fn take_warnings(&mut self, facts: Option<&Facts>) -> Vec<Because> {
        let round = self.used.rounds;
        let policy = &self.pinned.policy;
        let turns = rules::turns::check_warning(&self.used, policy);
        let plain = rules::plain::check_warnings(&self.used, policy);
        let mut due: Vec<Because> = turns.into_iter().chain(plain).collect();
        let here = |d: &&FactDecision| d.round == round && !d.lands && !d.removes_calls();
        due.extend(self.pinned.decided.iter().filter(here).map(|d| d.because.clone()));
        if let Some(facts) = facts {
            let on_facts = [
                rules::tokens::check_warning(facts, policy),
                rules::cost::check_warning(facts, policy),
                rules::time::check_warning(facts, policy),
            ];
            for because in on_facts.into_iter().flatten() {
                let known = |d: &Because| d.reason == because.reason;
                if !due.iter().any(known) && !self.warned.contains(&because.reason) {
                    due.push(because.clone());
                    self.pinned.decided.push(FactDecision { round, lands: false, because });
                }
            }
        }
        due.retain(|because| self.warned.insert(because.reason.clone()));
        due
    }

    fn decide_on_facts(&mut self, facts: Option<&Facts>) -> Option<Because> {
        let round = self.used.rounds;
        let same = |d: &&FactDecision| d.round == round && d.lands;
        if let Some(decided) = self.pinned.decided.iter().find(same) {
            return Some(decided.because.clone());
        }
        let (facts, policy) = (facts?, &self.pinned.policy);
        let because = find_fact_limit(facts, policy)
            .or_else(|| rules::tool::check_limit(&self.used, facts.tool_refusals, policy))?;
        // A question that a budget has no room for is asked anew in the next window: nothing was sent.
        let is_recorded = round > 0 || because.reason != Reason::Budget;
        if is_recorded {
            self.pinned.decided.push(FactDecision { round, lands: true, because: because.clone() });
        }
        Some(because)
    }

    /// Returns the allowance of the next request. `asked` is the output, in tokens, that it asks
    /// for.
    #[must_use]
    pub fn request_allowance(&self, facts: &Facts, asked: Option<u64>) -> RequestAllowance {
        let policy = self.policy();
        let open = self.phase == Phase::Open;
        let (tokens, money) = if open {
            (
                rules::tokens::exploring_room(facts, policy),
                rules::cost::exploring_room(facts, policy),
            )
        } else {
            (rules::tokens::landing_room(facts, policy), rules::cost::landing_room(facts, policy))
        };
        let output_room = match (tokens, money) {
            (Some(tokens), Some(money)) => Some(tokens.min(money)),
            (tokens, money) => tokens.or(money),
        };
        let until = policy.time_limit.map(|limit| {
            if open { rules::time::exploring_until(policy).unwrap_or(limit) } else { limit }
        });
        let time_room = until.map(|until| Millis(until.0.saturating_sub(facts.elapsed.0)));
        let least = |answer: u64| {
            answer.saturating_add(facts.thinking_budget).min(asked.unwrap_or(u64::MAX))
        };
        let affordable = tokens.is_none_or(|room| room >= least(LEAST_ANSWER))
            && money.is_none_or(|room| room >= least(policy.reserve_tokens.max(LEAST_ANSWER)))
            && time_room.is_none_or(|room| room.0 > 0)
            // A budget keeps back money for the answers of runs that have begun.
            && (facts.budget.is_none() || self.used.turns > 0);
        RequestAllowance { output_room, affordable, time_room }
    }
}

fn find_fact_limit(facts: &Facts, policy: &Policy) -> Option<Because> {
    rules::tokens::check_limit(facts, policy)
        .or_else(|| rules::cost::check_limit(facts, policy))
        .or_else(|| rules::time::check_limit(facts, policy))
        .or_else(|| facts.budget.map(|short| rules::cost::budget_because(&short)))
}

#[cfg(test)]
mod tests;
