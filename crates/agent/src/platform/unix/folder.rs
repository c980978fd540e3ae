//! Files below a folder that is held as a capability.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{
    File, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _, Permissions,
    PermissionsExt as _,
};
use rustix::fs::{Gid, OFlags, Uid, fchown};

/// Lets an open never wait for a process at the other end, as opening a pipe does.
pub(crate) fn open_without_blocking(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed())
}

/// Lets a new file be read by its owner only.
pub(crate) fn make_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Gives a file the mode of another file and, if permitted, its owner.
pub(crate) fn copy_metadata(file: &File, old: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    let mut mode = old.permissions().mode() & 0o7777;
    if (now.uid(), now.gid()) != (old.uid(), old.gid())
        && fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid()))).is_err()
    {
        // With another owner, a set-user-id file would run as somebody else.
        mode &= 0o777;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Returns a resolved path in the form in which people and programs write it.
pub(crate) fn plain_path(path: PathBuf) -> PathBuf {
    path
}

/// Returns the reason why a path names no file on this system, whatever its folder holds.
pub(crate) fn forbidden_name(_: &Path) -> Option<&'static str> {
    None
}

/// Renames a file in a folder, over another file if there is one.
pub(crate) fn rename(
    folder: &cap_std::fs::Dir,
    from: &str,
    to: &std::ffi::OsStr,
) -> io::Result<()> {
    folder.rename(from, folder, to)
}
