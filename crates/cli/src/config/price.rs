//! `[[price]]`: the prices of a model's tokens. A price that is not given is never assumed too low.

use softland_agent::core::NanoUsd;
use softland_agent::core::models::Price;
use softland_agent::core::policy::PolicyValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigReader, to_policy_value};

/// The keys of a `[[price]]`.
const KEYS: [&str; 5] = ["model", "input", "output", "cache_read", "cache_write"];

impl ConfigReader<'_> {
    pub(super) fn read_prices(&mut self, value: &Spanned<DeValue<'_>>) {
        for (at, table) in self.read_rows("price", value) {
            self.read_price(at, table);
        }
    }

    fn read_price(&mut self, at: usize, table: &DeTable<'_>) {
        for (key, _) in table {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                let name = key.get_ref().as_ref();
                self.note_unknown_key(key.span().start, name, name, &KEYS);
            }
        }
        let model =
            table.get("model").and_then(|value| value.get_ref().as_str().map(str::to_owned));
        if model.as_deref().is_none_or(|model| model.trim().is_empty()) {
            self.note_problem(at, "price.model", "is required: the model's name");
        }
        let named = model.as_deref().map(str::trim);
        if self.config.prices.iter().any(|(known, _)| Some(known.as_str()) == named) {
            self.note_problem(at, "price.model", "names a model that an earlier row names already");
        }
        let input = self.read_per_million(at, table, "input", true);
        let output = self.read_per_million(at, table, "output", true);
        let read = self.read_per_million(at, table, "cache_read", false);
        let write = self.read_per_million(at, table, "cache_write", false);
        let (Some(model), Some(input), Some(output)) = (model, input, output) else { return };
        let price = Price::from_rates(input, output, read, write);
        self.config.prices.push((model.trim().to_owned(), price));
    }

    /// Reads dollars per million tokens.
    fn read_per_million(
        &mut self,
        at: usize,
        table: &DeTable<'_>,
        key: &str,
        required: bool,
    ) -> Option<NanoUsd> {
        const ALLOWED: &str = "an amount of dollars per million tokens such as 3 or 0.25";
        let place = format!("price.{key}");
        let Some(value) = table.get(key) else {
            if required {
                self.note_problem(at, &place, &format!("is required: {ALLOWED}"));
            }
            return None;
        };
        let plain = to_policy_value(value.get_ref());
        let nano = match &plain {
            PolicyValue::Int(number) => number.to_string().parse::<NanoUsd>().ok(),
            PolicyValue::Float(number) => NanoUsd::from_dollars(*number),
            _ => None,
        };
        if nano.is_none() {
            let message = format!("must be {ALLOWED}, got {plain}");
            self.note_problem(value.span().start, &place, &message);
        }
        nano
    }
}
