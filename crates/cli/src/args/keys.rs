//! The arguments of `softland keys`: their definition, their help and their parsed form.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};
use softland_agent::core::Millis;

use super::{get_value, spec};
use crate::failure::Failure;

/// The parsed arguments of `softland keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeysArgs {
    /// The config that names the shared store and defines the policies.
    pub(crate) config: PathBuf,
    pub(crate) action: KeysAction,
}

/// The action of `softland keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeysAction {
    Add {
        name: String,
        account: Option<String>,
        policy: Option<String>,
        /// The policies that `x-softland-policy` may select; `None` for the key's own.
        policies: Option<Vec<String>>,
    },
    List {
        json: bool,
    },
    Rotate {
        name: String,
        /// The time for which the token before is still accepted.
        grace: Millis,
    },
    Revoke {
        name: String,
    },
}

/// The actions, each with the flags that it takes.
const ACTIONS: [(&str, &[&str]); 4] = [
    ("add", &["account", "policy", "policies"]),
    ("list", &["format"]),
    ("rotate", &["grace"]),
    ("revoke", &[]),
];

const KEYS_NOTES: &str = "\
Examples:
  softland keys add ana --account acme/search/ana --policy coding --config softland.toml
  softland keys list --config softland.toml
  softland keys rotate ana --grace 1h --config softland.toml
  softland keys revoke ana --config softland.toml

ACTION is one of these:
  add     makes a key and prints its token on standard output. The token is not shown again: the
          store has its digest only. A name is given once, and a revoked one not again.
  list    lists the keys, with those that are revoked
  rotate  makes a new token for a key and prints it. The token before is refused, or accepted for
          the time of --grace. Runs, sessions and spend stay the key's.
  revoke  refuses all tokens of a key. A request that runs ends as it would have.

The keys are in the shared store that the config names ([shared] url), and every gateway on that
store follows a change within 5 seconds, without a restart. A key of the config ([[key]]) goes
before one of the store that has its name.

Exit status:
  0  done
  2  a mistake in the command or the config; nothing was changed
  4  the shared store did not answer";

pub(super) fn keys_command() -> Command {
    Command::new("keys")
        .about("Adds, lists, rotates and revokes the keys of a fleet of gateways")
        .max_term_width(100)
        .override_usage(
            "softland keys add <NAME> [OPTIONS] --config <FILE>\n       \
             softland keys list [--format json] --config <FILE>\n       \
             softland keys rotate <NAME> [--grace TIME] --config <FILE>\n       \
             softland keys revoke <NAME> --config <FILE>",
        )
        .after_help(KEYS_NOTES)
        .arg(
            Arg::new("ACTION")
                .required(true)
                .value_parser(PossibleValuesParser::new(ACTIONS.map(|(action, _)| action)))
                .hide_possible_values(true)
                .help("add, list, rotate or revoke"),
        )
        .arg(Arg::new("NAME").help("The key's name"))
        .arg(
            spec::path_arg("config")
                .long("config")
                .value_name("FILE")
                .help("The config of the gateways: its [shared] names the store"),
        )
        .arg(
            spec::text_flag("account", "PATH")
                .help("The account that pays for the key's requests, such as acme/search/ana"),
        )
        .arg(spec::text_flag("policy", "NAME").help("The policy of the key's requests"))
        .arg(
            spec::text_flag("policies", "NAME,…")
                .help("The policies that x-softland-policy may select [default: the --policy]"),
        )
        .arg(spec::text_flag("grace", "TIME").help(
            "The time for which the token before is still accepted, such as 1h [default: 0s]",
        ))
        .arg(
            spec::text_flag("format", "FORMAT")
                .help("text, or json: one JSON object a line")
                .value_parser(PossibleValuesParser::new(["text", "json"]))
                .hide_possible_values(true),
        )
}

pub(super) fn keys_args(matches: &ArgMatches) -> Result<KeysArgs, Failure> {
    let text = |flag: &str| get_value::<String>(matches, flag);
    let action = text("ACTION").unwrap_or_default();
    let name = text("NAME");
    for (other, flags) in ACTIONS.into_iter().filter(|(other, _)| *other != action) {
        if let Some(flag) = flags.iter().find(|flag| matches.contains_id(flag)) {
            return Err(Failure::usage(format!(
                "`softland keys {action}` takes no --{flag}; `softland keys {other}` does"
            )));
        }
    }
    if action == "list" && name.is_some() {
        return Err(Failure::usage("`softland keys list` lists all keys and takes no NAME"));
    }
    let needs_name = || {
        let message =
            format!("`softland keys {action}` needs the NAME of a key (softland keys --help)");
        Failure::usage(message)
    };
    let name = || name.clone().ok_or_else(needs_name);
    let parsed = match action.as_str() {
        "add" => KeysAction::Add {
            name: name()?,
            account: text("account"),
            policy: text("policy"),
            policies: text("policies").map(|names| split_names(&names)),
        },
        "list" => KeysAction::List { json: text("format").as_deref() == Some("json") },
        "rotate" => KeysAction::Rotate { name: name()?, grace: parse_grace(text("grace"))? },
        _ => KeysAction::Revoke { name: name()? },
    };
    let config = get_value(matches, "config").ok_or_else(|| {
        Failure::usage(format!(
            "`softland keys {action}` needs --config FILE: the config of the gateways, whose \
             [shared] url names the store that has the keys"
        ))
    })?;
    Ok(KeysArgs { config, action: parsed })
}

fn split_names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn parse_grace(text: Option<String>) -> Result<Millis, Failure> {
    let Some(text) = text else { return Ok(Millis(0)) };
    text.parse().map_err(|_| {
        Failure::usage(format!("--grace must be a time such as \"1h\" or \"30m\", got \"{text}\""))
    })
}
