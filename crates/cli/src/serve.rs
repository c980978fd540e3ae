//! `softland serve`: runs the gateway until a signal stops it. The gateway crate handles requests;
//! this module has the config, the signals and the exit status.

use std::path::Path;
use std::process::ExitCode;

use softland_gateway::{Handle, LedgerPlace, Settings, Summary};
use softland_host::SharedUrl;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::config::{Config, LEDGER, Overrides};
use crate::failure::{Failure, status};
use crate::gateway_start::{StartedGateway, ledger_line, start_gateway};
use crate::ledger_file::{LedgerChoice, LedgerFlags, choose_ledger};
use crate::logging;
use crate::platform::{Reloads, Signals};
use crate::render::Writer;
use crate::shared_state;
use crate::threads;

/// Serves until a signal stops the gateway.
pub(crate) fn run_command(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let _log = logging::log_to_stderr()?;
    let ReadSettings { settings, shared, ledger, warnings, config } =
        read_settings(args).map_err(Failure::from_messages)?;
    let writer = Writer::for_process();
    for warning in &warnings {
        writer.write_warning(warning);
    }
    let system = |error| Failure::usage(format!("the gateway cannot run: {error}"));
    let runtime = threads::build_serving_runtime().map_err(system)?;
    let served =
        runtime.block_on(serve_gateway(args, (settings, shared), (ledger, config), &writer));
    // The process does not wait for requests that a second signal cut off.
    runtime.shutdown_background();
    served
}

/// The gateway's settings, from the flags and the current config.
struct ReadSettings {
    settings: Settings,
    shared: SharedUrl,
    ledger: LedgerChoice,
    warnings: Vec<String>,
    /// The config itself, with which the next one is compared.
    config: Config,
}

fn read_settings(args: &ServeArgs) -> Result<ReadSettings, Vec<String>> {
    let config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let asked = Overrides {
        listen: args.listen.map(|address| (address, "--listen")),
        upstreams: args.upstreams.clone(),
        policy: args.policy.clone(),
        keys: args.keys.clone(),
        private: false,
    };
    let env = |name: &str| std::env::var(name).ok();
    let settings = config.resolve_settings(&asked, &env)?;
    let shared = config.resolve_shared(&env)?;
    let here = args.config.is_some() || Path::new(LEDGER).exists();
    let flags = LedgerFlags { off: args.no_ledger, here };
    let ledger = choose_ledger(&config, flags, &env).map_err(|failure| failure.messages)?;
    let mut warnings = config.list_warnings(&asked);
    warnings.extend(config.list_weak_tokens(&asked, &env));
    Ok(ReadSettings { settings, shared, ledger, warnings, config })
}

async fn serve_gateway(
    args: &ServeArgs,
    (mut settings, shared): (Settings, SharedUrl),
    (ledger, mut config): (LedgerChoice, Config),
    writer: &Writer,
) -> Result<ExitCode, Failure> {
    let system = |error| Failure::usage(format!("the gateway cannot run: {error}"));
    let mut signals = Signals::listen().map_err(system)?;
    let mut reloads = Reloads::listen(args.config.as_deref()).map_err(system)?;
    if let Some(stores) = shared_state::connect(&shared)? {
        settings.shared = Some(stores.state);
        settings.key_store = Some(stores.keys);
    }
    let StartedGateway { gateway, ledger: used } =
        start_gateway(settings, ledger.clone(), writer).await?;
    let (address, admin, handle) = (gateway.local_addr(), gateway.admin_addr(), gateway.handle());
    let pages = gateway.pages_url();
    let (scheme, _) = pages.split_once(':').unwrap_or_default();
    let stop = CancellationToken::new();
    let mut serving = tokio::spawn(gateway.run(stop.clone().cancelled_owned()));
    writer.write_note(&format!("listening on {scheme}://{address}"));
    writer.write_note(&format!("pages: {pages}"));
    writer.write_note(&ledger_line(used.as_ref(), &ledger));
    if let Some(admin) = admin {
        writer.write_note(&format!("health, readiness and metrics also on {scheme}://{admin}"));
    }
    loop {
        tokio::select! {
            ended = &mut serving => return Ok(exit_code(ended)),
            () = signals.next() => break,
            () = reloads.next() => {
                reload_config(args, (used.as_ref(), &shared), &mut config, &handle);
            }
        }
    }
    tracing::info!("stopping: running requests may end; a second signal cuts them off");
    stop.cancel();
    Ok(drain_requests(serving, &handle, signals, reloads).await)
}

/// Waits for the requests under way. A second signal cuts them off; their results are still
/// recorded, within the gateway's time limit. A third signal ends the process at once.
async fn drain_requests(
    mut serving: JoinHandle<Summary>,
    handle: &Handle,
    mut signals: Signals,
    mut reloads: Reloads,
) -> ExitCode {
    let cancelled = ExitCode::from(status::CANCELLED);
    let mut cut = false;
    loop {
        tokio::select! {
            biased;
            ended = &mut serving => {
                let code = exit_code(ended);
                return if cut { cancelled } else { code };
            }
            () = signals.next() => {
                if cut {
                    return cancelled;
                }
                tracing::warn!("running requests are cut off; the ledger is still written");
                handle.cut_off();
                cut = true;
            }
            () = reloads.next() => tracing::warn!("stopping: the config is not read again"),
        }
    }
}

fn exit_code(ended: Result<Summary, tokio::task::JoinError>) -> ExitCode {
    match ended {
        Ok(summary) => {
            let Summary { requests, spend, answered, landed, stopped, lost_records, .. } = summary;
            if lost_records > 0 {
                let why = summary.ledger_fault.unwrap_or_default();
                tracing::error!(lost_records, "the ledger lacks records of this process: {why}");
            }
            tracing::info!(requests, %spend, answered, landed, stopped, "stopped");
            ExitCode::SUCCESS
        }
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => ExitCode::from(status::CANCELLED),
        },
    }
}

/// Reads the config again and applies it, or logs the reason why not. `config` is the one in force.
/// One that lacks some of it may be half written, and would lift limits or send the clients' keys
/// elsewhere.
fn reload_config(
    args: &ServeArgs,
    (ledger, shared): (Option<&LedgerPlace>, &SharedUrl),
    config: &mut Config,
    handle: &Handle,
) {
    if args.config.is_none() {
        tracing::warn!("there is no config to read again (--config FILE)");
        return;
    }
    let read = read_settings(args);
    let ReadSettings { mut settings, shared: asked, ledger: choice, warnings, config: next } =
        match read {
            Ok(read) => read,
            Err(problems) => {
                for problem in problems {
                    tracing::error!("{problem}");
                }
                tracing::error!("the config has mistakes; the old settings stay");
                return;
            }
        };
    if asked != *shared {
        tracing::error!(
            "[shared] cannot change while the gateway runs (restart it); the old settings stay"
        );
        return;
    }
    let lost = config.list_lost(&next);
    if !lost.is_empty() {
        let lost = lost.join(", ");
        tracing::error!(
            "the config lacks {lost}, which the one in force has; the old settings stay (to take \
             it away, start softland anew)"
        );
        return;
    }
    // A default ledger stays as it is, also if it could not be used at the start.
    settings.ledger = match &choice {
        LedgerChoice::Named(place) => Some(place.clone()),
        LedgerChoice::Off(_) => None,
        LedgerChoice::Default(_) | LedgerChoice::NoPlace(_) => ledger.cloned(),
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match handle.reload(settings) {
        Ok(()) => {
            *config = next;
            tracing::info!("the config was read again and is in force");
        }
        Err(problem) => tracing::error!("{problem}"),
    }
}
