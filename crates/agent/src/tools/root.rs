//! The folder that file tools see, held as a capability.
//!
//! Every open, listing and stat goes through one directory handle that cannot reach outside of
//! it: `..`, absolute paths and symbolic links that lead out are refused by the handle itself,
//! not by comparing path texts. A link that stays inside works. It never writes.

use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};

use crate::tool::cut_line;
use softland_session::core::near;

/// The largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How many names of a folder are looked at for one near to a mistyped one.
const MAX_NAMES_COMPARED: usize = 2_000;

/// A folder, opened. Cheap to clone.
#[derive(Clone)]
pub struct Root {
    inner: Arc<Inner>,
}

struct Inner {
    dir: Dir,
    /// The folder's absolute path, links resolved: for the walker, which yields candidates
    /// only, and to understand absolute paths that lie inside.
    path: PathBuf,
}

/// Why a folder cannot be a root.
#[derive(Debug)]
pub struct RootError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.source.kind() {
            io::ErrorKind::NotFound => write!(f, "the folder `{path}` does not exist"),
            io::ErrorKind::NotADirectory => write!(f, "`{path}` is not a folder"),
            io::ErrorKind::PermissionDenied => write!(f, "the folder `{path}` may not be read"),
            _ => write!(f, "the folder `{path}` cannot be opened: {}", self.source),
        }
    }
}

impl std::error::Error for RootError {}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Root").field(&self.inner.path).finish()
    }
}

impl Root {
    /// Opens a folder of the file system.
    ///
    /// # Errors
    /// The folder is missing, not a folder or may not be listed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let given = path.as_ref();
        let fail = |source| RootError { path: given.to_owned(), source };
        let path = given.canonicalize().map_err(fail)?;
        if !path.metadata().map_err(fail)?.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        let dir = Dir::open_ambient_dir(&path, cap_std::ambient_authority()).map_err(fail)?;
        dir.entries().map_err(fail)?;
        Ok(Self { inner: Arc::new(Inner { dir, path }) })
    }

    /// The folder's absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.inner.dir
    }

    /// The path of an argument relative to the root: `""` and `.` are the root, an absolute path
    /// inside the root is understood; everything else is left for the handle to judge.
    pub(super) fn relative(&self, given: &str) -> PathBuf {
        let path = Path::new(given);
        let path = path.strip_prefix(&self.inner.path).unwrap_or(path);
        let mut clean = PathBuf::new();
        for component in path.components() {
            if component != Component::CurDir {
                clean.push(component);
            }
        }
        if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean }
    }

    /// What `given` is, links followed.
    pub(super) fn metadata(&self, given: &str) -> Result<(PathBuf, Metadata), String> {
        if given.contains('\0') {
            return Err(format!("`{}` is not a path: it holds a NUL byte", shown(given)));
        }
        let path = self.relative(given);
        match self.inner.dir.metadata(&path) {
            Ok(metadata) => Ok((path, metadata)),
            Err(error) => Err(self.explain(given, &path, &error)),
        }
    }

    /// A regular file's bytes, at most [`MAX_FILE_BYTES`]. `path` must come from
    /// [`Self::metadata`]; pipes and devices are refused before they are opened.
    pub(super) fn read(&self, given: &str) -> Result<Vec<u8>, String> {
        let (path, metadata) = self.metadata(given)?;
        if metadata.is_dir() {
            return Err(format!("`{}` is a folder: use list_dir to see it", shown(given)));
        }
        if !metadata.is_file() {
            return Err(format!(
                "`{}` is not a regular file (pipe, socket or device)",
                shown(given)
            ));
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(too_big(given, metadata.len()));
        }
        let file = self.inner.dir.open(&path).map_err(|e| self.explain(given, &path, &e))?;
        let mut bytes = Vec::new();
        // The file may have grown since: the bound holds for what is read, not for what was said.
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.explain(given, &path, &e))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_big(given, bytes.len() as u64));
        }
        Ok(bytes)
    }

    /// An error of the file system, for the model: the path as it gave it, and what is allowed.
    pub(super) fn explain(&self, given: &str, path: &Path, error: &io::Error) -> String {
        let name = shown(given);
        if is_escape(error) {
            return format!(
                "`{name}` leads outside of the root folder, which is all that can be seen: give a path inside it, relative to it"
            );
        }
        match error.kind() {
            io::ErrorKind::NotFound => {
                format!("`{name}` does not exist{}", self.suggestions(path))
            }
            io::ErrorKind::NotADirectory => {
                format!("`{name}` does not exist: a part of it is not a folder")
            }
            io::ErrorKind::PermissionDenied => {
                format!("`{name}` may not be read (permission denied)")
            }
            _ => format!("`{name}` cannot be read: {error}"),
        }
    }

    /// Names like the missing one, in the folder it was looked for in.
    fn suggestions(&self, path: &Path) -> String {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let Some(wanted) = path.file_name().and_then(|n| n.to_str()) else {
            return String::new();
        };
        let Ok(entries) = self.inner.dir.read_dir(parent) else {
            return String::new();
        };
        let mut found: Vec<(usize, String)> = entries
            .take(MAX_NAMES_COMPARED)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| Some((likeness(wanted, &name)?, name)))
            .collect();
        found.sort();
        let names: Vec<String> = found
            .iter()
            .take(3)
            .map(|(_, name)| format!("`{}`", slashed(&clean_join(parent, name))))
            .collect();
        if names.is_empty() { String::new() } else { format!("; near it: {}", names.join(", ")) }
    }
}

/// How like two names are, smaller is more: by edits, or because one begins with the other.
fn likeness(wanted: &str, name: &str) -> Option<usize> {
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_lowercase();
    near(wanted, name)
        .or_else(|| (!stem(wanted).is_empty() && stem(wanted) == stem(name)).then_some(8))
}

fn clean_join(parent: &Path, name: &str) -> PathBuf {
    if parent == Path::new(".") { PathBuf::from(name) } else { parent.join(name) }
}

/// cap-std refuses a path that leaves its directory with this kind and no system error number.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn too_big(given: &str, bytes: u64) -> String {
    format!(
        "`{}` has {bytes} bytes; files of up to {MAX_FILE_BYTES} bytes can be read",
        shown(given)
    )
}

/// A path argument as it appears in a message.
pub(super) fn shown(given: &str) -> String {
    cut_line(given, 200)
}

/// A relative path with `/` on every system, on one line; bytes that are not UTF-8 become
/// `\u{FFFD}`.
pub(super) fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    on_one_line(&parts.join("/"))
}

/// A file's name with its line ends and other control characters escaped (`\n`, `\u{1b}`): a
/// name may hold them, and must not look like further lines of a result.
pub(super) fn on_one_line(name: &str) -> String {
    let mut line = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
