//! Tools that an agent file defines: a program that gets the call's input as JSON on its standard
//! input. Not confined to the root folder.

use async_trait::async_trait;
use serde_json::Value;

use super::programs::{GRACE, Order, Programs, TIME};
use super::root::Root;
use super::shell;
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput};

/// A program of an agent file.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandDef {
    /// The tool's name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input; its top level has `type: object`.
    pub schema: Value,
    /// What is run.
    pub run: RunLine,
    /// A call that was interrupted may be run again.
    pub repeatable: bool,
}

/// What a command runs, in the root folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLine {
    /// A line for `sh -c`.
    Shell(String),
    /// A program and its arguments; at least the program.
    Program(Vec<String>),
}

pub(super) struct Command {
    pub(super) root: Root,
    pub(super) programs: Programs,
    pub(super) def: CommandDef,
}

#[async_trait]
impl Tool for Command {
    fn def(&self) -> ToolDef {
        let CommandDef { name, description, schema, repeatable, .. } = self.def.clone();
        ToolDef { name, description, input_schema: schema, reads: false, repeatable }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let order = match &self.def.run {
            RunLine::Shell(line) => shell::line(line),
            RunLine::Program(program) => Order { program: program.clone(), input: None },
        };
        let order = Order { input: Some(input.to_string()), ..order };
        self.programs.run(self.root.path(), &order, TIME).await
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        Some(TIME + GRACE)
    }
}
