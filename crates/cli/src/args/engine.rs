//! The arguments of runs that an engine keeps: `softland worker`, `softland cancel`, and the flags
//! `--engine` and `--attach`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use softland_agent::http::Api;

use super::{OutputFormat, RunArgs, collect_policy_keys, get_value, spec};
use crate::config::{LISTEN, parse_listen_address};
use crate::failure::Failure;

/// The default address at which the engine takes requests.
const ENGINE: &str = "http://127.0.0.1:8080";
/// The variable that names another one.
const ENGINE_VARIABLE: &str = "SOFTLAND_ENGINE";
/// The default address of the engine's administration.
const RESTATE: &str = "http://127.0.0.1:9070";
/// The default address of a worker.
const WORKER_LISTEN: &str = "127.0.0.1:9080";

const WORKER_EXAMPLES: &str = "\
Examples:
  npx @restatedev/restate-server
  softland worker --agents agents --restate http://127.0.0.1:9070

Each agent file (*.md) can then be run from any machine that reaches Restate:
  softland run NAME PROMPT --engine http://127.0.0.1:8080

A run whose worker is killed goes on with the next worker of the same build. The flags apply to
every agent.

Limits hold for one tree of runs. Budgets of accounts hold for workers whose requests go through a
gateway of softland: --base-url is its address, and the provider's key is a token of the account.";

/// The parsed arguments of `softland worker`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkerArgs {
    pub(crate) folder: PathBuf,
    pub(crate) restate: String,
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<String>,
    /// The arguments that apply to every agent; they name no agent file.
    pub(crate) run: RunArgs,
}

/// The parsed arguments of `softland run --engine` and `softland run --attach`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EngineRunArgs {
    pub(crate) engine: String,
    pub(crate) which: EngineRun,
    /// The arguments that say what is shown.
    pub(crate) shown: RunArgs,
}

/// The run that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineRun {
    /// A new run of an agent.
    New { agent: PathBuf, prompt: Option<String> },
    /// A run that was started before.
    Attach(String),
}

/// The parsed arguments of `softland cancel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CancelArgs {
    pub(crate) engine: String,
    pub(crate) run: String,
}

/// The parsed arguments of `softland runs --engine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineRunsArgs {
    pub(crate) engine: String,
    pub(crate) json: bool,
    /// The run to delete; `None` to list all.
    pub(crate) delete: Option<String>,
}

pub(super) fn worker_command() -> Command {
    let command = Command::new("worker")
        .about("Serves agent files to Restate, so that their runs outlive a machine")
        .after_help(WORKER_EXAMPLES)
        .max_term_width(100)
        .arg(
            spec::path_arg("agents")
                .long("agents")
                .value_name("DIR")
                .required(true)
                .help("The folder of agent files (*.md)"),
        )
        .arg(spec::text_flag("restate", "URL").help(format!(
            "The address of Restate's administration, with which the worker registers \
             [default: {RESTATE}]"
        )))
        .arg(spec::text_flag("listen", "ADDR").help(format!(
            "The address on which the worker listens; port 0 takes a free one \
             [default: {WORKER_LISTEN}]"
        )))
        .arg(spec::text_flag("advertise", "URL").help(
            "The address at which Restate reaches the worker, or the balancer before it \
             [default: http://ADDR]",
        ));
    spec::with_policy_flags(spec::with_model_flags(spec::with_setup_flags(command)))
}

pub(super) fn cancel_command() -> Command {
    Command::new("cancel")
        .about("Ends a run that an engine keeps, with all runs below it")
        .arg(Arg::new("RUN").required(true).help("The run's id"))
        .arg(engine_flag("Where the run is kept"))
}

fn engine_flag(what: &str) -> Arg {
    spec::text_flag("engine", "URL").help(format!(
        "{what}: the address at which Restate takes requests [default: ${ENGINE_VARIABLE}, else \
         {ENGINE}]"
    ))
}

/// Adds the flags of runs that an engine keeps to those of `run`.
pub(super) fn with_engine_flags(run: Command) -> Command {
    let others = run.get_arguments().map(|arg| arg.get_id().to_string());
    let shown = ["AGENT", "PROMPT", "format", "show-thinking", "fold-agents", "verbose"];
    let others: Vec<String> = others.filter(|id| !shown.contains(&id.as_str())).collect();
    run.arg(spec::text_flag("engine", "URL").conflicts_with_all(others.clone()).help(
        "Run the agent of this name on an engine, whose workers have its file and its \
                 settings: the address at which Restate takes requests",
    ))
    .arg(
        spec::text_flag("attach", "RUN")
            .conflicts_with_all(others)
            .conflicts_with_all(["AGENT", "PROMPT"])
            .help("Follow a run that an engine keeps, from its beginning"),
    )
}

