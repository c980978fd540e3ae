//! Which policy a request has, and which upstream: what is selected for it, else its model's route,
//! else `default`.

use std::sync::Arc;

use http::{Response, StatusCode};
use softland_session::core::policy::{Countdown, Landing, Policy};

use crate::body::Body;
use crate::errors::Refusal;
use crate::route::Target;
use crate::settings::{NotSelectable, Shaping};
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

/// Chooses by what is selected, the route and the default, in this order. A path that names the
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
    let selected =
        settings.selected(header).map_err(|error| Box::new(forbidden(target, &error)))?;
    let name = selected.or(routed).unwrap_or("default");
    let shape = route.and_then(|route| route.shape.as_deref());
    let shaping = shape.and_then(|name| settings.shapes.get(name)).cloned();
    let Some(policy) = settings.policy(name) else { return Err(Box::new(missing(target, name))) };
    Ok(Chosen { name: name.to_owned(), policy, origin, shaping })
}

/// A header that selects what it may not is refused, instead of passing under other limits than
/// its client expects.
fn forbidden(target: &Target, error: &NotSelectable) -> Response<Body> {
    Refusal::new(StatusCode::FORBIDDEN, target.protocol, error.to_string()).response()
}

/// A configuration that names a policy which it has not is the operator's mistake, and no way round
/// a limit.
fn missing(target: &Target, name: &str) -> Response<Body> {
    let message = format!("this gateway's configuration names a policy `{name}` that it has not");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, target.protocol, message).response()
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
