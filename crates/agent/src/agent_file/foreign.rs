//! Keys of other programs' agent files that restrict the agent. They are carried out, or the file
//! is refused: an agent never has more than its file allows.

use softland_session::core::policy::PolicyValue;

use super::front_matter::FrontMatterEntry;
use super::reach::{self, Reach, UnknownName};
use super::{AgentDraft, Diagnostics, tools};
use crate::tool::cut_line;

/// A restriction that was read. It is carried out once all keys are known.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    /// The tools that the agent may not have.
    denied: Vec<ToolRule>,
    /// What is allowed and denied in turn. The last rule about a tool holds.
    permitted: Vec<ToolRule>,
    /// The tools that are switched on or off one by one.
    switched: Vec<ToolRule>,
    /// The policy keys that other keys set, each with its line and key.
    limits: Vec<(&'static str, u64, usize, String)>,
}

/// Allows or denies the tools that a name is about.
#[derive(Debug)]
struct ToolRule {
    name: String,
    allows: bool,
    line: usize,
    key: String,
}

/// The turns of other programs, by their keys.
const TURNS: [&str; 4] = ["maxTurns", "max_turns", "steps", "maxSteps"];

/// The tools that change something.
const CHANGING: [&str; 3] = ["write_file", "edit_file", "shell"];

impl Restrictions {
    /// Takes a key that may restrict the agent. Returns false if it does not.
    pub(super) fn take_entry(
        &mut self,
        entry: &FrontMatterEntry,
        report: &mut Diagnostics,
    ) -> bool {
        match entry.key.as_str() {
            "disallowedTools" => self.take_denied(entry, report),
            "permission" => self.take_permission(entry, report),
            // Of Cursor (cursor.com/docs, the page on subagents, read 2026-11-27).
            "readonly" => {
                if read_switch(entry, report) {
                    let rules = CHANGING.map(|tool| ToolRule::new(tool, false, entry));
                    self.denied.extend(rules);
                }
            }
            "permissionMode" => check_mode(entry, report),
            "disable" => {
                if read_switch(entry, report) {
                    report.add_error(Some(entry.line), Some("disable"), "the agent is disabled");
                }
            }
            "timeout_mins" => self.take_limit("time_limit", entry, report),
            key if TURNS.contains(&key) => self.take_limit("turns_limit", entry, report),
            key @ "allowed-tools" => {
                let message = "restricts nothing here; name the tools of the agent in `tools`";
                report.add_warning(entry.line, Some(key), message);
            }
            key @ ("hooks" | "isolation") => {
                let message = "is not supported: the agent runs without it";
                report.add_warning(entry.line, Some(key), message);
            }
            _ => return false,
        }
        true
    }

    /// Carries out what was read.
    pub(super) fn apply(self, draft: &mut AgentDraft, report: &mut Diagnostics) {
        for (key, limit, line, name) in self.limits {
            let value = match key {
                "time_limit" => PolicyValue::Text(format!("{limit}m")),
                _ => PolicyValue::Int(i128::from(limit)),
            };
            if draft.policy.iter().any(|(own, _)| own == key) {
                let message = format!("limits what `{key}` limits as well; leave one of them out");
                report.add_error(Some(line), Some(&name), message);
            } else if draft.scratch.set_key(key, &value).is_ok() {
                draft.policy.push((key.to_owned(), value));
            }
        }
        let names: Vec<_> = draft.commands.iter().map(|command| command.name.clone()).collect();
        let tools = draft.tools.get_or_insert_with(tools::default_tools);
        for rule in &self.switched {
            match rule.allows {
                false => tools.retain(|own| !rule.covers(own, false, report)),
                true if rule.name == "*" || tools.contains(&rule.name) => {}
                true => tools.push(rule.name.clone()),
            }
        }
        let mut is_denied = |tool: &str| {
            let mut denied = self.denied.iter().any(|rule| rule.covers(tool, false, report));
            // A later rule may allow what an earlier one denies.
            let last = self.permitted.iter().rev().find(|rule| rule.covers(tool, true, report));
            denied |= last.is_some_and(|rule| !rule.allows);
            denied
        };
        tools.retain(|own| !is_denied(own));
        draft.commands.retain(|command| !is_denied(&command.name));
        let commands: Vec<&str> = names.iter().map(String::as_str).collect();
        for (rules, permits) in
            [(&self.denied, false), (&self.switched, false), (&self.permitted, true)]
        {
            let denying = rules.iter().filter(|rule| !rule.allows);
            denying
                .filter(|rule| !commands.contains(&rule.name.as_str()))
                .for_each(|rule| rule.report_unknown(permits, report));
        }
    }

