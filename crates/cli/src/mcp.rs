//! `softland mcp`: serves the agent files of a folder as MCP tools. The submodule starts the
//! servers of `--mcp`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use softland_agent::mcp::{self, Servers, Specialist};
use softland_agent::{AGENT_TOOL, AgentFile, Conversation, Event, EventKind, Report};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::{McpArgs, RunArgs};
use crate::failure::{Failure, status};
use crate::platform::Signals;
use crate::render::Writer;
use crate::settings::{RunSettings, folder};

mod servers;

pub(crate) use servers::start_servers;

/// Serves until the client disconnects or a signal arrives.
pub(crate) fn run_command(args: &McpArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::for_process();
    let system = |error| Failure::usage(format!("nothing can be served: {error}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let entered = runtime.enter();
    let mut signals = Signals::with_hangup().map_err(system)?;
    let files = load_files(args)?;
    let all = RunArgs { agents: Some(args.folder.clone()), ..args.run.clone() };
    let servers = Arc::new(start_servers(&all, &runtime, &mut signals)?);
    for warning in &servers.warnings {
        writer.write_warning(warning);
    }
    let specialists = build_specialists(args, files, &servers, &writer)?;
    let ended = serve_agents(args, specialists, &runtime, signals, &writer);
    if let (Ok(Some(_)), Some(servers)) = (&ended, Arc::into_inner(servers)) {
        runtime.block_on(servers.shut_down());
    }
    drop(entered);
    // A thread may still be waiting for standard input.
    runtime.shutdown_background();
    Ok(match ended? {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::from(status::CANCELLED),
    })
}

/// Loads the agent files of the folder. Each must be valid by itself and have a name that is
/// allowed for a tool.
fn load_files(args: &McpArgs) -> Result<Vec<(PathBuf, AgentFile)>, Failure> {
    let paths = folder::list_agent_files(&args.folder).map_err(Failure::usage)?;
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match AgentFile::load(&path).0 {
            Ok(file) => match check_tool_name(&path, &file) {
                Some(problem) => problems.push(problem),
                None => files.push((path, file)),
            },
            Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
        }
    }
    problems.extend(folder::find_same_names(&files));
    if problems.is_empty() { Ok(files) } else { Err(Failure::from_messages(problems)) }
}

/// Returns the problem with an agent's name, under which no client of MCP could call the agent.
pub(crate) fn check_tool_name(path: &Path, file: &AgentFile) -> Option<String> {
    let name = &file.name;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let valid = (1..=64).contains(&name.len()) && name.bytes().all(plain);
    (!valid).then(|| {
        format!(
            "{}: name: `{name}` cannot name a tool: 1 to 64 of a-z A-Z 0-9 _ - are allowed",
            path.display()
        )
    })
}

/// Prepares the agents. Each is built once, so that problems are known before the first call.
fn build_specialists(
    args: &McpArgs,
    files: Vec<(PathBuf, AgentFile)>,
    servers: &Arc<Servers>,
    writer: &Writer,
) -> Result<Vec<Arc<dyn Specialist>>, Failure> {
    let (mut specialists, mut problems) = (Vec::<Arc<dyn Specialist>>::new(), Vec::new());
    let mut warned: Vec<String> = Vec::new();
    for (path, file) in files {
        let delegates = file.tools.iter().any(|tool| tool == AGENT_TOOL);
        let run = RunArgs {
            agent: Some(path),
            agents: delegates.then(|| args.folder.clone()),
            ..args.run.clone()
        };
        match RunSettings::without_prompt(&run, servers) {
            Ok(settings) => {
                for warning in settings.warnings {
                    if !warned.contains(&warning) {
                        writer.write_warning(&warning);
                        warned.push(warning);
                    }
                }
                let AgentFile { name, description, .. } = file;
                let servers = Arc::clone(servers);
                specialists.push(Arc::new(ServedAgent { name, description, run, servers }));
            }
            Err(failure) => problems.extend(failure.messages),
        }
    }
    problems.dedup();
    if problems.is_empty() { Ok(specialists) } else { Err(Failure::from_messages(problems)) }
}

/// Serves to the end. Returns `None` if a second signal forced the end.
fn serve_agents(
    args: &McpArgs,
    specialists: Vec<Arc<dyn Specialist>>,
    runtime: &Runtime,
    mut signals: Signals,
    writer: &Writer,
) -> Result<Option<()>, Failure> {
    let stop = CancellationToken::new();
    let until = stop.clone();
    let listening = match args.listen {
        None => None,
        Some(address) => {
            let listening = runtime.block_on(mcp::listen_on_loopback(
                specialists.clone(),
                address,
                until.clone(),
            ));
            let listening =
                listening.map_err(|error| Failure::usage(format!("--listen: {error}")))?;
            writer.write_note(&format!("listening on {}", listening.url()));
            Some(listening)
        }
    };
    runtime.block_on(async {
        let serving = async {
            match listening {
                Some(listening) => {
                    listening.serve_until_stopped().await;
                    Ok(())
                }
                None => {
                    let pipes = (tokio::io::stdin(), tokio::io::stdout());
                    mcp::serve_stdio(specialists, pipes.0, pipes.1, until).await
                }
            }
        };
        tokio::pin!(serving);
        let mut asked = false;
        loop {
            tokio::select! {
                ended = &mut serving => return ended.map(Some).map_err(Failure::usage),
                () = signals.next() => {
                    if asked {
                        return Ok(None);
                    }
                    asked = true;
                    stop.cancel();
                }
            }
        }
    })
}

/// An agent file that is served as a tool. The file is read again for each call, so that each call
/// is what `softland run` would be, with tools of its own.
struct ServedAgent {
    name: String,
    description: String,
    run: RunArgs,
    servers: Arc<Servers>,
}

#[async_trait]
impl Specialist for ServedAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn run(
        &self,
        prompt: &str,
        events: &mut (dyn for<'e> FnMut(&'e Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Report, String> {
        // Each run has the tools that the servers offer when it begins.
        self.servers.refresh_tools().await;
        let settings = RunSettings::without_prompt(&self.run, &self.servers)
            .map_err(|failure| failure.messages.join("; "))?;
        let RunSettings { agent, mut places, .. } = settings;
        let mut failure = None;
        let mut hear = |event: &Event| {
            let explained = places.explain_error(event);
            if let Some(EventKind::Error { message, .. }) = explained.as_ref().map(|e| &e.kind) {
                failure = Some(message.clone());
            }
            events(explained.as_ref().unwrap_or(event));
        };
        let mut conversation = Conversation::new();
        let report =
            Box::pin(agent.run_in_conversation(&mut conversation, prompt, &mut hear, cancel)).await;
        let report = report.map_err(|unfit| unfit.to_string())?;
        Ok(Report { failure: failure.or_else(|| report.failure.clone()), ..report })
    }
}
