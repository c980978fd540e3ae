//! Routing of a request by its path alone: the upstream, the protocol, and whether softland governs
//! the path.
//!
//! The upstream's origin never comes from a client; only path and query do.

use std::sync::Arc;
use std::time::Instant;

use http::header::HeaderName;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri};

use softland_govern::{ClientKey, Protocol, Refusal, RequestId, Target};
use softland_session::wire::Api;

use crate::page_files;
use crate::serve::upstream::Origin;
use crate::state::LiveConfig;

/// The destination of a request.
#[derive(Debug)]
pub(crate) enum Destination {
    /// `/healthz`: the process is alive.
    Health,
    /// `/readyz`: the gateway accepts requests.
    Ready,
    /// `/metrics`: the counters.
    Metrics,
    /// A page, or a file or an API path that a page requests.
    Pages,
    /// A path of a provider.
    Provider {
        /// The upstream.
        origin: Arc<Origin>,
        /// The protocol for errors.
        protocol: Protocol,
        /// The endpoint.
        route: Endpoint,
        /// The path that is sent upstream, from `/v1/` on, with its query.
        path: PathAndQuery,
    },
}

/// An endpoint of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/responses/compact`
    Compact,
    /// Anything else under `/v1/`, passed through.
    Other,
}

impl Endpoint {
    /// Returns the API whose turns, or whose token counts, this endpoint serves; `None` if the
    /// endpoint is not governed.
    pub(crate) fn api(self) -> Option<Api> {
        match self {
            Self::Messages | Self::CountTokens => Some(Api::Anthropic),
            Self::ChatCompletions => Some(Api::Chat),
            Self::Responses | Self::Compact => Some(Api::Responses),
            Self::Other => None,
        }
    }

    /// Returns the label of this endpoint in metrics.
    pub(crate) fn metric_label(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::ChatCompletions => "chat_completions",
            Self::Responses => "responses",
            Self::Compact => "responses_compact",
            Self::Other => "other",
        }
    }
}

/// One request to a provider, with the settings that hold for it.
#[derive(Clone)]
pub(crate) struct RoutedRequest {
    /// The upstream.
    pub(crate) origin: Arc<Origin>,
    /// The protocol that gives errors their shape.
    pub(crate) protocol: Protocol,
    /// The endpoint.
    pub(crate) route: Endpoint,
    /// The path upstream, from `/v1/` on, with its query. A governed path is written exactly as its
    /// API defines it.
    pub(crate) path: PathAndQuery,
    /// The settings of this request, until it ends.
    pub(crate) live: Arc<LiveConfig>,
    /// The key that asks; `None` if the gateway has no keys.
    pub(crate) key: Option<Arc<ClientKey>>,
    /// The gateway's name for the request.
    pub(crate) id: RequestId,
    /// The time at which the request's head was complete.
    pub(crate) began: Instant,
}

impl RoutedRequest {
    /// Returns the destination as governing sees it. `uri` is the client's.
    pub(crate) fn to_target(&self, uri: &Uri) -> Target {
        Target {
            upstream: Arc::clone(self.origin.label()),
            protocol: self.protocol,
            path: self.path.clone(),
            direct: uri.path().starts_with("/to/"),
            settings: Arc::clone(&self.live.govern),
            key: self.key.clone(),
            id: self.id,
            began: self.began,
        }
    }
}

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The governed paths, each with the method POST.
const GOVERNED: [(&str, Endpoint); 5] = [
    ("/v1/messages", Endpoint::Messages),
    ("/v1/messages/count_tokens", Endpoint::CountTokens),
    ("/v1/chat/completions", Endpoint::ChatCompletions),
    ("/v1/responses", Endpoint::Responses),
    ("/v1/responses/compact", Endpoint::Compact),
];

/// The paths of a provider beside `/v1/` that clients ask for, each with its protocol. Claude Code
/// sends HEAD `/api/hello` to see that its provider is there (client 2.1.332, 2026-11-26).
const BESIDE: [(&str, Protocol); 1] = [("/api/hello", Protocol::Anthropic)];

