//! The runs that `softland run` has kept: their journals in the state folder, listed among the runs
//! of a ledger.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::Value;
use softland_agent::AnsweredBy;
use softland_agent::core::NanoUsd;
use softland_agent::journal::{FinishedRun, JournalSummary};
use softland_ledger::{Query, Run, Usage};

use super::table::describe_end;
use crate::render::Writer;
use crate::run::state;

/// A run of the list, and its journal if it is not from a ledger.
pub(super) struct ListedRun {
    pub(super) run: Run,
    pub(super) journal: Option<PathBuf>,
    /// True if a process is at work on the run.
    at_work: bool,
}

impl From<Run> for ListedRun {
    fn from(run: Run) -> Self {
        Self { run, journal: None, at_work: false }
    }
}

impl ListedRun {
    /// Names the source of the run.
    pub(super) fn source_name(&self) -> String {
        if self.journal.is_some() { "journal" } else { "ledger" }.to_owned()
    }

    /// Returns the tokens of the run, if they are known.
    pub(super) fn usage(&self) -> Option<Usage> {
        // The usage of a kept run that has not ended is recorded in its responses only.
        (self.journal.is_none() || self.run.end.is_some()).then_some(self.run.usage)
    }

    pub(super) fn describe_end(&self) -> String {
        match (&self.journal, &self.run.end) {
            (Some(_), None) if self.at_work => "running".to_owned(),
            (Some(_), None) => format!("not ended (softland run --resume {})", self.run.run),
            _ => describe_end(&self.run),
        }
    }

    /// Formats the run as JSON on one line, without the line end. Unknown fields are absent.
    pub(super) fn to_json(&self) -> String {
        let line = self.run.to_json();
        let Some(journal) = &self.journal else { return line };
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&line) else { return line };
        for never in ["session", "policy", "client", "unpriced_requests"] {
            fields.remove(never);
        }
        if self.usage().is_none() {
            fields.remove("usage");
        }
        fields.insert("journal".to_owned(), journal.display().to_string().into());
        Value::Object(fields).to_string()
    }
}

/// Returns the newest runs of the state folder that began in the time of the query and are in its
/// state. A file that cannot be read causes a warning, and the others are listed.
pub(super) fn newest_runs(query: &Query, writer: &Writer) -> Vec<ListedRun> {
    let Some(folder) = state::journal_folder(&|name| std::env::var(name).ok()) else {
        return Vec::new();
    };
    let mut listed = Vec::new();
    for id in state::run_ids(&folder) {
        if query.limit.is_some_and(|limit| listed.len() >= limit) {
            break;
        }
        let path = state::journal_file(&folder, &id);
        match JournalSummary::from_path(&path) {
            Ok(glance) => {
                let one = listed_from_glance(&glance, path);
                // The ids sort by time, so all later runs are older.
                if query.since.is_some_and(|since| one.run.started < since) {
                    break;
                }
                let outcome = one.run.end.as_ref().map(|end| end.outcome.word());
                listed.extend(Some(one).filter(|_| query.matches_state(outcome)));
            }
            Err(_) if is_empty(&path) => {}
            Err(error) => writer.write_warning(&format!("not listed: {error}")),
        }
    }
    listed
}

/// Returns true if the journal is empty, because its run has not begun yet.
fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

fn listed_from_glance(glance: &JournalSummary, path: PathBuf) -> ListedRun {
    let written = std::fs::metadata(&path).and_then(|file| file.modified()).ok();
    let written = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let started = glance.began_millis().unwrap_or(0);
    let last = written.map_or(started, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
    let so_far = glance.run_progress();
    let (start, report) = (&glance.start, glance.finished.as_ref().map(finished_report));
    let run = Run {
        run: glance.run.clone(),
        session: None,
        agent: Some(start.agent.clone()),
        name: None,
        observed: start.policy.is_observing(),
        continues: start.continues.clone(),
        model: Some(start.model.clone()),
        policy: None,
        client: None,
        key: None,
        account: None,
        started,
        last,
        ended: report.map(|_| last),
        end: report.map(|report| report.ended.clone()),
        local: report.is_some_and(|report| report.answered_by == Some(AnsweredBy::Local)),
        turns: report.map_or(so_far.turns, |report| report.turns),
        tool_calls: Some(report.map_or(so_far.calls, |report| report.tool_calls)),
        requests: so_far.requests,
        usage: report.map_or_else(Usage::default, |report| Usage {
            input: report.usage.input,
            output: report.usage.output,
            cache_read: report.usage.cache_read,
            cache_write: report.usage.cache_write,
        }),
        cost: report.map_or(so_far.cost, |report| report.cost_usd.and_then(NanoUsd::from_dollars)),
        unpriced: 0,
    };
    let at_work = run.end.is_none() && JournalSummary::is_in_use(&path);
    ListedRun { run, journal: Some(path), at_work }
}

fn finished_report(finished: &FinishedRun) -> &softland_agent::Report {
    &finished.report
}
