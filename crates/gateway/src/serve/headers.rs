//! The headers that are passed on, in either direction.
//!
//! All headers are, except those of one connection, those of softland, and credentials where the
//! gateway has its own. Values are never changed.

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE, EXPECT, HOST,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use softland_govern::Protocol;
use softland_govern::headers::{ConnectionHeaders, PREFIX, is_hop};

use crate::serve::credential::X_API_KEY;
use crate::serve::guard::Guard;
use crate::serve::upstream::Origin;

/// Azure's name for `x-api-key`.
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// Returns the headers of a client's request as they go upstream. A governed body is sent
/// uncompressed and in one piece, and its response must be readable.
pub(crate) fn to_upstream(
    client: &HeaderMap,
    guard: &Guard,
    (origin, protocol): (&Origin, Protocol),
    governed: bool,
) -> HeaderMap {
    let named = ConnectionHeaders::from_headers(client);
    let own = origin.key().map(|key| key.header_for(credential_name(client, origin, protocol)));
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

/// Returns the header for the gateway's own key: the vendor's; for other providers, the one that
/// the client used.
fn credential_name(client: &HeaderMap, origin: &Origin, protocol: Protocol) -> HeaderName {
    match origin.name() {
        "anthropic" => X_API_KEY,
        "openai" => AUTHORIZATION,
        _ if client.contains_key(X_API_KEY) => X_API_KEY,
        _ if client.contains_key(AUTHORIZATION) => AUTHORIZATION,
        _ if protocol == Protocol::Anthropic => X_API_KEY,
        _ => AUTHORIZATION,
    }
}

fn is_credential(name: &HeaderName) -> bool {
    matches!(*name, AUTHORIZATION) || *name == X_API_KEY || *name == API_KEY
}
