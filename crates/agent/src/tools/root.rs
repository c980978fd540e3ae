//! The folder that file tools see, held as a capability.
//!
//! Every open, listing and stat goes through one directory handle that cannot reach outside the
//! folder. The handle itself refuses `..`, absolute paths and symbolic links that lead out; no path
//! texts are compared. A link that stays inside works. This module never writes. [`super::change`]
//! does, through the same handle.

use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use crate::platform::folder;
use crate::tool::cut_line;
use softland_session::core::near_distance;

/// The largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The bytes that are searched for a NUL, which marks a file as binary, as in git.
const SNIFFED: usize = 8_000;

/// The names of a folder that are compared with a mistyped name.
const MAX_NAMES_COMPARED: usize = 2_000;

/// An opened folder. Cheap to clone.
#[derive(Clone)]
pub struct Root {
    inner: Arc<OpenFolder>,
}

struct OpenFolder {
    dir: Dir,
    /// The absolute path of the folder, links resolved. It is for the walker, which only yields
    /// candidates, and for absolute paths that lie inside.
    path: PathBuf,
}

/// The reason why a folder cannot be a root.
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
    /// Returns an error if the folder does not exist, is not a folder or may not be listed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let given = path.as_ref();
        let fail = |source| RootError { path: given.to_owned(), source };
        let path = folder::plain_path(given.canonicalize().map_err(fail)?);
        if !path.metadata().map_err(fail)?.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        let dir = Dir::open_ambient_dir(&path, cap_std::ambient_authority()).map_err(fail)?;
        dir.entries().map_err(fail)?;
        Ok(Self { inner: Arc::new(OpenFolder { dir, path }) })
    }

    /// Returns the absolute path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.inner.dir
    }

    /// Returns the path of an argument relative to the root. `""` and `.` are the root, and an
    /// absolute path inside the root is understood. Everything else is left to the handle.
    pub(super) fn relative_path(&self, given: &str) -> PathBuf {
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

    /// Returns the metadata of `given`, links followed.
    pub(super) fn metadata(&self, given: &str) -> Result<(PathBuf, Metadata), String> {
        if given.contains('\0') {
            return Err(format!("`{}` is not a path: it holds a NUL byte", shorten_path(given)));
        }
        let path = self.relative_path(given);
        check_names(given, &path)?;
        match self.inner.dir.metadata(&path) {
            Ok(metadata) => Ok((path, metadata)),
            Err(error) => Err(self.explain_read_error(given, &path, &error)),
        }
    }

    /// Returns the path of an existing file or folder, without links and relative to the root. A
    /// file has only one such path.
    pub(super) fn real_path(&self, given: &str) -> Result<PathBuf, String> {
        let (path, _) = self.metadata(given)?;
        self.inner.dir.canonicalize(&path).map_err(|e| self.explain_read_error(given, &path, &e))
    }

    /// Reads a regular file of at most [`MAX_FILE_BYTES`] bytes.
    pub(super) fn read_file(&self, given: &str) -> Result<Vec<u8>, String> {
        let (path, _) = self.metadata(given)?;
        let file = self.open_file(given, &path)?;
        read_bytes(given, file, |error| self.explain_read_error(given, &path, error))
    }

    /// Opens a regular file for reading. `given` is the path as the model gave it. Pipes and
    /// devices are refused before they are opened.
    pub(super) fn open_file(&self, given: &str, path: &Path) -> Result<File, String> {
        let fail = |error| self.explain_read_error(given, path, &error);
        check_readable(given, &self.inner.dir.metadata(path).map_err(fail)?)?;
        let mut options = OpenOptions::new();
        let options = folder::open_without_blocking(options.read(true));
        let file = self.inner.dir.open_with(path, options).map_err(fail)?;
        // Another file may have taken its place since it was checked.
        check_readable(given, &file.metadata().map_err(fail)?)?;
        Ok(file)
    }

    /// Reads a regular file of at most `max` bytes; `None` if there is no such file.
    pub(super) fn read_small_file(&self, path: &Path, max: u64) -> Option<Vec<u8>> {
        let fits = |metadata: &Metadata| metadata.is_file() && metadata.len() <= max;
        self.inner.dir.metadata(path).ok().filter(fits)?;
        let mut options = OpenOptions::new();
        let options = folder::open_without_blocking(options.read(true));
        let file = self.inner.dir.open_with(path, options).ok()?;
        file.metadata().ok().filter(fits)?;
        let mut bytes = Vec::new();
        file.take(max).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Explains an error while reading to the model: the path as it was given, and what is allowed.
    pub(super) fn explain_read_error(&self, given: &str, path: &Path, error: &io::Error) -> String {
        self.explain_error(FileAction::Read, given, path, error)
    }

    /// Explains an error of a file action to the model.
    pub(super) fn explain_error(
        &self,
        doing: FileAction,
        given: &str,
        path: &Path,
        error: &io::Error,
    ) -> String {
        let name = shorten_path(given);
        if is_escape(error) {
            return format!(
                "`{name}` leads outside of the root folder, which is all that can be seen: give a path inside it, relative to it"
            );
        }
        match error.kind() {
            io::ErrorKind::NotFound if self.dir().symlink_metadata(path).is_ok() => {
                format!("`{name}` is a link that leads nowhere")
            }
            io::ErrorKind::NotFound => {
                format!("`{name}` does not exist{}", self.suggest_names(path))
            }
            io::ErrorKind::NotADirectory => {
                format!("`{name}` does not exist: a part of it is not a folder")
            }
            io::ErrorKind::PermissionDenied => {
                format!("`{name}` may not be {} (permission denied)", doing.word())
            }
            _ => format!("`{name}` cannot be {}: {error}", doing.word()),
        }
    }

    /// Returns names that resemble the missing one, from the folder in which it was looked for.
    fn suggest_names(&self, path: &Path) -> String {
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
            .filter_map(|name| Some((name_distance(wanted, &name)?, name)))
            .collect();
        found.sort();
        let names: Vec<String> = found
            .iter()
            .take(3)
            .map(|(_, name)| format!("`{}`", display_path(&clean_join(parent, name))))
            .collect();
        if names.is_empty() { String::new() } else { format!("; near it: {}", names.join(", ")) }
    }
}

/// The action on a file that failed.
#[derive(Clone, Copy)]
pub(super) enum FileAction {
    Read,
    Written,
}

impl FileAction {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "written",
        }
    }
}

