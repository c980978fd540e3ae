//! The file: locked, appended record by record, read once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{JournalError, JournalErrorKind};
use super::past::Past;
use super::record::{Call, Envelope, Kind, Parent, Record, Request, VERSION};

/// The largest journal that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// What a journal holds, run by run.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The run that has no parent.
    pub(super) root: Option<String>,
    pub(super) runs: BTreeMap<String, Past>,
    /// The run that answers a call.
    pub(super) children: BTreeMap<Parent, String>,
}

/// Begins a journal in a new or empty file, readable by its owner only.
pub(super) fn create(path: &Path) -> Result<File, JournalError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let failed = |error| JournalError::io(path, "made", &error);
    let file = options.open(path).map_err(failed)?;
    lock(path, &file)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.len() > 0 {
        return Err(JournalError::new(path, JournalErrorKind::Exists));
    }
    #[cfg(unix)]
    if metadata.is_file() {
        // The file may have been there, empty.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        file.set_permissions(mode).map_err(failed)?;
    }
    Ok(file)
}

/// Opens a journal, reads it and makes it ready for the next record: a line without its end was
/// never a record, and is dropped.
pub(super) fn open(path: &Path) -> Result<(File, Runs), JournalError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let mut file = opened.map_err(|error| JournalError::io(path, "opened", &error))?;
    lock(path, &file)?;
    let (runs, whole) = read(path, &file)?;
    let ready = file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole)));
    ready.map_err(|error| JournalError::io(path, "made ready", &error))?;
    Ok((file, runs))
}

/// Reads a journal without touching it.
pub(super) fn peek(path: &Path) -> Result<Runs, JournalError> {
    let file = File::open(path).map_err(|error| JournalError::io(path, "opened", &error))?;
    Ok(read(path, &file)?.0)
}

fn lock(path: &Path, file: &File) -> Result<(), JournalError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(JournalError::new(path, JournalErrorKind::InUse)),
        // Some file systems have no locks: what a lock protects from is rare there, too.
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
            Ok(())
        }
        Err(TryLockError::Error(error)) => Err(JournalError::io(path, "locked", &error)),
    }
}

/// The runs of a journal, and how many bytes their records have.
fn read(path: &Path, file: &File) -> Result<(Runs, u64), JournalError> {
    let failed = |error: &std::io::Error| JournalError::io(path, "read", error);
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    if size > MAX_BYTES {
        return Err(JournalError::new(path, JournalErrorKind::TooLarge { most: MAX_BYTES }));
    }
    let (mut runs, mut whole) = (Runs::default(), 0);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line).map_err(|error| failed(&error))?;
        if line.pop() != Some(b'\n') {
            break;
        }
        runs.take(&line).map_err(|wrong| JournalError::new(path, wrong.at(number)))?;
        whole += bytes as u64;
    }
    Ok((runs, whole))
}

/// Why a line is no record.
enum Wrong {
    Version(u64),
    Other(String),
}

impl Wrong {
    fn at(self, line: u64) -> JournalErrorKind {
        match self {
            Self::Version(version) => JournalErrorKind::OtherVersion { line, version },
            Self::Other(why) => JournalErrorKind::Damaged { line, why },
        }
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl Runs {
    /// Takes one line.
    fn take(&mut self, line: &[u8]) -> Result<(), Wrong> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            v: u64,
        }
        // A later version may have other kinds: what it is goes before what it says.
        let Versioned { v } = parse(line)?;
        if v != u64::from(VERSION) {
            return Err(Wrong::Version(v));
        }
        let Envelope { run, ms, kind, .. } = parse(line)?;
        if kind == Kind::Start {
            return self.begin(run, ms, line);
        }
        let Some(past) = self.runs.get_mut(&run) else {
            return Err(Wrong::Other(format!("`{}` of a run that has no start", kind.word())));
        };
        past.ms = past.ms.max(ms);
        put(past, kind, line)
    }

    fn begin(&mut self, run: String, ms: u64, line: &[u8]) -> Result<(), Wrong> {
        let start: super::record::Start = parse(line)?;
        match &start.parent {
            None if self.root.is_some() => {
                return Err(Wrong::Other("a second run without a parent".to_owned()));
            }
            None => self.root = Some(run.clone()),
            Some(parent) => {
                self.children.insert(parent.clone(), run.clone());
            }
        }
        let past = Past { start: Some(start), ms, ..Past::default() };
        match self.runs.insert(run, past) {
            None => Ok(()),
            Some(_) => Err(Wrong::Other("a second start of one run".to_owned())),
        }
    }
}

fn put(past: &mut Past, kind: Kind, line: &[u8]) -> Result<(), Wrong> {
    match kind {
        Kind::Start => {}
        Kind::Turn => {
            let turn: super::record::Turn = parse(line)?;
            past.turns.insert(turn.turn, turn);
        }
        Kind::Request => {
            let request: Request = parse(line)?;
            let place = (request.turn, request.nth);
            past.requests.entry(place).or_default().request = Some(request);
        }
        Kind::Response => past.came(parse(line)?)?,
        Kind::Took => {
            let took: super::record::Took = parse(line)?;
            past.took.insert(took.turn, took);
        }
        Kind::Call => {
            let call: Call = parse(line)?;
            past.calls.insert((call.turn, call.call), (call, None));
        }
        Kind::Result => past.result(parse(line)?)?,
        Kind::Round => {
            let round: super::record::Round = parse(line)?;
            past.rounds.insert(round.turn, round);
        }
        Kind::End => past.end = Some(parse(line)?),
        Kind::Resume => past.reopen(),
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, Wrong> {
    // The parser's words hold none of the content but names and numbers of its own.
    serde_json::from_slice(line).map_err(|error| Wrong::Other(error.to_string()))
}

/// A record as its line, the end of the line included.
pub(super) fn line<R: Record>(run: &str, ms: u64, record: &R) -> std::io::Result<Vec<u8>> {
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

/// Where records go.
pub(super) type Writer = Box<dyn Write + Send>;
