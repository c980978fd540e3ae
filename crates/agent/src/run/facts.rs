//! Time, tokens and money of a run: what the transcript cannot show.

use softland_session::core::models::{Model, Price};
use softland_session::core::{Facts, Millis, NanoUsd};
use softland_session::wire::Tokens;
use tokio::time::Instant;

use super::Conversation;
use crate::event::UsageTotal;

/// Counts what a run uses.
pub(super) struct Meter {
    model: Option<&'static Model>,
    /// A price of the caller's, before the table's.
    price: Option<Price>,
    began: Instant,
    total: Tokens,
    cost: NanoUsd,
    unbooked: NanoUsd,
    session_before: NanoUsd,
    /// Tokens of the newest response's context and bytes of the request that led to it.
    known: Option<(u64, usize)>,
}

impl Meter {
    pub(super) fn new(
        model: Option<&'static Model>,
        price: Option<Price>,
        session_before: NanoUsd,
    ) -> Self {
        Self {
            model,
            price,
            began: Instant::now(),
            total: Tokens::default(),
            cost: NanoUsd::ZERO,
            unbooked: NanoUsd::ZERO,
            session_before,
            known: None,
        }
    }

    /// Counts one upstream response; returns what it cost, where that is known.
    pub(super) fn add(&mut self, tokens: Tokens, request_bytes: usize) -> Option<NanoUsd> {
        self.total = self.total.plus(tokens);
        self.known = Some((tokens.input_total().saturating_add(tokens.output), request_bytes));
        let cost = self.cost_of(&tokens)?;
        self.cost += cost;
        self.unbooked += cost;
        Some(cost)
    }

    fn cost_of(&self, tokens: &Tokens) -> Option<NanoUsd> {
        let price = self.price_at(tokens.input_total())?;
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h } = *tokens;
        let nano = price.cost_nano(input, output, cache_read, cache_write_5m, cache_write_1h);
        Some(NanoUsd(nano))
    }

    /// The dearest that this much input can be billed at.
    fn price_at(&self, input: u64) -> Option<Price> {
        match self.model {
            Some(model) if self.price == Some(model.price) => Some(model.dearest(input)),
            _ => self.price,
        }
    }

    pub(super) fn facts(&self, _conversation: &Conversation, body_bytes: usize) -> Facts {
        let (known, bytes) = self.known.unwrap_or_default();
        let new = body_bytes.saturating_sub(bytes) as u64;
        // One token per byte that the provider has not counted yet is the most it can come to,
        // which is for money; four bytes a token are what text mostly has.
        let most = known.saturating_add(new);
        let price = self.price_at(most);
        let input_at = |pico: u64| NanoUsd(most.saturating_mul(pico).div_ceil(1000));
        Facts {
            next_input: known.saturating_add(new / 4),
            next_input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.dearest_input(false))),
            reserve_input_cost: price.map_or(NanoUsd::ZERO, |p| input_at(p.input)),
            output_pico: price.map_or(0, |p| p.output),
            ..self.spent()
        }
    }

    /// What was used so far, for what the limits leave.
    pub(super) fn spent(&self) -> Facts {
        Facts {
            tokens: self.total.input_total().saturating_add(self.total.output),
            cost: self.cost,
            session_cost: self.session_before + self.cost,
            elapsed: self.elapsed(),
            ..Facts::default()
        }
    }

    pub(super) fn elapsed(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    pub(super) fn total(&self) -> UsageTotal {
        UsageTotal {
            input: self.total.input,
            output: self.total.output,
            cache_read: self.total.cache_read,
            cache_write: self.total.cache_write_5m.saturating_add(self.total.cache_write_1h),
        }
    }

    /// What the run cost, where its model has a price.
    pub(super) fn cost(&self) -> Option<NanoUsd> {
        self.price.map(|_| self.cost)
    }

    /// What was spent since this was last asked, for the session's account.
    pub(super) fn take_unbooked(&mut self) -> NanoUsd {
        std::mem::take(&mut self.unbooked)
    }
}
