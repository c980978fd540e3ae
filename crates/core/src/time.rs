//! Time as the core knows it: whole milliseconds that come in as facts.
//!
//! Nothing here reads a clock. The outer crates read it and pass the time in.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A span of time in whole milliseconds. Written `"90s"`, `"10m"`, `"1h30m"`, `"250ms"`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct Millis(pub u64);

impl Millis {
    /// Returns `n` whole seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }
}

/// The error for a text that is no span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimeError;

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"30s\", \"10m\", \"1h30m\" or \"500ms\"")
    }
}

impl FromStr for Millis {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(ParseTimeError);
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(ParseTimeError)?;
            let (number, tail) = rest.split_at(digits);
            let number: u64 = number.parse().map_err(|_| ParseTimeError)?;
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let factor = match unit {
                "ms" => 1,
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(ParseTimeError),
            };
            total = number
                .checked_mul(factor)
                .and_then(|part| total.checked_add(part))
                .ok_or(ParseTimeError)?;
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl TryFrom<String> for Millis {
    type Error = ParseTimeError;

    fn try_from(text: String) -> Result<Self, ParseTimeError> {
        text.parse()
    }
}

impl From<Millis> for String {
    fn from(span: Millis) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (factor, unit) in [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")] {
            if rest >= factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same() {
        for (text, millis) in [
            ("10m", 600_000),
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("0s", 0),
            ("1m1s1ms", 61_001),
        ] {
            let span: Millis = text.parse().unwrap();
            assert_eq!(span, Millis(millis), "{text}");
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in ["", "10", "m", "-1s", "1.5h", "10 minutes", "99999999999999999999s", "1s2"] {
            assert_eq!(text.parse::<Millis>(), Err(ParseTimeError), "{text}");
        }
    }
}
