//! Tools that an agent file defines: programs that get the input of the call as JSON on their
//! standard input. They are not confined to the root folder.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::programs::{GRACE, ProgramRunner, ProgramSpec, TIME};
use super::root::Root;
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput};

/// A program of an agent file.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandDef {
    /// The tool's name.
    pub name: String,
    /// The tool's purpose, for the model.
    pub description: String,
    /// The JSON Schema of the input; its top level has `type: object`.
    pub schema: Value,
    /// The command line or program.
    pub run: RunLine,
    /// True if an interrupted call may be run again.
    pub repeatable: bool,
}

/// The command line or program of a command, which runs in the root folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLine {
    /// A line for `sh -c`, on Windows for `cmd /c`.
    Shell(String),
    /// A program and its arguments; never empty.
    Program(Vec<String>),
}

pub(super) struct Command {
    pub(super) root: Root,
    pub(super) programs: ProgramRunner,
    pub(super) def: CommandDef,
}

#[async_trait]
impl Tool for Command {
    fn def(&self) -> ToolDef {
        let CommandDef { name, description, schema, repeatable, .. } = self.def.clone();
        ToolDef { name, description, input_schema: schema, reads: false, repeatable }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let order = ProgramSpec { run: self.def.run.clone(), input: Some(input.to_string()) };
        self.programs.run_program(self.root.path(), &order, TIME).await
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        Some(TIME + GRACE)
    }
}
