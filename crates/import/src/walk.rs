//! Finds the files that paths lead to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::Unreadable;

/// A file to look at.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Returns the files that paths lead to, sorted by name within folders. A folder is walked once,
/// however many links lead to it.
pub(crate) fn find_files(paths: &[PathBuf]) -> (Vec<FoundFile>, Vec<Unreadable>) {
    let mut walk = Walk::default();
    for path in paths {
        walk.walk_path(path);
    }
    (walk.found, walk.unreadable)
}

#[derive(Default)]
struct Walk {
    seen: HashSet<PathBuf>,
    found: Vec<FoundFile>,
    unreadable: Vec<Unreadable>,
}

impl Walk {
    fn walk_path(&mut self, from: &Path) {
        // No recursion: folders may be nested deeper than a stack allows.
        let mut waiting = vec![from.to_owned()];
        while let Some(path) = waiting.pop() {
            match self.visit_path(&path) {
                Ok(inside) => waiting.extend(inside),
                Err(error) => {
                    let reason = error.to_string();
                    self.unreadable.push(Unreadable { path, line: None, reason });
                }
            }
        }
    }

    fn visit_path(&mut self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        let metadata = std::fs::metadata(path)?;
        if !self.seen.insert(std::fs::canonicalize(path)?) {
            return Ok(Vec::new());
        }
        if metadata.is_dir() {
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(path)? {
                inside.push(entry?.path());
            }
            inside.sort_unstable_by(|a, b| b.cmp(a));
            return Ok(inside);
        }
        if !metadata.is_file() {
            return Err(std::io::Error::other("no regular file"));
        }
        if !is_beside_a_database(path) {
            self.found.push(FoundFile { path: path.to_owned(), bytes: metadata.len() });
        }
        Ok(Vec::new())
    }
}

/// Returns true for SQLite's own files beside a database, which say nothing by themselves.
fn is_beside_a_database(path: &Path) -> bool {
    let name = path.as_os_str().to_string_lossy();
    let of = name.strip_suffix("-wal").or_else(|| name.strip_suffix("-shm"));
    of.is_some_and(|database| Path::new(database).is_file())
}
