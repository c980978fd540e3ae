//! The settings of a request, from the policy keys that a program gives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use softland_govern::{GovernSettings, Prices, Route, Shaping};
use softland_session::core::models::Price;
use softland_session::core::policy::{Policy, PolicyValue};
use softland_session::core::{NanoUsd, find_nearest};
use softland_session::wire::tags::{Shape, Tags};

/// Policy keys with their values, in the order in which they are set.
pub type PolicyKeys = Vec<(String, PolicyValue)>;

/// The name of the one policy of such settings.
const NAME: &str = "default";

/// A policy that a program may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(pub String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

/// What a program says of its requests' policy.
#[derive(Clone, Debug, Default)]
pub struct PolicySource<'a> {
    /// The built-in policy that it begins with; `default` if there is none.
    pub name: Option<&'a str>,
    /// A policy of that name from a config: it may be no built-in one.
    pub is_configured: bool,
    /// The keys, in the order in which they are set.
    pub keys: PolicyKeys,
    /// Prices, before the built-in table: by model, in dollars per million tokens. Each row has
    /// `input` and `output`, and may have `cache_read` and `cache_write`.
    pub prices: Vec<(String, BTreeMap<String, f64>)>,
    /// The tags in which models write their calls as text.
    pub tags: Vec<String>,
    /// True if requests that cannot be metered pass under a limit of money.
    pub allow_unmetered: bool,
}

/// Makes settings in which every request has one policy.
///
/// # Errors
/// Returns an error if there is no such policy, no such key, or a value is not allowed.
pub fn make_settings(source: &PolicySource<'_>) -> Result<GovernSettings, PolicyError> {
    let name = source.name.unwrap_or(NAME);
    let begun = Policy::built_in(name).or_else(|| source.is_configured.then(Policy::default));
    let mut policy = begun.ok_or_else(|| unknown_policy(name))?;
    for (key, value) in &source.keys {
        policy.set_key(key, value).map_err(|error| PolicyError(error.to_string()))?;
    }
    let prices = source.prices.iter().map(|(model, rates)| read_price(model, rates));
    let mut settings = GovernSettings {
        policies: BTreeMap::from([(NAME.to_owned(), policy)]),
        prices: Prices::new(prices.collect::<Result<_, _>>()?),
        allow_unmetered: source.allow_unmetered,
        ..GovernSettings::default()
    };
    if !source.tags.is_empty() {
        let tags = Tags::new(source.tags.iter().cloned());
        let tags = tags.map_err(|error| PolicyError(format!("tags: {error}")))?;
        let shape = Arc::new(Shape { suppress_tail: true, ..Shape::watch_only(tags) });
        let shaping = Shaping { shape, keepalive: Shaping::KEEPALIVE };
        settings.shapes.insert(NAME.to_owned(), shaping);
        settings.routes.push(Route {
            model: "*".to_owned(),
            policy: None,
            upstream: None,
            shape: Some(NAME.to_owned()),
        });
    }
    Ok(settings)
}

/// Reads a row of prices.
fn read_price(model: &str, rates: &BTreeMap<String, f64>) -> Result<(String, Price), PolicyError> {
    let wrong = |what: &str| PolicyError(format!("the price of `{model}`: {what}"));
    let known = ["input", "output", "cache_read", "cache_write"];
    if let Some(other) = rates.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(wrong(&format!("unknown key `{other}`; known are {}", known.join(", "))));
    }
    let rate = |name: &str| {
        let given = rates.get(name).copied();
        given.map(|given| {
            let allowed = "must be an amount of dollars per million tokens such as 3 or 0.25";
            NanoUsd::from_dollars(given).ok_or_else(|| wrong(&format!("`{name}` {allowed}")))
        })
    };
    let required =
        |name: &str| rate(name).unwrap_or_else(|| Err(wrong(&format!("`{name}` is required"))));
    let (read, write) = (rate("cache_read").transpose()?, rate("cache_write").transpose()?);
    let price = Price::from_rates(required("input")?, required("output")?, read, write);
    Ok((model.to_owned(), price))
}

fn unknown_policy(name: &str) -> PolicyError {
    let near = find_nearest(name, Policy::NAMES.iter().copied());
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    PolicyError(format!(
        "no policy is named `{name}`; there are {}, and `FILE.toml#NAME` names one of a config{near}",
        Policy::NAMES.join(", ")
    ))
}

/// Returns the policy of such settings, unless it only observes.
pub(crate) fn enforced_policy(settings: &GovernSettings) -> Option<&Policy> {
    settings.policies.get(NAME).filter(|policy| !policy.is_observing())
}

/// Returns true if the policy of such settings limits anything.
pub(crate) fn limits_anything(settings: &GovernSettings) -> bool {
    enforced_policy(settings).is_some_and(|policy| policy.limits_money() || policy.limits_work())
}

/// Returns true if the policy of such settings limits money.
pub(crate) fn limits_money(settings: &GovernSettings) -> bool {
    enforced_policy(settings).is_some_and(Policy::limits_money)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_built_in_one_with_keys() {
        let keys = vec![("tool_calls_limit".to_owned(), PolicyValue::Int(4))];
        let source = PolicySource { name: Some("coding"), keys, ..PolicySource::default() };
        let settings = make_settings(&source).unwrap();
        assert_eq!(settings.policies["default"].tool_calls_limit, Some(4));
        assert!(limits_anything(&settings) && !limits_money(&settings));
        let source = PolicySource { allow_unmetered: true, ..PolicySource::default() };
        let settings = make_settings(&source).unwrap();
        assert!(settings.allow_unmetered && !limits_anything(&settings));
        let source = PolicySource { name: Some("mine"), is_configured: true, ..source };
        assert!(make_settings(&source).is_ok());
    }

    #[test]
    fn prices_and_tags_come_with_it() {
        let rates = |rates: &[(&str, f64)]| {
            rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect()
        };
        let row = ("m".to_owned(), rates(&[("input", 3.0), ("output", 15.0)]));
        let tags = vec!["use_tool".to_owned()];
        let source = PolicySource { prices: vec![row], tags, ..PolicySource::default() };
        let settings = make_settings(&source).unwrap();
        let price = settings.prices.own_price("m").unwrap();
        assert_eq!(
            (price.input, price.output, price.cache_read),
            (3_000_000, 15_000_000, 3_000_000)
        );
        assert!(settings.routes[0].matches_model("any") && settings.shapes.len() == 1);
        for (rates, told) in [
            (rates(&[("input", 3.0)]), "`output` is required"),
            (rates(&[("input", -3.0), ("output", 1.0)]), "must be an amount of dollars"),
            (rates(&[("inputs", 3.0)]), "unknown key `inputs`"),
        ] {
            let source =
                PolicySource { prices: vec![("m".to_owned(), rates)], ..PolicySource::default() };
            let wrong = make_settings(&source).unwrap_err().to_string();
            assert!(wrong.contains(told), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is_near() {
        let source = PolicySource { name: Some("codin"), ..PolicySource::default() };
        let unknown = make_settings(&source).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `coding`?"), "{unknown}");
        let keys = vec![("tool_call_limit".to_owned(), PolicyValue::Int(4))];
        let source = PolicySource { keys, ..PolicySource::default() };
        let unknown = make_settings(&source).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `tool_calls_limit`?"), "{unknown}");
        let keys = vec![("tool_calls_limit".to_owned(), PolicyValue::Int(-1))];
        let source = PolicySource { keys, ..PolicySource::default() };
        let wrong = make_settings(&source).unwrap_err().to_string();
        assert!(wrong.contains("a whole number, 0 or more"), "{wrong}");
    }
}
