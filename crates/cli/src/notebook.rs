//! `softland notebook`: serves a notebook's page until a signal stops it. The notebook crate has
//! the notebook, its kernel and its assistant; this module has the settings, the signals and the
//! exit status.

use std::process::ExitCode;
use std::sync::Arc;

use softland_agent::{Agent, AgentFile, Event};
use softland_notebook::{
    Chat, ChatOptions, Explain, Room, RoomOptions, Server, ServerOptions, tools,
};
use tokio_util::sync::CancellationToken;

use crate::args::NotebookArgs;
use crate::config::Config;
use crate::failure::{Failure, status};
use crate::programs;
use crate::render::Writer;
use crate::run::state;
use crate::settings::Settings;
use crate::signals::Signals;

/// The agent file of the assistant.
const ASSISTANT: &str = include_str!("notebook/assistant.md");

/// Serves until a signal arrives.
pub(crate) fn run(args: &NotebookArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::of_process();
    let system = |error| Failure::usage(format!("the notebook cannot be opened: {error}"));
    let config = match &args.run.config {
        Some(path) => Config::load(path).map_err(Failure::all)?,
        None => Config::default(),
    };
    let (file, _) = AgentFile::parse("the assistant", ASSISTANT);
    let problems = |all: Vec<softland_agent::Problem>| {
        Failure::all(all.iter().map(ToString::to_string).collect())
    };
    let settings = Settings::of_assistant(&args.run, &config, &file.map_err(problems)?)?;
    for warning in &settings.warnings {
        writer.warning(warning);
    }
    let programs = programs::allowed(&config)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let served = runtime.block_on(serve(args, settings, programs, config.allowed_hosts(), &writer));
    // The process does not wait for a kernel that does not end at once.
    runtime.shutdown_background();
    served
}

async fn serve(
    args: &NotebookArgs,
    settings: Settings,
    programs: softland_agent::tools::Programs,
    hosts: &[String],
    writer: &Writer,
) -> Result<ExitCode, Failure> {
    let system = |error| Failure::usage(format!("the notebook cannot be served: {error}"));
    let mut signals = Signals::listen().map_err(system)?;
    let journals = state::folder(&|name| std::env::var(name).ok());
    let state = journals.as_deref().and_then(std::path::Path::parent);
    let folder = state.map_or_else(std::env::temp_dir, std::path::Path::to_owned);
    // The server listens before the notebook is opened: if nothing can be served, no file is
    // created.
    let listening = Server::listen(args.listen).await;
    let listening = listening.map_err(|why| Failure::usage(format!("--listen: {why}")))?;
    let mut options = RoomOptions::new(folder, Some(programs));
    options.kernel.clone_from(&args.kernel);
    let room = Room::open(&args.file, options).await;
    let room = room.map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(why) = room.watch().0.kernel.why {
        writer.warning(&format!("no cell can be run: {why}"));
    }
    let lists = state.map(|state| state.join("notebooks"));
    let kept = ChatOptions { journals, lists, made: room.was_made() };
    let (chat, warnings) = chat(settings, &room, kept).await;
    for warning in &warnings {
        writer.warning(warning);
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
    writer.note(&format!("listening on http://{}", server.local_addr()));
    writer.note(&format!("notebook: {}", server.url()));
    let stop = CancellationToken::new();
    let mut serving = tokio::spawn(server.run(stop.clone().cancelled_owned()));
    tokio::select! {
        ended = &mut serving => return end(ended),
        () = signals.next() => stop.cancel(),
    }
    tokio::select! {
        ended = serving => end(ended),
        // A second signal ends the process at once.
        () = signals.next() => Ok(ExitCode::from(status::CANCELLED)),
    }
}

/// Opens the chat with the assistant, whose tools work in the room.
async fn chat(
    settings: Settings,
    room: &Arc<Room>,
    options: ChatOptions,
) -> (Arc<Chat>, Vec<String>) {
    let Settings { agent, mut places, .. } = settings;
    let agent = Agent { tools: tools(room), ..agent };
    let explain: Explain = Box::new(move |event: &Event| places.explain(event));
    Chat::open(agent, room.path(), options, explain).await
}

fn end(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<ExitCode, Failure> {
    match ended {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(error)) => Err(Failure::usage(format!("the page is no longer served: {error}"))),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(ExitCode::from(status::CANCELLED)),
        },
    }
}
