//! The differences between operating systems: files, programs and what they start, names of
//! programs. Both systems have the same functions, in `unix` and `windows`; nothing else in this
//! crate asks on which system it runs.

mod find_program;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use find_program::find_program;

#[cfg(all(unix, any(feature = "journal", feature = "mcp", feature = "tools")))]
use unix as system;
#[cfg(all(windows, any(feature = "journal", feature = "mcp", feature = "tools")))]
use windows as system;

#[cfg(feature = "journal")]
pub(crate) use system::files;
#[cfg(feature = "mcp")]
pub(crate) use system::{SERVER_VARIABLES, server};
#[cfg(feature = "tools")]
pub(crate) use system::{folder, programs};
