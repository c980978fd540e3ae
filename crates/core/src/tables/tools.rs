//! The effect of a tool, by its name and, if the name does not decide, by its arguments.
//!
//! Only names that a real client or library uses for one purpose are listed. A verb in an unknown
//! name (`get_…`) proves nothing, and the tool is left unknown, except for names that say that they
//! wait. Annotations of MCP tools and a user's `loop_keys` go before this table.

use super::{FoldedName, TableWord, fold_name, has_folded, has_name, shell_kind, w, word_lengths};
use crate::identity;

/// The effect of a tool's call on the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolKind {
    /// Reads, and changes nothing.
    Reads,
    /// Changes something.
    Writes,
    /// Waits, or asks about progress.
    Polls,
    /// Runs a command line, which decides the effect ([`shell_kind`]).
    Shell,
}

/// A known tool.
pub(super) struct ToolRow {
    /// Folded name.
    pub(super) name: &'static str,
    pub(super) kind: ToolKind,
    /// The program that the tool is from.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    pub(super) source: &'static str,
}

const fn reads(name: &'static str, source: &'static str) -> ToolRow {
    ToolRow { name, kind: ToolKind::Reads, source }
}
const fn writes(name: &'static str, source: &'static str) -> ToolRow {
    ToolRow { name, kind: ToolKind::Writes, source }
}
const fn polls(name: &'static str, source: &'static str) -> ToolRow {
    ToolRow { name, kind: ToolKind::Polls, source }
}
const fn shell(name: &'static str, source: &'static str) -> ToolRow {
    ToolRow { name, kind: ToolKind::Shell, source }
}

