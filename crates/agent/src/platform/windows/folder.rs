//! Files below a folder that is held as a capability.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

/// The time for which a rename is tried. Indexers and virus scanners open new files for a moment.
const BUSY: Duration = Duration::from_millis(500);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// The errors of a rename over a file that another program has open.
const ACCESS_DENIED: i32 = 5;
const SHARING_VIOLATION: i32 = 32;

/// Returns the options as they are: an open waits for no process.
pub(crate) fn open_without_blocking(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Does nothing: a new file can be read by those who can read its folder.
pub(crate) fn make_private(_: &mut OpenOptions) {}

/// Does nothing: a file that is read-only is not replaced, and permissions come from the folder.
pub(crate) fn copy_metadata(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Returns a resolved path in the form in which people and programs write it: `C:\x` instead of
/// `\\?\C:\x`, which `cmd` refuses as its folder.
pub(crate) fn plain_path(path: PathBuf) -> PathBuf {
    dunce::simplified(&path).to_owned()
}

/// Returns the reason why a path names no file on this system, whatever its folder holds.
pub(crate) fn forbidden_name(path: &Path) -> Option<&'static str> {
    let has_stream = |part: Component<'_>| match part {
        Component::Normal(name) => name.as_encoded_bytes().contains(&b':'),
        _ => false,
    };
    let found = path.components().any(has_stream);
    found.then_some("a `:` is the sign of a stream behind a file, which is not supported")
}

/// Renames a file in a folder, over another file if there is one.
pub(crate) fn rename(folder: &Dir, from: &str, to: &OsStr) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match folder.rename(from, folder, to) {
            Err(error)
                if matches!(error.raw_os_error(), Some(ACCESS_DENIED | SHARING_VIOLATION))
                    && began.elapsed() < BUSY =>
            {
                std::thread::sleep(BETWEEN_TRIES);
            }
            renamed => return renamed,
        }
    }
}
