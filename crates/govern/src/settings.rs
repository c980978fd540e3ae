//! The settings of governing: policies, routes, shapes and prices. They are passed in, complete; a
//! request keeps those in force when it came.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use softland_session::core::models::{self, Model, Price};
use softland_session::core::policy::Policy;
use softland_session::wire::tags::Shape;

use crate::budget::{self, AccountBudget, BudgetRule};
use crate::key::ClientKey;

/// The settings of governing.
#[derive(Clone, Debug, Default)]
pub struct GovernSettings {
    /// Prices of the configuration, before the built-in table.
    pub prices: Prices,
    /// Policies of the configuration by name.
    pub policies: BTreeMap<String, Policy>,
    /// Policy, upstream and shape by model; the first route that matches wins.
    pub routes: Vec<Route>,
    /// Shapes by name, for routes.
    pub shapes: BTreeMap<String, Shaping>,
    /// The names of the upstreams that a route may lead to.
    pub upstreams: BTreeSet<Arc<str>>,
    /// The policy of every request, whatever a route or a header says.
    pub forced_policy: Option<String>,
    /// The names that a client's `x-softland-policy` may select.
    pub header_policies: Vec<String>,
    /// The budgets of accounts.
    pub budgets: Vec<Arc<BudgetRule>>,
    /// True if requests that cannot be metered pass under a cost limit.
    pub allow_unmetered: bool,
    /// True if streams get no comments of softland's.
    pub no_comments: bool,
    /// True if records have whole contents, false if they have none.
    pub full_contents: bool,
}

impl GovernSettings {
    /// Returns the policy that is selected for a request, whatever its route: by `--policy`, or
    /// else by the request's header, if the operator allows that, or else by its key.
    ///
    /// # Errors
    /// Returns the names that may be selected, if the header names another one; or the name, if the
    /// key has a policy that these settings do not define.
    pub fn selected_policy<'a>(
        &'a self,
        header: Option<&'a str>,
        key: Option<&'a ClientKey>,
    ) -> Result<Option<&'a str>, NotSelectable> {
        if self.forced_policy.is_some() {
            return Ok(self.forced_policy.as_deref());
        }
        let Some(name) = header else {
            let own = key.and_then(|key| key.policy.as_deref());
            let missing = own.filter(|name| self.find_policy(name).is_none());
            return missing.map_or(Ok(own), |name| Err(NotSelectable::Undefined(name.to_owned())));
        };
        let own = key.and_then(|key| key.policies.as_ref());
        let allowed = own.unwrap_or(&self.header_policies);
        if !allowed.iter().any(|allowed| allowed == name) {
            let asked = name.chars().take(SHOWN).collect();
            let (allowed, has_key) = (allowed.clone(), key.is_some());
            return Err(NotSelectable::Forbidden { asked, allowed, has_key });
        }
        // A key of the shared store is not made with these settings.
        match self.has_policy_for(key, name) {
            true => Ok(Some(name)),
            false => Err(NotSelectable::Undefined(name.to_owned())),
        }
    }

    /// Returns the policies that a key names and its requests cannot have.
    #[must_use]
    pub fn missing_policies<'a>(&self, key: &'a ClientKey) -> BTreeSet<&'a str> {
        let named = key.policy.iter().chain(key.policies.iter().flatten()).map(String::as_str);
        named.filter(|name| !self.has_policy_for(Some(key), name)).collect()
    }

    /// Returns true if a request can have this policy, which its key names: a policy of the
    /// configuration, or the key's own, which may be a built-in one.
    fn has_policy_for(&self, key: Option<&ClientKey>, name: &str) -> bool {
        match key.and_then(|key| key.policy.as_deref()) == Some(name) {
            true => self.find_policy(name).is_some(),
            false => self.policies.contains_key(name),
        }
    }

    /// Returns the budgets in which the requests of a key count.
    #[must_use]
    pub fn key_budgets(&self, key: Option<&ClientKey>) -> Vec<AccountBudget> {
        let account = key.and_then(|key| key.account.as_deref());
        account.map(|account| budget::find_budgets(&self.budgets, account)).unwrap_or_default()
    }

    /// Returns the policy of that name: the configuration's, or else the built-in one.
    pub fn find_policy(&self, name: &str) -> Option<Policy> {
        self.policies.get(name).cloned().or_else(|| Policy::built_in(name))
    }
}

/// The characters of a client's text that are shown in an error.
const SHOWN: usize = 64;

/// A policy that a request cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSelectable {
    /// The header selects a policy that the client may not select.
    Forbidden {
        /// The name that it selects, or the beginning of a long one.
        asked: String,
        /// The names that it may select.
        allowed: Vec<String>,
        /// True if the client has a key.
        has_key: bool,
    },
    /// The request's key has a policy of this name, and the settings do not.
    Undefined(String),
}

