//! Files for their owner only, and files with one writer.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Lets a new file be read by its owner only.
pub(crate) fn make_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Closes an existing file to all but its owner.
pub(crate) fn restrict_to_owner(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Opens a file for writing that no other process has open for writing.
///
/// # Errors
/// Returns `WouldBlock` if another process has.
pub(crate) fn open_for_writer(path: &Path, options: &OpenOptions) -> Result<File, TryLockError> {
    let file = options.open(path).map_err(TryLockError::Error)?;
    match file.try_lock() {
        // Some file systems have no locks. Two processes on one file are rare there too.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        locked => locked.map(|()| file),
    }
}

/// Returns true if a process has the file open with [`open_for_writer`].
pub(crate) fn has_writer(path: &Path) -> bool {
    let locked = File::open(path).map(|file| file.try_lock_shared());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}
