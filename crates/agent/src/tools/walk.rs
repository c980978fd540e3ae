//! Candidates below a folder: relative paths of regular files, in a fixed order.
//!
//! The walker looks at the file system by path, so its result is only a list of names. Candidates
//! and ignore files are opened through the root's handle. Links are not followed, and no ignore
//! file outside the root is read.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

use super::root::{Root, shorten_path};
use ignored::IgnoreRules;

mod ignored;

/// The files that one call looks at. Beyond that, the result says that it is partial.
pub(super) const MAX_FILES: usize = 100_000;

/// The files that a search reads.
pub(super) struct Candidates {
    /// Relative to the root, sorted by path, component by component.
    pub(super) paths: Vec<PathBuf>,
    /// True if there were more than [`MAX_FILES`].
    pub(super) cut: bool,
}

/// Returns the regular files below `given` that match `keep` (or `given` itself, if it is a file).
///
/// Hidden entries are left out, and so are the entries that `.gitignore` and `.ignore` files inside
/// the root name, even if the root is not a git repository. A folder that is named itself is
/// searched even if it is hidden or ignored.
pub(super) fn find_candidates(
    root: &Root,
    given: &str,
    keep: Option<&GlobMatcher>,
    cancel: &CancellationToken,
) -> Result<Candidates, String> {
    let (path, metadata) = root.metadata(given)?;
    if !metadata.is_dir() {
        return Ok(Candidates { paths: vec![path], cut: false });
    }
    // The handle resolves links, so the walk starts at a real folder inside the root.
    let start =
        root.dir().canonicalize(&path).map_err(|e| root.explain_read_error(given, &path, &e))?;
    let start = root.relative_path(&start.to_string_lossy());
    let walk = Walk { root, keep, cancel };
    if start == Path::new(".") {
        return walk.walk_from(root.path(), root.path()).map(|(found, _)| found);
    }
    // The walk starts at the root so that ignore files between it and the folder count.
    let target = root.path().join(&start);
    let (found, seen) = walk.walk_from(root.path(), &target)?;
    if seen { Ok(found) } else { walk.walk_from(&target, &target).map(|(found, _)| found) }
}

/// The longest pattern, in bytes, and the most braces in it.
const MAX_PATTERN: usize = 1000;
const MAX_BRACES: usize = 50;

/// Compiles a glob over paths relative to the root. A pattern without `/` matches names in any
/// folder.
pub(super) fn glob_matcher(pattern: &str) -> Result<GlobMatcher, String> {
    // The library panics at a pattern whose expression it cannot compile.
    let depth = pattern.bytes().filter(|byte| *byte == b'{').count();
    if pattern.len() > MAX_PATTERN || depth > MAX_BRACES {
        return Err(format!(
            "the glob pattern is too large: at most {MAX_PATTERN} bytes and {MAX_BRACES} braces \
             are allowed"
        ));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = format!("**/{pattern}");
    let text = if pattern.contains('/') { pattern } else { &anywhere };
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            format!(
                "the glob pattern `{}` is not valid: {}; allowed are *, **, ?, [a-z], {{a,b}}",
                shorten_path(pattern),
                error.kind()
            )
        })
}

struct Walk<'a> {
    root: &'a Root,
    keep: Option<&'a GlobMatcher>,
    cancel: &'a CancellationToken,
}

impl Walk<'_> {
    /// Walks from `start`, only towards and below `target`. Also returns whether the walk reached
    /// `target`.
    fn walk_from(&self, start: &Path, target: &Path) -> Result<(Candidates, bool), String> {
        let towards = target.to_owned();
        let ignored = IgnoreRules::new(self.root.clone(), start.to_owned());
        let walker = WalkBuilder::new(start)
            .follow_links(false)
            // The walker would read ignore files by path, whatever they are; see `ignored`.
            .standard_filters(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| {
                let (path, is_dir) = (entry.path(), entry.file_type().is_some_and(|t| t.is_dir()));
                (path.starts_with(&towards) || towards.starts_with(path))
                    && (entry.depth() == 0 || !ignored.is_ignored(path, is_dir))
            })
            .build();
        let mut found = Candidates { paths: Vec::new(), cut: false };
        let mut seen = false;
        for entry in walker {
            if self.cancel.is_cancelled() {
                return Err("cancelled".to_owned());
            }
            // Entries that cannot be listed are left out, as in ripgrep; reading them would fail
            // too.
            let Ok(entry) = entry else { continue };
            seen |= entry.path() == target;
            let Some(path) = self.wanted_path(&entry, target) else { continue };
            if found.paths.len() >= MAX_FILES {
                found.cut = true;
                break;
            }
            found.paths.push(path);
        }
        found.paths.sort();
        Ok((found, seen))
    }

    fn wanted_path(&self, entry: &DirEntry, target: &Path) -> Option<PathBuf> {
        if !entry.file_type()?.is_file() || !entry.path().starts_with(target) {
            return None;
        }
        let relative = entry.path().strip_prefix(self.root.path()).ok()?;
        self.keep.is_none_or(|glob| glob.is_match(relative)).then(|| relative.to_owned())
    }
}
