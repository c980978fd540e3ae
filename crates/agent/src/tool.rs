//! Tools: what one is, and a set of them that turns every call into exactly one result.
//!
//! A [`ToolSet`] answers whatever the model sends: an unknown tool, arguments that are not JSON
//! or do not fit, a tool that fails, panics, hangs or floods all become an error result, and
//! the caller never has to invent one. It counts nothing and knows no limits of a run; those
//! are the loop's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

mod cut;
mod schema;
#[cfg(test)]
mod tests;

pub(crate) use cut::cut_line;
pub use cut::cut_middle;
pub(crate) use schema::parse_input;

/// How long a tool may run where it does not say otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// How many bytes of a tool's result are kept where the tool does not say otherwise.
pub const DEFAULT_OUTPUT_CAP: usize = 64 * 1024;

/// The longest name of a tool that the APIs take (`^[a-zA-Z0-9_-]{1,64}$` at OpenAI; Anthropic
/// takes 128).
const NAME_MAX: usize = 64;

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDef {
    /// 1 to 64 of `a-z A-Z 0-9 _ -`, unique in a set.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments; its top level has `type: object`.
    pub input_schema: Value,
    /// The tool only reads: it changes nothing that a later call could see.
    pub reads: bool,
    /// A call that was interrupted may be run again, since twice leaves what once would: for what
    /// only reads, and for what says so of itself. All others are never run a second time.
    pub repeatable: bool,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolFormat {
    /// Through its API.
    #[default]
    Native,
    /// As text, in tags: for models without tool calling.
    Tags,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text the model sees.
    pub content: String,
    /// The call failed; `content` says why and what is allowed.
    pub is_error: bool,
}

impl ToolOutput {
    /// A result of a call that worked.
    pub fn ok(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false }
    }

    /// A result of a call that failed.
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true }
    }
}

/// What a running tool may look at besides its arguments.
///
/// Folders, clients and other capabilities are given to a tool when it is made, not here.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolContext {
    /// Cancelled when the run ends, the tool's time is up or its caller has gone. Work that an
    /// aborted future does not stop (a blocking thread, a child process) has to watch it.
    pub cancel: CancellationToken,
}

impl ToolContext {
    /// A context that `cancel` ends.
    #[must_use]
    pub fn new(cancel: CancellationToken) -> Self {
        Self { cancel }
    }
}

/// One tool a model may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description and arguments. Asked once, when the tool is added to a [`ToolSet`].
    fn def(&self) -> ToolDef;

    /// Runs the tool. `input` is a complete JSON object that has every required member of the
    /// schema, each of the type the schema's `properties` name; deeper checks are the tool's.
    /// Failures are error results.
    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput;

    /// How long one call may take; `None` is [`DEFAULT_TIMEOUT`].
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// How many bytes of the result are kept; `None` is [`DEFAULT_OUTPUT_CAP`].
    fn output_cap(&self) -> Option<usize> {
        None
    }
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Joins the call to its result.
    pub id: String,
    /// The tool's name, known or not.
    pub name: String,
    /// The arguments' text, JSON or not. `{}` where there are none.
    pub input_raw: String,
}

/// Why a tool cannot join a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolSetError {
    /// Two tools of one name.
    Duplicate {
        /// The name both have.
        name: String,
    },
    /// A name the APIs do not take.
    InvalidName {
        /// The name as given.
        name: String,
    },
    /// A schema whose top level is not an object's.
    InvalidSchema {
        /// The tool's name.
        name: String,
    },
}

impl std::fmt::Display for ToolSetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate { name } => {
                write!(f, "two tools are named `{name}`; names must be unique")
            }
            Self::InvalidName { name } => write!(
                f,
                "`{}` cannot name a tool: 1 to {NAME_MAX} of a-z A-Z 0-9 _ - are allowed",
                cut_line(name, 80)
            ),
            Self::InvalidSchema { name } => write!(
                f,
                "the input schema of tool `{name}` must be a JSON object with \"type\": \"object\""
            ),
        }
    }
}

impl std::error::Error for ToolSetError {}

#[derive(Clone)]
struct Entry {
    def: ToolDef,
    tool: Arc<dyn Tool>,
}

