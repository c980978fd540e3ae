//! The built-in tools, and the commands of agent files.
//!
//! The tools over files see and change nothing outside their [`Root`], and they bound what they
//! read and return. Tools that read give the same output for the same folder. `shell` and commands
//! are not confined. `http_get`, with the feature `http`, reaches the hosts that an agent file
//! allows. The tool `agent` belongs to the loop (`run/sub_agent.rs`).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput};
use change::Files;

mod change;
mod command;
mod edit_file;
mod glob;
mod grep;
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only `http_get` asks for access"))]
mod hosts;
#[cfg(feature = "http")]
mod http_get;
mod list_dir;
mod programs;
mod read_file;
mod root;
mod shell;
#[cfg(test)]
mod tests;
mod walk;
mod write_file;

pub use command::{CommandDef, RunLine};
pub use hosts::Host;
pub use programs::{BackgroundProgram, ProgramRunner, is_credential, supervise_program};
pub use root::{Root, RootError};

/// The built-in tools of this version, in the order in which models are told about them.
pub const BUILT_IN: &[&str] = &[
    "read_file",
    "grep",
    "glob",
    "list_dir",
    "write_file",
    "edit_file",
    "shell",
    #[cfg(feature = "http")]
    "http_get",
];

/// The tools of an agent file without `tools`: all built-in tools that only read files.
pub const BY_DEFAULT: &[&str] = &["read_file", "grep", "glob", "list_dir"];

/// The resources of the tools of one run. The tools share what they have seen, so each run needs
/// resources of its own.
#[derive(Clone)]
pub struct ToolResources {
    files: Files,
    programs: Option<ProgramRunner>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for `http_get` alone"))]
    hosts: Vec<Host>,
    offered: Vec<Arc<dyn Tool>>,
}

impl ToolResources {
    /// Creates resources for tools that see the files under `root`, none of them read yet. They run
    /// no program and reach no host.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self { files: Files::new(root), programs: None, hosts: Vec::new(), offered: Vec::new() }
    }

    /// Returns the same resources for another run, which has read none of the files yet.
    pub(crate) fn for_another_run(&self) -> Self {
        Self { files: Files::new(self.files.root.clone()), ..self.clone() }
    }

    /// Permits the tools to run programs, which are not confined to the root.
    #[must_use]
    pub fn with_programs(self, programs: ProgramRunner) -> Self {
        Self { programs: Some(programs), ..self }
    }

    pub(crate) fn may_run_programs(&self) -> bool {
        self.programs.is_some()
    }

    /// Adds the tools of servers (`mcp__SERVER__TOOL`) that agent files may name.
    #[must_use]
    pub fn with_server_tools(self, offered: &[Arc<dyn Tool>]) -> Self {
        Self { offered: offered.to_vec(), ..self }
    }

    pub(crate) fn server_tools(&self) -> &[Arc<dyn Tool>] {
        &self.offered
    }

    /// Sets the hosts that `http_get` may contact.
    #[must_use]
    pub fn with_hosts(self, hosts: Vec<Host>) -> Self {
        Self { hosts, ..self }
    }
}

/// Returns the built-in tool `name`; `None` if [`BUILT_IN`] does not list it or the resources do
/// not permit it.
#[must_use]
pub fn built_in_tool(name: &str, means: &ToolResources) -> Option<Arc<dyn Tool>> {
    let files = &means.files;
    Some(match name {
        "read_file" => file_tool(files, read_file::def, read_file::run),
        "grep" => {
            file_tool(files, grep::def, |files, args, cancel| grep::run(&files.root, args, cancel))
        }
        "glob" => {
            file_tool(files, glob::def, |files, args, cancel| glob::run(&files.root, args, cancel))
        }
        "list_dir" => file_tool(files, list_dir::def, |files, args, cancel| {
            list_dir::run(&files.root, args, cancel)
        }),
        "write_file" => file_tool(files, write_file::def, write_file::run),
        "edit_file" => file_tool(files, edit_file::def, edit_file::run),
        "shell" => {
            let (root, programs) = (files.root.clone(), means.programs.clone()?);
            Arc::new(shell::Shell { root, programs })
        }
        #[cfg(feature = "http")]
        "http_get" if !means.hosts.is_empty() => {
            Arc::new(http_get::HttpGet { allowed: means.hosts.clone() })
        }
        _ => return None,
    })
}

/// Returns the tool that an agent file defines; `None` if no program may be run.
#[must_use]
pub fn command_tool(def: &CommandDef, means: &ToolResources) -> Option<Arc<dyn Tool>> {
    let (root, programs) = (means.files.root.clone(), means.programs.clone()?);
    Some(Arc::new(command::Command { root, programs, def: def.clone() }))
}

fn file_tool<T>(files: &Files, def: fn() -> ToolDef, run: RunFileTool<T>) -> Arc<dyn Tool>
where
    T: for<'de> Deserialize<'de> + Send + 'static,
{
    Arc::new(FileTool { files: files.clone(), def, run })
}

type RunFileTool<T> = fn(&Files, T, &CancellationToken) -> Result<String, String>;

/// A tool that accesses files under a root and blocks meanwhile.
struct FileTool<T> {
    files: Files,
    def: fn() -> ToolDef,
    run: RunFileTool<T>,
}

#[async_trait::async_trait]
impl<T> Tool for FileTool<T>
where
    T: for<'de> Deserialize<'de> + Send + 'static,
{
    fn def(&self) -> ToolDef {
        (self.def)()
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        let args: T = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("arguments do not fit: {error}")),
        };
        let (files, cancel, run) = (self.files.clone(), cx.cancel.clone(), self.run);
        // A timeout does not end the blocking thread. The thread checks the token between files.
        let work = tokio::task::spawn_blocking(move || run(&files, args, &cancel));
        match work.await {
            Ok(Ok(content)) => ToolOutput::ok(content),
            Ok(Err(message)) => ToolOutput::error(message),
            Err(failure) => match failure.try_into_panic() {
                // The tool set turns a panic into an error result, as for any tool.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => ToolOutput::error("the tool was ended before it gave a result"),
            },
        }
    }
}
