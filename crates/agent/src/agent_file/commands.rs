//! The keys `commands` and `http_allow`: programs that are tools, and hosts.

use serde_json::{Map, json};
use softland_session::core::nearest;
use softland_session::core::policy::Value;

use super::Report;
use super::front_matter::Entry;
use crate::crew::AGENT_TOOL;
use crate::tool::{cut_line, is_valid_name};
use crate::tools::{BUILT_IN, CommandDef, Host, RunLine};

/// The keys that a command may have.
const MEMBERS: [&str; 4] = ["description", "schema", "run", "repeatable"];

/// Reads the valid commands of an entry. The other commands are reported.
pub(super) fn read(entry: &Entry, report: &mut Report) -> Vec<CommandDef> {
    match &entry.value {
        Value::Null => Vec::new(),
        Value::Map(members) => {
            let mut one = |(name, value): &(String, Value)| {
                Reader { entry, report, place: format!("commands.{name}") }.command(name, value)
            };
            members.iter().filter_map(&mut one).collect()
        }
        other => {
            report.value(
                entry,
                "names with {description, schema, run, repeatable}",
                &other.to_string(),
            );
            Vec::new()
        }
    }
}

/// Reads the hosts of `http_allow`.
pub(super) fn hosts(entry: &Entry, report: &mut Report) -> Vec<Host> {
    const ALLOWED: &str = "a list of hosts: docs.rs, localhost:3000 (with a port that is not the \
                           scheme's), *.example.com (all below it), or * (every public one)";
    let texts = match &entry.value {
        Value::Null => return Vec::new(),
        Value::Text(text) => text.split(',').map(str::trim).map(Some).collect(),
        Value::List(items) => items
            .iter()
            .map(|item| match item {
                Value::Text(text) => Some(text.trim()),
                _ => None,
            })
            .collect(),
        _ => vec![None],
    };
    let mut hosts = Vec::new();
    for text in texts {
        match text.map(str::parse) {
            Some(Ok(host)) => hosts.push(host),
            Some(Err(())) => report.value(
                entry,
                ALLOWED,
                &format!("`{}`", cut_line(text.unwrap_or_default(), 80)),
            ),
            None => report.value(entry, ALLOWED, "something else"),
        }
    }
    hosts
}

/// Reads one command.
struct Reader<'a> {
    entry: &'a Entry,
    report: &'a mut Report,
    /// The key, for problems.
    place: String,
}

impl Reader<'_> {
    fn command(&mut self, name: &str, value: &Value) -> Option<CommandDef> {
        if !is_valid_name(name) {
            let allowed = "named with 1 to 64 of a-z A-Z 0-9 _ -";
            return self.wrong("", allowed, &format!("`{}`", cut_line(name, 80)));
        }
        if BUILT_IN.contains(&name) || name == AGENT_TOOL || name.starts_with("mcp__") {
            return self.wrong(
                "",
                "named otherwise than softland's own tools",
                &format!("`{name}`"),
            );
        }
        let Value::Map(members) = value else {
            return self.wrong("", "{description, schema, run, repeatable}", &value.to_string());
        };
        for (key, _) in members.iter().filter(|(key, _)| !MEMBERS.contains(&key.as_str())) {
            let hint = match nearest(key, MEMBERS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", MEMBERS.join(", ")),
            };
            let place = format!("{}.{key}", self.place);
            self.report.warn(
                self.entry.line,
                Some(&place),
                format!("unknown key, ignored; {hint}"),
            );
        }
        let member = |key: &str| {
            members.iter().find(|(known, _)| known == key).map_or(&Value::Null, |(_, value)| value)
        };
        // All members are read before the first error returns, so that all errors are reported.
        let description = self.description(member("description"));
        let schema = self.schema(member("schema"));
        let run = self.run(member("run"));
        let repeatable = self.repeatable(member("repeatable"));
        Some(CommandDef {
            name: name.to_owned(),
            description: description?,
            schema: schema?,
            run: run?,
            repeatable: repeatable?,
        })
    }

    fn description(&mut self, value: &Value) -> Option<String> {
        match value {
            Value::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            other => self.wrong(".description", "text that is not empty", &other.to_string()),
        }
    }

    fn schema(&mut self, value: &Value) -> Option<serde_json::Value> {
        if *value == Value::Null {
            return Some(json!({"type": "object"}));
        }
        match json_of(value) {
            Some(schema) if schema.get("type").is_some_and(|kind| kind == "object") => Some(schema),
            _ => self.wrong(".schema", "a JSON Schema with `type: object`", &value.to_string()),
        }
    }

    fn run(&mut self, value: &Value) -> Option<RunLine> {
        const ALLOWED: &str = "a command line, or a list of a program and its arguments";
        let good = |text: &str| !text.trim().is_empty() && !text.contains('\0');
        match value {
            Value::Text(line) if good(line) => Some(RunLine::Shell(line.clone())),
            Value::List(items) => {
                let texts = items.iter().map(|item| match item {
                    Value::Text(text) if !text.contains('\0') => Some(text.clone()),
                    Value::Int(number) => Some(number.to_string()),
                    _ => None,
                });
                match texts.collect::<Option<Vec<String>>>() {
                    Some(program) if program.first().is_some_and(|first| good(first)) => {
                        Some(RunLine::Program(program))
                    }
                    _ => self.wrong(".run", ALLOWED, &value.to_string()),
                }
            }
            other => self.wrong(".run", ALLOWED, &other.to_string()),
        }
    }

    fn repeatable(&mut self, value: &Value) -> Option<bool> {
        match value {
            Value::Null => Some(false),
            Value::Bool(repeatable) => Some(*repeatable),
            other => self.wrong(".repeatable", "true or false", &other.to_string()),
        }
    }

    fn wrong<T>(&mut self, member: &str, allowed: &str, found: &str) -> Option<T> {
        let key = format!("{}{member}", self.place);
        let entry = Entry { key, line: self.entry.line, value: Value::Null };
        self.report.value(&entry, allowed, found);
        None
    }
}

/// Converts a value to JSON; `None` for numbers that JSON cannot represent.
fn json_of(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => json!(value),
        Value::Int(number) => json!(i64::try_from(*number).ok()?),
        Value::Float(number) => serde_json::Number::from_f64(*number)?.into(),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(json_of).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(members) => members
            .iter()
            .map(|(key, value)| Some((key.clone(), json_of(value)?)))
            .collect::<Option<Map<_, _>>>()?
            .into(),
    })
}
