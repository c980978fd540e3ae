//! The arguments of `softland mcp`: those of `run` that make sense for agents that are served as
//! tools.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgMatches, Command};
use softland_agent::http::Api;

use super::{RunArgs, collect_policy_keys, get_value, spec};
use crate::config::{LISTEN, parse_listen_address};
use crate::failure::Failure;

/// The parsed arguments of `softland mcp`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McpArgs {
    pub(crate) folder: PathBuf,
    pub(crate) listen: Option<SocketAddr>,
    /// The arguments that apply to every agent; they name no agent file.
    pub(crate) run: RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  claude mcp add specialists -- softland mcp ~/agents --root . --model anthropic/claude-sonnet-5-5
  softland mcp agents --listen 127.0.0.1:4143 --cost-limit-usd 0.20

Each agent file (*.md) becomes a tool with the agent's name and one argument, `prompt`. Each call is
a run of its own, with the limits of the file and of these flags. The call returns the answer, which
says if it is landed or softland's own, or an error with the reason. Files that name the tool
`agent` may call the others of the folder. Standard output carries the protocol only. The end of
standard input stops every run.";

pub(super) fn mcp_command() -> Command {
    let command = Command::new("mcp")
        .about("Serves the agent files of a folder as MCP tools")
        .after_help(EXAMPLES)
        .max_term_width(100)
        .arg(spec::path_arg("DIR").required(true).help("The folder of agent files (*.md)"))
        .arg(spec::text_flag("listen", "ADDR").help(
            "Serve streamable HTTP at http://ADDR/mcp in place of standard input and output; a \
             loopback address; port 0 takes a free one",
        ));
    let command = spec::with_setup_flags(command);
    spec::with_policy_flags(spec::with_model_flags(command))
}

pub(super) fn mcp_args(matches: &ArgMatches) -> Result<McpArgs, Failure> {
    let listen = get_value::<String>(matches, "listen").map(|text| {
        parse_listen_address(&text)
            .ok_or_else(|| Failure::usage(format!("--listen must be {LISTEN}, got \"{text}\"")))
    });
    Ok(McpArgs {
        folder: get_value(matches, "DIR").unwrap_or_default(),
        listen: listen.transpose()?,
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
