//! Detectors of waste that no loop shows: compactions that follow each other, results that are too
//! large, files that are read again unchanged, floods of sub-agents, and a client that breaks its
//! own cache. They are shown and counted; no policy acts on them.
//!
//! They look at one context, which lasts over the runs of a conversation, and ends with
//! a compaction.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{Call, FinishedTurn, ToolResult};
use crate::prompt_cache::{CacheChange, LossCause};
use crate::rules::{CallWords, Evidence, NAMED, Signal, SignalKind};
use crate::{Digest, identity, tables};

/// Characters of a token, where only characters are known.
const CHARS: u64 = 4;
/// Tokens above which a result is too large, and the turns for which it has to stay.
const OVERSIZED: u64 = 10_000;
const STAYED: u64 = 10;
/// Tokens of a result that may be read again without a word.
const SMALL: u64 = 250;
/// Sub-agents of a run that are no flood yet.
const AGENTS: usize = 20;
/// Compactions within so many turns that are a loop.
const COMPACTIONS: usize = 3;
const WITHIN: u64 = 10;
/// A context that is back at so many percent of its old size, within so many turns of a compaction,
/// so often.
const REFILLED: u64 = 90;
const AT_ONCE: u64 = 2;
const REFILLS: usize = 2;
/// Turns of a run in which the client broke its own cache.
const EDITS: usize = 3;

/// The state of the detectors of one conversation.
#[derive(Clone, Debug, Default)]
pub struct ContextWatch {
    /// Turns of the conversation, and of the open run.
    turns: u64,
    turn: u64,
    waiting: BTreeMap<String, WatchedCall>,
    reads: BTreeMap<Digest, ReadFile>,
    large: Vec<LargeResult>,
    agents: Vec<u64>,
    compactions: Vec<u64>,
    /// The turn of the newest compaction, and the context before it.
    compacted: Option<(u64, u64)>,
    refills: Vec<u64>,
    edits: Vec<u64>,
    context: u64,
}

/// A call whose result is looked at.
#[derive(Clone, Debug)]
struct WatchedCall {
    key: Digest,
    label: String,
    reads_file: bool,
}

/// A file in the context.
#[derive(Clone, Debug)]
struct ReadFile {
    result: Digest,
    /// The turns of the open run that read it.
    turns: Vec<u64>,
}

/// A result that is too large.
#[derive(Clone, Debug)]
struct LargeResult {
    label: String,
    tokens: u64,
    result: Digest,
    /// The turn of the conversation, and of its run.
    since: u64,
    turn: u64,
}

impl ContextWatch {
    /// Begins a run. The context goes on.
    pub fn begin_run(&mut self) {
        self.turn = 0;
        self.agents.clear();
        self.edits.clear();
        self.compactions.clear();
        self.refills.clear();
        self.compacted = None;
        for file in self.reads.values_mut() {
            file.turns.clear();
        }
        for one in &mut self.large {
            one.turn = 0;
        }
    }

