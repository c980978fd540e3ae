//! What a ledger is told, and why it may not open.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a ledger writes, how much, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The SQLite file; `None`: no database.
    pub path: Option<PathBuf>,
    /// The event log, one JSON object a line; `None`: none.
    pub events_path: Option<PathBuf>,
    /// Whole contents are kept; else what was said stands there as digest and length.
    pub full_contents: bool,
    /// How long a run is kept after its last record; `None`: for ever.
    pub retention: Option<Duration>,
    /// The largest the SQLite file may grow, in bytes; `None`: as the disk allows. What does not
    /// fit is lost until retention has made room.
    pub max_bytes: Option<u64>,
    /// Bytes of the event log after which it is renamed to `NAME.1` (and that to `NAME.2` …).
    pub events_max_bytes: u64,
    /// Renamed event logs that are kept.
    pub events_keep: u32,
    /// Records that may wait. Requests and events give way a little earlier than the beginnings
    /// and ends of runs.
    pub queue_records: usize,
    /// Bytes that waiting records may take.
    pub queue_bytes: usize,
    /// Runs that a process left open which is gone are ended when the file is opened, as
    /// cancelled, with what they had come to. Only where nobody else has the file open: whose
    /// runs they are, and whether that process lives, it does not say.
    pub end_left_open: bool,
    /// How long a first record waits for others to be written with it.
    pub gather: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: None,
            events_path: None,
            full_contents: false,
            retention: None,
            max_bytes: None,
            events_max_bytes: 64 << 20,
            events_keep: 5,
            queue_records: 8192,
            queue_bytes: 32 << 20,
            end_left_open: false,
            gather: Duration::from_millis(50),
        }
    }
}

impl Options {
    /// A ledger in that file, without an event log.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }
}

/// Why a ledger or an event log cannot be used.
#[derive(Debug)]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: OpenProblem,
}

/// What is wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenProblem {
    /// There is none, where one is to be read.
    Missing,
    /// It cannot be opened or made.
    File(std::io::Error),
    /// It is no SQLite file, or that of another program.
    NotALedger,
    /// A newer softland has written it.
    Newer {
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// It has no tables yet: nothing has been written to it.
    Empty,
    /// SQLite says no.
    Sqlite(rusqlite::Error),
}

impl OpenError {
    pub(crate) fn new(path: &Path, problem: OpenProblem) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// A fault that may be over by itself, such as a lock or a full disk.
    pub(crate) fn passes(&self) -> bool {
        use rusqlite::ErrorCode::{
            DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, SystemIoFailure,
        };
        let OpenProblem::Sqlite(error) = &self.problem else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(DatabaseBusy | DatabaseLocked | DiskFull | OutOfMemory | SystemIoFailure)
        )
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.path.display();
        match &self.problem {
            OpenProblem::Missing => write!(f, "{file}: there is no such ledger"),
            OpenProblem::File(error) => write!(f, "{file}: cannot be opened for writing: {error}"),
            OpenProblem::NotALedger => {
                write!(f, "{file}: is no softland ledger; it is left as it is")
            }
            OpenProblem::Newer { found, known } => write!(
                f,
                "{file}: was written by a newer softland (ledger version {found}; this one knows \
                 up to {known})"
            ),
            OpenProblem::Empty => write!(f, "{file}: holds nothing yet"),
            OpenProblem::Sqlite(error) => write!(f, "{file}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            OpenProblem::File(error) => Some(error),
            OpenProblem::Sqlite(error) => Some(error),
            OpenProblem::Missing
            | OpenProblem::NotALedger
            | OpenProblem::Newer { .. }
            | OpenProblem::Empty => None,
        }
    }
}
