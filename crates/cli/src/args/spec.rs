//! The definition of the command line and its help. Policy flags are generated from the one list of
//! policy keys.

use clap::builder::{PossibleValuesParser, UnknownArgumentValueParser};
use clap::{Arg, ArgAction, Command, value_parser};
use softland_agent::core::policy::{KEYS, KeySection, Policy, PolicyKey, ValueForm};
use softland_agent::http::Api;
use softland_sim::Scenario;
use std::path::PathBuf;

/// The default address of `softland sim`.
pub(super) const SIM_LISTEN: &str = "127.0.0.1:4142";
/// The default scenario of `softland sim`.
pub(super) const SIM_SCENARIO: &str = "reader";

const AFTER: &str = "\
Without a key: softland init && softland run agents/reader.md \"What is here?\" --model sim/reader
Help on one command: softland run --help. Its manual page: softland man run.";

const RUN_EXAMPLES: &str = "\
Examples:
  softland run analyst.md \"What did we decide about pricing?\" --root notes
  git diff | softland run reviewer.md --model anthropic/claude-sonnet-5-5 --cost-limit-usd 0.50

The answer goes to standard output, and everything else goes to standard error.

Exit status:
  0    the model answered
  2    a mistake in the command, a file or the config; or standard output could not be written
  3    softland answered in the model's place
  4    the provider failed
  130  the run was cancelled: by a signal, or because standard output was closed

softland records a run while it goes on. `softland run --resume RUN` goes on with a run that was
cancelled or whose process was killed. `softland run --continue RUN PROMPT` asks a further question
of a run that has ended.

The policy is made in this order, and later parts win: the built-in default, the config, the agent
file, the flags. Flags apply to the agent that you start, and not to the agents that it calls. Money
and tokens of sub-agents count in the limits of their callers.
TOOL=N pairs are written as --tool-limits grep=5,glob=2.";

/// The page of each command in the documentation.
pub(super) const PAGES: [(&str, &str); 17] = [
    ("run", "runs.md"),
    ("serve", "gateway.md"),
    ("wrap", "gateway.md"),
    ("runs", "runs.md"),
    ("show", "runs.md"),
    ("pages", "pages.md"),
    ("keys", "fleet.md"),
    ("audit", "audit.md"),
    ("init", "reference/config.md"),
    ("sim", "scenarios.md"),
    ("check", "reference/config.md"),
    ("completions", "terminal.md"),
    ("man", "terminal.md"),
    ("mcp", "mcp.md"),
    ("notebook", "notebook.md"),
    ("worker", "workers.md"),
    ("cancel", "workers.md"),
];

/// The page of softland as a whole.
const WHOLE_PAGE: &str = "reference/commands.md";

const WHAT: &str = "What to run";
const KEEP: &str = "Recorded runs";
const MODEL: &str = "The model";
const OUTPUT: &str = "Output";

/// Builds the whole command line.
pub(super) fn build_command() -> Command {
    let command = Command::new("softland")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Bounds the runs of LLM agents and brings each one to an answer")
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .after_help(format!("{AFTER}\n{}", name_page(WHOLE_PAGE)))
        .subcommand(run_command())
        .subcommand(super::gateway::serve_command())
        .subcommand(super::gateway::wrap_command())
        .subcommand(super::ledger::runs_command())
        .subcommand(super::ledger::show_command())
        .subcommand(super::first_steps::pages_command())
        .subcommand(super::keys::keys_command())
        .subcommand(super::audit::audit_command())
        .subcommand(super::first_steps::init_command())
        .subcommand(sim_command())
        .subcommand(check_command())
        .subcommand(super::generated::completions_command())
        .subcommand(super::generated::man_command())
        .subcommand(super::mcp::mcp_command());
    #[cfg(feature = "notebook")]
    let command = command.subcommand(super::notebook::notebook_command());
    #[cfg(feature = "engine")]
    let command = command
        .mut_subcommand("run", super::engine::with_engine_flags)
        .mut_subcommand("runs", super::engine::with_engine_flag)
        .subcommand(super::engine::worker_command())
        .subcommand(super::engine::cancel_command());
    PAGES.iter().fold(command, |command, (name, page)| match command.find_subcommand(name) {
        Some(_) => command.mut_subcommand(name, |command| finish_command(command, page)),
        None => command,
    })
}

