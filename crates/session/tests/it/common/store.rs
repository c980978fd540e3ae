//! What a gateway keeps between the requests of one conversation. Everything else of it is made
//! anew for each.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use softland_core::{Admission, Digest, PinnedRecords, RunUsage};
use softland_session::{Done, Outline, Past, SeenResult, StoredConversation, StoredTail};

#[derive(Default)]
pub(crate) struct Store {
    records: PinnedRecords,
    tails: BTreeMap<Digest, StoredTail>,
    results: BTreeMap<Digest, SeenResult>,
    refusals: BTreeMap<Digest, u64>,
    opening: Option<Digest>,
    used: RunUsage,
    newest: Option<Digest>,
}

impl Store {
    pub(crate) fn records(&self) -> PinnedRecords {
        self.records.clone()
    }

    /// What is handed to the session for a request.
    pub(crate) fn remembered(&self, outline: &Outline) -> StoredConversation<'static> {
        let changed = self.opening.is_some_and(|opening| opening != outline.opening_digest());
        let past =
            (changed && outline.opens_in_summary && outline.answered.is_empty()).then(|| Past {
                run: None,
                turn: None,
                from: usize::MAX,
                used: self.used.clone(),
                pinned: self.newest.and_then(|run| self.records.get(&run).cloned()),
                over: false,
                shows_start: false,
            });
        StoredConversation {
            tails: Cow::Owned(self.tails.clone()),
            results: Cow::Owned(self.results.clone()),
            past,
            named: None,
            arrival: None,
        }
    }

    /// Turns of a run that its tools' limits refused and its transcript does not show.
    pub(crate) fn refusals(&self, run: Option<Digest>) -> u64 {
        run.and_then(|run| self.refusals.get(&run)).copied().unwrap_or(0)
    }

    /// Keeps what a request led to.
    pub(crate) fn keep(&mut self, done: &Done, run: Option<Digest>, outline: &Outline) {
        self.records = same(&done.records);
        if let Some((place, tail)) = &done.tail {
            self.tails.insert(*place, same(tail));
        }
        for (place, seen) in &done.seen {
            self.results.entry(*place).or_insert_with(|| same(seen));
        }
        if let Some(run) = run {
            self.refusals.insert(run, done.tool_refusals);
        }
        self.opening = Some(outline.opening_digest());
        self.newest = run;
        self.used = done.used.clone();
        for call in done.calls.iter().filter(|call| call.admission == Admission::Run) {
            self.used.calls += 1;
            *self.used.by_tool.entry(call.name.clone()).or_default() += 1;
        }
    }
}

/// A value as a store elsewhere gives it back.
fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let read = serde_json::from_str(&text).unwrap();
    assert_eq!(*value, read, "what is written is what is read");
    read
}
