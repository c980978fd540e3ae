//! Amounts of money in JSON: US dollars in decimal or scientific notation, converted to whole
//! billionths without floating point.

use crate::json::{Cursor, Error, Kind};

/// The number of decimals of a dollar that are kept.
const DECIMALS: i64 = 9;

/// Reads a number of dollars, or a string with one, into `cost`. Any other value, including a
/// negative amount, changes nothing.
pub(super) fn read_cost(cursor: &mut Cursor<'_>, cost: &mut Option<u64>) -> Result<(), Error> {
    let kind = cursor.peek()?;
    let raw = cursor.skip_value()?.slice_of(cursor.text());
    let number = match kind {
        Kind::Number => raw,
        Kind::String => raw.trim_matches('"'),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Null => return Ok(()),
    };
    *cost = parse_nano_usd(number).or(*cost);
    Ok(())
}

/// Returns the billionths in a decimal number, rounded half up. Returns `None` if it is negative,
/// not a number or too large.
pub(super) fn parse_nano_usd(number: &str) -> Option<u64> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The number of digits up to the billionths.
    let keep = i64::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(DECIMALS)?;
    let mut value: u64 = 0;
    let mut round_up = false;
    for (at, digit) in (0_i64..).zip(whole.bytes().chain(fraction.bytes())) {
        if at >= keep {
            round_up = at == keep && digit >= b'5';
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    let digits = i64::try_from(whole.len().checked_add(fraction.len())?).ok()?;
    if value > 0 && keep > digits {
        let zeros = u32::try_from(keep - digits).ok()?;
        value = value.checked_mul(10_u64.checked_pow(zeros)?)?;
    }
    value.checked_add(u64::from(round_up))
}

/// Formats billionths of a dollar as dollars, without trailing zeros.
pub(super) fn format_usd(nano: u64) -> String {
    let (whole, fraction) = (nano / 1_000_000_000, nano % 1_000_000_000);
    let text = format!("{whole}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
