//! The recorded part of one run. Each fact is taken once, when the replayed run reaches it.

use std::collections::BTreeMap;

use softland_session::core::Outcome;

use super::record::{
    Call, CallResult, Came, CameTo, End, Request, Reserve, Round, Short, Start, Took, Turn,
};

/// The recorded part of a run.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) start: Option<Start>,
    pub(super) turns: BTreeMap<u64, Turn>,
    /// By turn and by the number within it.
    pub(super) requests: BTreeMap<(u64, u64), Asked>,
    /// By turn and by the number within it.
    pub(super) shorts: BTreeMap<(u64, u64), Short>,
    pub(super) took: BTreeMap<u64, Took>,
    /// By turn and by the index within it.
    pub(super) calls: BTreeMap<(u64, u64), (Call, Option<CallResult>)>,
    pub(super) rounds: BTreeMap<u64, Round>,
    pub(super) end: Option<End>,
    /// The time of the run at its newest record, in milliseconds.
    pub(super) ms: u64,
}

/// A recorded request and its response.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// `None` if the run ended before the request was sent.
    pub(super) request: Option<Request>,
    pub(super) came: Option<Came>,
}

/// The recorded outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The response to the request.
    Came(Came),
    /// The request was sent and its outcome is unknown.
    Lost(Reserve),
    /// No record: the request is yet to be sent.
    Nothing,
}

impl Past {
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

    /// Returns true if the run has ended with an answer.
    pub(super) fn is_done(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.report.ended.outcome.is_done())
    }

    /// Reopens the run so that it can be resumed. An end without an answer is dropped, and the step
    /// that caused it is tried again.
    pub(super) fn reopen(&mut self) {
        if self.is_done() {
            return;
        }
        self.uncancel();
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
                Some(came) if came.ended == CameTo::Cancelled => asked.came = None,
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
    fn uncancel(&mut self) {
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
        let cancelled = |end: &End| end.report.ended.outcome == Outcome::Cancelled;
        self.end.as_ref().is_some_and(cancelled)
    }

    pub(super) fn result(&mut self, result: CallResult) -> Result<(), String> {
        match self.calls.get_mut(&(result.turn, result.call)) {
            Some((_, known @ None)) => {
                *known = Some(result);
                Ok(())
            }
            Some(_) => Err("a second result of one call".to_owned()),
            None => Err("a result without its call".to_owned()),
        }
    }

    pub(super) fn came(&mut self, came: Came) -> Result<(), String> {
        let asked = self.requests.entry((came.turn, came.nth)).or_default();
        if asked.came.is_some() {
            return Err("a second response to one request".to_owned());
        }
        if asked.request.is_none() && !matches!(came.ended, CameTo::Expired | CameTo::Cancelled) {
            return Err("a response without its request".to_owned());
        }
        asked.came = Some(came);
        Ok(())
    }

    /// Takes the record of a request and its outcome.
    pub(super) fn asked(&mut self, turn: u64, nth: u64) -> (Option<Request>, Known) {
        let Some(Asked { request, came }) = self.requests.remove(&(turn, nth)) else {
            return (None, Known::Nothing);
        };
        let known = match (came, &request) {
            (Some(came), _) => Known::Came(came),
            (None, Some(request)) => Known::Lost(request.reserve),
            (None, None) => Known::Nothing,
        };
        (request, known)
    }
}
