//! Keeps this process from falling asleep.
//!
//! On loopback whoever writes to a socket also pays for waking its reader: on another core of a
//! virtual machine that takes longer than a proxy needs for a whole request. Over a network the
//! reader's own machine pays. The price is not the same for all, either: a fast proxy leaves the
//! two ends of a load no time to fall asleep, a slower one pays for each waking as well. So both
//! ends stay awake while processor time is measured.

use std::thread;

use tokio::task::JoinHandle;

/// Until this is dropped, the process looks for work without a pause, and lets others on its core
/// go first each time. Made within a `LocalSet`.
pub(crate) struct Awake(JoinHandle<()>);

impl Awake {
    pub(crate) fn new() -> Self {
        Self(tokio::task::spawn_local(async {
            loop {
                thread::yield_now();
                // Sockets are looked at meanwhile.
                tokio::task::yield_now().await;
            }
        }))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_get_their_turns_and_it_ends_when_dropped() {
        let all = tokio::task::LocalSet::new();
        let ended = all.run_until(async {
            let awake = Awake::new();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            let spins = awake.0.abort_handle();
            assert!(!spins.is_finished());
            drop(awake);
            while !spins.is_finished() {
                tokio::task::yield_now().await;
            }
            true
        });
        assert!(ended.await);
    }
}
