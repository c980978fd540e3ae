//! The gateway's own keys: who asks, which account pays, and which policies a request may select.
//!
//! What a request names (its run, its session, a stored response) is kept apart by key, so that
//! nobody joins, reads or spends what belongs to another key.

use std::sync::Arc;

use softland_session::core::Digest;

/// A key of the gateway's own, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientKey {
    /// Its name, which a new secret does not change.
    pub name: Arc<str>,
    /// The account that pays: a path whose beginnings are accounts, too.
    pub account: Option<Arc<str>>,
    /// The policy of its requests, before the route's.
    pub policy: Option<String>,
    /// The names that `x-softland-policy` may select; `None`: those of the settings.
    pub policies: Option<Vec<String>>,
}

impl ClientKey {
    /// Returns a name that a request carries, kept apart from the same name of other keys.
    pub(crate) fn scope_name(key: Option<&Self>, name: &str) -> String {
        // The length keeps the parts apart, whatever is in them.
        key.map_or_else(
            || name.to_owned(),
            |key| format!("key:{}:{}:{name}", key.name.len(), key.name),
        )
    }

    /// Returns a digest of content, kept apart from the same content of other keys.
    pub(crate) fn scope_digest(key: Option<&str>, digest: Digest) -> Digest {
        key.map_or(digest, |key| {
            let name = Digest::from_bytes(key.as_bytes());
            Digest::from_bytes(b"key").followed_by(name).followed_by(digest)
        })
    }
}
