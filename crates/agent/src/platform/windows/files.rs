//! Files with one writer. A lock would keep readers out too: it is by the share mode that the file
//! is opened with that no other process can write to it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_DELETE: u32 = 4;

/// The error of an open that another process's share mode does not permit.
const SHARING_VIOLATION: i32 = 32;

/// Does nothing: a new file can be read by those who can read its folder.
pub(crate) fn make_private(_: &mut OpenOptions) {}

/// Does nothing, for the same reason.
pub(crate) fn restrict_to_owner(_: &File) -> io::Result<()> {
    Ok(())
}

/// Opens a file for writing that no other process has open for writing.
///
/// # Errors
/// Returns `WouldBlock` if another process has.
pub(crate) fn open_for_writer(path: &Path, options: &OpenOptions) -> Result<File, TryLockError> {
    let opened = options.clone().share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE).open(path);
    opened.map_err(|error| match is_shared_out(&error) {
        true => TryLockError::WouldBlock,
        false => TryLockError::Error(error),
    })
}

/// Returns true if a process has the file open with [`open_for_writer`].
pub(crate) fn has_writer(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path).is_err_and(|error| is_shared_out(&error))
}

fn is_shared_out(error: &io::Error) -> bool {
    error.raw_os_error() == Some(SHARING_VIOLATION)
}
