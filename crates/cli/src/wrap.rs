//! `softland wrap`: runs a program with a gateway of its own, for as long as the program runs. The
//! program has the terminal: apart from the pages' address and the ledger's file, which are printed
//! before it starts, nothing is printed until it has ended.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use softland_gateway::{LedgerPlace, Settings, Summary};
use softland_host::SharedUrl;
use tokio_util::sync::CancellationToken;

use crate::args::WrapArgs;
use crate::config::{Config, Overrides};
use crate::failure::Failure;
use crate::gateway_start::{StartedGateway, ledger_line, start_gateway};
use crate::ledger_file::{LedgerChoice, LedgerFlags, choose_ledger};
use crate::logging;
use crate::platform::{self, SignalListener};
use crate::render::Writer;
use crate::shared_state;
use crate::threads;
use clients::{Client, SettingsLookup};

mod clients;
mod environment;
mod program;
mod summary;

/// A free port on the loopback address.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The most time for requests that are under way when the program has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the program, and returns its exit status.
pub(crate) fn run_command(args: &WrapArgs) -> Result<ExitCode, Failure> {
    if let Some(why) = environment::find_bypass(&read_variable) {
        return Err(Failure::usage(why));
    }
    let _log = args.log.as_deref().map(logging::log_to_file).transpose()?;
    let writer = Writer::for_process();
    let client = detect_client(args)?;
    let (settings, ledger) = read_settings(args, &client, &writer)?;
    let runtime = threads::build_serving_runtime().map_err(system_failure)?;
    let wrapped = runtime.block_on(wrap_program(args, &client, (settings, ledger), &writer));
    runtime.shutdown_background();
    let Wrapped { status, summary, ledger } = wrapped?;
    let program = args.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    let place = summary::Place { program: &program, ledger: ledger.as_ref() };
    for line in summary::summary_lines(&summary, place) {
        writer.write_note(&line);
    }
    Ok(ExitCode::from(status))
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn system_failure(error: std::io::Error) -> Failure {
    Failure::usage(format!("the gateway cannot run: {error}"))
}

fn detect_client(args: &WrapArgs) -> Result<Client, Failure> {
    let folder = std::env::current_dir().map_err(system_failure)?;
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let place = SettingsLookup { env: &read_variable, folder: &folder, read: &read };
    clients::detect_client(&args.command, place).map_err(Failure::usage)
}

fn read_settings(
    args: &WrapArgs,
    client: &Client,
    writer: &Writer,
) -> Result<((Settings, SharedUrl), LedgerChoice), Failure> {
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(Failure::from_messages)?,
        None => Config::default(),
    };
    let mut named = environment::read_upstreams(&read_variable).map_err(Failure::from_messages)?;
    for (upstream, url) in &client.upstreams {
        named.upstreams.retain(|(other, _)| other != upstream);
        named.upstreams.push((upstream, url.clone()));
    }
    let asked = Overrides {
        listen: Some((LISTEN, "wrap")),
        upstreams: named.upstreams,
        policy: args.policy.clone(),
        keys: args.keys.clone(),
        private: true,
    };
    let mut settings =
        config.resolve_settings(&asked, &read_variable).map_err(Failure::from_messages)?;
    settings.limits.drain = DRAIN;
    for warning in named.warnings.iter().chain(&config.list_warnings(&asked)) {
        writer.write_warning(warning);
    }
    let flags = LedgerFlags { off: args.no_ledger, here: false };
    let shared = config.resolve_shared(&read_variable).map_err(Failure::from_messages)?;
    Ok(((settings, shared), choose_ledger(&config, flags, &read_variable)?))
}

/// The end of a wrapped program.
struct Wrapped {
    /// The program's exit status.
    status: u8,
    summary: Summary,
    /// The ledger that was written.
    ledger: Option<LedgerPlace>,
}

/// Runs the program behind a gateway.
async fn wrap_program(
    args: &WrapArgs,
    client: &Client,
    ((mut settings, shared), choice): ((Settings, SharedUrl), LedgerChoice),
    writer: &Writer,
) -> Result<Wrapped, Failure> {
    settings.shared = shared_state::connect(&shared)?.map(|stores| stores.state);
    let StartedGateway { gateway, ledger } =
        start_gateway(settings, choice.clone(), writer).await?;
    let url = format!("http://{}", gateway.local_addr());
    let pages = gateway.pages_url();
    // From here on signals are passed on to the program.
    let heard = SignalListener::listen().map_err(system_failure)?;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(gateway.run(stop.clone().cancelled_owned()));
    let given = client.launch_options(&url);
    let mut variables = environment::program_variables(&read_variable, &url);
    variables.extend(given.variables);
    writer.write_note(&format!("pages: {pages}"));
    writer.write_note(&ledger_line(ledger.as_ref(), &choice));
    let program = program::spawn_program(&args.command, &given.arguments, &variables)?;
    let ended = platform::wait_for_end(program, heard).await.map_err(system_failure)?;
    stop.cancel();
    let summary = serving.await.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Summary::default(),
    });
    Ok(Wrapped { status: platform::exit_status(ended), summary, ledger })
}
