//! One line of a run's events, as it is read and shown.

use crate::fields;

/// One line of a run's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the line within its run.
    pub seq: u64,
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// The turn.
    pub turn: u64,
    /// The event's name (`docs/reference/events.md`).
    pub event: String,
    /// Its fields, a JSON object.
    pub fields: String,
    /// True if the record came after the end of the run; such a line is not in the event log.
    pub late: bool,
}

impl Step {
    /// Returns the step as a line of the event log, without the line end.
    #[must_use]
    pub fn to_json(&self, run: &str) -> String {
        let Self { seq, at, turn, event, .. } = self;
        let mut text = Vec::new();
        let envelope = fields::Envelope { seq: *seq, at: *at, run, turn: *turn, event };
        fields::write_line(&mut text, &envelope, &self.fields);
        String::from_utf8(text).unwrap_or_default().trim_end().to_owned()
    }
}
