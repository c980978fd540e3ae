//! Agent files: Markdown whose front matter says what an agent is and may do.
//!
//! Agent files are a superset of the sub-agent files of other coding agents. The keys of those are
//! accepted, and anything that this version cannot do is refused by name, never ignored. Reading a
//! file runs nothing and reads no other file. Every problem names file, line and key, and says what
//! is allowed.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use softland_session::core::policy::{KEYS, KeyError, Policy, PolicyValue};

#[cfg(doc)]
use crate::AGENT_TOOL;
use crate::SubAgents;
use crate::tool::{ToolFormat, cut_line};
use crate::tools::{CommandDef, Host};
use front_matter::FrontMatterEntry;
use softland_session::core::find_nearest;

mod commands;
mod foreign;
mod front_matter;
mod keys;
mod reach;
mod servers;
#[cfg(test)]
mod tests;
mod tool_set;
mod tools;

/// The largest agent file that is read, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The longest name of an agent, in characters.
const NAME_MAX: usize = 100;

/// An agent as its file describes it.
///
/// ```
/// use softland_agent::AgentFile;
/// use softland_agent::core::policy::Policy;
///
/// let text = "---\nname: analyst\ndescription: Answers from notes\ntool_calls_limit: 8\n---\nQuote.";
/// let (parsed, warnings) = AgentFile::parse("analyst.md", text);
/// let file = parsed.expect("a valid file");
/// let mut policy = Policy::default();
/// file.apply_policy(&mut policy);
/// assert_eq!((policy.tool_calls_limit, warnings.len()), (Some(8), 0));
///
/// // A problem names file, line, key and what is allowed.
/// let (wrong, _) = AgentFile::parse("analyst.md", &text.replace("limit: 8", "limit: few"));
/// assert!(wrong.expect_err("an error")[0].to_string().starts_with("analyst.md:4: tool_calls_limit"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFile {
    /// The agent's name.
    pub name: String,
    /// The agent's purpose.
    pub description: String,
    /// The agent's tools, in order: tools of [`crate::tools::BUILT_IN`], [`AGENT_TOOL`], and tools
    /// of MCP servers (`mcp__SERVER__TOOL`; `mcp__SERVER` and `mcp__SERVER__*` are all tools of a
    /// server).
    pub tools: Vec<String>,
    /// The line of `tools`, from 1, if the file has the key.
    pub tools_line: Option<usize>,
    /// Programs that are tools of the agent, after the built-in ones.
    pub commands: Vec<CommandDef>,
    /// The line of `commands`, from 1, if the file has the key.
    pub commands_line: Option<usize>,
    /// The hosts that `http_get` may contact.
    pub http_allow: Vec<Host>,
    /// The levels of sub-agents below the agent, if the file limits them.
    pub depth_limit: Option<u64>,
    /// `PROVIDER/MODEL`. `None` is `inherit`: the caller of the agent decides.
    pub model: Option<String>,
    /// The line of `model`, from 1, if the file has the key.
    pub model_line: Option<usize>,
    /// The way in which the model calls tools.
    pub tool_format: ToolFormat,
    /// The system prompt: the body without blank lines around it, with line ends as `\n`.
    pub system: String,
    /// The policy keys that the file sets, in its order. All are known to be valid.
    policy: Vec<(String, PolicyValue)>,
}

/// An error in an agent file, or a warning about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The front-matter key.
    pub key: Option<String>,
    /// The message.
    pub message: String,
    /// The allowed values, unless the message names them.
    pub allowed: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        match &self.allowed {
            Some(allowed) => write!(f, ": must be {allowed}, {}", self.message),
            None => write!(f, ": {}", self.message),
        }
    }
}

impl std::error::Error for Problem {}

/// An agent or its errors, and the warnings in both cases.
pub type Parsed = (Result<AgentFile, Vec<Problem>>, Vec<Problem>);

