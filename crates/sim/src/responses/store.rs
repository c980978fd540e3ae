//! The stored responses: their items for `previous_response_id` and references, and their bodies
//! for later retrieval. The store is bounded; the oldest responses are dropped first.

use crate::json::Json;
use std::collections::BTreeMap;

/// The maximum size of the stored JSON, in bytes.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The stored responses.
#[derive(Debug, Default)]
pub(crate) struct Store {
    responses: BTreeMap<String, StoredResponse>,
    /// The ids, oldest first.
    order: BTreeMap<u64, String>,
    next: u64,
    bytes: usize,
}

/// One stored response.
#[derive(Debug)]
pub(super) struct StoredResponse {
    pub(super) previous: Option<String>,
    /// The items of its input and its output.
    pub(super) items: Vec<Json>,
    /// The response itself.
    pub(super) body: Json,
    /// The response while it is being generated; only for background responses.
    pub(super) pending: Option<Json>,
    /// The time at which it is done, in the caller's milliseconds.
    pub(super) ready_at: u64,
    /// Its approximate size in bytes.
    pub(super) bytes: usize,
    /// Its number, which the store assigns.
    pub(super) number: u64,
}

impl Store {
    pub(super) fn insert_response(&mut self, id: String, stored: StoredResponse) {
        self.bytes += stored.bytes;
        self.order.insert(self.next, id.clone());
        self.responses.insert(id, StoredResponse { number: self.next, ..stored });
        self.next += 1;
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.remove_response(&oldest);
        }
    }

    /// Deletes a response. Returns false if there was none.
    pub(super) fn remove_response(&mut self, id: &str) -> bool {
        let Some(gone) = self.responses.remove(id) else { return false };
        self.bytes -= gone.bytes;
        self.order.remove(&gone.number);
        true
    }

    pub(super) fn get(&self, id: &str) -> Option<&StoredResponse> {
        self.responses.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut StoredResponse> {
        self.responses.get_mut(id)
    }

    /// Returns all items of a response and of those before it, oldest first, or `None` if one is
    /// missing.
    pub(super) fn chain_items(&self, id: &str) -> Option<Vec<Json>> {
        let mut links = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let stored = self.responses.get(id)?;
            links.push(&stored.items);
            next = stored.previous.as_deref();
        }
        Some(links.into_iter().rev().flatten().cloned().collect())
    }

    /// Finds a stored item by its own id; the newest response comes first.
    pub(super) fn find_item(&self, id: &str) -> Option<&Json> {
        let kept = self.order.values().rev().filter_map(|id| self.responses.get(id));
        kept.flat_map(|stored| stored.items.iter().rev()).find(|i| i.str_at("id") == Some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_nothing_is_left_of_the_deleted() {
        let mut store = Store::default();
        let stored = |previous: Option<&str>| StoredResponse {
            previous: previous.map(str::to_owned),
            items: vec![Json::Null],
            body: Json::Null,
            pending: None,
            ready_at: 0,
            bytes: MAX_BYTES / 3,
            number: 0,
        };
        store.insert_response("a".into(), stored(None));
        store.insert_response("b".into(), stored(Some("a")));
        store.insert_response("c".into(), stored(Some("b")));
        assert_eq!(store.chain_items("c").map(|items| items.len()), Some(3));
        store.insert_response("d".into(), stored(None));
        assert!(store.get("a").is_none());
        assert_eq!(store.chain_items("c"), None, "a link is missing");
        assert!(store.remove_response("b") && !store.remove_response("b"));
        assert_eq!((store.order.len(), store.responses.len()), (2, 2));
        assert_eq!(store.bytes, 2 * (MAX_BYTES / 3));
    }
}
