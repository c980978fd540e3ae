//! A store in this process: lost with it, shared with nobody, and bounded in number and in bytes.
//!
//! What it may forget is what was idle longest. It holds conversations in a compact form
//! ([`Kept`]) and makes a [`Scope`] of one when it is asked.

mod kept;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use foldhash::fast::RandomState;
use softland_session::core::Digest;
use softland_session::{Answered, Link, Shown};

use super::{Changes, Found, RunState, Scope, Store, StoreError};
use kept::{Kept, Policies};

/// Conversations that are kept.
const SCOPES: usize = 4096;
/// Bytes of all conversations that are kept.
const BYTES: usize = 32 << 20;
/// Bytes of all links that are kept; the items of a conversation that the provider keeps stand in
/// them once.
const LINK_BYTES: usize = 64 << 20;
/// What a link takes beside its texts.
const LINK: usize = 300;
/// Turns by which conversations are found: as many as a table of 32,768 places takes without
/// growing to twice its size. One is about 300 bytes.
const TURNS: usize = 28_000;
/// Conversations that are known by one and the same turn.
const TWINS: usize = 16;

/// A store in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    scopes: HashMap<Arc<str>, (u64, Box<Kept>), RandomState>,
    /// Strangers who ask the same and are told the same have a turn each, the newest last.
    turns: HashMap<Answered, (u64, Vec<Turn>), RandomState>,
    links: HashMap<Arc<str>, (u64, Arc<Link>), RandomState>,
    link_bytes: usize,
    policies: Policies,
    /// Of the conversations.
    bytes: usize,
    /// Counts uses, so that the oldest can be told.
    clock: u64,
}

#[derive(Debug)]
struct Turn {
    scope: Arc<str>,
    run: Digest,
    /// As it was then: shared with the conversation until that goes on.
    then: Arc<RunState>,
    /// The first history that went on from here.
    child: Option<Digest>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn find(&self, turns: &[Answered], here: Digest) -> Result<Option<Found>, StoreError> {
        let mut held = self.lock();
        let clock = held.tick();
        for turn in turns.iter().rev() {
            let Some((used, twins)) = held.turns.get_mut(turn) else { continue };
            let Some(known) = going_on(twins, here) else { continue };
            *used = clock;
            let fork = known.child.is_some_and(|child| child != here);
            known.child.get_or_insert(here);
            let (scope, run, then) = (Arc::clone(&known.scope), known.run, Arc::clone(&known.then));
            return Ok(Some(Found { scope, fork, then, run }));
        }
        Ok(None)
    }

    async fn recall(&self, scope: &str) -> Result<Arc<Scope>, StoreError> {
        let mut held = self.lock();
        let clock = held.tick();
        Ok(held.scopes.get_mut(scope).map_or_else(Arc::default, |(used, kept)| {
            *used = clock;
            Arc::new(kept.scope())
        }))
    }

    async fn keep(&self, name: &str, changes: Changes) -> Result<(), StoreError> {
        self.lock().keep(name, changes);
        Ok(())
    }

    async fn link(&self, id: &str) -> Result<Option<Arc<Link>>, StoreError> {
        let mut held = self.lock();
        let clock = held.tick();
        Ok(held.links.get_mut(id).map(|(used, link)| {
            *used = clock;
            Arc::clone(link)
        }))
    }

    async fn show(&self, shown: Shown) -> Result<(), StoreError> {
        self.lock().show(shown);
        Ok(())
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // What a panicking thread left is still a set of whole entries.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many conversations and turns there are, and the conversations' bytes.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let held = self.lock();
        (held.scopes.len(), held.turns.len(), held.bytes)
    }
}

impl Held {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn keep(&mut self, name: &str, changes: Changes) {
        let clock = self.tick();
        let name = match self.scopes.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        let before = self.scopes.get(&name).map_or(0, |(_, kept)| kept.bytes());
        let (used, kept) = self.scopes.entry(Arc::clone(&name)).or_default();
        *used = clock;
        let answered = changes.turn;
        let run = kept.apply(changes, &mut self.policies);
        self.bytes = (self.bytes + kept.bytes()).saturating_sub(before);
        if let Some((turn, (run, then))) = answered.zip(run) {
            let (used, twins) = self.turns.entry(turn).or_default();
            *used = clock;
            match twins.iter_mut().find(|twin| twin.scope == name) {
                Some(own) => (own.run, own.then) = (run, then),
                None => twins.push(Turn { scope: name, run, then, child: None }),
            }
            if twins.len() > TWINS {
                twins.remove(0);
            }
        }
        self.shrink();
    }

    fn show(&mut self, shown: Shown) {
        let clock = self.tick();
        let link = Arc::new(shown.link);
        for id in shown.ids {
            self.links.insert(Arc::from(id), (clock, Arc::clone(&link)));
            self.link_bytes += bytes_of(&link);
        }
        if self.link_bytes > LINK_BYTES {
            // A link that was shown again under its id was counted twice.
            let count = |held: &Self| held.links.values().map(|(_, link)| bytes_of(link)).sum();
            self.link_bytes = count(self);
            while self.link_bytes > LINK_BYTES {
                forget(&mut self.links);
                self.link_bytes = count(self);
            }
        }
    }

    fn shrink(&mut self) {
        while self.scopes.len() > SCOPES || self.bytes > BYTES {
            forget(&mut self.scopes);
            self.bytes = self.scopes.values().map(|(_, kept)| kept.bytes()).sum();
        }
        if self.turns.len() > TURNS {
            forget(&mut self.turns);
        }
    }
}

/// Which of several conversations that came to the same turn goes on with `here`. They are alike up
/// to there, so the first that has not gone on will do, and each goes on once; else the newest that
/// went on so before, which is asked again; else the newest, which forks.
fn going_on(twins: &mut [Turn], here: Digest) -> Option<&mut Turn> {
    let new = twins.iter().position(|twin| twin.child.is_none());
    let again = || twins.iter().rposition(|twin| twin.child == Some(here));
    let at = new.or_else(again).or_else(|| twins.len().checked_sub(1))?;
    twins.get_mut(at)
}

fn bytes_of(link: &Link) -> usize {
    LINK + link.items.len() + link.add.len()
}

/// Forgets a tenth, at least one: the longest unused.
fn forget<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, (u64, V), RandomState>) {
    let mut uses: Vec<u64> = map.values().map(|(used, _)| *used).collect();
    if uses.is_empty() {
        return;
    }
    let tenth = uses.len() / 10;
    let (_, limit, _) = uses.select_nth_unstable(tenth);
    let limit = *limit;
    map.retain(|_, (used, _)| *used > limit);
}
