//! The windows of budgets: spans of time of which each begins with nothing spent.
//!
//! The functions here read no clock. A host computes the bounds of a window from its own time; the
//! state that keeps the accounts chooses among them by its time.

use std::fmt;
use std::sync::Arc;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

/// The length of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowLength {
    /// So many milliseconds from the first reservation on.
    Rolling(u64),
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

/// The longest window that begins with its first reservation.
const LONGEST_MS: u64 = 366 * 24 * 3_600_000;

impl WindowLength {
    /// Parses `day`, `week`, `month`, or a length in minutes, hours or days (`90m`, `5h`, `30d`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "day" => return Some(Self::Day),
            "week" => return Some(Self::Week),
            "month" => return Some(Self::Month),
            _ => {}
        }
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let unit = match unit {
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 24 * 3_600_000,
            _ => return None,
        };
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = if digits { number.parse().ok()? } else { return None };
        let millis = number.checked_mul(unit)?;
        (1..=LONGEST_MS).contains(&millis).then_some(Self::Rolling(millis))
    }
}

impl fmt::Display for WindowLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rolling(millis) if millis.is_multiple_of(3_600_000) => {
                write!(f, "{}h", millis / 3_600_000)
            }
            Self::Rolling(millis) => write!(f, "{}m", millis / 60_000),
            Self::Day => f.write_str("day"),
            Self::Week => f.write_str("week"),
            Self::Month => f.write_str("month"),
        }
    }
}

/// A span of time, in milliseconds since 1970. Its end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSpan {
    /// The first millisecond.
    pub start: u64,
    /// The first millisecond after it.
    pub end: u64,
}

impl TimeSpan {
    /// Returns true if this time is part of the span.
    #[must_use]
    pub const fn contains(&self, at: u64) -> bool {
        self.start <= at && at < self.end
    }
}

/// The bounds of a window, for a state that knows no calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowBounds {
    /// A window begins with its first reservation, and ends so many milliseconds later. While a
    /// clock that was put back shows a time before its beginning, it goes on.
    FromFirst(u64),
    /// The windows around the host's time, in order and without gaps.
    Calendar(Vec<TimeSpan>),
}

impl WindowBounds {
    /// Returns the window at this time, where `open` is the one that began last; a new one begins
    /// now. `None` if the bounds were computed for another time.
    #[must_use]
    pub fn find_span(&self, at: u64, open: Option<TimeSpan>) -> Option<TimeSpan> {
        match self {
            Self::FromFirst(millis) => {
                let new = TimeSpan { start: at, end: at.saturating_add(*millis) };
                Some(open.filter(|open| at < open.end).unwrap_or(new))
            }
            Self::Calendar(spans) => spans.iter().copied().find(|span| span.contains(at)),
        }
    }
}

/// The window of a budget, in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetWindow {
    length: WindowLength,
    zone: TimeZone,
    zone_name: Arc<str>,
}

/// The error for the name of a time zone that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone;

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be a time zone of the IANA database, such as \"Europe/Berlin\" or \"UTC\"",
        )
    }
}

impl std::error::Error for UnknownZone {}

impl BudgetWindow {
    /// Creates a window of this length in the time zone of this name.
    ///
    /// # Errors
    /// Returns [`UnknownZone`] if there is no such time zone.
    pub fn new(length: WindowLength, zone: &str) -> Result<Self, UnknownZone> {
        let found = match zone {
            "UTC" => TimeZone::UTC,
            _ => TimeZone::get(zone).map_err(|_| UnknownZone)?,
        };
        let zone_name = found.iana_name().unwrap_or(zone).into();
        Ok(Self { length, zone: found, zone_name })
    }

    /// Returns the window's length.
    #[must_use]
    pub const fn length(&self) -> WindowLength {
        self.length
    }

    /// Returns the name of the time zone.
    #[must_use]
    pub fn zone_name(&self) -> &str {
        &self.zone_name
    }

