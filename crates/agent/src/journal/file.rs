//! The file of a journal: locked, appended record by record, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{JournalError, JournalErrorKind};
use super::record::{CallRecord, ParentCall, Record, RecordKind, RequestRecord, VERSION};
use super::recorded_run::RecordedRun;
use crate::platform::files;

/// The largest journal that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The members that every line has.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    v: u32,
    /// The run of the record.
    run: String,
    /// The time of the run so far, in milliseconds, without the time in which no process was
    /// running it.
    ms: u64,
    kind: RecordKind,
}

/// The content of a journal, run by run.
#[derive(Debug, Default)]
pub(super) struct RecordedRuns {
    /// The run without a parent.
    pub(super) root: Option<String>,
    pub(super) runs: BTreeMap<String, RecordedRun>,
    /// The runs that answer calls.
    pub(super) children: BTreeMap<ParentCall, String>,
    /// True if a recorded end is final. Else a tree that ended without an answer can be resumed.
    keeps_ends: bool,
    /// The time at which the newest process began, in milliseconds since 1970, less the tree's time
    /// at that moment.
    base: i64,
}

/// Creates a journal in a new or empty file that only its owner can read.
pub(super) fn create_file(path: &Path) -> Result<File, JournalError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    files::make_private(&mut options);
    let failed = |error| JournalError::from_io(path, "made", &error);
    check_regular(path)?;
    let file = open_for_writer(path, &options, "made")?;
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(JournalError::new(path, JournalErrorKind::Exists));
    }
    // The file may have existed, empty.
    files::restrict_to_owner(&file).map_err(failed)?;
    Ok(file)
}

/// Checks that the path is a regular file or free. The check runs before the file is opened,
/// because opening a FIFO waits for its other end.
fn check_regular(path: &Path) -> Result<(), JournalError> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let error = std::io::Error::other("it is not a regular file");
            Err(JournalError::from_io(path, "opened", &error))
        }
        // A missing file is reported when one is needed.
        _ => Ok(()),
    }
}

/// Opens a journal, reads it and prepares it for the next record. A last line without its end was
/// never a record and is dropped.
pub(super) fn open_file(path: &Path) -> Result<(File, RecordedRuns), JournalError> {
    check_regular(path)?;
    let mut file = open_for_writer(path, OpenOptions::new().read(true).write(true), "opened")?;
    let (runs, whole) = read_records(path, &file)?;
    let ready = file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole)));
    ready.map_err(|error| JournalError::from_io(path, "made ready", &error))?;
    Ok((file, runs))
}

/// Reads a journal without changing it.
pub(super) fn read_only(path: &Path) -> Result<RecordedRuns, JournalError> {
    check_regular(path)?;
    let file = File::open(path).map_err(|error| JournalError::from_io(path, "opened", &error))?;
    Ok(read_records(path, &file)?.0)
}

/// Returns true if a process has the journal open to write to it.
pub(super) fn is_in_use(path: &Path) -> bool {
    files::has_writer(path)
}

/// The time for which a file is tried. The lock of a killed process is released with the process,
/// but not at once.
const DYING: Duration = Duration::from_millis(300);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Opens a file that no other process writes to.
fn open_for_writer(
    path: &Path,
    options: &OpenOptions,
    doing: &'static str,
) -> Result<File, JournalError> {
    let began = Instant::now();
    loop {
        match files::open_for_writer(path, options) {
            Ok(file) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < DYING => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::new(path, JournalErrorKind::InUse));
            }
            Err(TryLockError::Error(error)) => {
                return Err(JournalError::from_io(path, doing, &error));
            }
        }
    }
}

/// Reads the runs of a journal. Also returns the length of its complete records in bytes.
fn read_records(path: &Path, file: &File) -> Result<(RecordedRuns, u64), JournalError> {
    let failed = |error: &std::io::Error| JournalError::from_io(path, "read", error);
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    if size > MAX_BYTES {
        return Err(JournalError::new(path, JournalErrorKind::TooLarge { most: MAX_BYTES }));
    }
    read_lines(path, BufReader::new(file), RecordedRuns::default())
}

/// Reads the runs of a journal from its lines into `runs`. Also returns the length of the complete ones.
pub(super) fn read_lines(
    path: &Path,
    mut reader: impl BufRead,
    mut runs: RecordedRuns,
) -> Result<(RecordedRuns, u64), JournalError> {
    let failed = |error: &std::io::Error| JournalError::from_io(path, "read", error);
    let mut whole = 0;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line).map_err(|error| failed(&error))?;
        if line.pop() != Some(b'\n') {
            break;
        }
        runs.take_line(&line).map_err(|wrong| JournalError::new(path, wrong.into_kind(number)))?;
        whole += bytes as u64;
    }
    Ok((runs, whole))
}

