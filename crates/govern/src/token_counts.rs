//! Token counts that providers have returned.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use softland_session::core::Digest;

/// The number of counts that are remembered, by content.
const MOST: usize = 1000;

/// The counts by content; `None` where the provider gave no count.
#[derive(Debug, Default)]
pub struct TokenCounts(Mutex<BTreeMap<Digest, Option<u64>>>);

impl TokenCounts {
    pub(crate) fn find_count(&self, content: &Digest) -> Option<Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(content).copied()
    }

    pub(crate) fn store_count(&self, content: Digest, count: Option<u64>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST {
            counts.pop_first();
        }
        counts.insert(content, count);
    }
}
