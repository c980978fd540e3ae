//! The default place of journals: the user's state folder.

use std::path::{Path, PathBuf, is_separator};
use std::time::UNIX_EPOCH;

use softland_agent::journal::JournalSummary;

use crate::failure::Failure;
use crate::platform;

/// The name of the newest run, whatever its id is.
pub(crate) const LAST: &str = "last";

/// The most runs that an error names.
const NAMED: usize = 3;

/// Returns the folder of journals; `None` if the environment names no home folder.
pub(crate) fn journal_folder(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    Some(platform::state_folder(env)?.join("runs"))
}

/// Returns the path of a run's journal in the folder.
pub(crate) fn journal_file(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{run}.ndjson"))
}

/// Finds the journal that a person named by an id, a path, or as the last one.
///
/// # Errors
/// Returns a failure if there is no such journal.
pub(crate) fn find_journal(named: &str, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = Path::new(named);
    if let Some((root, _)) = folder.and_then(|folder| find_enclosing_run(named, folder)) {
        return Err(Failure::usage(format!(
            "{named} is the run of a sub-agent of {root}: name {root} to go on with all runs of the tree (softland show {named} shows this one)"
        )));
    }
    if path.components().count() > 1 || path.extension().is_some() {
        return Ok(path.to_owned());
    }
    let Some(folder) = folder else {
        return Err(Failure::usage(format!(
            "there is no state folder to look for {named} in ({}): name its journal with \
             --journal FILE",
            platform::missing_state_folder()
        )));
    };
    let path = match find_latest_journal(folder) {
        Some((path, _)) if named == LAST => path,
        _ => journal_file(folder, named),
    };
    if path.is_file() {
        return Ok(path);
    }
    let newest = newest_runs(folder);
    let newest = match newest.is_empty() {
        true => String::new(),
        false => format!("; the newest there: {}", newest.join(", ")),
    };
    Err(Failure::usage(format!(
        "no run {named} is recorded in {}{newest} (--journal FILE names another file)",
        folder.display()
    )))
}

/// Splits the id of a sub-agent's run (`RUN.2`) and returns the run at the top and its journal, if
/// the folder has it.
pub(crate) fn find_enclosing_run<'a>(named: &'a str, folder: &Path) -> Option<(&'a str, PathBuf)> {
    let (root, below) = named.split_once('.')?;
    let numbers = below.split('.').all(|part| part.parse::<u64>().is_ok());
    let path = journal_file(folder, root);
    let holds =
        numbers && !root.contains(is_separator) && !Path::new(named).exists() && path.is_file();
    holds.then_some((root, path))
}

/// Returns the journal that was written last and when, in milliseconds since 1970.
pub(crate) fn find_latest_journal(folder: &Path) -> Option<(PathBuf, u64)> {
    let dated = |id: &String| {
        let path = journal_file(folder, id);
        let file = std::fs::metadata(&path).ok().filter(|file| file.len() > 0)?;
        let at = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((path, u64::try_from(at.as_millis()).unwrap_or(u64::MAX)))
    };
    run_ids(folder).iter().filter_map(dated).max_by_key(|(_, at)| *at)
}

/// Returns the ids of the newest runs of the folder, for a message.
fn newest_runs(folder: &Path) -> Vec<String> {
    let mut runs = run_ids(folder);
    runs.truncate(NAMED);
    runs
}

/// Returns the ids of the runs of the folder, the newest first: ids sort by time.
pub(crate) fn run_ids(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let id = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".ndjson").map(str::to_owned)
    };
    let mut runs: Vec<String> = entries.flatten().filter_map(id).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    runs
}

/// Reads the overview of a run from its journal.
///
/// # Errors
/// Returns a failure if the file is not a journal.
pub(super) fn read_glance(path: &Path) -> Result<JournalSummary, Failure> {
    JournalSummary::from_path(path).map_err(|error| Failure::usage(error.to_string()))
}
