//! The time, tokens and money of a run: facts that the transcript cannot show.

use softland_session::core::lease::{Amount, Caps, LeaseRequest};
use softland_session::core::models::{Model, Price};
use softland_session::core::policy::Policy;
use softland_session::core::{Facts, Millis, NanoUsd};
use softland_session::wire::Tokens;

use super::Setup;
use super::budget::SpendingBudget;
use crate::event::UsageTotal;
use crate::journal::{RunClock, WorstCase};

/// The output tokens that suffice for a turn while other runs hold the rest of the money. 99 % of a
/// coding agent's turns had at most 2,481 (the gateway's `money/reserve.rs` has the source).
const ENOUGH_OUTPUT: u64 = 8_192;

/// Counts the usage of a run.
pub(super) struct Meter {
    /// The budget that the run shares with all runs of its tree.
    pub(super) budget: SpendingBudget,
    model: Option<&'static Model>,
    /// The price: the caller's, or else the built-in table's.
    price: Option<Price>,
    clock: RunClock,
    total: Tokens,
    cost: NanoUsd,
    /// The usage of the run's sub-agents; no cost if the price of one of them is unknown.
    children: (UsageTotal, Option<NanoUsd>),
    /// The tokens in the context of the newest response, and the bytes of the request that led to
    /// it.
    known: Option<(u64, usize)>,
}

/// The estimated size and price of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// The input tokens, as closely as they can be told.
    input: u64,
    /// The highest price at which the input can be billed.
    input_cost: NanoUsd,
    /// The price of the same input uncached, for the answer that follows.
    answer_input_cost: NanoUsd,
    output_pico: u64,
}

impl Estimate {
    /// Returns the reserve for an answer to this input.
    pub(super) fn answer_reserve(&self, policy: &Policy, tokens_cap: Option<u64>) -> Amount {
        // The same share as in the rule of `tokens_limit`.
        let output = policy.reserve_tokens.min(tokens_cap.map_or(u64::MAX, |cap| cap / 8));
        let money = LeaseRequest { output_pico: self.output_pico, ..LeaseRequest::default() };
        Amount {
            money: self.answer_input_cost + money.amount_with_output(policy.reserve_tokens).money,
            tokens: self.input.saturating_add(output),
        }
    }

    /// Returns the reserve that is held from the beginning for an answer of at most `answer` tokens
    /// to this input.
    pub(super) fn initial_reserve(&self, answer: u64) -> Amount {
        let base = Amount { money: self.answer_input_cost, tokens: self.input };
        LeaseRequest { base, output_pico: self.output_pico, ..LeaseRequest::default() }
            .amount_with_output(answer)
    }

    /// Returns the tokens of one of `part` answers that are reserved under these caps:
    /// `reserve_tokens`, but all of them together at most an eighth of a cap. So a larger cap
    /// always leaves more.
    pub(super) fn answer_share(&self, policy: &Policy, caps: &Caps, part: u64) -> u64 {
        let eighth = |cap: u64| cap / 8 / part.max(1);
        let money = |cap: NanoUsd| {
            let pico = u128::from(eighth(cap.0)) * 1000;
            pico.checked_div(u128::from(self.output_pico))
                .map_or(u64::MAX, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
        };
        let of_caps = caps.tokens.map(eighth).into_iter().chain(caps.money.map(money));
        of_caps.fold(policy.reserve_tokens, u64::min)
    }

    /// Builds the request for a lease of `least` to `most` output tokens.
    pub(super) fn build_ask(&self, most: u64, least: u64) -> LeaseRequest {
        let base = Amount { money: self.input_cost, tokens: self.input };
        let enough = ENOUGH_OUTPUT.min(most);
        LeaseRequest { base, output_pico: self.output_pico, most, enough, least }
    }
}

impl Meter {
    pub(super) fn new(setup: &Setup, budget: SpendingBudget, clock: RunClock) -> Self {
        Self {
            budget,
            model: setup.model,
            price: setup.price,
            clock,
            total: Tokens::default(),
            cost: NanoUsd::ZERO,
            children: (UsageTotal::default(), Some(NanoUsd::ZERO)),
            known: None,
        }
    }

    /// Counts one upstream response. Returns its cost, if that is known.
    pub(super) fn count_response(
        &mut self,
        tokens: Tokens,
        request_bytes: usize,
    ) -> Option<NanoUsd> {
        self.total = self.total.saturating_add(tokens);
        self.known = Some((tokens.input_total().saturating_add(tokens.output), request_bytes));
        let cost = self.cost_of(&tokens)?;
        self.cost += cost;
        Some(cost)
    }

    /// Counts a request whose outcome is unknown with its worst case.
    pub(super) fn charge_worst_case(&mut self, reserve: &WorstCase) {
        let WorstCase { input, output, .. } = *reserve;
        self.total = self.total.saturating_add(Tokens { input, output, ..Tokens::default() });
        self.cost += reserve.cost().unwrap_or_default();
    }

