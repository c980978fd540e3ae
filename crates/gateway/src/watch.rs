//! The parties that watch a gateway: its counters, the ledger, and people with a page. They change
//! nothing about a request.

use std::sync::Arc;

use serde_json::json;
use softland_govern::records::Record;
use softland_govern::{RunPlace, Watcher};
use softland_host::ledger_record;
use softland_ledger::{self as ledger, Ledger, Step};
use softland_session::Event;
use softland_session::wire::request::Request;

use crate::metrics::{Metrics, Summary};
use crate::recap::RecapNotes;
use crate::run_steps;
use crate::tape::Tapes;

/// The parties that watch a gateway.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ledger: Option<Ledger>,
    /// The events of runs that somebody is watching.
    pub(crate) tapes: Tapes,
    /// The notes for a recap, if one is asked for.
    recap: Option<RecapNotes>,
}

impl Watch {
    pub(crate) fn new(ledger: Option<Ledger>, recap: bool) -> Self {
        let recap = recap.then(RecapNotes::default);
        Self { metrics: Arc::new(Metrics::new()), ledger, tapes: Tapes::default(), recap }
    }

    /// Returns a summary of what has been done so far.
    pub(crate) fn to_summary(&self) -> Summary {
        Summary {
            recap: self.recap.as_ref().map(RecapNotes::to_recap).unwrap_or_default(),
            lost_records: self.ledger.as_ref().map_or(0, Ledger::lost_records),
            ledger_fault: self.ledger.as_ref().and_then(Ledger::last_fault),
            ..self.metrics.to_summary()
        }
    }

    /// Hands a record to the ledger, if there is one, and to the page that watches the run.
    pub(crate) fn write_ledger(&self, record: ledger::Record) {
        if !self.tapes.is_idle() {
            self.tapes.write_record(&record);
        }
        if let Some(ledger) = &self.ledger {
            ledger.record(record);
        }
    }
}

impl Watcher for Watch {
    fn wants_records(&self) -> bool {
        self.ledger.is_some() || self.recap.is_some() || !self.tapes.is_idle()
    }

    fn keeps_contents(&self) -> bool {
        self.ledger.is_some()
    }

    fn write_record(&self, record: Record<'_>) {
        if let Some(notes) = &self.recap {
            notes.note_record(&record);
        }
        if self.ledger.is_some() || !self.tapes.is_idle() {
            self.write_ledger(ledger_record(record));
        }
    }

    fn is_watched(&self, run: &Arc<str>) -> bool {
        self.tapes.find_tape(run).is_some()
    }

    /// Writes the request's history to the tape: all of it if the tape does not have it yet, else
    /// the results of the newest calls.
    fn show_history(&self, place: RunPlace<'_>, request: &Request<'_>) {
        let RunPlace { run, turn, at } = place;
        let Some(tape) = self.tapes.find_tape(run) else { return };
        let (whole, results) = tape.mark_results_to(turn.saturating_sub(1));
        let (question, turns) = run_steps::read_history(request, turn, at);
        if let Some(question) = question {
            let at = tape.find_time(0).unwrap_or(at);
            tape.write_step(run_steps::make_step(at, 0, "question", &json!({"text": question})));
        }
        for had in turns {
            if had.turn > whole {
                // The tape has only a part of this turn, which began in the middle. It is told
                // again with its own time.
                let at = tape.find_time(had.turn).unwrap_or(at);
                tape.write_step(run_steps::make_step(at, had.turn, "turn_again", &json!({})));
                had.said.into_iter().for_each(|step| tape.write_step(Step { at, ..step }));
            }
            if had.turn > results || had.turn > whole {
                had.results.into_iter().for_each(|step| tape.write_step(step));
            }
        }
    }

    fn show_event(&self, place: RunPlace<'_>, event: &Event) {
        if let Some(tape) = self.tapes.find_tape(place.run)
            && let Some(step) = run_steps::event_step(event, place.at, place.turn)
        {
            tape.write_step(step);
        }
    }

    fn show_child(&self, place: RunPlace<'_>, child: &Arc<str>, agent: Option<&Arc<str>>) {
        if let Some(tape) = self.tapes.find_tape(place.run) {
            let fields = json!({"child_run": &**child, "agent": agent});
            tape.write_step(run_steps::make_step(place.at, place.turn, "child", &fields));
        }
    }

    fn mark_shown(&self, place: RunPlace<'_>) {
        if let Some(tape) = self.tapes.find_tape(place.run) {
            tape.mark_whole_to(place.turn);
        }
    }
}
