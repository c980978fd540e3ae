//! Where the money of a run goes, turn by turn: the classes of its cost, and what was lost to the
//! cache.

use std::sync::Arc;

use softland_session::core::models::Price;
use softland_session::core::{
    CacheChange, CacheTurn, Digest, NanoUsd, Signal, SpendClasses, TurnTokens,
};
use softland_session::wire::Tokens;

use super::ConversationReplay;
use super::money::TurnBill;
use crate::report::spending::{DAY, LossEvent, RunSpending, SpendBreakdown, SpendLine};
use crate::report::{RunReport, UsageSum};
use crate::step::{KnownTurn, RequestUsage, TurnStep};

/// The usual proportions of prices, for money whose model has no known price.
const USUAL: Price = Price {
    input: 1_000_000,
    output: 5_000_000,
    cache_read: 100_000,
    cache_write_5m: 1_250_000,
    cache_write_1h: 2_000_000,
};

impl ConversationReplay<'_> {
    /// Counts where the money of a turn of the open run went. A turn may have taken several
    /// requests, each of which sent the whole context.
    pub(super) fn count_spending(
        &mut self,
        turn: &TurnStep<'_>,
        bill: &TurnBill,
        done: &mut [RunReport],
    ) {
        let Some(run) = &mut self.run else { return };
        let whole = [RequestUsage { tokens: turn.usage.tokens, cost: bill.cost }];
        let apart = turn.requests.len() > 1 && bill.cost.is_some();
        let requests = if apart { turn.requests } else { &whole };
        let number = run.turn_count();
        let spending = &mut run.spending;
        let (mut sum, mut effect, mut context) = (SpendBreakdown::default(), None, 0);
        for request in requests {
            let usage = cache_turn(&request.tokens, turn.model, turn.time);
            let told = usage.tokens.context() > 0;
            let own = if told { self.cache.take_turn(usage) } else { CacheChange::default() };
            let bill = TurnBill { cost: request.cost, ..*bill };
            let spent = split_cost(&usage.tokens, &bill, &own);
            sum.add(&spent);
            if let Some(rewrite) = own.rewrite {
                spending.add_loss(LossEvent {
                    turn: number,
                    cause: rewrite.cause,
                    tokens: rewrite.tokens,
                    still_read: usage.tokens.cache_read,
                    usd: spent.classes.lost,
                    time: turn.time,
                    pause_ms: rewrite.pause,
                    new_message: turn.row.is_none().then_some(self.asked),
                    kept_ms: rewrite.kept,
                });
            }
            if own.compacted {
                self.carried.clear(Some(&mut *spending), done);
            }
            if told {
                spending.system_usd += self.carried.take_turn(number, &usage.tokens, &own, &spent);
                (effect, context) = (Some(own), usage.tokens.context());
            }
        }
        if effect.is_none() {
            self.carried.take_uncounted_turn();
        }
        spending.add_turn(turn, bill.cost, effect.is_some_and(|effect| effect.compacted), &sum);
        spending.note_signals(self.watch.take_turn(&turn.finished, effect.as_ref(), context));
        let calls = turn.finished.calls.iter().filter(|call| !call.server);
        self.carried.take_calls(calls.map(|call| (call.id, call.name)));
    }

    /// Takes a turn that counts in another file.
    pub(super) fn take_known_turn(&mut self, turn: &KnownTurn<'_>) {
        self.carried.note_context(turn.tokens.input_total(), turn.tokens.cache_read);
        self.cache.take_turn(cache_turn(&turn.tokens, turn.model, turn.time));
        // The first run begins behind it.
        self.line = None;
    }
}

/// Returns what a turn shows about the cache.
fn cache_turn(tokens: &Tokens, model: Option<&str>, time: Option<u64>) -> CacheTurn {
    let model = model.map(|model| Digest::from_bytes(model.as_bytes()));
    CacheTurn { tokens: turn_tokens(tokens), model, time }
}

fn turn_tokens(tokens: &Tokens) -> TurnTokens {
    TurnTokens {
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write_5m: tokens.cache_write_5m,
        cache_write_1h: tokens.cache_write_1h,
    }
}

/// Splits the cost of a turn into its classes.
fn split_cost(tokens: &TurnTokens, bill: &TurnBill, effect: &CacheChange) -> SpendBreakdown {
    let mut spent = SpendBreakdown::default();
    let Some(cost) = bill.cost else { return spent };
    let again = effect.rewrite.map_or(0, |rewrite| rewrite.tokens);
    let price = bill.price.unwrap_or(USUAL);
    spent.classes = SpendClasses::split(cost, bill.fees, tokens, &price, again);
    if let Some(rewrite) = effect.rewrite {
        spent.add_lost(rewrite.cause, spent.classes.lost);
    }
    let told = bill.price.is_some() && *tokens != TurnTokens::default();
    if !told && cost > bill.fees {
        spent.guessed = cost.saturating_sub(bill.fees);
    }
    spent
}

/// The losses of a run that are listed by themselves, the dearest.
const LISTED: usize = 64;

impl RunSpending {
    /// Adds signals about the context. A newer one of the same identity has all that the older has.
    pub(super) fn note_signals(&mut self, signals: Vec<Signal>) {
        for signal in signals {
            let same =
                |old: &&mut Signal| old.signal == signal.signal && old.identity == signal.identity;
            match self.signals.iter_mut().rev().find(same) {
                Some(old) => *old = signal,
                None => self.signals.push(signal),
            }
        }
    }

    /// Adds a turn in which something was lost.
    pub(super) fn add_loss(&mut self, event: LossEvent) {
        if let Some(sum) = self.losses.get_mut(event.cause as usize) {
            sum.turns += 1;
            sum.tokens += event.tokens;
        }
        let list = &mut self.dearest_losses;
        let at = list.partition_point(|other| other.usd >= event.usd);
        if at < LISTED {
            list.truncate(LISTED - 1);
            list.insert(at, event);
        }
    }

    /// Adds one turn.
    pub(super) fn add_turn(
        &mut self,
        turn: &TurnStep<'_>,
        cost: Option<NanoUsd>,
        compacted: bool,
        spent: &SpendBreakdown,
    ) {
        let tokens = &turn.usage.tokens;
        if tokens.cache_write_5m > 0 && tokens.cache_write_1h == 0 {
            self.written_5m_usd += spent.classes.cache_write;
        }
        let usage = UsageSum::from_turn(&turn.usage);
        self.r#where.add(spent);
        self.compactions += u64::from(compacted);
        self.ended = self.ended.max(turn.time);
        let day = turn.time.map(|time| time / DAY);
        find_part(&mut self.days, |known| *known == day, || day).add_turn(&usage, cost, spent);
        let model = turn.model;
        let part =
            find_part(&mut self.models, |known| known.as_deref() == model, || model.map(Arc::from));
        part.add_turn(&usage, cost, spent);
    }
}

/// Returns the part of a run with this key. Most turns are of the newest part.
fn find_part<K>(
    parts: &mut Vec<(K, SpendLine)>,
    is_own: impl Fn(&K) -> bool,
    key: impl FnOnce() -> K,
) -> &mut SpendLine {
    let found = parts.iter().rposition(|(known, _)| is_own(known));
    let at = found.unwrap_or_else(|| {
        parts.push((key(), SpendLine { runs: 1, ..SpendLine::default() }));
        parts.len() - 1
    });
    &mut parts[at].1
}

/// Shortens a message to a title: its first line with words, without a harness's tags.
pub(super) fn shorten_title(text: &str) -> Option<String> {
    const CHARS: usize = 80;
    let line =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('<'))?;
    let mut title: String = line.chars().take(CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}
