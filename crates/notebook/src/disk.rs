//! The file: its lock, its state when it was last seen, and saving it as a whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::document::MAX_FILE;
pub(crate) use crate::platform::FileStamp;
use crate::platform::make_private;
use crate::types::OpenError;

#[cfg(test)]
mod tests;

/// A notebook's file, locked against every other softland of this user.
#[derive(Debug)]
pub(crate) struct LockedFile {
    /// The path, with all links resolved.
    path: PathBuf,
    /// The lock is held as long as this file is open.
    _lock: File,
    made: bool,
}

impl LockedFile {
    /// Locks the file at `path`, which is created with `text` if it does not exist. Locks are kept
    /// in `locks`.
    pub(crate) fn open(path: &Path, locks: &Path, text: &str) -> Result<Self, OpenError> {
        let shown = path.display();
        let io = |what: String| move |error| OpenError::Io(what, error);
        let given = path;
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path_of_new(path).map_err(io(format!("{shown} cannot be made")))?
            }
            Err(error) => return Err(OpenError::Io(format!("{shown} cannot be opened"), error)),
        };
        if !is_notebook_name(given) && !is_notebook_name(&path) {
            return Err(OpenError::Unfit(format!(
                "{shown} does not end in .ipynb, and only notebooks can be opened"
            )));
        }
        require_regular_file(&path).map_err(io(format!("{shown} cannot be opened")))?;
        let lock = lock_file(&path, locks)?;
        let made = !path.exists();
        let disk = Self { path, _lock: lock, made };
        // A softland that was killed while saving may have left this file.
        let _ = fs::remove_file(disk.temporary_path());
        if made {
            disk.save_text(text).map_err(io(format!("{shown} cannot be made")))?;
        }
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file did not exist.
    pub(crate) fn was_created(&self) -> bool {
        self.made
    }

    /// Reads the file's text, and the stamp of its state.
    pub(crate) fn read_text(&self) -> io::Result<(String, FileStamp)> {
        require_regular_file(&self.path)?;
        let mut file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        let mut text = String::new();
        (&mut file).take(MAX_FILE + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_FILE {
            let message = format!("it is longer than {} MB", MAX_FILE >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok((text, FileStamp::from_metadata(&metadata)))
    }

    /// Returns the stamp of the file's current state.
    pub(crate) fn read_stamp(&self) -> io::Result<FileStamp> {
        fs::metadata(&self.path).map(|metadata| FileStamp::from_metadata(&metadata))
    }

    /// Replaces the file's text, as a whole or not at all. A file that may not be written is not
    /// replaced.
    pub(crate) fn save_text(&self, text: &str) -> io::Result<FileStamp> {
        require_regular_file(&self.path)?;
        let mode = match OpenOptions::new().append(true).open(&self.path) {
            Ok(file) => Some(file.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let temporary = self.temporary_path();
        let saved = self.replace_file(&temporary, text, mode);
        if saved.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        saved
    }

    fn replace_file(
        &self,
        temporary: &Path,
        text: &str,
        mode: Option<fs::Permissions>,
    ) -> io::Result<FileStamp> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
        if let Some(mode) = mode {
            file.set_permissions(mode)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let print = FileStamp::from_metadata(&file.metadata()?);
        fs::rename(temporary, &self.path)?;
        // The name, too, is to survive a power failure; not every file system supports that.
        if let Some(folder) = self.path.parent() {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(print)
    }

    /// Returns the path of the temporary file. It is beside the file, since only there a rename
    /// replaces the file at once. One name is enough, since the lock is held.
    fn temporary_path(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.softland-tmp"))
    }
}

/// Checks that the file, if it exists, is a regular file. This comes before it is opened: opening a
/// FIFO waits for its other end.
fn require_regular_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_notebook_name(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("ipynb"))
}

/// Returns the path of a file that does not exist yet, also behind a link that leads nowhere.
fn path_of_new(path: &Path) -> io::Result<PathBuf> {
    let path = match fs::read_link(path) {
        Ok(target) => path.parent().unwrap_or_else(|| Path::new("")).join(target),
        Err(_) => path.to_owned(),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(folder.unwrap_or_else(|| Path::new(".")).canonicalize()?.join(name))
}

/// Locks a file. The lock is the operating system's: it ends with the process, however that ends.
fn lock_file(path: &Path, locks: &Path) -> Result<File, OpenError> {
    let io = |error| OpenError::Io(format!("{}: the lock cannot be had", locks.display()), error);
    fs::create_dir_all(locks).map_err(io)?;
    let place = locks.join(format!("{}.lock", state_key(path)));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = make_private(&mut options).open(&place).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = (&mut file).take(20).read_to_string(&mut holder);
            return Err(OpenError::Locked { holder: holder.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    file.set_len(0).map_err(io)?;
    file.rewind().map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Returns a key for data about a notebook that is kept elsewhere: the file's name, and a number
/// for its path (64-bit FNV-1a).
pub(crate) fn state_key(path: &Path) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = path.as_os_str().as_encoded_bytes();
    let number = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().take(40).map(plain).collect();
    format!("{name}-{number:016x}")
}
