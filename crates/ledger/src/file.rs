//! Files that only their owner may read, and the identity of a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for reading and writing. Creates it, for its owner only, if it does not exist. An
/// existing file is left as it is, since it may belong to another program.
pub(crate) fn open_or_create(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).create(true).truncate(false).append(append);
    if !append {
        options.write(true);
    }
    restrict_mode(&mut options);
    options.open(path)
}

#[cfg(unix)]
fn restrict_mode(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

/// Sets the mode to 0600, whatever it was before. Leaves anything but a regular file as it is.
#[cfg(unix)]
pub(crate) fn restrict_to_owner(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o777 == 0o600 {
        return Ok(());
    }
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn own(_: &mut OpenOptions) {}

#[cfg(not(unix))]
pub(crate) fn close_to_others(_: &File) -> io::Result<()> {
    Ok(())
}

/// The device and inode of a file; two paths with the same identity lead to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Returns the identity of the file at a path, or `None` if it cannot be read.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().and_then(|metadata| Self::from_metadata(&metadata))
    }

    #[cfg(unix)]
    pub(crate) fn from_metadata(metadata: &std::fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    /// Returns the same identity for every file, as there are no inodes.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &std::fs::Metadata) -> Option<Self> {
        Some(Self(0, 0))
    }
}
