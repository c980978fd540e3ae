//! The arguments of `softland completions` and `softland man`, the commands whose output is
//! generated from the command line itself.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::{get_value, spec};

/// The parsed arguments of `softland completions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: Shell,
}

/// The parsed arguments of `softland man`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManArgs {
    /// The command whose page is printed; `None` for softland's own page.
    pub(crate) command: Option<String>,
    /// The folder into which all pages are written.
    pub(crate) out: Option<PathBuf>,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bash        softland completions bash > ~/.local/share/bash-completion/completions/softland
  zsh         softland completions zsh > ~/.zfunc/_softland   (a folder of $fpath)
  fish        softland completions fish > ~/.config/fish/completions/softland.fish
  elvish      softland completions elvish >> ~/.config/elvish/rc.elv
  powershell  softland completions powershell >> $PROFILE";

const MAN_EXAMPLES: &str = "\
Examples:
  softland man | man -l -
  softland man run | man -l -
  softland man --out ~/.local/share/man/man1";

pub(super) fn completions_command() -> Command {
    Command::new("completions")
        .about("Prints a script that completes softland's commands and flags in a shell")
        .max_term_width(100)
        .after_help(COMPLETIONS_EXAMPLES)
        .arg(Arg::new("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell"))
}

pub(super) fn man_command() -> Command {
    Command::new("man")
        .about("Prints the manual page of softland or of one command")
        .max_term_width(100)
        .after_help(MAN_EXAMPLES)
        .arg(Arg::new("COMMAND").help("The command whose page is printed"))
        .arg(
            spec::path_arg("out")
                .long("out")
                .value_name("DIR")
                .conflicts_with("COMMAND")
                .help("Write every page into this folder: softland.1, softland-run.1, …"),
        )
}

pub(super) fn completions_args(matches: &ArgMatches) -> CompletionsArgs {
    CompletionsArgs { shell: get_value(matches, "SHELL").unwrap_or(Shell::Bash) }
}

pub(super) fn man_args(matches: &ArgMatches) -> ManArgs {
    ManArgs { command: get_value(matches, "COMMAND"), out: get_value(matches, "out") }
}
