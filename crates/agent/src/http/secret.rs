//! A credential that cannot be printed by accident.

use std::fmt;

/// A credential. `Debug` and `Display` do not show it; comparing and cloning work as for text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes `text` as a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the credential itself, for the one place that writes it into a header.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of the credential in `text`.
    pub(super) fn redact_text(&self, text: &str) -> String {
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
