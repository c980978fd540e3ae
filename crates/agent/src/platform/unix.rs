//! Linux, macOS and other Unixes: modes and owners of files, process groups and signals.

#[cfg(feature = "journal")]
pub(crate) mod files;
#[cfg(feature = "tools")]
pub(crate) mod folder;
#[cfg(feature = "tools")]
pub(crate) mod programs;
#[cfg(feature = "mcp")]
pub(crate) mod server;

/// The variables of this process that an MCP server gets: those that other clients pass, and those
/// for language and time.
#[cfg(feature = "mcp")]
pub(crate) const SERVER_VARIABLES: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];
