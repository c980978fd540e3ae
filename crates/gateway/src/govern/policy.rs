//! Which policy a request has, and which upstream: what its header says, else its model's route,
//! else `default`.

use std::sync::Arc;

use http::{Response, StatusCode};
use softland_session::core::nearest;
use softland_session::core::policy::{Countdown, Landing, Policy};

use crate::body::Body;
use crate::errors::Refusal;
use crate::route::Target;
use crate::settings::Shaping;
use crate::upstream::Origin;

/// What holds for a request that is new to its run.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) origin: Arc<Origin>,
    /// How its text is read, where its model writes calls as text.
    pub(super) shaping: Option<Shaping>,
}

/// Chooses by the header, the route and the default, in this order. A path that names the
/// upstream itself (`direct`) keeps it.
pub(super) fn choose(
    target: &Target,
    direct: bool,
    model: &str,
    header: Option<&str>,
) -> Result<Chosen, Box<Response<Body>>> {
    let Target { live, origin, .. } = target;
    let settings = &live.settings;
    let route = settings.routes.iter().find(|route| route.matches(model));
    let named = route.and_then(|route| route.upstream.as_deref()).filter(|_| !direct);
    let origin = named.and_then(|name| live.origins.get(name)).unwrap_or(origin);
    let origin = Arc::clone(origin);
    let routed = route.and_then(|route| route.policy.as_deref());
    let name = settings.forced_policy.as_deref().or(header).or(routed).unwrap_or("default");
    let shape = route.and_then(|route| route.shape.as_deref());
    let shaping = shape.and_then(|name| settings.shapes.get(name)).cloned();
    let known = settings.policies.get(name).cloned().or_else(|| Policy::named(name));
    match known {
        Some(policy) => Ok(Chosen { name: name.to_owned(), policy, origin, shaping }),
        None => Err(Box::new(unknown(target, name))),
    }
}

/// A header that names no policy is the client's mistake, and says so instead of passing without
/// limits.
fn unknown(target: &Target, name: &str) -> Response<Body> {
    let own = target.live.settings.policies.keys().map(String::as_str);
    let hint = hint(&own.collect::<Vec<_>>(), name);
    let message = format!("x-softland-policy names no policy of this gateway{hint}");
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message).response()
}

/// The name that was meant, or those that there are: each once, also where flags have put the
/// built-in ones among the gateway's own.
fn hint(own: &[&str], name: &str) -> String {
    let built_in = Policy::NAMES.into_iter().filter(|name| !own.contains(name));
    let names: Vec<&str> = own.iter().copied().chain(built_in).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; known are {}", names.join(", ")),
    }
}

/// What holds for a request without tools: its money, and nothing else. At a limit it is
/// answered, not changed.
pub(super) fn metered(policy: &Policy) -> Policy {
    Policy {
        mode: policy.mode,
        cost_limit_usd: policy.cost_limit_usd,
        session_cost_limit_usd: policy.session_cost_limit_usd,
        reserve_tokens: 0,
        countdown: Countdown::Off,
        landing: Landing::Stop,
        ..Policy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_named_once() {
        let built_in = "; known are default, coding, specialist";
        assert_eq!(hint(&[], "nope"), built_in);
        assert_eq!(hint(&["default", "coding", "specialist"], "nope"), built_in);
        let mixed = "; known are coding, strict, default, specialist";
        assert_eq!(hint(&["coding", "strict"], "nope"), mixed);
        assert_eq!(hint(&["strict"], "stric"), "; did you mean `strict`?");
    }
}
