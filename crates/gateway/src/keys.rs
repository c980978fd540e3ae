//! The gateway's own keys by the digests of their tokens. The tokens themselves are not kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use softland_govern::ClientKey;

/// The SHA-256 digest of a token. Digests of tokens that nobody can guess are no secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Computes the digest of a token.
    #[must_use]
    pub fn from_token(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
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

/// The digits of a token's digest that name a key without a name.
const NAME_DIGITS: usize = 8;

/// A key, and the digest of the token that a client shows for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The digest of its token.
    pub digest: TokenDigest,
    /// The key.
    pub key: ClientKey,
}

impl KeyEntry {
    /// Creates a key without a name and an account: it is named by the first digits of its digest.
    #[must_use]
    pub fn from_token(token: &str) -> Self {
        let digest = TokenDigest::from_token(token.as_bytes());
        let name: String = digest.to_string().chars().take(NAME_DIGITS).collect();
        Self { digest, key: ClientKey { name: name.into(), ..ClientKey::default() } }
    }
}

/// The keys of one configuration.
#[derive(Debug, Default)]
pub(crate) struct KeyRing(HashMap<TokenDigest, Arc<ClientKey>>);

impl KeyRing {
    /// Collects the keys. Of two with one token, the first one counts.
    pub(crate) fn from_entries(entries: &[KeyEntry]) -> Self {
        let mut keys = HashMap::new();
        for entry in entries {
            keys.entry(entry.digest).or_insert_with(|| Arc::new(entry.key.clone()));
        }
        Self(keys)
    }

    /// Returns true if clients need no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the key of a token. The time that this takes says something of the token's digest, and
    /// so nothing of the token.
    pub(crate) fn find_key(&self, token: &[u8]) -> Option<&Arc<ClientKey>> {
        if self.is_empty() || token.is_empty() {
            return None;
        }
        self.0.get(&TokenDigest::from_token(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_as_other_programs_write_them() {
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = TokenDigest::from_token(b"abc");
        assert_eq!(digest.to_string(), abc);
        assert_eq!(TokenDigest::from_hex(abc), Some(digest));
        assert_eq!(TokenDigest::from_hex(&abc.to_uppercase()), Some(digest));
        for wrong in ["", "ba78", &abc[1..], &format!("{abc}00"), &abc.replace('b', "g")] {
            assert_eq!(TokenDigest::from_hex(wrong), None, "{wrong}");
        }
        assert_eq!(&*KeyEntry::from_token("abc").key.name, "ba7816bf");
    }
}
