//! Where the records of a journal are kept: a file, or the log of an engine that runs agents.

use std::io::Write as _;
use std::sync::Mutex;

use async_trait::async_trait;

use super::file::RecordWriter;
use super::record::RecordKind;
use super::{EffectPermit, lock_unpoisoned};

/// A record that is about to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    /// The run that the record belongs to.
    pub(crate) run: &'a str,
    pub(crate) kind: RecordKind,
    /// The record as a line, with the end of the line.
    pub(crate) line: &'a [u8],
}

/// A place for the records of a tree of runs. A record is kept before what it stands for happens.
#[async_trait]
pub(crate) trait RecordLog: Send + Sync {
    /// Takes a record, behind those that were taken before.
    fn append_record(&self, record: NewRecord<'_>) -> std::io::Result<()>;

    /// Waits until a request or a call may begin; for ever in a process that is leaving its run.
    async fn begin_effect(&self) -> Option<EffectPermit>;

    /// Waits until the records that were taken outlive this process. An effect that a record
    /// announces does not begin before.
    async fn wait_until_stored(&self);

    /// Returns the largest result of a call that is kept, in bytes; `None` without a limit.
    fn result_limit(&self) -> Option<usize>;

    /// Returns true if a person can resume a run from the log.
    fn is_resumable(&self) -> bool;
}

/// The log of a journal on this machine. What is written outlives the process at once.
pub(super) struct FileLog {
    writer: Mutex<RecordWriter>,
}

impl FileLog {
    pub(super) fn new(writer: RecordWriter) -> Self {
        Self { writer: Mutex::new(writer) }
    }

    /// Replaces the writer by one around it.
    pub(super) fn wrap_writer(&self, wrap: impl FnOnce(RecordWriter) -> RecordWriter) {
        let mut writer = lock_unpoisoned(&self.writer);
        let inner = std::mem::replace(&mut *writer, Box::new(std::io::sink()));
        *writer = wrap(inner);
    }
}

#[async_trait]
impl RecordLog for FileLog {
    fn append_record(&self, record: NewRecord<'_>) -> std::io::Result<()> {
        lock_unpoisoned(&self.writer).write_all(record.line)
    }

    async fn begin_effect(&self) -> Option<EffectPermit> {
        None
    }

    async fn wait_until_stored(&self) {}

    fn result_limit(&self) -> Option<usize> {
        None
    }

    fn is_resumable(&self) -> bool {
        true
    }
}
