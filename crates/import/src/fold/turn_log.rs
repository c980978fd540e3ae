//! The cost of each turn of a run. A run may stay open to the end of a file of millions of rows, so
//! turns are packed: differences and counts in variable-length bytes, about a dozen for a turn.

use softland_session::core::NanoUsd;

use crate::report::{Moment, TurnSpend};

/// Turns between two positions where reading can begin.
const STRIDE: usize = 32;

const COST: u8 = 1;
const TOKENS: u8 = 1 << 1;
const TIME: u8 = 1 << 2;
const LINE: u8 = 1 << 3;
const HELD: u8 = 1 << 4;

/// The cost of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnRecord {
    pub(super) cost: Option<NanoUsd>,
    pub(super) tokens: Option<u64>,
    /// Time in milliseconds since 1970.
    pub(super) time: Option<u64>,
    pub(super) line: Option<u64>,
    /// Money and tokens held back for the answer.
    pub(super) held: (NanoUsd, u64),
}

impl TurnRecord {
    pub(super) fn moment(&self) -> Option<Moment> {
        Some((self.time?, self.line.unwrap_or(0)))
    }

    pub(super) fn turn_spend(&self) -> Option<TurnSpend> {
        let (cost, tokens) = (self.cost.unwrap_or_default(), self.tokens.unwrap_or(0));
        Some(TurnSpend { at: self.moment()?, cost, tokens, held: self.held })
    }
}

/// The turns of a run, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnLog {
    bytes: Vec<u8>,
    turns: usize,
    /// The newest time and line, from which the next differences are taken.
    last: (u64, u64),
    /// The position of each [`STRIDE`]th turn.
    places: Vec<TurnLogPosition>,
}

/// The position of a turn, with the time and line before it.
#[derive(Clone, Copy, Debug, Default)]
struct TurnLogPosition {
    at: usize,
    last: (u64, u64),
}

impl TurnLog {
    /// Returns the number of turns.
    pub(super) const fn len(&self) -> usize {
        self.turns
    }

    /// Adds a turn.
    pub(super) fn push(&mut self, spent: TurnRecord) {
        if self.turns.is_multiple_of(STRIDE) {
            self.places.push(TurnLogPosition { at: self.bytes.len(), last: self.last });
        }
        self.turns += 1;
        let (held, none) = (spent.held, (NanoUsd::ZERO, 0));
        let marks = [
            (spent.cost.is_some(), COST),
            (spent.tokens.is_some(), TOKENS),
            (spent.time.is_some(), TIME),
            (spent.line.is_some(), LINE),
            (held != none, HELD),
        ];
        self.bytes.push(marks.iter().filter(|(is, _)| *is).map(|(_, mark)| mark).sum());
        let (time, line) = self.last;
        let numbers = [
            spent.cost.map(|cost| cost.0),
            spent.tokens,
            spent.time.map(|now| zigzag_encode(now.wrapping_sub(time))),
            spent.line.map(|now| zigzag_encode(now.wrapping_sub(line))),
            (held != none).then_some(held.0.0),
            (held != none).then_some(held.1),
        ];
        numbers.into_iter().flatten().for_each(|number| write_varint(&mut self.bytes, number));
        self.last = (spent.time.unwrap_or(time), spent.line.unwrap_or(line));
    }

    /// Iterates over all turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = TurnRecord> {
        self.iter_from(TurnLogPosition::default())
    }

    /// Returns one turn, counted from 1.
    pub(super) fn turn_at(&self, turn: u64) -> Option<TurnRecord> {
        let turn = usize::try_from(turn.checked_sub(1)?).ok()?;
        let place = self.places.get(turn / STRIDE)?;
        self.iter_from(*place).nth(turn % STRIDE)
    }

    fn iter_from(&self, place: TurnLogPosition) -> impl Iterator<Item = TurnRecord> {
        let mut rest = self.bytes.get(place.at..).unwrap_or_default();
        let (mut time, mut line) = place.last;
        std::iter::from_fn(move || {
            let (marks, behind) = rest.split_first()?;
            rest = behind;
            let mut next = |mark| (marks & mark != 0).then(|| read_varint(&mut rest));
            let spent = TurnRecord {
                cost: next(COST).map(NanoUsd),
                tokens: next(TOKENS),
                time: next(TIME).map(|by| time.wrapping_add(zigzag_decode(by))),
                line: next(LINE).map(|by| line.wrapping_add(zigzag_decode(by))),
                held: (NanoUsd(next(HELD).unwrap_or(0)), next(HELD).unwrap_or(0)),
            };
            (time, line) = (spent.time.unwrap_or(time), spent.line.unwrap_or(line));
            Some(spent)
        })
    }
}

/// Encodes a difference with its sign in the lowest bit, so that small differences of either sign
/// are small numbers.
const fn zigzag_encode(difference: u64) -> u64 {
    if difference >> 63 == 0 { difference << 1 } else { !(difference << 1) }
}

const fn zigzag_decode(number: u64) -> u64 {
    if number & 1 == 0 { number >> 1 } else { !(number >> 1) }
}

/// Writes seven bits to a byte, the lowest first; the highest bit says that more bytes follow.
fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every size, some absent, from a simple generator.
    fn turns() -> Vec<TurnRecord> {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let mut number = || {
            let (kind, size, value) = (next() % 5, next() % 64, next());
            (kind > 0).then_some(if kind == 1 { u64::MAX - value % 3 } else { value >> size })
        };
        let turn = |_| TurnRecord {
            cost: number().map(NanoUsd),
            tokens: number(),
            time: number(),
            line: number(),
            held: (NanoUsd(number().unwrap_or(0)), number().unwrap_or(0)),
        };
        (0..2000).map(turn).collect()
    }

    #[test]
    fn turns_are_read_as_they_were_written() {
        let turns = turns();
        let mut ledger = TurnLog::default();
        turns.iter().for_each(|turn| ledger.push(*turn));
        assert_eq!(ledger.len(), turns.len());
        assert_eq!(ledger.iter().collect::<Vec<_>>(), turns);
        for (number, turn) in (1..).zip(&turns) {
            assert_eq!(ledger.turn_at(number), Some(*turn), "{number}");
        }
        assert_eq!(
            (ledger.turn_at(0), ledger.turn_at(2001), TurnLog::default().turn_at(1)),
            (None, None, None)
        );
    }

    #[test]
    fn a_row_takes_a_dozen_bytes() {
        let mut ledger = TurnLog::default();
        for n in 0..1000 {
            let (cost, tokens) = (Some(NanoUsd(8_307_000 + n)), Some(8432));
            let (time, line) = (Some(1_767_390_073_893 + 15_000 * n), Some(60 * n));
            ledger.push(TurnRecord { cost, tokens, time, line, ..TurnRecord::default() });
        }
        assert!(ledger.bytes.len() < 13_000, "{}", ledger.bytes.len());
    }
}
