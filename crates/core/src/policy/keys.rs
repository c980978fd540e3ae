//! The keys of a policy: one list and one reader for front matter, configs and flags.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use super::{
    Batch, Countdown, Landing, LoopKey, LoopKind, Mode, OnLoop, OnStoreLoss, Policy, RunBoundary,
    Share,
};
use crate::money::NanoUsd;
use crate::nearest::find_nearest;

/// One key of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKey {
    /// Its name in front matter and configs; the flag has `-` for `_`.
    pub name: &'static str,
    /// The allowed values.
    pub allowed: &'static str,
    /// The effect of the key, in a sentence.
    pub help: &'static str,
}

const COUNT: &str = "a whole number, 0 or more";
const MONEY: &str = "an amount of dollars such as 5 or 0.25";
const TIME: &str = "a time such as \"30s\", \"10m\" or \"1h30m\"";
const SHARE: &str = "a share from 0 to 1";

const fn policy_key(name: &'static str, allowed: &'static str, help: &'static str) -> PolicyKey {
    PolicyKey { name, allowed, help }
}

/// Every key, in the contract's order.
pub const KEYS: &[PolicyKey] = &[
    policy_key(
        "mode",
        "enforce or observe",
        "observe leaves the bytes alone and says what it would do",
    ),
    policy_key("tool_calls_limit", COUNT, "tool calls per run"),
    policy_key("tool_limits", TOOL_LIMITS, "tool calls per run and tool name"),
    policy_key("turns_limit", COUNT, "turns per run; the last one is asked for the answer"),
    policy_key("result_chars_limit", COUNT, "characters of tool results per run"),
    policy_key("tokens_limit", COUNT, "input and output tokens per run"),
    policy_key("cost_limit_usd", MONEY, "money per run"),
    policy_key("session_cost_limit_usd", MONEY, "money per session"),
    policy_key("time_limit", TIME, "time per run, from its first request"),
    policy_key("countdown", "every, milestones or off", "when results say how many calls remain"),
    policy_key("countdown_from", SHARE, "share of the limit from which the countdown shows"),
    policy_key("warn_at", SHARE, "share of another limit at which one warning is given"),
    policy_key("batch", "first, all or none", "which calls of a batch that passes the limit run"),
    policy_key(
        "landing",
        "auto, ask, none, respond or stop",
        "how the run is brought to its answer",
    ),
    policy_key(
        "answer_tool",
        NAMES,
        "tools whose call is the answer; never counted, never refused",
    ),
    policy_key("empty_limit", COUNT, "empty turns in a row before the run is stopped"),
    policy_key("stale_limit", COUNT, "answers in vain to one context before the run is stopped"),
    policy_key("repeat_limit", COUNT, "same call with the same result that make a loop; 0 is off"),
    policy_key("poll_limit", COUNT, "the same for calls that wait or poll; 0 is off"),
    policy_key(
        "cycle_limit",
        COUNT,
        "repeats of a cycle of 2 to 4 rounds that make a loop; 0 is off",
    ),
    policy_key(
        "error_limit",
        COUNT,
        "rounds in a row with the same error that make a loop; 0 is off",
    ),
    policy_key("loop_keys", LOOP_KEYS, "what identifies a tool's call, or what the tool does"),
    policy_key("on_loop", "ladder, land, stop or observe", "what a loop leads to"),
    policy_key("reserve_tokens", COUNT, "tokens held back for the answer"),
    policy_key("reserve_time", TIME, "time held back for the answer"),
    policy_key("run_boundary", "human, conversation or header", "what starts a run"),
    policy_key("on_store_loss", "closed or open", "money limits while the shared store is away"),
];

const NAMES: &str = "a tool's name, or a list of one name or more";
const TOOL_LIMITS: &str = "NAME: NUMBER pairs";
const LOOP_KEYS: &str = "TOOL: a list of argument names, or one of reads, writes, polls and exempt";
/// The allowed values of one member of `loop_keys`.
const LOOP_KEY: &str = "a list of argument names, or one of reads, writes, polls and exempt";

impl PolicyKey {
    /// Returns the allowed values of the flag of this key; a flag writes some of them in another
    /// way than a file.
    #[must_use]
    pub fn allowed_in_flag(&self) -> &'static str {
        match self.name {
            "answer_tool" => "NAME[,NAME]",
            "tool_limits" => "NAME=NUMBER[,NAME=NUMBER]",
            "loop_keys" => {
                "NAME=WHAT[,NAME=WHAT], where WHAT is reads, writes, polls, exempt, or argument \
                 names with + between"
            }
            _ => self.allowed,
        }
    }
}

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

