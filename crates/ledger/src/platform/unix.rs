//! Unix: modes, inodes and locks.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Lets a new file be read by its owner only.
pub(crate) fn make_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Sets the mode to 0600, whatever it was before. Leaves anything but a regular file as it is.
pub(crate) fn restrict_to_owner(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o777 == 0o600 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600))
}

/// The device and inode of a file; two paths with the same identity lead to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Returns the identity of the file at a path, or `None` if it cannot be read.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    /// Returns the identity of an open file.
    pub(crate) fn from_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

/// Returns true if no other process has the file open, as far as can be told before it is opened.
pub(crate) fn may_be_unused(_: &Path) -> bool {
    true
}

/// Keeps other processes from [`mark_in_use`], unless one of them came first.
pub(crate) fn try_claim(file: &File) -> bool {
    file.try_lock().is_ok()
}

/// Ends what [`try_claim`] began.
pub(crate) fn release_claim(file: &File) -> io::Result<()> {
    file.unlock()
}

/// Tells the next process that the file is in use. Some file systems ignore it.
pub(crate) fn mark_in_use(file: &File) {
    let _ = file.try_lock_shared();
}