/// Finds the destination of a request.
///
/// # Errors
/// Returns a refusal if the path leads nowhere or may be read in two ways.
pub(crate) fn find_destination(
    live: &LiveConfig,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Destination, Refusal> {
    match uri.path() {
        "/healthz" => return Ok(Destination::Health),
        "/readyz" => return Ok(Destination::Ready),
        "/metrics" => return Ok(Destination::Metrics),
        path if page_files::is_page_path(path) && find_beside(path).is_none() => {
            return Ok(Destination::Pages);
        }
        _ => {}
    }
    let (named, skip) = match uri.path().strip_prefix("/to/") {
        Some(rest) => {
            let name = rest.split('/').next().unwrap_or_default();
            (Some(name), "/to/".len() + name.len())
        }
        None => (None, 0),
    };
    let path = uri.path().get(skip..).unwrap_or_default();
    let governed = find_governed(path).filter(|_| *method == Method::POST);
    let protocol = match governed.and_then(|(_, route)| route.api()) {
        Some(Api::Anthropic) => Protocol::Anthropic,
        Some(Api::Chat | Api::Responses) => Protocol::OpenAi,
        None => find_beside(path)
            .unwrap_or_else(|| detect_protocol(named.unwrap_or_default(), path, headers)),
    };
    let nowhere = |message: String| Refusal::new(StatusCode::NOT_FOUND, protocol, message);
    let origin = match named {
        Some(name) => live.origins.get(name).ok_or_else(|| nowhere(unknown_upstream(live)))?,
        None => {
            let name = match protocol {
                Protocol::Anthropic => "anthropic",
                Protocol::OpenAi => "openai",
            };
            live.origins.get(name).ok_or_else(|| {
                nowhere(format!("this path goes to [upstream.{name}], which is not configured"))
            })?
        }
    };
    let whole = uri.path_and_query().ok_or_else(|| nowhere("the request has no path".into()))?;
    let (route, path) = match governed {
        Some((known, route)) if known != path => (route, known_path(known, whole.query())),
        Some((_, route)) => (route, skip_prefix(whole, skip)),
        None => {
            let refuse = |what: String| Refusal::new(StatusCode::BAD_REQUEST, protocol, what);
            let before = uri.path().get(..skip).unwrap_or_default();
            sound(before, path).map_err(refuse)?;
            if !path.starts_with("/v1/") && find_beside(path).is_none() {
                return Err(nowhere(match named {
                    Some(_) => "the path behind /to/NAME must begin with /v1/".to_owned(),
                    None => "there is nothing at this path: /v1/… and /to/NAME/v1/… are served"
                        .to_owned(),
                }));
            }
            (Endpoint::Other, skip_prefix(whole, skip))
        }
    };
    let path = path.ok_or_else(|| nowhere("the request has no path".into()))?;
    Ok(Destination::Provider { origin: Arc::clone(origin), protocol, route, path })
}

/// Returns the protocol of a provider's path beside `/v1/`.
fn find_beside(path: &str) -> Option<Protocol> {
    BESIDE.iter().find(|(known, _)| *known == path).map(|(_, protocol)| *protocol)
}

/// Returns the governed path that `path` stands for, also with an extra slash or a second `/v1`.
/// Clients that join a base URL and a path carelessly write such paths.
fn find_governed(path: &str) -> Option<(&'static str, Endpoint)> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty()).peekable();
    segments.next_if_eq(&"v1")?;
    while segments.next_if_eq(&"v1").is_some() {}
    let rest: Vec<&str> = segments.collect();
    GOVERNED.into_iter().find(|(known, _)| known.split('/').skip(2).eq(rest.iter().copied()))
}

/// Returns the governed path that a less careful server could take `path` for: one that ignores
/// case, decodes escapes first, drops parameters or ignores a prefix.
fn find_lookalike(path: &str) -> Option<&'static str> {
    let plain = String::from_utf8_lossy(&decode_percent(path)).to_lowercase();
    let plain = plain.split(['?', '#']).next().unwrap_or_default();
    let segments = plain.split(['/', '\\']);
    let segments = segments.map(|segment| segment.split(';').next().unwrap_or_default().trim());
    let segments: Vec<&str> = segments.filter(|segment| !segment.is_empty()).collect();
    let ends_in = |known: &str| {
        let known: Vec<&str> = known.split('/').filter(|segment| !segment.is_empty()).collect();
        segments.ends_with(&known)
    };
    if ends_in("chat/completion") {
        return Some("/v1/chat/completions");
    }
    // OpenAI's threads have messages, which no model answers.
    let known = GOVERNED.into_iter().map(|(known, _)| known);
    let mut known = known.filter(|known| ends_in(known.trim_start_matches("/v1")));
    known.next().filter(|_| !segments.contains(&"threads"))
}

/// Returns the protocol of a request that is not governed. Both vendors have paths such as
/// `/v1/models` and `/v1/files`; there, Anthropic's own headers decide.
fn detect_protocol(named: &str, path: &str, headers: &HeaderMap) -> Protocol {
    let below = |known: &str| {
        path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if below("/v1/messages") || below("/v1/complete") {
        Protocol::Anthropic
    } else if below("/v1/chat") || below("/v1/responses") {
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

/// Returns a governed path as it is sent upstream, with the query of the request.
fn known_path(known: &'static str, query: Option<&str>) -> Option<PathAndQuery> {
    match query {
        None => Some(PathAndQuery::from_static(known)),
        Some(query) => PathAndQuery::try_from([known, "?", query].concat()).ok(),
    }
}

/// Returns the path and query behind the first `skip` bytes.
fn skip_prefix(whole: &PathAndQuery, skip: usize) -> Option<PathAndQuery> {
    PathAndQuery::try_from(whole.as_str().get(skip..)?).ok()
}

fn unknown_upstream(live: &LiveConfig) -> String {
    let names: Vec<_> = live.origins.keys().map(String::as_str).collect();
    format!("/to/ must be followed by the name of an upstream: {}", names.join(", "))
}

/// Refuses a path that two servers may read differently: one that climbs, that has empty segments
/// or backslashes, or that another server may take for a governed path, which would then reach a
/// provider ungoverned. `before`: the `/to/NAME` in front of the path, for the message.
fn sound(before: &str, path: &str) -> Result<(), String> {
    let meant = find_governed(path).is_some();
    if let Some(known) = find_lookalike(path).filter(|_| !meant) {
        return Err(format!(
            "the path must be written {before}{known}: the base URL of OpenAI's clients ends with \
             /v1, that of Anthropic's does not"
        ));
    }
    if path.contains("//") {
        return Err("the path has an empty segment".to_owned());
    }
    if !path.contains(['%', '.', '\\']) {
        return Ok(());
    }
    let plain = decode_percent(path);
    let climbs = plain.split(|byte| matches!(byte, b'/' | b'\\')).any(|s| s == b"." || s == b"..");
    if climbs || plain.contains(&b'\\') {
        let what = "the path may not contain `.` or `..` segments or backslashes";
        return Err(what.to_owned());
    }
    if plain.iter().any(u8::is_ascii_control) {
        return Err("the path may not contain control characters".to_owned());
    }
    Ok(())
}

/// Decodes `%XX` once, as a server does.
pub(crate) fn decode_percent(path: &str) -> Vec<u8> {
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
