//! The differences between operating systems: who may read a file, which file a path leads to, and
//! which processes have it open.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Opens a file for reading and writing. Creates it, for its owner only, if it does not exist. An
/// existing file is left as it is, since it may belong to another program.
pub(crate) fn open_or_create(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).create(true).truncate(false).append(append);
    if !append {
        options.write(true);
    }
    make_private(&mut options);
    options.open(path)
}
