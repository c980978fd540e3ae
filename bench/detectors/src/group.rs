//! A group of sessions under one rule: how many it flags, and what came after.

use crate::read::Session;
use crate::replay::Flag;

/// What one rule makes of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) flagged: usize,
    pub(crate) all: usize,
    tokens_after: u64,
    tokens: u64,
}

impl Share {
    /// Counts the sessions of a group.
    pub(crate) fn of<'s>(
        sessions: impl Iterator<Item = &'s Session>,
        rule: impl Fn(&Session) -> Option<Flag>,
    ) -> Self {
        sessions.fold(Self::default(), |sum, session| {
            let tokens = session.tokens();
            let flag = rule(session);
            let after = flag.as_ref().map_or(tokens.len(), |flag| flag.turn.min(tokens.len()));
            Self {
                flagged: sum.flagged + usize::from(flag.is_some()),
                all: sum.all + 1,
                tokens_after: sum.tokens_after + tokens[after..].iter().sum::<u64>(),
                tokens: sum.tokens + tokens.iter().sum::<u64>(),
            }
        })
    }

    /// `12 of 345 (3.48 %)`
    pub(crate) fn text(&self) -> String {
        match self.all {
            0 => "–".to_owned(),
            all => format!("{} of {all} ({:.2} %)", self.flagged, self.percent()),
        }
    }

    /// Sessions flagged, in percent.
    pub(crate) fn percent(&self) -> f64 {
        percent(self.flagged as f64, self.all as f64)
    }

    /// Tokens after the flag, in percent of the group's.
    pub(crate) fn after(&self) -> String {
        match self.all {
            0 => "–".to_owned(),
            _ => format!("{:.1} %", percent(self.tokens_after as f64, self.tokens as f64)),
        }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part * 100.0 / whole }
}
