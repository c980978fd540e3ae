//! Tools, and sets of tools that turn every call into exactly one result.
//!
//! A [`ToolSet`] answers everything that the model sends. An unknown tool, arguments that are not
//! JSON or do not fit, and a tool that fails, panics, hangs or floods all become an error result,
//! so that the caller never has to invent one. A set counts nothing and knows no limits of a run;
//! those belong to the loop.

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

/// The default time limit of a call.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The default limit for a tool's result, in bytes.
pub const DEFAULT_OUTPUT_CAP: usize = 64 * 1024;

/// The longest name of a tool that the APIs accept (`^[a-zA-Z0-9_-]{1,64}$` at OpenAI; Anthropic
/// accepts 128).
const NAME_MAX: usize = 64;

/// The definition of a tool, for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDef {
    /// The name: 1 to 64 of `a-z A-Z 0-9 _ -`, unique in a set.
    pub name: String,
    /// The tool's purpose, for the model.
    pub description: String,
    /// The JSON Schema of the arguments; its top level has `type: object`.
    pub input_schema: Value,
    /// True if the tool only reads: it changes nothing that a later call could see.
    pub reads: bool,
    /// True if an interrupted call may be run again, because running it twice has the same effect
    /// as running it once. That holds for tools that only read and for tools that say so of
    /// themselves. Other tools are never run a second time.
    pub repeatable: bool,
}

impl ToolDef {
    /// Creates the definition of a tool that may change things, so that an interrupted call is not
    /// run again.
    ///
    /// ```
    /// use serde_json::json;
    /// use softland_agent::ToolDef;
    ///
    /// let schema = json!({"type": "object", "properties": {"article": {"type": "string"}}});
    /// ToolDef::new("stock", "How many pieces of an article are there", schema).read_only();
    /// ```
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, input_schema, reads: false, repeatable: false }
    }

    /// Marks the tool as one that only reads.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { reads: true, repeatable: true, ..self }
    }
}

/// The way in which a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolFormat {
    /// Through its API.
    #[default]
    Native,
    /// As text, in tags: for models without tool calling.
    Tags,
}

/// The output of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text for the model.
    pub content: String,
    /// True if the call failed; `content` then says why and what is allowed.
    pub is_error: bool,
}

impl ToolOutput {
    /// Returns the output of a call that succeeded.
    pub fn ok(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false }
    }

    /// Returns the output of a call that failed.
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true }
    }
}

/// The surroundings of a running tool, besides its arguments.
///
/// Folders, clients and other capabilities are given to a tool when it is created, not here.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolContext {
    /// Cancelled when the run ends, the tool's time is up or the caller has gone. Work that an
    /// aborted future does not stop (a blocking thread, a child process) must watch this token.
    pub cancel: CancellationToken,
}

impl ToolContext {
    /// Creates a context that `cancel` ends.
    #[must_use]
    pub fn new(cancel: CancellationToken) -> Self {
        Self { cancel }
    }
}

/// A tool that a model may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns name, description and arguments. Called once, when the tool is added to a
    /// [`ToolSet`].
    fn def(&self) -> ToolDef;

    /// Runs the tool. `input` is a complete JSON object with every required member of the schema,
    /// each of the type that the schema's `properties` name. Deeper checks are up to the tool.
    /// Failures are error results.
    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput;

    /// Returns the time limit of one call; `None` is [`DEFAULT_TIMEOUT`].
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the limit for the result in bytes; `None` is [`DEFAULT_OUTPUT_CAP`].
    fn output_cap(&self) -> Option<usize> {
        None
    }
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that joins the call to its result.
    pub id: String,
    /// The tool's name, known or not.
    pub name: String,
    /// The text of the arguments, JSON or not. `{}` without arguments.
    pub input_raw: String,
}

/// The reason why a tool cannot join a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolSetError {
    /// Two tools have the same name.
    Duplicate {
        /// The name that both have.
        name: String,
    },
    /// The APIs do not accept the name.
    InvalidName {
        /// The name as given.
        name: String,
    },
    /// The top level of the schema is not an object's.
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
struct RegisteredTool {
    def: ToolDef,
    tool: Arc<dyn Tool>,
}