impl AgentFile {
    /// Reads an agent file from disk. `Err` holds at least one problem.
    pub fn load(path: &Path) -> Parsed {
        let label = path.display().to_string();
        match read_file(path) {
            Ok(bytes) => Self::parse_bytes(&label, &bytes),
            Err(message) => {
                (Err(vec![Diagnostics::new(&label).new_problem(None, None, message)]), vec![])
            }
        }
    }

    /// Parses the bytes of a file; `label` names it in problems.
    pub fn parse_bytes(label: &str, bytes: &[u8]) -> Parsed {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(label, text),
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
                let message = "is not UTF-8 text from here on; save it as UTF-8".to_owned();
                (Err(vec![Diagnostics::new(label).new_problem(Some(line), None, message)]), vec![])
            }
        }
    }

    /// Parses the text of a file; `label` names it in problems.
    pub fn parse(label: &str, text: &str) -> Parsed {
        let mut report = Diagnostics::new(label);
        let agent = parse_agent(text, &mut report);
        match agent {
            Some(agent) if report.errors.is_empty() => (Ok(agent), report.warnings),
            _ => (Err(report.errors), report.warnings),
        }
    }

    /// Sets the file's policy keys in `policy`, replacing its values.
    pub fn apply_policy(&self, policy: &mut Policy) {
        for (key, value) in &self.policy {
            // Each key was tried when the file was parsed, and its validity depends on its value
            // alone, so this cannot fail.
            let tried = policy.set_key(key, value);
            debug_assert!(tried.is_ok());
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::ErrorKind;
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
        ErrorKind::PermissionDenied => "the file may not be read (permission denied)".to_owned(),
        ErrorKind::IsADirectory => "is a folder; an agent file is needed".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    };
    let metadata = path.metadata().map_err(explain)?;
    if metadata.is_dir() {
        return Err("is a folder; an agent file is needed".to_owned());
    }
    if !metadata.is_file() {
        return Err("is not a regular file; an agent file is needed".to_owned());
    }
    let file = std::fs::File::open(path).map_err(explain)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(explain)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_big_message());
    }
    Ok(bytes)
}

fn too_big_message() -> String {
    format!("is larger than the {MAX_BYTES} bytes an agent file may have")
}

