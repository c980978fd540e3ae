//! Requests that spend money which the gateway cannot count: batches, background responses,
//! protocols that are not governed. Under a cost limit they are refused, or the limit would not
//! hold.

use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode};
use softland_session::core::policy::Policy;

use crate::body::Body;
use crate::errors::Refusal;
use crate::key::ClientKey;
use crate::settings::{GovernSettings, NotSelectable};
use crate::target::Target;

const POLICY: HeaderName = HeaderName::from_static("x-softland-policy");

/// Returns true if a request that is passed through spends money. It then passes without being
/// counted.
///
/// # Errors
/// Returns a refusal if a cost limit may apply to the request and `allow_unmetered` is not set, or
/// if the request selects a policy that it may not.
pub fn check_unmetered(target: &Target, parts: &Parts) -> Result<bool, Refusal> {
    if parts.method != Method::POST || is_free(target.path.path()) {
        return Ok(false);
    }
    let settings = &*target.settings;
    let named = parts.headers.get(POLICY).and_then(|value| value.to_str().ok());
    let limited = cost_limit_applies(settings, named, target.key.as_deref())
        .map_err(|error| Refusal::new(StatusCode::FORBIDDEN, target.protocol, error.to_string()))?;
    if limited && !settings.allow_unmetered {
        return Err(unmetered_refusal(target, ""));
    }
    Ok(true)
}

/// Returns the refusal of a request whose cost cannot be counted. `with` names the part of the
/// request that is the reason.
pub fn unmetered_refusal(target: &Target, with: &str) -> Refusal {
    let message = format!(
        "what POST {}{with} costs cannot be counted, and a cost limit or a budget applies; \
         allow_unmetered = true in the configuration lets it pass",
        target.path.path()
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message)
}

/// The mark of a response to a request whose cost was not counted.
#[derive(Clone, Copy, Debug)]
struct Unmetered;

/// Returns the same response, marked for the metrics of its request.
pub fn mark_unmetered(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(Unmetered);
    response
}

/// Returns true if the response is marked as not counted.
pub fn is_unmetered(response: &Response<Body>) -> bool {
    response.extensions().get::<Unmetered>().is_some()
}

/// Returns true for a POST that no vendor bills.
fn is_free(path: &str) -> bool {
    let below = |known: &str| {
        path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    ["/v1/files", "/v1/uploads"].into_iter().any(below)
        || ["/v1/moderations", "/v1/responses/input_tokens"].contains(&path)
        || path.ends_with("/cancel")
}

/// Returns true if a policy that may apply limits costs. The model, and so the route, is in a body
/// that is not read, so every route is possible.
///
/// # Errors
/// Returns the policies that may be selected, if the header names another one.
fn cost_limit_applies(
    settings: &GovernSettings,
    header: Option<&str>,
    key: Option<&ClientKey>,
) -> Result<bool, NotSelectable> {
    let budgeted = !settings.key_budgets(key).is_empty();
    let limits = |policy: &Policy| (policy.limits_money() || budgeted) && !policy.is_observing();
    let limited = |name: &str| settings.find_policy(name).is_none_or(|policy| limits(&policy));
    if let Some(name) = settings.selected_policy(header, key)? {
        return Ok(limited(name));
    }
    let mut routes = settings.routes.iter().filter_map(|route| route.policy.as_deref());
    Ok(routes.any(limited) || limited("default"))
}
