//! `softland audit`: reads recorded sessions, replays them, and writes the report.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use softland_agent::core::models::Price;
use softland_agent::core::policy::Policy;
use softland_import::report::{Report, SourceLine};
use softland_import::{
    FileReplay, Progress, ReadOptions, ReplaySettings, SharedSpending, read_paths,
};

use crate::args::{AuditArgs, ReportFormat};
use crate::config::Config;
use crate::failure::{Failure, status};
use crate::ledger_file;
use crate::render::{OutputLoss, Writer, format_count};

mod csv;
mod html;
mod ledger;
mod locations;
mod pages;
mod table;
mod worst;

use locations::SessionLocation;
pub(crate) use pages::PageReports;

/// The most files that a message names.
const NAMED: usize = 20;

/// Reads the sessions, replays them, and writes the report.
pub(crate) fn run_command(args: &AuditArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let format = choose_format(args)?;
    if let Some(out) = &args.out {
        ensure_not_input(out, args.paths.iter().chain(&args.policy))?;
    }
    if format == ReportFormat::Html && args.out.is_none() && writer.stdout_is_terminal() {
        return Err(Failure::usage(
            "a page is not shown in a terminal: name a file for it with --out FILE",
        ));
    }
    let (mut policy, prices) = match &args.policy {
        Some(file) => load_policy(file)?,
        None => (Policy::default(), Vec::new()),
    };
    for (key, value) in &args.keys {
        policy.set_key(key, value).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let paths = if args.paths.is_empty() { find_usual_paths(writer)? } else { args.paths.clone() };
    let readable = ledger::ReadablePaths::copy_ledgers(paths)?;
    let paths = &readable.paths;
    let mut settings = ReplaySettings {
        policy,
        prices,
        steps: format == ReportFormat::Html,
        trajectories: args.export.is_some(),
        trees: None,
    };
    let mut report = read_all(paths, &settings, writer);
    // The first replay counts all that sub-agents spent, the second what the policy would have left
    // of it.
    for _ in 0..2 {
        settings.trees = collect_trees(&settings, &report);
        if settings.trees.is_some() {
            report = read_all(paths, &settings, writer);
        }
    }
    report.keep_runs(&args.filter);
    if let Some(out) = &args.out {
        let known = report.sources.iter().filter(|source| source.kind.is_some());
        ensure_not_input(out, known.map(|source| &source.path))?;
    }
    let nothing = !report.sources.iter().any(|source| was_read(source, &report));
    if nothing && format != ReportFormat::Json {
        return Err(Failure::from_messages(nothing_read(&report, args)));
    }
    if let Some(folder) = &args.export {
        return export_runs(&report, folder, writer);
    }
    let text = match format {
        ReportFormat::Text => {
            let width = writer.stdout_is_terminal() && args.out.is_none();
            table::render_table(&report, width.then(|| writer.width()), args.by)
        }
        ReportFormat::Json => render_json(&report, args.json_version)?,
        ReportFormat::Csv => csv::render_csv(&report, args.by),
        ReportFormat::Html => html::render_page(&report),
    };
    write_report(&text, args, writer)?;
    if nothing {
        return Err(Failure::from_messages(nothing_read(&report, args)));
    }
    Ok(match writer.output_loss() {
        OutputLoss::Failed => ExitCode::from(status::USAGE),
        OutputLoss::Nothing | OutputLoss::Closed => ExitCode::SUCCESS,
    })
}

/// Writes each run as a file of a folder. No file is overwritten.
fn export_runs(report: &Report, folder: &Path, writer: &Writer) -> Result<ExitCode, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::usage(format!("{}: cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut written = 0_u64;
    for (at, run) in report.runs.iter().enumerate() {
        let Some(text) = run.to_atif() else { continue };
        let name: String = run.run.chars().rev().take(60).collect();
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = name.chars().rev().map(safe).collect();
        let path =
            folder.join(format!("{:04}-{}.json", at + 1, name.trim_start_matches(['.', '-'])));
        let mut file = std::fs::File::create_new(&path).map_err(|error| failed(&path, error))?;
        file.write_all(text.as_bytes()).map_err(|error| failed(&path, error))?;
        written += 1;
    }
    writer.write_note(&format!("wrote {} to {}", format_count(written, "run"), folder.display()));
    Ok(ExitCode::SUCCESS)
}

fn read_all(paths: &[PathBuf], settings: &ReplaySettings, writer: &Writer) -> Report {
    let bar = writer.progress_bar();
    let progress = |now: Progress| {
        if let Some(bar) = &bar {
            bar.show_progress(now.done, now.total);
        }
    };
    let sink = |path: &Path| FileReplay::new(settings, path);
    let done = read_paths(paths, &ReadOptions::default(), sink, progress);
    if let Some(bar) = bar {
        bar.clear();
    }
    softland_import::build_report(done)
}

/// Returns what trees of runs spent together, if the policy has limits that a tree shares. All
/// sources are then read again.
fn collect_trees(settings: &ReplaySettings, report: &Report) -> Option<SharedSpending> {
    settings.policy.counts_usage().then(|| SharedSpending::from_report(report)).flatten()
}

/// Returns the report's format: the requested one, or else the one that the file extension implies.
fn choose_format(args: &AuditArgs) -> Result<ReportFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let ending = args.out.as_ref().and_then(|out| out.extension());
    let ending = ending.map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        None | Some("txt" | "text" | "log" | "md") => Ok(ReportFormat::Text),
        Some("json") => Ok(ReportFormat::Json),
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("csv") => Ok(ReportFormat::Csv),
        Some(other) => Err(Failure::usage(format!(
            "`.{other}` is no format of a report: add --format text, json, csv or html"
        ))),
    }
}

