//! Windows: share modes of files, job objects, `cmd`.
//!
//! A file has no mode there: who may read it follows from its folder, and the folders of a user are
//! closed to other users.

#[cfg(feature = "journal")]
pub(crate) mod files;
#[cfg(feature = "tools")]
pub(crate) mod folder;
#[cfg(feature = "tools")]
pub(crate) mod programs;
#[cfg(feature = "mcp")]
pub(crate) mod server;
#[cfg(any(feature = "mcp", feature = "tools"))]
mod tree;

/// The variables of this process that an MCP server gets: those that other clients pass (the
/// official SDKs have the same list), and those without which few programs start.
#[cfg(feature = "mcp")]
pub(crate) const SERVER_VARIABLES: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