/// Known tools, sorted by folded name.
#[rustfmt::skip]
pub(super) static TOOLS: &[ToolRow] = &[
    writes("applydiff", "Roo Code apply_diff"),
    writes("applypatch", "Codex apply_patch"),
    polls("awaitshell", "Cursor"),
    shell("bash", "Claude Code Bash, opencode, Anthropic bash tool"),
    polls("bashoutput", "Claude Code BashOutput (to 2.0)"),
    polls("browserwait", "browser tools"),
    polls("browserwaitfor", "Playwright MCP browser_wait_for"),
    reads("cat", "agents that wrap shell tools"),
    polls("checkstatus", "generic job tools"),
    reads("codebasesearch", "Cursor, Roo Code codebase_search"),
    polls("commandstatus", "Windsurf command_status"),
    shell("containerexec", "OpenAI container.exec"),
    writes("copyfile", "MCP filesystem servers"),
    writes("create", "Copilot CLI create"),
    writes("createdirectory", "MCP filesystem create_directory"),
    writes("createfile", "VS Code create_file"),
    writes("deletefile", "Cursor delete_file"),
    reads("directorytree", "MCP filesystem directory_tree"),
    writes("edit", "Claude Code Edit, opencode edit"),
    writes("editfile", "softland edit_file, Cursor, MCP filesystem"),
    shell("exec", "OpenClaw exec"),
    shell("execcommand", "Codex exec_command"),
    shell("executebash", "OpenHands execute_bash"),
    shell("executecommand", "Cline, Roo Code execute_command"),
    reads("fetch", "MCP fetch server"),
    reads("fetchwebpage", "VS Code fetch_webpage"),
    reads("filesearch", "Cursor, VS Code file_search"),
    reads("findbyname", "Windsurf find_by_name"),
    reads("getfileinfo", "MCP filesystem get_file_info"),
    polls("getjobstatus", "generic job tools"),
    polls("getterminaloutput", "VS Code get_terminal_output"),
    reads("glob", "Claude Code Glob, opencode, Gemini CLI, softland"),
    reads("grep", "Claude Code Grep, opencode, softland"),
    reads("grepsearch", "Cursor, VS Code, Gemini CLI grep_search"),
    reads("head", "agents that wrap shell tools"),
    reads("httpget", "softland http_get"),
    writes("inserteditintofile", "VS Code insert_edit_into_file"),
    reads("list", "opencode list"),
    reads("listcodedefinitionnames", "Cline list_code_definition_names"),
    reads("listdir", "Cursor, Codex, softland list_dir"),
    reads("listdirectory", "Gemini CLI, MCP filesystem list_directory"),
    reads("listdirectorywithsizes", "MCP filesystem list_directory_with_sizes"),
    reads("listfiles", "Cline, Roo Code list_files"),
    shell("localshell", "OpenAI local_shell"),
    reads("ls", "Claude Code LS"),
    reads("lsp", "Claude Code LSP"),
    writes("movefile", "MCP filesystem move_file"),
    writes("multiedit", "Claude Code MultiEdit (to 2.0)"),
    writes("notebookedit", "Claude Code NotebookEdit"),
    reads("notebookread", "Claude Code NotebookRead (to 2.0)"),
    writes("patch", "opencode patch"),
    polls("poll", "generic job tools"),
    shell("powershell", "Claude Code PowerShell, Copilot CLI"),
    reads("read", "Claude Code Read, opencode read"),
    polls("readbackgroundprocess", "generic process tools"),
    polls("readbash", "Copilot CLI read_bash"),
    reads("readfile", "Gemini CLI, Cursor, Cline, softland read_file"),
    reads("readmanyfiles", "Gemini CLI read_many_files"),
    reads("readmultiplefiles", "MCP filesystem read_multiple_files"),
    polls("readpowershell", "Copilot CLI read_powershell"),
    polls("readterminal", "terminal tools"),
    reads("readtextfile", "MCP filesystem read_text_file"),
    writes("replace", "Gemini CLI replace"),
    writes("replaceinfile", "Cline replace_in_file"),
    writes("replacestringinfile", "VS Code replace_string_in_file"),
    reads("ripgrep", "agents that wrap shell tools"),
    shell("runcommand", "Windsurf run_command"),
    shell("runinterminal", "VS Code run_in_terminal"),
    shell("runshellcommand", "Gemini CLI run_shell_command"),
    shell("runterminalcmd", "Cursor run_terminal_cmd"),
    reads("searchcontent", "agents that wrap shell tools"),
    reads("searchfilecontent", "Gemini CLI search_file_content (to 0.30)"),
    reads("searchfiles", "Cline, MCP filesystem search_files"),
    writes("searchreplace", "Cursor search_replace"),
    reads("semanticsearch", "VS Code semantic_search"),
    shell("shell", "softland shell, Codex shell, LangChain shell"),
    shell("shellcommand", "Codex shell_command"),
    polls("sleep", "generic job tools"),
    writes("strreplace", "OpenHands str_replace"),
    reads("tail", "agents that wrap shell tools"),
    polls("taskoutput", "Claude Code TaskOutput"),
    shell("terminal", "OpenHands SDK terminal, Zed terminal"),
    reads("toolsearch", "Claude Code ToolSearch"),
    reads("tree", "agents that wrap shell tools"),
    reads("view", "Copilot CLI view, crush view"),
    reads("viewfile", "Windsurf view_file"),
    reads("viewimage", "Codex view_image"),
    polls("wait", "Codex wait, generic job tools"),
    polls("waitagent", "Codex wait_agent"),
    polls("waitfor", "browser tools wait_for"),
    reads("webfetch", "Claude Code WebFetch, opencode webfetch"),
    reads("websearch", "Claude Code WebSearch, opencode, Codex web_search"),
    writes("write", "Claude Code Write, opencode write"),
    writes("writefile", "Gemini CLI, MCP filesystem, softland write_file"),
    writes("writestdin", "Codex write_stdin (a poll when it writes nothing)"),
    writes("writetofile", "Cline, Roo Code write_to_file"),
];

