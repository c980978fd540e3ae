//! The runs of a report that somebody asks for: by time, project and model.

use std::collections::BTreeMap;

use super::spending::DAY;
use super::{Report, RunReport};

/// A choice of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs that began at this time or later, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Runs that began before this time.
    pub until: Option<u64>,
    /// Runs whose project is this folder, lies below it, or has this text in its name.
    pub project: Option<String>,
    /// Runs that used a model with this text in its name.
    pub model: Option<String>,
}

impl RunFilter {
    /// Returns true if all runs are asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn takes(&self, run: &RunReport) -> bool {
        let began = run.beside.started;
        let spending = &run.spending;
        self.since.is_none_or(|since| began.is_some_and(|began| began >= since))
            && self.until.is_none_or(|until| began.is_some_and(|began| began < until))
            && self.project.as_ref().is_none_or(|wanted| {
                spending.project.as_deref().is_some_and(|project| has_word(project, wanted))
            })
            && self.model.as_ref().is_none_or(|wanted| {
                let mut models = spending.models.iter().filter_map(|(model, _)| model.as_deref());
                models.any(|model| has_word(model, wanted))
            })
    }
}

fn has_word(name: &str, wanted: &str) -> bool {
    name.to_lowercase().contains(&wanted.to_lowercase())
}

impl Report {
    /// Keeps the runs that somebody asks for. All sums are of those.
    pub fn keep_runs(&mut self, filter: &RunFilter) {
        if filter.is_empty() {
            return;
        }
        self.runs.retain(|run| filter.takes(run));
        let mut of_source: BTreeMap<&str, u64> = BTreeMap::new();
        for run in &self.runs {
            *of_source.entry(&run.source).or_insert(0) += 1;
        }
        for source in &mut self.sources {
            source.runs = of_source.get(source.path.as_str()).copied().unwrap_or(0);
        }
        crate::totals::sum_report(self);
    }
}

/// Parses a moment: a day (`2026-03-05`), a time (`2026-03-05T12:00:00Z`), or how long ago (`7d`).
/// `now` is the time in milliseconds since 1970. A day begins at midnight in UTC; with `whole_day`
/// its end is meant.
#[must_use]
pub fn parse_moment(text: &str, now: u64, whole_day: bool) -> Option<u64> {
    let text = text.trim();
    if let Ok(span) = text.parse::<softland_session::core::Millis>() {
        return Some(now.saturating_sub(span.0));
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>()
        && text.len() == "2026-03-05".len()
    {
        let begin = day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
        let begin = u64::try_from(begin).ok()?;
        return Some(if whole_day { begin + DAY } else { begin });
    }
    crate::draft::parse_time(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_days_times_and_spans() {
        const NOON: u64 = 1_772_712_000_000;
        for (text, whole_day, wanted) in [
            ("2026-03-05", false, Some(NOON - DAY / 2)),
            ("2026-03-05", true, Some(NOON + DAY / 2)),
            ("2026-03-05T12:00:00Z", true, Some(NOON)),
            ("2026-03-05 12:00:00", false, Some(NOON)),
            ("2d", false, Some(NOON - 2 * DAY)),
            ("yesterday", false, None),
            ("2026-02-30", false, None),
        ] {
            assert_eq!(parse_moment(text, NOON, whole_day), wanted, "{text}");
        }
    }
}
