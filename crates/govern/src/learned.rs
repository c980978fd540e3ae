//! Knowledge about the models that were requested: what the tables say, looked up once for each
//! name, and what a provider's refusals have taught about models that no table has (`governing.md`
//! §8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use softland_session::core::Rung;
use softland_session::core::models::capability::{Capability, ForcedChoice};
use softland_session::core::models::{self, Model};

/// The number of models that are remembered.
const MOST: usize = 1000;

/// The longest model name that is remembered, in bytes: clients may send any name.
const LONGEST: usize = 256;

/// The knowledge about each model.
#[derive(Debug, Default)]
pub struct LearnedModels {
    models: Mutex<BTreeMap<String, ModelLessons>>,
    looked_up: Mutex<BTreeMap<String, KnownModel>>,
}

/// The tables' entries for a model.
#[derive(Clone, Copy, Debug)]
pub struct KnownModel {
    /// Its row in the table of prices and sizes.
    pub row: Option<&'static Model>,
    /// The capability of its API.
    pub capability: Capability,
}

impl KnownModel {
    /// Looks a model up: without prefixes and dates in its name, and by patterns.
    fn from_name(model: &str) -> Self {
        let row = models::find_model(None, model);
        Self { row, capability: models::capability_of_row(row, None, model) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ModelLessons {
    no_forcing: bool,
    no_none: bool,
    limit: Option<LearnedLimit>,
}

/// The form in which a model accepts an output limit that its client has not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedLimit {
    /// True if Chat Completions needs the newer name, `max_completion_tokens`.
    pub completion: bool,
    /// The highest limit, in tokens.
    pub most: u64,
}

/// The limit for an error that states none: every model supports this much output.
const SMALL: u64 = 4096;

impl LearnedModels {
    /// Learns from a 400 to this rung. It teaches something only about a model that no table has;
    /// otherwise the refusal had another reason.
    pub fn learn_refusal(&self, model: &str, rung: Option<Rung>) {
        if models::find_model(None, model).is_some() {
            return;
        }
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

    /// Learns from a 400 to an output limit that softland had added. Returns true if it taught
    /// something, so that another limit is worth a try.
    pub fn learn_limit(&self, model: &str, limit: u64, error: &str) -> bool {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MOST && !models.contains_key(model) {
            return false;
        }
        let lessons = models.entry(model.to_owned()).or_default();
        let before = lessons.limit;
        let mut lesson = before.unwrap_or(LearnedLimit { completion: false, most: u64::MAX });
        if error.contains("Use 'max_completion_tokens'") {
            lesson.completion = true;
        } else if ["max_tokens", "max_completion_tokens", "max_output_tokens"]
            .iter()
            .any(|name| error.contains(name))
        {
            lesson.most = lesson.most.min(most_of(error, limit));
        }
        lessons.limit = Some(lesson);
        lessons.limit != before && (lesson.most < limit || lesson.completion)
    }

    /// Returns the form in which the model accepts an output limit, if it has refused one.
    pub fn limit_of(&self, model: &str) -> Option<LearnedLimit> {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        models.get(model)?.limit
    }

    /// Returns what the tables say about the model. Names beyond the remembered number are looked
    /// up each time.
    pub fn find_model(&self, model: &str) -> KnownModel {
        let mut looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = looked_up.get(model) {
            return *known;
        }
        let known = KnownModel::from_name(model);
        if looked_up.len() < MOST && model.len() <= LONGEST {
            looked_up.insert(model.to_owned(), known);
        }
        known
    }

    /// Returns the table's capability of the model, without what the model has refused.
    pub fn learned_capability(&self, model: &str, table: Capability) -> Capability {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lessons) = models.get(model).copied() else { return table };
        Capability {
            forced: if lessons.no_forcing { ForcedChoice::No } else { table.forced },
            none: table.none && !lessons.no_none,
            ..table
        }
    }
}

/// Returns the highest limit below `limit` that an error states.
fn most_of(error: &str, limit: u64) -> u64 {
    let numbers = error.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let fits = |n: &u64| *n < limit && *n >= SMALL;
    numbers.filter(fits).max().unwrap_or(SMALL).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_session::core::models::find_capability;

    #[test]
    fn a_refused_rung_is_not_tried_again() {
        let learned = LearnedModels::default();
        let table = find_capability(None, "claude-sonnet-4-5");
        assert_eq!(learned.learned_capability("m", table), table);
        learned.learn_refusal("m", Some(Rung::None));
        assert!(!learned.learned_capability("m", table).none);
        assert_eq!(learned.learned_capability("m", table).forced, table.forced);
        learned.learn_refusal("m", Some(Rung::Respond));
        assert_eq!(learned.learned_capability("m", table).forced, ForcedChoice::No);
        assert_eq!(learned.learned_capability("other", table), table);
        // One refusal says nothing about a model in the table.
        learned.learn_refusal("claude-sonnet-4-5", Some(Rung::None));
        assert_eq!(learned.learned_capability("claude-sonnet-4-5", table), table);
    }

    #[test]
    fn a_name_is_looked_up_once_and_known_as_the_tables_know_it() {
        let learned = LearnedModels::default();
        let long = "m".repeat(LONGEST + 1);
        for model in ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "m", &long] {
            for _ in 0..2 {
                let known = learned.find_model(model);
                assert_eq!(known.row, models::find_model(None, model));
                assert_eq!(known.capability, find_capability(None, model));
            }
        }
        assert_eq!(learned.looked_up.lock().expect("whole").len(), 3);
    }

    #[test]
    fn an_output_limit_is_learned_from_its_refusal() {
        let learned = LearnedModels::default();
        let name = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                    'max_completion_tokens' instead.";
        let size = "max_tokens is too large: 315665. This model supports at most 16384 tokens";
        assert_eq!(learned.limit_of("m"), None);
        assert!(learned.learn_limit("m", 315_665, name));
        assert!(learned.learn_limit("m", 315_665, size));
        assert_eq!(learned.limit_of("m"), Some(LearnedLimit { completion: true, most: 16_384 }));
        // The same error teaches nothing more.
        assert!(!learned.learn_limit("m", 16_384, name));
        assert!(!learned.learn_limit("n", 900, "messages: something else"));
        assert!(learned.learn_limit("o", 900_000, "max_tokens: not so much"));
        assert_eq!(learned.limit_of("o").map(|lesson| lesson.most), Some(SMALL));
    }
}
