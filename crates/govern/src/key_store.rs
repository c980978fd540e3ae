//! Keys of the gateway's own in a store that the gateways of a fleet share, and how they change: a key
//! is added, gets a new token, or is revoked.
//!
//! The store keeps rows and their version; the rules are here, so that they are the same on every
//! store. It never has a token, only digests.

mod local;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::key::{ClientKey, TokenDigest, is_account, is_key_name};
use crate::store::StoreError;

pub use local::LocalKeyStore;

/// The most keys that a store has, with those that are revoked.
const MOST_KEYS: usize = 20_000;
/// The number of times that a change is tried while others change keys, too.
const ATTEMPTS: usize = 8;

/// A store of keys.
#[async_trait]
pub trait KeyStore: fmt::Debug + Send + Sync {
    /// Returns the keys; `None` if they still have the version that the caller knows. Gateways ask
    /// this all the time, so an unchanged version has to cost little.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached.
    async fn read_keys(&self, known: Option<u64>) -> Result<Option<StoredKeys>, StoreError>;

    /// Stores a key, in place of one of its name, if the keys still have this version. They have a
    /// later version then. Returns false, and stores nothing, if they had another one.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached. Whether the key was stored is then unknown.
    async fn write_key(&self, known: u64, key: &StoredKey) -> Result<bool, StoreError>;
}

/// The keys of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKeys {
    /// Their version, which each change raises; 0 if the store has never had a key.
    pub version: u64,
    /// The keys in the order of their names, with those that are revoked.
    pub keys: Vec<StoredKey>,
    /// The names of keys that this release cannot read. They are not in force.
    pub unreadable: Vec<Arc<str>>,
}

/// A key in a store. All times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// Its name, which no later key has again.
    pub name: Arc<str>,
    /// The digest of its token.
    pub token_sha256: TokenDigest,
    /// The account that pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    /// The policy of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The policies that `x-softland-policy` may select.
    #[serde(default)]
    pub policies: Vec<String>,
    /// The time at which it was added.
    pub created: u64,
    /// The time at which it got its token, if that is not its first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated: Option<u64>,
    /// The token before, while that is still accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousToken>,
    /// The time at which it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

/// A token that another one has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousToken {
    /// Its digest.
    pub token_sha256: TokenDigest,
    /// The time from which on it is refused.
    pub until: u64,
}

impl StoredKey {
    /// Creates a key without an account and policies of its own. `created` is in milliseconds since
    /// 1970.
    #[must_use]
    pub fn new(name: &str, token_sha256: TokenDigest, created: u64) -> Self {
        Self {
            name: name.into(),
            token_sha256,
            account: None,
            policy: None,
            policies: Vec::new(),
            created,
            rotated: None,
            previous: None,
            revoked: None,
        }
    }

    /// Returns the key as requests have it.
    #[must_use]
    pub fn to_client_key(&self) -> ClientKey {
        ClientKey {
            name: Arc::clone(&self.name),
            account: self.account.clone(),
            policy: self.policy.clone(),
            policies: Some(self.policies.clone()),
        }
    }

    /// Returns true if its name and its account have the form that a configuration's must have.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        is_key_name(&self.name) && self.account.as_deref().is_none_or(is_account)
    }
}

impl StoredKeys {
    /// Returns the key of this name.
    #[must_use]
    pub fn find_name(&self, name: &str) -> Option<&StoredKey> {
        self.keys.iter().find(|key| &*key.name == name)
    }

    /// Returns a key whose token may be replaced.
    fn find_in_force(&self, name: &str) -> Result<&StoredKey, KeyChangeError> {
        let key = self.find_name(name).ok_or(KeyChangeError::Unknown)?;
        key.revoked.map_or(Ok(key), |at| Err(KeyChangeError::Revoked(at)))
    }
}

