//! Checks of JSON objects for parsers that are stricter than this crate.

use std::fmt;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::MAX_DEPTH;

/// Returns true if `text` is a JSON object for the strictest parser. Tool arguments are parsed
/// again, and a history that goes back is parsed by the API, so this crate's own leniency is not
/// enough. An object nested deeper than [`MAX_DEPTH`] is rejected.
pub(crate) fn is_strict_object(text: &str) -> bool {
    nesting_depth(text) <= MAX_DEPTH && serde_json::from_str::<StrictObject>(text).is_ok()
}

/// Returns the nesting depth of objects and arrays in a JSON text. Does not check that the text is
/// JSON.
#[must_use]
pub fn nesting_depth(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut open, mut deepest) = (0, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            b'"' => at = find_closing_quote(bytes, at + 1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Finds the end of a string from a byte inside it: its closing quote, or the end of the text.
fn find_closing_quote(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// An object that is read like a [`serde_json::Value`] but not stored.
struct StrictObject;

impl<'de> Deserialize<'de> for StrictObject {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(StrictValue).map(|()| Self)
    }
}

/// Any value, read to its end: every string is unescaped and every number has to fit.
struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key_seed(Self)?.is_some() {
            members.next_value_seed(Self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The strictness of a parse that stores what it reads.
    fn is_kept(text: &str) -> bool {
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
    }

    #[test]
    fn an_object_is_read_as_strictly_as_if_it_were_kept() {
        let deep =
            |levels: usize| ["{\"a\":", &"[".repeat(levels), &"]".repeat(levels), "}"].concat();
        for text in [
            "{}",
            " {\"a\": [1, -2.5e3, true, null, {\"b\": \"\\ud83d\\ude00\"}]} ",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": 1e999}",
            "{\"a\": 123456789012345678901234567890}",
            "{\"a\": \"\\ud83d\"}",
            "{\"\\ud83d\": 1}",
            "{\"a\": \"\\x\"}",
            "{\"a\": 01}",
            "{\"a\": 1} x",
            "{\"a\": 1,}",
            "{1: 2}",
            "[]",
            "null",
            "",
            &deep(MAX_DEPTH - 1),
        ] {
            assert_eq!(is_strict_object(text), is_kept(text), "{text}");
        }
        for levels in [MAX_DEPTH, 126, 127, 128, 100_000] {
            assert!(!is_strict_object(&deep(levels)), "{levels}");
            assert_eq!(nesting_depth(&deep(levels)), levels + 1);
        }
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        for (text, levels) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"[[[":"{{{"}"#, 1),
            (r#"{"a\"[[":[],"b\\":[[]]}"#, 3),
            (r#"["\\","[",{"a":"\""}]"#, 2),
            (r#"[{},[{}]]"#, 3),
            (r#"["open"#, 1),
        ] {
            assert_eq!(nesting_depth(text), levels, "{text}");
        }
    }

    proptest! {
        #[test]
        fn of_any_text_it_says_the_same(text in "[ {}\\[\\]:,\"\\\\a1eud.+-]{0,24}") {
            for text in [text.clone(), format!("{{\"a\":{text}}}")] {
                prop_assert_eq!(is_strict_object(&text), is_kept(&text), "{}", text);
            }
        }
    }
}
