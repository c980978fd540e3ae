//! The cost of turns, and the most that the next request may cost: recorded figures first, then the
//! user's prices, then the table.

use softland_session::bound::{self, InputSize, KnownAncestor};
use softland_session::core::models::billing::Vendor;
use softland_session::core::models::{self, Model, Price};
use softland_session::core::policy::Policy;
use softland_session::core::{Facts, Millis, NanoUsd, UserMessage};
use softland_session::price::Fees;
use softland_session::wire::{ExtraCharges, Tokens};

use crate::step::TurnStep;

/// Idle time in milliseconds that `time_limit` does not count (`docs/governing.md` §12).
const IDLE: u64 = 10 * 60 * 1000;

/// The prices of models. The newest model's price is looked up once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prices {
    model: Option<String>,
    row: Option<&'static Model>,
    found: Option<PriceSource>,
}

/// The bill of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnBill {
    /// The cost, if it is known.
    pub(crate) cost: Option<NanoUsd>,
    /// The part of the cost that no token causes.
    pub(crate) fees: NanoUsd,
    /// The standard price of the tokens, if it is known.
    pub(crate) price: Option<Price>,
}

#[derive(Clone, Copy, Debug)]
enum PriceSource {
    Given(Price),
    Table(&'static Model),
}

impl Prices {
    /// Returns a turn's cost, if it is recorded or can be computed, and the price of its tokens.
    pub(crate) fn bill_turn(&mut self, turn: &TurnStep<'_>, given: &[(String, Price)]) -> TurnBill {
        let tokens = turn.usage.tokens;
        let minute = turn.time.and_then(|time| u16::try_from(time / 60_000 % 1440).ok());
        let price = self.find_price(turn.model, given).map(|price| match price {
            PriceSource::Given(price) => price,
            PriceSource::Table(model) => model.price_for(tokens.input_total(), minute),
        });
        if turn.cost.is_some() || !turn.usage.recorded {
            return TurnBill { cost: turn.cost, fees: NanoUsd::ZERO, price };
        }
        let Some(of) = price else { return TurnBill::default() };
        let model = turn.model.unwrap_or_default();
        let fees = Fees::for_vendor(vendor_of(model));
        let bill = |tokens| fees.bill_response(posed_model(model), tokens, &of);
        let ExtraCharges { served, in_one_country, stated, .. } = tokens.beside;
        let beside = ExtraCharges { served, in_one_country, stated, ..ExtraCharges::default() };
        let cost = bill(&tokens);
        let fees = if beside == tokens.beside {
            NanoUsd::ZERO
        } else {
            cost.saturating_sub(bill(&Tokens { beside, ..tokens }))
        };
        TurnBill { cost: Some(cost), fees, price }
    }

    /// Returns the highest price at which a request with `input` tokens can be billed.
    pub(crate) fn highest_price(
        &mut self,
        model: Option<&str>,
        given: &[(String, Price)],
        input: u64,
    ) -> Option<Price> {
        Some(match self.find_price(model, given)? {
            PriceSource::Given(price) => price,
            PriceSource::Table(model) => model.highest_price(input),
        })
    }

    /// Returns the table's row of a model.
    pub(crate) fn table_row(
        &mut self,
        model: Option<&str>,
        given: &[(String, Price)],
    ) -> Option<&'static Model> {
        self.find_price(model, given)?;
        self.row
    }

    fn find_price(
        &mut self,
        model: Option<&str>,
        given: &[(String, Price)],
    ) -> Option<PriceSource> {
        let model = model?;
        if self.model.as_deref() != Some(model) {
            let posed = posed_model(model);
            let bare = posed.split_once('/').map_or(posed, |(_, name)| name);
            let own = given.iter().find(|(name, _)| name == model || name == bare);
            let any = || given.iter().find(|(name, _)| name == "*");
            self.row = models::find_model(None, posed);
            self.found = match own {
                Some((_, price)) => Some(PriceSource::Given(*price)),
                None => (self.row.map(PriceSource::Table))
                    .or_else(|| any().map(|(_, price)| PriceSource::Given(*price))),
            };
            self.model = Some(model.to_owned());
        }
        self.found
    }
}

/// Returns the vendor whose fees apply to a model. A recording does not say which API was spoken.
fn vendor_of(model: &str) -> Vendor {
    if model.contains("claude") { Vendor::Anthropic } else { Vendor::OpenAi }
}

/// Returns true if a model of that name is simulated, so that nobody is billed for it.
pub(crate) fn is_simulated(model: &str) -> bool {
    model == "sim" || model.starts_with("sim/")
}

/// Returns the model that a simulated one poses as (`docs/scenarios.md`).
fn posed_model(model: &str) -> &str {
    match model.strip_prefix("sim/") {
        Some(name) => name.split_once('@').map_or("claude-sonnet-5-5", |(_, posed)| posed),
        None => model,
    }
}

