//! A credential that cannot be printed by accident.
//!
//! The agent crate has a type like it. It is not shared, because a type of another crate would have
//! to expose the credential publicly: here only this crate can read it.

use std::fmt;

use softland_govern::TokenDigest;

use crate::keys::{KeyEntry, digest_token};

/// A credential. `Debug` and `Display` do not show it; it is compared and cloned like text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text` as a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the credential itself, for the one place that writes it into a header.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the digest of the credential, for a key of the gateway's own.
    #[must_use]
    pub fn to_digest(&self) -> TokenDigest {
        digest_token(self.0.as_bytes())
    }

    /// Returns the key whose token this is, without an account.
    #[must_use]
    pub fn to_key(&self) -> KeyEntry {
        KeyEntry::from_token(&self.0)
    }

    /// Returns `text` with every occurrence of the credential replaced.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[redacted]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
