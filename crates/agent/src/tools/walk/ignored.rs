//! What ignore files leave out of a walk, read through the root's handle: a link out of the root,
//! a pipe or a device under the name of one says nothing and is not waited for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Root;

/// The largest ignore file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// What hidden and ignored means in a walk from one folder on.
pub(super) struct Ignored {
    root: Root,
    /// Absolute, in the root; what lies above says nothing.
    start: PathBuf,
    folders: Mutex<HashMap<PathBuf, Rules>>,
}

/// The rules of one folder.
struct Rules {
    ignore: Gitignore,
    gitignore: Gitignore,
}

impl Ignored {
    pub(super) fn new(root: Root, start: PathBuf) -> Self {
        Self { root, start, folders: Mutex::default() }
    }

    /// Whether an absolute path below the start is left out. As ripgrep has it: `.ignore` goes
    /// before `.gitignore`, a near file before one above, and `!name` brings in a hidden name, too.
    pub(super) fn leaves_out(&self, path: &Path, is_dir: bool) -> bool {
        match self.says(path, is_dir) {
            Match::Ignore(()) => true,
            Match::Whitelist(()) => false,
            Match::None => {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            }
        }
    }

    fn says(&self, path: &Path, is_dir: bool) -> Match<()> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let above = || path.ancestors().skip(1).take_while(|above| above.starts_with(&self.start));
        let (mut ignore, mut gitignore) = (Match::None, Match::None);
        for folder in above() {
            if !folders.contains_key(folder) {
                folders.insert(folder.to_owned(), self.rules(folder));
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

    fn rules(&self, folder: &Path) -> Rules {
        let inside = folder.strip_prefix(self.root.path()).unwrap_or(folder);
        let of = |name: &str| self.read(folder, &inside.join(name));
        Rules { ignore: of(".ignore"), gitignore: of(".gitignore") }
    }

    /// The rules of a file, as far as they can be understood; none where there is no such file.
    fn read(&self, folder: &Path, file: &Path) -> Gitignore {
        let Some(bytes) = self.root.small_file(file, MAX_BYTES) else { return Gitignore::empty() };
        let text = String::from_utf8_lossy(&bytes);
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
            // A line that is no pattern says nothing, as with git.
            let _ = builder.add_line(None, line);
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }
}
