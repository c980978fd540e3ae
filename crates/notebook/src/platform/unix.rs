//! Unix: modes and inodes.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use super::Env;

/// The command of Python.
pub(crate) const PYTHON_COMMAND: &str = "python3";

/// The folders of kernels of all users.
pub(crate) fn shared_jupyter(_: Env<'_>) -> Vec<PathBuf> {
    ["/usr/local/share/jupyter", "/usr/share/jupyter"].map(PathBuf::from).into()
}

/// The folder of Jupyter's data of this user.
pub(crate) fn user_jupyter(env: Env<'_>) -> Option<PathBuf> {
    let below = if cfg!(target_os = "macos") { "Library/Jupyter" } else { ".local/share/jupyter" };
    env("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(below))
}

/// Lets a new file be read by its owner only.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Lets a new folder be used by its owner only.
pub(crate) fn make_folder_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder.mode(0o700)
}

/// The facts that tell one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    length: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl FileStamp {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }
}