/// Tools in the order in which they were added, with unique names.
///
/// ```
/// use serde_json::{Value, json};
/// use softland_agent::{Tool, ToolContext, ToolDef, ToolOutput, ToolSet};
///
/// struct Clock;
///
/// #[async_trait::async_trait]
/// impl Tool for Clock {
///     fn def(&self) -> ToolDef {
///         ToolDef::new("clock", "The time now", json!({"type": "object"})).read_only()
///     }
///
///     async fn call(&self, _input: Value, _: &ToolContext) -> ToolOutput {
///         ToolOutput::ok("noon")
///     }
/// }
///
/// # fn main() -> Result<(), softland_agent::ToolSetError> {
/// let tools = ToolSet::new().with_tool(Clock)?;
/// assert_eq!(tools.names().collect::<Vec<_>>(), ["clock"]);
/// assert!(tools.with_tool(Clock).is_err(), "names are unique");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ToolSet {
    entries: Vec<RegisteredTool>,
    anew: Option<Arc<dyn Fn() -> Self + Send + Sync>>,
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl ToolSet {
    /// Creates a set without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the function that builds this set for another run, since tools may remember what they
    /// have shown.
    #[must_use]
    pub fn build_with(self, anew: impl Fn() -> Self + Send + Sync + 'static) -> Self {
        Self { anew: Some(Arc::new(anew)), ..self }
    }

    /// Returns the set for another run. Without a function that builds it, the tools are shared.
    pub(crate) fn for_another_run(&self) -> Self {
        self.anew.as_ref().map_or_else(|| self.clone(), |anew| anew())
    }

    /// Adds a tool at the end.
    ///
    /// # Errors
    /// Returns an error if the name is taken or the APIs refuse it, or if the schema is not an
    /// object's.
    pub fn add_tool(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolSetError> {
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
        self.entries.push(RegisteredTool { def, tool });
        Ok(())
    }

    /// Adds a tool like [`Self::add_tool`], for building a set in one expression.
    ///
    /// # Errors
    /// Returns the errors of [`Self::add_tool`].
    pub fn with_tool(mut self, tool: impl Tool + 'static) -> Result<Self, ToolSetError> {
        self.add_tool(Arc::new(tool))?;
        Ok(self)
    }

    /// Returns the definitions, in order.
    pub fn defs(&self) -> impl Iterator<Item = &ToolDef> {
        self.entries.iter().map(|entry| &entry.def)
    }

    /// Returns the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defs().map(|def| def.name.as_str())
    }

    /// Returns the definition of one tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolDef> {
        self.defs().find(|def| def.name == name)
    }

    /// Returns one tool.
    pub(crate) fn find_tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let entry = self.entries.iter().find(|entry| entry.def.name == name)?;
        Some(Arc::clone(&entry.tool))
    }

    /// Returns true if the set has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Runs one call and returns its one result. Never panics, and never takes longer than the
    /// tool's time limit.
    ///
    /// When `cancel` fires, returns at once with an error result that says so. Must be called
    /// within a tokio runtime: the tool runs as a task of its own, which contains its panics.
    pub async fn run_call(&self, call: &ToolCall, cancel: &CancellationToken) -> ToolOutput {
        let Some(entry) = self.entries.iter().find(|entry| entry.def.name == call.name) else {
            return self.unknown_tool(&call.name);
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

    fn unknown_tool(&self, name: &str) -> ToolOutput {
        let name = cut_line(name, 80);
        if self.is_empty() {
            return ToolOutput::error(format!("unknown tool `{name}`: there are no tools"));
        }
        let names: Vec<&str> = self.names().collect();
        ToolOutput::error(format!("unknown tool `{name}`; the tools are: {}", names.join(", ")))
    }
}

/// Returns true if the model APIs accept `name` for a tool.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Ends the tool's task and the work that it started, also when the caller drops its future.
struct TaskGuard {
    token: CancellationToken,
    task: tokio::task::AbortHandle,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.token.cancel();
        self.task.abort();
    }
}

async fn run_entry(entry: &RegisteredTool, input: Value, cancel: &CancellationToken) -> ToolOutput {
    let name = &entry.def.name;
    if cancel.is_cancelled() {
        return ToolOutput::error(format!("{name}: cancelled before it ran"));
    }
    let token = cancel.child_token();
    let cx = ToolContext::new(token.clone());
    let tool = Arc::clone(&entry.tool);
    let limit = tool.timeout().unwrap_or(DEFAULT_TIMEOUT);
    let mut task = tokio::spawn(async move { tool.call(input, &cx).await });
    let _stop = TaskGuard { token, task: task.abort_handle() };
    tokio::select! {
        biased;
        done = &mut task => match done {
            Ok(output) => output,
            Err(failure) => ToolOutput::error(format!("{name} {}", describe_failure(failure))),
        },
        () = cancel.cancelled() => ToolOutput::error(format!("{name}: cancelled")),
        () = tokio::time::sleep(limit) => ToolOutput::error(format!(
            "{name} timed out after {}; ask for less at once",
            format_duration(limit)
        )),
    }
}

/// Describes the end of a task that gave no result.
fn describe_failure(failure: tokio::task::JoinError) -> String {
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

fn format_duration(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