/// Gives a command its two helps: `-h` is short, and `--help` ends with the notes and the page that
/// explains more.
fn finish_command(command: Command, page: &str) -> Command {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let notes = [notes.trim_end(), &name_page(page)].join("\n\n");
    let keys = command.get_arguments().any(Arg::is_hide_short_help_set);
    let keys = if keys { ", with policy keys as flags (--tool-calls-limit 30)" } else { "" };
    let short = format!("More: softland {} --help{keys}", command.get_name());
    let long = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print a short help; --help prints all of it");
    command
        .disable_help_flag(true)
        .next_help_heading(None)
        .arg(long)
        .after_help(short)
        .after_long_help(notes.trim_start().to_owned())
        .max_term_width(100)
}

fn name_page(page: &str) -> String {
    format!("Documentation: {}/blob/main/docs/{page}", env!("CARGO_PKG_REPOSITORY"))
}

/// Adds a flag for every policy key, grouped by help section.
pub(super) fn with_policy_flags(command: Command) -> Command {
    KeySection::WORDS.iter().fold(command, |command, heading| {
        let keys = KEYS.iter().filter(|key| key.section.word() == *heading);
        command.args(keys.map(policy_flag))
    })
}

/// Returns the flag of a policy key, without its dashes.
pub(super) fn flag_name(key: &str) -> String {
    key.replace('_', "-")
}

fn run_command() -> Command {
    let run = Command::new("run")
        .about("Runs one agent file to its answer")
        .after_help(RUN_EXAMPLES)
        .max_term_width(100)
        .override_usage(
            "softland run [OPTIONS] <AGENT.md> [PROMPT]\n       \
             softland run [OPTIONS] --resume <RUN> [AGENT.md]\n       \
             softland run [OPTIONS] --continue <RUN> [AGENT.md] <PROMPT>",
        )
        .arg(
            path_arg("AGENT")
                .value_name("AGENT.md")
                .help("The agent file: Markdown with front matter"),
        )
        .arg(Arg::new("PROMPT").help(
            "The question; - reads it from standard input, as does a pipe if there is no PROMPT",
        ));
    let run = with_setup_flags(run.next_help_heading(WHAT)).arg(
        path_arg("agents").long("agents").value_name("DIR").help(
            "A folder of agent files (*.md) that the tool `agent` may call; an agent without a \
             model uses its caller's",
        ),
    );
    with_policy_flags(with_model_flags(with_journal_flags(run)))
        .next_help_heading(OUTPUT)
        .arg(
            text_flag("format", "FORMAT")
                .help("text, or json: events, one JSON object a line")
                .value_parser(PossibleValuesParser::new(["text", "json"]))
                .hide_possible_values(true),
        )
        .arg(refuse_flag(
            Arg::new("json").long("json").num_args(0),
            "`--format json` prints events, one JSON object a line",
        ))
        .arg(bool_flag("show-thinking").help("Show the model's thinking"))
        .arg(bool_flag("fold-agents").help("Show a sub-agent's run as one line, when it has ended"))
}

/// Adds the flags that set the folder, the servers, the shell and the policy of an agent.
pub(super) fn with_setup_flags(command: Command) -> Command {
    command
        .arg(
            path_arg("root")
                .long("root")
                .value_name("DIR")
                .help("The folder that file tools see [default: .]"),
        )
        .arg(path_arg("mcp").long("mcp").value_name("FILE").help(
            "A JSON file with mcpServers; agent files name their tools as mcp__SERVER__TOOL, and \
             softland starts the servers that are named",
        ))
        .arg(bool_flag("allow-shell").help(
            "Allow the agent file's shell and commands; they can do whatever you can, also outside \
             of --root",
        ))
        .arg(text_flag("policy", "NAME").help(policy_help()))
        .arg(
            path_arg("config")
                .long("config")
                .value_name("FILE")
                .help("A config with [policy.NAME], [[price]] and [upstream.PROVIDER]"),
        )
        .arg(bool_flag("verbose").short('v').action(ArgAction::Count).help(
            "Show each turn's phase and tokens, odd turns, longer results, and the logs of MCP \
             servers; -vv shows inputs and results in full",
        ))
}

/// Returns the help text of `--policy`.
pub(super) fn policy_help() -> String {
    format!("A policy of the config, or a built-in policy: {}", Policy::NAMES.join(", "))
}

