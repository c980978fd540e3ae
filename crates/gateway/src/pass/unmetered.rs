//! Requests that spend money which nobody here can count: batches, background responses,
//! protocols that are not governed. Under a cost limit they are refused, or it would not hold.

use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode};
use softland_session::core::policy::Policy;

use crate::body::Body;
use crate::errors::Refusal;
use crate::route::Target;
use crate::settings::{NotSelectable, Settings};

const POLICY: HeaderName = HeaderName::from_static("x-softland-policy");

/// Whether a request that is passed through spends money. `Ok(true)` passes without being counted.
///
/// # Errors
/// Where a cost limit may apply to it and `allow_unmetered` is not set, and where it selects a
/// policy that it may not.
pub(crate) fn unmetered(target: &Target, parts: &Parts) -> Result<bool, Refusal> {
    if parts.method != Method::POST || is_free(target.path.path()) {
        return Ok(false);
    }
    let settings = &target.live.settings;
    let named = parts.headers.get(POLICY).and_then(|value| value.to_str().ok());
    let limited = applying(settings, named)
        .map_err(|error| Refusal::new(StatusCode::FORBIDDEN, target.protocol, error.to_string()))?;
    if limited && !settings.allow_unmetered {
        return Err(refusal(target, ""));
    }
    Ok(true)
}

/// Says no to a request whose costs nobody here can count; `with`: what in it is the reason.
pub(crate) fn refusal(target: &Target, with: &str) -> Refusal {
    let message = format!(
        "what POST {}{with} costs cannot be counted, and a cost limit applies; allow_unmetered = \
         true in the configuration lets it pass",
        target.path.path()
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message)
}

/// Marks the response to a request that nobody here has counted.
#[derive(Clone, Copy, Debug)]
struct Unmetered;

/// The same response, marked for the account of its request.
pub(crate) fn as_unmetered(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(Unmetered);
    response
}

/// Whether it is marked so.
pub(crate) fn is_unmetered(response: &Response<Body>) -> bool {
    response.extensions().get::<Unmetered>().is_some()
}

/// POSTs that no vendor bills.
fn is_free(path: &str) -> bool {
    let below = |known: &str| {
        path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    ["/v1/files", "/v1/uploads"].into_iter().any(below)
        || ["/v1/moderations", "/v1/responses/input_tokens"].contains(&path)
        || path.ends_with("/cancel")
}

/// Whether a policy that may apply limits costs. The model, and so the route, is in a body that
/// is not read: all routes are possible.
fn applying(settings: &Settings, header: Option<&str>) -> Result<bool, NotSelectable> {
    let limits = |policy: &Policy| policy.limits_money() && !policy.observes();
    let limited = |name: &str| settings.policy(name).is_none_or(|policy| limits(&policy));
    if let Some(name) = settings.selected(header)? {
        return Ok(limited(name));
    }
    let mut routes = settings.routes.iter().filter_map(|route| route.policy.as_deref());
    Ok(routes.any(limited) || limited("default"))
}
