//! Signals that softland itself recorded. A ledger keeps no single calls, so the fold cannot see a
//! loop in it again; the signal that was seen live is listed instead.

use softland_session::core::policy::Policy;
use softland_session::core::{RecordedLoop, unite_signals};

use super::{Listing, SeenSignals};
use crate::step::RecordedSignal;

impl SeenSignals {
    /// Lists recorded signals that the fold has not seen. `silenced` is true if the run ended by
    /// its silence.
    pub(crate) fn list_recorded(
        &mut self,
        noted: Vec<RecordedSignal>,
        silenced: bool,
        limits: &Policy,
    ) {
        let noted = noted.into_iter().map(|one| (one.signal, one.evidence)).collect();
        for recorded in unite_signals(noted, silenced, limits) {
            let seen = |listing: &Listing| {
                listing.kind == recorded.kind && recorded.meets(&listing.members)
            };
            if self.listings.iter().any(seen) {
                continue;
            }
            let RecordedLoop { kind, members, fresh, call, result, text } = recorded;
            self.listings.push(Listing {
                kind,
                members,
                fresh,
                recorded: true,
                call,
                result,
                text,
            });
        }
    }
}
