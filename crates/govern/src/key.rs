//! The gateway's own keys: who asks, which account pays, and which policies a request may select.
//!
//! What a request names (its run, its session, a stored response) is kept apart by key, so that
//! nobody joins, reads or spends what belongs to another key.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
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

/// The most bytes of a key's name.
const NAME_BYTES: usize = 64;
/// The most bytes of an account's path.
const ACCOUNT_BYTES: usize = 256;

/// Returns true if a text may be the name of a key: letters, digits and any of `. _ - @`, and neither
/// `.` nor `..`.
#[must_use]
pub fn is_key_name(text: &str) -> bool {
    is_account_part(text) && text.len() <= NAME_BYTES
}

/// Returns true if a text may be the path of an account: parts as those of a key's name, with `/`
/// between.
#[must_use]
pub fn is_account(text: &str) -> bool {
    text.split('/').all(is_account_part) && text.len() <= ACCOUNT_BYTES
}

/// Returns true if a text may be a part of an account's path.
#[must_use]
pub fn is_account_part(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    // Names are parts of paths and addresses, in which dots lead elsewhere.
    !matches!(text, "" | "." | "..") && text.chars().all(plain)
}

/// The SHA-256 digest of a token. Digests of tokens that nobody can guess are no secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Wraps the digest of a token.
    #[must_use]
    pub fn from_sha256(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Parses 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> =
            text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .filter_map(|pair| Some((pair.first()? << 4) | pair.get(1)?))
            .collect();
        if digits.len() != 64 { None } else { Some(Self(bytes.try_into().ok()?)) }
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenDigest({self})")
    }
}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| D::Error::custom("no SHA-256 digest in hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k66_accounts_are_paths_whose_parts_are_names() {
        for account in ["acme", "acme/search/ana", "a.b/c-d_e@f", "...", ".a/b."] {
            assert!(is_account(account), "{account}");
        }
        for wrong in
            ["", "/", "acme/", "/acme", "a//b", ".", "..", "../a", "a/..", "a/./b", "a b", "a/*"]
        {
            assert!(!is_account(wrong), "{wrong}");
        }
        assert!(!is_account(&"a".repeat(257)) && !is_key_name("..") && is_key_name("ana@acme.org"));
    }

    #[test]
    fn digests_are_written_as_other_programs_write_them() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = TokenDigest::from_hex(abc).expect("a digest");
        assert_eq!(digest.to_string(), abc);
        assert_eq!(TokenDigest::from_hex(&abc.to_uppercase()), Some(digest));
        for wrong in ["", "ba78", &abc[1..], &format!("{abc}00"), &abc.replace('b', "g")] {
            assert_eq!(TokenDigest::from_hex(wrong), None, "{wrong}");
        }
    }
}
