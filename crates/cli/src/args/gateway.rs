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
    /// The program and its arguments, at least one.
    pub(crate) command: Vec<OsString>,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  softland serve --tool-calls-limit 60
  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 claude
  softland serve --config softland.toml

Without --config: Anthropic's and OpenAI's own addresses, the clients' own keys, the ledger in
softland.db, and the policy `default`: no limits; loops and empty turns are handled.
SIGHUP reads the config again; one with mistakes is refused and the old one stays. SIGTERM and
Ctrl-C let requests under way end; a second one does not. SOFTLAND_LOG=debug says more.";

const WRAP_EXAMPLES: &str = "\
Examples:
  softland wrap --observe -- claude
  softland wrap --tool-calls-limit 60 --cost-limit-usd 5 -- claude -p \"Fix the failing test\"

Runs CMD with ANTHROPIC_BASE_URL, OPENAI_BASE_URL and OPENAI_API_BASE pointing at a gateway of its
own; the gateway asks whom these variables name now, or else the vendors, with CMD's own keys.
Codex gets the address as arguments (-c), opencode as OPENCODE_CONFIG_CONTENT; where settings of
theirs or of aider's stand in the way, that is said and CMD is not run.
Exit status: CMD's; 128 and the signal's number where a signal ended it; 2 usage or configuration,
126 and 127 where CMD cannot be run or is not there.";

/// The flags that set an upstream's address, with the upstream's name.
const BASE_URLS: [(&str, &str); 2] =
    [("anthropic-base-url", "anthropic"), ("openai-base-url", "openai")];

pub(super) fn serve_command() -> Command {
    let serve = Command::new("serve")
        .about("Serves the gateway: any agent's requests are governed by a change of base URL")
        .max_term_width(100)
        .after_help(SERVE_EXAMPLES)
        .arg(config_arg())
        .arg(spec::text_flag("listen", "ADDR").help(
            "Address to listen on; port 0 takes a free one [default: 127.0.0.1:4141, or the \
             config's]",
        ))
        .args(BASE_URLS.map(|(flag, upstream)| {
            spec::text_flag(flag, "URL").help(format!(
                "Where upstream `{upstream}` is, in place of the config's address and its key"
            ))
        }))
        .arg(policy_arg());
    spec::with_policy_flags(serve)
}

pub(super) fn wrap_command() -> Command {
    let wrap = Command::new("wrap")
        .about("Runs a program with its model requests governed")
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
        .arg(
            spec::bool_flag("observe")
                .conflicts_with("mode")
                .help("Change nothing and say what would have been done (mode observe)"),
        )
        .arg(
            spec::path_arg("log")
                .long("log")
                .value_name("FILE")
                .help("Append the gateway's log to a file; CMD has the terminal to itself"),
        );
    spec::with_policy_flags(wrap)
}

fn config_arg() -> Arg {
    spec::path_arg("config")
        .long("config")
        .value_name("FILE")
        .help("A config; `softland check FILE` validates one")
}

fn policy_arg() -> Arg {
    spec::text_flag("policy", "NAME").help(format!(
        "The policy of every request, of the config or a built-in one: {}",
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
        command: super::get_values(matches, "CMD"),
    })
}
