//! The names of MCP servers' tools in `tools`: `mcp__SERVER__TOOL`, and `mcp__SERVER` or
//! `mcp__SERVER__*` for all tools of a server, as in the permissions and `tools` of Claude Code.

use softland_session::core::find_nearest;

/// The prefix of the names of all tools of servers.
const PREFIX: &str = "mcp__";

/// The number of tools that a message names.
const NAMED: usize = 20;

/// Splits a name into the server and the tool; no tool means all tools of the server.
pub(super) fn split_name(name: &str) -> Option<(&str, Option<&str>)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (server, tool) = match rest.split_once("__") {
        None | Some((_, "*")) => (rest.trim_end_matches("__*"), None),
        Some((server, tool)) => (server, Some(tool)),
    };
    (!server.is_empty() && tool != Some("")).then_some((server, tool))
}

/// Returns true if a tool belongs to the server.
pub(super) fn is_tool_of(name: &str, server: &str) -> bool {
    split_name(name).is_some_and(|(of, tool)| of == server && tool.is_some())
}

/// Returns the message about a name that no tool has.
pub(super) fn not_found_message(name: &str, server: &str, there: &[String]) -> String {
    if there.is_empty() {
        return format!(
            "`{name}`: no server `{server}` offers tools here (--mcp FILE names servers)"
        );
    }
    let near = find_nearest(name, there.iter().map(String::as_str));
    let hint = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let named: Vec<&str> = there.iter().take(NAMED).map(String::as_str).collect();
    let more = match there.len().checked_sub(NAMED + 1) {
        Some(more) => format!(" and {} more", more + 1),
        None => String::new(),
    };
    format!("unknown tool `{name}`; {hint}server `{server}` has {}{more}", named.join(", "))
}
