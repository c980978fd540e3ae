//! A digest for texts that are the same apart from numbers and times: "attempt 3, 12:04:09" and
//! "attempt 4, 12:04:31".
//!
//! A number may also be what a question is about: "What does note 3 say?". So there are two digests.
//! One leaves out every number, the other only those that count or tell the time.
//!
//! Words are compared as they stand. A word of time (`Thu`, `pm`, `minutes`) is left out only
//! beside a number: elsewhere it may be the point of a question.

use alloc::string::String;
use alloc::vec::Vec;

use crate::digest::Digest;

/// Words that stand for a time together with a number.
const TIME_WORDS: &[&str] = &[
    "am",
    "pm",
    "t",
    "z",
    "utc",
    "gmt",
    "ns",
    "us",
    "ms",
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "m",
    "min",
    "mins",
    "minute",
    "minutes",
    "h",
    "hr",
    "hrs",
    "hour",
    "hours",
    "d",
    "day",
    "days",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Words before a number that counts.
const BEFORE_COUNTS: &[&str] = &[
    "attempt",
    "try",
    "retry",
    "iteration",
    "round",
    "turn",
    "step",
    "reminder",
    "warning",
    "nudge",
    "of",
    "no",
    "done",
    "used",
    "remaining",
    "after",
    "for",
];

/// Words behind a number that counts.
const BEHIND_COUNTS: &[&str] = &[
    "of",
    "attempt",
    "attempts",
    "tries",
    "retries",
    "time",
    "times",
    "turns",
    "steps",
    "rounds",
    "calls",
    "tokens",
    "chars",
    "characters",
    "bytes",
    "errors",
    "warnings",
    "failures",
    "tests",
    "left",
    "remaining",
    "more",
    "percent",
];

/// Digits of a number that is a time stamp or an amount.
const LONG: usize = 6;

/// Hexadecimal digits of an id, which is left out as a number is, and the most bytes of one.
const ID: usize = 8;
const LONGEST_ID: usize = 64;

/// The numbers that a digest leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Every number.
    All,
    /// Those that count something, and times.
    Counts,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'t> {
    /// A number; empty for a word of time beside one.
    Number(&'t str),
    Word(&'t str),
    /// White space, or the characters within numbers and times.
    Gap(&'t str),
    Other(&'t str),
}

/// Returns the digest of a text without its times, and without these numbers.
pub(super) fn digest_text(text: &str, left_out: Numbers) -> Digest {
    if !text.contains(char::is_numeric) {
        // Nothing is left out of it but the width of its spaces.
        let words = text.split_whitespace().map(|word| Digest::from_bytes(word.as_bytes()));
        return words.fold(Digest::EMPTY, Digest::followed_by);
    }
    let mut pieces = split_pieces(text);
    count_time_words(pieces.iter_mut());
    count_time_words(pieces.iter_mut().rev());
    if left_out == Numbers::Counts {
        keep_other_numbers(&mut pieces);
    }
    let mut kept = String::with_capacity(text.len());
    let (mut gap, mut number) = ("", false);
    for piece in pieces {
        match piece {
            Piece::Gap(between) if between.trim().is_empty() => {
                gap = if gap.is_empty() { " " } else { gap };
            }
            Piece::Gap(between) => {
                if !number {
                    kept.push_str(gap);
                }
                gap = between;
            }
            Piece::Number(_) if number => gap = "",
            Piece::Number(_) => {
                kept.push_str(gap);
                kept.push('#');
                (gap, number) = ("", true);
            }
            Piece::Word(word) | Piece::Other(word) => {
                kept.push_str(gap);
                kept.push_str(word);
                (gap, number) = ("", false);
            }
        }
    }
    Digest::from_bytes(kept.trim().as_bytes())
}

/// Turns each time word behind a number into a number, across gaps.
fn count_time_words<'p, 't: 'p>(pieces: impl Iterator<Item = &'p mut Piece<'t>>) {
    let mut beside = false;
    for piece in pieces {
        match piece {
            Piece::Word(word) if beside && is_time_word(word) => *piece = Piece::Number(""),
            Piece::Number(_) => beside = true,
            Piece::Gap(_) => {}
            Piece::Word(_) | Piece::Other(_) => beside = false,
        }
    }
}

/// Turns each number that neither counts nor tells the time into a word. Digits with a comma or a
/// point between them are one number.
fn keep_other_numbers(pieces: &mut [Piece<'_>]) {
    let mut at = 0;
    while at < pieces.len() {
        let mut end = at + 1;
        while let Some([Piece::Number(_), Piece::Gap("," | "."), Piece::Number(_)]) =
            pieces.get(end - 1..end + 2)
        {
            end += 2;
        }
        if is_other_number(pieces, at, end) {
            for piece in pieces.iter_mut().take(end).skip(at) {
                if let Piece::Number(number) = *piece {
                    *piece = Piece::Word(number);
                }
            }
        }
        at = end;
    }
}

/// Returns true for a number, from `at` to `end`, that neither counts nor tells the time.
fn is_other_number(pieces: &[Piece<'_>], at: usize, end: usize) -> bool {
    let Some(Piece::Number(number)) = pieces.get(at) else { return false };
    let (before, behind) = (pieces.get(..at).unwrap_or_default(), pieces.get(end..));
    let behind = behind.unwrap_or_default();
    let is_gap = |piece: &&Piece<'_>| matches!(piece, Piece::Gap(_));
    let previous = before.iter().rev().find(|piece| !is_gap(piece));
    let next = behind.iter().find(|piece| !is_gap(piece));
    let within = |one: Option<&Piece<'_>>, other: Option<&Piece<'_>>| {
        matches!(one, Some(Piece::Gap(":" | "-" | "/")))
            && matches!(other, Some(Piece::Number(_) | Piece::Word(_)))
    };
    let told = within(before.last(), previous.filter(|piece| is_digits(piece)))
        || within(behind.first(), next.filter(|piece| is_digits(piece)));
    let counts = number.len() >= LONG
        || is_counted(previous, &["(", "[", "#"], BEFORE_COUNTS)
        || is_counted(next, &[")", "]", "%"], BEHIND_COUNTS);
    !(number.is_empty() || told || counts)
}

/// Returns true for a number, also for one that was kept.
fn is_digits(piece: &Piece<'_>) -> bool {
    match piece {
        Piece::Number(_) => true,
        Piece::Word(word) => word.starts_with(char::is_numeric),
        Piece::Gap(_) | Piece::Other(_) => false,
    }
}

/// Returns true if what stands beside a number shows that it counts.
fn is_counted(beside: Option<&Piece<'_>>, signs: &[&str], words: &[&str]) -> bool {
    match beside {
        Some(Piece::Number(word)) => word.is_empty(),
        Some(Piece::Other(sign)) => signs.contains(sign),
        Some(Piece::Word(word)) => words.iter().any(|known| known.eq_ignore_ascii_case(word)),
        Some(Piece::Gap(_)) | None => false,
    }
}

fn split_pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(id) = find_id(rest) {
            pieces.push(Piece::Number(id));
            rest = rest.get(id.len()..).unwrap_or_default();
            continue;
        }
        let same: fn(char) -> bool = match first {
            c if c.is_numeric() => char::is_numeric,
            c if c.is_alphabetic() => char::is_alphabetic,
            c if c.is_whitespace() => char::is_whitespace,
            _ => |_| false,
        };
        let end = match first.is_ascii_alphabetic() {
            true => find_word_end(rest),
            false => rest.find(|c| !same(c)).unwrap_or(rest.len()).max(first.len_utf8()),
        };
        let (piece, behind) = rest.split_at(end);
        pieces.push(match first {
            c if c.is_numeric() => Piece::Number(piece),
            c if c.is_alphabetic() => Piece::Word(piece),
            c if c.is_whitespace() || matches!(c, ':' | '.' | ',' | '-' | '/' | '+') => {
                Piece::Gap(piece)
            }
            _ => Piece::Other(piece),
        });
        rest = behind;
    }
    pieces
}

/// Returns where the word ends with which a text begins. Most words are of ASCII.
fn find_word_end(text: &str) -> usize {
    let ascii = text.bytes().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let behind = text.get(ascii..).unwrap_or_default();
    match behind.starts_with(|c: char| !c.is_ascii()) {
        true => ascii + behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len()),
        false => ascii,
    }
}

/// Returns the id that a text begins with: hexadecimal digits, letters among them, and dashes.
fn find_id(text: &str) -> Option<&str> {
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if !text.as_bytes().first_chunk::<ID>()?.iter().all(|byte| is_of_id(*byte)) {
        return None;
    }
    let longest = text.len().min(LONGEST_ID);
    let end = text.bytes().take(longest).position(|byte| !is_of_id(byte)).unwrap_or(longest);
    let (id, behind) = text.split_at_checked(end)?;
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    let letters = id.bytes().filter(u8::is_ascii_alphabetic).count();
    let whole = !behind.starts_with(char::is_alphanumeric);
    (whole && digits > 0 && letters > 0 && digits + letters >= ID).then_some(id)
}

fn is_time_word(word: &str) -> bool {
    TIME_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{Numbers, digest_text};

    #[test]
    fn texts_are_alike_apart_from_numbers_and_times() {
        for (one, other) in [
            (
                "You made no tool call (attempt 3 of 10).",
                "You made no tool call (attempt 4 of 10).",
            ),
            ("[12:04:09] Go on.", "[7:15:59.003] Go on."),
            ("It is 2026-11-26T10:00:00Z. Go on", "It is 2026-11-27T03:21:45Z. Go on"),
            ("Thu, 26 Nov 2026 10:02 am: go on", "Fri, 4 Dec 2026 11:40 pm: go on"),
            ("Idle for 40 seconds. Go on", "Idle for 3 minutes. Go on"),
            ("  Go on.\n", "Go on."),
            ("Go  on\n\nnow", "Go on now"),
            ("1,024 of 2,048 tokens used", "64 of 2048 tokens used"),
            (
                "Rejected (trace 3f2a9c01d4). Go on",
                "Rejected (trace 9b81e07f-41d4-a716-446655440000). Go on",
            ),
        ] {
            for left_out in [Numbers::All, Numbers::Counts] {
                let alike = digest_text(one, left_out) == digest_text(other, left_out);
                assert!(alike, "{one:?} and {other:?}, {left_out:?}");
            }
        }
    }

    #[test]
    fn what_somebody_asks_stays_different() {
        for (one, other) in [
            ("What opens on Monday?", "What opens on Tuesday?"),
            ("Read a.txt", "Read b.txt"),
            ("Go on", "Go on please"),
            ("May I?", "June I?"),
            ("2 + 3", "2 * 3"),
            ("Read deadbeef.txt", "Read cafebabe.txt"),
        ] {
            for left_out in [Numbers::All, Numbers::Counts] {
                let alike = digest_text(one, left_out) == digest_text(other, left_out);
                assert!(!alike, "{one:?} and {other:?}, {left_out:?}");
            }
        }
    }

    #[test]
    fn a_number_may_be_what_is_asked() {
        for (one, other) in [
            ("What does note 3 say?", "What does note 4 say?"),
            ("What is 17 + 4?", "What is 3 + 38?"),
            ("Read chapter 2", "Read chapter 12"),
        ] {
            assert_eq!(digest_text(one, Numbers::All), digest_text(other, Numbers::All), "{one}");
            assert_ne!(
                digest_text(one, Numbers::Counts),
                digest_text(other, Numbers::Counts),
                "{one}"
            );
        }
    }
}