    /// Takes `tools` as a map of switches.
    pub(super) fn take_switches(
        &mut self,
        switches: &[(String, PolicyValue)],
        entry: &FrontMatterEntry,
        report: &mut Diagnostics,
    ) {
        for (name, value) in switches {
            let tool = reach::own_tool(name);
            let known = tool == "*" || tools::is_known(&tool);
            match value {
                PolicyValue::Bool(true) if known => {
                    self.switched.push(ToolRule::new(&tool, true, entry));
                }
                PolicyValue::Bool(false) => self.switched.push(ToolRule::new(name, false, entry)),
                PolicyValue::Bool(_) => {
                    let message = format!("`{name}` is no tool that can be switched on here");
                    report.add_error(Some(entry.line), Some("tools"), message);
                }
                other => report.add_value_error(entry, "true or false", &other.to_string()),
            }
        }
    }

    fn take_denied(&mut self, entry: &FrontMatterEntry, report: &mut Diagnostics) {
        let Some(names) = tools::read_names(entry, report) else { return };
        for name in names {
            match tools::restricted_name(&name) {
                Some(_) => refuse_part(entry, &name, report),
                None => {
                    // `Bash(*)` is all of a tool.
                    let bare = name.split('(').next().unwrap_or_default().trim();
                    self.denied.push(ToolRule::new(bare, false, entry));
                }
            }
        }
    }

    fn take_permission(&mut self, entry: &FrontMatterEntry, report: &mut Diagnostics) {
        match &entry.value {
            PolicyValue::Null => {}
            PolicyValue::Text(all) => self.take_word("*", all, entry, report),
            PolicyValue::Map(members) => {
                for (name, value) in members {
                    match value {
                        PolicyValue::Text(word) => self.take_word(name, word, entry, report),
                        PolicyValue::Map(rules)
                            if rules.iter().all(|(_, rule)| is_word(rule, "allow")) =>
                        {
                            if rules.iter().any(|(calls, _)| calls == "*") {
                                self.take_word(name, "allow", entry, report);
                            }
                        }
                        PolicyValue::Map(rules)
                            if rules.iter().all(|(_, rule)| is_word(rule, "deny")) =>
                        {
                            self.take_word(name, "deny", entry, report);
                        }
                        _ => refuse_part(entry, name, report),
                    }
                }
            }
            other => {
                report.add_value_error(entry, "allow, deny, or a map of tools", &other.to_string());
            }
        }
    }

    fn take_word(
        &mut self,
        name: &str,
        word: &str,
        entry: &FrontMatterEntry,
        report: &mut Diagnostics,
    ) {
        match word {
            "allow" | "deny" => {
                self.permitted.push(ToolRule::new(name, word == "allow", entry));
            }
            _ => {
                let message = format!(
                    "`{name}: {word}` cannot be held here, where nobody is asked; write allow or deny"
                );
                report.add_error(Some(entry.line), Some(&entry.key), message);
            }
        }
    }

    fn take_limit(
        &mut self,
        key: &'static str,
        entry: &FrontMatterEntry,
        report: &mut Diagnostics,
    ) {
        match entry.value.as_whole() {
            Some(limit) => {
                let message =
                    format!("is taken as `{key}`, at which the run still ends in an answer");
                report.add_warning(entry.line, Some(&entry.key), message);
                let known = self.limits.iter_mut().find(|(own, ..)| *own == key);
                match known {
                    Some((_, smallest, ..)) => *smallest = limit.min(*smallest),
                    None => self.limits.push((key, limit, entry.line, entry.key.clone())),
                }
            }
            None if entry.value == PolicyValue::Null => {}
            None => report.add_value_error(entry, "a whole number", &entry.value.to_string()),
        }
    }
}

