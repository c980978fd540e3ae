//! Changes of files: inside the root, as a whole or not at all, and only of content that the model
//! has seen.
//!
//! A file is replaced by renaming a new file over it, through one handle of its folder. So nobody
//! sees half of a change, and no link that is put in the way is followed. The old file is compared
//! with what was read until right before the rename. A program that writes in the moment between
//! loses its change, as with any editor. Hard links to the old file keep the old content.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf, is_separator};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use softland_session::core::Digest;
use tokio_util::sync::CancellationToken;

use super::root::{
    FileAction, MAX_FILE_BYTES, Root, check_names, check_readable, is_binary, read_bytes,
    shorten_path,
};
use crate::platform::folder;

/// Serialises the changes of all runs. Calls of one batch run concurrently, and of two edits of a
/// file neither may be lost.
static CHANGING: Mutex<()> = Mutex::new(());

/// The number in the name of the next temporary file.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The folder of a run's tools, and the content of it that they have shown.
///
/// What was seen lives as long as the tools. A resumed run has seen nothing, and its model is told
/// to read a file again.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) root: Root,
    seen: Arc<Mutex<HashMap<PathBuf, Digest>>>,
}

/// A text that was read and may be shown.
pub(super) struct ReadText {
    pub(super) bytes: Vec<u8>,
    real: PathBuf,
    seen_before: Option<Digest>,
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeEffect {
    Created,
    Replaced,
    /// The file already had this content.
    Nothing,
}

impl Files {
    pub(super) fn new(root: Root) -> Self {
        Self { root, seen: Arc::default() }
    }

    /// Reads a file's text. The caller must call [`Self::mark_seen`] when it shows the text.
    pub(super) fn read_text(&self, given: &str) -> Result<ReadText, String> {
        let real = self.root.real_path(given)?;
        let seen_before = self.lock_seen().get(&real).copied();
        let bytes = self.root.read_file(given)?;
        if is_binary(&bytes) {
            return Err(format!(
                "`{}` is a binary file ({} bytes): only text can be read",
                shorten_path(given),
                bytes.len()
            ));
        }
        Ok(ReadText { bytes, real, seen_before })
    }

    /// Notes that the model has seen this text. If a tool has changed the file meanwhile, the note
    /// of that tool is newer and stays.
    pub(super) fn mark_seen(&self, reading: ReadText) {
        let mut seen = self.lock_seen();
        if seen.get(&reading.real).copied() == reading.seen_before {
            seen.insert(reading.real, Digest::from_bytes(&reading.bytes));
        }
    }

    /// Creates a file with this content, or replaces a file that was seen.
    pub(super) fn write_file(
        &self,
        given: &str,
        content: &[u8],
        cancel: &CancellationToken,
    ) -> Result<ChangeEffect, String> {
        let _one = lock_changes(cancel)?;
        let path = self.root.relative_path(given);
        let names_folder = given.strip_suffix('.').unwrap_or(given).ends_with(is_separator);
        if given.contains('\0') || names_folder || path.file_name().is_none() {
            return Err(no_file_message(given));
        }
        check_names(given, &path)?;
        match self.root.dir().symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create_file(given, &path, content)
            }
            Err(error) => Err(self.root.explain_error(FileAction::Written, given, &path, &error)),
            Ok(_) => self.replace_file(given, |_| Ok(content.to_vec())),
        }
    }

    /// Replaces a file that was seen by the result of `edit`.
    pub(super) fn edit_file(
        &self,
        given: &str,
        edit: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>,
        cancel: &CancellationToken,
    ) -> Result<ChangeEffect, String> {
        let _one = lock_changes(cancel)?;
        self.replace_file(given, edit)
    }

    fn create_file(
        &self,
        given: &str,
        path: &Path,
        content: &[u8],
    ) -> Result<ChangeEffect, String> {
        check_size(given, content)?;
        let fail = |error| self.root.explain_error(FileAction::Written, given, path, &error);
        // A path that goes up from a folder that does not exist yet could lead anywhere.
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        if !goes_up {
            self.root.dir().create_dir_all(parent_folder(path)).map_err(fail)?;
        }
        let place = FileLocation::open_parent(&self.root, given, path)?;
        place.write_new(content).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!(
                    "`{}` was created meanwhile: read it first, with read_file",
                    shorten_path(given)
                )
            }
            _ => fail(error),
        })?;
        self.remember_content(self.root.real_path(given)?, content);
        Ok(ChangeEffect::Created)
    }

    fn replace_file(
        &self,
        given: &str,
        edit: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<ChangeEffect, String> {
        let real = self.root.real_path(given)?;
        let place = FileLocation::open_parent(&self.root, given, &real)?;
        let (old, metadata) = place.read_writable()?;
        self.check_unchanged(given, &real, &old)?;
        let new = edit(&old)?;
        if new == old {
            return Ok(ChangeEffect::Nothing);
        }
        check_size(given, &new)?;
        let same = || place.read_writable().is_ok_and(|(now, _)| now == old);
        let put = place.write_over(&new, &metadata, same);
        if !put.map_err(|error| place.explain_error(&error))? {
            return Err(changed_message(given));
        }
        self.remember_content(real, &new);
        Ok(ChangeEffect::Replaced)
    }

    fn check_unchanged(&self, given: &str, real: &Path, content: &[u8]) -> Result<(), String> {
        match self.lock_seen().get(real) {
            Some(seen) if *seen == Digest::from_bytes(content) => Ok(()),
            Some(_) => Err(changed_message(given)),
            None => Err(format!(
                "`{}` exists and was not read in this run: read it first, with read_file",
                shorten_path(given)
            )),
        }
    }

    fn remember_content(&self, real: PathBuf, content: &[u8]) {
        self.lock_seen().insert(real, Digest::from_bytes(content));
    }

    /// Locks the seen files. A panic elsewhere leaves no half of an insertion behind.
    fn lock_seen(&self) -> MutexGuard<'_, HashMap<PathBuf, Digest>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for changes in progress. Fails if this change was cancelled meanwhile.
fn lock_changes(cancel: &CancellationToken) -> Result<MutexGuard<'static, ()>, String> {
    let guard = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if cancel.is_cancelled() {
        Err("cancelled before it was written".to_owned())
    } else {
        Ok(guard)
    }
}

