//! A store in this process's memory: lost when it ends, not shared, and bounded in number and in
//! bytes.
//!
//! It forgets what has been idle longest. It holds conversations in a compact form
//! ([`CompactConversation`]) and converts one to a [`StoredScope`] when it is asked for.

mod compact;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use foldhash::fast::RandomState;
use softland_session::core::Digest;
use softland_session::{ChainLink, ShownResponse};

use super::{FoundConversation, Namesake, RunState, Store, StoreChanges, StoreError, StoredScope};
use compact::{CompactConversation, SharedPolicies};

/// The number of conversations that are stored.
const SCOPES: usize = 4096;
/// The bytes of all conversations that are stored.
const BYTES: usize = 32 << 20;
/// The bytes of all links that are stored. They contain the items of a conversation that the
/// provider stores, each once.
const LINK_BYTES: usize = 64 << 20;
/// The bytes of a link beside its texts.
const LINK: usize = 300;
/// The number of clues by which conversations are found: what a table of 65,536 places holds
/// without doubling. A clue takes about 250 bytes, and a turn has about two.
const CLUES: usize = 56_000;
/// The number of conversations with the same clue.
const TWINS: usize = 64;
/// The number of names, and the number of conversations with the same name.
const NAMES: usize = 4096;
const NAMESAKES: usize = 32;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    held: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    scopes: HashMap<Arc<str>, (u64, Box<CompactConversation>), RandomState>,
    /// The turns for each clue, the newest last: unrelated conversations with equal contents have
    /// one each.
    clues: HashMap<Digest, (u64, Vec<CluedTurn>), RandomState>,
    names: HashMap<Digest, (u64, Vec<Namesake>), RandomState>,
    /// Conversations without a turn, by what they ask, the newest last.
    untaken: HashMap<Digest, (u64, Vec<Arc<str>>), RandomState>,
    links: HashMap<Arc<str>, (u64, Arc<ChainLink>), RandomState>,
    link_bytes: usize,
    policies: SharedPolicies,
    /// The bytes of the conversations.
    bytes: usize,
    /// Counts uses, so that the oldest can be found.
    clock: u64,
}

#[derive(Debug)]
struct CluedTurn {
    scope: Arc<str>,
    run: Digest,
    /// The run's state at that turn, shared with the conversation until it continues.
    then: Arc<RunState>,
    /// The first history that continued from this turn.
    child: Option<Digest>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn find_conversation(
        &self,
        clues: &[Digest],
        here: Digest,
    ) -> Result<Option<FoundConversation>, StoreError> {
        let mut held = self.lock();
        let clock = held.next_clock();
        for (clue, digest) in clues.iter().enumerate() {
            let Some((used, twins)) = held.clues.get_mut(digest) else { continue };
            let Some(known) = choose_twin(twins, here) else { continue };
            *used = clock;
            let fork = known.child.is_some_and(|child| child != here);
            known.child.get_or_insert(here);
            let (scope, run, then) = (Arc::clone(&known.scope), known.run, Arc::clone(&known.then));
            return Ok(Some(FoundConversation { clue, scope, fork, then, run }));
        }
        Ok(None)
    }

    async fn find_quoted(
        &self,
        clues: &[Digest],
        fewest: usize,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let held = self.lock();
        // How many clues are each conversation's, and the place of the last of them.
        let mut quoted: BTreeMap<&Arc<str>, (usize, usize)> = BTreeMap::new();
        let known = clues.iter().filter_map(|clue| held.clues.get(clue));
        for (place, twin) in known.flat_map(|(_, twins)| twins).enumerate() {
            let (count, last) = quoted.entry(&twin.scope).or_default();
            (*count, *last) = (*count + 1, place);
        }
        let most = quoted.into_iter().max_by_key(|(_, counted)| *counted);
        Ok(most.filter(|(_, (count, _))| *count >= fewest).map(|(scope, _)| Arc::clone(scope)))
    }

