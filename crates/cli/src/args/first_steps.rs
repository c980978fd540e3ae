//! The arguments of `softland init` and `softland pages`, and the text of `softland` alone.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgMatches, Command};

use super::ledger::{LedgerArgs, ledger_args, with_ledger_choice};
use super::{get_value, spec};
use crate::config::{LISTEN, parse_listen_address};
use crate::failure::Failure;

/// The default address of `softland pages`.
const PAGES_LISTEN: &str = "127.0.0.1:4145";

/// What `softland` without arguments says.
pub(super) const WELCOME: &str = "\
softland bounds the runs of LLM agents and brings each one to an answer.
  softland audit                  reads recorded agent sessions and says what they cost and wasted
  softland wrap -- claude         runs a program and counts its model requests; flags limit them
  softland show last              shows the last run, step by step, with the reason of each decision
  softland pages                  shows the runs of `wrap` and `serve` in a browser
  softland init                   writes a commented config and a first agent file
  softland run agents/reader.md \"What is here?\" --model sim/reader     runs it without a key
All commands: softland --help. One: softland run --help, or softland man run | man -l -
";

/// The parsed arguments of `softland init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitArgs {
    pub(crate) folder: PathBuf,
}

/// The parsed arguments of `softland pages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagesArgs {
    pub(crate) of: LedgerArgs,
    pub(crate) listen: SocketAddr,
}

const INIT_NOTES: &str = "\
Writes softland.toml and agents/reader.md. A file that is there already is left as it is.

Examples:
  softland init
  softland init my-agents
  softland run agents/reader.md \"What is here?\" --model sim/reader";

const PAGES_NOTES: &str = "\
The pages list the runs of the ledger, and show each one step by step, with totals by day, model and
agent. They are read only, and they follow what other processes write. The address, with its token,
is printed on standard error. The pages of a gateway that runs (`softland serve`, `softland wrap`)
also show runs as they happen, and can cancel them.

Examples:
  softland pages
  softland pages --ledger softland.db --listen 127.0.0.1:0";

pub(super) fn init_command() -> Command {
    Command::new("init")
        .about("Writes a commented config and a first agent file")
        .after_help(INIT_NOTES)
        .arg(spec::path_arg("DIR").help("The folder; it is created if needed [default: .]"))
}

pub(super) fn pages_command() -> Command {
    let pages = Command::new("pages")
        .about("Shows the runs of a ledger in a browser")
        .after_help(PAGES_NOTES);
    with_ledger_choice(pages).arg(spec::text_flag("listen", "ADDR").help(format!(
        "The address of the pages, on the loopback only; port 0 takes a free one [default: \
         {PAGES_LISTEN}]"
    )))
}

pub(super) fn init_args(matches: &ArgMatches) -> InitArgs {
    InitArgs { folder: get_value(matches, "DIR").unwrap_or_else(|| PathBuf::from(".")) }
}

pub(super) fn pages_args(matches: &ArgMatches) -> Result<PagesArgs, Failure> {
    let text = get_value(matches, "listen").unwrap_or_else(|| PAGES_LISTEN.to_owned());
    let listen = parse_listen_address(&text)
        .ok_or_else(|| Failure::usage(format!("--listen must be {LISTEN}, got \"{text}\"")))?;
    if !listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "--listen must be a loopback address such as 127.0.0.1:4145, got \"{text}\": everybody \
             who can reach the pages can read them; `softland serve` has [admin] \
             token_env for other addresses"
        )));
    }
    Ok(PagesArgs { of: ledger_args(matches), listen })
}
