//! The servers of `--mcp`. The ones that the agent files name are started before any model request.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use softland_agent::AgentFile;
use softland_agent::mcp::{Servers, ServersFile, StderrHandler};
use tokio::runtime::Runtime;

use crate::args::RunArgs;
use crate::failure::{Failure, status};
use crate::platform::{self, Signals};
use crate::render::Writer;
use crate::settings::folder;

/// Starts the servers that the agent files of a run name.
///
/// # Errors
/// Returns a failure if a file has mistakes, or a server does not exist or does not start. A signal
/// meanwhile is a failure with the exit status of a cancelled run.
pub(crate) fn start_servers(
    args: &RunArgs,
    runtime: &Runtime,
    signals: &mut Signals,
) -> Result<Servers, Failure> {
    let Some(path) = &args.mcp else { return Ok(Servers::default()) };
    let env = |name: &str| std::env::var(name).ok();
    let file = ServersFile::load(path, &env).map_err(Failure::from_messages)?;
    // Problems of agent files are reported before any server is started.
    let Some(agents) = load_agents(args) else { return Ok(Servers::default()) };
    let named = find_named_servers(&file, &agents)?;
    let mut warnings = file.warnings.clone();
    if named.is_empty() {
        warnings.push(format!(
            "--mcp: no agent file names a tool of {} (mcp__SERVER__TOOL), so no server is started",
            file.label
        ));
    }
    platform::close_to_others();
    let verbose = args.verbose;
    let heard: StderrHandler = Arc::new(move |server: &str, line: &str| {
        if verbose > 0 {
            Writer::for_process().write_note(&format!("{server}: {line}"));
        }
    });
    let started = runtime.block_on(async {
        tokio::select! {
            biased;
            () = signals.next() => None,
            started = Servers::start_named(&file, &named, &env, &heard) => Some(started),
        }
    });
    match started {
        None => {
            Err(Failure::usage("cancelled while MCP servers started")
                .with_status(status::CANCELLED))
        }
        Some(Err(error)) => Err(Failure::from_messages(error.messages)),
        Some(Ok(mut servers)) => {
            warnings.append(&mut servers.warnings);
            servers.warnings = warnings;
            Ok(servers)
        }
    }
}

/// Loads the agent files of the run; `None` if one cannot be read.
fn load_agents(args: &RunArgs) -> Option<Vec<(PathBuf, AgentFile)>> {
    let mut paths: Vec<PathBuf> = args.agent.iter().cloned().collect();
    if let Some(folder) = &args.agents {
        paths.extend(folder::list_agent_files(folder).ok()?);
    }
    paths.into_iter().map(|path| Some((path.clone(), AgentFile::load(&path).0.ok()?))).collect()
}

/// Returns the servers that the agent files name, each of which the servers file must define.
fn find_named_servers(
    file: &ServersFile,
    agents: &[(PathBuf, AgentFile)],
) -> Result<BTreeSet<String>, Failure> {
    let (mut named, mut problems) = (BTreeSet::new(), Vec::new());
    for (path, agent) in agents {
        for server in agent.server_names() {
            if file.get(server).is_some() {
                named.insert(server.to_owned());
                continue;
            }
            let there: Vec<&str> = file.names().collect();
            let line = agent.tools_line.map(|line| format!(":{line}")).unwrap_or_default();
            let problem = format!(
                "{}{line}: tools: {} has no server `{server}`; it has {}",
                path.display(),
                file.label,
                if there.is_empty() { "none".to_owned() } else { there.join(", ") }
            );
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    if problems.is_empty() { Ok(named) } else { Err(Failure::from_messages(problems)) }
}