    async fn count_known(&self, clues: &[Digest]) -> Result<usize, StoreError> {
        let held = self.lock();
        Ok(clues.iter().take_while(|clue| held.clues.contains_key(*clue)).count())
    }

    async fn take_unanswered(&self, here: Digest) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.lock().take_unanswered(here))
    }

    async fn find_named(&self, name: Digest) -> Result<Vec<Namesake>, StoreError> {
        let mut held = self.lock();
        let clock = held.next_clock();
        Ok(held.names.get_mut(&name).map_or_else(Vec::new, |(used, faces)| {
            *used = clock;
            faces.clone()
        }))
    }

    async fn load_scope(&self, scope: &str) -> Result<Arc<StoredScope>, StoreError> {
        let mut held = self.lock();
        let clock = held.next_clock();
        Ok(held.scopes.get_mut(scope).map_or_else(Arc::default, |(used, kept)| {
            *used = clock;
            Arc::new(kept.to_scope())
        }))
    }

    async fn apply_changes(&self, name: &str, changes: StoreChanges) -> Result<(), StoreError> {
        self.lock().apply_changes(name, changes);
        Ok(())
    }

    async fn find_link(&self, id: &str) -> Result<Option<Arc<ChainLink>>, StoreError> {
        let mut held = self.lock();
        let clock = held.next_clock();
        Ok(held.links.get_mut(id).map(|(used, link)| {
            *used = clock;
            Arc::clone(link)
        }))
    }

    async fn store_shown(&self, shown: ShownResponse) -> Result<(), StoreError> {
        self.lock().store_shown(shown);
        Ok(())
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // A thread that panicked left a set of complete entries.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of conversations and clues, and the conversations' bytes.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let held = self.lock();
        (held.scopes.len(), held.clues.len(), held.bytes)
    }
}