    /// Takes the results of the turn before.
    pub fn take_results(&mut self, results: &[ToolResult<'_>]) -> Vec<Signal> {
        let mut signals = Vec::new();
        for result in results {
            let Some(call) = self.waiting.remove(&*result.id) else { continue };
            let tokens = result.chars / CHARS;
            if tokens > OVERSIZED {
                self.large.push(LargeResult {
                    label: call.label.clone(),
                    tokens,
                    result: result.digest,
                    since: self.turns,
                    turn: self.turn,
                });
            }
            if call.reads_file && !result.failed && !result.cleared && tokens >= SMALL {
                signals.extend(self.note_read(&call, result, tokens));
            }
        }
        signals
    }

    fn note_read(
        &mut self,
        call: &WatchedCall,
        result: &ToolResult<'_>,
        tokens: u64,
    ) -> Option<Signal> {
        let turn = self.turn;
        let known =
            self.reads.insert(call.key, ReadFile { result: result.digest, turns: Vec::new() });
        let known = known.filter(|known| known.result == result.digest);
        let again = known.is_some();
        let mut turns = known.map(|known| known.turns).unwrap_or_default();
        turns.push(turn);
        turns.drain(..turns.len().saturating_sub(NAMED));
        if let Some(file) = self.reads.get_mut(&call.key) {
            file.turns.clone_from(&turns);
        }
        again.then(|| {
            let text = (turns.len() == 1).then(|| "first read in an earlier run".to_owned());
            let call_label = Some(call.label.clone());
            let evidence = Evidence {
                turns,
                call: call_label,
                result: Some(result.digest),
                text,
                tokens: Some(tokens),
            };
            make_signal(SignalKind::Reread, evidence, call.key.followed_by(result.digest))
        })
    }

    /// Takes a turn. `effect` is what its usage shows of the cache, if it is known, and `context`
    /// the tokens of its input.
    pub fn take_turn(
        &mut self,
        turn: &FinishedTurn<'_>,
        effect: Option<&CacheChange>,
        context: u64,
    ) -> Vec<Signal> {
        let mut signals = Vec::new();
        self.turns += 1;
        self.turn += 1;
        if let Some(effect) = effect {
            signals.extend(self.note_compaction(effect, context));
            signals.extend(self.note_edit(effect));
            self.context = context;
        }
        signals.extend(self.note_large());
        signals.extend(self.note_agents(&turn.calls));
        self.waiting.clear();
        for call in turn.calls.iter().filter(|call| !call.server) {
            let name = Digest::from_bytes(call.name.as_bytes());
            let hides = |argument: &str| tables::is_presentation_argument(call.name, argument);
            let key = name.followed_by(identity::digest_text(call.input, &hides));
            let label = CallWords::from_call(call).label().to_owned();
            let reads_file = tables::reads_file(call.name);
            self.waiting.insert(call.id.to_owned(), WatchedCall { key, label, reads_file });
        }
        signals
    }

    /// Results that have stayed for long enough.
    fn note_large(&mut self) -> Vec<Signal> {
        let now = self.turns;
        let stayed = |one: &LargeResult| now >= one.since + STAYED;
        let (told, rest): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.large).into_iter().partition(stayed);
        self.large = rest;
        told.into_iter()
            .map(|one| {
                let text = (one.turn == 0).then(|| "it came in an earlier run".to_owned());
                let first = if one.turn == 0 { self.turn } else { one.turn };
                let evidence = Evidence {
                    turns: (first..=self.turn).collect(),
                    call: Some(one.label),
                    result: Some(one.result),
                    text,
                    tokens: Some(one.tokens),
                };
                let place = Digest::from_bytes(&one.since.to_le_bytes());
                make_signal(SignalKind::Oversized, evidence, one.result.followed_by(place))
            })
            .collect()
    }

    fn note_agents(&mut self, calls: &[Call<'_>]) -> Option<Signal> {
        let before = self.agents.len();
        let agents = calls.iter().filter(|call| tables::is_agent_tool(call.name));
        self.agents.extend(agents.map(|_| self.turn));
        if self.agents.len() == before || self.agents.len() <= AGENTS {
            return None;
        }
        let mut turns = self.agents.clone();
        turns.dedup();
        let text = Some(alloc::format!("{} sub-agents", self.agents.len()));
        let evidence = Evidence { turns: newest(&turns), text, ..Evidence::default() };
        Some(make_signal(SignalKind::Flood, evidence, Digest::EMPTY))
    }

    fn note_edit(&mut self, effect: &CacheChange) -> Option<Signal> {
        let rewrite = effect.rewrite.filter(|rewrite| rewrite.cause == LossCause::Edited)?;
        self.edits.push(self.turn);
        if self.edits.len() < EDITS {
            return None;
        }
        let tokens = Some(rewrite.tokens);
        let evidence = Evidence { turns: newest(&self.edits), tokens, ..Evidence::default() };
        Some(make_signal(SignalKind::Edited, evidence, Digest::EMPTY))
    }

    fn note_compaction(&mut self, effect: &CacheChange, context: u64) -> Option<Signal> {
        let mut refilled = false;
        if effect.compacted {
            self.reads.clear();
            self.large.clear();
            self.compactions.push(self.turn);
            self.compacted = Some((self.turn, self.context));
        } else if let Some((since, old)) = self.compacted {
            if self.turn > since + AT_ONCE {
                self.compacted = None;
            } else if u128::from(context) * 100 >= u128::from(old) * u128::from(REFILLED) {
                self.refills.push(since);
                self.compacted = None;
                refilled = self.refills.len() >= REFILLS;
            }
        }
        let close = self.compactions.len().checked_sub(COMPACTIONS).and_then(|first| {
            let first = *self.compactions.get(first)?;
            (self.turn < first + WITHIN && effect.compacted).then_some(first)
        });
        let (turns, text) = match close {
            Some(first) => {
                let turns = self.compactions.iter().copied().filter(|turn| *turn >= first);
                (turns.collect(), "one compaction after the other")
            }
            None if refilled => {
                (newest(&self.refills), "the context is full again right behind a compaction")
            }
            None => return None,
        };
        let evidence = Evidence { turns, text: Some(text.to_owned()), ..Evidence::default() };
        Some(make_signal(SignalKind::Compaction, evidence, Digest::EMPTY))
    }
}

fn newest(turns: &[u64]) -> Vec<u64> {
    turns.get(turns.len().saturating_sub(NAMED)..).unwrap_or_default().to_vec()
}

fn make_signal(signal: SignalKind, evidence: Evidence, identity: Digest) -> Signal {
    Signal { signal, evidence, because: None, identity }
}
