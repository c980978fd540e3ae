//! The differences between operating systems: who may read a file, and what tells its states apart.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// A function that reads an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;
