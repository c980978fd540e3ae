//! The command line: parsed and validated, with nothing looked up and no file read.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use clap::error::ErrorKind;
use softland_agent::core::policy::{KEYS, KeyError, Policy, PolicyKey, PolicyValue};
use softland_agent::http::Api;

use crate::failure::Failure;

mod audit;
#[cfg(feature = "engine")]
mod engine;
mod first_steps;
mod gateway;
mod generated;
mod keys;
mod ledger;
mod mcp;
#[cfg(feature = "notebook")]
mod notebook;
mod spec;
#[cfg(test)]
mod tests;

pub(crate) use audit::{AuditArgs, GroupedBy, ReportFormat};
#[cfg(feature = "engine")]
pub(crate) use engine::{CancelArgs, EngineRun, EngineRunArgs, EngineRunsArgs, WorkerArgs};
pub(crate) use first_steps::{InitArgs, PagesArgs};
pub(crate) use gateway::{ServeArgs, WrapArgs};
pub(crate) use generated::{CompletionsArgs, ManArgs};
pub(crate) use keys::{KeysAction, KeysArgs};
pub(crate) use ledger::{Deletion, LedgerArgs, RunNames, RunsArgs, ShowArgs};
pub(crate) use mcp::McpArgs;
#[cfg(feature = "notebook")]
pub(crate) use notebook::NotebookArgs;

/// A command with its arguments.
#[derive(Debug)]
pub(crate) enum Command {
    /// The help or version text, for standard output.
    Print(String),
    /// The supervisor of a program, which takes its orders from standard input.
    Supervise,
    /// `softland run`.
    Run(RunArgs),
    /// `softland serve`.
    Serve(ServeArgs),
    /// `softland wrap`.
    Wrap(WrapArgs),
    /// `softland runs`.
    Runs(RunsArgs),
    /// `softland show`.
    Show(ShowArgs),
    /// `softland keys`.
    Keys(Box<KeysArgs>),
    /// `softland pages`.
    Pages(PagesArgs),
    /// `softland init`.
    Init(InitArgs),
    /// `softland audit`.
    Audit(AuditArgs),
    /// `softland sim`.
    Sim(SimArgs),
    /// `softland check`.
    Check(CheckArgs),
    /// `softland completions`.
    Completions(CompletionsArgs),
    /// `softland man`.
    Man(ManArgs),
    /// `softland mcp`.
    Mcp(Box<McpArgs>),
    /// `softland notebook`.
    #[cfg(feature = "notebook")]
    Notebook(Box<NotebookArgs>),
    /// `softland worker`.
    #[cfg(feature = "engine")]
    Worker(Box<WorkerArgs>),
    /// `softland run` with `--engine` or `--attach`.
    #[cfg(feature = "engine")]
    EngineRun(Box<EngineRunArgs>),
    /// `softland runs --engine`.
    #[cfg(feature = "engine")]
    EngineRuns(EngineRunsArgs),
    /// `softland cancel`.
    #[cfg(feature = "engine")]
    Cancel(CancelArgs),
}

/// The parsed arguments of `softland run`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunArgs {
    pub(crate) which: RunSelection,
    /// The agent file; always present for a new run.
    pub(crate) agent: Option<PathBuf>,
    pub(crate) prompt: Option<String>,
    pub(crate) agents: Option<PathBuf>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) mcp: Option<PathBuf>,
    pub(crate) allow_shell: bool,
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api: Option<Api>,
    pub(crate) show_thinking: bool,
    pub(crate) format: OutputFormat,
    pub(crate) config: Option<PathBuf>,
    pub(crate) policy: Option<String>,
    /// Policy keys given as flags, each already validated.
    pub(crate) keys: Vec<(&'static str, PolicyValue)>,
    /// The number of `-v` flags.
    pub(crate) verbose: u8,
    pub(crate) fold_agents: bool,
}

/// The run that `softland run` starts or goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunSelection {
    /// A new run.
    #[default]
    New,
    /// An interrupted run, by its id or the path of its journal.
    Resume(String),
    /// A new run in the conversation of this ended run.
    Continue(String),
}

/// The content of standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// The answer.
    #[default]
    Text,
    /// Events, one JSON object a line.
    Json,
}

/// The parsed arguments of `softland sim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimArgs {
    pub(crate) listen: String,
    pub(crate) scenario: String,
    pub(crate) accept_foreign_signatures: bool,
}

