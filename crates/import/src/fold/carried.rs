//! The cost of the results of tools: their first write, and every later turn that sent them again.
//!
//! A result stays in the context until a compaction or the end of the conversation. What one of its
//! tokens costs in each turn is summed up once for all results, so that a turn takes the same time
//! however many results are in the context.

use std::collections::BTreeMap;
use std::sync::Arc;

use softland_session::core::{CacheChange, NanoUsd, TurnTokens, UserMessage};

use crate::report::RunReport;
use crate::report::carried::{CarriedResult, OVERSIZED, ToolLine};
use crate::report::spending::{RunSpending, SpendBreakdown};

/// Characters of a token, where only characters are recorded.
const CHARS: u64 = 4;
/// Results of fewer tokens are not told apart.
const LARGE: u64 = 1000;
/// The tools of a conversation that are told apart, and the name of the others.
const TOOLS: usize = 256;
const OTHERS: &str = "(other tools)";
/// The results of a run that are listed by themselves: the dearest, and all that are too large.
const LISTED: usize = 8;

/// The results in the context of one conversation.
#[derive(Debug, Default)]
pub(super) struct CarriedResults {
    tools: Vec<LiveTool>,
    /// The tool of each call that has no result yet.
    waiting: BTreeMap<String, usize>,
    /// Results that no turn has sent yet.
    fresh: Vec<FreshResult>,
    large: Vec<LargeResult>,
    /// The cost so far of a token that was in the context all along, in pico-dollars.
    paid: u64,
    turns: u64,
    /// Characters that people and programs wrote before the first turn.
    asked: u64,
    /// Tokens before the first message: the system prompt and the tools.
    system: Option<u64>,
}

/// A tool, with the tokens of its results in the context.
#[derive(Debug)]
struct LiveTool {
    name: Arc<str>,
    tokens: u64,
    /// [`CarriedResults::paid`] when its cost was last summed up.
    since: u64,
    sums: ToolLine,
}

#[derive(Debug)]
struct FreshResult {
    tool: usize,
    tokens: u64,
}

/// A result that may be listed by itself.
#[derive(Debug)]
struct LargeResult {
    tool: usize,
    tokens: u64,
    first: NanoUsd,
    since: u64,
    since_turn: u64,
    turn: u64,
    /// The index of its run's report; `None` while the run is open.
    run: Option<usize>,
}