fn no_file_message(given: &str) -> String {
    format!("`{}` does not name a file", shorten_path(given))
}

fn changed_message(given: &str) -> String {
    format!(
        "`{}` has changed since it was read, and is left as it is: read it again, with read_file",
        shorten_path(given)
    )
}

fn check_size(given: &str, content: &[u8]) -> Result<(), String> {
    if content.len() as u64 <= MAX_FILE_BYTES {
        return Ok(());
    }
    Err(format!(
        "`{}` would have {} bytes; files of up to {MAX_FILE_BYTES} bytes can be written",
        shorten_path(given),
        content.len()
    ))
}

/// Returns the folder of a path without links.
fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A name in a folder that is held open.
struct FileLocation<'a> {
    root: &'a Root,
    /// The path as the model gave it.
    given: &'a str,
    path: &'a Path,
    folder: Dir,
    name: &'a OsStr,
}

impl<'a> FileLocation<'a> {
    fn open_parent(root: &'a Root, given: &'a str, path: &'a Path) -> Result<Self, String> {
        let folder = root.dir().open_dir(parent_folder(path));
        let folder =
            folder.map_err(|e| root.explain_error(FileAction::Written, given, path, &e))?;
        let name = path.file_name().ok_or_else(|| no_file_message(given))?;
        Ok(Self { root, given, path, folder, name })
    }

    fn explain_error(&self, error: &io::Error) -> String {
        self.root.explain_error(FileAction::Written, self.given, self.path, error)
    }

    /// Reads a regular file that may be written. A link is not a regular file.
    fn read_writable(&self) -> Result<(Vec<u8>, Metadata), String> {
        let fail = |error| self.explain_error(&error);
        let metadata = self.folder.symlink_metadata(self.name).map_err(fail)?;
        check_readable(self.given, &metadata)?;
        // A rename ignores whether the file may be written, so that is checked here.
        if metadata.permissions().readonly() {
            return Err(format!("`{}` is read-only and stays as it is", shorten_path(self.given)));
        }
        let mut options = OpenOptions::new();
        let options = folder::open_without_blocking(options.read(true).write(true));
        let file = self.folder.open_with(self.name, options).map_err(fail)?;
        check_readable(self.given, &file.metadata().map_err(fail)?)?;
        let bytes = read_bytes(self.given, file, |error| self.explain_error(error))?;
        Ok((bytes, metadata))
    }

    /// Creates a file at a free name.
    fn write_new(&self, content: &[u8]) -> io::Result<()> {
        let draft = TempFile::create_in(&self.folder, content, None)?;
        // Unlike a rename, a link does not replace a file that has appeared meanwhile.
        match self.folder.hard_link(&draft.name, &self.folder, self.name) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems have no hard links.
            Err(_) => match self.folder.symlink_metadata(self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => draft.rename_to(self.name),
                Err(error) => Err(error),
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            },
        }
    }

    /// Replaces a file if it is still the `same` once the new one is complete. Returns false if it
    /// is not.
    fn write_over(
        &self,
        content: &[u8],
        old: &Metadata,
        same: impl FnOnce() -> bool,
    ) -> io::Result<bool> {
        let draft = TempFile::create_in(&self.folder, content, Some(old))?;
        if !same() {
            return Ok(false);
        }
        draft.rename_to(self.name).map(|()| true)
    }
}

/// A complete file under a temporary name, which is removed on drop.
struct TempFile<'a> {
    folder: &'a Dir,
    name: String,
}

impl<'a> TempFile<'a> {
    /// Creates the file like any new file of the user, or with owner and mode of the `old` file.
    fn create_in(folder: &'a Dir, content: &[u8], old: Option<&Metadata>) -> io::Result<Self> {
        let (name, mut file) = Self::open_unique(folder, old.is_some())?;
        let draft = Self { folder, name };
        file.write_all(content)?;
        if let Some(old) = old {
            folder::copy_metadata(&file, old)?;
        }
        file.sync_data()?;
        Ok(draft)
    }

    fn open_unique(folder: &Dir, private: bool) -> io::Result<(String, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if private {
            folder::make_private(&mut options);
        }
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".softland-{}-{number}.tmp", std::process::id());
            match folder.open_with(&name, &options) {
                // A killed run may have left a file with this name, since process ids are reused.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return opened.map(|file| (name, file)),
            }
        }
    }

    fn rename_to(self, name: &OsStr) -> io::Result<()> {
        folder::rename(self.folder, &self.name, name)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        // After a rename the name is free.
        let _ = self.folder.remove_file(&self.name);
    }
}
