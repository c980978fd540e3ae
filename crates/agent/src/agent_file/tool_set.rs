//! Builds the tools of an agent file.

use std::sync::Arc;

use super::{AgentFile, Diagnostics, Problem, servers};
use crate::tool::{Tool, ToolSet};
use crate::tools::{ToolResources, built_in_tool, command_tool};

impl AgentFile {
    /// Returns the problems with keys that run programs on this machine, which the file alone may
    /// not decide. `label` names the file in the problems.
    #[must_use]
    pub fn program_problems(&self, label: &str) -> Vec<Problem> {
        const NEEDS: &str = "which is not confined to --root: it needs --allow-shell";
        let report = Diagnostics::new(label);
        let shell = self.tools.iter().any(|tool| tool == "shell").then(|| {
            let message = format!("`shell` runs command lines on this machine, {NEEDS}");
            report.new_problem(self.tools_line, Some("tools"), message)
        });
        let commands = self.commands.iter().map(|command| {
            let key = format!("commands.{}", command.name);
            let message = format!("runs a program on this machine, {NEEDS}");
            report.new_problem(self.commands_line, Some(&key), message)
        });
        shell.into_iter().chain(commands).collect()
    }

    /// Builds the file's tools over these resources, with the hosts that the file allows.
    ///
    /// # Errors
    /// Returns the problems with programs, if the resources do not permit them.
    pub fn tool_set(&self, label: &str, means: ToolResources) -> Result<ToolSet, Vec<Problem>> {
        if !means.may_run_programs() {
            let problems = self.program_problems(label);
            if !problems.is_empty() {
                return Err(problems);
            }
        }
        let means = means.with_hosts(self.http_allow.clone());
        let set = self.build_tool_set(label, &means)?;
        let (file, label) = (self.clone(), label.to_owned());
        // Another run of the agent has seen no files yet. Tools that could be built once can be
        // built again.
        let anew =
            move || file.build_tool_set(&label, &means.for_another_run()).unwrap_or_default();
        Ok(set.build_with(anew))
    }

    fn build_tool_set(&self, label: &str, means: &ToolResources) -> Result<ToolSet, Vec<Problem>> {
        let tools = self.tools.iter().filter_map(|name| built_in_tool(name, means));
        let commands = self.commands.iter().filter_map(|def| command_tool(def, means));
        let offered = self.tools_of_servers(label, means.server_tools())?;
        let mut set = ToolSet::new();
        for tool in tools.chain(commands).chain(offered) {
            let added = set.add_tool(tool);
            added.map_err(|e| {
                vec![Diagnostics::new(label).new_problem(None, None, e.to_string())]
            })?;
        }
        Ok(set)
    }

    /// Returns the names of the servers whose tools the file names.
    pub fn server_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|name| servers::split_name(name)).map(|(server, _)| server)
    }

    /// Returns the tools of servers that the file names.
    fn tools_of_servers(
        &self,
        label: &str,
        offered: &[Arc<dyn Tool>],
    ) -> Result<Vec<Arc<dyn Tool>>, Vec<Problem>> {
        let (mut tools, mut problems) = (Vec::<Arc<dyn Tool>>::new(), Vec::new());
        for name in &self.tools {
            let Some((server, tool)) = servers::split_name(name) else { continue };
            let of_server =
                offered.iter().filter(|tool| servers::is_tool_of(&tool.def().name, server));
            let found: Vec<_> = of_server
                .clone()
                .filter(|found| tool.is_none() || found.def().name == *name)
                .collect();
            if found.is_empty() {
                let there: Vec<String> = of_server.map(|tool| tool.def().name).collect();
                let message = servers::not_found_message(name, server, &there);
                problems.push(Diagnostics::new(label).new_problem(
                    self.tools_line,
                    Some("tools"),
                    message,
                ));
            }
            for one in found {
                if !tools.iter().any(|known| known.def().name == one.def().name) {
                    tools.push(Arc::clone(one));
                }
            }
        }
        if problems.is_empty() { Ok(tools) } else { Err(problems) }
    }
}