/// The reason why a line is not a record.
enum LineError {
    Version(u64),
    Other(String),
}

impl LineError {
    fn into_kind(self, line: u64) -> JournalErrorKind {
        match self {
            Self::Version(version) => JournalErrorKind::OtherVersion { line, version },
            Self::Other(why) => JournalErrorKind::Damaged { line, why },
        }
    }
}

impl From<String> for LineError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl RecordedRuns {
    /// Returns the content of a journal in which a recorded end is final.
    pub(super) fn with_final_ends() -> Self {
        Self { keeps_ends: true, ..Self::default() }
    }

    /// Takes one line.
    fn take_line(&mut self, line: &[u8]) -> Result<(), LineError> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            v: u64,
        }
        // A later version may have other kinds of records, so the version is checked first.
        let Versioned { v } = parse_line(line)?;
        if v != u64::from(VERSION) {
            return Err(LineError::Version(v));
        }
        let Envelope { run, ms, kind, .. } = parse_line(line)?;
        if kind == RecordKind::Start {
            return self.begin_run(run, ms, line);
        }
        let base = self.base;
        let Some(past) = self.runs.get_mut(&run) else {
            return Err(LineError::Other(format!("`{}` of a run that has no start", kind.word())));
        };
        past.ms = past.ms.max(ms);
        if kind == RecordKind::Resume {
            let resumed: super::record::ResumeRecord = parse_line(line)?;
            self.set_base(&resumed.ts, ms);
            self.reopen_tree();
            return Ok(());
        }
        let began = past.start.as_ref().and_then(|start| start.began).unwrap_or(0);
        let at = base.saturating_add_unsigned(ms.saturating_add(began));
        put_record(past, (kind, at), line)
    }

    /// Notes that a process begins at the time `ts`, when the tree's own time is `ms`.
    fn set_base(&mut self, ts: &str, ms: u64) {
        if let Ok(time) = ts.parse::<jiff::Timestamp>() {
            self.base = time.as_millisecond().saturating_sub_unsigned(ms);
        }
    }

    /// Reopens the tree so that it can be resumed. A run that ended without an answer counts as
    /// active again, and so do the cancelled runs below it that have not handed back their result.
    pub(super) fn reopen_tree(&mut self) {
        if self.keeps_ends {
            return;
        }
        let root = self.root.as_ref().and_then(|root| self.runs.get(root));
        if root.is_none_or(RecordedRun::is_done) {
            return;
        }
        let mut open: Vec<String> = self.root.iter().cloned().collect();
        while let Some(run) = open.pop() {
            if let Some(past) = self.runs.get_mut(&run) {
                past.reopen_run();
            }
            open.extend(self.open_children(&run));
        }
    }

    /// Returns the children that have not handed back and that either have no end or were
    /// cancelled.
    fn open_children(&self, run: &str) -> Vec<String> {
        let Some(past) = self.runs.get(run) else { return Vec::new() };
        let goes_on = |child: &String| {
            self.runs.get(child).is_some_and(|past| past.end.is_none() || past.is_cancelled())
        };
        self.children
            .iter()
            .filter(|(parent, child)| {
                parent.run == run && past.is_open((parent.turn, parent.call)) && goes_on(child)
            })
            .map(|(_, child)| child.clone())
            .collect()
    }

    /// Returns the runs at and below this run that are replayed with it and have records left.
    /// `past` is the recorded part of the run itself.
    pub(super) fn left_below(&self, run: &str, past: &RecordedRun) -> BTreeSet<String> {
        let (mut left, mut open) = (BTreeSet::new(), vec![run.to_owned()]);
        let known = |id: &String| if id == run { Some(past) } else { self.runs.get(id) };
        while let Some(run) = open.pop() {
            let Some(past) = known(&run) else { continue };
            if past.is_left() {
                left.insert(run.clone());
            }
            let called = |parent: &ParentCall| {
                parent.run == run && past.calls.contains_key(&(parent.turn, parent.call))
            };
            let children = self.children.iter().filter(|(parent, _)| called(parent));
            open.extend(children.map(|(_, child)| child.clone()));
        }
        left
    }

    /// Returns the time of the tree at its newest record: the root's time in milliseconds.
    pub(super) fn tree_millis(&self) -> u64 {
        let of = |past: &RecordedRun| {
            let began = past.start.as_ref().and_then(|start| start.began);
            past.ms.saturating_add(began.unwrap_or(0))
        };
        self.runs.values().map(of).max().unwrap_or(0)
    }

    fn begin_run(&mut self, run: String, ms: u64, line: &[u8]) -> Result<(), LineError> {
        let start: super::record::StartRecord = parse_line(line)?;
        match &start.parent {
            None if self.root.is_some() => {
                return Err(LineError::Other("a second run without a parent".to_owned()));
            }
            None => {
                self.root = Some(run.clone());
                self.set_base(&start.ts, ms);
            }
            Some(parent) => {
                self.children.insert(parent.clone(), run.clone());
            }
        }
        if let Some(parent) = &start.parent
            && !self.runs.contains_key(&parent.run)
        {
            return Err(LineError::Other("a child of a run that has no start".to_owned()));
        }
        let began = self.base.saturating_add_unsigned(ms.saturating_add(start.began.unwrap_or(0)));
        let (start, now) = (Some(start), Some(began));
        let past = RecordedRun { start, ms, now, ..RecordedRun::default() };
        match self.runs.insert(run, past) {
            None => Ok(()),
            Some(_) => Err(LineError::Other("a second start of one run".to_owned())),
        }
    }
}

