//! The settings of a request, from the policy keys that a program gives.

use std::collections::BTreeMap;
use std::fmt;

use softland_govern::GovernSettings;
use softland_session::core::find_nearest;
use softland_session::core::policy::{Policy, PolicyValue};

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

/// Makes settings in which every request has one policy: the built-in one of this name (`default` if
/// there is none), with these keys.
///
/// # Errors
/// Returns an error if there is no such policy, no such key, or a value is not allowed.
pub fn make_settings(
    name: Option<&str>,
    keys: &PolicyKeys,
    allow_unmetered: bool,
) -> Result<GovernSettings, PolicyError> {
    let name = name.unwrap_or(NAME);
    let mut policy = Policy::built_in(name).ok_or_else(|| unknown_policy(name))?;
    for (key, value) in keys {
        policy.set_key(key, value).map_err(|error| PolicyError(error.to_string()))?;
    }
    let policies = BTreeMap::from([(NAME.to_owned(), policy)]);
    Ok(GovernSettings { policies, allow_unmetered, ..GovernSettings::default() })
}

fn unknown_policy(name: &str) -> PolicyError {
    let near = find_nearest(name, Policy::NAMES.iter().copied());
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    PolicyError(format!(
        "no policy is named `{name}`; there are {}, and `FILE.toml#NAME` names one of a config{near}",
        Policy::NAMES.join(", ")
    ))
}

/// Returns true if the policy of such settings limits anything.
pub(crate) fn limits_anything(settings: &GovernSettings) -> bool {
    let policy = settings.policies.get(NAME);
    policy.is_some_and(|policy| {
        !policy.is_observing() && (policy.limits_money() || policy.limits_work())
    })
}

/// Returns true if the policy of such settings limits money.
pub(crate) fn limits_money(settings: &GovernSettings) -> bool {
    let policy = settings.policies.get(NAME);
    policy.is_some_and(|policy| !policy.is_observing() && policy.limits_money())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_built_in_one_with_keys() {
        let keys = vec![("tool_calls_limit".to_owned(), PolicyValue::Int(4))];
        let settings = make_settings(Some("coding"), &keys, false).unwrap();
        assert_eq!(settings.policies["default"].tool_calls_limit, Some(4));
        assert!(limits_anything(&settings));
        let settings = make_settings(None, &Vec::new(), true).unwrap();
        assert!(settings.allow_unmetered && !limits_anything(&settings));
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is_near() {
        let unknown = make_settings(Some("codin"), &Vec::new(), false).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `coding`?"), "{unknown}");
        let keys = vec![("tool_call_limit".to_owned(), PolicyValue::Int(4))];
        let unknown = make_settings(None, &keys, false).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `tool_calls_limit`?"), "{unknown}");
        let keys = vec![("tool_calls_limit".to_owned(), PolicyValue::Int(-1))];
        let wrong = make_settings(None, &keys, false).unwrap_err().to_string();
        assert!(wrong.contains("a whole number, 0 or more"), "{wrong}");
    }
}