/// Refuses paths that name no file on this system.
pub(super) fn check_names(given: &str, path: &Path) -> Result<(), String> {
    match folder::forbidden_name(path) {
        Some(why) => Err(format!("`{}` is not a path: {why}", shorten_path(given))),
        None => Ok(()),
    }
}

/// Refuses files that are not regular or too big.
pub(super) fn check_readable(given: &str, metadata: &Metadata) -> Result<(), String> {
    if metadata.is_dir() {
        return Err(format!("`{}` is a folder: use list_dir to see it", shorten_path(given)));
    }
    if !metadata.is_file() {
        return Err(format!(
            "`{}` is not a regular file (pipe, socket or device)",
            shorten_path(given)
        ));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(too_big_message(given, metadata.len()));
    }
    Ok(())
}

/// Reads the bytes of an open file, which may have grown since it was checked.
pub(super) fn read_bytes(
    given: &str,
    file: File,
    explain: impl FnOnce(&io::Error) -> String,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| explain(&error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_big_message(given, bytes.len() as u64));
    }
    Ok(bytes)
}

/// Returns true if a file's bytes are not text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(SNIFFED).any(|byte| *byte == 0)
}

/// Returns the distance of two similar names, smaller for more similar ones: by edits, or because
/// the parts before the first dot are equal. `None` if they are not similar.
fn name_distance(wanted: &str, name: &str) -> Option<usize> {
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_lowercase();
    near_distance(wanted, name)
        .or_else(|| (!stem(wanted).is_empty() && stem(wanted) == stem(name)).then_some(8))
}

fn clean_join(parent: &Path, name: &str) -> PathBuf {
    if parent == Path::new(".") { PathBuf::from(name) } else { parent.join(name) }
}

/// Returns true if cap-std has refused a path that leaves its directory: that error has this kind
/// and no system error number.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn too_big_message(given: &str, bytes: u64) -> String {
    format!(
        "`{}` has {bytes} bytes; files of up to {MAX_FILE_BYTES} bytes can be read",
        shorten_path(given)
    )
}

/// Returns a path argument as it appears in a message.
pub(super) fn shorten_path(given: &str) -> String {
    cut_line(given, 200)
}

/// Returns a relative path on one line, with `/` on every system. Bytes that are not UTF-8 become
/// `\u{FFFD}`.
pub(super) fn display_path(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    escape_controls(&parts.join("/"))
}

/// Escapes line ends and other control characters of a file name (`\n`, `\u{1b}`). A name may
/// contain them and must not look like further lines of a result.
pub(super) fn escape_controls(name: &str) -> String {
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
