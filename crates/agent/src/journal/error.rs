//! Why a journal cannot be kept or read.

use std::path::{Path, PathBuf};

/// What is wrong with a journal. Nothing of its content is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalError {
    path: PathBuf,
    kind: JournalErrorKind,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// A new journal was to be begun where there is something already.
    Exists,
    /// Another process writes it.
    InUse,
    /// It holds no run: nothing was begun.
    Empty,
    /// It cannot be read or written.
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        error: String,
    },
    /// It is larger than what is read.
    TooLarge {
        /// Bytes that are read at most.
        most: u64,
    },
    /// A line is no record.
    Damaged {
        /// Which one, from 1.
        line: u64,
        /// Why.
        why: String,
    },
    /// A record's version is not this softland's.
    OtherVersion {
        /// Which line, from 1.
        line: u64,
        /// What it says.
        version: u64,
    },
    /// What was recorded cannot be come to again.
    Differs {
        /// The record's kind.
        record: &'static str,
        /// Its turn.
        turn: u64,
        /// The version of softland that began the run.
        by: String,
    },
}

impl JournalError {
    pub(super) fn new(path: &Path, kind: JournalErrorKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    pub(super) fn io(path: &Path, doing: &'static str, error: &std::io::Error) -> Self {
        Self::new(path, JournalErrorKind::Io { doing, error: error.to_string() })
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &JournalErrorKind {
        &self.kind
    }

    /// Whether the run may be tried again from its last good record.
    #[must_use]
    pub(crate) fn leaves_a_good_journal(&self) -> bool {
        matches!(self.kind, JournalErrorKind::Io { .. })
    }
}

impl std::fmt::Display for JournalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal {}", self.path.display())?;
        match &self.kind {
            JournalErrorKind::Exists => f.write_str(
                " is there already: a new run takes a new file, --resume goes on with an old one",
            ),
            JournalErrorKind::InUse => {
                f.write_str(" is in use: another process is at work on that run")
            }
            JournalErrorKind::Empty => {
                f.write_str(" holds no run: its process ended before anything was begun")
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
                " cannot be gone on with: in turn {turn} the record `{record}` comes out \
                 otherwise than it was written (the run was begun by softland {by}, this is {})",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }
}

impl std::error::Error for JournalError {}
