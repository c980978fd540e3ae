//! `softland worker`: serves the agent files of a folder to Restate.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use softland_agent::mcp::Servers;
use softland_agent::{AGENT_TOOL, AgentFile};
use softland_restate::{AgentLoader, LoadedAgent, Worker, WorkerError, WorkerSettings};
use tokio_util::sync::CancellationToken;

use crate::args::{RunArgs, WorkerArgs};
use crate::engine::failure_status;
use crate::failure::Failure;
use crate::mcp::start_servers;
use crate::platform::Signals;
use crate::render::Writer;
use crate::settings::{RunSettings, folder};

/// Serves until a signal arrives, and then until nothing is under way.
pub(crate) fn run_command(args: &WorkerArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::for_process();
    let system = |error| Failure::usage(format!("nothing can be served: {error}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let entered = runtime.enter();
    let mut signals = Signals::with_hangup().map_err(system)?;
    let all = RunArgs { agents: Some(args.folder.clone()), ..args.run.clone() };
    let servers = Arc::new(start_servers(&all, &runtime, &mut signals)?);
    let loader = FolderLoader {
        folder: args.folder.clone(),
        run: args.run.clone(),
        servers: Arc::clone(&servers),
    };
    for warning in servers.warnings.iter().cloned().chain(loader.check_agents()?) {
        writer.write_warning(&warning);
    }
    let ended = runtime.block_on(serve_agents(args, Arc::new(loader), signals, &writer));
    if let (Ok(()), Some(servers)) = (&ended, Arc::into_inner(servers)) {
        runtime.block_on(servers.shut_down());
    }
    drop(entered);
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

async fn serve_agents(
    args: &WorkerArgs,
    loader: Arc<dyn AgentLoader>,
    mut signals: Signals,
    writer: &Writer,
) -> Result<(), Failure> {
    let failed = |error: WorkerError| match &error {
        WorkerError::Engine(failure) => {
            Failure::usage(error.to_string()).with_status(failure_status(failure))
        }
        _ => Failure::usage(error.to_string()),
    };
    let WorkerArgs { restate, listen, advertise, .. } = args.clone();
    if advertise.is_none() && listen.ip().is_unspecified() {
        writer.write_warning(&format!(
            "without --advertise the engine is told to reach this worker at {listen}, which works on \
             this machine only"
        ));
    }
    let settings = WorkerSettings { restate, listen, advertise };
    let worker = Worker::bind(&settings, loader).await.map_err(failed)?;
    let stop = CancellationToken::new();
    let url = worker.url().to_owned();
    let registered = || writer.write_note(&format!("registered with {} as {url}", args.restate));
    let serving = worker.serve(registered, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended.map_err(failed),
        () = signals.next() => stop.cancel(),
    }
    writer.write_note("ending when what is under way has ended; a second signal ends it at once");
    tokio::select! {
        ended = serving => ended.map_err(failed),
        () = signals.next() => Ok(()),
    }
}

/// Loads agents from the files of a folder. A file is read again for each run, so that a run is what
/// `softland run` would be.
struct FolderLoader {
    folder: PathBuf,
    run: RunArgs,
    servers: Arc<Servers>,
}

impl FolderLoader {
    /// Checks all agents. Returns warnings.
    fn check_agents(&self) -> Result<Vec<String>, Failure> {
        let paths = folder::list_agent_files(&self.folder)
            .map_err(|error| Failure::usage(format!("--agents: {error}")))?;
        let (mut files, mut warnings, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            match self.load_file(&path) {
                Ok((file, settings)) => {
                    warnings.extend(settings.warnings);
                    files.push((path, file));
                }
                Err(failure) => problems.extend(failure.messages),
            }
        }
        problems.extend(folder::find_same_names(&files));
        problems.dedup();
        warnings.dedup();
        if problems.is_empty() { Ok(warnings) } else { Err(Failure::from_messages(problems)) }
    }

    fn load_file(&self, path: &Path) -> Result<(AgentFile, RunSettings), Failure> {
        let file = AgentFile::load(path).0.map_err(|problems| {
            Failure::from_messages(problems.iter().map(ToString::to_string).collect())
        })?;
        let delegates = file.tools.iter().any(|tool| tool == AGENT_TOOL);
        let run = RunArgs {
            agent: Some(path.to_owned()),
            agents: delegates.then(|| self.folder.clone()),
            ..self.run.clone()
        };
        let settings = RunSettings::without_prompt(&run, &self.servers)?;
        Ok((file, settings))
    }

    fn find_agent(&self, name: &str) -> Result<RunSettings, String> {
        let paths = folder::list_agent_files(&self.folder)?;
        let mut names = Vec::new();
        for path in paths {
            let Ok(file) = AgentFile::load(&path).0 else { continue };
            if file.name == name {
                let loaded = self.load_file(&path);
                return loaded
                    .map(|(_, settings)| settings)
                    .map_err(|failure| failure.messages.join("; "));
            }
            names.push(file.name);
        }
        let names = names.join(", ");
        Err(format!("the worker has no agent `{name}`; its agents are: {names}"))
    }
}

#[async_trait]
impl AgentLoader for FolderLoader {
    async fn load_agent(&self, name: &str) -> Result<LoadedAgent, String> {
        // Each run has the tools that the servers offer when it begins.
        self.servers.refresh_tools().await;
        let RunSettings { agent, .. } = self.find_agent(name)?;
        let resources = Arc::<Servers>::clone(&self.servers);
        Ok(LoadedAgent { agent, resources })
    }
}
