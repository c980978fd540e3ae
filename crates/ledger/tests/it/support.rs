//! Records, ledgers in temporary folders, and the contents of their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use softland_core::{Because, NanoUsd, Outcome, Reason, RunEnding, Rung};
use softland_ledger::{
    Clock, Event, Ledger, Options, Payer, Reader, Record, Request, RunEnd, RunOwner, RunStart, Step,
};
use tempfile::TempDir;

/// A moment in 2026.
pub(crate) const NOW: u64 = 1_790_000_000_000;
/// A timeout that is long enough for a writer on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A folder with a ledger and an event log.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) options: Options,
    pub(crate) time: Arc<AtomicU64>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            events_path: Some(folder.path().join("events.ndjson")),
            gather: Duration::from_millis(5),
            ..Options::with_path(folder.path().join("ledger.db"))
        };
        Self { folder, options, time: Arc::new(AtomicU64::new(NOW)) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("events.ndjson")
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(self.options.clone(), self.clock()).unwrap()
    }

    pub(crate) fn clock(&self) -> Clock {
        let time = Arc::clone(&self.time);
        Arc::new(move || time.load(Ordering::Relaxed))
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(self.db()).unwrap()
    }

    /// Opens a ledger, records, and closes it.
    pub(crate) fn write(&self, records: Vec<Record>) {
        let ledger = self.open();
        for record in records {
            ledger.record(record);
        }
        ledger.close(LONG).unwrap();
        assert_eq!(ledger.lost_records(), 0);
    }

    /// Returns the lines of the log.
    pub(crate) fn lines(&self) -> Vec<Value> {
        lines(&self.log())
    }

    /// Returns the lines of a run in the database, as the log would have them.
    pub(crate) fn steps(&self, run: &str) -> Vec<Value> {
        let steps = self.reader().read_steps(run).unwrap().into_iter();
        steps.filter(|step| !step.late).map(|step| value(&step, run)).collect()
    }
}

fn value(step: &Step, run: &str) -> Value {
    serde_json::from_str(&step.to_json(run)).unwrap()
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "a torn line");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the lines of a run: numbers from 0 without a gap, and at most one last line, at the end.
#[track_caller]
pub(crate) fn check_lines(lines: &[Value]) {
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], at, "{line}");
        let last = line["event"] == "done" || line["event"] == "error";
        assert!(!last || at + 1 == lines.len(), "something follows {line}");
    }
}

pub(crate) fn start(run: &str) -> Record {
    Record::RunStart(RunStart {
        at: NOW,
        run: run.into(),
        session: "s1".into(),
        payer: Payer::default(),
        agent: None,
        continues: None,
        model: "claude-opus-5-5".into(),
        policy: "coding".to_owned(),
        client: Some("claude-cli/2.1".to_owned()),
        name: None,
        observed: false,
    })
}

pub(crate) fn request(run: Option<&str>, turn: u64) -> Record {
    Record::Request(Request {
        at: NOW + turn * 1000,
        id: format!("req-{turn}"),
        run: run.map(Into::into),
        session: Some("s1".into()),
        payer: Payer::default(),
        turn,
        upstream: "anthropic".into(),
        path: "/v1/messages".to_owned(),
        model: Some("claude-opus-5-5".into()),
        rung: None,
        status: Some(200),
        input: 10,
        output: 20,
        cache_read: 3000,
        cache_write: 40,
        cost: Some(NanoUsd(1_500_001)),
        millis: 812,
        remark: None,
        content: None,
    })
}

pub(crate) fn event(run: &str, turn: u64, event: &'static str, fields: &str) -> Record {
    let (run, fields) = (run.into(), fields.into());
    Record::Event(Event { at: NOW + turn * 1000 + 1, run, turn, event, fields })
}

pub(crate) fn end(run: &str) -> Record {
    let because = Because::from_counts(Reason::ToolCalls, 30, 30);
    Record::RunEnd(RunEnd {
        at: NOW + 60_000,
        run: run.into(),
        owner: RunOwner::default(),
        ended: RunEnding::from_because(Outcome::Landed, &because, Some(Rung::Ask)),
        local: false,
        answer: Some("the answer".to_owned()),
        turns: 2,
        tool_calls: Some(30),
        input: 20,
        output: 40,
        cache_read: 6000,
        cache_write: 80,
        cost: Some(NanoUsd(3_000_002)),
    })
}

pub(crate) fn failed(run: &str) -> Record {
    let Record::RunEnd(end) = end(run) else { unreachable!() };
    let ended = RunEnding::without_limit(Outcome::Failed, Reason::Provider);
    Record::RunEnd(RunEnd { ended, ..end })
}