impl MemoryState {
    fn next_clock(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn apply_changes(&mut self, name: &str, mut changes: StoreChanges) {
        let clock = self.next_clock();
        let name = match self.scopes.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        let before = self.scopes.get(&name).map_or(0, |(_, kept)| kept.memory_size());
        let (used, kept) = self.scopes.entry(Arc::clone(&name)).or_default();
        *used = clock;
        let (clues, past) = (std::mem::take(&mut changes.clues), changes.past_clues.take());
        let (named, untaken) = (changes.named.clone(), changes.untaken);
        let run = kept.apply_changes(changes, &mut self.policies);
        self.bytes = (self.bytes + kept.memory_size()).saturating_sub(before);
        let now = run.map(|(run, now)| (run, now, clues));
        for (run, then, clues) in past.into_iter().chain(now) {
            for clue in clues {
                self.note_clue(clock, clue, &name, (run, &then));
            }
        }
        for (one, face) in
            named.iter().flat_map(|(names, face)| names.iter().map(move |n| (n, face)))
        {
            let (used, faces) = self.names.entry(*one).or_default();
            *used = clock;
            faces.retain(|known| known.scope != face.scope);
            faces.push(face.clone());
            let too_many = faces.len().saturating_sub(NAMESAKES);
            faces.drain(..too_many);
        }
        if let Some(here) = untaken {
            let (used, asked) = self.untaken.entry(here).or_default();
            *used = clock;
            asked.push(name);
            let too_many = asked.len().saturating_sub(TWINS);
            asked.drain(..too_many);
        }
        self.enforce_bounds();
    }

    /// Returns a conversation with this question that was not answered and has not been found
    /// before.
    fn take_unanswered(&mut self, here: Digest) -> Option<Arc<str>> {
        let (_, asked) = self.untaken.get_mut(&here)?;
        let scope = asked.pop();
        if asked.is_empty() {
            self.untaken.remove(&here);
        }
        scope
    }

    /// Notes that a conversation is found by a clue.
    fn note_clue(
        &mut self,
        clock: u64,
        clue: Digest,
        name: &Arc<str>,
        then: (Digest, &Arc<RunState>),
    ) {
        let (run, then) = (then.0, Arc::clone(then.1));
        let (used, twins) = self.clues.entry(clue).or_default();
        *used = clock;
        match twins.iter_mut().find(|twin| twin.scope == *name) {
            // The clue now stands for a later turn, from which no history has continued yet.
            Some(own) => (own.run, own.then, own.child) = (run, then, None),
            None => twins.push(CluedTurn { scope: Arc::clone(name), run, then, child: None }),
        }
        if twins.len() > TWINS {
            twins.remove(0);
        }
    }

    fn store_shown(&mut self, shown: ShownResponse) {
        let clock = self.next_clock();
        let ShownResponse { mut ids, mut link, conversation } = shown;
        if let Some(name) = conversation {
            // It follows the newest link of the present, whatever was the newest when its request
            // came.
            let before = self.links.get(name.as_str()).map(|(_, newest)| Arc::clone(newest));
            link.before = before.and_then(|newest| newest.before.clone());
            let own = link_name(&name, &link);
            let newest =
                ChainLink { before: Some(own.clone()), items: String::new(), ..link.clone() };
            self.link_bytes += size_of_link(&newest);
            self.links.insert(Arc::from(name), (clock, Arc::new(newest)));
            ids.push(own);
        }
        let link = Arc::new(link);
        for id in ids {
            self.links.insert(Arc::from(id), (clock, Arc::clone(&link)));
            self.link_bytes += size_of_link(&link);
        }
        if self.link_bytes > LINK_BYTES {
            // A link that was stored again under its id was counted twice.
            let count = |held: &Self| held.links.values().map(|(_, link)| size_of_link(link)).sum();
            self.link_bytes = count(self);
            while self.link_bytes > LINK_BYTES {
                forget_tenth(&mut self.links);
                self.link_bytes = count(self);
            }
        }
    }

    fn enforce_bounds(&mut self) {
        while self.scopes.len() > SCOPES || self.bytes > BYTES {
            forget_tenth(&mut self.scopes);
            self.bytes = self.scopes.values().map(|(_, kept)| kept.memory_size()).sum();
        }
        if self.clues.len() > CLUES {
            forget_tenth(&mut self.clues);
        }
        if self.names.len() > NAMES {
            forget_tenth(&mut self.names);
        }
        if self.untaken.len() > SCOPES {
            forget_tenth(&mut self.untaken);
        }
    }
}

/// Chooses which of several conversations with the same turn continues with `here`. They are equal
/// up to that turn, so the first that has not continued is chosen, and each continues once.
/// Otherwise the newest that continued with `here` is chosen, which is then asked again; otherwise
/// the newest, which forks.
fn choose_twin(twins: &mut [CluedTurn], here: Digest) -> Option<&mut CluedTurn> {
    let new = twins.iter().position(|twin| twin.child.is_none());
    let again = || twins.iter().rposition(|twin| twin.child == Some(here));
    let at = new.or_else(again).or_else(|| twins.len().checked_sub(1))?;
    twins.get_mut(at)
}

/// Returns the name of a conversation's link, which differs for each position in the conversation.
fn link_name(conversation: &str, link: &ChainLink) -> String {
    let before = Digest::from_bytes(link.before.as_deref().unwrap_or_default().as_bytes());
    format!("{conversation}:{}", before.followed_by(Digest::from_bytes(link.items.as_bytes())))
}

fn size_of_link(link: &ChainLink) -> usize {
    LINK + link.items.len() + link.add.len()
}

/// Forgets the tenth that has been unused longest, but at least one entry.
fn forget_tenth<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, (u64, V), RandomState>) {
    let mut uses: Vec<u64> = map.values().map(|(used, _)| *used).collect();
    if uses.is_empty() {
        return;
    }
    let tenth = uses.len() / 10;
    let (_, limit, _) = uses.select_nth_unstable(tenth);
    let limit = *limit;
    map.retain(|_, (used, _)| *used > limit);
}
