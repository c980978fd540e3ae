//! The arguments of `softland serve` and `softland wrap`: their definition, their help and their
//! parsed form.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use softland_agent::core::policy::{Policy, PolicyValue};
use softland_gateway::BaseUrl;

use super::{collect_policy_keys, get_value, spec};
use crate::config::{LISTEN, parse_listen_address};
use crate::failure::Failure;

/// The parsed arguments of `softland serve`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServeArgs {
    pub(crate) config: Option<PathBuf>,
    pub(crate) listen: Option<SocketAddr>,
    /// True if no ledger is kept.
    pub(crate) no_ledger: bool,
    /// Upstreams whose address was set by a flag.
    pub(crate) upstreams: Vec<(&'static str, BaseUrl)>,
    pub(crate) policy: Option<String>,
    /// Policy keys given as flags, each already validated.
    pub(crate) keys: Vec<(&'static str, PolicyValue)>,
}

/// The parsed arguments of `softland wrap`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WrapArgs {
    pub(crate) config: Option<PathBuf>,
    pub(crate) policy: Option<String>,
    /// Policy keys given as flags, each already validated; `--observe` is one of them.
    pub(crate) keys: Vec<(&'static str, PolicyValue)>,
    pub(crate) log: Option<PathBuf>,
    /// True if no ledger is kept.
    pub(crate) no_ledger: bool,
    /// The program and its arguments, at least one.
    pub(crate) command: Vec<OsString>,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  softland serve --tool-calls-limit 60
  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 claude
  softland serve --config softland.toml

Without --config, requests go to Anthropic and OpenAI with the clients' own keys, and the policy is
`default`: no limits; loops and empty turns are handled. The ledger is softland.db in the user's
state folder, or softland.db in the current folder if that file exists. With --config, it is the
file or the database that [ledger] names, or softland.db in the current folder.

SIGHUP reads the config again. A config with mistakes is refused, and the old one stays in force.
The first SIGTERM or Ctrl-C lets running requests end; a second one cuts them off.
SOFTLAND_LOG=debug makes the log more detailed.";

const WRAP_EXAMPLES: &str = "\
Examples:
  softland wrap --observe -- claude
  softland wrap --tool-calls-limit 60 --cost-limit-usd 5 -- claude -p \"Fix the failing test\"

softland starts a gateway of its own and runs CMD with ANTHROPIC_BASE_URL, OPENAI_BASE_URL and
OPENAI_API_BASE pointing at it. The gateway sends requests to the addresses that these variables had
before, or else to Anthropic and OpenAI, with CMD's own keys. Codex gets the address as arguments
(-c), and opencode gets it in OPENCODE_CONFIG_CONTENT. If settings of Codex, opencode or aider would
lead requests past the gateway, softland says so and does not run CMD.

At the end softland prints what was spent, and how each run ended and why. The runs are recorded in
softland.db in the user's state folder: `softland show last` shows the last one.

Exit status: that of CMD; 128 plus the signal's number if a signal ended CMD; 2 for a mistake in the
command or the config; 126 if CMD cannot be run; 127 if CMD is not found.";

/// The flags that set an upstream's address, with the upstream's name.
const BASE_URLS: [(&str, &str); 2] =
    [("anthropic-base-url", "anthropic"), ("openai-base-url", "openai")];

pub(super) fn serve_command() -> Command {
    let serve = Command::new("serve")
        .about("Serves a gateway that counts and limits the model requests of any agent")
        .max_term_width(100)
        .after_help(SERVE_EXAMPLES)
        .arg(config_arg())
        .arg(spec::text_flag("listen", "ADDR").help(
            "The address to listen on; port 0 takes a free one [default: that of the config, or \
             127.0.0.1:4141]",
        ))
        .args(BASE_URLS.map(|(flag, upstream)| {
            spec::text_flag(flag, "URL").help(format!(
                "The address of upstream `{upstream}`, in place of the one in the config; the \
                 config's key is then not used"
            ))
        }))
        .arg(policy_arg())
        .arg(no_ledger_arg())
        .arg(refused_ledger_arg());
    spec::with_policy_flags(serve)
}

pub(super) fn wrap_command() -> Command {
    let wrap = Command::new("wrap")
        .about("Runs one program behind a gateway that counts and limits its model requests")
        .max_term_width(100)
        .override_usage("softland wrap [OPTIONS] -- <CMD> [ARGS]...")
        .after_help(WRAP_EXAMPLES)
        .arg(
            Arg::new("CMD")
                .value_name("CMD ARGS")
                .required(true)
                .num_args(1..)
                .trailing_var_arg(true)
                .value_parser(value_parser!(OsString))
                .help("The program and its arguments"),
        )
        .arg(config_arg())
        .arg(policy_arg())
        .arg(spec::bool_flag("observe").conflicts_with("mode").help(
            "Change nothing, and report what would have been done (the same as --mode observe)",
        ))
        .arg(
            spec::path_arg("log")
                .long("log")
                .value_name("FILE")
                .help("Append the gateway's log to a file; without it there is no log"),
        )
        .arg(no_ledger_arg())
        .arg(refused_ledger_arg());
    spec::with_policy_flags(wrap)
}

fn config_arg() -> Arg {
    spec::path_arg("config")
        .long("config")
        .value_name("FILE")
        .help("A config; `softland check FILE` validates it")
}

fn no_ledger_arg() -> Arg {
    spec::bool_flag("no-ledger")
        .help("Record nothing (SOFTLAND_LEDGER=off turns off the default ledger only)")
}

/// `--ledger`, which the commands that read a ledger have.
fn refused_ledger_arg() -> Arg {
    let flag = spec::path_arg("ledger").long("ledger").value_name("FILE|URL");
    spec::refuse_flag(flag, "`[ledger] url` of a config names the ledger that is written")
}

fn policy_arg() -> Arg {
    spec::text_flag("policy", "NAME").help(format!(
        "The policy of every request: one of the config, or a built-in one: {}",
        Policy::NAMES.join(", ")
    ))
}

pub(super) fn serve_args(matches: &ArgMatches) -> Result<ServeArgs, Failure> {
    let mut upstreams = Vec::new();
    for (flag, upstream) in BASE_URLS {
        let Some(url) = get_value::<String>(matches, flag) else { continue };
        let base_url = BaseUrl::parse(&url)
            .map_err(|problem| Failure::usage(format!("--{flag} {problem}")))?;
        upstreams.push((upstream, base_url));
    }
    let listen = get_value::<String>(matches, "listen").map(|text| {
        parse_listen_address(&text)
            .ok_or_else(|| Failure::usage(format!("--listen must be {LISTEN}, got \"{text}\"")))
    });
    Ok(ServeArgs {
        config: get_value(matches, "config"),
        listen: listen.transpose()?,
        no_ledger: matches.get_flag("no-ledger"),
        upstreams,
        policy: get_value(matches, "policy"),
        keys: collect_policy_keys(matches)?,
    })
}

pub(super) fn wrap_args(matches: &ArgMatches) -> Result<WrapArgs, Failure> {
    let mut keys = collect_policy_keys(matches)?;
    if matches.get_flag("observe") {
        keys.push(("mode", PolicyValue::Text("observe".to_owned())));
    }
    Ok(WrapArgs {
        config: get_value(matches, "config"),
        policy: get_value(matches, "policy"),
        keys,
        log: get_value(matches, "log"),
        no_ledger: matches.get_flag("no-ledger"),
        command: super::get_values(matches, "CMD"),
    })
}
