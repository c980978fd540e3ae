//! The arguments of `softland audit`: their definition, their help and their parsed form.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Command};
use softland_agent::core::Millis;
use softland_agent::core::policy::PolicyValue;
use softland_import::report::filter::{RunFilter, parse_moment};
use softland_import::report::spending::Grouping;

use super::{collect_policy_keys, get_value, get_values, spec};
use crate::failure::Failure;

/// The parsed arguments of `softland audit`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AuditArgs {
    /// The files and folders to read; empty for the usual folders.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) policy: Option<PathBuf>,
    /// Policy keys given as flags, each already validated.
    pub(crate) keys: Vec<(&'static str, PolicyValue)>,
    /// The format of the report; `None` to follow the file extension of `out`.
    pub(crate) format: Option<ReportFormat>,
    pub(crate) out: Option<PathBuf>,
    /// The folder into which runs are exported in ATIF, instead of a report.
    pub(crate) export: Option<PathBuf>,
    /// The runs that are asked for.
    pub(crate) filter: RunFilter,
    /// The parts by which the money is grouped; `None` for the overview.
    pub(crate) by: Option<GroupedBy>,
    /// The version of the shape of JSON.
    pub(crate) json_version: u32,
}

/// The parts by which a table or CSV groups the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupedBy {
    /// By day, project, model or agent.
    Parts(Grouping),
    /// By tool: the cost of its results.
    Tool,
    /// Each run by itself.
    Run,
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
    /// One row for each part, for spreadsheets.
    Csv,
}

const EXAMPLES: &str = "\
Examples:
  softland audit
  softland audit ~/.claude/projects --policy softland.toml
  softland audit --since 7d --by project
  softland audit activity.csv --format html --out report.html

Reads sessions of Claude Code, Codex, opencode, Gemini CLI, Copilot CLI, Qwen Code, Pi, OpenClaw, \
Cline, Roo and Kilo Code, Goose, OpenHands, mini-swe-agent and SWE-agent, logs of Inspect, ATIF, traces \
of OpenTelemetry (gen_ai.*), message arrays, OpenRouter's activity CSV, LiteLLM's spend logs, and \
softland's own ledgers and event logs, each told by its content, .gz and .zst too. Without PATH it looks into the folders where these programs \
keep them. Nothing is sent anywhere and nothing is changed.

Exit status: 0 when something was read, 2 when nothing could be.";

pub(super) fn audit_command() -> Command {
    let audit = Command::new("audit")
        .about("Reads recorded sessions: where the money went, and what could have been saved")
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
                .help(
                    "text, json, csv, or html: one page with charts [default: as FILE ends, or text]",
                )
                .value_parser(PossibleValuesParser::new(["text", "json", "csv", "html"]))
                .hide_possible_values(true),
        )
        .arg(spec::text_flag("since", "TIME").help("Runs that began then or later: 7d, 2026-03-05"))
        .arg(
            spec::text_flag("until", "TIME")
                .help("Runs that began before this time, or before the end of this day"),
        )
        .arg(spec::text_flag("project", "NAME").help("Runs in folders with this in their path"))
        .arg(spec::text_flag("model", "NAME").help("Runs of models with this in their name"))
        .arg(
            spec::text_flag("by", "PART")
                .help("The money by day, project, model, agent, tool or run")
                .value_parser(PossibleValuesParser::new(["day", "project", "model", "agent", "tool", "run"]))
                .hide_possible_values(true),
        )
        .arg(
            spec::text_flag("json-version", "N")
                .help("The shape of JSON: 2, or 1 without where the money went [default: 2]")
                .value_parser(PossibleValuesParser::new(["1", "2"]))
                .hide_possible_values(true),
        )
        .arg(
            spec::path_arg("out")
                .long("out")
                .value_name("FILE")
                .help("Where the report goes [default: standard output]"),
        )
        .arg(
            spec::text_flag("export", "FORMAT")
                .num_args(2)
                .value_names(["FORMAT", "DIR"])
                .help("Instead of a report: each run as a file of the folder DIR; FORMAT is atif"),
        );
    spec::with_policy_flags(audit)
}

pub(super) fn audit_args(matches: &ArgMatches) -> Result<AuditArgs, Failure> {
    let export: Vec<String> = get_values(matches, "export");
    if let Some(format) = export.first().filter(|format| *format != "atif") {
        return Err(Failure::usage(format!("--export {format}: runs are exported as atif alone")));
    }
    let one = get_value::<String>(matches, "json-version").is_some_and(|version| version == "1");
    Ok(AuditArgs {
        paths: get_values(matches, "PATH"),
        policy: get_value(matches, "policy"),
        keys: collect_policy_keys(matches)?,
        format: match get_value::<String>(matches, "format").as_deref() {
            Some("text") => Some(ReportFormat::Text),
            Some("json") => Some(ReportFormat::Json),
            Some("html") => Some(ReportFormat::Html),
            Some("csv") => Some(ReportFormat::Csv),
            _ => None,
        },
        out: get_value(matches, "out"),
        export: export.into_iter().nth(1).map(PathBuf::from),
        filter: RunFilter {
            since: read_moment(matches, "since", false)?,
            until: read_moment(matches, "until", true)?,
            project: get_value(matches, "project"),
            model: get_value(matches, "model"),
        },
        by: match get_value::<String>(matches, "by").as_deref() {
            Some("day") => Some(GroupedBy::Parts(Grouping::Day)),
            Some("project") => Some(GroupedBy::Parts(Grouping::Project)),
            Some("model") => Some(GroupedBy::Parts(Grouping::Model)),
            Some("agent") => Some(GroupedBy::Parts(Grouping::Agent)),
            Some("tool") => Some(GroupedBy::Tool),
            Some("run") => Some(GroupedBy::Run),
            _ => None,
        },
        json_version: if one { 1 } else { 2 },
    })
}

/// Reads a flag that names a moment, in milliseconds since 1970: a day, a time, or how long ago. A day
/// means its end if `whole_day` is set, and its beginning otherwise.
pub(super) fn read_moment(
    matches: &ArgMatches,
    flag: &str,
    whole_day: bool,
) -> Result<Option<u64>, Failure> {
    let Some(text) = get_value::<String>(matches, flag) else { return Ok(None) };
    let moment = parse_moment(&text, crate::runs::time_ago(Millis(0)), whole_day);
    moment.map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "--{flag} must be a day such as 2026-03-05, a time such as 2026-03-05T12:00:00Z, or how \
             long ago, such as 7d; got \"{text}\""
        ))
    })
}
