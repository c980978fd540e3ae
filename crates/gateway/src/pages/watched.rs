//! The ledger that other processes write, for pages that only show it.

use std::time::Duration;

use bytes::Bytes;
use softland_govern::BodySender;
use softland_ledger::{LedgerMark, LedgerPlace};

use super::stream::{LOOK, SILENCE};
use crate::state::GatewayState;

/// The ledger of other processes, and its state when it was last looked at.
pub(super) struct WatchedLedger {
    place: LedgerPlace,
    mark: Option<LedgerMark>,
}

impl WatchedLedger {
    /// Returns the ledger to be watched, if other processes write it.
    pub(super) async fn open(gate: &GatewayState) -> Option<Self> {
        let live = gate.live_config();
        let place = live.settings.ledger.clone().filter(|_| live.settings.ledger_read_only)?;
        let mark = read_mark(&place).await;
        Some(Self { place, mark })
    }

    /// Waits until the ledger has changed, and keeps the page's connection alive meanwhile.
    pub(super) async fn wait_for_change(&mut self, sender: &BodySender) {
        let mut quiet = Duration::ZERO;
        while !self.has_changed().await {
            tokio::time::sleep(LOOK).await;
            quiet += LOOK;
            if quiet >= SILENCE {
                quiet = Duration::ZERO;
                // A page that has left is noticed by its stream.
                let _ = sender.send(Bytes::from_static(b":\n\n")).await;
            }
        }
    }

    /// Returns true if the ledger has changed since the last look.
    pub(super) async fn has_changed(&mut self) -> bool {
        let mark = read_mark(&self.place).await;
        let old = std::mem::replace(&mut self.mark, mark);
        old != self.mark
    }
}

async fn read_mark(place: &LedgerPlace) -> Option<LedgerMark> {
    let place = place.clone();
    tokio::task::spawn_blocking(move || LedgerMark::read(&place)).await.ok().flatten()
}