/// Refuses a report file that is also one of the inputs.
fn ensure_not_input<P: AsRef<Path>>(
    out: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    let Ok(real) = out.canonicalize() else { return Ok(()) };
    let same = |input: P| input.as_ref().canonicalize().is_ok_and(|input| input == real);
    if real.is_file() && inputs.into_iter().any(same) {
        let out = out.display();
        return Err(Failure::usage(format!(
            "--out {out} is one of the files that are read; it is not overwritten"
        )));
    }
    Ok(())
}

/// Returns true if anything was read from a source. A file of a known kind may still contain
/// nothing readable.
fn was_read(source: &SourceLine, report: &Report) -> bool {
    let listed = || report.unreadable.iter().any(|one| one.path == source.path);
    source.kind.is_some() && (source.runs > 0 || !listed())
}

/// Reads the policy and the prices from a config. The policy is the one named `default`, or else
/// the only one.
fn load_policy(file: &Path) -> Result<(Policy, Vec<(String, Price)>), Failure> {
    let text = file.to_string_lossy();
    if !file.exists() && !text.contains(['/', '\\', '.']) {
        return Err(Failure::usage(format!(
            "--policy {text}: there is no such file; audit takes a config here, and tries its \
             [policy.default]"
        )));
    }
    let config = Config::load(file).map_err(Failure::from_messages)?;
    let names: Vec<&str> = config.policy_names().collect();
    let name = match names.as_slice() {
        [only] => only,
        _ => "default",
    };
    let policy = match config.find_policy(name) {
        Some(policy) => policy.clone(),
        None if names.is_empty() => Policy::default(),
        None => {
            return Err(Failure::usage(format!(
                "{}: which policy is meant? It has {}, and none is named `default`",
                file.display(),
                names.join(", ")
            )));
        }
    };
    Ok((policy, config.prices().to_vec()))
}

/// Returns the usual locations that exist, and notes them on standard error.
fn find_usual_paths(writer: &Writer) -> Result<Vec<PathBuf>, Failure> {
    let places = locations::usual_locations(&|name| std::env::var_os(name));
    let (there, missing): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|place| place.path.exists());
    let address = ledger_file::read_address(&|name| std::env::var(name).ok())?;
    if there.is_empty() && address.is_none() {
        return Err(Failure::from_text(describe_missing(&missing)));
    }
    for place in &there {
        writer.write_note(&format!("reading {} ({})", place.path.display(), place.whose));
    }
    let mut paths: Vec<_> = there.into_iter().map(|place| place.path).collect();
    if let (Some(place), Ok(address)) = (address, std::env::var(ledger_file::VARIABLE)) {
        writer.write_note(&format!("reading {place} ({})", ledger_file::VARIABLE));
        paths.push(address.trim().into());
    }
    Ok(paths)
}

/// Describes where sessions were looked for, and what to type.
fn describe_missing(places: &[SessionLocation]) -> String {
    let mut text = "No sessions were found: none of the usual folders is there.\n".to_owned();
    for place in places {
        text += &format!("  {:<12} {}\n", place.whose, place.path.display());
    }
    text.push('\n');
    text + SAY_WHERE
}

/// Advice for somebody whose sessions are elsewhere.
const SAY_WHERE: &str = "Say where they are:\n\
             \x20 softland audit ~/backup/.claude/projects   a folder or a file of sessions\n\
             \x20 softland audit activity.csv                OpenRouter's activity, as exported\n\
             \x20 softland audit softland.db                 a gateway's ledger\n\
             softland audit --help names all kinds that are read.";

/// Advice for somebody who has named files or folders of which none could be read.
const SAY_KINDS: &str = "softland audit --help names all kinds that are read.";

fn nothing_read(report: &Report, args: &AuditArgs) -> Vec<String> {
    let mut messages: Vec<String> = report
        .unreadable
        .iter()
        .take(NAMED)
        .map(|one| match one.line {
            Some(line) => format!("{}:{line}: {}", one.path, one.reason),
            None => format!("{}: {}", one.path, one.reason),
        })
        .collect();
    let more = report.unreadable.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        messages.push(format!("and {} like these", format_count(more, "more problem")));
    }
    if messages.is_empty() {
        let folders: Vec<String> =
            args.paths.iter().map(|path| ledger::describe_path(path)).collect();
        messages.push(match folders.is_empty() {
            true => format!("there is no session in these folders yet.\n{SAY_WHERE}"),
            false => format!("no recorded session was found in {}", folders.join(", ")),
        });
    }
    if let (false, Some(last)) = (args.paths.is_empty(), messages.last_mut()) {
        last.push('\n');
        last.push_str(SAY_KINDS);
    }
    messages
}

fn render_json(report: &Report, version: u32) -> Result<String, Failure> {
    let text = match version {
        1 => serde_json::to_string(report),
        _ => serde_json::to_string(&report.to_full()),
    };
    let text =
        text.map_err(|error| Failure::usage(format!("the report cannot be written: {error}")))?;
    Ok(text + "\n")
}

fn write_report(text: &str, args: &AuditArgs, writer: &mut Writer) -> Result<(), Failure> {
    let Some(out) = &args.out else {
        writer.write_result(text);
        return Ok(());
    };
    let failed = |error| Failure::usage(format!("{}: cannot be written: {error}", out.display()));
    let mut file = std::fs::File::create(out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    writer.write_note(&format!("wrote {}", out.display()));
    Ok(())
}
