//! Where a request goes, by its path alone: to which upstream, in which protocol, and whether it is
//! one that softland governs.
//!
//! The upstream's origin never comes from a client: only path and query do.

use std::sync::Arc;
use std::time::Instant;

use http::header::HeaderName;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri};

use softland_session::wire::Api;

use crate::errors::Refusal;
use crate::gate::Live;
use crate::metrics::RequestId;
use crate::pages;
use crate::settings::Protocol;
use crate::upstream::Origin;

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Way {
    /// Whether the process lives.
    Health,
    /// Whether it takes requests.
    Ready,
    /// Its counters.
    Metrics,
    /// A page, or what one asks for.
    Pages,
    /// Something of a provider.
    Provider {
        /// Which.
        origin: Arc<Origin>,
        /// How it speaks.
        protocol: Protocol,
        /// What.
        route: Route,
        /// The path that goes upstream, from `/v1/` on, with its query.
        path: PathAndQuery,
    },
}

/// A path that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/responses`
    Responses,
    /// Anything else under `/v1/`, passed through.
    Other,
}

impl Route {
    /// The API that it is a turn of, or the counting of one; `None` where nothing is governed.
    pub(crate) fn api(self) -> Option<Api> {
        match self {
            Self::Messages | Self::CountTokens => Some(Api::Anthropic),
            Self::ChatCompletions => Some(Api::Chat),
            Self::Responses => Some(Api::Responses),
            Self::Other => None,
        }
    }

    /// Its word in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::ChatCompletions => "chat_completions",
            Self::Responses => "responses",
            Self::Other => "other",
        }
    }
}

/// Where one request goes, and under which settings.
#[derive(Clone)]
pub(crate) struct Target {
    /// The upstream.
    pub(crate) origin: Arc<Origin>,
    /// The shape of errors.
    pub(crate) protocol: Protocol,
    /// What is asked for.
    pub(crate) route: Route,
    /// The path upstream, from `/v1/` on, with its query.
    pub(crate) path: PathAndQuery,
    /// The settings of this request, to its end.
    pub(crate) live: Arc<Live>,
    /// The gateway's name for the request.
    pub(crate) id: RequestId,
    /// When its head was there.
    pub(crate) began: Instant,
}

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Finds the way of a request.
pub(crate) fn find(
    live: &Live,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Way, Refusal> {
    match uri.path() {
        "/healthz" => return Ok(Way::Health),
        "/readyz" => return Ok(Way::Ready),
        "/metrics" => return Ok(Way::Metrics),
        path if pages::is_here(path) => return Ok(Way::Pages),
        _ => {}
    }
    let spoken = speaks(uri.path(), headers);
    sound(uri.path()).map_err(|what| Refusal::new(StatusCode::BAD_REQUEST, spoken, what))?;
    let nowhere = |message: String| Refusal::new(StatusCode::NOT_FOUND, spoken, message);
    let whole = uri.path_and_query().ok_or_else(|| nowhere("the request has no path".into()))?;
    if let Some(rest) = uri.path().strip_prefix("/to/") {
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let origin = live.origins.get(name).ok_or_else(|| nowhere(unknown(live)))?;
        if !path.starts_with("v1/") {
            return Err(nowhere("the path behind /to/NAME must begin with /v1/".to_owned()));
        }
        let path =
            behind(whole, "/to/".len() + name.len()).ok_or_else(|| nowhere(unknown(live)))?;
        return Ok(provider(origin, spoken, method, path));
    }
    if !uri.path().starts_with("/v1/") {
        return Err(nowhere(
            "there is nothing at this path: /v1/… and /to/NAME/v1/… are served".to_owned(),
        ));
    }
    let name = match spoken {
        Protocol::Anthropic => "anthropic",
        Protocol::OpenAi => "openai",
    };
    let origin = live.origins.get(name).ok_or_else(|| {
        nowhere(format!("this path goes to [upstream.{name}], which is not configured"))
    })?;
    Ok(provider(origin, spoken, method, whole.clone()))
}

fn provider(origin: &Arc<Origin>, protocol: Protocol, method: &Method, path: PathAndQuery) -> Way {
    let route = known(method, path.path());
    Way::Provider { origin: Arc::clone(origin), protocol, route, path }
}

fn known(method: &Method, path: &str) -> Route {
    if method != Method::POST {
        return Route::Other;
    }
    match path {
        "/v1/messages" => Route::Messages,
        "/v1/messages/count_tokens" => Route::CountTokens,
        "/v1/chat/completions" => Route::ChatCompletions,
        "/v1/responses" => Route::Responses,
        _ => Route::Other,
    }
}

/// Which protocol a request is in. Both vendors have `/v1/models`, `/v1/files` and the like: there
/// Anthropic's own headers tell.
fn speaks(path: &str, headers: &HeaderMap) -> Protocol {
    let (named, path) = match path.strip_prefix("/to/") {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("", path.strip_prefix('/').unwrap_or(path)),
    };
    let below = |known: &str| {
        path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if below("v1/messages") || below("v1/complete") {
        Protocol::Anthropic
    } else if below("v1/chat") || below("v1/responses") {
        Protocol::OpenAi
    } else if headers.contains_key(ANTHROPIC_VERSION)
        || headers.contains_key(X_API_KEY)
        || named == "anthropic"
    {
        Protocol::Anthropic
    } else {
        Protocol::OpenAi
    }
}

/// The path and query behind the first `skip` bytes.
fn behind(whole: &PathAndQuery, skip: usize) -> Option<PathAndQuery> {
    PathAndQuery::try_from(whole.as_str().get(skip..)?).ok()
}

fn unknown(live: &Live) -> String {
    let names: Vec<_> = live.origins.keys().map(String::as_str).collect();
    format!("/to/ must be followed by the name of an upstream: {}", names.join(", "))
}

/// Refuses paths that two readers may understand in two ways: those that climb, that have empty
/// segments or backslashes, and governed routes written with escapes, which would reach a
/// provider ungoverned.
fn sound(path: &str) -> Result<(), &'static str> {
    if path.contains("//") {
        return Err("the path has an empty segment");
    }
    if !path.contains(['%', '.', '\\']) {
        return Ok(());
    }
    let plain = unescape(path);
    let climbs = plain.split(|byte| matches!(byte, b'/' | b'\\')).any(|s| s == b"." || s == b"..");
    if climbs || plain.contains(&b'\\') {
        return Err("the path may not contain `.` or `..` segments or backslashes");
    }
    if plain.iter().any(u8::is_ascii_control) {
        return Err("the path may not contain control characters");
    }
    let tail = |name: &str| plain.ends_with(name.as_bytes()) && !path.ends_with(name);
    let governed =
        ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses"];
    if governed.into_iter().any(tail) {
        return Err("the path must be written without escapes");
    }
    Ok(())
}

/// `%XX` read once, as a server does.
fn unescape(path: &str) -> Vec<u8> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