/// The parsed arguments of `softland check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckArgs {
    pub(crate) files: Vec<PathBuf>,
}

/// The only argument of a process that supervises the program of a tool. Nobody types it, and no
/// help text shows it.
pub(crate) const SUPERVISE: &str = "__supervise";

/// Reads the arguments of the process, its own name first.
///
/// # Errors
/// Returns a message that names the invalid argument and the allowed values, with exit status 2.
pub(crate) fn parse_args(args: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    let first = args.get(1).and_then(|arg| arg.to_str());
    if first == Some(SUPERVISE) && args.len() == 2 {
        return Ok(Command::Supervise);
    }
    if args.len() == 1 {
        return Ok(Command::Print(first_steps::WELCOME.to_owned()));
    }
    let matches = match spec::build_command().try_get_matches_from(turn_help_around(args)) {
        Ok(matches) => matches,
        Err(error) => return command_from_error(&error),
    };
    #[cfg(feature = "engine")]
    if let Some(command) = engine_command(&matches)? {
        return Ok(command);
    }
    match matches.subcommand() {
        Some(("run", matches)) => run_args(matches).map(Command::Run),
        Some(("serve", matches)) => gateway::serve_args(matches).map(Command::Serve),
        Some(("wrap", matches)) => gateway::wrap_args(matches).map(Command::Wrap),
        Some(("runs", matches)) => ledger::runs_args(matches).map(Command::Runs),
        Some(("show", matches)) => ledger::show_args(matches).map(Command::Show),
        Some(("keys", matches)) => {
            keys::keys_args(matches).map(|args| Command::Keys(Box::new(args)))
        }
        Some(("pages", matches)) => first_steps::pages_args(matches).map(Command::Pages),
        Some(("init", matches)) => Ok(Command::Init(first_steps::init_args(matches))),
        Some(("audit", matches)) => Ok(Command::Audit(audit::audit_args(matches)?)),
        Some(("sim", matches)) => Ok(Command::Sim(sim_args(matches))),
        Some(("check", matches)) => {
            Ok(Command::Check(CheckArgs { files: get_values(matches, "FILE") }))
        }
        Some(("completions", matches)) => {
            Ok(Command::Completions(generated::completions_args(matches)))
        }
        Some(("man", matches)) => Ok(Command::Man(generated::man_args(matches))),
        Some(("mcp", matches)) => mcp::mcp_args(matches).map(|args| Command::Mcp(Box::new(args))),
        #[cfg(feature = "notebook")]
        Some(("notebook", matches)) => {
            notebook::notebook_args(matches).map(|args| Command::Notebook(Box::new(args)))
        }
        _ => Err(Failure::from_text(spec::build_command().render_help().to_string())),
    }
}

/// Reads `softland help COMMAND` as `softland COMMAND --help`.
fn turn_help_around(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|first| first == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Returns the command, if it is about runs that an engine keeps.
#[cfg(feature = "engine")]
fn engine_command(matches: &ArgMatches) -> Result<Option<Command>, Failure> {
    Ok(match matches.subcommand() {
        Some(("run", matches)) => {
            engine::engine_run_args(matches)?.map(|args| Command::EngineRun(Box::new(args)))
        }
        Some(("runs", matches)) => engine::engine_runs_args(matches)?.map(Command::EngineRuns),
        Some(("worker", matches)) => Some(Command::Worker(Box::new(engine::worker_args(matches)?))),
        Some(("cancel", matches)) => Some(Command::Cancel(engine::cancel_args(matches))),
        _ => None,
    })
}

/// Returns the definition of the command line, from which completions and manual pages are made.
pub(crate) fn command_line() -> clap::Command {
    spec::build_command()
}

fn command_from_error(error: &clap::Error) -> Result<Command, Failure> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Command::Print(text)),
        _ => Err(Failure::from_text(text)),
    }
}

