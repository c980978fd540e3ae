//! Conversations that a provider stores, and the order of requests in them. The result of one
//! request must be known before the next one is decided on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The conversations with a running request.
#[derive(Debug, Default)]
pub struct Conversations {
    turns: Mutex<HashMap<String, Weak<Turn<()>>>>,
}

impl Conversations {
    /// Waits until no other request of the conversation is running. The turn lasts until the
    /// returned guard is dropped.
    pub async fn wait_turn(&self, name: String) -> OwnedMutexGuard<()> {
        let turn = self.find_turn(name);
        turn.lock_owned().await
    }

    fn find_turn(&self, name: String) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&name).and_then(Weak::upgrade) {
            return turn;
        }
        // Finished turns are dropped each time the number of the others may have doubled.
        if turns.len() == turns.capacity() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(name, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_conversation_has_one_turn_at_a_time() {
        let all = Conversations::default();
        let first = all.wait_turn("a".to_owned()).await;
        let mut second = Box::pin(all.wait_turn("a".to_owned()));
        assert!(second.as_mut().now_or_never().is_none());
        let other = all.wait_turn("b".to_owned()).now_or_never();
        assert!(other.is_some(), "another conversation does not wait");
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test]
    async fn those_that_are_over_are_forgotten() {
        let all = Conversations::default();
        for n in 0..10_000 {
            drop(all.wait_turn(n.to_string()).await);
        }
        assert!(all.turns.lock().expect("no panic").len() < 100);
    }
}
