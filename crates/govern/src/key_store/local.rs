//! Keys in the memory of this process.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::{KeyStore, StoredKey, StoredKeys};
use crate::store::StoreError;

/// Keys in the memory of this process, for tests and for programs that add keys themselves.
#[derive(Debug, Default)]
pub struct LocalKeyStore(Mutex<StoredKeys>);

#[async_trait]
impl KeyStore for LocalKeyStore {
    async fn read_keys(&self, known: Option<u64>) -> Result<Option<StoredKeys>, StoreError> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(&*keys).filter(|keys| known != Some(keys.version)).cloned())
    }

    async fn write_key(&self, known: u64, key: &StoredKey) -> Result<bool, StoreError> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.version != known {
            return Ok(false);
        }
        stored.version += 1;
        match stored.keys.binary_search_by(|stored| stored.name.cmp(&key.name)) {
            Ok(at) => stored.keys[at] = key.clone(),
            Err(at) => stored.keys.insert(at, key.clone()),
        }
        Ok(true)
    }
}
