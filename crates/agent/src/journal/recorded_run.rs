//! The recorded part of one run. Each fact is taken once, when the replayed run reaches it.

use std::collections::BTreeMap;

#[cfg(feature = "journal")]
use softland_session::core::Outcome;

#[cfg(feature = "journal")]
use super::record::ResponseEnd;
use super::record::{
    CallRecord, CallResultRecord, EndRecord, RecordKind, RequestRecord, ResponseRecord,
    RoundRecord, ShortageRecord, StartRecord, TurnEndRecord, TurnRecord, WorstCase,
};

/// The recorded part of a run.
#[derive(Debug, Default)]
pub(super) struct RecordedRun {
    pub(super) start: Option<StartRecord>,
    pub(super) turns: BTreeMap<u64, TurnRecord>,
    /// By turn and by the number within it.
    pub(super) requests: BTreeMap<(u64, u64), RecordedRequest>,
    /// By turn and by the number within it.
    pub(super) shorts: BTreeMap<(u64, u64), ShortageRecord>,
    pub(super) took: BTreeMap<u64, TurnEndRecord>,
    /// By turn and by the index within it.
    pub(super) calls: BTreeMap<(u64, u64), (CallRecord, Option<CallResultRecord>)>,
    pub(super) rounds: BTreeMap<u64, RoundRecord>,
    pub(super) end: Option<EndRecord>,
    /// The time of the run at its newest record, in milliseconds.
    pub(super) ms: u64,
    /// The time of each record, in milliseconds since 1970.
    pub(super) times: BTreeMap<RecordPlace, i64>,
    /// The time of the newest record that was taken.
    pub(super) now: Option<i64>,
}

/// The place of a record in its run: its kind, its turn, and its number within the turn.
pub(super) type RecordPlace = (&'static str, u64, u64);

/// A recorded request and its response.
#[derive(Debug, Default)]
pub(super) struct RecordedRequest {
    /// `None` if the run ended before the request was sent.
    pub(super) request: Option<RequestRecord>,
    pub(super) came: Option<ResponseRecord>,
}

/// The recorded outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The response to the request.
    Came(ResponseRecord),
    /// The request was sent and its outcome is unknown.
    Lost(WorstCase),
    /// No record: the request is yet to be sent.
    Nothing,
}

impl RecordedRun {
    /// Returns true if some records are yet to be replayed.
    pub(super) fn is_left(&self) -> bool {
        !(self.turns.is_empty()
            && self.requests.is_empty()
            && self.shorts.is_empty()
            && self.took.is_empty()
            && self.calls.is_empty()
            && self.rounds.is_empty()
            && self.end.is_none())
    }

    /// Notes that the record at a place is taken. The time goes on, in whatever order the results of
    /// calls that ran side by side are taken.
    pub(super) fn note_taken(&mut self, place: RecordPlace) {
        self.now = self.times.remove(&place).max(self.now);
    }

    /// Returns true if the run has ended with an answer.
    pub(super) fn is_done(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.report.ended.outcome.is_done())
    }

    /// Takes the record of a request and its outcome.
    pub(super) fn take_request(
        &mut self,
        turn: u64,
        nth: u64,
    ) -> (Option<RequestRecord>, RequestOutcome) {
        let Some(RecordedRequest { request, came }) = self.requests.remove(&(turn, nth)) else {
            return (None, RequestOutcome::Nothing);
        };
        for kind in [RecordKind::Request, RecordKind::Response] {
            self.note_taken((kind.word(), turn, nth));
        }
        let known = match (came, &request) {
            (Some(came), _) => RequestOutcome::Came(came),
            (None, Some(request)) => RequestOutcome::Lost(request.reserve),
            (None, None) => RequestOutcome::Nothing,
        };
        (request, known)
    }
}

#[cfg(feature = "journal")]
impl RecordedRun {
    /// Reopens the run so that it can be resumed. An end without an answer is dropped, and the step
    /// that caused it is tried again.
    pub(super) fn reopen_run(&mut self) {
        if self.is_done() {
            return;
        }
        self.undo_cancel();
        let Some(end) = self.end.take() else { return };
        let has_calls = self.calls.keys().any(|(turn, _)| *turn == end.turn);
        if !self.rounds.contains_key(&end.turn) && !has_calls {
            // The turn had no result.
            self.took.remove(&end.turn);
        }
        if let Some(mut last) = self.requests.last_entry() {
            let asked = last.get_mut();
            match &mut asked.came {
                // The request was in flight when the run was cancelled, so its bill is unknown.
                Some(came) if came.ended == ResponseEnd::Cancelled => asked.came = None,
                Some(came) => came.again |= came.failure.is_some(),
                None => {}
            }
            if asked.request.is_none() && asked.came.is_none() {
                last.remove();
            }
        }
    }

    /// Takes back the cancellation of the newest round. If a sub-agent has handed nothing back, the
    /// round was not answered either, and the sub-agent goes on.
    fn undo_cancel(&mut self) {
        let Some(mut last) = self.rounds.last_entry() else { return };
        let (turn, cancelled) = (*last.key(), last.get().cancelled);
        last.get_mut().cancelled = false;
        if cancelled && self.has_open_call(turn) {
            self.rounds.remove(&turn);
        }
    }

    fn has_open_call(&self, of: u64) -> bool {
        self.calls.iter().any(|((turn, _), (_, result))| *turn == of && result.is_none())
    }

    /// Returns true if the call at this position has no result.
    pub(super) fn is_open(&self, place: (u64, u64)) -> bool {
        self.calls.get(&place).is_some_and(|(_, result)| result.is_none())
    }

    /// Returns true if the run was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        let cancelled = |end: &EndRecord| end.report.ended.outcome == Outcome::Cancelled;
        self.end.as_ref().is_some_and(cancelled)
    }

    pub(super) fn add_result(&mut self, result: CallResultRecord) -> Result<(), String> {
        match self.calls.get_mut(&(result.turn, result.call)) {
            Some((_, known @ None)) => {
                *known = Some(result);
                Ok(())
            }
            Some(_) => Err("a second result of one call".to_owned()),
            None => Err("a result without its call".to_owned()),
        }
    }

    pub(super) fn add_response(&mut self, came: ResponseRecord) -> Result<(), String> {
        let asked = self.requests.entry((came.turn, came.nth)).or_default();
        if asked.came.is_some() {
            return Err("a second response to one request".to_owned());
        }
        if asked.request.is_none()
            && !matches!(came.ended, ResponseEnd::Expired | ResponseEnd::Cancelled)
        {
            return Err("a response without its request".to_owned());
        }
        asked.came = Some(came);
        Ok(())
    }
}
