//! Windows: share modes instead of locks, which would keep this process itself from writing. A file
//! has no mode: who may read it follows from its folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

use winapi_util::file;

/// Does nothing: a new file can be read by those who can read its folder.
pub(crate) fn make_private(_: &mut OpenOptions) {}

/// Does nothing, for the same reason.
pub(crate) fn restrict_to_owner(_: &File) -> io::Result<()> {
    Ok(())
}

/// The volume and index of a file; two paths with the same identity lead to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Returns the identity of the file at a path, or `None` if it cannot be read.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        // No access is asked for, so that no share mode is in the way.
        let file = OpenOptions::new().access_mode(0).open(path).ok()?;
        Self::from_file(&file).ok()
    }

    /// Returns the identity of an open file.
    pub(crate) fn from_file(file: &File) -> io::Result<Self> {
        let known = file::information(file)?;
        Ok(Self(known.volume_serial_number(), known.file_index()))
    }
}

/// Returns true if no other process has the file open, as far as can be told before it is opened.
pub(crate) fn may_be_unused(path: &Path) -> bool {
    match OpenOptions::new().read(true).share_mode(0).open(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns true: [`may_be_unused`] has asked already.
pub(crate) fn try_claim(_: &File) -> bool {
    true
}

/// Does nothing: nothing was claimed.
pub(crate) fn release_claim(_: &File) -> io::Result<()> {
    Ok(())
}

/// Does nothing: an open file is known to be in use.
pub(crate) fn mark_in_use(_: &File) {}