/// Takes a record of a run that has begun. Its predecessor must be present: a journal from which a
/// record was removed is not resumed.
fn put_record(
    past: &mut RecordedRun,
    (kind, at): (RecordKind, i64),
    line: &[u8],
) -> Result<(), LineError> {
    #[derive(serde::Deserialize)]
    struct Placed {
        turn: u64,
        /// The number of a request, or of a call.
        #[serde(default, alias = "call")]
        nth: u64,
    }
    let Placed { turn, nth } = parse_line(line)?;
    let follows = match kind {
        RecordKind::Turn => turn == 1 || past.rounds.contains_key(&(turn.saturating_sub(1))),
        RecordKind::Call | RecordKind::Result | RecordKind::Round => past.took.contains_key(&turn),
        _ => past.turns.contains_key(&turn),
    };
    if !follows {
        return Err(LineError::Other(missing_predecessor(kind, turn)));
    }
    past.times.insert((kind.word(), turn, nth), at);
    match kind {
        RecordKind::Start | RecordKind::Resume => {}
        RecordKind::Turn => {
            let turn: super::record::TurnRecord = parse_line(line)?;
            past.turns.insert(turn.turn, turn);
        }
        RecordKind::Short => {
            let short: super::record::ShortageRecord = parse_line(line)?;
            past.shorts.insert((short.turn, short.nth), short);
        }
        RecordKind::Request => {
            let request: RequestRecord = parse_line(line)?;
            let place = (request.turn, request.nth);
            past.requests.entry(place).or_default().request = Some(request);
        }
        RecordKind::Response => past.add_response(parse_line(line)?)?,
        RecordKind::Took => {
            let took: super::record::TurnEndRecord = parse_line(line)?;
            past.took.insert(took.turn, took);
        }
        RecordKind::Call => {
            let call: CallRecord = parse_line(line)?;
            past.calls.insert((call.turn, call.call), (call, None));
        }
        RecordKind::Result => past.add_result(parse_line(line)?)?,
        RecordKind::Round => {
            let round: super::record::RoundRecord = parse_line(line)?;
            past.rounds.insert(round.turn, round);
        }
        RecordKind::End => {
            let end: super::record::EndRecord = parse_line(line)?;
            if end.report.ended.outcome.is_done() && !past.took.contains_key(&turn) {
                return Err(LineError::Other(missing_predecessor(kind, turn)));
            }
            past.end = Some(end);
        }
    }
    Ok(())
}

fn missing_predecessor(kind: RecordKind, turn: u64) -> String {
    format!("`{}` of turn {turn} without what stands before it", kind.word())
}

fn parse_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    // The parser's messages hold nothing of the content except names and numbers of its own.
    serde_json::from_slice(line).map_err(|error| LineError::Other(error.to_string()))
}

/// Returns a record as its line, with the end of the line.
pub(super) fn record_line<R: Record>(run: &str, ms: u64, record: &R) -> std::io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Line<'a, R> {
        #[serde(flatten)]
        envelope: Envelope,
        #[serde(flatten)]
        record: &'a R,
    }
    let envelope = Envelope { v: VERSION, run: run.to_owned(), ms, kind: R::KIND };
    let mut line = serde_json::to_vec(&Line { envelope, record })?;
    line.push(b'\n');
    Ok(line)
}

/// The destination of records.
pub(super) type RecordWriter = Box<dyn Write + Send>;
