//! Linux, macOS and other Unixes.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

mod program;
mod signals;

pub(crate) use program::{SignalListener, exit_status, wait_for_end};
pub(crate) use signals::{Reloads, Signals, let_long_writes_fail};

/// The variables that name the user's home folder.
pub(super) const HOME_VARIABLES: &[&str] = &["HOME"];

/// The variable from which the folder of programs' states is found, and the path below it.
pub(super) const STATE_FOLDER: (&str, &str) = if cfg!(target_os = "macos") {
    ("HOME", "Library/Application Support")
} else {
    ("HOME", ".local/state")
};

/// Lets a new file be read by its owner only.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Lets a new folder be used by its owner only.
pub(crate) fn make_folder_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder.mode(0o700)
}

/// Returns true: terminals show colours and move their cursor, unless `TERM` says otherwise.
pub(crate) fn prepare_terminal() -> bool {
    true
}

/// Returns true if `TERM` names a terminal that moves its cursor.
pub(crate) fn moves_cursor(term: Option<&str>) -> bool {
    term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Returns the path of this binary. Its file may be replaced while it runs; on Linux this path is
/// the binary that runs.
///
/// # Errors
/// Returns an error if the system cannot tell.
pub(crate) fn this_binary() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

/// Closes this process's memory and environment to other programs of the same user, which could
/// otherwise read the keys in `/proc/PID/environ`. Programs of root are not kept out.
#[cfg(target_os = "linux")]
pub(crate) fn close_to_others() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    // On failure the process stays open, as on systems without this feature.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn close_to_others() {}
