//! Money in whole nano-dollars, so that sums are exact and caps are comparable.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign};
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const PER_DOLLAR: u64 = 1_000_000_000;

/// An amount of US dollars in whole nano-dollars. Adds without overflow (it saturates).
///
/// It is written as a decimal number of dollars; amounts up to four million dollars survive
/// the trip through a JSON number exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Returns the cost of `tokens` tokens at `pico` pico-dollars each, rounded up to the
    /// nano-dollar.
    #[must_use]
    pub fn from_tokens(tokens: u64, pico: u64) -> Self {
        let nano = (u128::from(tokens) * u128::from(pico)).div_ceil(1000);
        Self(u64::try_from(nano).unwrap_or(u64::MAX))
    }

    /// Returns the rest of `self` after `spent`; zero if there is none.
    #[must_use]
    pub const fn saturating_sub(self, spent: Self) -> Self {
        Self(self.0.saturating_sub(spent.0))
    }

    /// Returns the amount in dollars, for display and JSON.
    #[must_use]
    pub fn to_dollars(self) -> f64 {
        // A single division gives the number nearest to the decimal, so it is written as that
        // decimal. The sum of two parts would show their rounding (4.9981919999999995).
        self.0 as f64 / PER_DOLLAR as f64
    }

    /// Returns the amount nearest to `dollars`; `None` for a negative or infinite number, or for
    /// one that is too large.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nano = dollars * PER_DOLLAR as f64;
        if !nano.is_finite() || nano < 0.0 || nano > u64::MAX as f64 / 2.0 {
            return None;
        }
        Some(Self((nano + 0.5) as u64))
    }
}

impl Add for NanoUsd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// The error for a text that is no amount of money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseMoneyError;

impl FromStr for NanoUsd {
    type Err = ParseMoneyError;

    /// Reads a decimal such as `5`, `0.25` or `$0.25`, to the nano-dollar.
    fn from_str(text: &str) -> Result<Self, ParseMoneyError> {
        let text = text.trim();
        let text = text.strip_prefix('$').unwrap_or(text);
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) {
            return Err(ParseMoneyError);
        }
        if part.len() > 9 && part.as_bytes().iter().skip(9).any(|&b| b != b'0') {
            return Err(ParseMoneyError);
        }
        let whole: u64 =
            if whole.is_empty() { 0 } else { whole.parse().map_err(|_| ParseMoneyError)? };
        let mut nano = 0_u64;
        for place in 0..9 {
            let digit = part.as_bytes().get(place).map_or(0, |b| u64::from(b - b'0'));
            nano = nano * 10 + digit;
        }
        whole
            .checked_mul(PER_DOLLAR)
            .and_then(|dollars| dollars.checked_add(nano))
            .map(Self)
            .ok_or(ParseMoneyError)
    }
}

impl fmt::Display for NanoUsd {
    /// `$0.0123`: at least two decimals, no trailing zeros beyond them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0 % PER_DOLLAR;
        let mut places = 9;
        while places > 2 && rest.is_multiple_of(10) {
            rest /= 10;
            places -= 1;
        }
        write!(f, "${}.{rest:0places$}", self.0 / PER_DOLLAR)
    }
}

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.to_dollars())
    }
}

impl<'de> Deserialize<'de> for NanoUsd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(from)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("no amount of money"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn reads_decimals_exactly() {
        for (text, nano) in [
            ("5", 5_000_000_000),
            ("0.25", 250_000_000),
            ("$1.000000001", 1_000_000_001),
            (".5", 500_000_000),
            ("0.1000000000000", 100_000_000),
        ] {
            assert_eq!(text.parse(), Ok(NanoUsd(nano)), "{text}");
        }
        for text in ["", "-1", "1e3", "0.0000000001", ".", "five", "18446744074"] {
            assert_eq!(text.parse::<NanoUsd>(), Err(ParseMoneyError), "{text}");
        }
    }

    #[test]
    fn writes_cents_and_what_is_smaller() {
        for (nano, text) in
            [(0, "$0.00"), (5_000_000_000, "$5.00"), (12_300_000, "$0.0123"), (1, "$0.000000001")]
        {
            assert_eq!(NanoUsd(nano).to_string(), text);
        }
    }

    #[test]
    fn tokens_are_rounded_up_once_and_saturate() {
        assert_eq!(NanoUsd::from_tokens(3, 333), NanoUsd(1));
        assert_eq!(NanoUsd::from_tokens(4, 333), NanoUsd(2));
        assert_eq!(NanoUsd::from_tokens(0, u64::MAX), NanoUsd::ZERO);
        assert_eq!(NanoUsd::from_tokens(u64::MAX, u64::MAX), NanoUsd(u64::MAX));
    }

    #[test]
    fn a_json_number_is_written_as_the_decimal_that_it_is() {
        let written = |nano| serde_json::to_string(&NanoUsd(nano)).expect("a number");
        for (nano, text) in [
            (4_998_192_000, "4.998192"),
            (1, "1e-9"),
            (300_000_000, "0.3"),
            (2_000_000_001, "2.000000001"),
            (0, "0.0"),
        ] {
            assert_eq!(written(nano), text);
        }
        for nano in (0..2_000_000_000_000_u64).step_by(7_919_191_919) {
            let decimal = alloc::format!("{}.{:09}", nano / PER_DOLLAR, nano % PER_DOLLAR);
            let decimal = decimal.trim_end_matches('0').trim_end_matches('.');
            assert_eq!(written(nano).trim_end_matches(".0"), decimal);
        }
    }

    #[test]
    fn survives_a_json_number() {
        for nano in [0, 1, 999_999_999, 1_234_567_891_234_567] {
            assert_eq!(NanoUsd::from_dollars(NanoUsd(nano).to_dollars()), Some(NanoUsd(nano)));
        }
    }
}
