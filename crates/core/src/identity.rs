//! The identity of calls and results: a digest that ignores the form of JSON (key order, spacing)
//! and the members that do not count.
//!
//! JSON is read here only to compare it. This never decides whether a call may run; that takes
//! complete, checked JSON and is not done here.

mod volatile;

use crate::digest::Digest;

pub use volatile::digest_failure;

/// The greatest depth of JSON that is compared as JSON; deeper JSON is compared as plain text.
const MAX_DEPTH: u8 = 64;

/// Returns the digest of a text, read as JSON if it is JSON. Members for which `drop` returns true
/// are ignored at every depth.
#[must_use]
pub fn digest_text(text: &str, drop: &dyn Fn(&str) -> bool) -> Digest {
    digest_text_with(text, drop, &mut |_, _| {})
}

/// Returns the digest as [`digest_text`] does, and calls `seen` with each top-level member of an
/// object: its key and its value, both as written ([`strip_quotes`] reads a value as [`find_member`] does).
/// For a text that proves not to be JSON, `seen` may have been called for some of it.
#[must_use]
pub fn digest_text_with<'a>(
    text: &'a str,
    drop: &dyn Fn(&str) -> bool,
    seen: &mut dyn FnMut(&'a str, &'a str),
) -> Digest {
    let json = looks_like_json(text).then(|| digest_json(text, drop, seen)).flatten();
    json.unwrap_or_else(|| Digest::from_bytes(text.as_bytes()))
}

/// Returns the digest of the result of a call that failed: as [`digest_text`] does, with each text
/// in it as [`digest_failure`] reads it.
#[must_use]
pub fn digest_failed_result(text: &str, drop: &dyn Fn(&str) -> bool) -> Digest {
    let mut walk = JsonWalker { fails: true, ..JsonWalker::new(text) };
    let json = looks_like_json(text).then(|| {
        walk.skip_space();
        let digest = walk.digest_value(drop, MAX_DEPTH)?;
        walk.skip_space();
        (walk.at == text.len()).then_some(digest)
    });
    json.flatten().unwrap_or_else(|| digest_failure(text))
}

/// Returns true if a text may be a JSON object or list, and is worth unescaping and reading.
#[must_use]
pub fn looks_like_json(text: &str) -> bool {
    matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['))
}

/// Returns the digest of a JSON text; `None` if it is not valid enough to compare.
fn digest_json<'a>(
    text: &'a str,
    drop: &dyn Fn(&str) -> bool,
    seen: &mut dyn FnMut(&'a str, &'a str),
) -> Option<Digest> {
    let mut walk = JsonWalker::new(text);
    walk.skip_space();
    let digest = match walk.peek()? {
        b'{' => walk.digest_object(drop, MAX_DEPTH - 1, seen)?,
        _ => walk.digest_value(drop, MAX_DEPTH)?,
    };
    walk.skip_space();
    (walk.at == text.len()).then_some(digest)
}

/// Returns the raw text of a top-level member of a JSON object: a string without its quotes
/// (escapes as they stand), anything else as written.
#[must_use]
pub fn find_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut walk = JsonWalker::new(object);
    let mut found = None;
    walk.visit_members(&mut |walk, key| {
        walk.skip_space();
        let start = walk.at;
        walk.skip_value()?;
        if key == name {
            found = Some(strip_quotes(object.get(start..walk.at)?));
        }
        Some(())
    });
    found
}

/// Returns a string without its quotes, and anything else without the space around it.
#[must_use]
pub fn strip_quotes(raw: &str) -> &str {
    let raw = raw.trim();
    raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw)
}

/// Returns the digest of some top-level members of an object, in the order of `names`.
#[must_use]
pub fn digest_members<'n>(object: &str, names: impl Iterator<Item = &'n str>) -> Digest {
    names.fold(Digest::EMPTY, |sum, name| {
        let raw = find_member(object, name);
        let value = raw.map_or(Digest::EMPTY, |raw| digest_text(raw, &|_| false));
        sum.followed_by(Digest::from_bytes(name.as_bytes())).followed_by(value)
    })
}