/// Collects the errors and warnings of one file.
struct Diagnostics {
    file: String,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Diagnostics {
    fn new(file: &str) -> Self {
        Self { file: cut_line(file, 400), errors: Vec::new(), warnings: Vec::new() }
    }

    fn new_problem(&self, line: Option<usize>, key: Option<&str>, message: String) -> Problem {
        let key = key.map(|key| cut_line(key, 80));
        Problem { file: self.file.clone(), line, key, message, allowed: None }
    }

    fn add_error(&mut self, line: Option<usize>, key: Option<&str>, message: impl Into<String>) {
        let problem = self.new_problem(line, key, message.into());
        self.errors.push(problem);
    }

    /// Adds an error about the value of a key.
    fn add_value_error(&mut self, entry: &FrontMatterEntry, allowed: &str, found: &str) {
        let mut problem =
            self.new_problem(Some(entry.line), Some(&entry.key), format!("got {found}"));
        problem.allowed = Some(allowed.to_owned());
        self.errors.push(problem);
    }

    fn add_warning(&mut self, line: usize, key: Option<&str>, message: impl Into<String>) {
        let problem = self.new_problem(Some(line), key, message.into());
        self.warnings.push(problem);
    }
}

/// The keys of the front matter that have been read so far.
#[derive(Default)]
struct AgentDraft {
    name: Option<String>,
    description: Option<String>,
    tools: Option<Vec<String>>,
    tools_line: Option<usize>,
    commands: Vec<CommandDef>,
    commands_line: Option<usize>,
    http_allow: Vec<Host>,
    depth_limit: Option<u64>,
    model: Option<String>,
    model_line: Option<usize>,
    tool_format: ToolFormat,
    policy: Vec<(String, PolicyValue)>,
    scratch: Policy,
    restrictions: foreign::Restrictions,
}

fn parse_agent(text: &str, report: &mut Diagnostics) -> Option<AgentFile> {
    if text.len() > MAX_BYTES {
        report.add_error(None, None, too_big_message());
        return None;
    }
    let parts = match front_matter::split_file(text) {
        Ok(parts) => parts,
        Err((line, message)) => {
            report.add_error(Some(line), None, message);
            return None;
        }
    };
    let entries = front_matter::read_entries(&parts.yaml, report)?;
    let mut draft = AgentDraft::default();
    // Keys with wrong values are reported once, and not as missing too.
    let present = |key: &str| entries.iter().any(|entry| entry.key == key);
    for key in ["name", "description"] {
        if !present(key) {
            report.add_error(Some(1), Some(key), "is required");
        }
    }
    // The names of commands are names of tools, wherever the key stands.
    if let Some(entry) = entries.iter().find(|entry| entry.key == "commands") {
        draft.commands = commands::read_commands(entry, report);
        draft.commands_line = Some(entry.line);
    }
    for entry in &entries {
        draft.take_entry(entry, report);
    }
    std::mem::take(&mut draft.restrictions).apply(&mut draft, report);
    if !present("http_allow") && draft.tools.iter().flatten().any(|tool| tool == "http_get") {
        let message = "`http_get` needs `http_allow`, the hosts that it may ask, such as [docs.rs]; \
                       [\"*\"] is every public one";
        report.add_error(draft.tools_line, Some("tools"), message);
    }
    if let Some(entry) = entries.iter().find(|entry| entry.key == "tool_limits") {
        draft.warn_misspelt_limits(entry.line, report);
    }
    if parts.body.is_empty() {
        report.add_warning(
            parts.body_line,
            None,
            "the body is empty: the agent has no system prompt",
        );
    }
    Some(AgentFile {
        name: draft.name?,
        description: draft.description?,
        tools: draft.tools.unwrap_or_else(tools::default_tools),
        tools_line: draft.tools_line,
        commands: draft.commands,
        commands_line: draft.commands_line,
        http_allow: draft.http_allow,
        depth_limit: draft.depth_limit,
        model: draft.model,
        model_line: draft.model_line,
        tool_format: draft.tool_format,
        system: parts.body,
        policy: draft.policy,
    })
}

impl AgentDraft {
    fn take_entry(&mut self, entry: &FrontMatterEntry, report: &mut Diagnostics) {
        match entry.key.as_str() {
            "name" => self.name = read_name(entry, report),
            "description" => self.description = read_text(entry, report),
            "tools" if let PolicyValue::Map(switches) = &entry.value => {
                self.restrictions.take_switches(switches, entry, report);
                self.tools_line = Some(entry.line);
            }
            "tools" => {
                self.tools = tools::read_tools(entry, &self.commands, report);
                self.tools_line = Some(entry.line);
            }
            // Already read above.
            "commands" => {}
            "http_allow" => self.http_allow = commands::read_hosts(entry, report),
            "depth_limit" => self.depth_limit = read_depth_limit(entry, report),
            "model" => {
                self.model = read_model(entry, report);
                self.model_line = Some(entry.line);
            }
            "tool_format" => self.tool_format = read_tool_format(entry, report),
            "mode" if is_foreign_mode(&entry.value) => {}
            key if KEYS.iter().any(|known| known.name == key) => {
                self.take_policy_key(entry, report)
            }
            _ if self.restrictions.take_entry(entry, report) => {}
            key if keys::is_foreign(key) => {}
            key => {
                let near = find_nearest(key, keys::known_keys());
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "known are {}, and the policy keys that `softland run --help` has as flags",
                        keys::own_keys()
                    ),
                };
                report.add_warning(entry.line, Some(key), format!("unknown key, ignored; {hint}"));
            }
        }
    }

    /// Warns of each limit on a tool that the agent does not have and that is spelt like one that it
    /// has: such a limit never holds. Tools of MCP servers and of sub-agents are not known here.
    fn warn_misspelt_limits(&self, line: usize, report: &mut Diagnostics) {
        let tools = self.tools.clone().unwrap_or_else(tools::default_tools);
        let names = || tools.iter().map(String::as_str);
        for limited in self.scratch.tool_limits.keys() {
            if names().any(|name| name == limited) {
                continue;
            }
            if let Some(near) = find_nearest(limited, names()) {
                let message = format!("the agent has no tool `{limited}`; did you mean `{near}`?");
                report.add_warning(line, Some("tool_limits"), message);
            }
        }
    }

    fn take_policy_key(&mut self, entry: &FrontMatterEntry, report: &mut Diagnostics) {
        match self.scratch.set_key(&entry.key, &entry.value) {
            Ok(()) => self.policy.push((entry.key.clone(), entry.value.clone())),
            Err(KeyError::Value { key, allowed, found }) => {
                let line = entry.line;
                report.add_value_error(
                    &FrontMatterEntry { key, line, value: PolicyValue::Null },
                    allowed,
                    &found,
                );
            }
            Err(unknown @ KeyError::Unknown { .. }) => {
                report.add_error(Some(entry.line), Some(&entry.key), unknown.to_string());
            }
        }
    }
}

