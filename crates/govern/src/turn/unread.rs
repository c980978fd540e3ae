//! Requests to a governed path that cannot be read: which of them are passed on, and the answer to
//! the others.
//!
//! The upstream may accept what this parser does not, so without a limit such a request is passed
//! on as it came. Under a limit it is not sent, since neither its content nor its result could be
//! counted.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use softland_session::core::lines::LOCAL_ANSWER;
use softland_session::core::policy::Policy;
use softland_session::local_response;
use softland_session::wire::Api;
use softland_session::wire::json::{Cursor, Error};

use crate::body::Body;
use crate::errors::Refusal;
use crate::identify::Identity;
use crate::key::ClientKey;
use crate::request::ClientRequest;
use crate::services::Services;
use crate::settings::{GovernSettings, NotSelectable};
use crate::target::Target;

const INTERVENTIONS: HeaderName = HeaderName::from_static("x-softland-interventions");

/// The members of a request that determine its limits.
#[derive(Debug, Default, PartialEq, Eq)]
struct PartialRequest {
    model: Option<String>,
    streams: bool,
}

impl PartialRequest {
    /// Reads the members of a body up to the first error.
    fn from_body(body: &[u8]) -> Self {
        let mut glimpse = Self::default();
        let read = Cursor::from_bytes(body).and_then(|mut cursor| {
            cursor.read_members(|cursor, member| {
                if member.key.eq_str("model") {
                    let model = cursor.read_string_or_skip()?;
                    glimpse.model = model.map(|(model, _)| model.unescape().into_owned());
                } else if member.key.eq_str("stream") {
                    glimpse.streams = cursor.read_bool_or_skip()? == Some(true);
                }
                Ok::<_, Error>(())
            })
        });
        if read.is_err() {
            tracing::debug!("only a part of the request's members could be read");
        }
        glimpse
    }
}

/// Answers a request that cannot be read if a limit holds for it; `None` if it may pass. `why` is
/// the problem, `body` the part of the body that is plain.
///
/// # Errors
/// Returns a refusal if the request selects a policy that it may not.
pub(super) fn stop_unread(
    services: &Services,
    (target, api): (&Target, Api),
    parts: &Parts,
    body: &[u8],
    why: &str,
) -> Result<Option<Response<Body>>, Refusal> {
    let glimpse = PartialRequest::from_body(body);
    let settings = &*target.settings;
    let header = Identity::from_headers(&parts.headers, None).policy;
    let limited =
        is_limited(settings, (header.as_deref(), target.key.as_deref()), glimpse.model.as_deref());
    let limited = limited
        .map_err(|error| Refusal::new(StatusCode::FORBIDDEN, target.protocol, error.to_string()))?;
    if !limited {
        return Ok(None);
    }
    tracing::warn!(id = %target.id, why, "stopped: it cannot be read, and a limit holds");
    services.meter.count_event("unread_stopped");
    services.meter.count_intervention("stop");
    let text = format!(
        "{LOCAL_ANSWER}\n\nThe request was not sent: softland could not read it ({why}), so the \
         limits that hold for it could not be kept."
    );
    let streams = glimpse.streams || takes_events(&parts.headers);
    let model = glimpse.model.unwrap_or_default();
    let bytes = local_response(api, streams, &model, &text, services.now() / 1000);
    let mut response = Response::new(Body::from_bytes(bytes));
    let kind = if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(INTERVENTIONS, HeaderValue::from_static("stop"));
    Ok(Some(response))
}

/// Answers a request whose body cannot be decoded, if a limit holds for it; `None` if it may pass.
///
/// # Errors
/// Returns a refusal if the request selects a policy that it may not.
pub fn stop_opaque(asked: &ClientRequest, why: &str) -> Result<Option<Response<Body>>, Refusal> {
    let target = (&asked.target, asked.active.api);
    stop_unread(&asked.services, target, &asked.parts, &[], why)
}

/// Returns true if a limit holds for a request. Without a known model, any route's policy may hold.
fn is_limited(
    settings: &GovernSettings,
    (header, key): (Option<&str>, Option<&ClientKey>),
    model: Option<&str>,
) -> Result<bool, NotSelectable> {
    let budgeted = !settings.key_budgets(key).is_empty();
    let limits = |policy: &Policy| {
        let money = (policy.limits_money() || budgeted) && !settings.allow_unmetered;
        !policy.is_observing() && (money || policy.limits_work())
    };
    let limited = |name: &str| settings.find_policy(name).is_none_or(|policy| limits(&policy));
    if let Some(name) = settings.selected_policy(header, key)? {
        return Ok(limited(name));
    }
    if let Some(model) = model {
        let route = settings.routes.iter().find(|route| route.matches_model(model));
        return Ok(limited(route.and_then(|route| route.policy.as_deref()).unwrap_or("default")));
    }
    let mut routed = settings.routes.iter().filter_map(|route| route.policy.as_deref());
    Ok(routed.any(limited) || limited("default"))
}

/// Returns true if a client accepts a stream. For a compressed body nothing else is known.
fn takes_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.to_ascii_lowercase().contains("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_fault_is_read() {
        let glimpse = |model: Option<&str>, streams| PartialRequest {
            model: model.map(str::to_owned),
            streams,
        };
        for (body, wanted) in [
            (r#"{"model":"m","stream":true,"messages":"#, glimpse(Some("m"), true)),
            (r#"{"stream" : true, "prompt":{"id":"p"}}"#, glimpse(None, true)),
            (
                r#"{"x":{"stream":true},"model":"a\u0062","stream":false}"#,
                glimpse(Some("ab"), false),
            ),
            (r#"{"text":"\"stream\":true","model":3}"#, glimpse(None, false)),
            ("[]", glimpse(None, false)),
            ("", glimpse(None, false)),
        ] {
            assert_eq!(PartialRequest::from_body(body.as_bytes()), wanted, "{body}");
        }
    }
}
