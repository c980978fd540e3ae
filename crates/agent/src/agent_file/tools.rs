//! The `tools` key: a list or comma-separated names, each known here or refused by name.

use softland_session::core::policy::PolicyValue;

use super::front_matter::FrontMatterEntry;
use super::{Diagnostics, servers};
use crate::sub_agents::AGENT_TOOL;
use crate::tool::cut_line;
use crate::tools::{BUILT_IN, BY_DEFAULT, CommandDef};
use softland_session::core::find_nearest;

const ALLOWED: &str = "a list of tool names, or names with commas between";

/// Claude Code's names of tools that do the same as ours (its tools reference, read 2026-11-21).
const ALIASES: [(&str, &str); 11] = [
    ("Read", "read_file"),
    ("Grep", "grep"),
    ("Glob", "glob"),
    ("LS", "list_dir"),
    ("Write", "write_file"),
    ("Edit", "edit_file"),
    ("MultiEdit", "edit_file"),
    ("Bash", "shell"),
    ("WebFetch", "http_get"),
    ("Agent", "agent"),
    ("Task", "agent"),
];

/// Reads the tools that an entry names; `None` if it names none or is invalid. Commands of the file
/// may be named, and are tools of it in any case.
pub(super) fn read_tools(
    entry: &FrontMatterEntry,
    commands: &[CommandDef],
    report: &mut Diagnostics,
) -> Option<Vec<String>> {
    let names = read_names(entry, report)?;
    let mut tools: Vec<String> = Vec::new();
    for name in names {
        if commands.iter().any(|command| command.name == name) {
            continue;
        }
        if let Some(tool) = restricted_name(&name) {
            let message = format!(
                "`{}` allows single calls of `{tool}` only, which is not supported; write `{tool}` \
                 for all of them, or make a tool of the command by `commands`",
                cut_line(&name, 60)
            );
            report.add_error(Some(entry.line), Some("tools"), message);
            continue;
        }
        let of_server = servers::split_name(&name).map(|_| name.as_str());
        let Some(tool) = of_server.or_else(|| resolve_name(&name, entry, report)) else { continue };
        if tools.iter().any(|known| known == tool) {
            report.add_warning(entry.line, Some("tools"), format!("`{tool}` is named twice"));
        } else {
            tools.push(tool.to_owned());
        }
    }
    Some(tools)
}

/// Returns the tools of an agent whose file names none.
pub(super) fn default_tools() -> Vec<String> {
    BY_DEFAULT.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the tool of a name that allows or denies only some of its calls, such as
/// `Bash(git:*)`; `None` for any other name.
pub(super) fn restricted_name(name: &str) -> Option<String> {
    let (tool, calls) = name.split_once('(')?;
    let all = matches!(calls.trim_end_matches(')').trim(), "" | "*");
    (!all).then(|| own_name(tool))
}

/// Returns true for a tool of ours, or of a server of MCP.
pub(super) fn is_known(name: &str) -> bool {
    BUILT_IN.contains(&name) || name == AGENT_TOOL || servers::split_name(name).is_some()
}

/// Returns our name of a tool.
pub(super) fn own_name(name: &str) -> String {
    let bare = name.split('(').next().unwrap_or_default().trim();
    ALIASES.iter().find(|(alias, _)| *alias == bare).map_or(bare, |(_, name)| name).to_owned()
}

/// Returns the names that a tool of ours has here and in Claude Code.
pub(super) fn names_of(tool: &str) -> impl Iterator<Item = &str> {
    let theirs = ALIASES.iter().filter(move |(_, own)| *own == tool).map(|(alias, _)| *alias);
    std::iter::once(tool).chain(theirs)
}

/// Reads names of tools; `None` if there are none, or if the entry is invalid.
pub(super) fn read_names(
    entry: &FrontMatterEntry,
    report: &mut Diagnostics,
) -> Option<Vec<String>> {
    let names = match &entry.value {
        PolicyValue::Null => return None,
        PolicyValue::Text(text) => split_names(text),
        PolicyValue::List(items) => {
            let texts = items.iter().map(|item| match item {
                PolicyValue::Text(text) => Some(text.trim().to_owned()),
                _ => None,
            });
            let Some(names) = texts.collect() else {
                report.add_value_error(entry, ALLOWED, "a list with something else in it");
                return None;
            };
            names
        }
        other => {
            report.add_value_error(entry, ALLOWED, &other.to_string());
            return None;
        }
    };
    if names.iter().any(String::is_empty) {
        report.add_value_error(entry, ALLOWED, "an empty name (for no tools at all write [])");
        return None;
    }
    Some(names)
}

/// Splits names at commas, except within parentheses (`Bash(git log, git show)`).
fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.trim().trim_end_matches(',').chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match names.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => names.push(String::new()),
        }
    }
    names.iter().map(|name| name.trim().to_owned()).collect()
}

/// Returns the tool that `given` means.
fn resolve_name(
    given: &str,
    entry: &FrontMatterEntry,
    report: &mut Diagnostics,
) -> Option<&'static str> {
    let line = entry.line;
    let shown = cut_line(given, 60);
    let bare = given.split('(').next().unwrap_or_default().trim();
    let name = ALIASES.iter().find(|(alias, _)| *alias == bare).map_or(bare, |(_, name)| name);
    if let Some(built_in) = known_tools().find(|tool| *tool == name) {
        if built_in != given {
            let message = format!("`{shown}` is taken as `{built_in}`");
            report.add_warning(line, Some("tools"), message);
        }
        return Some(built_in);
    }
    let there = known_tools().collect::<Vec<_>>().join(", ");
    let message = if name.starts_with("mcp__") {
        format!("`{shown}`: an MCP tool is named mcp__SERVER__TOOL, all of a server mcp__SERVER")
    } else {
        let hint = match guess_tool(name) {
            Some(near) => format!("did you mean `{near}`? There are"),
            None => "there are".to_owned(),
        };
        format!("unknown tool `{shown}`; {hint} {there}")
    };
    report.add_error(Some(line), Some("tools"), message);
    None
}

/// Guesses the intended tool from the corrections that the name needs. Two swapped letters are one
/// mistake.
pub(super) fn guess_tool(name: &str) -> Option<&'static str> {
    find_nearest(name, known_tools()).or_else(|| known_tools().find(|tool| is_swapped(name, tool)))
}

pub(super) fn known_tools() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().copied().chain([AGENT_TOOL])
}

pub(super) fn is_swapped(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.chars().collect());
    let differ: Vec<usize> = (0..a.len()).filter(|at| a.get(*at) != b.get(*at)).collect();
    match differ.as_slice() {
        [i, j] => {
            a.len() == b.len() && i + 1 == *j && a.get(*i) == b.get(*j) && a.get(*j) == b.get(*i)
        }
        _ => false,
    }
}
