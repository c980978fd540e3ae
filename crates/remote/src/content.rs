//! [`ContentStore`] over a store's script.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_govern::ContentStore;
use softland_govern::store::StoreError;

use crate::answer::Answer;
use crate::read::{read_elements, read_list, read_text, read_texts};
use crate::state::{RemoteState, ScriptStore, unreadable};

/// The number of names in one call.
const AT_ONCE: usize = 500;

#[async_trait]
impl<S: ScriptStore> ContentStore for RemoteState<S> {
    async fn forget_runs(&self, runs: &HashSet<String>) -> Result<u64, StoreError> {
        let is_of_runs = |names: Answer| read_texts(names).iter().any(|run| runs.contains(&**run));
        let scopes = self.find_stored("scopes", is_of_runs).await?;
        let deleted: HashSet<&str> = scopes.iter().map(String::as_str).collect();
        let is_of_scopes = |scope: Answer| read_text(&scope).is_some_and(|it| deleted.contains(it));
        let links = self.find_stored("links", is_of_scopes).await?;
        // The conversations go last: as long as one is there, the same call finds its responses.
        for (kind, names) in [
            ("runs", runs.iter().collect::<Vec<_>>()),
            ("links", links.iter().collect()),
            ("scopes", scopes.iter().collect()),
        ] {
            for names in names.chunks(AT_ONCE) {
                self.ask(&json!({"op": "drop_stored", "kind": kind, "names": names})).await?;
            }
        }
        Ok(scopes.len() as u64)
    }
}

impl<S: ScriptStore> RemoteState<S> {
    /// Returns the names of the entries of a kind whose owner, as the script gives it, is wanted.
    async fn find_stored(
        &self,
        kind: &str,
        is_wanted: impl Fn(Answer) -> bool + Sync,
    ) -> Result<Vec<String>, StoreError> {
        let (mut cursor, mut found) = (String::new(), Vec::new());
        loop {
            let answer = self.ask(&scan(kind, &cursor)).await?;
            let [next, rows] = read_elements(answer).ok_or_else(unreadable)?;
            for row in read_list(rows) {
                let [name, owner] = read_elements(row).ok_or_else(unreadable)?;
                if let Answer::Text(name) = name
                    && is_wanted(owner)
                {
                    found.push(name);
                }
            }
            match next {
                Answer::Text(next) if !next.is_empty() => cursor = next,
                _ => return Ok(found),
            }
        }
    }
}

/// Returns the next part of the entries of a kind, with their owners: of a conversation its runs, of a
/// response its conversation.
fn scan(kind: &str, cursor: &str) -> Value {
    json!({"op": "scan_stored", "kind": kind, "cursor": cursor})
}
