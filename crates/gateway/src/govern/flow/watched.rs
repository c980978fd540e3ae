//! The events of a request for the pages that watch its run: its history, once, and everything that
//! is said as it arrives.
//!
//! While nobody watches, the session reports no text events, and this module does nothing.

use std::sync::Arc;

use serde_json::json;
use softland_session::Event;

use super::GovernedRequest;
use crate::pages::{self, Tape};

impl GovernedRequest {
    /// Makes the session report text events while somebody watches.
    pub(super) fn watch_run(&mut self) {
        let tapes = &self.opening.asked.gate.tapes;
        self.out.quiet = tapes.is_idle() || self.tape_of_run().is_none();
    }

    /// Writes the request's history to the tape: all of it if the tape does not have it yet, else
    /// the results of the newest calls.
    pub(super) fn tape_history(&mut self) {
        let Some(tape) = self.tape_of_run() else { return };
        self.taped = true;
        let (turn, now) = (self.record.turn(), self.opening.asked.gate.now());
        let request = self.exchange.request();
        let (whole, results) = tape.mark_results_to(turn.saturating_sub(1));
        let (question, turns) = pages::read_history(&request, turn, now);
        if let Some(question) = question {
            tape.write_step(pages::make_step(now, 0, "question", &json!({"text": question})));
        }
        for had in turns {
            if had.turn > whole {
                // The tape has only a part of this turn, which began in the middle.
                tape.write_step(pages::make_step(now, had.turn, "turn_again", &json!({})));
                had.said.into_iter().for_each(|step| tape.write_step(step));
            }
            if had.turn > results || had.turn > whole {
                had.results.into_iter().for_each(|step| tape.write_step(step));
            }
        }
    }

    /// Writes an event to the tape.
    pub(super) fn write_tape(&self, event: &Event) {
        if let Some(tape) = self.tape_of_run()
            && let Some(step) =
                pages::event_step(event, self.opening.asked.gate.now(), self.record.turn())
        {
            tape.write_step(step);
        }
    }

    /// Notes the end of the request on the tape. `whole` is true if it brought a turn.
    pub(in crate::govern) fn mark_tape_end(&self, whole: bool) {
        if whole
            && self.taped
            && let Some(tape) = self.tape_of_run()
        {
            tape.mark_whole_to(self.record.turn());
        }
    }

    fn tape_of_run(&self) -> Option<Arc<Tape>> {
        let gate = &self.opening.asked.gate;
        if self.opening.metered {
            return None;
        }
        gate.tapes.find_tape(&self.account.state.id)
    }
}
