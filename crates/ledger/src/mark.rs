//! Marks by which a reader tells that others have written.

use std::path::Path;
use std::time::SystemTime;

use crate::place::LedgerPlace;

/// A mark that differs after records were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerMark(MarkKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum MarkKind {
    /// The size and time of a SQLite file and of its write-ahead log.
    Files([Option<(u64, SystemTime)>; 2]),
    /// The number of writers, and of their batches.
    #[cfg(feature = "postgres")]
    Batches(i64, i64),
}

impl LedgerMark {
    /// Reads the mark of a ledger; `None` if its database is away.
    #[must_use]
    pub fn read(place: &LedgerPlace) -> Option<Self> {
        match place {
            LedgerPlace::File(path) => Some(Self(MarkKind::Files(file_states(path)))),
            #[cfg(feature = "postgres")]
            LedgerPlace::Postgres(postgres) => {
                let (writers, batches) = crate::postgres::count_batches(postgres)?;
                Some(Self(MarkKind::Batches(writers, batches)))
            }
        }
    }
}

fn file_states(path: &Path) -> [Option<(u64, SystemTime)>; 2] {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path, Path::new(&log)].map(|path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.len(), file.modified().ok()?))
    })
}
