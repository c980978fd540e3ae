//! The gateway's own keys by the digests of their tokens. The tokens themselves are not kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use softland_govern::{ClientKey, TokenDigest};

/// Computes the digest of a token.
#[must_use]
pub fn digest_token(token: &[u8]) -> TokenDigest {
    TokenDigest::from_sha256(Sha256::digest(token).into())
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
        let digest = digest_token(token.as_bytes());
        let name: String = digest.to_string().chars().take(NAME_DIGITS).collect();
        Self { digest, key: ClientKey { name: name.into(), ..ClientKey::default() } }
    }
}

/// The keys of one configuration.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    tokens: HashMap<TokenDigest, Arc<ClientKey>>,
    names: HashSet<Arc<str>>,
}

impl KeyRing {
    /// Collects the keys. Of two with one token, the first one counts.
    pub(crate) fn from_entries(entries: &[KeyEntry]) -> Self {
        let mut keys = HashMap::new();
        for entry in entries {
            keys.entry(entry.digest).or_insert_with(|| Arc::new(entry.key.clone()));
        }
        let names = entries.iter().map(|entry| Arc::clone(&entry.key.name)).collect();
        Self { tokens: keys, names }
    }

    /// Returns true if clients need no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns true if a key has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Finds the key of a token. The time of the lookup depends on the token's digest, from which the
    /// token cannot be guessed.
    pub(crate) fn find_key(&self, token: &[u8]) -> Option<&Arc<ClientKey>> {
        if self.is_empty() || token.is_empty() {
            return None;
        }
        self.tokens.get(&digest_token(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_without_a_name_is_named_by_its_digest() {
        assert_eq!(&*KeyEntry::from_token("abc").key.name, "ba7816bf");
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest_token(b"abc").to_string(), abc);
    }
}
