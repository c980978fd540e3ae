//! How `softland run --allow-shell` runs programs: under this binary as their supervisor, and with
//! this process's memory and environment closed to them where the system can do that.

use std::path::PathBuf;

use softland_agent::tools::Programs;

use crate::args::SUPERVISE;
use crate::config::Config;
use crate::failure::Failure;

/// The leave to run programs. Their environment lacks what looks like a credential, and the
/// variables that the config names for one.
///
/// # Errors
/// This binary cannot be found.
pub(crate) fn allowed(config: &Config) -> Result<Programs, Failure> {
    close_to_others();
    let withheld: Vec<String> = config.key_variables().map(str::to_owned).collect();
    Ok(Programs::new(this_binary()?, SUPERVISE, std::env::vars_os(), &withheld))
}

/// The file may be replaced while the run goes on; on Linux this is the one that runs.
#[cfg(target_os = "linux")]
fn this_binary() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
fn this_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::usage(format!("--allow-shell: softland itself is not found: {error}"))
    })
}

/// A program of the same user could read the keys in `/proc/PID/environ` otherwise. For root there
/// is no such lock.
#[cfg(target_os = "linux")]
pub(crate) fn close_to_others() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    // Where it fails, all is as on systems that cannot do it.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn close_to_others() {}
