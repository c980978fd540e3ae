//! `[policy.NAME]`: policy keys that override the built-in policy of that name.

use softland_agent::core::policy::{KeyError, Policy};
use softland_agent::core::tables;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::explain_misplaced_key;
use super::{ConfigReader, to_policy_value};

impl ConfigReader<'_> {
    pub(super) fn read_policies(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(policies) = value.get_ref().as_table() else {
            return self.note_problem(
                value.span().start,
                "policy",
                "must be tables: [policy.NAME]",
            );
        };
        for (name, value) in policies {
            let name = name.get_ref().as_ref();
            let place = format!("policy.{name}");
            match value.get_ref().as_table() {
                Some(table) => {
                    let policy = self.read_policy(&place, name, table);
                    self.config.policies.insert(name.to_owned(), policy);
                }
                None => {
                    let message = "must be a table: [policy.NAME] with policy keys";
                    self.note_problem(value.span().start, &place, message);
                }
            }
        }
    }

    /// Reads a table that overrides the built-in policy of its name, or else the default policy.
    fn read_policy(&mut self, place: &str, name: &str, table: &DeTable<'_>) -> Policy {
        let mut policy = Policy::built_in(name).unwrap_or_default();
        let mut limits_tools = None;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match policy.set_key(name, &to_policy_value(value.get_ref())) {
                Ok(()) if name == "tool_limits" => limits_tools = Some(key.span().start),
                Ok(()) => {}
                Err(KeyError::Unknown { nearest, .. }) => {
                    let hint = match nearest {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None => "; see `softland run --help` for those there are".to_owned(),
                    };
                    let key_place = format!("{place}.{name}");
                    let message =
                        explain_misplaced_key(name).unwrap_or_else(|| format!("unknown key{hint}"));
                    self.note_problem(key.span().start, &key_place, &message);
                }
                Err(KeyError::Value { key: inner, allowed, found }) => {
                    let message = format!("must be {allowed}, got {found}");
                    self.note_problem(key.span().start, &format!("{place}.{inner}"), &message);
                }
            }
        }
        if let Some(at) = limits_tools {
            for problem in find_unlimitable_tools(&policy) {
                self.note_problem(at, &format!("{place}.tool_limits"), &problem);
            }
        }
        policy
    }
}

/// Returns one message for each tool limit that cannot be enforced.
pub(crate) fn find_unlimitable_tools(policy: &Policy) -> Vec<String> {
    let wrong = policy.tool_limits.keys().filter_map(|tool| {
        let why = match policy.answer_tool.contains(tool) {
            true => "cannot be enforced: the tool is an answer_tool, and answers are not counted"
                .to_owned(),
            false => tables::explain_unlimitable(tool)?,
        };
        Some(format!("the limit of `{tool}` {why}"))
    });
    wrong.collect()
}
