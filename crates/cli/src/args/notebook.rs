//! The arguments of `softland notebook`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgMatches, Command};
use softland_agent::http::Api;

use super::{RunArgs, collect_policy_keys, get_value, spec};
use crate::config::{LISTEN, parse_listen_address};
use crate::failure::Failure;

/// The default address of the page. It has a port of its own, so that the page stays at one
/// address.
const NOTEBOOK_LISTEN: &str = "127.0.0.1:4144";

/// The parsed arguments of `softland notebook`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotebookArgs {
    pub(crate) file: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) kernel: Option<String>,
    /// The arguments that apply to the assistant; they name no agent file.
    pub(crate) run: RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  softland notebook analysis.ipynb --model anthropic/claude-sonnet-5-5 --tool-calls-limit 30
  softland notebook new.ipynb --model sim/notebook

The address of the page, with its token, is printed on standard error. Cells run in a Jupyter kernel
of this machine (ipykernel for Python) and can do whatever you can. Each change is saved at once,
and a file that does not exist is created. The conversation with the assistant is recorded as
`softland run` records its runs, and not in the notebook. The assistant is stopped when no page has
been open for 60 seconds.";

pub(super) fn notebook_command() -> Command {
    let command = Command::new("notebook")
        .about("Opens a Jupyter notebook in a page, with an assistant that works in it")
        .after_help(EXAMPLES)
        .max_term_width(100)
        .arg(
            spec::path_arg("FILE")
                .value_name("FILE.ipynb")
                .required(true)
                .help("The notebook; it is created if it does not exist"),
        )
        .arg(spec::text_flag("listen", "ADDR").help(format!(
            "The address of the page, a loopback address; port 0 takes a free one [default: \
             {NOTEBOOK_LISTEN}]"
        )))
        .arg(spec::text_flag("kernel", "NAME").help(
            "The kernel, as `jupyter kernelspec list` names it [default: that of the notebook, or \
             python3]",
        ))
        .arg(spec::text_flag("policy", "NAME").help(spec::policy_help()))
        .arg(
            spec::path_arg("config")
                .long("config")
                .value_name("FILE")
                .help("A config with [policy.NAME], [[price]] and [upstream.PROVIDER]"),
        );
    spec::with_policy_flags(spec::with_model_flags(command))
}

pub(super) fn notebook_args(matches: &ArgMatches) -> Result<NotebookArgs, Failure> {
    let text = get_value(matches, "listen").unwrap_or_else(|| NOTEBOOK_LISTEN.to_owned());
    let listen = parse_listen_address(&text)
        .ok_or_else(|| Failure::usage(format!("--listen must be {LISTEN}, got \"{text}\"")))?;
    Ok(NotebookArgs {
        file: get_value(matches, "FILE").unwrap_or_default(),
        listen,
        kernel: get_value(matches, "kernel"),
        run: RunArgs {
            model: get_value(matches, "model"),
            base_url: get_value(matches, "base-url"),
            api: get_value::<String>(matches, "api").and_then(|name| Api::from_name(&name)),
            // The page always receives the thinking and shows it folded.
            show_thinking: true,
            config: get_value(matches, "config"),
            policy: get_value(matches, "policy"),
            keys: collect_policy_keys(matches)?,
            ..RunArgs::default()
        },
    })
}