    /// Returns a name that tells this window from all others of an account: `5h`, or
    /// `day:Europe/Berlin`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.length {
            WindowLength::Rolling(_) => self.length.to_string(),
            length => format!("{length}:{}", self.zone_name),
        }
    }

    /// Returns the bounds of the windows around a time: those before it, at it and after it.
    #[must_use]
    pub fn bounds_at(&self, at: u64) -> WindowBounds {
        if let WindowLength::Rolling(millis) = self.length {
            return WindowBounds::FromFirst(millis);
        }
        let first = self.first_day(self.local_date(at));
        let firsts = [self.step(first, -1), first, self.step(first, 1), self.step(first, 2)];
        let starts = firsts.map(|day| self.day_start(day));
        let spans = starts.windows(2).filter_map(|pair| match pair {
            [start, end] if start < end => Some(TimeSpan { start: *start, end: *end }),
            _ => None,
        });
        WindowBounds::Calendar(spans.collect())
    }

    /// Returns the window at a time; for one that begins with its first reservation, the window
    /// that would begin then.
    #[must_use]
    pub fn span_at(&self, at: u64) -> TimeSpan {
        let span = self.bounds_at(at).find_span(at, None);
        // The windows around a time contain it, except at the ends of the calendar.
        span.unwrap_or_else(|| TimeSpan { start: at, end: at.saturating_add(1) })
    }

    /// Returns a time in the window's zone, as RFC 3339 writes it.
    #[must_use]
    pub fn format_time(&self, at: u64) -> String {
        let at = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        let zoned = at.unwrap_or(Timestamp::MAX).to_zoned(self.zone.clone());
        zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }

    fn local_date(&self, at: u64) -> Date {
        let at = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        at.unwrap_or(Timestamp::MAX).to_zoned(self.zone.clone()).date()
    }

    /// Returns the first day of the window that this day is in.
    fn first_day(&self, day: Date) -> Date {
        match self.length {
            WindowLength::Rolling(_) | WindowLength::Day => day,
            WindowLength::Week => {
                let after = day.weekday().since(Weekday::Monday);
                day.saturating_sub(i64::from(after).days())
            }
            WindowLength::Month => day.first_of_month(),
        }
    }

    /// Returns the first day of the window that comes so many windows later.
    fn step(&self, first: Date, windows: i64) -> Date {
        match self.length {
            WindowLength::Rolling(_) | WindowLength::Day => first.saturating_add(windows.days()),
            WindowLength::Week => first.saturating_add(windows.weeks()),
            WindowLength::Month => first.saturating_add(windows.months()),
        }
    }

    /// Returns the first moment of a day, in milliseconds since 1970. A day may begin later than at
    /// midnight, where clocks are put forward then.
    fn day_start(&self, day: Date) -> u64 {
        let begins = day.to_zoned(self.zone.clone()).map(|start| start.timestamp());
        let millis = begins.unwrap_or(Timestamp::MAX).as_millisecond();
        u64::try_from(millis).unwrap_or(0)
    }
}

/// Returns the name of the account of one window.
#[must_use]
pub fn window_account(account: &str, span: TimeSpan) -> Arc<str> {
    format!("{account}@{}", span.start).into()
}

/// Returns the account whose window this is; the name itself if it is no window's.
#[must_use]
pub fn account_of_window(name: &str) -> &str {
    let window = name.starts_with(BUDGET).then(|| name.rsplit_once('@')).flatten();
    window.map_or(name, |(account, _)| account)
}

/// Returns true if this is the name of an account with windows, or of one of its windows.
#[must_use]
pub fn is_window_account(name: &str) -> bool {
    name.starts_with(BUDGET)
}

/// The beginning of the names of accounts with windows.
const BUDGET: &str = "budget:";

/// Returns the name under which a budget's account is kept: its path, apart for each kind of
/// window.
#[must_use]
pub fn budget_account(window: &BudgetWindow, path: &str) -> Arc<str> {
    format!("{BUDGET}{}:{path}", window.name()).into()
}

#[cfg(test)]
mod tests;
