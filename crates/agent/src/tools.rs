//! The built-in tools: `read_file`, `list_dir`, `grep`, `glob`.
//!
//! All of them only read, see nothing outside their [`Root`], give the same output for the same
//! folder, and bound what they read and what they return. Writing, shells, HTTP and sub-agents
//! are not here yet.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput};

mod glob;
mod grep;
mod list_dir;
mod read_file;
mod root;
#[cfg(test)]
mod tests;
mod walk;

pub use root::{Root, RootError};

/// The built-in tools of this version, in the order in which models are told of them.
pub const BUILT_IN: [&str; 4] = ["read_file", "grep", "glob", "list_dir"];

/// Built-in tools that a later version brings: known names, refused by name.
pub const LATER: [&str; 5] = ["write_file", "edit_file", "shell", "http_get", "agent"];

/// The built-in tool `name`, seeing `root`; `None` where [`BUILT_IN`] does not name it.
#[must_use]
pub fn built_in(name: &str, root: &Root) -> Option<Arc<dyn Tool>> {
    let root = root.clone();
    Some(match name {
        "read_file" => Arc::new(FileTool { root, def: read_file::def, run: read_file::run }),
        "grep" => Arc::new(FileTool { root, def: grep::def, run: grep::run }),
        "glob" => Arc::new(FileTool { root, def: glob::def, run: glob::run }),
        "list_dir" => Arc::new(FileTool { root, def: list_dir::def, run: list_dir::run }),
        _ => return None,
    })
}

/// A tool whose work is blocking file access under a root.
struct FileTool<T> {
    root: Root,
    def: fn() -> ToolDef,
    run: fn(&Root, T, &CancellationToken) -> Result<String, String>,
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
        let (root, cancel, run) = (self.root.clone(), cx.cancel.clone(), self.run);
        // The blocking thread is not ended by a timeout; it watches the token between files.
        let work = tokio::task::spawn_blocking(move || run(&root, args, &cancel));
        match work.await {
            Ok(Ok(content)) => ToolOutput::ok(content),
            Ok(Err(message)) => ToolOutput::error(message),
            Err(failure) => match failure.try_into_panic() {
                // The tool set turns it into an error result, as for any tool that panics.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => ToolOutput::error("the tool was ended before it gave a result"),
            },
        }
    }
}