fn read_name(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Option<String> {
    let name = read_text(entry, report)?;
    if name.chars().count() > NAME_MAX || name.chars().any(char::is_control) {
        let allowed = format!("one line of at most {NAME_MAX} characters");
        report.add_value_error(entry, &allowed, &entry.value.to_string());
        return None;
    }
    Some(name)
}

fn read_text(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Option<String> {
    match &entry.value {
        PolicyValue::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        other => {
            report.add_value_error(entry, "text that is not empty", &other.to_string());
            None
        }
    }
}

/// Reads `PROVIDER/MODEL`; `None` for `inherit`.
fn read_model(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Option<String> {
    const ALLOWED: &str = "inherit or PROVIDER/MODEL, such as anthropic/claude-sonnet-5-5";
    let PolicyValue::Text(model) = &entry.value else {
        if entry.value != PolicyValue::Null {
            report.add_value_error(entry, ALLOWED, &entry.value.to_string());
        }
        return None;
    };
    let model = model.trim();
    if model == "inherit" {
        return None;
    }
    if keys::MODEL_ALIASES.contains(&model) {
        let message = format!(
            "`{model}` is an alias of another program and taken as `inherit`; write PROVIDER/MODEL"
        );
        report.add_warning(entry.line, Some("model"), message);
        return None;
    }
    // Files of other agents name Claude models without a provider.
    if model.starts_with("claude-") && !model.contains(['/', ' ']) {
        return Some(format!("anthropic/{model}"));
    }
    let well_formed = model
        .split_once('/')
        .is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty());
    if !well_formed || model.chars().any(|c| c.is_whitespace() || c.is_control()) {
        report.add_value_error(entry, ALLOWED, &entry.value.to_string());
        return None;
    }
    Some(model.to_owned())
}

/// Reads a whole number, quoted or not, like the limits of a policy.
fn read_depth_limit(entry: &FrontMatterEntry, report: &mut Diagnostics) -> Option<u64> {
    if entry.value == PolicyValue::Null {
        return None;
    }
    let read = entry.value.as_whole().filter(|depth| *depth <= SubAgents::MAX_DEPTH);
    if read.is_none() {
        let allowed = format!("a whole number from 0 to {}", SubAgents::MAX_DEPTH);
        report.add_value_error(entry, &allowed, &entry.value.to_string());
    }
    read
}

fn read_tool_format(entry: &FrontMatterEntry, report: &mut Diagnostics) -> ToolFormat {
    match &entry.value {
        PolicyValue::Text(format) if format == "native" => ToolFormat::Native,
        PolicyValue::Text(format) if format == "tags" => ToolFormat::Tags,
        other => {
            report.add_value_error(entry, "native or tags", &other.to_string());
            ToolFormat::Native
        }
    }
}

/// Returns true if `mode` has a value of OpenCode's agent files. Here `mode` is a policy key.
fn is_foreign_mode(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Text(mode) if ["primary", "subagent", "all"].contains(&mode.as_str()))
}
