//! The journal of a run: what happened and what was decided, written before it takes effect.
//!
//! A record is one line, written with one call and not synchronised: it outlives the process, but
//! not the machine. It holds facts (what came from a model, what a tool returned, what time it was)
//! and the decisions that followed from them. A resumed run makes every decision again, by the same
//! code, with the recorded facts in place of the world. If a decision differs from the recorded
//! one, the run ends with an error. `docs/runs.md` describes the format.
//!
//! One file holds a whole tree of runs, in the order in which their records were written. The runs
//! of a tree are resumed together: each replays its own records, and none does anything new before
//! all of them have caught up, because what one run may spend depends on what the others hold. A
//! `Journal` is the file; a [`RunJournal`] is the part of one run. Both are cheap to clone and
//! may be used concurrently. Without the feature `journal` there are runs without a journal only.

#[cfg(not(feature = "journal"))]
mod absent;
mod bytes;
#[cfg(feature = "journal")]
mod disk;
mod error;
#[cfg(feature = "journal")]
mod file;
#[cfg(feature = "journal")]
mod log;
mod record;
mod recorded_run;
#[cfg(feature = "journal")]
mod replay;
mod run;
#[cfg(feature = "journal")]
mod stored_call;
#[cfg(feature = "journal")]
mod summary;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(not(feature = "journal"))]
use absent::NoJournal as Journal;
#[cfg(feature = "journal")]
pub use disk::Journal;
pub use error::{JournalError, JournalErrorKind};
#[cfg(feature = "journal")]
pub(crate) use log::{NewRecord, RecordLog};
#[cfg(feature = "journal")]
pub(crate) use record::RecordKind;
pub(crate) use record::{
    CallRecord, CallResultRecord, RequestRecord, ResponseEnd, ResponseRecord, WorstCase,
};
pub use record::{ParentCall, RecordedToolDef, StartRecord};
pub(crate) use recorded_run::RequestOutcome;
#[cfg(feature = "journal")]
pub use replay::ReplayedJournal;
pub(crate) use run::{CallDecision, RunClock, response_body};
pub use run::{RunJournal, new_run_id, now_rfc3339};
#[cfg(feature = "journal")]
pub use stored_call::{CallPosition, StoredCall, StoredResult};
#[cfg(feature = "journal")]
pub use summary::{FinishedRun, JournalSummary, RunProgress};

/// Held while a request or a call is under way: from before its record to behind its result's.
pub(crate) type EffectPermit = tokio::sync::OwnedRwLockReadGuard<()>;

/// No lock is held over code that panics. The data behind a poisoned lock would be intact.
pub(crate) fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
