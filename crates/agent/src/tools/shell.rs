//! `shell`: runs a command line. Not confined to the root folder.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::command::RunLine;
use super::programs::{GRACE, ProgramRunner, ProgramSpec, TIME};
use super::root::Root;
use crate::platform::programs::{SHELL, check_command_line};
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput};

pub(super) struct Shell {
    pub(super) root: Root,
    pub(super) programs: ProgramRunner,
}

#[async_trait]
impl Tool for Shell {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: "shell".to_owned(),
            description: format!(
                "Runs a command line with `{SHELL}` in the root folder, and returns what it prints \
                 and its exit code where that is not 0. It is not confined to the root folder: it \
                 can read, change and delete whatever the user can. It gets no input and no \
                 credentials, and is ended after {} s. What it leaves in the background is ended \
                 when it ends.",
                TIME.as_secs()
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command line"}
                },
                "required": ["command"],
                "additionalProperties": false
            }),
            reads: false,
            repeatable: false,
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
        if command.trim().is_empty() {
            return ToolOutput::error("`command` is empty: give a command line");
        }
        if command.contains('\0') {
            return ToolOutput::error(
                "`command` contains a NUL byte, which no command line can contain",
            );
        }
        if let Err(why) = check_command_line(command) {
            return ToolOutput::error(why);
        }
        let order = ProgramSpec { run: RunLine::Shell(command.to_owned()), input: None };
        self.programs.run_program(self.root.path(), &order, TIME).await
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        Some(TIME + GRACE)
    }
}