impl Policy {
    /// Sets one key. `Value::Null` clears a limit, a table or a name, which are empty by default,
    /// and leaves any other key as it is.
    ///
    /// # Errors
    /// Returns an error if the key is unknown or the value is not allowed there; the policy is then
    /// unchanged.
    pub fn set_key(&mut self, name: &str, value: &PolicyValue) -> Result<(), KeyError> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let names = KEYS.iter().map(|key| key.name);
            return Err(KeyError::Unknown {
                key: name.to_owned(),
                nearest: find_nearest(name, names),
            });
        };
        let reader = ValueReader { key: *key, value };
        if *value == PolicyValue::Null && !is_clearable(key.name) {
            return Ok(());
        }
        match name {
            "mode" => self.mode = reader.read_word(Mode::from_word)?,
            "tool_calls_limit" => {
                self.tool_calls_limit = reader.read_limit(ValueReader::read_count)?
            }
            "tool_limits" => {
                self.tool_limits = reader.read_members(COUNT, |member| member.read_count())?
            }
            "turns_limit" => self.turns_limit = reader.read_limit(ValueReader::read_count)?,
            "result_chars_limit" => {
                self.result_chars_limit = reader.read_limit(ValueReader::read_count)?
            }
            "tokens_limit" => self.tokens_limit = reader.read_limit(ValueReader::read_count)?,
            "cost_limit_usd" => self.cost_limit_usd = reader.read_limit(ValueReader::read_money)?,
            "session_cost_limit_usd" => {
                self.session_cost_limit_usd = reader.read_limit(ValueReader::read_money)?
            }
            "time_limit" => self.time_limit = reader.read_limit(ValueReader::read_time)?,
            "countdown" => self.countdown = reader.read_word(Countdown::from_word)?,
            "countdown_from" => self.countdown_from = reader.read_share()?,
            "warn_at" => self.warn_at = reader.read_share()?,
            "batch" => self.batch = reader.read_word(Batch::from_word)?,
            "landing" => self.landing = reader.read_word(Landing::from_word)?,
            "answer_tool" => self.answer_tool = reader.read_names()?,
            "empty_limit" => self.empty_limit = reader.read_count()?,
            "stale_limit" => self.stale_limit = reader.read_count()?,
            "repeat_limit" => self.repeat_limit = reader.read_count()?,
            "poll_limit" => self.poll_limit = reader.read_count()?,
            "cycle_limit" => self.cycle_limit = reader.read_count()?,
            "error_limit" => self.error_limit = reader.read_count()?,
            "loop_keys" => {
                self.loop_keys = reader.read_members(LOOP_KEY, |member| member.read_loop_key())?
            }
            "on_loop" => self.on_loop = reader.read_word(OnLoop::from_word)?,
            "reserve_tokens" => self.reserve_tokens = reader.read_count()?,
            "reserve_time" => self.reserve_time = reader.read_time()?,
            "run_boundary" => self.run_boundary = reader.read_word(RunBoundary::from_word)?,
            _ => self.on_store_loss = reader.read_word(OnStoreLoss::from_word)?,
        }
        Ok(())
    }
}

/// Returns true if a key bounds the usage of a run or a session, which its outcome reports.
#[must_use]
pub fn is_limit(key: &str) -> bool {
    matches!(
        key,
        "tool_calls_limit"
            | "tool_limits"
            | "turns_limit"
            | "result_chars_limit"
            | "tokens_limit"
            | "cost_limit_usd"
            | "session_cost_limit_usd"
            | "time_limit"
    )
}

/// Returns true if "nothing" is a value of the key, because its default is no value.
fn is_clearable(key: &str) -> bool {
    is_limit(key) || matches!(key, "answer_tool" | "loop_keys")
}

/// A reader of one value for its key.
struct ValueReader<'a> {
    key: PolicyKey,
    value: &'a PolicyValue,
}

