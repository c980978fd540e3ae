//! The identity of calls and results: a digest that ignores the form of JSON (key order, spacing)
//! and the members that do not count.
//!
//! JSON is read here only to compare it. This never decides whether a call may run; that takes
//! complete, checked JSON and is not done here.

use crate::digest::Digest;

/// The greatest depth of JSON that is compared as JSON; deeper JSON is compared as plain text.
const MAX_DEPTH: u8 = 64;

/// Returns the digest of a text, read as JSON if it is JSON. Members for which `drop` returns true
/// are ignored at every depth.
#[must_use]
pub fn of_text(text: &str, drop: &dyn Fn(&str) -> bool) -> Digest {
    of_text_with(text, drop, &mut |_, _| {})
}

/// Returns the digest as [`of_text`] does, and calls `seen` with each top-level member of an
/// object: its key and its value, both as written ([`unquoted`] reads a value as [`member`] does).
/// For a text that proves not to be JSON, `seen` may have been called for some of it.
#[must_use]
pub fn of_text_with<'a>(
    text: &'a str,
    drop: &dyn Fn(&str) -> bool,
    seen: &mut dyn FnMut(&'a str, &'a str),
) -> Digest {
    let json = looks_like_json(text).then(|| json_with(text, drop, seen)).flatten();
    json.unwrap_or_else(|| Digest::of(text.as_bytes()))
}

/// Returns true if a text may be a JSON object or list, and is worth unescaping and reading.
#[must_use]
pub fn looks_like_json(text: &str) -> bool {
    matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['))
}

/// Returns the digest of a JSON text; `None` if it is not valid enough to compare.
#[must_use]
pub fn of_json(text: &str, drop: &dyn Fn(&str) -> bool) -> Option<Digest> {
    json_with(text, drop, &mut |_, _| {})
}

fn json_with<'a>(
    text: &'a str,
    drop: &dyn Fn(&str) -> bool,
    seen: &mut dyn FnMut(&'a str, &'a str),
) -> Option<Digest> {
    let mut walk = Walk::new(text);
    walk.space();
    let digest = match walk.peek()? {
        b'{' => walk.object(drop, MAX_DEPTH - 1, seen)?,
        _ => walk.value(drop, MAX_DEPTH)?,
    };
    walk.space();
    (walk.at == text.len()).then_some(digest)
}

/// Returns the raw text of a top-level member of a JSON object: a string without its quotes
/// (escapes as they stand), anything else as written.
#[must_use]
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut walk = Walk::new(object);
    let mut found = None;
    walk.members(&mut |walk, key| {
        walk.space();
        let start = walk.at;
        walk.pass()?;
        if key == name {
            found = Some(unquoted(object.get(start..walk.at)?));
        }
        Some(())
    });
    found
}

/// Returns a string without its quotes, and anything else without the space around it.
#[must_use]
pub fn unquoted(raw: &str) -> &str {
    let raw = raw.trim();
    raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw)
}

/// Returns the digest of some top-level members of an object, in the order of `names`.
#[must_use]
pub fn of_members<'n>(object: &str, names: impl Iterator<Item = &'n str>) -> Digest {
    names.fold(Digest::EMPTY, |sum, name| {
        let raw = member(object, name);
        let value = raw.map_or(Digest::EMPTY, |raw| of_text(raw, &|_| false));
        sum.then(Digest::of(name.as_bytes())).then(value)
    })
}

/// Returns the digest of a plain text without its `volatile` lines within `edge` bytes of its ends.
/// Returns `None` if there are no such lines, or no others: then the whole text counts.
#[must_use]
pub fn of_lines(text: &str, edge: usize, volatile: &dyn Fn(&str) -> bool) -> Option<Digest> {
    let (mut at, mut left_out, mut kept) = (0, false, Digest::of(b"lines"));
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
            kept = kept.then(Digest::of(text.get(piece..at)?.as_bytes()));
            (piece, left_out) = (end, true);
        } else {
            says |= !line.trim().is_empty();
        }
        at = end;
    }
    let rest = Digest::of(text.get(piece..)?.as_bytes());
    (left_out && says).then(|| kept.then(rest))
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self, drop: &dyn Fn(&str) -> bool, depth: u8) -> Option<Digest> {
        self.space();
        match self.peek()? {
            b'{' => self.object(drop, depth.checked_sub(1)?, &mut |_, _| {}),
            b'[' => self.list(drop, depth.checked_sub(1)?),
            // A string is not digested like a literal: `"1"` is not `1`.
            b'"' => self.string().map(|raw| Digest::of(raw.as_bytes()).then(Digest::EMPTY)),
            _ => self.word().map(|word| Digest::of(word.as_bytes())),
        }
    }

    /// Skips a value that is not compared.
    fn pass(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => self.value(&|_| false, MAX_DEPTH).map(|_| ()),
            _ => self.word().map(|_| ()),
        }
    }

    /// Returns the digest of an object. Members are summed, so that their order does not matter.
    fn object(
        &mut self,
        drop: &dyn Fn(&str) -> bool,
        depth: u8,
        seen: &mut dyn FnMut(&'a str, &'a str),
    ) -> Option<Digest> {
        let mut sum = Digest::of(b"{}");
        self.members(&mut |walk, key| {
            let start = walk.at;
            let value = walk.value(drop, depth)?;
            seen(key, walk.text.get(start..walk.at)?);
            if !drop(key) {
                sum = sum.with(Digest::of(key.as_bytes()).then(value));
            }
            Some(())
        })?;
        Some(sum)
    }

    fn members(&mut self, each: &mut dyn FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.space();
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b':')?;
            each(self, key)?;
            self.space();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn list(&mut self, drop: &dyn Fn(&str) -> bool, depth: u8) -> Option<Digest> {
        let mut sum = Digest::of(b"[]");
        self.take(b'[')?;
        self.space();
        if self.take(b']').is_some() {
            return Some(sum);
        }
        loop {
            sum = sum.then(self.value(drop, depth)?);
            self.space();
            if self.take(b',').is_none() {
                return self.take(b']').map(|()| sum);
            }
        }
    }

    /// Reads a string and returns the text between its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            self.at += plain(self.text.as_bytes().get(self.at..)?);
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
    fn word(&mut self) -> Option<&'a str> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'+' | b'.') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then(|| self.text.get(start..self.at))?
    }
}

/// Counts the bytes before the first `"` or `\`, a machine word at a time.
fn plain(bytes: &[u8]) -> usize {
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
        of_text(a, &|key| key == "time") == of_text(b, &|key| key == "time")
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
        let of = |text: &str| of_lines(text, 40, &|line| line.starts_with("Time:"));
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
        assert_eq!(member(object, "command"), Some(r#"ls \"a\""#));
        assert_eq!(member(object, "n"), Some("12"));
        assert_eq!(member(object, "no"), None);
        assert_eq!(member("not json", "no"), None);
    }

    #[test]
    fn hostile_texts_are_read_as_text() {
        let deep = "[".repeat(100_000);
        assert_eq!(of_json(&deep, &|_| false), None);
        for text in ["{", "[1,", "{\"a\"", "\"\\", "{\"a\":}", "[]]", ""] {
            assert_eq!(of_json(text, &|_| false), None, "{text}");
        }
    }
}
