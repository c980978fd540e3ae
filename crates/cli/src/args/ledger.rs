//! The arguments of `softland runs` and `softland show`: their definition, their help and their
//! parsed form.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use softland_agent::core::find_nearest;
use softland_agent::journal::CallPosition;
use softland_ledger::Query;

use super::audit::read_moment;
use super::{get_value, spec};
use crate::failure::Failure;

/// The ledger to read, and the output format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerArgs {
    pub(crate) ledger: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) json: bool,
}

/// The parsed arguments of `softland runs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunsArgs {
    pub(crate) of: LedgerArgs,
    /// The most runs that are listed; `None` for all.
    pub(crate) limit: Option<usize>,
    pub(crate) session: Option<String>,
    /// The names that the runs must have.
    pub(crate) named: RunNames,
    /// The state that they must be in: the word of an outcome, or `open`.
    pub(crate) state: Option<String>,
    /// The moment from which on they began, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    pub(crate) delete: Option<Deletion>,
}

/// The names by which runs are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunNames {
    pub(crate) key: Option<String>,
    /// The account, or one above it.
    pub(crate) account: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) text: Option<String>,
}

/// The runs to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The run with this id or unique prefix.
    Run(String),
    /// Runs whose last record is older than this moment, in milliseconds since 1970.
    Before(u64),
    /// Runs of a session, of a key, or of both.
    Of { session: Option<String>, key: Option<String> },
}

/// The parsed arguments of `softland show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShowArgs {
    pub(crate) of: LedgerArgs,
    pub(crate) run: String,
    /// The path to a single call in a kept run; empty to show the whole run.
    pub(crate) call: Vec<CallPosition>,
}

/// The number of runs that are listed by default.
const LIMIT: usize = 20;

const RUNS_EXAMPLES: &str = "\
Examples:
  softland runs --since 1d
  softland runs --state open
  softland runs --json --limit 0 | jq -s 'map(.cost_usd) | add'
  softland runs --delete --before 30d
  softland runs --delete --key ana

Without --ledger and --config, the list has the runs of softland.db in the current folder, of
softland.db in the user's state folder, and those that `softland run` recorded itself; --json names
the file of the latter as `journal`.

--delete removes runs from the ledger, and with --config also from the event log and the shared
store that the config names. Without --ledger and --config it also takes the runs that
`softland run` recorded itself: --delete RUN one, --before the older ones. It cannot be undone.";

const SHOW_EXAMPLES: &str = "\
Examples:
  softland show last
  softland show run-20261127T102520-39f2ec13
  softland show run-20261127T102520-39f2ec13 --call 2.1

RUN is one of these:
  last              the run that was written last
  a run's id        in a ledger its unique beginning is enough; RUN.2 is the run of the second
                    sub-agent of a run that `softland run` recorded
  a name            what the client called its runs (x-softland-run); all of them are shown
  a journal's path  the file that `softland run` wrote";

pub(super) fn runs_command() -> Command {
    let runs = Command::new("runs")
        .about("Lists recorded runs, the newest first, or deletes them")
        .max_term_width(100)
        .after_help(RUNS_EXAMPLES);
    with_ledger_flags(runs)
        .arg(
            spec::text_flag("limit", "N")
                .help(format!("The most runs that are listed; 0 lists all [default: {LIMIT}]")),
        )
        .arg(spec::text_flag("session", "ID").help("Only runs of this session"))
        .arg(spec::text_flag("key", "NAME").help("Only runs of the key with this name"))
        .arg(
            spec::text_flag("account", "PATH").help("Only runs of this account and those below it"),
        )
        .arg(spec::text_flag("policy", "NAME").help("Only runs under the policy of this name"))
        .arg(spec::text_flag("agent", "NAME").help("Only runs of this agent"))
        .arg(spec::text_flag("model", "MODEL").help("Only runs that began with this model"))
        .arg(spec::text_flag("text", "TEXT").help("Only runs with this text in one of their names"))
        .arg(spec::text_flag("state", "STATE").help(
            "Only runs in this state: open, answered, landed, stopped, failed or cancelled",
        ))
        .arg(
            spec::text_flag("since", "TIME")
                .help("Only runs that began since then: a day, a moment, or how long ago, such as 1d"),
        )
        .arg(spec::text_flag("delete", "RUN").num_args(0..=1).help(
            "Delete this run (its id, a unique beginning of it, or its name), those --before, or \
             those of the --session and the --key",
        ))
        .arg(spec::text_flag("before", "TIME").requires("delete").help(
            "With --delete: delete all runs whose last record is older than this: a day, a moment, or \
             how long ago, such as 30d",
        ))
}

