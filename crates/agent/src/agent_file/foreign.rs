//! Keys of other programs' agent files that restrict the agent. They are carried out, or the file
//! is refused: an agent never has more than its file allows.

use softland_session::core::policy::PolicyValue;

use super::front_matter::FrontMatterEntry;
use super::{AgentDraft, Diagnostics, servers, tools};

/// A restriction that was read. It is carried out once all keys are known.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    /// The tools that the agent may not have, each with its line and key.
    denied: Vec<(String, usize, String)>,
    /// The tools that are switched on or off one by one.
    switched: Vec<(String, bool)>,
    /// The policy keys that other keys set, each with its line and key.
    limits: Vec<(&'static str, u64, usize, String)>,
}

/// The turns of other programs, by their keys.
const TURNS: [&str; 4] = ["maxTurns", "max_turns", "steps", "maxSteps"];

/// OpenCode's names of permissions, and the tools of ours that each is about. (opencode.ai/docs,
/// "Permissions", read 2026-11-21)
const PERMISSIONS: [(&str, &[&str]); 8] = [
    ("edit", &["write_file", "edit_file"]),
    ("bash", &["shell"]),
    ("webfetch", &["http_get"]),
    ("read", &["read_file"]),
    ("grep", &["grep"]),
    ("glob", &["glob"]),
    ("list", &["list_dir"]),
    ("task", &["agent"]),
];

/// OpenCode's names of tools in its older map `tools`, where they differ from ours.
const SWITCHES: [(&str, &str); 8] = [
    ("read", "read_file"),
    ("write", "write_file"),
    ("edit", "edit_file"),
    ("patch", "edit_file"),
    ("bash", "shell"),
    ("list", "list_dir"),
    ("webfetch", "http_get"),
    ("task", "agent"),
];

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
            "readonly" if entry.value == PolicyValue::Bool(true) => {
                CHANGING.iter().for_each(|tool| self.deny((*tool).to_owned(), entry));
            }
            "readonly" if entry.value == PolicyValue::Bool(false) => {}
            "permissionMode" => refuse_value(entry, report, &["plan", "dontAsk"]),
            "disable" if entry.value == PolicyValue::Bool(true) => {
                report.add_error(Some(entry.line), Some("disable"), "the agent is disabled");
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
        let tools = draft.tools.get_or_insert_with(tools::default_tools);
        for (tool, on) in self.switched {
            match (tool.as_str(), on) {
                ("*", false) => tools.clear(),
                ("*", true) => {}
                (_, true) if tools.contains(&tool) => {}
                (_, true) => tools.push(tool),
                (_, false) => tools.retain(|own| *own != tool),
            }
        }
        for (tool, line, key) in self.denied {
            if tool == "*" {
                tools.clear();
            }
            tools.retain(|own| *own != tool);
            let whole = servers::split_name(&tool).and_then(|(server, one)| Some((server, one?)));
            let rest = |own: &&String| {
                whole.is_some()
                    && servers::split_name(own) == whole.map(|(server, _)| (server, None))
            };
            if let Some(own) = tools.iter().find(rest) {
                let message = format!(
                    "`{tool}` cannot be taken out of `{own}`; name the server's tools in `tools`"
                );
                report.add_error(Some(line), Some(&key), message);
            }
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
            let tool = SWITCHES.iter().find(|(theirs, _)| theirs == name);
            let tool = tool.map_or_else(|| tools::own_name(name), |(_, own)| (*own).to_owned());
            let known = tool == "*" || tools::is_known(&tool);
            match value {
                PolicyValue::Bool(on) if known || !on => self.switched.push((tool, *on)),
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
                None => self.deny(tools::own_name(&name), entry),
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
                            if rules.iter().all(|(_, rule)| is_word(rule, "allow")) => {}
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
        let known = PERMISSIONS.iter().find(|(permission, _)| *permission == name);
        match (word, known) {
            ("allow", _) => {}
            ("deny", Some((_, tools))) => {
                tools.iter().for_each(|tool| self.deny((*tool).to_owned(), entry));
            }
            ("deny", None) => self.deny(name.to_owned(), entry),
            _ => {
                let message = format!(
                    "`{name}: {word}` cannot be held here, where nobody is asked; write allow or deny"
                );
                report.add_error(Some(entry.line), Some(&entry.key), message);
            }
        }
    }

    fn deny(&mut self, tool: String, entry: &FrontMatterEntry) {
        self.denied.push((tool, entry.line, entry.key.clone()));
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

fn is_word(value: &PolicyValue, word: &str) -> bool {
    matches!(value, PolicyValue::Text(text) if text == word)
}

/// Refuses values that restrict the agent in a way that is not known here.
fn refuse_value(entry: &FrontMatterEntry, report: &mut Diagnostics, refused: &[&str]) {
    if let Some(value) = refused.iter().find(|value| is_word(&entry.value, value)) {
        let message = format!(
            "`{value}` restricts the agent, which is not supported; name the tools that it may \
             have in `tools`"
        );
        report.add_error(Some(entry.line), Some(&entry.key), message);
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
