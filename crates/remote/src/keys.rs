//! [`KeyStore`] over a store's script.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use softland_govern::store::StoreError;
use softland_govern::{KeyStore, StoredKey, StoredKeys};

use crate::answer::Answer;
use crate::state::{RemoteState, ScriptStore, unreadable};
use crate::{operation, read};

#[async_trait]
impl<S: ScriptStore> KeyStore for RemoteState<S> {
    async fn read_keys(&self, known: Option<u64>) -> Result<Option<StoredKeys>, StoreError> {
        let known = known.map(operation::to_number);
        let answer = self.ask(&json!({"op": "keys", "known": known})).await?;
        let Answer::List(_) = answer else { return Ok(None) };
        let [version, rows] = read::read_elements(answer).ok_or_else(unreadable)?;
        let mut stored =
            StoredKeys { version: read::read_number(&version), ..StoredKeys::default() };
        let rows = read::read_list(rows);
        for row in rows.as_chunks::<2>().0 {
            let [Some(name), Some(text)] = row.each_ref().map(read::read_text) else { continue };
            match parse_key(name, text) {
                Some(key) => stored.keys.push(key),
                None => stored.unreadable.push(name.into()),
            }
        }
        stored.keys.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(stored))
    }

    async fn write_key(&self, known: u64, key: &StoredKey) -> Result<bool, StoreError> {
        let asked = json!({
            "op": "write_key", "known": operation::to_number(known), "name": key.name,
            "row": operation::to_text(key),
        });
        Ok(read::read_number(&self.ask(&asked).await?) == 1)
    }
}

/// Returns the key of a row; `None` if this release cannot read it.
fn parse_key(name: &str, text: &str) -> Option<StoredKey> {
    let parsed: Result<StoredKey, _> = serde_json::from_str(text);
    let error = match parsed {
        Ok(key) if *key.name == *name => return Some(key),
        Ok(_) => "it has another name".to_owned(),
        Err(error) => error.to_string(),
    };
    let name: Arc<str> = name.into();
    tracing::warn!(
        key = &*name,
        error,
        "a key in the shared store cannot be read, and is not in force"
    );
    None
}
