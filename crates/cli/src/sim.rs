//! `softland sim`: serves the simulated provider over HTTP. The submodule is the simulator as a
//! transport in this process.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;

use softland_sim::{Config, Scenario, Sim, serve_http};
use tokio::net::TcpListener;

use crate::args::SimArgs;
use crate::failure::Failure;
use crate::platform::Signals;
use crate::render::Writer;

mod in_process;

pub(crate) use in_process::{InProcessSim, SIMULATOR, posed_model, simulated_name};

/// Serves until a signal stops the simulator.
pub(crate) fn run_command(args: &SimArgs) -> Result<ExitCode, Failure> {
    let scenario = Scenario::from_name_or_path(&args.scenario).map_err(|wrong| {
        let near = in_process::suggest_scenario(&args.scenario);
        Failure::usage(format!("--scenario: {wrong}{near}"))
    })?;
    let mut config = Config::new(scenario);
    config.accept_foreign_signatures = args.accept_foreign_signatures;
    let system = |error| Failure::usage(format!("the simulator cannot run: {error}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let served = runtime.block_on(serve_until_signal(args, Arc::new(Sim::new(config))));
    // A second Ctrl-C does not wait for responses that are being written slowly.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve_until_signal(args: &SimArgs, sim: Arc<Sim>) -> Result<(), Failure> {
    let listen = &args.listen;
    let fail = |error: std::io::Error| {
        Failure::usage(match error.kind() {
            ErrorKind::AddrInUse => format!(
                "cannot listen on {listen}: another program uses this port; --listen 127.0.0.1:0 \
                 takes a free port"
            ),
            _ => format!("--listen {listen}: {error}; an address is HOST:PORT, port 0 a free one"),
        })
    };
    let listener = TcpListener::bind(listen).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let mut signals = Signals::listen().map_err(fail)?;
    let writer = Writer::for_process();
    for line in usage_lines(&format!("http://{address}"), &args.scenario) {
        writer.write_note(&line);
    }
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = serve_http(listener, sim, stop.clone().cancelled_owned());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map_err(fail),
        () = signals.next() => {}
    }
    stop.cancel();
    tokio::select! {
        served = serving => served.map_err(fail),
        () = signals.next() => Ok(()),
    }
}

/// Lists the address, and the commands that use it.
fn usage_lines(url: &str, scenario: &str) -> [String; 3] {
    [
        format!("listening on {url} (scenario {scenario}; nothing costs anything)"),
        format!(
            "  softland: ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any softland run AGENT.md \
             --model anthropic/claude-sonnet-5-5"
        ),
        format!("  others:   ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any YOUR-PROGRAM"),
    ]
}
