//! Names that are given out once: of conversations, and of runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use softland_session::core::Digest;

use crate::secret::Secret;

/// What names of conversations begin with that have none of their own.
pub(crate) const UNNAMED: &str = "content:";

/// Gives out names.
#[derive(Debug)]
pub(crate) struct Names {
    /// When the process began, so that another one's names are others.
    begun: Digest,
    given: AtomicU64,
}

impl Names {
    /// `now` in milliseconds, `process` its number: together they are not had twice.
    pub(crate) fn new(now: u64, process: u32) -> Self {
        let begun = Digest::of(&now.to_le_bytes()).then(Digest::of(&process.to_le_bytes()));
        Self { begun, given: AtomicU64::new(0) }
    }

    /// A name for a conversation that has none.
    pub(crate) fn conversation(&self) -> Arc<str> {
        format!("{UNNAMED}{}", self.next()).into()
    }

    /// A name for a run.
    pub(crate) fn run(&self) -> Arc<str> {
        let mut name = self.next().to_string();
        name.truncate(16);
        name.into()
    }

    fn next(&self) -> Digest {
        let n = self.given.fetch_add(1, Ordering::Relaxed);
        self.begun.then(Digest::of(&n.to_le_bytes()))
    }
}

/// A token that nobody can guess, and a short name of this process that tells nothing of it.
pub(crate) fn secrets() -> (Secret, String) {
    let mut token = [0_u8; 24];
    // Without randomness there is a token that nobody has: nothing can be changed then.
    let provider = rustls::crypto::ring::default_provider();
    let token = match provider.secure_random.fill(&mut token) {
        Ok(()) => token.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => String::new(),
    };
    let mut stamp = Digest::of(token.as_bytes()).then(Digest::of(b"stamp")).to_string();
    stamp.truncate(8);
    (Secret::new(token), stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_is_given_twice() {
        let (one, other) = (Names::new(1, 7), Names::new(2, 7));
        let mut seen = BTreeSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(one.run()) && seen.insert(other.run()));
            assert!(seen.insert(one.conversation()));
        }
        assert!(seen.iter().all(|name| name.len() >= 16));
    }
}
