//! The sub-agents of `--agents`, prepared before the run begins.

use std::path::{Path, PathBuf};

use softland_agent::{
    AGENT_TOOL, Agent, AgentFile, DEPTH_LIMIT, Options, Root, SubAgent, SubAgents,
};

use super::{ModelRoutes, apply_hints, build_tool_resources, build_tools, folder, resolve_policy};
use crate::args::RunArgs;
use crate::config::Config;
use crate::failure::Failure;

/// Builds the sub-agents that the agent may call.
///
/// # Errors
/// Returns every problem of every file in the folder, with file, line and key.
pub(super) fn build_sub_agents(
    args: &RunArgs,
    config: &Config,
    file: &AgentFile,
    root: &Root,
    (agent, ways): (&Agent, &mut ModelRoutes<'_>),
    warnings: &mut Vec<String>,
) -> Result<Option<SubAgents>, Failure> {
    let delegates = names_agent(file);
    let Some(dir) = &args.agents else {
        if delegates {
            return Err(Failure::usage(format!(
                "{}: tools: `{AGENT_TOOL}` needs the folder of the agents that it may call: \
                 --agents DIR",
                tools_place(args, file)
            )));
        }
        return Ok(None);
    };
    let files = load_files(dir, warnings)?;
    let mut members = Vec::new();
    let mut problems = Vec::new();
    for (path, file) in files {
        match build_member(args, config, (&path, file), root, (agent, ways)) {
            Ok(member) => members.push(member),
            Err(failure) => problems.extend(failure.messages),
        }
    }
    if !problems.is_empty() {
        return Err(Failure::from_messages(problems));
    }
    if !delegates {
        warnings.push(format!(
            "--agents: {} does not name the tool `{AGENT_TOOL}`, so --agents has no effect",
            agent_file(args).display()
        ));
        return Ok(None);
    }
    let depth = file.depth_limit.unwrap_or(DEPTH_LIMIT);
    SubAgents::new(members, depth).map(Some).map_err(|same| Failure::usage(same.to_string()))
}

/// Loads the agent files of a folder, each of which must be valid by itself.
fn load_files(
    dir: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<(PathBuf, AgentFile)>, Failure> {
    let paths = folder::list_agent_files(dir)
        .map_err(|error| Failure::usage(format!("--agents: {error}")))?;
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let (file, found) = AgentFile::load(&path);
        warnings.extend(found.iter().map(ToString::to_string));
        match file {
            Ok(file) => files.push((path, file)),
            Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
        }
    }
    problems.extend(folder::find_same_names(&files));
    if problems.is_empty() { Ok(files) } else { Err(Failure::from_messages(problems)) }
}

fn build_member(
    args: &RunArgs,
    config: &Config,
    (path, file): (&Path, AgentFile),
    root: &Root,
    (caller, ways): (&Agent, &mut ModelRoutes<'_>),
) -> Result<SubAgent, Failure> {
    let inherits = file.model.is_none();
    let (transport, options, model) = match &file.model {
        None => (caller.transport.clone(), caller.options.clone(), caller.model.clone()),
        Some(model) => {
            let line = file.model_line.map(|line| format!(":{line}")).unwrap_or_default();
            let at = |message: String| format!("{}{line}: model: {message}", path.display());
            let way = ways.route_to(model).map_err(|failure| {
                Failure::from_messages(failure.messages.into_iter().map(at).collect())
            })?;
            let options = Options {
                api: way.api,
                show_thinking: args.show_thinking,
                price: config.find_price(model),
                ..Options::default()
            };
            (way.transport, options, model.clone())
        }
    };
    let policy = resolve_policy(args, config, &file, false)?;
    let means = build_tool_resources(args, config, root, ways.servers)?;
    let tools = build_tools(&path.display().to_string(), &file, means)?;
    let (delegates, depth_limit) = (names_agent(&file), file.depth_limit);
    let AgentFile { name, system, description, tool_format, .. } = file;
    let options = Options { tool_format, ..options };
    let mut agent =
        Agent { name, system, model, tools, sub_agents: None, policy, transport, options };
    apply_hints(&mut agent, ways.servers);
    Ok(SubAgent { agent, description, inherits, delegates, depth_limit })
}

fn names_agent(file: &AgentFile) -> bool {
    file.tools.iter().any(|tool| tool == AGENT_TOOL)
}

/// Formats the place where an agent file names its tools.
fn tools_place(args: &RunArgs, file: &AgentFile) -> String {
    let line = file.tools_line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{}{line}", agent_file(args).display())
}

fn agent_file(args: &RunArgs) -> &Path {
    args.agent.as_deref().unwrap_or_else(|| Path::new("the agent file"))
}