/// Tools that do several things: (folded name, argument, its value, kind, source).
pub(super) static BY_ARGUMENT: &[(&str, &str, &str, ToolKind, &str)] = &[
    ("computer", "action", "wait", ToolKind::Polls, "Anthropic computer tool, Claude in Chrome"),
    ("computercall", "action", r#"{"type":"wait"}"#, ToolKind::Polls, "OpenAI computer tool"),
    ("computercall", "action", r#"{"type": "wait"}"#, ToolKind::Polls, "OpenAI computer tool"),
    (
        "executebash",
        "command",
        "",
        ToolKind::Polls,
        "OpenHands: an empty command reads more output",
    ),
    ("memory", "command", "view", ToolKind::Reads, "Anthropic memory tool"),
    ("strreplacebasededittool", "command", "view", ToolKind::Reads, "Anthropic text editor tool"),
    (
        "strreplaceeditor",
        "command",
        "view",
        ToolKind::Reads,
        "OpenHands, Anthropic text editor tool",
    ),
    (
        "terminal",
        "command",
        "",
        ToolKind::Polls,
        "OpenHands SDK: an empty command reads more output",
    ),
    (
        "writestdin",
        "chars",
        "",
        ToolKind::Polls,
        "Codex: write_stdin without characters reads more output",
    ),
];

/// Tools for which the rows above know one value; any other value changes something.
pub(super) static ELSE_WRITES: &[TableWord] = &[
    w("memory", "Anthropic memory tool"),
    w("strreplacebasededittool", "Anthropic text editor tool"),
    w("strreplaceeditor", "OpenHands, Anthropic text editor tool"),
];

/// Tools that read one file, sorted by folded name.
pub(super) static FILE_READERS: &[TableWord] = &[
    w("cat", "agents that wrap shell tools"),
    w("notebookread", "Claude Code NotebookRead (to 2.0)"),
    w("read", "Claude Code Read, opencode read"),
    w("readfile", "Gemini CLI, Cursor, Cline, softland read_file"),
    w("readtextfile", "MCP filesystem read_text_file"),
    w("view", "Copilot CLI view, crush view"),
    w("viewfile", "Windsurf view_file"),
];

/// Tools that start a sub-agent, sorted by folded name.
pub(super) static AGENT_TOOLS: &[TableWord] = &[
    w("agent", "Claude Code Agent (from 2.1)"),
    w("delegatetoagent", "Gemini CLI delegate_to_agent"),
    w("newtask", "Cline, Roo Code new_task"),
    w("runsubagent", "VS Code runSubagent"),
    w("spawnagent", "Codex spawn_agent"),
    w("task", "Claude Code Task, opencode task, Qwen Code task"),
];

/// Arguments that hold a command line; the first that is found counts.
static COMMAND_ARGUMENTS: &[&str] = &["command", "cmd", "CommandLine", "script", "commands"];

/// Tools whose call is the run's answer (`docs/landing.md`).
pub(super) static ANSWER_TOOLS: &[TableWord] = &[
    w("attemptcompletion", "Cline, Roo Code attempt_completion"),
    w("finalanswer", "smolagents final_answer"),
    w("finalresult", "pydantic-ai final_result"),
    w("finish", "OpenHands finish"),
    w("respond", "softland respond, tau-bench respond"),
    w("setmodelresponse", "Google ADK set_model_response"),
    w("structuredoutput", "Claude Code StructuredOutput, Qwen Code structured_output"),
    w("submit", "SWE-agent submit, inspect_ai submit"),
];

/// The beginnings of shell commands that end the run of the client that runs them: the client takes
/// the output of the command as the answer.
static ENDING_COMMANDS: &[TableWord] = &[w(
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    "mini-swe-agent, which submits at an output that begins with these words",
)];

/// Arguments that are written for a person who watches, in every tool.
pub(super) static PRESENTATION: &[TableWord] = &[
    w("explanation", "Cursor run_terminal_cmd, VS Code run_in_terminal"),
    w("justification", "Codex exec_command"),
    w("maxoutputtokens", "Codex exec_command"),
    w("reasoning", "LangChain and CrewAI tools with a reasoning argument"),
    w("securityrisk", "OpenHands SDK security_risk"),
    w("sideeffects", "Antigravity SideEffects"),
    w("taskprogress", "Cline task_progress"),
    w("thought", "CrewAI, OpenHands, ReAct tools"),
    w("thoughts", "ReAct tools"),
    w("timeout", "Claude Code Bash"),
    w("timeoutms", "Codex shell"),
    w("timeoutseconds", "Copilot CLI"),
    w("timeoutsecs", "goose shell"),
    w("toolaction", "Antigravity toolAction"),
    w("toolsummary", "Antigravity toolSummary"),
    w("waitforprevioustools", "Antigravity waitForPreviousTools"),
    w("yieldtimems", "Codex exec_command"),
];

/// Arguments that are written for a person who watches, in tools that read, poll or run commands.
/// In other tools (`create_issue {title, description}`) they are the content.
pub(super) static PRESENTATION_BUT_IN_WRITES: &[TableWord] = &[
    w("activeform", "Claude Code TaskCreate"),
    w("description", "Claude Code Bash, opencode bash"),
    w("intent", "Copilot CLI report_intent"),
    w("reason", "browser and retrieval tools"),
    w("summary", "retrieval tools"),
    w("title", "retrieval tools"),
];

/// Returns the tool's own name: `mcp__SERVER__TOOL` and `functions.TOOL` without the parts before
/// it.
#[must_use]
pub fn bare_name(tool: &str) -> &str {
    let tool = tool.trim();
    if let Some(rest) = tool.strip_prefix("mcp__") {
        return rest.split_once("__").map_or(rest, |(_, name)| name);
    }
    tool.strip_prefix("functions.").unwrap_or(tool)
}

/// Returns the effect of a tool of this name, if it is known.
#[must_use]
pub fn kind_of_tool(tool: &str) -> Option<ToolKind> {
    let name = bare_name(tool);
    kind_of_folded(name, FoldedName::from_name(name).as_ref())
}

fn kind_of_folded(name: &str, folded: Option<&FoldedName>) -> Option<ToolKind> {
    let known = folded.and_then(|folded| {
        let row = TOOLS.binary_search_by(|row| folded.compare_word(row.name)).ok();
        row.and_then(|at| TOOLS.get(at)).map(|row| row.kind)
    });
    known.or_else(|| says_that_it_waits(name).then_some(ToolKind::Polls))
}

/// Returns the effect of a call: [`kind_of_tool`] its tool, or the effect of its arguments if they
/// decide. `argument` returns a text argument by its name. A shell call whose command is unknown or
/// missing stays [`ToolKind::Shell`].
pub fn kind_of_call<'a>(
    tool: &str,
    argument: impl Fn(&str) -> Option<&'a str>,
) -> Option<ToolKind> {
    let name = bare_name(tool);
    let folded = FoldedName::from_name(name);
    if let Some(folded) = &folded {
        for (row, key, value, kind, _) in BY_ARGUMENT {
            let same = folded.is_word(row);
            if same && argument(key).is_some_and(|given| given.trim() == *value) {
                return Some(*kind);
            }
        }
        if has_folded(ELSE_WRITES, folded) {
            return Some(ToolKind::Writes);
        }
    }
    // A name that is wrapped twice is unwrapped once more.
    let kind = match bare_name(name) == name {
        true => kind_of_folded(name, folded.as_ref())?,
        false => kind_of_tool(name)?,
    };
    if kind != ToolKind::Shell {
        return Some(kind);
    }
    let command = COMMAND_ARGUMENTS.iter().find_map(|key| argument(key));
    Some(command.and_then(shell_kind).unwrap_or(ToolKind::Shell))
}

/// Returns true if a tool is known to read one file.
#[must_use]
pub fn reads_file(tool: &str) -> bool {
    has_name(FILE_READERS, bare_name(tool))
}

/// Returns true if a tool is known to start a sub-agent.
#[must_use]
pub fn is_agent_tool(tool: &str) -> bool {
    has_name(AGENT_TOOLS, bare_name(tool))
}

/// Returns true if a tool is known to take the final answer.
#[must_use]
pub fn is_answer_tool(tool: &str) -> bool {
    has_name(ANSWER_TOOLS, bare_name(tool))
}

/// Returns the words by which a shell command ends its client's run, as they stand in the JSON of
/// the call's arguments, if the command does.
#[must_use]
pub fn ending_command(tool: &str, input: &str) -> Option<&'static str> {
    let begins = |row: &&TableWord| {
        let given = COMMAND_ARGUMENTS.iter().find_map(|key| identity::find_member(input, key));
        given.is_some_and(|command| command.trim_start().starts_with(row.word))
    };
    let found = ENDING_COMMANDS.iter().find(|row| input.contains(row.word) && begins(row));
    found.filter(|_| kind_of_tool(tool) == Some(ToolKind::Shell)).map(|row| row.word)
}

