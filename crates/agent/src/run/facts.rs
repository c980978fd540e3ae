//! Time, tokens and money of a run: what the transcript cannot show.

use softland_session::core::lease::{Amount, Ask, Caps};
use softland_session::core::models::{Model, Price};
use softland_session::core::policy::Policy;
use softland_session::core::{Facts, Millis, NanoUsd};
use softland_session::wire::Tokens;

use super::Setup;
use super::purse::Purse;
use crate::event::UsageTotal;
use crate::journal::{Clock, Reserve};

/// Output tokens that will do for a turn while other runs hold the rest of the money: 99 % of a
/// coding agent's turns had at most 2,481 (the gateway's `money/reserve.rs` has the source).
const ENOUGH_OUTPUT: u64 = 8_192;

/// Counts what a run uses.
pub(super) struct Meter {
    /// What it may use, with all the runs of its tree.
    pub(super) purse: Purse,
    model: Option<&'static Model>,
    /// A price of the caller's, before the table's.
    price: Option<Price>,
    clock: Clock,
    total: Tokens,
    cost: NanoUsd,
    /// What its children used; no cost where one of them has no known price.
    children: (UsageTotal, Option<NanoUsd>),
    /// Tokens of the newest response's context and bytes of the request that led to it.
    known: Option<(u64, usize)>,
}

/// What a request may come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Input tokens, as near as that can be told.
    input: u64,
    /// The dearest that the input can be billed.
    input_cost: NanoUsd,
    /// The same uncached, for the answer behind it.
    answer_input_cost: NanoUsd,
    output_pico: u64,
}

impl Estimate {
    /// What is held back for an answer with this input.
    pub(super) fn reserve(&self, policy: &Policy, tokens_cap: Option<u64>) -> Amount {
        // As the rule of `tokens_limit` has it.
        let output = policy.reserve_tokens.min(tokens_cap.map_or(u64::MAX, |cap| cap / 8));
        let money = Ask { output_pico: self.output_pico, ..Ask::default() };
        Amount {
            money: self.answer_input_cost + money.with(policy.reserve_tokens).money,
            tokens: self.input.saturating_add(output),
            calls: 0,
        }
    }

    /// What is held back from the beginning for an answer with this input that may have so many
    /// tokens.
    pub(super) fn holds(&self, answer: u64) -> Amount {
        let base = Amount { money: self.answer_input_cost, tokens: self.input, calls: 0 };
        Ask { base, output_pico: self.output_pico, ..Ask::default() }.with(answer)
    }

    /// How long an answer may be that is held back for among `part` others under these caps: as
    /// long as `reserve_tokens`, and all of them together no more than an eighth of a cap. So a
    /// larger cap leaves more, whatever is held back.
    pub(super) fn share(&self, policy: &Policy, caps: &Caps, part: u64) -> u64 {
        let eighth = |cap: u64| cap / 8 / part.max(1);
        let money = |cap: NanoUsd| {
            let pico = u128::from(eighth(cap.0)) * 1000;
            pico.checked_div(u128::from(self.output_pico))
                .map_or(u64::MAX, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
        };
        let of_caps = caps.tokens.map(eighth).into_iter().chain(caps.money.map(money));
        of_caps.fold(policy.reserve_tokens, u64::min)
    }

    /// What to ask for, for a request that may have so much output.
    pub(super) fn ask(&self, most: u64, least: u64) -> Ask {
        let base = Amount { money: self.input_cost, tokens: self.input, calls: 0 };
        let enough = ENOUGH_OUTPUT.min(most);
        Ask { base, output_pico: self.output_pico, most, enough, least }
    }
}

impl Meter {
    pub(super) fn new(setup: &Setup, purse: Purse, clock: Clock) -> Self {
        Self {
            purse,
            model: setup.model,
            price: setup.price,
            clock,
            total: Tokens::default(),
            cost: NanoUsd::ZERO,
            children: (UsageTotal::default(), Some(NanoUsd::ZERO)),
            known: None,
        }
    }

    /// Counts one upstream response; returns what it cost, where that is known.
    pub(super) fn add(&mut self, tokens: Tokens, request_bytes: usize) -> Option<NanoUsd> {
        self.total = self.total.plus(tokens);
        self.known = Some((tokens.input_total().saturating_add(tokens.output), request_bytes));
        let cost = self.cost_of(&tokens)?;
        self.cost += cost;
        Some(cost)
    }

    /// Counts a request of which nobody knows what became: all that it can have come to.
    pub(super) fn charge(&mut self, reserve: &Reserve) {
        let Reserve { input, output, .. } = *reserve;
        self.total = self.total.plus(Tokens { input, output, ..Tokens::default() });
        self.cost += reserve.cost().unwrap_or_default();
    }