impl ValueReader<'_> {
    fn value_error(&self) -> KeyError {
        KeyError::Value {
            key: self.key.name.to_owned(),
            allowed: self.key.allowed,
            found: self.value.to_string(),
        }
    }

    fn read_limit<T>(&self, read: fn(&Self) -> Result<T, KeyError>) -> Result<Option<T>, KeyError> {
        if *self.value == PolicyValue::Null { Ok(None) } else { read(self).map(Some) }
    }

    fn read_count(&self) -> Result<u64, KeyError> {
        self.value.as_whole().ok_or_else(|| self.value_error())
    }

    fn read_money(&self) -> Result<NanoUsd, KeyError> {
        match self.value {
            PolicyValue::Int(number) => number.to_string().parse().ok(),
            PolicyValue::Float(number) => NanoUsd::from_dollars(*number),
            PolicyValue::Text(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    fn read_time(&self) -> Result<crate::time::Millis, KeyError> {
        match self.value {
            PolicyValue::Text(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.value_error())
    }

    fn read_share(&self) -> Result<Share, KeyError> {
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
    fn read_names(&self) -> Result<Vec<String>, KeyError> {
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

    fn read_word<T>(&self, read: fn(&str) -> Option<T>) -> Result<T, KeyError> {
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
            let member = ValueReader { key: PolicyKey { allowed, ..self.key }, value: &value };
            let read = read(&member).map_err(|_| KeyError::Value {
                key: format!("{}.{name}", self.key.name),
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn text(value: &str) -> PolicyValue {
        PolicyValue::Text(value.to_owned())
    }

    #[test]
    fn whole_numbers_may_be_quoted_and_nothing_else_passes() {
        let mut policy = Policy::default();
        for value in [PolicyValue::Int(30), text("30")] {
            policy.set_key("tool_calls_limit", &value).unwrap();
            assert_eq!(policy.tool_calls_limit, Some(30));
        }
        policy.set_key("tool_calls_limit", &PolicyValue::Int(0)).unwrap();
        assert_eq!(policy.tool_calls_limit, Some(0));
        for bad in [
            PolicyValue::Int(-1),
            PolicyValue::Float(1.5),
            PolicyValue::Bool(true),
            text("many"),
            text("-1"),
            text(""),
        ] {
            let error = policy.set_key("tool_calls_limit", &bad).unwrap_err();
            assert!(error.to_string().contains("`tool_calls_limit` must be a whole number"));
            assert_eq!(policy.tool_calls_limit, Some(0), "{bad:?}");
        }
    }

    #[test]
    fn every_key_is_read() {
        let values = [
            PolicyValue::Int(7),
            text("0.25"),
            text("10m"),
            text("observe"),
            text("off"),
            text("all"),
            text("none"),
            text("land"),
            text("header"),
            text("open"),
            PolicyValue::Map(vec![("grep".to_owned(), PolicyValue::Int(5))]),
            PolicyValue::Map(vec![("wait".to_owned(), text("polls"))]),
        ];
        for key in KEYS {
            let changed = values.iter().any(|value| {
                let mut policy = Policy::default();
                policy.set_key(key.name, value).is_ok() && policy != Policy::default()
            });
            assert!(changed, "no value changes `{}`", key.name);
        }
    }

    #[test]
    fn answer_tools_are_one_name_or_a_list() {
        let mut policy = Policy::default();
        let list =
            |names: &[&str]| PolicyValue::List(names.iter().map(|name| text(name)).collect());
        for (value, names) in [
            (text("Out"), &["Out"][..]),
            (text(" Out , submit,Out"), &["Out", "submit"]),
            (list(&["Out", "submit"]), &["Out", "submit"]),
            (PolicyValue::Null, &[]),
        ] {
            policy.set_key("answer_tool", &value).unwrap();
            assert_eq!(policy.answer_tool, names, "{value:?}");
        }
        for bad in [text(""), text("Out,"), list(&[]), list(&[""]), PolicyValue::Int(3)] {
            let error = policy.set_key("answer_tool", &bad).unwrap_err().to_string();
            assert!(error.starts_with("`answer_tool` must be a tool's name, or a list"), "{error}");
        }
        let list = PolicyValue::List(vec![text("Out"), PolicyValue::Int(3)]);
        assert!(policy.set_key("answer_tool", &list).is_err());
    }

    #[test]
    fn members_name_the_tool_in_errors() {
        let mut policy = Policy::default();
        policy.set_key("tool_limits", &text("grep=5, glob=2")).unwrap();
        assert_eq!(policy.tool_limits.get("glob"), Some(&2));
        let error = policy.set_key("tool_limits", &text("grep=x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`tool_limits.grep` must be a whole number, 0 or more; found \"x\""
        );
        let negative = PolicyValue::Map(vec![("grep".to_owned(), PolicyValue::Int(-2))]);
        let error = policy.set_key("tool_limits", &negative).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`tool_limits.grep` must be a whole number, 0 or more; found -2"
        );
        let error = policy.set_key("loop_keys", &text("grep=sometimes")).unwrap_err();
        assert!(error.to_string().starts_with("`loop_keys.grep` must be a list of"), "{error}");
    }

    #[test]
    fn nothing_is_a_value_of_every_key() {
        let (mut specialist, coding) = (Policy::default(), Policy::built_in("coding").unwrap());
        let mut cleared = Policy { repeat_limit: 5, ..coding.clone() };
        for key in KEYS {
            specialist.set_key(key.name, &PolicyValue::Null).unwrap();
            cleared.set_key(key.name, &PolicyValue::Null).unwrap();
        }
        assert_eq!(specialist, Policy::default());
        assert_eq!(cleared, Policy { repeat_limit: 5, tool_calls_limit: None, ..coding });
    }

    #[test]
    fn unknown_keys_get_the_nearest_name() {
        let mut policy = Policy::default();
        let error = policy.set_key("tool_call_limit", &PolicyValue::Int(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown key `tool_call_limit`; did you mean `tool_calls_limit`?"
        );
        let error = policy.set_key("colour", &PolicyValue::Int(1)).unwrap_err();
        assert_eq!(error.to_string(), "unknown key `colour`");
    }
}
