//! A key of a policy: one type for front matter, configs and flags, which read the one list.

use alloc::borrow::ToOwned as _;

use super::limits::Limit;
use super::values::{COUNT, KeyError, PolicyValue, ValueReader};
use super::words::words;
use super::{KEYS, Policy};
use crate::nearest::find_nearest;

/// One key of a policy.
#[derive(Debug)]
pub struct PolicyKey {
    /// Its name in front matter and configs; the flag has `-` for `_`.
    pub name: &'static str,
    /// The form of its value.
    pub form: ValueForm,
    /// The section of the help that lists it.
    pub section: KeySection,
    /// The effect of the key, in a sentence.
    pub help: &'static str,
    /// The limit that the key sets, if it sets one that ends runs.
    pub limit: Option<Limit>,
    pub(super) set: fn(&mut Policy, &ValueReader<'_>) -> Result<(), KeyError>,
}

/// The form of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// A whole number.
    Count,
    /// An amount of dollars.
    Money,
    /// A time.
    Time,
    /// A share from 0 to 1.
    Share,
    /// One of a few words, which the text lists.
    Word(&'static str),
    /// Names of tools.
    Names,
    /// A number for each tool.
    ToolLimits,
    /// The arguments that identify a call, or the kind, of each tool.
    LoopKeys,
}

impl ValueForm {
    /// Returns the allowed values.
    #[must_use]
    pub fn allowed_values(self) -> &'static str {
        match self {
            Self::Count => COUNT,
            Self::Money => "an amount of dollars such as 5 or 0.25",
            Self::Time => "a time such as \"30s\", \"10m\" or \"1h30m\"",
            Self::Share => "a share from 0 to 1",
            Self::Word(words) => words,
            Self::Names => "a tool's name, or a list of one name or more",
            Self::ToolLimits => "NAME: NUMBER pairs",
            Self::LoopKeys => {
                "TOOL: a list of argument names, or one of reads, writes, polls and exempt"
            }
        }
    }

    /// Returns the allowed values of a flag, which writes some of them in another way than a file.
    #[must_use]
    pub fn allowed_in_flag(self) -> &'static str {
        match self {
            Self::Names => "NAME[,NAME]",
            Self::ToolLimits => "NAME=NUMBER[,NAME=NUMBER]",
            Self::LoopKeys => {
                "NAME=WHAT[,NAME=WHAT], where WHAT is reads, writes, polls, exempt, or argument \
                 names with + between"
            }
            Self::Count | Self::Money | Self::Time | Self::Share | Self::Word(_) => {
                self.allowed_values()
            }
        }
    }
}

words! {
    /// A section of the help on the keys; its word is the heading.
    KeySection {
        /// The limits of what a run or a session may use.
        Limits = "Limits",
        /// The ways in which a run is told of its limits and brought to its answer.
        Landing = "Landing",
        /// The signs of a loop or of silence.
        Loops = "Loops and silence",
        /// All other keys.
        Other = "Other policy keys",
    }
}

impl PolicyKey {
    /// Returns true if "nothing" is a value of the key, because its default is no value.
    fn is_clearable(&self) -> bool {
        self.section == KeySection::Limits
            || matches!(self.form, ValueForm::Names | ValueForm::LoopKeys)
    }
}

impl Policy {
    /// Sets one key. [`PolicyValue::Null`] clears a limit, a table or a name, which are empty by
    /// default, and leaves any other key as it is.
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
        if *value == PolicyValue::Null && !key.is_clearable() {
            return Ok(());
        }
        (key.set)(self, &ValueReader { key: key.name, allowed: key.form.allowed_values(), value })
    }
}

#[cfg(test)]
mod tests;
