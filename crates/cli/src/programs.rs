//! The programs of `softland run --allow-shell`: they run under this binary as their supervisor,
//! and this process's memory and environment are closed to them where the system supports that.

use softland_agent::tools::ProgramRunner;

use crate::args::SUPERVISE;
use crate::config::Config;
use crate::failure::Failure;
use crate::platform;

/// Returns the permission to run programs. Their environment lacks variables that look like
/// credentials, and those that the config names for one.
///
/// # Errors
/// Returns a failure if this binary cannot be found.
pub(crate) fn allow_programs(config: &Config) -> Result<ProgramRunner, Failure> {
    platform::close_to_others();
    let withheld: Vec<String> = config.key_variables().map(str::to_owned).collect();
    let binary = platform::this_binary().map_err(|error| {
        Failure::usage(format!("--allow-shell: softland itself is not found: {error}"))
    })?;
    Ok(ProgramRunner::new(binary, SUPERVISE, std::env::vars_os(), &withheld))
}
