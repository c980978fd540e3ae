//! What makes two calls, or two results, the same: a digest that ignores how JSON is written
//! (key order, spacing) and the members that do not count.
//!
//! This reads JSON only to compare it. It never decides whether a call may run; that takes
//! complete, checked JSON and is not done here.

use crate::digest::Digest;

/// Deeper JSON is compared as plain text.
const MAX_DEPTH: u8 = 64;

/// The digest of a text, read as JSON where it is JSON; members that `drop` names are ignored at
/// every depth.
#[must_use]
pub fn of_text(text: &str, drop: &dyn Fn(&str) -> bool) -> Digest {
    of_text_with(text, drop, &mut |_, _| {})
}

/// As [`of_text`], and hands each top-level member of an object to `seen` on the way: its key and
/// its value, both as written ([`unquoted`] reads a value as [`member`] does). A text that turns out not to be JSON may have been
/// handed over in part.
#[must_use]
pub fn of_text_with<'a>(
    text: &'a str,
    drop: &dyn Fn(&str) -> bool,
    seen: &mut dyn FnMut(&'a str, &'a str),
) -> Digest {
    let json = looks_like_json(text).then(|| json_with(text, drop, seen)).flatten();
    json.unwrap_or_else(|| Digest::of(text.as_bytes()))
}

/// Whether a text may be a JSON object or list: worth unescaping and reading.
#[must_use]
pub fn looks_like_json(text: &str) -> bool {
    matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['))
}

/// The digest of a JSON text, or nothing where it is not valid enough to compare.
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

/// The raw text of a top-level member of a JSON object: a string without its quotes (escapes as
/// they stand), anything else as written.
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

/// A string without its quotes, anything else without the space around it.
#[must_use]
pub fn unquoted(raw: &str) -> &str {
    let raw = raw.trim();
    raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw)
}

/// The digest of some top-level members of an object, in the order named.
#[must_use]
pub fn of_members<'n>(object: &str, names: impl Iterator<Item = &'n str>) -> Digest {
    names.fold(Digest::EMPTY, |sum, name| {
        let raw = member(object, name);
        let value = raw.map_or(Digest::EMPTY, |raw| of_text(raw, &|_| false));
        sum.then(Digest::of(name.as_bytes())).then(value)
    })
}

/// The digest of a plain text without the lines that `volatile` names within so many bytes of its
/// ends; nothing where there are none, or nothing else: then the whole text is what it says.
#[must_use]
pub fn of_lines(text: &str, edge: usize, volatile: &dyn Fn(&str) -> bool) -> Option<Digest> {
    let (mut at, mut left_out, mut kept) = (0, false, Digest::of(b"lines"));
    // Lines that are kept are taken together, as one piece.
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
            // Not the digest of a word: `"1"` is not `1`.
            b'"' => self.string().map(|raw| Digest::of(raw.as_bytes()).then(Digest::EMPTY)),
            _ => self.word().map(|word| Digest::of(word.as_bytes())),
        }
    }

    /// A value that nobody compares.
    fn pass(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => self.value(&|_| false, MAX_DEPTH).map(|_| ()),
            _ => self.word().map(|_| ()),
        }
    }

    /// Members are summed, so that their order does not matter.
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

    /// What stands between the quotes.
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

    /// A number, `true`, `false` or `null`, as written.
    fn word(&mut self) -> Option<&'a str> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'+' | b'.') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then(|| self.text.get(start..self.at))?
    }
}

/// How many bytes come before the first `"` or `\`: a machine word at a time.
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