/// Adds the flag of runs that an engine keeps to those of `runs`.
pub(super) fn with_engine_flag(runs: Command) -> Command {
    let others: Vec<String> = runs
        .get_arguments()
        .map(|arg| arg.get_id().to_string())
        .filter(|id| id != "json" && id != "delete")
        .collect();
    let flag = spec::text_flag("engine", "URL");
    runs.arg(flag.conflicts_with_all(others).help(
        "List the runs that an engine keeps; with --delete RUN, delete an ended one there, by its \
         whole id",
    ))
}

fn engine_address(matches: &ArgMatches) -> String {
    let variable = || std::env::var(ENGINE_VARIABLE).ok().filter(|url| !url.is_empty());
    let given = get_value(matches, "engine").or_else(variable);
    given.unwrap_or_else(|| ENGINE.to_owned())
}

pub(super) fn worker_args(matches: &ArgMatches) -> Result<WorkerArgs, Failure> {
    let listen = get_value(matches, "listen").unwrap_or_else(|| WORKER_LISTEN.to_owned());
    let listen = parse_listen_address(&listen)
        .ok_or_else(|| Failure::usage(format!("--listen must be {LISTEN}, got \"{listen}\"")))?;
    Ok(WorkerArgs {
        folder: get_value(matches, "agents").unwrap_or_default(),
        restate: get_value(matches, "restate").unwrap_or_else(|| RESTATE.to_owned()),
        listen,
        advertise: get_value(matches, "advertise"),
        run: RunArgs {
            root: get_value(matches, "root"),
            mcp: get_value(matches, "mcp"),
            allow_shell: matches.get_flag("allow-shell"),
            model: get_value(matches, "model"),
            base_url: get_value(matches, "base-url"),
            api: get_value::<String>(matches, "api").and_then(|name| Api::from_name(&name)),
            config: get_value(matches, "config"),
            policy: get_value(matches, "policy"),
            keys: collect_policy_keys(matches)?,
            verbose: matches.get_count("verbose"),
            ..RunArgs::default()
        },
    })
}

/// Returns the arguments of a run that an engine keeps, if it is one.
pub(super) fn engine_run_args(matches: &ArgMatches) -> Result<Option<EngineRunArgs>, Failure> {
    let attach = get_value::<String>(matches, "attach");
    if attach.is_none() && !matches.contains_id("engine") {
        return Ok(None);
    }
    let which = match (attach, get_value(matches, "AGENT")) {
        (Some(run), _) => EngineRun::Attach(run),
        (None, Some(agent)) => EngineRun::New { agent, prompt: get_value(matches, "PROMPT") },
        (None, None) => {
            return Err(Failure::usage(
                "no agent: `softland run AGENT [PROMPT] --engine URL` needs the name of one",
            ));
        }
    };
    let format = match get_value::<String>(matches, "format").as_deref() {
        Some("json") => OutputFormat::Json,
        _ => OutputFormat::Text,
    };
    let shown = RunArgs {
        format,
        show_thinking: matches.get_flag("show-thinking"),
        fold_agents: matches.get_flag("fold-agents"),
        verbose: matches.get_count("verbose"),
        ..RunArgs::default()
    };
    Ok(Some(EngineRunArgs { engine: engine_address(matches), which, shown }))
}

pub(super) fn cancel_args(matches: &ArgMatches) -> CancelArgs {
    let run = get_value(matches, "RUN").unwrap_or_default();
    CancelArgs { engine: engine_address(matches), run }
}

/// Returns the arguments of `softland runs --engine`, if the flag is given.
///
/// # Errors
/// Returns a failure if `--delete` names no run.
pub(super) fn engine_runs_args(matches: &ArgMatches) -> Result<Option<EngineRunsArgs>, Failure> {
    let Some(engine) = get_value(matches, "engine") else { return Ok(None) };
    let delete: Option<String> = get_value(matches, "delete");
    if delete.is_none() && matches.contains_id("delete") {
        return Err(Failure::usage("--delete needs a RUN where --engine is given"));
    }
    Ok(Some(EngineRunsArgs { engine, json: matches.get_flag("json"), delete }))
}
