//! Files that only their owner may read, and whether a path still leads to one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file to read and write, making it, for its owner only, where there is none. One that is
/// there is left as it is: whose it is has to be looked at first.
pub(crate) fn open(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).create(true).truncate(false).append(append);
    if !append {
        options.write(true);
    }
    own(&mut options);
    options.open(path)
}

#[cfg(unix)]
fn own(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

/// Sets the mode to 0600, whatever the umask and whatever it was; what is no regular file stays as
/// it is.
#[cfg(unix)]
pub(crate) fn close_to_others(file: &File) -> io::Result<()> {
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

/// What a file is known by, apart from its name; `None` where that cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    /// Of what a path leads to.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().and_then(|metadata| Self::of(&metadata))
    }

    #[cfg(unix)]
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    /// Without inodes every file passes for the same one.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &std::fs::Metadata) -> Option<Self> {
        Some(Self(0, 0))
    }
}
