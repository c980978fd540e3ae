//! The response under way, of which nothing outlives it.

use std::collections::{BTreeMap, BTreeSet};

use softland_core::AdmittedCalls;
use softland_wire::sse::Decoder;

use super::slot::BlockSlot;
use crate::framing::MAX_RESPONSE;

/// The way in which the response under way is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayMode {
    /// Each part at once; with `calls` false, calls wait for the verdict.
    Live {
        /// True if calls pass as they come.
        calls: bool,
    },
    /// Nothing until the verdict; with `until_call`, everything from the first call on.
    Held {
        /// True if a call ends the holding.
        until_call: bool,
    },
}

/// The response under way.
#[derive(Debug)]
pub(super) struct IncomingResponse {
    pub(super) mode: RelayMode,
    pub(super) decoder: Decoder,
    /// Its blocks, in the order they began.
    pub(super) slots: Vec<BlockSlot>,
    pub(super) by_key: BTreeMap<u32, usize>,
    /// Keys of the calls that were held.
    pub(super) asked: BTreeSet<u32>,
    /// Frames waiting for the verdict.
    pub(super) held: Vec<(String, String, Vec<u8>)>,
    /// Its end as received: the closing events of a stream, or the body of a whole response.
    pub(super) closing: Vec<u8>,
    /// The closing events that hold no part of a block.
    pub(super) bare: Vec<u8>,
    /// A last event that was cut. It goes out behind the end of the message, and nothing may follow
    /// it.
    pub(super) half: Vec<u8>,
    /// True if that event holds data, or if the connection broke.
    pub(super) torn: bool,
    /// The ids under which its calls are shown, in order.
    pub(super) shown_ids: Vec<String>,
    /// The admissions that those calls leave to the next one.
    pub(super) admitted: AdmittedCalls,
    /// The slot before which no thinking waits that could still be shown.
    pub(super) released: usize,
    /// Bytes that came, and true if an event of the protocol's was among them.
    pub(super) received: usize,
    pub(super) known: bool,
    /// The words of the last event, if it is none of the protocol's.
    pub(super) words: Option<String>,
    /// Events that came, without signs of life.
    pub(super) heard: usize,
    /// True if its message has ended.
    pub(super) over: bool,
}

impl IncomingResponse {
    pub(super) fn new(mode: RelayMode) -> Self {
        Self {
            mode,
            decoder: Decoder::new(MAX_RESPONSE),
            slots: Vec::new(),
            by_key: BTreeMap::new(),
            asked: BTreeSet::new(),
            held: Vec::new(),
            closing: Vec::new(),
            bare: Vec::new(),
            half: Vec::new(),
            torn: false,
            shown_ids: Vec::new(),
            admitted: AdmittedCalls::default(),
            released: 0,
            received: 0,
            known: false,
            words: None,
            heard: 0,
            over: false,
        }
    }

    /// True if its parts are shown as they come.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.mode, RelayMode::Live { .. })
    }
}

/// The ids of all calls so far, which a new call of an engine's may not have.
#[derive(Debug)]
pub(super) struct CallIds {
    taken: BTreeSet<String>,
    /// The number in the next id of softland's own.
    next: usize,
}

impl CallIds {
    /// Takes the ids of a history.
    pub(super) fn new(taken: BTreeSet<String>) -> Self {
        Self { next: taken.len(), taken }
    }

    /// Returns the id under which a call is shown: a new one if the call has none, or if the id is
    /// taken.
    pub(super) fn take_id(&mut self, id: &str) -> String {
        let mut own = id.to_owned();
        while own.is_empty() || self.taken.contains(&own) {
            let stem = if id.is_empty() { "toolu_softland" } else { id };
            own = format!("{stem}_{}", self.next);
            // No number is tried twice, whatever ids the model makes up.
            self.next += 1;
        }
        self.taken.insert(own.clone());
        own
    }
}
