//! The headers that are passed on, in either direction.
//!
//! All headers are, except those of one connection, those of softland, and credentials where the
//! gateway has its own. Values are never changed.

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE, EXPECT,
    HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::credential::X_API_KEY;
use crate::route::Target;
use crate::settings::Protocol;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// Azure's name for `x-api-key`.
const API_KEY: HeaderName = HeaderName::from_static("api-key");
const PREFIX: &str = "x-softland-";

/// Returns the headers of a client's request as they go upstream. A governed body is sent
/// uncompressed and in one piece, and its response must be readable.
pub(crate) fn to_upstream(client: &HeaderMap, target: &Target, governed: bool) -> HeaderMap {
    let named = ConnectionHeaders::from_headers(client);
    let guard = &target.live.guard;
    let own = target.origin.key().map(|key| key.header_for(credential_name(client, target)));
    let mut headers = HeaderMap::with_capacity(client.len() + 2);
    for (name, value) in client {
        let dropped = is_hop(name)
            || matches!(*name, HOST | CONTENT_LENGTH | EXPECT)
            || governed && matches!(*name, ACCEPT_ENCODING | CONTENT_ENCODING)
            || is_credential(name) && (own.is_some() || guard.is_token(value))
            || name.as_str().starts_with(PREFIX)
            || named.contains_name(name);
        if !dropped {
            let mut value = value.clone();
            if is_credential(name) || *name == COOKIE {
                // No library on the way may log it, and no HTTP/2 table may keep it.
                value.set_sensitive(true);
            }
            headers.append(name, value);
        }
    }
    if governed {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if let Some((name, value)) = own {
        headers.insert(name, value.clone());
    }
    headers
}

/// Returns the headers of an upstream's response as they go to the client, without
/// `content-length`: the body that is sent knows its own length.
pub(crate) fn to_client(upstream: &HeaderMap) -> HeaderMap {
    let named = ConnectionHeaders::from_headers(upstream);
    let mut headers = HeaderMap::with_capacity(upstream.len() + 4);
    for (name, value) in upstream {
        let dropped = is_hop(name)
            || *name == CONTENT_LENGTH
            || name.as_str().starts_with(PREFIX)
            || named.contains_name(name);
        if !dropped {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// Returns the header for the gateway's own key: the vendor's; for other providers, the one that
/// the client used.
fn credential_name(client: &HeaderMap, target: &Target) -> HeaderName {
    match target.origin.name() {
        "anthropic" => X_API_KEY,
        "openai" => AUTHORIZATION,
        _ if client.contains_key(X_API_KEY) => X_API_KEY,
        _ if client.contains_key(AUTHORIZATION) => AUTHORIZATION,
        _ if target.protocol == Protocol::Anthropic => X_API_KEY,
        _ => AUTHORIZATION,
    }
}

fn is_credential(name: &HeaderName) -> bool {
    matches!(*name, AUTHORIZATION) || *name == X_API_KEY || *name == API_KEY
}

/// Returns true for the headers of one connection: RFC 9110 §7.6.1 and their predecessors.
fn is_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        CONNECTION
            | PROXY_AUTHENTICATE
            | PROXY_AUTHORIZATION
            | TE
            | TRAILER
            | TRANSFER_ENCODING
            | UPGRADE
    ) || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
}

/// The headers that `Connection` lists.
struct ConnectionHeaders<'a>(Vec<&'a [u8]>);

impl<'a> ConnectionHeaders<'a> {
    fn from_headers(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter();
        let tokens = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let names = tokens.map(<[u8]>::trim_ascii).filter(|name| {
            !name.is_empty()
                && !name.eq_ignore_ascii_case(b"keep-alive")
                && !name.eq_ignore_ascii_case(b"close")
        });
        Self(names.collect())
    }

    fn contains_name(&self, header: &HeaderName) -> bool {
        let header = header.as_str().as_bytes();
        self.0.iter().any(|name| name.eq_ignore_ascii_case(header))
    }
}