impl fmt::Display for NotSelectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, allowed, has_key) = match self {
            Self::Forbidden { asked, allowed, has_key } => (asked, allowed, has_key),
            Self::Undefined(name) => {
                return write!(
                    f,
                    "this request would have the policy `{name}`, which the configuration of this gateway \
                     does not define"
                );
            }
        };
        let whose = if *has_key { "with this key" } else { "of this gateway" };
        write!(
            f,
            "x-softland-policy names the policy `{asked}`, which clients {whose} may not choose; "
        )?;
        match allowed.as_slice() {
            [] => f.write_str("no policy may be chosen with this header here"),
            allowed => write!(f, "they may choose {}", allowed.join(", ")),
        }
    }
}

/// The protocol of a provider, where the difference matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions and Responses.
    OpenAi,
}

/// `[[route]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// A model's name; `*` stands for any characters.
    pub model: String,
    /// The policy of its runs.
    pub policy: Option<String>,
    /// The upstream that its requests are sent to.
    pub upstream: Option<String>,
    /// The [`Shaping`] of its models' responses.
    pub shape: Option<String>,
}

/// `[shape.NAME]`: models that write their calls as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// The way the text is read, and the parts of it that pass.
    pub shape: Arc<Shape>,
    /// The time for which a client gets nothing while text is held back, before a keepalive is
    /// sent.
    pub keepalive: Duration,
}

impl Shaping {
    /// The default of `keepalive`.
    pub const KEEPALIVE: Duration = Duration::from_secs(15);
}

impl Route {
    /// Returns true if this route is for that model.
    #[must_use]
    pub fn matches_model(&self, model: &str) -> bool {
        matches_pattern(self.model.as_bytes(), model.as_bytes())
    }
}

/// Matches a text against a pattern, in which `*` is any run of bytes.
fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position to resume at if the text behind the newest star does not match.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(byte) if text.get(t) == Some(byte) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

/// Prices of a configuration, which take precedence over the built-in table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(Vec<(String, Price)>);

impl Prices {
    /// Creates a table of these rows; the first row of a name wins.
    #[must_use]
    pub fn new(rows: Vec<(String, Price)>) -> Self {
        Self(rows)
    }

    /// Returns the configuration's own price of a model, by its name.
    #[must_use]
    pub fn own_price(&self, model: &str) -> Option<Price> {
        self.0.iter().find(|(name, _)| name == model).map(|(_, price)| *price)
    }

    /// Returns the configuration's price of the model `*`, which holds for models that no other row
    /// and no table prices.
    #[must_use]
    pub fn default_price(&self) -> Option<Price> {
        self.own_price("*")
    }

    /// Returns the highest price at which `input` tokens of a model may be billed; `None` if it is
    /// unknown.
    #[must_use]
    pub fn find_price(&self, provider: Option<&str>, model: &str, input: u64) -> Option<Price> {
        self.own_price(model)
            .or_else(|| {
                models::find_model(provider, model).map(|row: &Model| row.highest_price(input))
            })
            .or_else(|| self.default_price())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, model, fit) in [
            ("claude-*", "claude-opus-5-5", true),
            ("claude-*", "gpt-6", false),
            ("*", "", true),
            ("*-mini", "gpt-6-mini", true),
            ("*-mini", "gpt-6-mini-x", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("exact", "exact", true),
        ] {
            let route =
                Route { model: pattern.to_owned(), policy: None, upstream: None, shape: None };
            assert_eq!(route.matches_model(model), fit, "{pattern} {model}");
        }
    }

    #[test]
    fn a_policy_that_may_not_be_chosen_is_named_with_those_that_may() {
        let settings = GovernSettings {
            header_policies: vec!["strict".to_owned()],
            ..GovernSettings::default()
        };
        let refused = |key: Option<&ClientKey>| {
            settings.selected_policy(Some("lax"), key).expect_err("not allowed").to_string()
        };
        let told = "x-softland-policy names the policy `lax`, which clients of this gateway may not \
                    choose; they may choose strict";
        assert_eq!(refused(None), told);
        let key = ClientKey { policies: Some(Vec::new()), ..ClientKey::default() };
        let told = "x-softland-policy names the policy `lax`, which clients with this key may not \
                    choose; no policy may be chosen with this header here";
        assert_eq!(refused(Some(&key)), told);
    }

    #[test]
    fn a_key_may_have_a_built_in_policy_and_select_those_of_the_configuration() {
        let settings = GovernSettings {
            policies: BTreeMap::from([("strict".to_owned(), Policy::default())]),
            ..GovernSettings::default()
        };
        let missing = |policy: &str, policies: &[&str]| -> Vec<String> {
            let key = ClientKey {
                policy: Some(policy.to_owned()),
                policies: Some(policies.iter().map(|name| (*name).to_owned()).collect()),
                ..ClientKey::default()
            };
            settings.missing_policies(&key).into_iter().map(str::to_owned).collect()
        };
        assert!(missing("specialist", &["specialist", "strict"]).is_empty());
        assert!(missing("strict", &["strict"]).is_empty());
        assert_eq!(missing("specialist", &["coding", "strict"]), ["coding"]);
        assert_eq!(missing("gone", &["gone"]), ["gone"]);
    }
}
