//! A store in this process: lost with it, shared with nobody.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use softland_session::Answered;
use softland_session::core::Digest;

use super::{Changes, Found, RunState, Scope, Store, StoreError};

/// Conversations that are kept; beyond it the one that was idle longest is forgotten.
const SCOPES: usize = 4096;
/// Turns by which conversations are found.
const TURNS: usize = 32_768;
/// Runs of one conversation.
const RUNS: usize = 64;
/// Tails of one conversation.
const TAILS: usize = 256;
/// First sights of one conversation.
const RESULTS: usize = 4096;

/// A store in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    scopes: HashMap<String, (u64, Arc<Scope>)>,
    turns: HashMap<Answered, (u64, Turn)>,
    /// Counts uses, so that the oldest can be told.
    clock: u64,
}

#[derive(Clone, Debug)]
struct Turn {
    scope: String,
    run: Digest,
    then: RunState,
    /// The first history that went on from here.
    child: Option<Digest>,
    /// Several conversations answered so, and none of them can be told by it.
    shared: bool,
}

#[async_trait]
impl Store for MemoryStore {
    async fn find(&self, turns: &[Answered], here: Digest) -> Result<Option<Found>, StoreError> {
        let mut held = self.lock();
        held.clock += 1;
        let clock = held.clock;
        for turn in turns.iter().rev() {
            let Some((used, known)) = held.turns.get_mut(turn) else { continue };
            if known.shared {
                continue;
            }
            *used = clock;
            let fork = known.child.is_some_and(|child| child != here);
            known.child.get_or_insert(here);
            let Turn { scope, run, then, .. } = known.clone();
            return Ok(Some(Found { scope, fork, then, run }));
        }
        Ok(None)
    }

    async fn recall(&self, scope: &str) -> Result<Arc<Scope>, StoreError> {
        let mut held = self.lock();
        held.clock += 1;
        let clock = held.clock;
        Ok(held.scopes.get_mut(scope).map_or_else(Arc::default, |(used, scope)| {
            *used = clock;
            Arc::clone(scope)
        }))
    }

    async fn keep(&self, name: &str, changes: Changes) -> Result<(), StoreError> {
        let mut held = self.lock();
        held.clock += 1;
        let clock = held.clock;
        let turn = changes.turn.zip(changes.run.clone());
        let (used, scope) = held.scopes.entry(name.to_owned()).or_default();
        *used = clock;
        let scope = Arc::make_mut(scope);
        let then = apply(scope, changes);
        if let (Some((turn, (run, _))), Some(then)) = (turn, then) {
            let before = held.turns.get(&turn).map(|(_, known)| known);
            let child = before.and_then(|known| known.child);
            // Strangers who ask the same and are told the same do not become one.
            let shared = before.is_some_and(|known| known.shared || known.scope != name);
            let known = Turn { scope: name.to_owned(), run, then, child, shared };
            held.turns.insert(turn, (clock, known));
        }
        shrink(&mut held.scopes, SCOPES);
        shrink(&mut held.turns, TURNS);
        Ok(())
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // What a panicking thread left is still a set of whole entries.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the changes in; returns what the run's state is then.
fn apply(scope: &mut Scope, changes: Changes) -> Option<RunState> {
    for (run, pinned) in changes.pins {
        let newer = scope.pins.get(&run).is_none_or(|kept| kept.looked <= pinned.looked);
        if newer {
            scope.pins.insert(run, pinned);
        }
    }
    scope.tails.extend(changes.tails);
    for (place, seen) in changes.results {
        scope.results.entry(place).or_insert(seen);
    }
    scope.first = changes.first.or(scope.first);
    scope.tools = changes.tools.or(scope.tools);
    if let Some(used) = changes.used {
        scope.used = used;
    }
    if let Some((run, tokens)) = changes.child_tokens
        && let Some(state) = scope.runs.get_mut(&run)
    {
        state.tokens = state.tokens.saturating_add(tokens);
    }
    let mut then = None;
    if let Some((run, state)) = changes.run {
        let before = scope.runs.get(&run).map(|kept| (kept.tokens, kept.cost)).unwrap_or_default();
        let tokens = before.0.saturating_add(state.tokens);
        let state = RunState { tokens, cost: before.1 + state.cost, ..state };
        then = Some(state.clone());
        scope.runs.insert(run, state);
        scope.newest = Some(run);
    }
    bound(scope);
    then
}

/// A conversation that never ends does not grow for ever.
fn bound(scope: &mut Scope) {
    while scope.runs.len() > RUNS {
        let oldest = scope.runs.iter().min_by_key(|(_, run)| run.last).map(|(key, _)| *key);
        let Some(oldest) = oldest else { break };
        scope.runs.remove(&oldest);
        scope.pins.remove(&oldest);
    }
    drop_first(&mut scope.pins, 2 * RUNS);
    drop_first(&mut scope.tails, TAILS);
    drop_first(&mut scope.results, RESULTS);
}

/// Digests have no age: which entries go is arbitrary, and what is lost is counted from there.
fn drop_first<V>(map: &mut BTreeMap<Digest, V>, most: usize) {
    while map.len() > most {
        map.pop_first();
    }
}

/// Forgets a tenth when there are too many, the longest unused first.
fn shrink<K: Clone + Eq + std::hash::Hash, V>(map: &mut HashMap<K, (u64, V)>, most: usize) {
    if map.len() <= most {
        return;
    }
    let mut uses: Vec<u64> = map.values().map(|(used, _)| *used).collect();
    let tenth = most / 10;
    let (_, limit, _) = uses.select_nth_unstable(tenth);
    let limit = *limit;
    map.retain(|_, (used, _)| *used > limit);
}