pub(super) fn show_command() -> Command {
    let show = Command::new("show")
        .about("Shows one run, step by step, with the reason of each decision")
        .after_help(SHOW_EXAMPLES)
        .arg(
            Arg::new("RUN")
                .default_value("last")
                .help("`last`, a run's id or name, or a journal's path"),
        );
    with_ledger_flags(show).arg(
        spec::text_flag("call", "TURN.N").conflicts_with_all(["ledger", "config"]).help(
            "Show the full input and result of one call of a run that `softland run` recorded",
        ),
    )
}

/// Adds the flags that select a ledger and the output format.
fn with_ledger_flags(command: Command) -> Command {
    with_ledger_choice(command).arg(spec::bool_flag("json").help("Print one JSON object a line"))
}

/// Adds the flags that select a ledger.
pub(super) fn with_ledger_choice(command: Command) -> Command {
    command
        .arg(
            spec::path_arg("ledger")
                .long("ledger")
                .value_name("FILE|URL")
                .conflicts_with("config")
                .help(
                    "The ledger: a file, or the postgres:// address of a database [default: \
                     softland.db here and in the user's state folder]",
                ),
        )
        .arg(
            spec::path_arg("config")
                .long("config")
                .value_name("FILE")
                .help("A config; its [ledger] names the file or the database"),
        )
}

pub(super) fn runs_args(matches: &ArgMatches) -> Result<RunsArgs, Failure> {
    let limit = match get_value::<String>(matches, "limit") {
        None => LIMIT,
        Some(text) => text.parse().map_err(|_| {
            Failure::usage(format!("--limit must be a whole number, 0 or more, got \"{text}\""))
        })?,
    };
    Ok(RunsArgs {
        of: ledger_args(matches),
        limit: Some(limit).filter(|limit| *limit > 0),
        session: get_value(matches, "session"),
        named: RunNames {
            key: get_value(matches, "key"),
            account: get_value(matches, "account"),
            policy: get_value(matches, "policy"),
            agent: get_value(matches, "agent"),
            model: get_value(matches, "model"),
            text: get_value(matches, "text"),
        },
        state: parse_state(matches)?,
        since: read_moment(matches, "since", false)?,
        delete: parse_deletion(matches)?,
    })
}

fn parse_state(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    let Some(state) = get_value::<String>(matches, "state") else { return Ok(None) };
    if Query::STATES.contains(&state.as_str()) {
        return Ok(Some(state));
    }
    let near = find_nearest(&state, Query::STATES);
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let states = Query::STATES.join(", ");
    Err(Failure::usage(format!("--state must be one of {states}, got \"{state}\"{near}")))
}

fn parse_deletion(matches: &ArgMatches) -> Result<Option<Deletion>, Failure> {
    if !matches.contains_id("delete") {
        return Ok(None);
    }
    let others = ["account", "policy", "agent", "model", "text", "state", "since"];
    if let Some(other) = others.iter().find(|name| matches.contains_id(name)) {
        return Err(Failure::usage(format!("--delete does not go by --{other}")));
    }
    let (session, key) = (get_value(matches, "session"), get_value(matches, "key"));
    let named = session.is_some() || key.is_some();
    match (get_value::<String>(matches, "delete"), read_moment(matches, "before", false)?, named) {
        (Some(run), None, false) if !run.is_empty() => Ok(Some(Deletion::Run(run))),
        (None, Some(time), false) => Ok(Some(Deletion::Before(time))),
        (None, None, true) => Ok(Some(Deletion::Of { session, key })),
        (None, None, false) | (Some(_), None, false) => Err(Failure::usage(
            "--delete needs a RUN, --before TIME, or --session ID or --key NAME",
        )),
        _ => Err(Failure::usage(
            "--delete takes one of RUN, --before TIME, and --session ID with or without --key NAME",
        )),
    }
}

pub(super) fn show_args(matches: &ArgMatches) -> Result<ShowArgs, Failure> {
    let call = match get_value::<String>(matches, "call") {
        None => Vec::new(),
        Some(text) => parse_call_path(&text).ok_or_else(|| {
            Failure::usage(format!(
                "--call must be TURN.N, such as 2.1 for the first call of turn 2 (2.1/3.1 for one \
                 of the agent that it called), got \"{text}\""
            ))
        })?,
    };
    Ok(ShowArgs {
        of: ledger_args(matches),
        run: get_value(matches, "RUN").unwrap_or_default(),
        call,
    })
}

/// Parses `TURN.N`, with a slash between the call of an agent and a call within that agent's run.
fn parse_call_path(text: &str) -> Option<Vec<CallPosition>> {
    let place = |text: &str| {
        let (turn, nth) = text.split_once('.')?;
        let call = nth.parse::<u64>().ok()?.checked_sub(1)?;
        Some(CallPosition { turn: turn.parse().ok()?, call })
    };
    text.split('/').map(place).collect()
}

pub(super) fn ledger_args(matches: &ArgMatches) -> LedgerArgs {
    LedgerArgs {
        ledger: get_value(matches, "ledger"),
        config: get_value(matches, "config"),
        json: matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|json| *json),
    }
}
