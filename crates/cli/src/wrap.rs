//! `softland wrap`: runs a program with a gateway of its own, for as long as the program runs. The
//! program has the terminal: apart from the address of the pages, which is printed before it
//! starts, nothing is printed until it has ended.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use softland_gateway::{Gateway, Settings, Summary};
use tokio_util::sync::CancellationToken;

use crate::args::WrapArgs;
use crate::config::{Asked, Config};
use crate::failure::Failure;
use crate::logging;
use crate::render::Writer;
use crate::threads;
use clients::{Client, Place};

mod account;
mod clients;
mod environment;
mod program;

/// A free port on the loopback address.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The most time for requests that are under way when the program has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the program, and returns its exit status.
pub(crate) fn run(args: &WrapArgs) -> Result<ExitCode, Failure> {
    if let Some(why) = environment::elsewhere(&variable) {
        return Err(Failure::usage(why));
    }
    let _log = args.log.as_deref().map(logging::to_file).transpose()?;
    let writer = Writer::of_process();
    let client = client(args)?;
    let settings = settings(args, &client, &writer)?;
    let runtime = threads::serving().map_err(system)?;
    let wrapped = runtime.block_on(wrap(args, &client, settings, &writer));
    runtime.shutdown_background();
    let (code, summary) = wrapped?;
    let name = args.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    for line in account::lines(&summary, &name) {
        writer.note(&line);
    }
    Ok(ExitCode::from(code))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn system(error: std::io::Error) -> Failure {
    Failure::usage(format!("the gateway cannot run: {error}"))
}

fn client(args: &WrapArgs) -> Result<Client, Failure> {
    let folder = std::env::current_dir().map_err(system)?;
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let place = Place { env: &variable, folder: &folder, read: &read };
    clients::of(&args.command, place).map_err(Failure::usage)
}

fn settings(args: &WrapArgs, client: &Client, writer: &Writer) -> Result<Settings, Failure> {
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(Failure::all)?,
        None => Config::default(),
    };
    let mut named = environment::upstreams(&variable).map_err(Failure::all)?;
    for (upstream, url) in &client.upstreams {
        named.upstreams.retain(|(other, _)| other != upstream);
        named.upstreams.push((upstream, url.clone()));
    }
    let asked = Asked {
        listen: Some((LISTEN, "wrap")),
        upstreams: named.upstreams,
        policy: args.policy.clone(),
        keys: args.keys.clone(),
        private: true,
    };
    let mut settings = config.settings(&asked, &variable).map_err(Failure::all)?;
    settings.limits.drain = DRAIN;
    for warning in named.warnings.iter().chain(&config.warnings(&asked)) {
        writer.warning(warning);
    }
    Ok(settings)
}

/// Runs the program behind a gateway. Returns the program's exit status and the gateway's summary.
async fn wrap(
    args: &WrapArgs,
    client: &Client,
    settings: Settings,
    writer: &Writer,
) -> Result<(u8, Summary), Failure> {
    let gateway =
        Gateway::bind(settings).await.map_err(|error| Failure::usage(error.to_string()))?;
    let url = format!("http://{}", gateway.local_addr());
    let pages = gateway.pages_url();
    // From here on signals are passed on to the program.
    let heard = program::Heard::listen().map_err(system)?;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(gateway.run(stop.clone().cancelled_owned()));
    let given = client.given(&url);
    let mut variables = environment::changed(&variable, &url);
    variables.extend(given.variables);
    writer.note(&format!("pages: {pages}"));
    let program = program::begin(&args.command, &given.arguments, &variables)?;
    let ended = program::wait(program, heard).await.map_err(system)?;
    stop.cancel();
    let summary = serving.await.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Summary::default(),
    });
    Ok((program::exit_status(ended), summary))
}
