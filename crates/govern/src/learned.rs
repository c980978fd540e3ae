//! Knowledge about the models that were requested: the tables' rows, looked up once for each name,
//! and the lessons of a provider's refusals about models that no table has
//! (`docs/governing.md` §8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use softland_session::core::Rung;
use softland_session::core::models::capability::{Capability, ForcedChoice};
use softland_session::core::models::{self, Model};

/// The number of models that are remembered.
const MOST: usize = 1000;

/// The longest model name that is remembered, in bytes: clients may send any name.
const LONGEST: usize = 256;

/// The tables' entries for the models that were requested.
#[derive(Debug, Default)]
pub struct KnownModels {
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

/// The lessons of a provider's refusals about one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLessons {
    /// True if it refuses a forced choice.
    pub no_forcing: bool,
    /// True if it refuses to be told to use no tool.
    pub no_none: bool,
    /// The form in which it accepts an output limit, if it has refused one.
    pub limit: Option<LearnedLimit>,
}

/// The form in which a model accepts an output limit that its client has not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedLimit {
    /// True if Chat Completions needs the newer name, `max_completion_tokens`.
    pub completion: bool,
    /// The highest limit, in tokens.
    pub most: u64,
}

/// The limit for an error that states none: every model supports this much output.
const SMALL: u64 = 4096;

impl KnownModels {
    /// Returns what the tables say about the model. Names beyond the remembered number are looked
    /// up each time.
    pub(crate) fn find_model(&self, model: &str) -> KnownModel {
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
}

impl ModelLessons {
    /// Learns from a 400 to this rung. It teaches something only about a model that no table has;
    /// otherwise the refusal had another reason. Returns true if it taught something.
    pub(crate) fn learn_refusal(&mut self, model: &str, rung: Option<Rung>) -> bool {
        if models::find_model(None, model).is_some() {
            return false;
        }
        let before = *self;
        match rung {
            Some(Rung::Respond) => self.no_forcing = true,
            Some(Rung::None) => self.no_none = true,
            _ => {}
        }
        *self != before
    }

    /// Learns from a 400 to an output limit that softland had added. Returns true if it taught
    /// something, so that another limit is worth a try.
    pub(crate) fn learn_limit(&mut self, limit: u64, error: &str) -> bool {
        let before = self.limit;
        let mut lesson = before.unwrap_or(LearnedLimit { completion: false, most: u64::MAX });
        if error.contains("Use 'max_completion_tokens'") {
            lesson.completion = true;
        } else if ["max_tokens", "max_completion_tokens", "max_output_tokens"]
            .iter()
            .any(|name| error.contains(name))
        {
            lesson.most = lesson.most.min(stated_limit(error, limit));
        }
        self.limit = Some(lesson);
        self.limit != before && (lesson.most < limit || lesson.completion)
    }

    /// Returns the table's capability of the model, without what the model has refused.
    pub(crate) fn apply_to(self, table: Capability) -> Capability {
        Capability {
            forced: if self.no_forcing { ForcedChoice::No } else { table.forced },
            none: table.none && !self.no_none,
            ..table
        }
    }

    /// Returns these lessons and others together.
    #[must_use]
    pub fn merged_with(self, other: Self) -> Self {
        let limit = match (self.limit, other.limit) {
            (Some(one), Some(other)) => Some(LearnedLimit {
                completion: one.completion || other.completion,
                most: one.most.min(other.most),
            }),
            (one, other) => one.or(other),
        };
        Self {
            no_forcing: self.no_forcing || other.no_forcing,
            no_none: self.no_none || other.no_none,
            limit,
        }
    }
}

/// The lessons about each model, in memory.
#[derive(Debug, Default)]
pub(crate) struct LessonBook(Mutex<BTreeMap<String, ModelLessons>>);

impl LessonBook {
    /// Adds lessons, unless too many models are known.
    pub(crate) fn add_lessons(&self, model: &str, lessons: ModelLessons) {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() < MOST || models.contains_key(model) {
            let known = models.entry(model.to_owned()).or_default();
            *known = known.merged_with(lessons);
        }
    }

    /// Returns the lessons about a model.
    pub(crate) fn find_lessons(&self, model: &str) -> ModelLessons {
        let models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        models.get(model).copied().unwrap_or_default()
    }
}

/// Returns the highest limit below `limit` that an error states.
fn stated_limit(error: &str, limit: u64) -> u64 {
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
        let book = LessonBook::default();
        let table = find_capability(None, "claude-sonnet-4-5");
        let refuses = |model: &str, rung| {
            let mut lessons = book.find_lessons(model);
            if lessons.learn_refusal(model, Some(rung)) {
                book.add_lessons(model, lessons);
            }
            book.find_lessons(model).apply_to(table)
        };
        assert_eq!(book.find_lessons("m").apply_to(table), table);
        let learned = refuses("m", Rung::None);
        assert!(!learned.none);
        assert_eq!(learned.forced, table.forced);
        assert_eq!(refuses("m", Rung::Respond).forced, ForcedChoice::No);
        assert_eq!(book.find_lessons("other").apply_to(table), table);
        // One refusal says nothing about a model in the table.
        assert_eq!(refuses("claude-sonnet-4-5", Rung::None), table);
    }

    #[test]
    fn lessons_of_two_add_up() {
        let lessons = |no_none, most| ModelLessons {
            no_none,
            limit: Some(LearnedLimit { completion: !no_none, most }),
            ..ModelLessons::default()
        };
        let both = lessons(true, 9000).merged_with(lessons(false, 8000));
        let limit = Some(LearnedLimit { completion: true, most: 8000 });
        assert_eq!(both, ModelLessons { no_none: true, limit, ..ModelLessons::default() });
    }

    #[test]
    fn a_name_is_looked_up_once_and_known_as_the_tables_know_it() {
        let known_models = KnownModels::default();
        let long = "m".repeat(LONGEST + 1);
        for model in ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "m", &long] {
            for _ in 0..2 {
                let known = known_models.find_model(model);
                assert_eq!(known.row, models::find_model(None, model));
                assert_eq!(known.capability, find_capability(None, model));
            }
        }
        assert_eq!(known_models.looked_up.lock().expect("whole").len(), 3);
    }

    #[test]
    fn an_output_limit_is_learned_from_its_refusal() {
        let mut lessons = ModelLessons::default();
        let name = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                    'max_completion_tokens' instead.";
        let size = "max_tokens is too large: 315665. This model supports at most 16384 tokens";
        assert!(lessons.learn_limit(315_665, name));
        assert!(lessons.learn_limit(315_665, size));
        assert_eq!(lessons.limit, Some(LearnedLimit { completion: true, most: 16_384 }));
        // The same error teaches nothing more.
        assert!(!lessons.learn_limit(16_384, name));
        assert!(!ModelLessons::default().learn_limit(900, "messages: something else"));
        let mut other = ModelLessons::default();
        assert!(other.learn_limit(900_000, "max_tokens: not so much"));
        assert_eq!(other.limit.map(|lesson| lesson.most), Some(SMALL));
    }
}
