//! The memory of a conversation between its exchanges, as one value: for embedders
//! without a store of their own. A store may keep the parts instead, as the gateway does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use softland_core::{Digest, PinnedRecord, PinnedRecords};
use softland_wire::request::Request;

use crate::chain::ChainLink;
use crate::exchange::Done;
use crate::remembered::{SeenResult, StoredConversation, StoredTail};

/// The most runs, tails, results and links that are kept.
const RUNS: usize = 64;
const TAILS: usize = 256;
const RESULTS: usize = 4096;
const LINKS: usize = 256;

/// The memory of one conversation. It is owned, and serialisable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The records of its runs.
    pub records: PinnedRecords,
    /// Messages that stood behind a history and are sent again, by their place.
    pub tails: BTreeMap<Digest, StoredTail>,
    /// Tool results as they were when they were first sent, by their place.
    pub results: BTreeMap<Digest, SeenResult>,
    /// Links of responses that the provider keeps, by the response's or the conversation's id.
    pub links: BTreeMap<String, ChainLink>,
    /// The usage of its runs that no history shows.
    pub runs: BTreeMap<Digest, RunMemory>,
    /// The keys of all of these, oldest first.
    order: Vec<KeptKey>,
}

/// The key of something that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptKey {
    Run(Digest),
    Tail(Digest),
    Result(Digest),
    Link(String),
}

impl KeptKey {
    /// Returns the most keys of this kind.
    const fn bound(&self) -> usize {
        match self {
            Self::Run(_) => RUNS,
            Self::Tail(_) => TAILS,
            Self::Result(_) => RESULTS,
            Self::Link(_) => LINKS,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The usage of a run that its history does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMemory {
    /// Input and output tokens of all its responses, those that broke off included.
    pub tokens: u64,
    /// Turns refused by tools' own limits.
    pub tool_refusals: u64,
    /// The context that was answered in vain, and the number of times.
    pub vain: Option<(Digest, u64)>,
}

impl Kept {
    /// Takes what an exchange has brought. Exchanges that ran beside each other may be merged in
    /// any order: of two records of a run, the one that has looked further wins.
    pub fn merge(&mut self, done: &Done) {
        for (run, record) in &done.records {
            self.merge_record(*run, record);
        }
        if let Some((place, tail)) = &done.tail {
            self.tails.insert(*place, tail.clone());
            self.note(KeptKey::Tail(*place));
        }
        for (place, seen) in &done.seen {
            self.results.entry(*place).or_insert(*seen);
            self.note(KeptKey::Result(*place));
        }
        if let Some(shown) = &done.shown {
            for id in shown.ids.iter().chain(&shown.conversation) {
                self.links.insert(id.clone(), shown.link.clone());
                self.note(KeptKey::Link(id.clone()));
            }
        }
        if let Some(run) = done.run {
            let memory = self.runs.entry(run).or_default();
            let (spent, lost) = (done.spent, done.abandoned);
            for tokens in [spent.input_total(), spent.output, lost.input_total(), lost.output] {
                memory.tokens = memory.tokens.saturating_add(tokens);
            }
            memory.tool_refusals = memory.tool_refusals.max(done.tool_refusals);
            let before = memory.vain.filter(|(context, _)| *context == done.context);
            let times = before.map_or(0, |(_, times)| times);
            memory.vain = done.vain.then(|| (done.context, times.saturating_add(1)));
            self.note(KeptKey::Run(run));
        }
        self.enforce_bounds();
    }

    /// Returns the stored state for reading a history.
    #[must_use]
    pub fn stored(&self) -> StoredConversation<'_> {
        StoredConversation {
            tails: Cow::Borrowed(&self.tails),
            results: Cow::Borrowed(&self.results),
            ..StoredConversation::default()
        }
    }

    /// Returns the history that a request only names, oldest first; `None` if it names none, or if
    /// a part of it is not known.
    #[must_use]
    pub fn find_named_history(&self, request: &Request<'_>) -> Option<Vec<ChainLink>> {
        let named = request.previous.map(|(id, _)| id).or(request.conversation)?;
        let (mut links, mut next) = (Vec::new(), Some(named.unescape().into_owned()));
        // A circle of ids would have no end.
        while let Some(id) = next.filter(|_| links.len() <= LINKS) {
            let link = self.links.get(&id)?;
            next = link.before.clone();
            links.push(link.clone());
        }
        links.reverse();
        Some(links)
    }

    fn merge_record(&mut self, run: Digest, record: &PinnedRecord) {
        let reach = |record: &PinnedRecord| (record.compactions, record.looked);
        match self.records.get_mut(&run) {
            Some(kept) => {
                let mut newest = record.clone();
                if reach(kept) > reach(record) {
                    newest = std::mem::replace(&mut **kept, newest);
                }
                // The places of a history before a compaction do not exist in the new one.
                if kept.compactions == record.compactions {
                    newest.went_on.extend(kept.went_on.iter().copied());
                    newest.went_on.extend(record.went_on.iter().copied());
                }
                **kept = newest;
            }
            None => {
                self.records.insert(run, Box::new(record.clone()));
            }
        }
        self.note(KeptKey::Run(run));
    }

    /// Notes that something is used: it is the newest now.
    fn note(&mut self, key: KeptKey) {
        // A result is remembered from its first sight on.
        if matches!(key, KeptKey::Result(_)) && self.order.contains(&key) {
            return;
        }
        self.order.retain(|known| *known != key);
        self.order.push(key);
    }

    /// Forgets the oldest of each kind that has too many.
    fn enforce_bounds(&mut self) {
        let kinds = [
            KeptKey::Run(Digest::EMPTY),
            KeptKey::Tail(Digest::EMPTY),
            KeptKey::Result(Digest::EMPTY),
            KeptKey::Link(String::new()),
        ];
        for kind in kinds {
            let many = self.order.iter().filter(|key| key.is_like(&kind)).count();
            let mut surplus = many.saturating_sub(kind.bound());
            let order = std::mem::take(&mut self.order);
            for key in order {
                if surplus > 0 && key.is_like(&kind) {
                    surplus -= 1;
                    self.forget(&key);
                } else {
                    self.order.push(key);
                }
            }
        }
    }

    fn forget(&mut self, key: &KeptKey) {
        match key {
            KeptKey::Run(run) => {
                self.records.remove(run);
                self.runs.remove(run);
            }
            KeptKey::Tail(place) => {
                self.tails.remove(place);
            }
            KeptKey::Result(place) => {
                self.results.remove(place);
            }
            KeptKey::Link(id) => {
                self.links.remove(id);
            }
        }
    }
}
