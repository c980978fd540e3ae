//! The gateway's own names of requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The gateway's own name of a client's request, in logs, errors and the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    start: u64,
    number: u64,
}

impl RequestId {
    /// Returns the id as text, with one allocation.
    pub fn to_text(self) -> String {
        let mut text = String::with_capacity(LONGEST_ID);
        text.push_str("req_");
        push_hex(&mut text, self.start);
        text.push('_');
        push_hex(&mut text, self.number);
        text
    }
}

/// Bytes of an id whose numbers have their largest values.
const LONGEST_ID: usize = "req_".len() + 16 + "_".len() + 16;

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Appends a number in hexadecimal, without the cost of the standard library's formatting for each
/// request.
fn push_hex(text: &mut String, number: u64) {
    let digits = (u64::BITS - (number | 1).leading_zeros()).div_ceil(4);
    let digit = |at| char::from_digit((number >> (4 * at)) as u32 & 0xf, 16);
    text.extend((0..digits).rev().filter_map(digit));
}

/// A generator of request ids. They are unique among the gateways of one machine, unless a clock is
/// set back.
#[derive(Debug)]
pub struct RequestIds {
    start: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// Creates a generator. `start` is the time at which the process began, in microseconds.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self { start, next: AtomicU64::new(1) }
    }

    /// Returns the next id.
    pub fn next(&self) -> RequestId {
        RequestId { start: self.start, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_numbers_in_hexadecimal_digits() {
        for number in [0, 1, 9, 0xa, 0x10, 0xff0, u64::MAX >> 3, u64::MAX] {
            let id = RequestId { start: number.rotate_left(7), number };
            let expected = format!("req_{:x}_{:x}", id.start, id.number);
            assert_eq!((id.to_text(), id.to_string()), (expected.clone(), expected));
            assert!(id.to_text().len() <= LONGEST_ID);
        }
    }
}
