//! The arguments of `softland audit`: their definition, their help and their parsed form.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Command};

use super::{get_value, get_values, spec};

/// The parsed arguments of `softland audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditArgs {
    /// The files and folders to read; empty for the usual folders.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) policy: Option<PathBuf>,
    /// The format of the report; `None` to follow the file extension of `out`.
    pub(crate) format: Option<ReportFormat>,
    pub(crate) out: Option<PathBuf>,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// A table.
    #[default]
    Text,
    /// JSON, for programs.
    Json,
    /// One page with charts.
    Html,
}

const EXAMPLES: &str = "\
Examples:
  softland audit
  softland audit ~/.claude/projects --policy softland.toml
  softland audit activity.csv --format html --out report.html

Reads sessions of Claude Code, Codex, opencode, Gemini CLI, Copilot CLI, mini-swe-agent and \
SWE-agent, message arrays, OpenRouter's activity CSV, and softland's own ledgers and event logs, each \
told by its content, .gz and .zst too. Without PATH it looks into the folders where these programs \
keep them. Nothing is sent anywhere and nothing is changed.

Exit status: 0 when something was read, 2 when nothing could be.";

pub(super) fn audit_command() -> Command {
    Command::new("audit")
        .about("Reads recorded sessions: what was wasted, and what a policy would have done")
        .max_term_width(100)
        .after_help(EXAMPLES)
        .arg(
            spec::path_arg("PATH")
                .num_args(0..)
                .help("Files and folders [default: the usual folders of the programs below]"),
        )
        .arg(spec::path_arg("policy").long("policy").value_name("FILE").help(
            "A config whose [policy.default] is tried on the runs, with its [[price]] \
             [default: the built-in policy]",
        ))
        .arg(
            spec::text_flag("format", "FORMAT")
                .help("text, json, or html: one page with charts [default: as FILE ends, or text]")
                .value_parser(PossibleValuesParser::new(["text", "json", "html"]))
                .hide_possible_values(true),
        )
        .arg(
            spec::path_arg("out")
                .long("out")
                .value_name("FILE")
                .help("Where the report goes [default: standard output]"),
        )
}

pub(super) fn audit_args(matches: &ArgMatches) -> AuditArgs {
    AuditArgs {
        paths: get_values(matches, "PATH"),
        policy: get_value(matches, "policy"),
        format: match get_value::<String>(matches, "format").as_deref() {
            Some("text") => Some(ReportFormat::Text),
            Some("json") => Some(ReportFormat::Json),
            Some("html") => Some(ReportFormat::Html),
            _ => None,
        },
        out: get_value(matches, "out"),
    }
}
