//! The place of an exchange on its ladder: what was sent and answered so far, and what comes next.

use softland_core::{Ladder, Rung, Tail, VisibleText};

use super::additions::ProviderLog;
use super::done::Done;
use super::plan;
use super::reading::RequestReading;
use super::upstream::UpstreamChange;
use crate::framing::JsonBytes;
use crate::relay::RelayMode;
use crate::reply::Reply;

/// The place of an exchange on its ladder.
#[derive(Debug)]
pub(super) struct LadderProgress {
    pub(super) ladder: Ladder,
    /// Messages behind the governed history.
    pub(super) tail: Vec<JsonBytes>,
    /// The part of the tail that is in a provider's log.
    pub(super) log: ProviderLog,
    /// A paused turn in the tail that waits for its tool's result: the index of its message, and
    /// the message without that call.
    pub(super) paused: Option<(usize, Option<JsonBytes>)>,
    pub(super) nudged_bare: bool,
    /// Text of the turn's earlier pieces.
    pub(super) pieces: String,
    /// The newest response.
    pub(super) newest: Option<Reply>,
    /// True if the newest turn was empty, or nearly so.
    pub(super) vain: bool,
    /// The number of times that `max_tokens` was doubled.
    grown: u32,
    /// The rung of the request under way, and true if nothing of its response is shown before a
    /// call or the verdict.
    rung: Option<Rung>,
    hidden: bool,
    end: Option<Box<Done>>,
    ended: bool,
}

impl LadderProgress {
    pub(super) fn new(ladder: Ladder) -> Self {
        Self {
            ladder,
            tail: Vec::new(),
            log: ProviderLog::default(),
            paused: None,
            nudged_bare: false,
            pieces: String::new(),
            newest: None,
            vain: false,
            grown: 0,
            rung: None,
            hidden: false,
            end: None,
            ended: false,
        }
    }

    /// Goes on to a request on this rung, behind this tail. `grow` doubles its output limit.
    pub(super) fn begin_request(&mut self, rung: Option<Rung>, tail: Tail, grow: bool) {
        self.grown += u32::from(grow);
        self.rung = rung;
        self.hidden = matches!(tail, Tail::Nudge(_) | Tail::ToolRefuse);
    }

    /// Returns what the next request adds to the governed history.
    pub(super) fn upstream_change(&self) -> UpstreamChange<'_> {
        UpstreamChange { rung: self.rung, tail: &self.tail, grown: self.grown, limit: None }
    }

    /// Returns the mode in which the next response is shown.
    pub(super) fn next_mode(&self, reading: &RequestReading) -> RelayMode {
        if self.ladder.landing().is_some() {
            return match self.ladder.rung() {
                Some(Rung::Ask) | None => RelayMode::Live { calls: false },
                _ => RelayMode::Held { until_call: false },
            };
        }
        let calls = plan::passes_calls_unchanged(&reading.run, reading.role);
        match self.hidden {
            true => RelayMode::Held { until_call: calls },
            false => RelayMode::Live { calls },
        }
    }

    /// Notes that a response has come to all that was sent: a provider's log has it.
    pub(super) fn note_logged(&mut self) {
        self.log = ProviderLog { told: Some(self.tail.len()), unanswered: JsonBytes::new() };
    }

    /// True if nothing stands behind the history.
    pub(super) fn has_no_tail(&self) -> bool {
        self.tail.is_empty()
    }

    /// True if the turn's earlier pieces say something.
    pub(super) fn has_said(&self) -> bool {
        !VisibleText::is_invisible_text(&self.pieces)
    }

    /// True if a paused turn waits for a result that the newest response does not bring.
    pub(super) fn is_left_open(&self) -> bool {
        self.paused.is_some() && !self.newest.as_ref().is_some_and(Reply::resolves_call)
    }

    /// Ends the exchange.
    pub(super) fn end(&mut self, done: Done) {
        self.end = Some(Box::new(done));
        self.ended = true;
    }

    /// True if there is nothing more to send.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes the result of the exchange.
    pub(super) fn take_done(&mut self) -> Option<Box<Done>> {
        self.end.take()
    }
}