/// Returns true if an argument of a tool does not change the effect of the call.
#[must_use]
pub fn is_presentation_argument(tool: &str, argument: &str) -> bool {
    // This is called for every argument of every call.
    static ALL: [u64; 26] = word_lengths(PRESENTATION);
    static BUT_IN_WRITES: [u64; 26] = word_lengths(PRESENTATION_BUT_IN_WRITES);
    if FoldedName::find_within(&ALL, argument).is_some_and(|name| has_folded(PRESENTATION, &name)) {
        return true;
    }
    let name = FoldedName::find_within(&BUT_IN_WRITES, argument);
    name.is_some_and(|name| has_folded(PRESENTATION_BUT_IN_WRITES, &name))
        && matches!(kind_of_tool(tool), Some(ToolKind::Reads | ToolKind::Polls | ToolKind::Shell))
}

/// Returns true for `wait_…`, `poll_…`, and `get_…status`, `check_…status`, `…_status` of jobs.
fn says_that_it_waits(name: &str) -> bool {
    let starts = |word: &str| fold_name(name).take(word.len()).eq(word.bytes());
    let ends = |word: &str| {
        let skip = fold_name(name).count().checked_sub(word.len());
        skip.is_some_and(|skip| fold_name(name).skip(skip).eq(word.bytes()))
    };
    starts("waitfor")
        || starts("waituntil")
        || starts("poll")
        || (ends("status") && (starts("get") || starts("check") || starts("query")))
}
