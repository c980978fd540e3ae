//! The members of a JSON object, found in one pass, for objects of which many members are needed.

use std::borrow::Cow;

use softland_session::wire::json::{Cursor, Error, Kind, Str};

/// The members of an object: keys, and values as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'a> {
    list: Vec<(Str<'a>, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Reads a text that is one object.
    pub(crate) fn from_json(text: &'a str) -> Result<Self, String> {
        Self::parse_object(text).map_err(|error| error.to_string())
    }

    fn parse_object(text: &'a str) -> Result<Self, Error> {
        let mut cursor = Cursor::new(text);
        let mut list = Vec::new();
        cursor.read_members(|cursor, member| {
            let value = cursor.skip_value()?.slice_of(text);
            list.push((member.key, value));
            Ok::<_, Error>(())
        })?;
        cursor.expect_end()?;
        Ok(Self { list })
    }

    /// Returns a member's value, as written.
    pub(crate) fn raw(&self, key: &str) -> Option<&'a str> {
        self.list.iter().rev().find(|(name, _)| name.eq_str(key)).map(|(_, value)| *value)
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Returns a member that is a string.
    pub(crate) fn str(&self, key: &str) -> Option<Str<'a>> {
        decode_string(self.raw(key)?)
    }

    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.str(key).map(|text| text.unescape())
    }

    /// Returns a member that is a string, owned.
    pub(crate) fn owned_text(&self, key: &str) -> Option<String> {
        self.text(key).map(Cow::into_owned)
    }

    /// Returns a member that is an id: a string, or a number as some recordings write it.
    pub(crate) fn id(&self, key: &str) -> Option<String> {
        decode_id(self.raw(key)?)
    }

    pub(crate) fn uint(&self, key: &str) -> Option<u64> {
        Cursor::new(self.raw(key)?).read_uint_or_skip().ok().flatten()
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.raw(key) == Some("true")
    }

    /// Returns a member that is an object.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        Self::parse_object(self.raw(key)?).ok()
    }
}

/// Decodes a value that is a string.
pub(crate) fn decode_string(raw: &str) -> Option<Str<'_>> {
    raw.starts_with('"')
        .then(|| Cursor::new(raw).read_string().ok().map(|(text, _)| text))
        .flatten()
}

/// Decodes a value that is an id.
pub(crate) fn decode_id(raw: &str) -> Option<String> {
    match raw.as_bytes().first()? {
        b'"' => decode_string(raw).map(|text| text.unescape().into_owned()),
        b'-' | b'0'..=b'9' => Some(raw.to_owned()),
        _ => None,
    }
}

/// Returns the elements of an array, as written; none for any other value.
pub(crate) fn array_elements(raw: &str) -> Vec<&str> {
    let mut list = Vec::new();
    let mut cursor = Cursor::new(raw);
    if cursor.peek() == Ok(Kind::Array) {
        let _ = cursor.read_elements(|cursor| {
            list.push(cursor.skip_value()?.slice_of(raw));
            Ok::<_, Error>(())
        });
    }
    list
}

/// Calls `take` with a text, as JSON would write it as a string.
pub(crate) fn with_str<R>(text: &str, take: impl FnOnce(Str<'_>) -> R) -> R {
    if let Some(plain) = Str::from_plain(text) {
        return take(plain);
    }
    let mut quoted = Vec::with_capacity(text.len() + 2);
    softland_session::wire::json::write_str(&mut quoted, text);
    let quoted = String::from_utf8(quoted).unwrap_or_default();
    take(Cursor::new(&quoted).read_string().map(|(text, _)| text).unwrap_or_default())
}
