//! Unique names for conversations and runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use softland_session::core::Digest;

use crate::money::accounts::ReservationId;

/// The prefix of the names of conversations that have no name of their own.
pub(crate) const UNNAMED: &str = "content:";

/// A generator of unique names.
#[derive(Debug)]
pub struct NameGenerator {
    /// The start of the process, so that another process gives other names.
    begun: Digest,
    given: AtomicU64,
}

impl NameGenerator {
    /// Creates a generator. `now` in milliseconds and the number of the `process` occur together
    /// only once.
    pub fn new(now: u64, process: u32) -> Self {
        let begun = Digest::from_bytes(&now.to_le_bytes())
            .followed_by(Digest::from_bytes(&process.to_le_bytes()));
        Self { begun, given: AtomicU64::new(0) }
    }

    /// Returns a name for a conversation that has none.
    pub fn next_conversation(&self) -> Arc<str> {
        format!("{UNNAMED}{}", self.next_digest()).into()
    }

    /// Returns a name for a run.
    pub fn next_run(&self) -> Arc<str> {
        let mut name = self.next_digest().to_string();
        name.truncate(16);
        name.into()
    }

    /// Returns a name for a reservation.
    pub fn next_reservation(&self) -> ReservationId {
        let mut name = self.next_digest().to_string();
        name.truncate(24);
        ReservationId(name.into())
    }

    fn next_digest(&self) -> Digest {
        let n = self.given.fetch_add(1, Ordering::Relaxed);
        self.begun.followed_by(Digest::from_bytes(&n.to_le_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_given_twice() {
        let (one, other) = (NameGenerator::new(1, 7), NameGenerator::new(2, 7));
        let mut seen = BTreeSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(one.next_run()) && seen.insert(other.next_run()));
            assert!(seen.insert(one.next_conversation()));
        }
        assert!(seen.iter().all(|name| name.len() >= 16));
    }
}
