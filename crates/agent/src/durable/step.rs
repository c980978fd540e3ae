//! One journaled step of a run, as bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use softland_session::core::{Outcome, Reason};

use super::ends::refused_end;

/// The version of the format.
const VERSION: u32 = 1;

/// The largest step, in bytes without its head. Engines limit their entries; what is larger becomes
/// several steps.
pub(super) const STEP_BYTES: usize = 8 << 20;

/// One step: the next bytes of the records and of the published events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// True for the first step of a process. An incomplete record or event before it is void.
    pub(super) first: bool,
    pub(super) records: Bytes,
    pub(super) events: Bytes,
    /// The end of the run, in its last step.
    pub(super) end: Option<RunEnd>,
}

/// The end of a durable run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The run has ended, as its terminal event says.
    Ended {
        /// The outcome.
        outcome: Outcome,
        /// The reason.
        reason: Reason,
    },
    /// The run was refused before it began, for this reason. Its only event says so.
    Refused(String),
}

impl RunEnd {
    /// Returns the outcome and the reason, as the terminal event has them.
    #[must_use]
    pub fn outcome(&self) -> (Outcome, Reason) {
        match self {
            Self::Ended { outcome, reason } => (*outcome, reason.clone()),
            Self::Refused(_) => (Outcome::Failed, Reason::Setup),
        }
    }
}

/// The head of a step: a line of JSON before the bytes.
#[derive(Serialize, Deserialize)]
struct StepHead {
    v: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    /// The number of bytes of records. The rest are events.
    records: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<RunEnd>,
}

impl Step {
    /// Returns the only step of a run that is refused for this reason.
    pub(super) fn refusal(run: &str, why: String) -> Self {
        // An event always has a form.
        let mut event = serde_json::to_vec(&refused_end(run, &why)).unwrap_or_default();
        event.push(b'\n');
        let (events, records) = (event.into(), Bytes::new());
        Self { first: true, records, events, end: Some(RunEnd::Refused(why)) }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        let Self { first, records, events, end } = self;
        let head = StepHead { v: VERSION, first: *first, records: records.len(), end: end.clone() };
        let mut bytes = BytesMut::with_capacity(records.len() + events.len() + 128);
        // A head of these members always has a form.
        bytes.put_slice(&serde_json::to_vec(&head).unwrap_or_default());
        bytes.put_u8(b'\n');
        bytes.put_slice(records);
        bytes.put_slice(events);
        bytes.freeze()
    }

    /// Reads a step; `None` if it is none of this version.
    pub(super) fn from_bytes(mut bytes: Bytes) -> Option<Self> {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let head = bytes.split_to(line + 1);
        let StepHead { v, first, records, end } = serde_json::from_slice(&head).ok()?;
        let known = v == VERSION && records <= bytes.len();
        known.then(|| Self { first, records: bytes.split_to(records), events: bytes, end })
    }
}

/// Drops the incomplete line at the end of bytes.
pub(super) fn drop_incomplete_line(bytes: &mut Vec<u8>) {
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(complete);
}