impl CarriedResults {
    /// Takes the calls of a turn.
    pub(super) fn take_calls<'c>(&mut self, calls: impl Iterator<Item = (&'c str, &'c str)>) {
        self.waiting.clear();
        for (id, name) in calls {
            let tool = self.find_tool(name);
            if let Some(own) = self.tools.get_mut(tool) {
                own.sums.calls += 1;
            }
            self.waiting.insert(id.to_owned(), tool);
        }
    }

    fn find_tool(&mut self, name: &str) -> usize {
        let position = |name: &str| self.tools.iter().position(|tool| &*tool.name == name);
        let full = self.tools.len() >= TOOLS;
        position(name).or_else(|| position(OTHERS).filter(|_| full)).unwrap_or_else(|| {
            let name = if full { OTHERS } else { name };
            let (since, sums) = (self.paid, ToolLine::default());
            self.tools.push(LiveTool { name: name.into(), tokens: 0, since, sums });
            self.tools.len() - 1
        })
    }

    /// Takes a message, with the results in it.
    pub(super) fn take_message(&mut self, user: &UserMessage<'_>) {
        if self.system.is_none() {
            let texts = user.texts.iter().map(|text| text.text().len() as u64);
            self.asked = texts.fold(self.asked, u64::saturating_add);
        }
        for result in &user.results {
            let Some(tool) = self.waiting.remove(&*result.id) else { continue };
            let tokens = result.chars / CHARS;
            self.fresh.push(FreshResult { tool, tokens });
        }
    }

    /// Notes the conversation's first turn: `context` tokens, of which `cached` came from the
    /// cache. A cache that the conversation did not write itself holds the system prompt and the
    /// tools.
    pub(super) fn note_context(&mut self, context: u64, cached: u64) {
        let before = context.saturating_sub(self.asked / CHARS);
        let system = if cached >= LARGE { cached.min(before) } else { before };
        self.system.get_or_insert(system);
    }

    /// Takes a turn, the `number`th of its run, which sent all results so far. Returns what the
    /// system prompt and the tools cost in it.
    pub(super) fn take_turn(
        &mut self,
        number: u64,
        tokens: &TurnTokens,
        effect: &CacheChange,
        spent: &SpendBreakdown,
    ) -> NanoUsd {
        self.turns += 1;
        let context = tokens.context();
        self.note_context(context, tokens.cache_read);
        let classes = &spent.classes;
        let again = effect.rewrite.map_or(0, |rewrite| rewrite.tokens);
        let old = tokens.cache_read.saturating_add(again).min(context);
        let per_new = per_token(classes.input + classes.cache_write, context - old);
        let per_old = per_token(classes.cache_read + classes.cache_rewrite, old);
        self.paid = self.paid.saturating_add(if old > 0 { per_old } else { per_new });
        let per_new = if context > old { per_new } else { per_old };
        // Results are no more than the new part of the context.
        let fresh: u64 = self.fresh.iter().map(|result| result.tokens).sum();
        let room = if effect.compacted { fresh } else { context.saturating_sub(effect.known) };
        for FreshResult { tool, tokens } in std::mem::take(&mut self.fresh) {
            let most = u128::from(tokens) * u128::from(room.min(fresh)) / u128::from(fresh.max(1));
            let tokens = u64::try_from(most).unwrap_or(tokens);
            let first = NanoUsd::from_tokens(tokens, per_new);
            let paid = self.paid;
            let Some(own) = self.tools.get_mut(tool) else { continue };
            own.settle(paid);
            own.tokens += tokens;
            own.sums.results += 1;
            own.sums.tokens += tokens;
            own.sums.first_usd += first;
            own.sums.carried_usd += first;
            if tokens >= LARGE {
                let since_turn = self.turns;
                let (since, run) = (paid, None);
                self.large.push(LargeResult {
                    tool,
                    tokens,
                    first,
                    since,
                    since_turn,
                    turn: number,
                    run,
                });
            }
        }
        let system = self.system.unwrap_or(0).min(context);
        let (from_old, per_old) = if old > 0 { (system.min(old), per_old) } else { (0, 0) };
        NanoUsd::from_tokens(from_old, per_old) + NanoUsd::from_tokens(system - from_old, per_new)
    }

    /// Takes a turn whose tokens are not recorded. What its results have cost is not known.
    pub(super) fn take_uncounted_turn(&mut self) {
        for FreshResult { tool, tokens } in std::mem::take(&mut self.fresh) {
            if let Some(own) = self.tools.get_mut(tool) {
                own.sums.results += 1;
                own.sums.tokens += tokens;
            }
        }
    }

    /// Forgets the results: they are in the context no more.
    pub(super) fn clear(&mut self, open: Option<&mut RunSpending>, done: &mut [RunReport]) {
        let paid = self.paid;
        for tool in &mut self.tools {
            tool.settle(paid);
            tool.tokens = 0;
        }
        let mut open = open;
        for one in std::mem::take(&mut self.large) {
            let Some(tool) = self.tools.get(one.tool) else { continue };
            let carried = CarriedResult {
                tool: tool.name.clone(),
                turn: one.turn,
                tokens: one.tokens,
                turns: self.turns - one.since_turn,
                usd: one.first + NanoUsd::from_tokens(one.tokens, paid - one.since),
            };
            let of_run = match one.run {
                Some(at) => done.get_mut(at).map(|run| &mut run.spending),
                None => open.as_deref_mut(),
            };
            if let Some(spending) = of_run {
                list_result(&mut spending.results, carried);
            }
        }
    }

    /// Ends a run, whose report will have the index `at`, and hands over what its turns paid.
    pub(super) fn finish_run(&mut self, at: usize, spending: &mut RunSpending) {
        let paid = self.paid;
        spending.system_tokens = self.system.unwrap_or(0);
        for tool in &mut self.tools {
            tool.settle(paid);
            let sums = std::mem::take(&mut tool.sums);
            if sums != ToolLine::default() {
                spending.tools.push((tool.name.clone(), sums));
            }
        }
        for one in self.large.iter_mut().filter(|one| one.run.is_none()) {
            one.run = Some(at);
        }
    }
}

impl LiveTool {
    /// Adds what the tokens in the context have cost since the last time.
    fn settle(&mut self, paid: u64) {
        let cost = NanoUsd::from_tokens(self.tokens, paid.saturating_sub(self.since));
        self.sums.carried_usd += cost;
        self.since = paid;
    }
}

/// Adds a result to those of its run, the dearest first.
fn list_result(list: &mut Vec<CarriedResult>, one: CarriedResult) {
    let at = list.partition_point(|other| other.usd >= one.usd);
    if at < LISTED || one.tokens > OVERSIZED {
        list.insert(at, one);
    }
    let full = list.len() > LISTED;
    if full && list.last().is_some_and(|last| last.tokens <= OVERSIZED) {
        list.pop();
    }
}

/// Returns pico-dollars for each token.
fn per_token(cost: NanoUsd, tokens: u64) -> u64 {
    let pico = u128::from(cost.0) * 1000 / u128::from(tokens.max(1));
    u64::try_from(pico).unwrap_or(u64::MAX)
}
