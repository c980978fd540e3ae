//! What keeps the records: the interface between the writer's thread and a database.

use std::fmt;

use crate::batch::BatchPart;
use crate::log::LineId;
use crate::record::Record;
use crate::registry::RunRow;

/// A database that the writer's thread writes to.
pub(crate) trait LedgerStore: fmt::Debug + Send {
    /// Writes a batch in one transaction. With `logged`, its lines are appended to `text`, and noted
    /// as possibly missing from the log where the store can tell later.
    fn write_batch(
        &mut self,
        batch: BatchPart<'_>,
        text: &mut Vec<u8>,
        logged: bool,
    ) -> Result<BatchReport, StoreFault>;

    /// Deletes a few runs whose last record is older than `before`. Returns true if there may be
    /// more.
    fn sweep_old_runs(&mut self, before: u64) -> Result<bool, StoreFault>;

    /// Returns the records that complete what a dead process left open, at most `most` runs and
    /// `most` requests, for a store that has one writer at a time. What other processes may still
    /// work on is left out, unless it has no record since `old`.
    fn abandoned_records(&self, _most: usize, _old: u64) -> Result<Vec<Record>, StoreFault> {
        Ok(Vec::new())
    }

    /// Ends what has no record since `old`, for a store to which several processes write at once.
    /// The lines are appended to `text` with `logged`.
    fn end_abandoned(
        &mut self,
        _old: u64,
        _text: &mut Vec<u8>,
        _logged: bool,
    ) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Returns the lines of the last batch, which may be missing from the log.
    fn unlogged_lines(&self) -> Result<Vec<(LineId, Vec<u8>)>, StoreFault> {
        Ok(Vec::new())
    }

    /// Notes that every line has reached the log.
    fn mark_all_logged(&self) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Returns true if the store was moved away under this handle.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Returns the newest open runs, also of a store that was moved away.
    fn read_open_runs(&self) -> Vec<RunRow> {
        Vec::new()
    }

    /// Remembers open runs of the store before this one. The next batch adopts them.
    fn continue_runs(&mut self, _runs: Vec<RunRow>) {}
}

/// The result of writing a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchReport {
    /// The number of events with a reserved name, which are not kept.
    pub(crate) misnamed: u64,
}

/// A fault of a store.
#[derive(Debug)]
pub(crate) struct StoreFault {
    pub(crate) kind: FaultKind,
    /// The reason, without the place.
    pub(crate) why: String,
}

/// What a fault asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// A record can never be written.
    Record,
    /// Writing may succeed later, over the same handle.
    Passing,
    /// The store has to be opened anew.
    Broken,
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<rusqlite::Error> for StoreFault {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull, ParameterOutOfRange,
            TooBig, TypeMismatch,
        };
        let kind = match error.sqlite_error_code() {
            None | Some(ConstraintViolation | ParameterOutOfRange | TooBig | TypeMismatch) => {
                FaultKind::Record
            }
            Some(DatabaseBusy | DatabaseLocked | DiskFull) => FaultKind::Passing,
            Some(_) => FaultKind::Broken,
        };
        Self { kind, why: error.to_string() }
    }
}
