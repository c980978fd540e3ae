//! The choice of a request's policy and upstream: what is selected for the request, else its
//! model's route, else `default`.

use std::sync::Arc;

use http::{Response, StatusCode};
use softland_session::core::policy::{Countdown, Landing, Policy};

use crate::body::Body;
use crate::errors::Refusal;
use crate::settings::{NotSelectable, Shaping};
use crate::target::Target;

/// The settings for a request that is new to its run.
#[derive(Clone, Debug)]
pub(super) struct ChosenPolicy {
    pub(super) name: String,
    pub(super) policy: Policy,
    /// The upstream's name.
    pub(super) upstream: Arc<str>,
    /// The shape of its text, if its model writes calls as text.
    pub(super) shaping: Option<Shaping>,
}

/// Chooses what is selected, else the route's policy, else the default. A path that names the
/// upstream itself keeps that upstream.
///
/// # Errors
/// Returns the response for a policy that may not be selected, or does not exist.
pub(super) fn choose_policy(
    target: &Target,
    model: &str,
    header: Option<&str>,
) -> Result<ChosenPolicy, Box<Response<Body>>> {
    let settings = &target.settings;
    let route = settings.routes.iter().find(|route| route.matches_model(model));
    let named = route.and_then(|route| route.upstream.as_deref()).filter(|_| !target.direct);
    let upstream = named.and_then(|name| settings.upstreams.get(name)).unwrap_or(&target.upstream);
    let upstream = Arc::clone(upstream);
    let routed = route.and_then(|route| route.policy.as_deref());
    let selected = settings
        .selected_policy(header, target.key.as_deref())
        .map_err(|error| Box::new(refuse_forbidden(target, &error)))?;
    let name = selected.or(routed).unwrap_or("default");
    let shape = route.and_then(|route| route.shape.as_deref());
    let shaping = shape.and_then(|name| settings.shapes.get(name)).cloned();
    let Some(policy) = settings.find_policy(name) else {
        return Err(Box::new(refuse_missing(target, name)));
    };
    Ok(ChosenPolicy { name: name.to_owned(), policy, upstream, shaping })
}

/// Refuses a header that selects a forbidden policy. Passing the request under other limits than
/// its client expects would be worse.
fn refuse_forbidden(target: &Target, error: &NotSelectable) -> Response<Body> {
    Refusal::new(StatusCode::FORBIDDEN, target.protocol, error.to_string()).to_response()
}

/// Refuses a request whose policy the configuration names but does not define. That is the
/// operator's mistake, and must not lift a limit.
fn refuse_missing(target: &Target, name: &str) -> Response<Body> {
    let message =
        format!("this gateway's configuration names a policy `{name}` that it does not have");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, target.protocol, message).to_response()
}

/// Returns the policy for a request without tools: its money limits, and nothing else. At a limit
/// it is answered, not changed.
pub(super) fn metered_policy(policy: &Policy) -> Policy {
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
