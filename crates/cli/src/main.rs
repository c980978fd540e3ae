//! The `softland` command, the only reader of arguments, environment and config files.
//!
//! This crate takes no decision about runs (the agent crate and the crates below it do), and prints
//! through one module only, [`render`].

mod args;
mod audit;
mod check;
mod config;
#[cfg(feature = "engine")]
mod engine;
mod failure;
mod gateway_start;
mod generated;
mod init;
mod keys;
mod ledger_file;
mod logging;
mod mcp;
#[cfg(feature = "notebook")]
mod notebook;
mod pages;
mod platform;
mod programs;
mod provider_status;
mod render;
mod run;
mod runs;
mod serve;
mod settings;
mod shared_state;
mod show;
mod sim;
mod threads;
mod wrap;

use std::process::ExitCode;

use args::Command;
use failure::status;
use render::{OutputLoss, Writer};
use softland_agent::tools::supervise_program;

/// Serving allocates much and keeps little: the C library's allocator takes an eighth more
/// processor time for it (docs/benchmarks.md). On Linux mimalloc replaces its `malloc` (feature
/// `override`), for SQLite, too; Rust's own allocator calls that.
#[cfg(all(feature = "mimalloc", target_os = "linux"))]
use mimalloc as _;

#[cfg(all(feature = "mimalloc", not(target_os = "linux")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    platform::let_long_writes_fail();
    let mut writer = Writer::for_process();
    let command = match args::parse_args(std::env::args_os()) {
        Ok(command) => command,
        Err(failure) => return writer.report_failure(&failure),
    };
    let done = match command {
        Command::Print(text) => {
            writer.write_result(&text);
            Ok(match writer.output_loss() {
                OutputLoss::Failed => ExitCode::from(status::USAGE),
                OutputLoss::Nothing | OutputLoss::Closed => ExitCode::SUCCESS,
            })
        }
        Command::Supervise => Ok(ExitCode::from(supervise_program(std::io::stdin()))),
        Command::Run(args) => run::run_command(args),
        Command::Serve(args) => serve::run_command(&args),
        Command::Wrap(args) => wrap::run_command(&args),
        Command::Runs(args) => runs::run_command(&args, &mut writer),
        Command::Show(args) => show::run_command(&args, &mut writer),
        Command::Keys(args) => keys::run_command(&args, &mut writer),
        Command::Pages(args) => pages::run_command(&args),
        Command::Init(args) => init::run_command(&args, &mut writer),
        Command::Audit(args) => audit::run_command(&args, &mut writer),
        Command::Sim(args) => sim::run_command(&args),
        Command::Mcp(args) => mcp::run_command(&args),
        #[cfg(feature = "notebook")]
        Command::Notebook(args) => notebook::run_command(&args),
        #[cfg(feature = "engine")]
        Command::Worker(args) => engine::worker::run_command(&args),
        #[cfg(feature = "engine")]
        Command::EngineRun(args) => run::engine::run_command(&args),
        #[cfg(feature = "engine")]
        Command::EngineRuns(args) => engine::runs_command(&args, &mut writer),
        #[cfg(feature = "engine")]
        Command::Cancel(args) => engine::cancel_run(&args),
        Command::Check(args) => check::run_command(&args, &mut writer),
        Command::Completions(args) => Ok(generated::print_completions(args, &mut writer)),
        Command::Man(args) => generated::print_man(&args, &mut writer),
    };
    done.unwrap_or_else(|failure| writer.report_failure(&failure))
}