    /// The most that a request of so many bytes can come to, with an answer of so many tokens.
    pub(super) fn reserve(&self, body_bytes: usize, output: u64) -> Reserve {
        let (known, bytes) = self.known.unwrap_or_default();
        let input = known.saturating_add(body_bytes.saturating_sub(bytes) as u64);
        let cost = |price: Price| {
            NanoUsd::of_tokens(input, price.dearest_input(false))
                + NanoUsd::of_tokens(output, price.output)
        };
        let price = price_at((self.model, self.price), input);
        Reserve { input, output, nano: price.map(|price| cost(price).0) }
    }

    /// Counts what a child's run came to.
    pub(super) fn add_child(&mut self, usage: UsageTotal, cost: Option<NanoUsd>) {
        let (total, before) = self.children;
        let cost = before.zip(cost).map(|(before, cost)| before + cost);
        self.children = (total.plus(usage), cost);
    }

    /// What the run's own requests have used, for its account.
    pub(super) fn own(&self) -> Amount {
        let tokens = self.total.input_total().saturating_add(self.total.output);
        Amount { money: self.cost, tokens, calls: 0 }
    }

    /// The same of these tokens.
    pub(super) fn amount(&self, tokens: &Tokens) -> Amount {
        let money = self.cost_of(tokens).unwrap_or(NanoUsd::ZERO);
        Amount { money, tokens: tokens.input_total().saturating_add(tokens.output), calls: 0 }
    }

    /// What so much uncached input comes to.
    pub(super) fn input(&self, tokens: u64) -> Amount {
        self.amount(&Tokens { input: tokens, ..Tokens::default() })
    }

    fn cost_of(&self, tokens: &Tokens) -> Option<NanoUsd> {
        let price = price_at((self.model, self.price), tokens.input_total())?;
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, .. } = *tokens;
        let nano = price.cost_nano(input, output, cache_read, cache_write_5m, cache_write_1h);
        Some(NanoUsd(nano))
    }

    /// The facts for a request of so many bytes, when the run has taken so much time.
    pub(super) fn facts(&self, body_bytes: usize, elapsed: Millis) -> Facts {
        let Estimate { input, input_cost, answer_input_cost, output_pico } =
            self.estimate(body_bytes);
        Facts {
            next_input: input,
            next_input_cost: input_cost,
            reserve_input_cost: answer_input_cost,
            output_pico,
            elapsed,
            ..self.spent()
        }
    }

    /// What a request of so many bytes may come to.
    pub(super) fn estimate(&self, bytes: usize) -> Estimate {
        estimate((self.model, self.price), self.known.unwrap_or_default(), bytes)
    }

    /// What was used so far, for what the limits leave.
    pub(super) fn spent(&self) -> Facts {
        let mut facts = Facts { elapsed: self.elapsed(), ..Facts::default() };
        self.purse.tell(&mut facts);
        facts
    }

    pub(super) fn elapsed(&self) -> Millis {
        self.clock.elapsed()
    }

    pub(super) fn total(&self) -> UsageTotal {
        let own = UsageTotal {
            input: self.total.input,
            output: self.total.output,
            cache_read: self.total.cache_read,
            cache_write: self.total.cache_write_5m.saturating_add(self.total.cache_write_1h),
        };
        own.plus(self.children.0)
    }

    /// What the run cost, its children included, where all their models have prices.
    pub(super) fn cost(&self) -> Option<NanoUsd> {
        self.price.and(self.children.1).map(|children| self.cost + children)
    }
}

/// What the first request of a run may come to.
pub(super) fn first(setup: &Setup, bytes: usize) -> Estimate {
    estimate((setup.model, setup.price), (0, 0), bytes)
}

type Tariff = (Option<&'static Model>, Option<Price>);

fn estimate(tariff: Tariff, (known, bytes): (u64, usize), body_bytes: usize) -> Estimate {
    let new = body_bytes.saturating_sub(bytes) as u64;
    // One token per byte that the provider has not counted yet is the most it can come to,
    // which is for money; four bytes a token are what text mostly has.
    let most = known.saturating_add(new);
    let price = price_at(tariff, most);
    let input_at = |pico: u64| NanoUsd::of_tokens(most, pico);
    Estimate {
        input: known.saturating_add(new / 4),
        input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.dearest_input(false))),
        answer_input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.input)),
        output_pico: price.map_or(0, |p| p.output),
    }
}

/// The dearest that this much input can be billed at.
fn price_at((model, price): Tariff, input: u64) -> Option<Price> {
    match model {
        Some(model) if price == Some(model.price) => Some(model.dearest(input)),
        _ => price,
    }
}
