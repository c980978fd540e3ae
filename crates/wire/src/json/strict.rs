//! Whether others will read a JSON object, who are stricter than this crate.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Whether `text` is a JSON object to the strictest reader: what a tool is run with is parsed
/// again, and what goes back is parsed by the API, so this crate's own leniency will not do.
pub(crate) fn is_strict_object(text: &str) -> bool {
    serde_json::from_str::<StrictObject>(text).is_ok()
}

/// An object that is read like a [`serde_json::Value`], and not kept.
struct StrictObject;

impl<'de> Deserialize<'de> for StrictObject {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(Strict).map(|()| Self)
    }
}

/// Any value, read to its end: every text is unescaped and every number has to fit.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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

    /// How strict it was when it kept what it read.
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
            &deep(100),
            &deep(126),
            &deep(127),
            &deep(128),
        ] {
            assert_eq!(is_strict_object(text), is_kept(text), "{text}");
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
