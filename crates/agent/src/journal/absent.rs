//! The journal of a build without the feature `journal`: there is none.

use super::record::{ParentCall, Record, StartRecord};
use super::recorded_run::RecordedRun;
use super::{EffectPermit, JournalError, RunJournal};

/// A journal that cannot exist.
#[derive(Clone)]
pub(super) enum NoJournal {}

impl NoJournal {
    pub(super) fn child_run(&self, _: ParentCall, _: impl FnOnce() -> String) -> RunJournal {
        match *self {}
    }

    pub(super) fn recorded_children(&self) -> Vec<StartRecord> {
        match *self {}
    }

    pub(super) fn collect_runs(&self, _: &str, _: &RecordedRun) {
        match *self {}
    }

    pub(super) async fn wait_until_caught_up(&self) {
        match *self {}
    }

    pub(super) fn mark_caught_up(&self, _: &str) {
        match *self {}
    }

    pub(super) fn failure(&self) -> Option<JournalError> {
        match *self {}
    }

    pub(super) fn is_closed(&self) -> bool {
        match *self {}
    }

    pub(super) fn append_record<R: Record>(
        &self,
        _: &str,
        _: u64,
        _: &R,
    ) -> Result<(), JournalError> {
        match *self {}
    }

    pub(super) async fn begin_effect(&self) -> Option<EffectPermit> {
        match *self {}
    }

    pub(super) async fn wait_until_stored(&self) {
        match *self {}
    }

    pub(super) fn result_limit(&self) -> Option<usize> {
        match *self {}
    }

    pub(super) fn is_resumable(&self) -> bool {
        match *self {}
    }

    pub(super) fn mismatch_error(&self, _: &'static str, _: u64, _: &str) -> JournalError {
        match *self {}
    }
}
