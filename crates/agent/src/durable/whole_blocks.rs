//! Events of a tree of runs with each block's text as one delta.

use std::collections::BTreeMap;

use crate::event::{Event, EventKind};

/// Joins the deltas of each block and numbers the events anew. Events that an earlier process has
/// published are left out.
#[derive(Debug, Default)]
pub(super) struct WholeBlocks {
    runs: BTreeMap<String, RunBlocks>,
    /// The number of published events of each run.
    published: BTreeMap<String, u64>,
}

/// The open delta of a run, and the number of its next event.
#[derive(Debug, Default)]
struct RunBlocks {
    open: Option<Event>,
    next: u64,
}

impl WholeBlocks {
    pub(super) fn new(published: BTreeMap<String, u64>) -> Self {
        Self { runs: BTreeMap::new(), published }
    }

    /// Takes an event. Returns the events that are complete with it.
    pub(super) fn push_event(&mut self, event: &Event) -> Vec<Event> {
        let run = self.runs.entry(event.run.clone()).or_default();
        if run.open.as_mut().is_some_and(|open| join_delta(&mut open.kind, &event.kind)) {
            return Vec::new();
        }
        let mut whole: Vec<Event> = run.open.take().into_iter().collect();
        match is_delta(&event.kind) {
            true => run.open = Some(event.clone()),
            false => whole.push(event.clone()),
        }
        let published = self.published.get(&event.run).copied().unwrap_or(0);
        for event in &mut whole {
            event.seq = run.next;
            run.next += 1;
        }
        whole.retain(|event| event.seq >= published);
        whole
    }
}

fn is_delta(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolInputDelta { .. }
    )
}

/// Adds a delta to the open one. Returns false if it does not continue it.
fn join_delta(open: &mut EventKind, more: &EventKind) -> bool {
    match (open, more) {
        (EventKind::TextDelta { text }, EventKind::TextDelta { text: more })
        | (EventKind::ThinkingDelta { text }, EventKind::ThinkingDelta { text: more }) => {
            text.push_str(more);
            true
        }
        (
            EventKind::ToolInputDelta { id, partial_json },
            EventKind::ToolInputDelta { id: same, partial_json: more },
        ) if id == same => {
            partial_json.push_str(more);
            true
        }
        _ => false,
    }
}
