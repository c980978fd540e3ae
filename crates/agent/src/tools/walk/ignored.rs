//! The entries that ignore files leave out of a walk. Ignore files are read through the root's
//! handle. A link out of the root, a pipe or a device under such a name is skipped without waiting
//! for it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Root;

/// The largest ignore file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The rules for hidden and ignored entries in a walk from one folder.
pub(super) struct IgnoreRules {
    root: Root,
    /// The absolute path of the start, inside the root. Ignore files above it do not count.
    start: PathBuf,
    folders: Mutex<HashMap<PathBuf, FolderRules>>,
}

/// The rules of one folder.
struct FolderRules {
    ignore: Gitignore,
    gitignore: Gitignore,
}

impl IgnoreRules {
    pub(super) fn new(root: Root, start: PathBuf) -> Self {
        Self { root, start, folders: Mutex::default() }
    }

    /// Returns true if an absolute path below the start is left out. As in ripgrep, `.ignore` takes
    /// precedence over `.gitignore`, a nearer file over one above it, and `!name` includes hidden
    /// names too.
    pub(super) fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        match self.match_rules(path, is_dir) {
            Match::Ignore(()) => true,
            Match::Whitelist(()) => false,
            Match::None => {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            }
        }
    }

    fn match_rules(&self, path: &Path, is_dir: bool) -> Match<()> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let above = || path.ancestors().skip(1).take_while(|above| above.starts_with(&self.start));
        let (mut ignore, mut gitignore) = (Match::None, Match::None);
        for folder in above() {
            if !folders.contains_key(folder) {
                folders.insert(folder.to_owned(), self.read_rules(folder));
            }
            let Some(rules) = folders.get(folder) else { continue };
            if ignore.is_none() {
                ignore = rules.ignore.matched(path, is_dir).map(|_| ());
            }
            if gitignore.is_none() {
                gitignore = rules.gitignore.matched(path, is_dir).map(|_| ());
            }
        }
        ignore.or(gitignore)
    }

    fn read_rules(&self, folder: &Path) -> FolderRules {
        let inside = folder.strip_prefix(self.root.path()).unwrap_or(folder);
        let of = |name: &str| self.read_ignore_file(folder, &inside.join(name));
        FolderRules { ignore: of(".ignore"), gitignore: of(".gitignore") }
    }

    /// Reads the rules of a file, as far as they are valid; there are none without the file.
    fn read_ignore_file(&self, folder: &Path, file: &Path) -> Gitignore {
        let Some(bytes) = self.root.read_small_file(file, MAX_BYTES) else {
            return Gitignore::empty();
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
            // An invalid pattern is ignored, as in git.
            let _ = builder.add_line(None, line);
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }
}
