//! What turns cost, and what the next request may: recorded figures first, then the user's prices,
//! then the table.

use softland_session::core::models::{self, Model, Price};
use softland_session::core::{Facts, Millis, NanoUsd};
use softland_session::wire::Tokens;

use crate::step::Turn;

/// Idle time that counts in no limit (contract, `time_limit`).
const IDLE: u64 = 10 * 60 * 1000;

/// What a model's tokens cost, the newest model's looked up once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prices {
    model: Option<String>,
    found: Option<Found>,
}

#[derive(Clone, Copy, Debug)]
enum Found {
    Given(Price),
    Table(&'static Model),
}

impl Prices {
    /// What a turn cost, if that is recorded or can be told.
    pub(crate) fn cost(&mut self, turn: &Turn<'_>, given: &[(String, Price)]) -> Option<NanoUsd> {
        if turn.cost.is_some() {
            return turn.cost;
        }
        if !turn.usage.recorded {
            return None;
        }
        let tokens = turn.usage.tokens;
        let minute = turn.time.and_then(|time| u16::try_from(time / 60_000 % 1440).ok());
        let price = match self.of(turn.model, given)? {
            Found::Given(price) => price,
            Found::Table(model) => model.price_for(tokens.input_total(), minute),
        };
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h } = tokens;
        Some(NanoUsd(price.cost_nano(input, output, cache_read, cache_write_5m, cache_write_1h)))
    }

    /// The dearest that a request with so much input can be billed.
    pub(crate) fn dearest(
        &mut self,
        model: Option<&str>,
        given: &[(String, Price)],
        input: u64,
    ) -> Option<Price> {
        Some(match self.of(model, given)? {
            Found::Given(price) => price,
            Found::Table(model) => model.dearest(input),
        })
    }

    fn of(&mut self, model: Option<&str>, given: &[(String, Price)]) -> Option<Found> {
        let model = model?;
        if self.model.as_deref() != Some(model) {
            let bare = model.split_once('/').map_or(model, |(_, name)| name);
            let own = given.iter().find(|(name, _)| name == model || name == bare);
            self.found = match own {
                Some((_, price)) => Some(Found::Given(*price)),
                None => models::find(None, model).map(Found::Table),
            };
            self.model = Some(model.to_owned());
        }
        self.found
    }
}

/// Time of a run, idle gaps left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    last: Option<u64>,
    active: u64,
}

impl Clock {
    pub(crate) fn tick(&mut self, time: Option<u64>) {
        let Some(time) = time else { return };
        if let Some(gap) = self.last.and_then(|last| time.checked_sub(last)) {
            self.active += if gap > IDLE { 0 } else { gap };
        }
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    pub(crate) fn elapsed(&self) -> Millis {
        Millis(self.active)
    }
}

/// What the next request with so much input would be billed at most. Where no price is known, it is
/// what the request is recorded to have cost.
pub(crate) fn with_price(facts: Facts, price: Option<Price>, cost: Option<NanoUsd>) -> Facts {
    let Some(price) = price else {
        let cost = cost.unwrap_or_default();
        return Facts { next_input_cost: cost, reserve_input_cost: cost, ..facts };
    };
    Facts {
        next_input_cost: NanoUsd::of_tokens(facts.next_input, price.dearest_input(false)),
        reserve_input_cost: NanoUsd::of_tokens(facts.next_input, price.input),
        output_pico: price.output,
        ..facts
    }
}

/// The least limit of money under which a request is sent without a landing note: what was spent,
/// the request, and what is held back for the answer (`rules/cost.rs` of the core).
pub(crate) fn needed(facts: &Facts, reserve_tokens: u64) -> NanoUsd {
    let output = NanoUsd::of_tokens(reserve_tokens.saturating_mul(2), facts.output_pico);
    facts.cost + facts.next_input_cost + facts.reserve_input_cost + output
}
