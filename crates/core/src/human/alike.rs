//! A digest for texts that are the same apart from numbers and times: "attempt 3, 12:04:09" and
//! "attempt 4, 12:04:31".
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

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'t> {
    Number,
    /// A word that stands for a time if a number is beside it.
    TimeWord(&'t str),
    Word(&'t str),
    /// White space, or the characters within numbers and times.
    Gap(&'t str),
    Other(&'t str),
}

/// Returns the digest of a text without its numbers and times.
pub(super) fn digest_text(text: &str) -> Digest {
    let mut pieces = split_pieces(text);
    count_time_words(pieces.iter_mut());
    count_time_words(pieces.iter_mut().rev());
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
            Piece::Number if number => gap = "",
            Piece::Number => {
                kept.push_str(gap);
                kept.push('#');
                (gap, number) = ("", true);
            }
            Piece::TimeWord(word) | Piece::Word(word) | Piece::Other(word) => {
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
            Piece::TimeWord(_) if beside => *piece = Piece::Number,
            Piece::Number => beside = true,
            Piece::Gap(_) => {}
            Piece::TimeWord(_) | Piece::Word(_) | Piece::Other(_) => beside = false,
        }
    }
}

fn split_pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same: fn(char) -> bool = match first {
            c if c.is_numeric() => char::is_numeric,
            c if c.is_alphabetic() => char::is_alphabetic,
            c if c.is_whitespace() => char::is_whitespace,
            _ => |_| false,
        };
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (piece, behind) = rest.split_at(end);
        pieces.push(match first {
            c if c.is_numeric() => Piece::Number,
            c if c.is_alphabetic() && is_time_word(piece) => Piece::TimeWord(piece),
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

fn is_time_word(word: &str) -> bool {
    TIME_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::digest_text;

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
        ] {
            assert_eq!(digest_text(one), digest_text(other), "{one:?} and {other:?}");
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
        ] {
            assert_ne!(digest_text(one), digest_text(other), "{one:?} and {other:?}");
        }
    }
}
