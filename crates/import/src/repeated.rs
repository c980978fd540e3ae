//! Runs of which several files tell: each counts once.
//!
//! A program's own recording and softland's ledger tell of the same run where the program went through
//! `softland wrap` or a gateway. softland's ledgers, event logs and their copies tell of the same run
//! under the same id.

use std::collections::{BTreeMap, BTreeSet};

use softland_session::core::Outcome;

use crate::Kind;
use crate::report::{RunEnded, RunReport};

/// The programs that name their recording's session in each request, so that the ledger has it.
const NAMED: [Kind; 3] = [Kind::ClaudeCode, Kind::Codex, Kind::OpenCode];

/// The runs of one file.
pub(crate) struct FileRuns {
    pub(crate) kind: Option<Kind>,
    pub(crate) runs: Vec<RunReport>,
}

/// Removes the runs that another file has as well. A program's own recording goes before a ledger,
/// which has no single calls, but takes the ends of its runs from there. Of softland's files, the
/// one with the most turns of a run keeps it.
pub(crate) fn remove_repeated(files: &mut [FileRuns]) {
    let named = files.iter().filter(|file| file.kind.is_some_and(|kind| NAMED.contains(&kind)));
    let sessions: BTreeSet<String> =
        named.flat_map(|file| &file.runs).map(|run| run.session.clone()).collect();
    let fullest = find_fullest(files);
    take_recorded_ends(files, &sessions, &fullest);
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

/// The runs of one agent in a session.
type AgentSession = (String, Option<String>);

/// Gives the runs of programs' own recordings the ends that softland recorded of them.
fn take_recorded_ends(
    files: &mut [FileRuns],
    sessions: &BTreeSet<String>,
    fullest: &BTreeMap<String, (u64, usize)>,
) {
    let mut known: BTreeMap<AgentSession, Vec<KnownRun>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate().filter(|(_, f)| f.kind == Some(Kind::Softland)) {
        for run in file.runs.iter().filter(|run| sessions.contains(&run.session)) {
            let name = run.beside.name.as_deref();
            if name.and_then(|name| fullest.get(name)).is_none_or(|(_, kept)| *kept == at) {
                let own = KnownRun { began: run.beside.started, ended: run.ended.clone() };
                known.entry((run.session.clone(), run.agent.clone())).or_default().push(own);
            }
        }
    }
    let mut recorded: BTreeMap<AgentSession, Vec<&mut RunReport>> = BTreeMap::new();
    let named = files.iter_mut().filter(|file| file.kind.is_some_and(|kind| NAMED.contains(&kind)));
    for run in named.flat_map(|file| &mut file.runs) {
        recorded.entry((run.session.clone(), run.agent.clone())).or_default().push(run);
    }
    for (of, mut runs) in recorded {
        let Some(mut known) = known.remove(&of) else { continue };
        known.sort_by_key(|run| run.began);
        runs.sort_by_key(|run| run.beside.started);
        pair_runs(&known, &mut runs);
    }
}

/// A run as softland recorded it.
struct KnownRun {
    /// Start time in milliseconds since 1970.
    began: Option<u64>,
    ended: Option<RunEnded>,
}

/// Gives runs the ends of the known ones, both in order of time: one by one if they are as many.
/// Otherwise a run belongs to the newest one that had begun at its last turn, and of several, the
/// last has its end.
fn pair_runs(known: &[KnownRun], runs: &mut [&mut RunReport]) {
    let alike = known.len() == runs.len();
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let begun = known.partition_point(|own| own.began <= run.spending.ended);
        let own = if alike { Some(at) } else { begun.checked_sub(1) };
        if let Some(own) = own {
            last.insert(own, at);
        }
    }
    for (own, at) in last {
        let ended = known.get(own).and_then(|known| known.ended.clone());
        if let (Some(ended), Some(run)) = (ended, runs.get_mut(at)) {
            run.beside.answered &= ended.outcome == Outcome::Answered.word();
            run.ended = Some(ended);
        }
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
