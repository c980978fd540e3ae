//! The keys `commands` and `http_allow`: programs that are tools, and hosts.

use serde_json::{Map, json};
use softland_session::core::find_nearest;
use softland_session::core::policy::PolicyValue;

use super::Diagnostics;
use super::front_matter::FrontMatterEntry;
use crate::sub_agents::AGENT_TOOL;
use crate::tool::{cut_line, is_valid_name};
use crate::tools::{BUILT_IN, CommandDef, Host, RunLine};

/// The keys that a command may have.
const MEMBERS: [&str; 4] = ["description", "schema", "run", "repeatable"];

/// Reads the valid commands of an entry. The other commands are reported.
pub(super) fn read_commands(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Vec<CommandDef> {
    match &entry.value {
        PolicyValue::Null => Vec::new(),
        PolicyValue::Map(members) => {
            let mut one = |(name, value): &(String, PolicyValue)| {
                CommandReader { entry, report, place: format!("commands.{name}") }
                    .read_command(name, value)
            };
            members.iter().filter_map(&mut one).collect()
        }
        other => {
            report.add_value_error(
                entry,
                "names with {description, schema, run, repeatable}",
                &other.to_string(),
            );
            Vec::new()
        }
    }
}

/// Reads the hosts of `http_allow`.
pub(super) fn read_hosts(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Vec<Host> {
    const ALLOWED: &str = "a list of hosts: docs.rs, localhost:3000 (with a port that is not the \
                           scheme's), *.example.com (all below it), or * (every public one)";
    let texts = match &entry.value {
        PolicyValue::Null => return Vec::new(),
        PolicyValue::Text(text) => text.split(',').map(str::trim).map(Some).collect(),
        PolicyValue::List(items) => items
            .iter()
            .map(|item| match item {
                PolicyValue::Text(text) => Some(text.trim()),
                _ => None,
            })
            .collect(),
        _ => vec![None],
    };
    let mut hosts = Vec::new();
    for text in texts {
        match text.map(str::parse) {
            Some(Ok(host)) => hosts.push(host),
            Some(Err(())) => report.add_value_error(
                entry,
                ALLOWED,
                &format!("`{}`", cut_line(text.unwrap_or_default(), 80)),
            ),
            None => report.add_value_error(entry, ALLOWED, "something else"),
        }
    }
    hosts
}

/// Reads one command.
struct CommandReader<'a> {
    entry: &'a FrontMatterEntry,
    report: &'a mut Diagnostics,
    /// The key, for problems.
    place: String,
}

impl CommandReader<'_> {
    fn read_command(&mut self, name: &str, value: &PolicyValue) -> Option<CommandDef> {
        if !is_valid_name(name) {
            let allowed = "named with 1 to 64 of a-z A-Z 0-9 _ -";
            return self.report_wrong("", allowed, &format!("`{}`", cut_line(name, 80)));
        }
        if BUILT_IN.contains(&name) || name == AGENT_TOOL || name.starts_with("mcp__") {
            return self.report_wrong(
                "",
                "named otherwise than softland's own tools",
                &format!("`{name}`"),
            );
        }
        let PolicyValue::Map(members) = value else {
            return self.report_wrong(
                "",
                "{description, schema, run, repeatable}",
                &value.to_string(),
            );
        };
        for (key, _) in members.iter().filter(|(key, _)| !MEMBERS.contains(&key.as_str())) {
            let hint = match find_nearest(key, MEMBERS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", MEMBERS.join(", ")),
            };
            let place = format!("{}.{key}", self.place);
            self.report.add_warning(
                self.entry.line,
                Some(&place),
                format!("unknown key, ignored; {hint}"),
            );
        }
        let member = |key: &str| {
            members
                .iter()
                .find(|(known, _)| known == key)
                .map_or(&PolicyValue::Null, |(_, value)| value)
        };
        // All members are read before the first error returns, so that all errors are reported.
        let description = self.read_description(member("description"));
        let schema = self.read_schema(member("schema"));
        let run = self.read_run_line(member("run"));
        let repeatable = self.read_repeatable(member("repeatable"));
        Some(CommandDef {
            name: name.to_owned(),
            description: description?,
            schema: schema?,
            run: run?,
            repeatable: repeatable?,
        })
    }

    fn read_description(&mut self, value: &PolicyValue) -> Option<String> {
        match value {
            PolicyValue::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            other => {
                self.report_wrong(".description", "text that is not empty", &other.to_string())
            }
        }
    }

    fn read_schema(&mut self, value: &PolicyValue) -> Option<serde_json::Value> {
        if *value == PolicyValue::Null {
            return Some(json!({"type": "object"}));
        }
        match to_json(value) {
            Some(schema) if schema.get("type").is_some_and(|kind| kind == "object") => Some(schema),
            _ => self.report_wrong(
                ".schema",
                "a JSON Schema with `type: object`",
                &value.to_string(),
            ),
        }
    }

    fn read_run_line(&mut self, value: &PolicyValue) -> Option<RunLine> {
        const ALLOWED: &str = "a command line, or a list of a program and its arguments";
        let good = |text: &str| !text.trim().is_empty() && !text.contains('\0');
        match value {
            PolicyValue::Text(line) if good(line) => Some(RunLine::Shell(line.clone())),
            PolicyValue::List(items) => {
                let texts = items.iter().map(|item| match item {
                    PolicyValue::Text(text) if !text.contains('\0') => Some(text.clone()),
                    PolicyValue::Int(number) => Some(number.to_string()),
                    _ => None,
                });
                match texts.collect::<Option<Vec<String>>>() {
                    Some(program) if program.first().is_some_and(|first| good(first)) => {
                        Some(RunLine::Program(program))
                    }
                    _ => self.report_wrong(".run", ALLOWED, &value.to_string()),
                }
            }
            other => self.report_wrong(".run", ALLOWED, &other.to_string()),
        }
    }

    fn read_repeatable(&mut self, value: &PolicyValue) -> Option<bool> {
        match value {
            PolicyValue::Null => Some(false),
            PolicyValue::Bool(repeatable) => Some(*repeatable),
            other => self.report_wrong(".repeatable", "true or false", &other.to_string()),
        }
    }

    fn report_wrong<T>(&mut self, member: &str, allowed: &str, found: &str) -> Option<T> {
        let key = format!("{}{member}", self.place);
        let entry = FrontMatterEntry { key, line: self.entry.line, value: PolicyValue::Null };
        self.report.add_value_error(&entry, allowed, found);
        None
    }
}

/// Converts a value to JSON; `None` for numbers that JSON cannot represent.
fn to_json(value: &PolicyValue) -> Option<serde_json::Value> {
    Some(match value {
        PolicyValue::Null => serde_json::Value::Null,
        PolicyValue::Bool(value) => json!(value),
        PolicyValue::Int(number) => json!(i64::try_from(*number).ok()?),
        PolicyValue::Float(number) => serde_json::Number::from_f64(*number)?.into(),
        PolicyValue::Text(text) => json!(text),
        PolicyValue::List(items) => items.iter().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        PolicyValue::Map(members) => members
            .iter()
            .map(|(key, value)| Some((key.clone(), to_json(value)?)))
            .collect::<Option<Map<_, _>>>()?
            .into(),
    })
}
