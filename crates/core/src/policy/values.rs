//! The values of policy keys: as front ends give them, and read for their keys.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use super::words::{LoopKey, LoopKind, Share};
use crate::money::NanoUsd;
use crate::time::Millis;

/// The allowed values of a count.
pub(super) const COUNT: &str = "a whole number, 0 or more";
/// The allowed values of one member of `loop_keys`.
const LOOP_KEY: &str = "a list of argument names, or one of reads, writes, polls and exempt";

/// A value as any front end reads it, before a key interprets it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the usual kinds of a data format")]
pub enum PolicyValue {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl PolicyValue {
    /// Returns a whole number of 0 or more, quoted or not; `None` for anything else.
    #[must_use]
    pub fn as_whole(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        }
    }
}

impl fmt::Display for PolicyValue {
    /// Writes the value as a person would, shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) if text.chars().count() > 40 => {
                write!(f, "\"{}…\"", text.chars().take(40).collect::<String>())
            }
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a table"),
        }
    }
}

/// The reason why a key was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No such key.
    Unknown {
        /// The key as given.
        key: String,
        /// The nearest known key, if one is near.
        nearest: Option<&'static str>,
    },
    /// The value is not allowed there. For a member (`tool_limits.grep`), `allowed` describes the
    /// member.
    Value {
        /// The key as given, `tool_limits.grep` for a member.
        key: String,
        /// The allowed values.
        allowed: &'static str,
        /// The value as given.
        found: String,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, nearest: Some(near) } => {
                write!(f, "unknown key `{key}`; did you mean `{near}`?")
            }
            Self::Unknown { key, nearest: None } => write!(f, "unknown key `{key}`"),
            Self::Value { key, allowed, found } => {
                write!(f, "`{key}` must be {allowed}; found {found}")
            }
        }
    }
}

/// A reader of one value for its key.
pub(super) struct ValueReader<'a> {
    pub(super) key: &'a str,
    /// The allowed values, for the error.
    pub(super) allowed: &'static str,
    pub(super) value: &'a PolicyValue,
}

impl ValueReader<'_> {
    fn value_error(&self) -> KeyError {
        KeyError::Value {
            key: self.key.to_owned(),
            allowed: self.allowed,
            found: self.value.to_string(),
        }
    }

    /// Reads a value that may be nothing, which is no limit.
    pub(super) fn read_limit<T>(
        &self,
        read: fn(&Self) -> Result<T, KeyError>,
    ) -> Result<Option<T>, KeyError> {
        if *self.value == PolicyValue::Null { Ok(None) } else { read(self).map(Some) }
    }

    pub(super) fn read_count(&self) -> Result<u64, KeyError> {
        self.value.as_whole().ok_or_else(|| self.value_error())
    }

    pub(super) fn read_money(&self) -> Result<NanoUsd, KeyError> {
        match self.value {
            PolicyValue::Int(number) => number.to_string().parse().ok(),
            PolicyValue::Float(number) => NanoUsd::from_dollars(*number),
            PolicyValue::Text(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    pub(super) fn read_time(&self) -> Result<Millis, KeyError> {
        match self.value {
            PolicyValue::Text(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    pub(super) fn read_share(&self) -> Result<Share, KeyError> {
        match self.value {
            PolicyValue::Int(number) => Some(*number as f64),
            PolicyValue::Float(number) => Some(*number),
            PolicyValue::Text(text) => text.parse().ok(),
            _ => None,
        }
        .and_then(|share| Share::try_from(share).ok())
        .ok_or_else(|| self.value_error())
    }

    /// Reads names, each once: a list, or a text with commas between them.
    pub(super) fn read_names(&self) -> Result<Vec<String>, KeyError> {
        let given: Option<Vec<&str>> = match self.value {
            PolicyValue::Null => return Ok(Vec::new()),
            PolicyValue::Text(text) => Some(text.split(',').collect()),
            PolicyValue::List(items) => items
                .iter()
                .map(|item| match item {
                    PolicyValue::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        let given = given.filter(|names| !names.is_empty()).ok_or_else(|| self.value_error())?;
        let mut names: Vec<String> = Vec::new();
        for name in given.into_iter().map(str::trim) {
            if name.is_empty() {
                return Err(self.value_error());
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    pub(super) fn read_word<T>(&self, read: fn(&str) -> Option<T>) -> Result<T, KeyError> {
        match self.value {
            PolicyValue::Text(text) => read(text.trim()),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    fn read_loop_key(&self) -> Result<LoopKey, KeyError> {
        match self.value {
            PolicyValue::Text(text) => LoopKind::from_word(text).map(LoopKey::Kind),
            PolicyValue::List(items) => items
                .iter()
                .map(|item| match item {
                    PolicyValue::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .map(LoopKey::Arguments),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    /// Reads a number for each tool.
    pub(super) fn read_tool_limits(&self) -> Result<BTreeMap<String, u64>, KeyError> {
        self.read_members(COUNT, |member| member.read_count())
    }

    /// Reads what identifies a call, or the kind, of each tool.
    pub(super) fn read_loop_keys(&self) -> Result<BTreeMap<String, LoopKey>, KeyError> {
        self.read_members(LOOP_KEY, |member| member.read_loop_key())
    }

    /// Reads a table, or the text `a=1,b=2` that a flag gives. `allowed` describes the values of a
    /// member.
    fn read_members<T>(
        &self,
        allowed: &'static str,
        read: fn(&ValueReader<'_>) -> Result<T, KeyError>,
    ) -> Result<BTreeMap<String, T>, KeyError> {
        let pairs = match self.value {
            PolicyValue::Map(pairs) => pairs.clone(),
            PolicyValue::Null => Vec::new(),
            PolicyValue::Text(text) => parse_pairs(text).ok_or_else(|| self.value_error())?,
            _ => return Err(self.value_error()),
        };
        let mut members = BTreeMap::new();
        for (name, value) in pairs {
            let member = ValueReader { key: self.key, allowed, value: &value };
            let read = read(&member).map_err(|_| KeyError::Value {
                key: format!("{}.{name}", self.key),
                allowed,
                found: value.to_string(),
            })?;
            members.insert(name, read);
        }
        Ok(members)
    }
}

/// Parses `grep=5,read_file=9`. A value with `+` in it is a list (`Bash=command+cwd`).
fn parse_pairs(text: &str) -> Option<Vec<(String, PolicyValue)>> {
    text.split(',')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let value = value.trim();
            let value = if value.contains('+') {
                PolicyValue::List(
                    value.split('+').map(|item| PolicyValue::Text(item.to_owned())).collect(),
                )
            } else {
                PolicyValue::Text(value.to_owned())
            };
            Some((name.trim().to_owned(), value))
        })
        .collect()
}