/// Returns the digest of a plain text without its `volatile` lines within `edge` bytes of its ends.
/// Returns `None` if there are no such lines, or no others: then the whole text counts.
#[must_use]
pub fn digest_lines(text: &str, edge: usize, volatile: &dyn Fn(&str) -> bool) -> Option<Digest> {
    let (mut at, mut left_out, mut kept) = (0, false, Digest::from_bytes(b"lines"));
    // Adjoining lines that are kept are digested together, as one piece.
    let (mut piece, mut says) = (0, false);
    while at < text.len() {
        if at > edge && at + edge < text.len() {
            let next = text.ceil_char_boundary(text.len() - edge);
            says = true;
            at = text.get(next..)?.find('\n').map_or(text.len(), |end| next + end + 1);
            continue;
        }
        let end = text.get(at..)?.find('\n').map_or(text.len(), |end| at + end + 1);
        let line = text.get(at..end)?;
        if volatile(line) {
            kept = kept.followed_by(Digest::from_bytes(text.get(piece..at)?.as_bytes()));
            (piece, left_out) = (end, true);
        } else {
            says |= !line.trim().is_empty();
        }
        at = end;
    }
    let rest = Digest::from_bytes(text.get(piece..)?.as_bytes());
    (left_out && says).then(|| kept.followed_by(rest))
}

struct JsonWalker<'a> {
    text: &'a str,
    at: usize,
    /// True if texts are compared as those of failures.
    fails: bool,
}

impl<'a> JsonWalker<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, fails: false }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take_byte(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn digest_value(&mut self, drop: &dyn Fn(&str) -> bool, depth: u8) -> Option<Digest> {
        self.skip_space();
        match self.peek()? {
            b'{' => self.digest_object(drop, depth.checked_sub(1)?, &mut |_, _| {}),
            b'[' => self.digest_list(drop, depth.checked_sub(1)?),
            // A string is not digested like a literal: `"1"` is not `1`.
            b'"' => {
                let raw = self.read_string()?;
                let digest = if self.fails {
                    digest_failure(raw)
                } else {
                    Digest::from_bytes(raw.as_bytes())
                };
                Some(digest.followed_by(Digest::EMPTY))
            }
            _ => self.read_literal().map(|word| Digest::from_bytes(word.as_bytes())),
        }
    }

    /// Skips a value that is not compared.
    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.read_string().map(|_| ()),
            b'{' | b'[' => self.digest_value(&|_| false, MAX_DEPTH).map(|_| ()),
            _ => self.read_literal().map(|_| ()),
        }
    }

    /// Returns the digest of an object. Members are summed, so that their order does not matter.
    fn digest_object(
        &mut self,
        drop: &dyn Fn(&str) -> bool,
        depth: u8,
        seen: &mut dyn FnMut(&'a str, &'a str),
    ) -> Option<Digest> {
        let mut sum = Digest::from_bytes(b"{}");
        self.visit_members(&mut |walk, key| {
            let start = walk.at;
            let value = walk.digest_value(drop, depth)?;
            seen(key, walk.text.get(start..walk.at)?);
            if !drop(key) {
                sum = sum.combined_with(Digest::from_bytes(key.as_bytes()).followed_by(value));
            }
            Some(())
        })?;
        Some(sum)
    }

    fn visit_members(
        &mut self,
        each: &mut dyn FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.skip_space();
        self.take_byte(b'{')?;
        self.skip_space();
        if self.take_byte(b'}').is_some() {
            return Some(());
        }
        loop {
            self.skip_space();
            let key = self.read_string()?;
            self.skip_space();
            self.take_byte(b':')?;
            each(self, key)?;
            self.skip_space();
            if self.take_byte(b',').is_none() {
                return self.take_byte(b'}');
            }
        }
    }

    fn digest_list(&mut self, drop: &dyn Fn(&str) -> bool, depth: u8) -> Option<Digest> {
        let mut sum = Digest::from_bytes(b"[]");
        self.take_byte(b'[')?;
        self.skip_space();
        if self.take_byte(b']').is_some() {
            return Some(sum);
        }
        loop {
            sum = sum.followed_by(self.digest_value(drop, depth)?);
            self.skip_space();
            if self.take_byte(b',').is_none() {
                return self.take_byte(b']').map(|()| sum);
            }
        }
    }

    /// Reads a string and returns the text between its quotes.
    fn read_string(&mut self) -> Option<&'a str> {
        self.take_byte(b'"')?;
        let start = self.at;
        loop {
            self.at += count_plain_bytes(self.text.as_bytes().get(self.at..)?);
            match self.peek()? {
                b'"' => {
                    let raw = self.text.get(start..self.at);
                    self.at += 1;
                    return raw;
                }
                _ => self.at += 2,
            }
        }
    }

    /// Reads a number, `true`, `false` or `null`, as written.
    fn read_literal(&mut self) -> Option<&'a str> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'+' | b'.') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then(|| self.text.get(start..self.at))?
    }
}