/// The bound on the next request's billed input. It is the bound with which the gateway reserves
/// ([`bound`]): the tokens of the newest turn, and one token for each byte that the next request
/// adds. A recording holds no bodies, so their sizes are estimated from what it shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InputBound {
    /// The newest turn with recorded tokens.
    known: Option<KnownAncestor>,
    /// Bytes that the recording shows, in all.
    text: u64,
}

impl InputBound {
    /// Bytes of JSON around a message, a call (without its name), and a result (without its call's
    /// id).
    const MESSAGE: u64 = 36;
    const CALL: u64 = 70;
    const RESULT: u64 = 48;
    /// Bytes that a token mostly has.
    const BYTES: u64 = 4;

    /// Takes a user's message.
    pub(crate) fn add_user(&mut self, user: &UserMessage<'_>) {
        let results = user.results.iter().map(|r| Self::RESULT + r.id.len() as u64 + r.chars);
        let texts = user.texts.iter().map(|text| text.text().len() as u64);
        self.text = results.chain(texts).fold(self.text + Self::MESSAGE, u64::saturating_add);
    }

    /// Takes a turn.
    pub(crate) fn add_turn(&mut self, turn: &TurnStep<'_>) {
        let tokens = turn.usage.tokens;
        let total = tokens.input_total().saturating_add(tokens.output);
        self.known =
            (total > 0).then(|| KnownAncestor { tokens: total, size: self.request_size() });
        let calls = turn.finished.calls.iter();
        let calls = calls.map(|call| Self::CALL + (call.name.len() + call.id.len()) as u64);
        let shown = self.text.saturating_add(turn.usage.chars + Self::MESSAGE);
        self.text = calls.fold(shown, u64::saturating_add);
    }

    /// Returns the most input tokens of a request of `model` whose recorded input is `recorded`. A
    /// request has about [`Self::BYTES`] bytes for each token. That is all that is known of the
    /// first request, and of a request after a compaction.
    pub(crate) fn max_tokens(&self, recorded: u64, model: Option<&Model>) -> u64 {
        let window = bound::context_window(model);
        let whole =
            InputSize { text: recorded.saturating_mul(Self::BYTES), ..InputSize::default() };
        let whole = bound::input_bound(None, whole, window);
        let grown = bound::input_bound(self.known, self.request_size(), window);
        match (self.known, recorded) {
            (None, _) => whole,
            (Some(_), 0) => grown,
            (Some(_), _) => grown.min(whole).max(recorded),
        }
    }

    fn request_size(&self) -> InputSize {
        InputSize { text: self.text, ..InputSize::default() }
    }
}

/// The time of a run, idle gaps left out.
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

/// Adds the most that the next request, with at most `most` input tokens, would be billed. Without
/// a known price, this is the recorded cost of the request.
pub(crate) fn with_price(
    facts: Facts,
    most: u64,
    price: Option<Price>,
    cost: Option<NanoUsd>,
) -> Facts {
    let Some(price) = price else {
        let cost = cost.unwrap_or_default();
        return Facts { next_input_cost: cost, reserve_input_cost: cost, ..facts };
    };
    Facts {
        next_input_cost: NanoUsd::from_tokens(most, price.highest_input(false)),
        reserve_input_cost: NanoUsd::from_tokens(most, price.input),
        output_pico: price.output,
        ..facts
    }
}

/// Returns the money and tokens that a run holds back for its answer after a turn, while other runs
/// spend from the same limit: the context at that time, uncached, and the reserve (`run/facts.rs`
/// of the agent).
pub(crate) fn compute_held(facts: &Facts, turn: &TurnStep<'_>, policy: &Policy) -> (NanoUsd, u64) {
    let tokens = turn.usage.tokens;
    let input = tokens.input_total().saturating_add(tokens.output);
    let eighth = policy.tokens_limit.map_or(u64::MAX, |limit| limit / 8);
    let asked = facts.next_input.max(1);
    let input_cost = u128::from(facts.reserve_input_cost.0) * u128::from(input) / u128::from(asked);
    let output = NanoUsd::from_tokens(policy.reserve_tokens, facts.output_pico);
    let input_cost = NanoUsd(u64::try_from(input_cost).unwrap_or(u64::MAX));
    (input_cost + output, input.saturating_add(policy.reserve_tokens.min(eighth)))
}

/// Returns the smallest cost limit under which a request is sent without a landing note: the money
/// spent, the request, and the reserve for the answer (`rules/cost.rs` of the core).
pub(crate) fn min_cost_limit(facts: &Facts, reserve_tokens: u64) -> NanoUsd {
    let output = NanoUsd::from_tokens(reserve_tokens.saturating_mul(2), facts.output_pico);
    facts.cost + facts.next_input_cost + facts.reserve_input_cost + output
}
