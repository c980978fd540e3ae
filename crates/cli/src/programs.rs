//! The programs of `softland run --allow-shell`: they run under this binary as their supervisor,
//! and this process's memory and environment are closed to them where the system supports that.

use std::path::PathBuf;

use softland_agent::tools::ProgramRunner;

use crate::args::SUPERVISE;
use crate::config::Config;
use crate::failure::Failure;

/// Returns the permission to run programs. Their environment lacks variables that look like
/// credentials, and those that the config names for one.
///
/// # Errors
/// Returns a failure if this binary cannot be found.
pub(crate) fn allow_programs(config: &Config) -> Result<ProgramRunner, Failure> {
    close_to_others();
    let withheld: Vec<String> = config.key_variables().map(str::to_owned).collect();
    Ok(ProgramRunner::new(this_binary()?, SUPERVISE, std::env::vars_os(), &withheld))
}

/// Returns the path of this binary. Its file may be replaced during the run; on Linux this path is
/// the binary that runs.
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
