//! Options of a ledger, and errors of opening it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::place::LedgerPlace;

/// The files, bounds and retention of a ledger.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database; `None` for none.
    pub place: Option<LedgerPlace>,
    /// The event log, one JSON object per line; `None` for no log.
    pub events_path: Option<PathBuf>,
    /// True to keep full contents. Otherwise texts are replaced by their digest and length.
    pub full_contents: bool,
    /// The time to keep a run after its last record; `None` to keep it for ever.
    pub retention: Option<Duration>,
    /// The maximum size of the SQLite file, in bytes; `None` for no maximum. Records that do not
    /// fit are lost until retention has made room. A PostgreSQL has no maximum.
    pub max_bytes: Option<u64>,
    /// The size in bytes at which the event log is renamed to `NAME.1` (and that to `NAME.2` …).
    pub events_max_bytes: u64,
    /// The number of renamed event logs to keep.
    pub events_keep: u32,
    /// The maximum number of waiting records. Requests and events are refused a little earlier than
    /// the beginnings and ends of runs.
    pub queue_records: usize,
    /// The maximum size of the waiting records, in bytes.
    pub queue_bytes: usize,
    /// True to end the runs that a dead process left open. They end as cancelled, with their sums
    /// so far, when the file is opened. While another process has the file open, only runs without
    /// a record of the last 24 hours are ended: the file does not say which process a run belongs
    /// to, or whether that process is alive. In a PostgreSQL, only such runs are ended, every hour.
    pub end_left_open: bool,
    /// The time that a first record waits for others to be written with it.
    pub gather: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: None,
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
    /// Creates options for a ledger in this file, without an event log.
    #[must_use]
    pub fn with_path(path: impl Into<PathBuf>) -> Self {
        Self { place: Some(LedgerPlace::File(path.into())), ..Self::default() }
    }
}

/// The error of a ledger or an event log that cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The file or the database.
    pub place: LedgerPlace,
    /// The problem with it.
    pub problem: OpenProblem,
}

/// A problem with a ledger's file.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenProblem {
    /// The file to be read does not exist.
    Missing,
    /// The path is that of a folder.
    Folder,
    /// The file cannot be read.
    Unreadable(std::io::Error),
    /// The file cannot be opened or created.
    File(std::io::Error),
    /// The file is not a SQLite file, or belongs to another program.
    NotALedger,
    /// A newer version of softland wrote the file.
    Newer {
        /// The version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The file has no tables yet: nothing was written to it.
    Empty,
    /// SQLite reported an error.
    Sqlite(rusqlite::Error),
    /// The PostgreSQL cannot be used as it is, as this text says: it refuses the user, or there is no
    /// such database.
    Refused(String),
    /// The PostgreSQL is away, as this text says.
    Away(String),
}

impl OpenError {
    pub(crate) fn new(path: &Path, problem: OpenProblem) -> Self {
        Self { place: path.into(), problem }
    }

    /// Checks that there is a file at the path. It is not opened: on Unix, closing it would end the
    /// locks that this process has on it.
    pub(crate) fn check_file(path: &Path) -> Result<(), Self> {
        let problem = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => OpenProblem::Folder,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => OpenProblem::Missing,
            Err(error) => OpenProblem::Unreadable(error),
        };
        Err(Self::new(path, problem))
    }

    /// Returns the error for a file that SQLite could not open, with the system's reason if it has
    /// one.
    pub(crate) fn from_sqlite(path: &Path, error: rusqlite::Error) -> Self {
        let closed = error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen);
        let reason = if closed { std::fs::File::open(path).err() } else { None };
        Self::new(path, reason.map_or(OpenProblem::Sqlite(error), OpenProblem::Unreadable))
    }

    /// True for a fault that may pass by itself, such as a lock or a full disk.
    pub(crate) fn is_transient(&self) -> bool {
        use rusqlite::ErrorCode::{
            DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, SystemIoFailure,
        };
        let error = match &self.problem {
            OpenProblem::Sqlite(error) => error,
            OpenProblem::Away(_) => return true,
            _ => return false,
        };
        matches!(
            error.sqlite_error_code(),
            Some(DatabaseBusy | DatabaseLocked | DiskFull | OutOfMemory | SystemIoFailure)
        )
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.place;
        match &self.problem {
            OpenProblem::Missing => write!(f, "{file}: there is no such ledger"),
            OpenProblem::Folder => write!(f, "{file}: is a folder; a ledger is a file"),
            OpenProblem::Unreadable(error) => write!(f, "{file}: cannot be read: {error}"),
            OpenProblem::File(error) => write!(f, "{file}: cannot be opened for writing: {error}"),
            OpenProblem::NotALedger => {
                write!(f, "{file}: is not a softland ledger; it is left as it is")
            }
            OpenProblem::Newer { found, known } => write!(
                f,
                "{file}: was written by a newer softland (ledger version {found}; this one knows \
                 up to {known})"
            ),
            OpenProblem::Empty => write!(f, "{file}: holds nothing yet"),
            OpenProblem::Sqlite(error) => write!(f, "{file}: {error}"),
            OpenProblem::Refused(why) | OpenProblem::Away(why) => write!(f, "{file}: {why}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            OpenProblem::Unreadable(error) | OpenProblem::File(error) => Some(error),
            OpenProblem::Sqlite(error) => Some(error),
            OpenProblem::Missing
            | OpenProblem::Folder
            | OpenProblem::NotALedger
            | OpenProblem::Newer { .. }
            | OpenProblem::Refused(_)
            | OpenProblem::Away(_)
            | OpenProblem::Empty => None,
        }
    }
}