fn run_args(matches: &ArgMatches) -> Result<RunArgs, Failure> {
    let which = select_run(matches);
    let (agent, prompt) = split_agent_and_prompt(matches, &which)?;
    let keys = collect_policy_keys(matches)?;
    let policy = get_value(matches, "policy");
    if let RunSelection::Resume(run) = &which {
        let given = keys.first().map(|(key, _)| spec::flag_name(key));
        if let Some(flag) = given.or_else(|| policy.is_some().then(|| "policy".to_owned())) {
            return Err(Failure::usage(format!(
                "--{flag} cannot be given with --resume: {run} goes on under the policy with \
                 which it began"
            )));
        }
    }
    Ok(RunArgs {
        which,
        agent,
        prompt,
        agents: get_value(matches, "agents"),
        root: get_value(matches, "root"),
        journal: get_value(matches, "journal"),
        mcp: get_value(matches, "mcp"),
        allow_shell: matches.get_flag("allow-shell"),
        model: get_value(matches, "model"),
        base_url: get_value(matches, "base-url"),
        api: get_value::<String>(matches, "api").and_then(|name| Api::from_name(&name)),
        show_thinking: matches.get_flag("show-thinking"),
        format: match get_value::<String>(matches, "format").as_deref() {
            Some("json") => OutputFormat::Json,
            _ => OutputFormat::Text,
        },
        config: get_value(matches, "config"),
        policy,
        keys,
        verbose: matches.get_count("verbose"),
        fold_agents: matches.get_flag("fold-agents"),
    })
}

fn select_run(matches: &ArgMatches) -> RunSelection {
    match (get_value(matches, "resume"), get_value(matches, "continue")) {
        (Some(run), _) => RunSelection::Resume(run),
        (None, Some(run)) => RunSelection::Continue(run),
        (None, None) => RunSelection::New,
    }
}

/// Splits the positional arguments into the agent file and the prompt. An existing run already has
/// an agent file, and an interrupted one has a prompt, too.
fn split_agent_and_prompt(
    matches: &ArgMatches,
    which: &RunSelection,
) -> Result<(Option<PathBuf>, Option<String>), Failure> {
    let (first, second) =
        (get_value::<PathBuf>(matches, "AGENT"), get_value::<String>(matches, "PROMPT"));
    match (which, first, second) {
        (RunSelection::New, None, _) => Err(Failure::usage(
            "no agent file: `softland run AGENT.md [PROMPT]` needs one (`softland run --help`)",
        )),
        (RunSelection::Resume(run), _, Some(_)) => Err(Failure::usage(format!(
            "--resume takes no prompt: {run} has one; --continue asks a run that has ended"
        ))),
        (RunSelection::Continue(_), Some(only), None) => {
            match only.into_os_string().into_string() {
                Ok(prompt) => Ok((None, Some(prompt))),
                Err(_) => Err(Failure::usage("the prompt is not UTF-8 text")),
            }
        }
        (_, agent, prompt) => Ok((agent, prompt)),
    }
}

/// Collects the policy keys among the flags. An invalid value is an error at this point already.
fn collect_policy_keys(matches: &ArgMatches) -> Result<Vec<(&'static str, PolicyValue)>, Failure> {
    let mut scratch = Policy::default();
    let mut keys = Vec::new();
    for key in KEYS {
        let Some(text) = get_value::<String>(matches, key.name) else { continue };
        let value = PolicyValue::Text(text);
        if let Err(error) = scratch.set_key(key.name, &value) {
            return Err(Failure::usage(describe_wrong_value(key, &value, error)));
        }
        keys.push((key.name, value));
    }
    Ok(keys)
}

/// Describes the invalid value of a policy flag; of a table it names the member.
fn describe_wrong_value(key: &PolicyKey, value: &PolicyValue, error: KeyError) -> String {
    let (flag, form) = (spec::flag_name(key.name), key.form.allowed_in_flag());
    match error {
        KeyError::Value { key: inner, allowed, found } if inner != key.name => {
            let member = inner.split_once('.').map_or(inner.as_str(), |(_, member)| member);
            format!("--{flag} must be {form}; `{member}` must be {allowed}, got {found}")
        }
        _ => format!("--{flag} must be {form}, got {value}"),
    }
}

fn sim_args(matches: &ArgMatches) -> SimArgs {
    SimArgs {
        listen: get_value(matches, "listen").unwrap_or_else(|| spec::SIM_LISTEN.to_owned()),
        scenario: get_value(matches, "scenario").unwrap_or_else(|| spec::SIM_SCENARIO.to_owned()),
        accept_foreign_signatures: matches.get_flag("accept-foreign-signatures"),
    }
}

fn get_value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.get_one::<T>(id).cloned()
}

fn get_values<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<T> {
    matches.get_many::<T>(id).map(|values| values.cloned().collect()).unwrap_or_default()
}
