//! `softland notebook`: serves a notebook's page until a signal stops it. The notebook crate has
//! the notebook, its kernel and its assistant; this module has the settings, the signals and the
//! exit status.

use std::process::ExitCode;
use std::sync::Arc;

use softland_agent::{Agent, AgentFile, Event};
use softland_notebook::{
    Chat, ChatOptions, ExplainEvent, NotebookOptions, Server, ServerOptions, SharedNotebook,
    notebook_tools,
};
use tokio_util::sync::CancellationToken;

use crate::args::NotebookArgs;
use crate::config::Config;
use crate::failure::{Failure, status};
use crate::platform::Signals;
use crate::programs;
use crate::render::Writer;
use crate::run::state;
use crate::settings::RunSettings;

/// The agent file of the assistant.
const ASSISTANT: &str = include_str!("notebook/assistant.md");

/// Serves until a signal arrives.
pub(crate) fn run_command(args: &NotebookArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::for_process();
    let system = |error| Failure::usage(format!("the notebook cannot be opened: {error}"));
    let config = match &args.run.config {
        Some(path) => Config::load(path).map_err(Failure::from_messages)?,
        None => Config::default(),
    };
    let (file, _) = AgentFile::parse("the assistant", ASSISTANT);
    let problems = |all: Vec<softland_agent::Problem>| {
        Failure::from_messages(all.iter().map(ToString::to_string).collect())
    };
    let settings = RunSettings::for_assistant(&args.run, &config, &file.map_err(problems)?)?;
    for warning in &settings.warnings {
        writer.write_warning(warning);
    }
    let programs = programs::allow_programs(&config)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let served =
        runtime.block_on(serve_notebook(args, settings, programs, config.allowed_hosts(), &writer));
    // The process does not wait for a kernel that does not end at once.
    runtime.shutdown_background();
    served
}

async fn serve_notebook(
    args: &NotebookArgs,
    settings: RunSettings,
    programs: softland_agent::tools::ProgramRunner,
    hosts: &[String],
    writer: &Writer,
) -> Result<ExitCode, Failure> {
    let system = |error| Failure::usage(format!("the notebook cannot be served: {error}"));
    let mut signals = Signals::listen().map_err(system)?;
    let journals = state::journal_folder(&|name| std::env::var(name).ok());
    let state = journals.as_deref().and_then(std::path::Path::parent);
    let folder = state.map_or_else(std::env::temp_dir, std::path::Path::to_owned);
    // The server listens before the notebook is opened: if nothing can be served, no file is
    // created.
    let listening = Server::bind_loopback(args.listen).await;
    let listening = listening.map_err(|why| Failure::usage(format!("--listen: {why}")))?;
    let mut options = NotebookOptions::new(folder, Some(programs));
    options.kernel.clone_from(&args.kernel);
    let room = SharedNotebook::open(&args.file, options).await;
    let room = room.map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(why) = room.watch().0.kernel.why {
        writer.write_warning(&format!("no cell can be run: {why}"));
    }
    let lists = state.map(|state| state.join("notebooks"));
    let kept = ChatOptions { journals, lists, made: room.was_created() };
    let (chat, warnings) = open_chat(settings, &room, kept).await;
    for warning in &warnings {
        writer.write_warning(warning);
    }
    let mut options = ServerOptions::default();
    options.hosts = hosts.to_vec();
    let server = Server::new(Arc::clone(&room), chat, listening, options);
    let server = match server {
        Ok(server) => server,
        Err(why) => {
            room.close().await;
            return Err(Failure::usage(why));
        }
    };
    writer.write_note(&format!("listening on http://{}", server.local_addr()));
    writer.write_note(&format!("notebook: {}", server.page_url()));
    let stop = CancellationToken::new();
    let mut serving = tokio::spawn(server.serve_until(stop.clone().cancelled_owned()));
    tokio::select! {
        ended = &mut serving => return exit_code(ended),
        () = signals.next() => stop.cancel(),
    }
    tokio::select! {
        ended = serving => exit_code(ended),
        // A second signal ends the process at once.
        () = signals.next() => Ok(ExitCode::from(status::CANCELLED)),
    }
}

/// Opens the chat with the assistant, whose tools work in the room.
async fn open_chat(
    settings: RunSettings,
    room: &Arc<SharedNotebook>,
    options: ChatOptions,
) -> (Arc<Chat>, Vec<String>) {
    let RunSettings { agent, mut places, .. } = settings;
    let agent = Agent { tools: notebook_tools(room), ..agent };
    let explain: ExplainEvent = Box::new(move |event: &Event| places.explain_error(event));
    Chat::open(agent, room.path(), options, explain).await
}

fn exit_code(
    ended: Result<std::io::Result<()>, tokio::task::JoinError>,
) -> Result<ExitCode, Failure> {
    match ended {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(error)) => Err(Failure::usage(format!("the page is no longer served: {error}"))),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(ExitCode::from(status::CANCELLED)),
        },
    }
}
