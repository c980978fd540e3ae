//! The gateway's own key for an upstream, as headers.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the value of a header with the gateway's own key.
fn key_value(name: &HeaderName, key: &str) -> Option<HeaderValue> {
    let text = if *name == AUTHORIZATION { ["Bearer ", key].concat() } else { key.to_owned() };
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// An upstream's key as both headers.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    x_api_key: HeaderValue,
    bearer: HeaderValue,
}

impl Credential {
    /// Prepares a key; `None` if it has bytes that no header may have.
    pub(crate) fn new(key: &str) -> Option<Self> {
        let x_api_key = key_value(&X_API_KEY, key)?;
        Some(Self { x_api_key, bearer: key_value(&AUTHORIZATION, key)? })
    }

    pub(crate) fn header_for(&self, name: HeaderName) -> (HeaderName, &HeaderValue) {
        let value = if name == AUTHORIZATION { &self.bearer } else { &self.x_api_key };
        (name, value)
    }
}