    /// Returns the worst case of a request of `body_bytes` bytes whose answer has `output` tokens.
    pub(super) fn worst_case(&self, body_bytes: usize, output: u64) -> WorstCase {
        let (known, bytes) = self.known.unwrap_or_default();
        let input = known.saturating_add(body_bytes.saturating_sub(bytes) as u64);
        let cost = |price: Price| {
            NanoUsd::from_tokens(input, price.highest_input(false))
                + NanoUsd::from_tokens(output, price.output)
        };
        let price = price_at((self.model, self.price), input);
        WorstCase { input, output, nano: price.map(|price| cost(price).0) }
    }

    /// Counts the usage of a sub-agent's run.
    pub(super) fn add_sub_agent(&mut self, usage: UsageTotal, cost: Option<NanoUsd>) {
        let (total, before) = self.children;
        let cost = before.zip(cost).map(|(before, cost)| before + cost);
        self.children = (total.plus(usage), cost);
    }

    /// Returns what the run's own requests have used, for its account.
    pub(super) fn own_usage(&self) -> Amount {
        let tokens = self.total.input_total().saturating_add(self.total.output);
        Amount { money: self.cost, tokens }
    }

    /// Returns the amount for these tokens.
    pub(super) fn amount_of(&self, tokens: &Tokens) -> Amount {
        let money = self.cost_of(tokens).unwrap_or(NanoUsd::ZERO);
        Amount { money, tokens: tokens.input_total().saturating_add(tokens.output) }
    }

    /// Returns the amount for `tokens` of uncached input.
    pub(super) fn input_amount(&self, tokens: u64) -> Amount {
        self.amount_of(&Tokens { input: tokens, ..Tokens::default() })
    }

    fn cost_of(&self, tokens: &Tokens) -> Option<NanoUsd> {
        let price = price_at((self.model, self.price), tokens.input_total())?;
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, .. } = *tokens;
        let nano = price.cost_nano(input, output, cache_read, cache_write_5m, cache_write_1h);
        Some(NanoUsd(nano))
    }

    /// Returns the facts for a request of `body_bytes` bytes when the run has used the time
    /// `elapsed`.
    pub(super) fn turn_facts(&self, body_bytes: usize, elapsed: Millis) -> Facts {
        let Estimate { input, input_cost, answer_input_cost, output_pico } =
            self.estimate_request(body_bytes);
        Facts {
            next_input: input,
            next_input_cost: input_cost,
            reserve_input_cost: answer_input_cost,
            output_pico,
            elapsed,
            ..self.spent_facts()
        }
    }

    /// Estimates a request of `bytes` bytes.
    pub(super) fn estimate_request(&self, bytes: usize) -> Estimate {
        estimate_bytes((self.model, self.price), self.known.unwrap_or_default(), bytes)
    }

    /// Returns what was used so far, for what is left of the limits.
    pub(super) fn spent_facts(&self) -> Facts {
        let mut facts = Facts { elapsed: self.elapsed(), ..Facts::default() };
        self.budget.fill_facts(&mut facts);
        facts
    }

    pub(super) fn elapsed(&self) -> Millis {
        self.clock.elapsed()
    }

    pub(super) fn total_usage(&self) -> UsageTotal {
        let own = UsageTotal {
            input: self.total.input,
            output: self.total.output,
            cache_read: self.total.cache_read,
            cache_write: self.total.cache_write_5m.saturating_add(self.total.cache_write_1h),
        };
        own.plus(self.children.0)
    }

    /// Returns the cost of the run and its sub-agents, if all their models have prices.
    pub(super) fn total_cost(&self) -> Option<NanoUsd> {
        self.price.and(self.children.1).map(|children| self.cost + children)
    }
}

/// Estimates the first request of a run.
pub(super) fn estimate_first(setup: &Setup, bytes: usize) -> Estimate {
    estimate_bytes((setup.model, setup.price), (0, 0), bytes)
}

type Tariff = (Option<&'static Model>, Option<Price>);

fn estimate_bytes(tariff: Tariff, (known, bytes): (u64, usize), body_bytes: usize) -> Estimate {
    let new = body_bytes.saturating_sub(bytes) as u64;
    // One token for each byte that the provider has not counted yet is the upper bound, which is
    // used for money. Most text has about four bytes a token.
    let most = known.saturating_add(new);
    let price = price_at(tariff, most);
    let input_at = |pico: u64| NanoUsd::from_tokens(most, pico);
    Estimate {
        input: known.saturating_add(new / 4),
        input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.highest_input(false))),
        answer_input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.input)),
        output_pico: price.map_or(0, |p| p.output),
    }
}

/// Returns the highest price at which this much input can be billed.
fn price_at((model, price): Tariff, input: u64) -> Option<Price> {
    match model {
        Some(model) if price == Some(model.price) => Some(model.highest_price(input)),
        _ => price,
    }
}
