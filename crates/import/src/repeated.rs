//! Runs of which several files tell: each counts once.
//!
//! A program's own recording and softland's ledger tell of the same run where the program went through
//! `softland wrap` or a gateway. softland's ledgers, event logs and their copies tell of the same run
//! under the same id.

use std::collections::{BTreeMap, BTreeSet};

use crate::Kind;
use crate::report::RunReport;

/// The programs that name their recording's session in each request, so that the ledger has it.
const NAMED: [Kind; 3] = [Kind::ClaudeCode, Kind::Codex, Kind::OpenCode];

/// The runs of one file.
pub(crate) struct FileRuns {
    pub(crate) kind: Option<Kind>,
    pub(crate) runs: Vec<RunReport>,
}

/// Removes the runs that another file has as well. A program's own recording goes before a ledger,
/// which has no single calls. Of softland's files, the one with the most turns of a run keeps it.
pub(crate) fn remove_repeated(files: &mut [FileRuns]) {
    let named = files.iter().filter(|file| file.kind.is_some_and(|kind| NAMED.contains(&kind)));
    let sessions: BTreeSet<String> =
        named.flat_map(|file| &file.runs).map(|run| run.session.clone()).collect();
    let fullest = find_fullest(files);
    for (at, file) in files.iter_mut().enumerate() {
        if file.kind != Some(Kind::Softland) {
            continue;
        }
        file.runs.retain(|run| {
            let kept_here = |name| fullest.get(name).is_none_or(|(_, kept)| *kept == at);
            !sessions.contains(&run.session) && run.beside.name.as_deref().is_none_or(kept_here)
        });
    }
}

/// Returns, for each of softland's runs, its turns and the file that has the most of them.
fn find_fullest(files: &[FileRuns]) -> BTreeMap<String, (u64, usize)> {
    let mut fullest: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        if file.kind != Some(Kind::Softland) {
            continue;
        }
        let mut turns: BTreeMap<&str, u64> = BTreeMap::new();
        for run in &file.runs {
            let Some(name) = run.beside.name.as_deref() else { continue };
            *turns.entry(name).or_default() += run.turns;
        }
        for (name, turns) in turns {
            match fullest.get(name) {
                Some((most, _)) if *most >= turns => {}
                _ => drop(fullest.insert(name.to_owned(), (turns, at))),
            }
        }
    }
    fullest
}
