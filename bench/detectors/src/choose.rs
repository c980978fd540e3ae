//! Limits chosen on all models but one, and measured on that one.

use std::collections::BTreeSet;

use crate::baselines::Rule;
use crate::read::Session;
use crate::replay::{self, Limits, Until};

/// One choice of limits, and which sessions it flags.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) limits: Limits,
    flagged: Vec<bool>,
}

/// Sessions flagged among successes and failures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) good: (usize, usize),
    pub(crate) bad: (usize, usize),
}

/// Every choice on the grid.
pub(crate) fn grid(sessions: &[&Session]) -> Vec<Choice> {
    let mut grid = Vec::new();
    for repeat in 3..=6 {
        for cycle in 2..=4 {
            for errors in 3..=7 {
                let limits = Limits { repeat, cycle, errors, ..Limits::default() };
                let flagged =
                    |session: &&Session| replay::flag(session, limits, Until::Seen).is_some();
                grid.push(Choice { limits, flagged: sessions.iter().map(flagged).collect() });
            }
        }
    }
    grid
}

impl Choice {
    /// What it finds among the sessions that `of` names.
    pub(crate) fn found(&self, sessions: &[&Session], of: impl Fn(&Session) -> bool) -> Found {
        count(sessions, &self.flagged, of)
    }
}

/// What a baseline flags.
pub(crate) fn flags(sessions: &[&Session], rule: Rule) -> Vec<bool> {
    sessions.iter().map(|session| rule(session).is_some()).collect()
}

/// What share of the successes that it names may be flagged, in percent.
pub(crate) type Bound<'b> = &'b dyn Fn(&dyn Fn(&Session) -> bool) -> f64;

/// What is flagged among the sessions that `of` names.
pub(crate) fn count(sessions: &[&Session], flags: &[bool], of: impl Fn(&Session) -> bool) -> Found {
    let mut found = Found::default();
    for (session, flagged) in sessions.iter().zip(flags).filter(|(session, _)| of(session)) {
        let side = match session.good {
            Some(true) => &mut found.good,
            Some(false) => &mut found.bad,
            None => continue,
        };
        side.0 += usize::from(*flagged);
        side.1 += 1;
    }
    found
}

/// For each model, the choice that flags the most failures of the others with at most `bound` of
/// their successes, in percent; and what these choices find together, each on its own model.
pub(crate) fn leave_one_out<'g>(
    sessions: &[&Session],
    grid: &'g [Choice],
    bound: Bound<'_>,
) -> (Vec<(String, &'g Choice)>, Found) {
    let models: BTreeSet<&str> = sessions.iter().map(|session| &*session.model).collect();
    let (mut chosen, mut sum) = (Vec::new(), Found::default());
    for model in models {
        let others = |session: &Session| session.model != model;
        let bound = bound(&others);
        let allowed =
            grid.iter().filter(|choice| choice.found(sessions, others).good_percent() <= bound);
        let Some(best) = allowed.max_by_key(|choice| choice.found(sessions, others).bad.0) else {
            continue;
        };
        let own = best.found(sessions, |session| session.model == model);
        sum.good = (sum.good.0 + own.good.0, sum.good.1 + own.good.1);
        sum.bad = (sum.bad.0 + own.bad.0, sum.bad.1 + own.bad.1);
        chosen.push((model.to_owned(), best));
    }
    (chosen, sum)
}

impl Found {
    /// Successes flagged, in percent.
    pub(crate) fn good_percent(&self) -> f64 {
        self.good.0 as f64 * 100.0 / self.good.1.max(1) as f64
    }

    /// Failures flagged, in percent.
    pub(crate) fn bad_percent(&self) -> f64 {
        self.bad.0 as f64 * 100.0 / self.bad.1.max(1) as f64
    }

    /// Two cells of a table.
    pub(crate) fn cells(&self) -> String {
        let cell = |(flagged, all): (usize, usize), percent: f64| {
            format!("{flagged} of {all} ({percent:.2} %)")
        };
        let good = cell(self.good, self.good_percent());
        format!("{} | {good}", cell(self.bad, self.bad_percent()))
    }
}
