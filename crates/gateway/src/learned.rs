//! What a provider's refusals have taught this process of models that no table knows
//! (`governing.md` §8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use softland_session::core::Rung;
use softland_session::core::models::capability::{Capability, Forced};

/// Models that are remembered.
const MOST: usize = 1000;

/// What was learned, by model.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    models: Mutex<BTreeMap<String, Lessons>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lessons {
    no_forcing: bool,
    no_none: bool,
}

impl Learned {
    /// A 400 was the answer to this rung.
    pub(crate) fn refused(&self, model: &str, rung: Option<Rung>) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MOST && !models.contains_key(model) {
            return;
        }
        let lessons = models.entry(model.to_owned()).or_default();
        match rung {
            Some(Rung::Respond) => lessons.no_forcing = true,
            Some(Rung::None) => lessons.no_none = true,
            _ => {}
        }
    }

    /// What the table says of the model, less what it has refused.
    pub(crate) fn of(&self, model: &str, table: Capability) -> Capability {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lessons) = models.get(model).copied() else { return table };
        Capability {
            forced: if lessons.no_forcing { Forced::No } else { table.forced },
            none: table.none && !lessons.no_none,
            ..table
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_session::core::models::capability;

    #[test]
    fn a_refused_rung_is_not_tried_again() {
        let learned = Learned::default();
        let table = capability(None, "claude-sonnet-4-5");
        assert_eq!(learned.of("m", table), table);
        learned.refused("m", Some(Rung::None));
        assert!(!learned.of("m", table).none);
        assert_eq!(learned.of("m", table).forced, table.forced);
        learned.refused("m", Some(Rung::Respond));
        assert_eq!(learned.of("m", table).forced, Forced::No);
        assert_eq!(learned.of("other", table), table);
    }
}
