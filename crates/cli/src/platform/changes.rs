//! Changes of a file, noticed by its time and length. A file that is just being written counts once
//! it is left alone.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The time between two looks at the file.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The last change of a file, and its length; `None` if it cannot be read.
type State = Option<(SystemTime, u64)>;

/// A file that is looked at again and again.
pub(crate) struct ChangeWatch {
    file: PathBuf,
    /// The state at the last reported change, and at the last look.
    reported: State,
    seen: State,
}

impl ChangeWatch {
    /// Begins to watch a file. Its present state is no change.
    pub(crate) fn new(file: PathBuf) -> Self {
        let state = read_state(&file);
        Self { file, reported: state, seen: state }
    }

    /// Waits for the next change. Cancel safe.
    pub(crate) async fn wait_for_change(&mut self) {
        loop {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let state = read_state(&self.file);
            if self.take_state(state) {
                return;
            }
        }
    }

    /// Takes the state of one look. Returns true if the file has changed and is left alone. A file
    /// that is gone is about to come back.
    fn take_state(&mut self, now: State) -> bool {
        let rests = now == self.seen;
        self.seen = now;
        let changed = rests && now.is_some() && now != self.reported;
        if changed {
            self.reported = now;
        }
        changed
    }
}

fn read_state(file: &std::path::Path) -> State {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_when_the_file_is_left_alone() {
        let at =
            |second, length| Some((SystemTime::UNIX_EPOCH + Duration::from_secs(second), length));
        let first = at(1, 10);
        let mut watch = ChangeWatch { file: PathBuf::new(), reported: first, seen: first };
        for (state, wanted) in [
            (first, false),
            // It is being written: it changes from look to look, and is gone for a moment.
            (at(2, 0), false),
            (at(3, 12), false),
            (None, false),
            (None, false),
            (at(4, 12), false),
            (at(4, 12), true),
            (at(4, 12), false),
            // The same length, at another time, and the other way round.
            (at(5, 12), false),
            (at(5, 12), true),
            (at(5, 13), false),
            (at(5, 13), true),
        ] {
            assert_eq!(watch.take_state(state), wanted, "{state:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "a").unwrap();
        let mut watch = ChangeWatch::new(file.clone());
        let soon = tokio::time::timeout(5 * BETWEEN_LOOKS, watch.wait_for_change());
        assert!(soon.await.is_err(), "nothing has changed");
        std::fs::write(&file, "ab").unwrap();
        let soon = tokio::time::timeout(5 * BETWEEN_LOOKS, watch.wait_for_change());
        assert!(soon.await.is_ok());
    }
}