/// Hides a flag that a command does not have and that users try: it is refused with the way out.
pub(super) fn refuse_flag(flag: Arg, way_out: &'static str) -> Arg {
    let parser = UnknownArgumentValueParser::suggest(way_out);
    flag.hide(true).action(ArgAction::Set).default_missing_value("").value_parser(parser)
}

/// Adds the flags that name a run's journal, or a kept run to resume or to continue.
fn with_journal_flags(run: Command) -> Command {
    run.next_help_heading(KEEP)
        .arg(path_arg("journal").long("journal").value_name("FILE").help(
            "The file that records the run; it must be new [default: RUN.ndjson in the user's state \
             folder]",
        ))
        .arg(
            text_flag("resume", "RUN")
                .help("Go on with a run that has not ended; RUN is its id, its journal, or `last`")
                .conflicts_with("continue"),
        )
        .arg(text_flag("continue", "RUN").help("Ask a further question of a run that has ended"))
}

/// Adds the flags that select the model, its address and its protocol.
pub(super) fn with_model_flags(run: Command) -> Command {
    run.next_help_heading(MODEL)
        .arg(
            text_flag("model", "PROVIDER/MODEL")
                .help("The model; sim/SCENARIO is simulated, without a key"),
        )
        .arg(text_flag("base-url", "URL").help(
            "The address of the provider, in place of the one in the config or in the provider's \
             variable",
        ))
        .arg(
            text_flag("api", "API")
                .help("The protocol that the provider speaks")
                .value_parser(PossibleValuesParser::new(Api::ALL.map(Api::name))),
        )
}

fn sim_command() -> Command {
    let scenarios: String =
        Scenario::builtin_names().map(|(name, what)| format!("\n  {name:<16} {what}")).collect();
    Command::new("sim")
        .about("Serves a simulated provider that enforces the real one's rules")
        .max_term_width(100)
        .after_help(format!(
            "Scenarios (or a TOML file of your own):{scenarios}\n\nA request can choose another \
             scenario as its model: reader, or looper@claude-opus-4-6.\nThe simulator accepts any \
             key except `invalid`, which gets a 401. Nothing costs anything."
        ))
        .arg(
            text_flag("listen", "ADDR").help(format!(
                "Address to listen on; port 0 takes a free one [default: {SIM_LISTEN}]"
            )),
        )
        .arg(
            text_flag("scenario", "NAME|FILE")
                .help(format!("What the model does [default: {SIM_SCENARIO}]")),
        )
        .arg(
            bool_flag("accept-foreign-signatures")
                .help("Accept thinking that was signed elsewhere, such as in recordings"),
        )
}

fn check_command() -> Command {
    Command::new("check")
        .about("Validates agent files (.md) and configs (.toml)")
        .after_help("Each error names file, line and key. Nothing is run.")
        .max_term_width(100)
        .arg(
            path_arg("FILE")
                .required(true)
                .num_args(1..)
                .help("Agent files, configs, or folders of agent files"),
        )
}

pub(super) fn path_arg(id: &'static str) -> Arg {
    Arg::new(id).value_parser(value_parser!(PathBuf))
}

pub(super) fn text_flag(id: &'static str, value: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(value)
}

pub(super) fn bool_flag(id: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue)
}

fn policy_flag(key: &'static PolicyKey) -> Arg {
    let listed = match key.form {
        ValueForm::Word(words) => format!("{} ({words})", key.help),
        _ => key.help.to_owned(),
    };
    Arg::new(key.name)
        .long(flag_name(key.name))
        .value_name(value_name(key.form))
        .help(listed)
        .help_heading(key.section.word())
        .hide_short_help(true)
        // A negative number is an invalid value of this flag, not another flag.
        .allow_hyphen_values(true)
}

fn value_name(form: ValueForm) -> &'static str {
    match form {
        ValueForm::Count => "N",
        ValueForm::Money => "USD",
        ValueForm::Time => "TIME",
        ValueForm::Share => "SHARE",
        ValueForm::Word(_) => "WORD",
        ValueForm::Names => "TOOL,…",
        ValueForm::ToolLimits => "TOOL=N,…",
        ValueForm::LoopKeys => "TOOL=WHAT,…",
    }
}