/// The reason why a key was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChangeError {
    /// There is no key of this name.
    Unknown,
    /// There is a key of this name.
    Taken,
    /// The key of this name was revoked then, in milliseconds since 1970.
    Revoked(u64),
    /// The key of this name was written by a release that this one cannot read.
    Unreadable,
    /// The name or the account has a form that no configuration may have.
    Malformed,
    /// The store has as many keys as it may have.
    Full,
    /// Others changed keys all the time.
    Contended,
    /// The store cannot be reached.
    Away(StoreError),
}

impl fmt::Display for KeyChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the shared store has no key of this name",
            Self::Taken => "the shared store has a key of this name",
            Self::Revoked(_) => "the key of this name was revoked",
            Self::Unreadable => "a newer softland wrote the key of this name",
            Self::Malformed => "its name or its account is none",
            Self::Full => {
                return write!(f, "the shared store has {MOST_KEYS} keys, and takes no more");
            }
            Self::Contended => "others changed keys at the same time",
            Self::Away(error) => return write!(f, "{error}"),
        })
    }
}

impl std::error::Error for KeyChangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Away(error) = self { Some(error) } else { None }
    }
}

/// Adds a key.
///
/// # Errors
/// Returns an error if there is, or was, a key of this name, if the key is malformed, or if the
/// store cannot be reached.
pub async fn add_key(store: &dyn KeyStore, key: StoredKey) -> Result<StoredKey, KeyChangeError> {
    if !key.is_well_formed() {
        return Err(KeyChangeError::Malformed);
    }
    let name = Arc::clone(&key.name);
    change_key(store, &name, |keys| match keys.find_name(&name) {
        Some(StoredKey { revoked: Some(at), .. }) => Err(KeyChangeError::Revoked(*at)),
        Some(_) => Err(KeyChangeError::Taken),
        None if keys.keys.len() >= MOST_KEYS => Err(KeyChangeError::Full),
        None => Ok(key.clone()),
    })
    .await
}

/// Gives a key a new token. The one before is accepted for `keep` milliseconds more; one before
/// that is refused at once. `now` is in milliseconds since 1970.
///
/// # Errors
/// Returns an error if there is no such key, if it was revoked, or if the store cannot be reached.
pub async fn rotate_key(
    store: &dyn KeyStore,
    name: &str,
    token: TokenDigest,
    (now, keep): (u64, u64),
) -> Result<StoredKey, KeyChangeError> {
    change_key(store, name, |keys| {
        let key = keys.find_in_force(name)?.clone();
        let before =
            PreviousToken { token_sha256: key.token_sha256, until: now.saturating_add(keep) };
        let previous = Some(before).filter(|_| keep > 0);
        Ok(StoredKey { token_sha256: token, rotated: Some(now), previous, ..key })
    })
    .await
}

/// Revokes a key: all its tokens are refused from then on. A key that was revoked before stays as it
/// is. `now` is in milliseconds since 1970.
///
/// # Errors
/// Returns an error if there is no such key, or if the store cannot be reached.
pub async fn revoke_key(
    store: &dyn KeyStore,
    name: &str,
    now: u64,
) -> Result<StoredKey, KeyChangeError> {
    change_key(store, name, |keys| {
        let key = keys.find_name(name).ok_or(KeyChangeError::Unknown)?.clone();
        Ok(StoredKey { revoked: key.revoked.or(Some(now)), ..key })
    })
    .await
}

/// Reads the keys, decides, and writes; anew while others write in between.
async fn change_key(
    store: &dyn KeyStore,
    name: &str,
    decide: impl Fn(&StoredKeys) -> Result<StoredKey, KeyChangeError>,
) -> Result<StoredKey, KeyChangeError> {
    for _ in 0..ATTEMPTS {
        let keys = store.read_keys(None).await.map_err(KeyChangeError::Away)?.unwrap_or_default();
        if keys.unreadable.iter().any(|unreadable| &**unreadable == name) {
            return Err(KeyChangeError::Unreadable);
        }
        let changed = decide(&keys)?;
        if keys.find_name(name) == Some(&changed) {
            return Ok(changed);
        }
        if store.write_key(keys.version, &changed).await.map_err(KeyChangeError::Away)? {
            return Ok(changed);
        }
    }
    Err(KeyChangeError::Contended)
}
