//! The headers of responses that go to clients, and what a request's headers say of its way.
//!
//! All headers are passed on, except those of one connection and those of softland. Values are
//! never changed.

use http::header::{
    CONNECTION, CONTENT_LENGTH, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// The beginning of the names of softland's own headers.
pub const PREFIX: &str = "x-softland-";

/// Headers with which a proxy marks a request that it forwards.
const PASSED_ON: [HeaderName; 3] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// Returns true if a proxy has marked the request as forwarded.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    PASSED_ON.iter().any(|name| headers.contains_key(name))
}

/// Returns the headers of an upstream's response as they go to the client, without
/// `content-length`: the body that is sent knows its own length.
pub fn to_client(upstream: &HeaderMap) -> HeaderMap {
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

/// Returns true for the headers of one connection: RFC 9110 §7.6.1 and their predecessors.
pub fn is_hop(name: &HeaderName) -> bool {
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
pub struct ConnectionHeaders<'a>(Vec<&'a [u8]>);

impl<'a> ConnectionHeaders<'a> {
    /// Reads the headers that `Connection` lists.
    pub fn from_headers(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter();
        let tokens = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let names = tokens.map(<[u8]>::trim_ascii).filter(|name| {
            !name.is_empty()
                && !name.eq_ignore_ascii_case(b"keep-alive")
                && !name.eq_ignore_ascii_case(b"close")
        });
        Self(names.collect())
    }

    /// Returns true if `Connection` lists this header.
    pub fn contains_name(&self, header: &HeaderName) -> bool {
        let header = header.as_str().as_bytes();
        self.0.iter().any(|name| name.eq_ignore_ascii_case(header))
    }
}