/// Counts the bytes before the first `"` or `\`, a machine word at a time.
fn count_plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    // The lowest set bit marks the first byte that is zero.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if hits != 0 {
            return n * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        digest_text(a, &|key| key == "time") == digest_text(b, &|key| key == "time")
    }

    #[test]
    fn spacing_order_and_dropped_members_do_not_count() {
        assert!(same(r#"{"a":1,"b":[1,2]}"#, r#"{ "b": [1, 2], "a": 1 }"#));
        assert!(same(r#"{"a":1,"time":"now"}"#, r#"{"a":1}"#));
        assert!(same(r#"{"a":{"time":2,"x":"y"}}"#, r#"{"a":{"x":"y","time":3}}"#));
    }

    #[test]
    fn everything_else_counts() {
        for (a, b) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            ("[1,2]", "[2,1]"),
            ("[[1],2]", "[1,[2]]"),
            ("{}", "[]"),
            (r#"{"a":{}}"#, r#"{"a":[]}"#),
            ("text", "text "),
            (r#"{"a":1"#, r#"{"a":2"#),
        ] {
            assert!(!same(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn volatile_lines_are_left_out_near_the_ends_only() {
        let of = |text: &str| digest_lines(text, 40, &|line| line.starts_with("Time:"));
        let long = "x\n".repeat(100);
        assert_eq!(of("Time: 1\nfound"), of("Time: 22\nfound"));
        assert_eq!(of("found\nTime: 1\n"), of("found\nTime: 22\n"));
        assert_eq!(
            of(&["Time: 1\n", &long, "Time: 2"].concat()),
            of(&["Time: 3\n", &long, "Time: 456"].concat()),
        );
        assert_ne!(of("Time: 1\nfound"), of("Time: 1\nfounds"));
        assert_ne!(of("Time: 1\na\nb"), of("a\nTime: 1\nb"));
        assert_ne!(
            of(&["Time: 1\n", &long, "Time: 2\n", &long].concat()),
            of(&["Time: 1\n", &long, "Time: 3\n", &long].concat()),
        );
        // What says nothing else says the time; what has no such line is its bytes.
        for text in ["Time: 1", "\nTime: 1\n", "found", "", &long, "über\n".repeat(30).as_str()] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn members_are_found_at_the_top_only() {
        let object = r#"{"x":{"command":"no"},"command":"ls \"a\"","n": 12 }"#;
        assert_eq!(find_member(object, "command"), Some(r#"ls \"a\""#));
        assert_eq!(find_member(object, "n"), Some("12"));
        assert_eq!(find_member(object, "no"), None);
        assert_eq!(find_member("not json", "no"), None);
    }

    #[test]
    fn hostile_texts_are_read_as_text() {
        let deep = "[".repeat(100_000);
        assert_eq!(digest_json(&deep, &|_| false, &mut |_, _| {}), None);
        for text in ["{", "[1,", "{\"a\"", "\"\\", "{\"a\":}", "[]]", ""] {
            assert_eq!(digest_json(text, &|_| false, &mut |_, _| {}), None, "{text}");
        }
    }
}
