//! Which tools a name in a restriction is about: ours, by any name that programs have for them, and
//! those of servers, with `*` and `?` in the name as wildcards.

use softland_session::core::find_nearest;

use super::{servers, tools};

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

/// OpenCode's names of tools, where they differ from ours.
const OPENCODE: [(&str, &str); 9] = [
    ("read", "read_file"),
    ("write", "write_file"),
    ("edit", "edit_file"),
    ("patch", "edit_file"),
    ("apply_patch", "edit_file"),
    ("bash", "shell"),
    ("list", "list_dir"),
    ("webfetch", "http_get"),
    ("task", "agent"),
];

/// Tools of Claude Code (its tools reference) and OpenCode that no agent has here, and OpenCode's
/// permissions that are about no tool of their own (read 2026-11-21).
const ELSEWHERE: [&str; 23] = [
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "KillBash",
    "KillShell",
    "LSP",
    "Monitor",
    "NotebookEdit",
    "NotebookRead",
    "PowerShell",
    "Skill",
    "SlashCommand",
    "TaskOutput",
    "TaskStop",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "WebSearch",
    "codesearch",
    "doom_loop",
    "external_directory",
    "question",
];

/// The part of a tool that a name is about. Only all tools of a server are more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Nothing,
    Part,
    Whole,
}

/// Returns our name of a tool that OpenCode or Claude Code names.
pub(super) fn own_tool(name: &str) -> String {
    let found = OPENCODE.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name));
    found.map_or_else(|| tools::own_name(name), |(_, own)| (*own).to_owned())
}

/// Returns the part of a tool that a name is about. `permits` is true for names of permissions,
/// one of which may be about several tools.
pub(super) fn reach_of(name: &str, tool: &str, permits: bool) -> Reach {
    let of_server = servers::split_name(tool);
    if let Some((server, one)) = of_server {
        if let Some((of, None)) = servers::split_name(name)
            && of == server
        {
            return Reach::Whole;
        }
        return match one {
            None => reach_of_server(name, server),
            Some(one) => {
                is_about(is_match(name, tool) || is_match(name, &format!("{server}_{one}")))
            }
        };
    }
    let permission = PERMISSIONS.iter().filter(|(_, own)| permits && own.contains(&tool));
    let theirs = OPENCODE.iter().filter(|(_, own)| *own == tool).map(|(theirs, _)| *theirs);
    let mut names = tools::names_of(tool).chain(theirs).chain(permission.map(|(of, _)| *of));
    is_about(names.any(|known| is_match(name, known)))
}

fn is_about(whole: bool) -> Reach {
    if whole { Reach::Whole } else { Reach::Nothing }
}

/// Returns the part of all tools of a server that a name is about. OpenCode joins the names of
/// server and tool with one underscore.
fn reach_of_server(name: &str, server: &str) -> Reach {
    let fixed = name.find(['*', '?']).map_or(name, |at| name.get(..at).unwrap_or_default());
    let mut reach = Reach::Nothing;
    for prefix in [format!("mcp__{server}__"), format!("{server}_")] {
        // Only wildcards match these characters.
        if is_match(name, &format!("{prefix}\0")) && is_match(name, &format!("{prefix}\0\0")) {
            return Reach::Whole;
        }
        let within = fixed.len() > prefix.len() && fixed.starts_with(&prefix);
        if within || (fixed != name && prefix.starts_with(fixed)) {
            reach = Reach::Part;
        }
    }
    reach
}

/// What a name that no tool has may mean.
pub(super) enum UnknownName {
    /// It is almost the name of this tool.
    Near(&'static str),
    /// A tool of another program.
    Elsewhere,
}

/// Returns what a name in a restriction means if no tool has it; `None` if one has.
pub(super) fn unknown_name(name: &str, permits: bool) -> Option<UnknownName> {
    if servers::split_name(name).is_some()
        || tools::known_tools().any(|tool| reach_of(name, tool, permits) == Reach::Whole)
    {
        return None;
    }
    if ELSEWHERE.iter().any(|tool| tool.eq_ignore_ascii_case(name)) {
        return Some(UnknownName::Elsewhere);
    }
    let lower = name.to_ascii_lowercase();
    let theirs = || OPENCODE.iter().map(|(theirs, _)| *theirs).filter(|theirs| theirs.len() > 3);
    let near = tools::guess_tool(&lower)
        .or_else(|| find_nearest(&lower, theirs()))
        .or_else(|| theirs().find(|known| tools::is_swapped(&lower, known)));
    Some(near.map_or(UnknownName::Elsewhere, UnknownName::Near))
}

/// Returns true if a name is this one, without regard to case. `*` in it stands for any characters,
/// and `?` for one.
fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut taken) = (0, 0);
    let mut star = None;
    while let Some(byte) = name.get(taken) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, taken));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted.eq_ignore_ascii_case(byte) => {
                at += 1;
                taken += 1;
            }
            _ => match star {
                // The last star takes one more.
                Some((star_at, from)) => {
                    star = Some((star_at, from + 1));
                    (at, taken) = (star_at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|left| *left == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c142_a_name_is_about_the_tools_that_it_matches() {
        use Reach::{Nothing, Part, Whole};
        for (name, tool, permits, wanted) in [
            ("bash", "shell", false, Whole),
            ("BASH", "shell", false, Whole),
            ("shell", "shell", true, Whole),
            ("bash", "read_file", false, Nothing),
            ("edit", "write_file", false, Nothing),
            ("edit", "write_file", true, Whole),
            ("write", "write_file", true, Whole),
            ("patch", "edit_file", true, Whole),
            ("w*", "write_file", false, Whole),
            ("w*", "http_get", false, Whole),
            ("w*", "read_file", false, Nothing),
            ("write_*", "write_file", false, Whole),
            ("r?ad", "read_file", false, Whole),
            ("?", "read_file", false, Nothing),
            ("*", "mcp__s", false, Whole),
            ("mcp__s", "mcp__s", false, Whole),
            ("mcp__s__*", "mcp__s", false, Whole),
            ("mcp__s__?", "mcp__s", false, Part),
            ("mcp__s__t", "mcp__s", false, Part),
            ("mcp__s", "mcp__s__t", false, Whole),
            ("mcp__*", "mcp__s__t", false, Whole),
            ("s_*", "mcp__s", false, Whole),
            ("s_t", "mcp__s__t", false, Whole),
            ("*_delete", "mcp__s", false, Part),
            ("mcp__so__*", "mcp__s", false, Nothing),
            ("mcp__t", "mcp__s", false, Nothing),
            ("read", "mcp__s", false, Nothing),
        ] {
            assert_eq!(reach_of(name, tool, permits), wanted, "{name} {tool}");
        }
    }
}
