//! What the pages that watch a run are shown of a request: its history, once, and everything that
//! is said as it arrives.
//!
//! While nobody watches, the session reports no text events, and this module does nothing.

use softland_session::Event;

use super::GovernedRequest;
use crate::watcher::RunPlace;

impl GovernedRequest {
    /// Makes the session report text events while somebody watches.
    pub(super) fn watch_run(&mut self) {
        self.out.quiet = !self.is_watched();
    }

    /// Shows the request's history.
    pub(super) fn send_history_events(&mut self) {
        if !self.is_watched() {
            return;
        }
        self.taped = true;
        let request = self.exchange.request();
        self.opening.asked.services.watcher.show_history(self.run_place(), &request);
    }

    /// Shows an event.
    pub(super) fn write_tape(&self, event: &Event) {
        if !self.opening.metered {
            self.opening.asked.services.watcher.show_event(self.run_place(), event);
        }
    }

    /// Notes the end of the request. `whole` is true if it brought a turn.
    pub(in crate::turn) fn mark_tape_end(&self, whole: bool) {
        if whole && self.taped && !self.opening.metered {
            self.opening.asked.services.watcher.mark_shown(self.run_place());
        }
    }

    fn is_watched(&self) -> bool {
        let watcher = &self.opening.asked.services.watcher;
        !self.opening.metered && watcher.is_watched(&self.account.state.id)
    }

    fn run_place(&self) -> RunPlace<'_> {
        let (run, turn) = (&self.account.state.id, self.record.turn());
        RunPlace { run, turn, at: self.opening.asked.services.now() }
    }
}