impl ToolRule {
    fn new(name: &str, allows: bool, entry: &FrontMatterEntry) -> Self {
        Self { name: name.trim().to_owned(), allows, line: entry.line, key: entry.key.clone() }
    }

    /// Returns true if the rule is about a tool of the agent, or about all tools of a server. One
    /// that denies only some of these is refused.
    fn covers(&self, tool: &str, permits: bool, report: &mut Diagnostics) -> bool {
        match reach::reach_of(&self.name, tool, permits) {
            Reach::Whole => return true,
            Reach::Part if !self.allows => {
                let message = format!(
                    "`{}` cannot be taken out of `{tool}`; name the server's tools in `tools`",
                    self.name
                );
                report.add_error(Some(self.line), Some(&self.key), message);
            }
            Reach::Part | Reach::Nothing => {}
        }
        false
    }

    /// Tells that no tool has the name.
    fn report_unknown(&self, permits: bool, report: &mut Diagnostics) {
        let name = cut_line(&self.name, 60);
        match reach::unknown_name(&self.name, permits) {
            Some(UnknownName::Near(near)) => {
                let message = format!("unknown tool `{name}`; did you mean `{near}`?");
                report.add_error(Some(self.line), Some(&self.key), message);
            }
            Some(UnknownName::Elsewhere) => {
                let message = format!("`{name}` is no tool of the agent");
                report.add_warning(self.line, Some(&self.key), message);
            }
            None => {}
        }
    }
}

fn is_word(value: &PolicyValue, word: &str) -> bool {
    matches!(value, PolicyValue::Text(text) if text == word)
}

/// Reads a switch, which is off without a value.
fn read_switch(entry: &FrontMatterEntry, report: &mut Diagnostics) -> bool {
    match &entry.value {
        PolicyValue::Bool(on) => *on,
        PolicyValue::Null => false,
        PolicyValue::Text(text) if text.eq_ignore_ascii_case("true") => true,
        PolicyValue::Text(text) if text.eq_ignore_ascii_case("false") => false,
        other => {
            report.add_value_error(entry, "true or false", &other.to_string());
            false
        }
    }
}

/// The modes of permissions that restrict nothing here, where nobody is asked. (code.claude.com,
/// the page on sub-agents, read 2026-11-21)
const FREE_MODES: [&str; 4] = ["default", "acceptEdits", "auto", "bypassPermissions"];

/// The modes that restrict the agent in a way that is not known here.
const STRICT_MODES: [&str; 2] = ["plan", "dontAsk"];

/// Refuses every mode of permissions but those that restrict nothing.
fn check_mode(entry: &FrontMatterEntry, report: &mut Diagnostics) {
    let given = entry.value.to_string();
    let is_given = |mode: &&str| match &entry.value {
        PolicyValue::Text(text) => text.eq_ignore_ascii_case(mode),
        _ => false,
    };
    if entry.value == PolicyValue::Null || FREE_MODES.iter().any(is_given) {
        return;
    }
    match STRICT_MODES.iter().find(|mode| is_given(mode)) {
        Some(mode) => {
            let message = format!(
                "`{mode}` restricts the agent, which is not supported; name the tools that it may \
                 have in `tools`"
            );
            report.add_error(Some(entry.line), Some(&entry.key), message);
        }
        None => report.add_value_error(entry, &FREE_MODES.join(", "), &given),
    }
}

/// Refuses a part of a restriction that is about single calls of a tool.
fn refuse_part(entry: &FrontMatterEntry, part: &str, report: &mut Diagnostics) {
    let message = format!(
        "`{part}` restricts single calls of a tool, which is not supported; allow or deny the \
         whole tool, or make a tool of the command by `commands`"
    );
    report.add_error(Some(entry.line), Some(&entry.key), message);
}
