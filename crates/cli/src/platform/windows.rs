//! Windows. A file has no mode there: who may read it follows from its folder, and the folders of a
//! user are closed to other users.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::PathBuf;

mod program;
mod signals;

pub(crate) use program::{SignalListener, exit_status, wait_for_end};
pub(crate) use signals::{Reloads, Signals, let_long_writes_fail};

/// The variables that name the user's home folder. Git's shell and some programs set the first.
pub(super) const HOME_VARIABLES: &[&str] = &["HOME", "USERPROFILE"];

/// The variable from which the folder of programs' states is found, and the path below it.
pub(super) const STATE_FOLDER: (&str, &str) = ("LOCALAPPDATA", "");

/// Returns the options as they are: a new file can be read by those who can read its folder.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns the builder as it is, for the same reason.
pub(crate) fn make_folder_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

/// Makes the console understand colours and movements of the cursor. Returns false if it does not,
/// as before Windows 10.
pub(crate) fn prepare_terminal() -> bool {
    anstyle_query::windows::enable_ansi_colors().unwrap_or(false)
}

/// Returns true unless `TERM`, which consoles do not set, names a terminal that does not move its
/// cursor.
pub(crate) fn moves_cursor(term: Option<&str>) -> bool {
    term != Some("dumb")
}

/// Returns the path of this binary.
///
/// # Errors
/// Returns an error if the system cannot tell.
pub(crate) fn this_binary() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Does nothing: other programs of the same user can read this process.
pub(crate) fn close_to_others() {}
