//! Errors of writing and reading journals.

use std::path::{Path, PathBuf};

/// An error of a journal. It shows nothing of the journal's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalError {
    path: PathBuf,
    kind: JournalErrorKind,
}

/// The kind of a journal error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// The file of a new journal already has content.
    Exists,
    /// Another process is writing the journal.
    InUse,
    /// The journal holds no run: nothing was begun.
    Empty,
    /// The journal cannot be read or written.
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The message of the system.
        error: String,
    },
    /// The journal is larger than the limit for reading.
    TooLarge {
        /// The limit in bytes.
        most: u64,
    },
    /// A line is not a record.
    Damaged {
        /// The number of the line, from 1.
        line: u64,
        /// The reason.
        why: String,
    },
    /// A record has a version that this softland does not read.
    OtherVersion {
        /// The number of the line, from 1.
        line: u64,
        /// The version of the record.
        version: u64,
    },
    /// A replayed decision differs from the recorded one.
    Differs {
        /// The kind of the record.
        record: &'static str,
        /// The turn of the record.
        turn: u64,
        /// The version of softland that began the run.
        by: String,
    },
}

impl JournalError {
    pub(super) fn new(path: &Path, kind: JournalErrorKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    #[cfg(feature = "journal")]
    pub(super) fn from_io(path: &Path, doing: &'static str, error: &std::io::Error) -> Self {
        Self::new(path, JournalErrorKind::Io { doing, error: error.to_string() })
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &JournalErrorKind {
        &self.kind
    }

    /// Returns true if the run can be resumed from its last good record.
    #[must_use]
    pub(crate) fn allows_resume(&self) -> bool {
        matches!(self.kind, JournalErrorKind::Io { .. })
    }
}

impl std::fmt::Display for JournalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal {}", self.path.display())?;
        match &self.kind {
            JournalErrorKind::Exists => f.write_str(
                " already exists: a new run needs a new file, --resume goes on with an old one",
            ),
            JournalErrorKind::InUse => f.write_str(" is in use: another process works on that run"),
            JournalErrorKind::Empty => {
                f.write_str(" holds no run: its process ended before the run began")
            }
            JournalErrorKind::Io { doing, error } => write!(f, " cannot be {doing}: {error}"),
            JournalErrorKind::TooLarge { most } => {
                write!(f, " is larger than the {most} bytes that are read")
            }
            JournalErrorKind::Damaged { line, why } => {
                write!(f, " is damaged in line {line}: {why}")
            }
            JournalErrorKind::OtherVersion { line, version } => write!(
                f,
                " has records of version {version} (line {line}); this softland reads version {}",
                super::record::VERSION
            ),
            JournalErrorKind::Differs { record, turn, by } => write!(
                f,
                " cannot be resumed: in turn {turn} the record `{record}` differs from the \
                 recorded one (the run was begun by softland {by}, this is {})",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }
}

impl std::error::Error for JournalError {}
