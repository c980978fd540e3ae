//! Windows: times of files. A file has no mode: who may read it follows from its folder.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::os::windows::fs::MetadataExt as _;
use std::path::PathBuf;

use super::Env;

/// The command of Python.
pub(crate) const PYTHON_COMMAND: &str = "python";

/// The folders of kernels of all users.
pub(crate) fn shared_jupyter(env: Env<'_>) -> Vec<PathBuf> {
    jupyter_below("PROGRAMDATA", env).into_iter().collect()
}

/// The folder of Jupyter's data of this user.
pub(crate) fn user_jupyter(env: Env<'_>) -> Option<PathBuf> {
    jupyter_below("APPDATA", env)
}

fn jupyter_below(variable: &str, env: Env<'_>) -> Option<PathBuf> {
    let folder = env(variable).filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder).join("jupyter"))
}

/// Returns the options as they are: a new file can be read by those who can read its folder.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns the builder as it is, for the same reason.
pub(crate) fn make_folder_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

/// The facts that tell one state of a file from another without reading it. The time of its
/// creation is not one of them: a file that replaces another one inherits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    written: u64,
    length: u64,
}

impl FileStamp {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self { written: metadata.last_write_time(), length: metadata.file_size() }
    }
}
