//! The gateway's keys that are in the shared store, as they were read last. They stay in force while
//! the store is away.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use softland_govern::store::StoreError;
use softland_govern::{ClientKey, GovernSettings, KeyStore, StoredKey, StoredKeys, TokenDigest};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::keys::digest_token;
use crate::state::GatewayState;

/// The interval at which changed keys are looked for. A change has to be in force within 5 seconds.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a gateway that starts waits for its keys.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The keys of the shared store, if there is one.
#[derive(Debug)]
pub(crate) struct StoredKeyRing {
    store: Option<Arc<dyn KeyStore>>,
    read: ArcSwap<ReadKeys>,
    /// True if the last attempt to read the keys failed.
    is_away: AtomicBool,
}

/// The keys as they were read.
#[derive(Debug, Default)]
struct ReadKeys {
    /// Their version; `None` if they were never read.
    version: Option<u64>,
    tokens: HashMap<TokenDigest, StoredToken>,
    keys: Vec<Arc<ClientKey>>,
}

/// A token of a key, in force or not.
#[derive(Debug)]
struct StoredToken {
    key: Arc<ClientKey>,
    /// The time from which on it is refused, in milliseconds since 1970.
    until: Option<u64>,
}

/// The reason why keys were not read.
#[derive(Debug, PartialEq, Eq)]
enum KeysUnread {
    /// The store does not answer.
    Away(StoreError),
    /// The store had keys and does not know of any now.
    Lost,
}

impl StoredKeyRing {
    pub(crate) fn new(store: Option<Arc<dyn KeyStore>>) -> Self {
        Self { store, read: ArcSwap::default(), is_away: AtomicBool::new(false) }
    }

    /// Returns true if clients need a key: the store has or had one, or may have.
    pub(crate) fn needs_key(&self) -> bool {
        self.store.is_some() && self.read.load().version != Some(0)
    }

    /// Returns true if there is a store whose keys were not read since the gateway started.
    pub(crate) fn is_unread(&self) -> bool {
        self.store.is_some() && self.read.load().version.is_none()
    }

    /// Finds the key of a token that is in force. `now` is in milliseconds since 1970.
    pub(crate) fn find_key(&self, token: &[u8], now: u64) -> Option<Arc<ClientKey>> {
        let read = self.read.load();
        let found = read.find_token(token)?;
        found.until.is_none_or(|until| now < until).then(|| Arc::clone(&found.key))
    }

    /// Returns true if this is or was a token of a key.
    pub(crate) fn knows_token(&self, token: &[u8]) -> bool {
        self.read.load().find_token(token).is_some()
    }

    /// Returns the accounts of the keys.
    pub(crate) fn accounts(&self) -> BTreeSet<Arc<str>> {
        self.read.load().keys.iter().filter_map(|key| key.account.clone()).collect()
    }

    /// Tells the operator of keys that cannot be used with these settings.
    pub(crate) fn note_faults(&self, settings: &GovernSettings, in_config: impl Fn(&str) -> bool) {
        for key in &self.read.load().keys {
            let name = &*key.name;
            if in_config(name) {
                tracing::error!(
                    key = name,
                    "the config and the shared store both have a key of this name: the config's is in \
                     force, and the token of the other is refused; revoke it (softland keys revoke), or \
                     name the config's anew"
                );
            }
            let missing = settings.missing_policies(key);
            if !missing.is_empty() {
                let policies = Vec::from_iter(missing).join(", ");
                tracing::warn!(
                    key = name,
                    policies,
                    "a key of the shared store names policies that the config does not define; requests \
                     that would have them are refused"
                );
            }
        }
    }

    /// Reads the keys if they have changed. Returns true if they have.
    async fn read_again(&self) -> Result<bool, KeysUnread> {
        let Some(store) = &self.store else { return Ok(false) };
        let known = self.read.load().version;
        let keys = store.read_keys(known).await.map_err(KeysUnread::Away)?;
        let Some(keys) = keys else { return Ok(false) };
        if keys.version == 0 && known.is_some() {
            return Err(KeysUnread::Lost);
        }
        self.read.store(Arc::new(ReadKeys::from_stored(&keys)));
        Ok(true)
    }
}

impl ReadKeys {
    fn from_stored(stored: &StoredKeys) -> Self {
        let mut read = Self { version: Some(stored.version), ..Self::default() };
        // Others than softland may have written there, and names become labels and paths.
        for row in stored.keys.iter().filter(|row| row.is_well_formed()) {
            let key = Arc::new(row.to_client_key());
            if row.revoked.is_none() {
                read.keys.push(Arc::clone(&key));
            }
            for (digest, until) in row_tokens(row) {
                let token = StoredToken { key: Arc::clone(&key), until };
                read.tokens.entry(digest).or_insert(token);
            }
        }
        read
    }

    /// Finds a token. The time of the lookup depends on the token's digest, from which the token cannot
    /// be guessed.
    fn find_token(&self, token: &[u8]) -> Option<&StoredToken> {
        if self.tokens.is_empty() || token.is_empty() {
            return None;
        }
        self.tokens.get(&digest_token(token))
    }
}

/// Returns the tokens of a key, each with the time from which on it is refused.
fn row_tokens(row: &StoredKey) -> impl Iterator<Item = (TokenDigest, Option<u64>)> {
    // A revoked key is refused at once, whatever another machine's clock says.
    let revoked = row.revoked.map(|_| 0);
    let before = row.previous.map(|before| (before.token_sha256, revoked.or(Some(before.until))));
    [(row.token_sha256, revoked)].into_iter().chain(before)
}

/// Reads the keys for the first time.
pub(crate) async fn read_first(gate: &GatewayState) {
    let in_time = timeout(FIRST_READ_TIMEOUT, read_keys(gate)).await;
    if in_time.is_err() {
        let away = StoreError(format!("no answer within {FIRST_READ_TIMEOUT:?}"));
        note_result(gate, Err(KeysUnread::Away(away)));
    }
}

/// Reads the keys again whenever they have changed. Never resolves.
pub(crate) async fn follow_keys(gate: &GatewayState) {
    if gate.stored_keys.store.is_none() {
        return std::future::pending().await;
    }
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        polls.tick().await;
        read_keys(gate).await;
    }
}

async fn read_keys(gate: &GatewayState) {
    note_result(gate, gate.stored_keys.read_again().await);
}

/// Tells the operator what has changed, and that keys cannot be read.
fn note_result(gate: &GatewayState, read: Result<bool, KeysUnread>) {
    let ring = &gate.stored_keys;
    let was_away = ring.is_away.swap(read.is_err(), Ordering::Relaxed);
    match read {
        Ok(changed) => {
            if was_away {
                tracing::info!("the keys of the shared store can be read again");
            }
            if changed {
                gate.note_key_faults();
            }
        }
        Err(unread) => {
            gate.watch.metrics.count_event("keys_unread");
            if was_away {
                return;
            }
            match unread {
                KeysUnread::Away(error) if ring.is_unread() => tracing::error!(
                    %error,
                    "the keys of the shared store cannot be read; until they are, only keys of the config \
                     are accepted"
                ),
                KeysUnread::Away(error) => tracing::error!(
                    %error,
                    "the keys of the shared store cannot be read; those that were read last stay in force"
                ),
                KeysUnread::Lost => tracing::error!(
                    "the shared store has lost its keys; those that were read last stay in force until a \
                     key is added there"
                ),
            }
        }
    }
}