/// Tools in the order they were added, with unique names.
#[derive(Clone, Default)]
pub struct ToolSet {
    entries: Vec<Entry>,
    anew: Option<Arc<dyn Fn() -> Self + Send + Sync>>,
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl ToolSet {
    /// A set without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same set, with how to make it for another run: tools may know what they have shown.
    #[must_use]
    pub fn made_by(self, anew: impl Fn() -> Self + Send + Sync + 'static) -> Self {
        Self { anew: Some(Arc::new(anew)), ..self }
    }

    /// The set for another run; the same tools where nothing says how to make them.
    pub(crate) fn fresh(&self) -> Self {
        self.anew.as_ref().map_or_else(|| self.clone(), |anew| anew())
    }

    /// Adds a tool at the end.
    ///
    /// # Errors
    /// A name that is taken or that the APIs refuse, or a schema that is not an object's.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolSetError> {
        let def = tool.def();
        if !is_valid_name(&def.name) {
            return Err(ToolSetError::InvalidName { name: def.name });
        }
        if self.get(&def.name).is_some() {
            return Err(ToolSetError::Duplicate { name: def.name });
        }
        if def.input_schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(ToolSetError::InvalidSchema { name: def.name });
        }
        self.entries.push(Entry { def, tool });
        Ok(())
    }

    /// [`Self::add`], for building a set in one expression.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn with(mut self, tool: impl Tool + 'static) -> Result<Self, ToolSetError> {
        self.add(Arc::new(tool))?;
        Ok(self)
    }

    /// The definitions, in order.
    pub fn defs(&self) -> impl Iterator<Item = &ToolDef> {
        self.entries.iter().map(|entry| &entry.def)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defs().map(|def| def.name.as_str())
    }

    /// The definition of one tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolDef> {
        self.defs().find(|def| def.name == name)
    }

    /// One tool.
    pub(crate) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let entry = self.entries.iter().find(|entry| entry.def.name == name)?;
        Some(Arc::clone(&entry.tool))
    }

    /// No tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Runs one call to its one result; never panics, never hangs beyond the tool's timeout.
    ///
    /// Returns at once when `cancel` fires, with an error result that says so. Must be called
    /// within a tokio runtime; the tool runs as a task of its own, so a panic stays in it.
    pub async fn run(&self, call: &ToolCall, cancel: &CancellationToken) -> ToolOutput {
        let Some(entry) = self.entries.iter().find(|entry| entry.def.name == call.name) else {
            return self.unknown(&call.name);
        };
        let input = match parse_input(&entry.def, &call.input_raw) {
            Ok(input) => input,
            Err(message) => return ToolOutput::error(message),
        };
        let mut output = run_entry(entry, input, cancel).await;
        let cap = entry.tool.output_cap().unwrap_or(DEFAULT_OUTPUT_CAP);
        if output.content.len() > cap {
            output.content = cut_middle(&output.content, cap);
        }
        output
    }

    fn unknown(&self, name: &str) -> ToolOutput {
        let name = cut_line(name, 80);
        if self.is_empty() {
            return ToolOutput::error(format!("unknown tool `{name}`: there are no tools"));
        }
        let names: Vec<&str> = self.names().collect();
        ToolOutput::error(format!("unknown tool `{name}`; the tools are: {}", names.join(", ")))
    }
}

/// Whether the model APIs take `name` for a tool.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Ends the tool's task and what it started, also when the caller drops its future.
struct Stop {
    token: CancellationToken,
    task: tokio::task::AbortHandle,
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.token.cancel();
        self.task.abort();
    }
}

async fn run_entry(entry: &Entry, input: Value, cancel: &CancellationToken) -> ToolOutput {
    let name = &entry.def.name;
    if cancel.is_cancelled() {
        return ToolOutput::error(format!("{name}: cancelled before it ran"));
    }
    let token = cancel.child_token();
    let cx = ToolContext::new(token.clone());
    let tool = Arc::clone(&entry.tool);
    let limit = tool.timeout().unwrap_or(DEFAULT_TIMEOUT);
    let mut task = tokio::spawn(async move { tool.call(input, &cx).await });
    let _stop = Stop { token, task: task.abort_handle() };
    tokio::select! {
        biased;
        done = &mut task => match done {
            Ok(output) => output,
            Err(failure) => ToolOutput::error(format!("{name} {}", describe(failure))),
        },
        () = cancel.cancelled() => ToolOutput::error(format!("{name}: cancelled")),
        () = tokio::time::sleep(limit) => ToolOutput::error(format!(
            "{name} timed out after {}; ask for less at once",
            seconds(limit)
        )),
    }
}

/// What ended a task that gave no result.
fn describe(failure: tokio::task::JoinError) -> String {
    let Ok(panic) = failure.try_into_panic() else {
        return "was ended before it gave a result".to_owned();
    };
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("failed with an internal error (panic: {})", cut_line(message, 200))
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
