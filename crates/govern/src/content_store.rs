//! What a shared store holds of runs, and how it is deleted.

use std::collections::HashSet;
use std::fmt;

use async_trait::async_trait;

use crate::store::StoreError;

/// A store that outlives its gateways, from which runs can be deleted.
#[async_trait]
pub trait ContentStore: fmt::Debug + Send + Sync {
    /// Deletes the conversations of these runs with their texts, the responses stored for them, and
    /// what is remembered of the runs if they have ended. Money stays. Returns the number of deleted
    /// conversations.
    ///
    /// A client that continues such a conversation is served as after a loss of the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached. What was deleted is not restored.
    async fn forget_runs(&self, runs: &HashSet<String>) -> Result<u64, StoreError>;
}
