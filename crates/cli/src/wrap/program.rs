//! The program that `wrap` runs. It has the terminal.

use std::ffi::OsString;
use std::io;
use std::path::{Path, is_separator};

use softland_agent::platform::find_program;
use tokio::process::{Child, Command};

use crate::failure::{Failure, status};

/// Starts the program with some variables changed and some arguments before its own.
///
/// # Errors
/// Returns the reason for which the program cannot be run, with the exit status that a shell would
/// use.
pub(super) fn spawn_program(
    command: &[OsString],
    first: &[OsString],
    variables: &[(String, String)],
) -> Result<Child, Failure> {
    let Some((name, arguments)) = command.split_first() else {
        return Err(Failure::usage("no program to run: `softland wrap -- CMD ARGS…` needs one"));
    };
    let env = |name: &str| std::env::var_os(name);
    let mut program = Command::new(find_program(name, Path::new(""), &env));
    program.args(first).args(arguments);
    program.envs(variables.iter().map(|(name, value)| (name, value)));
    program.spawn().map_err(|error| {
        let name = name.to_string_lossy();
        match error.kind() {
            io::ErrorKind::NotFound if name.contains(is_separator) => Failure::usage(format!(
                "`{name}` does not exist, or the program that its first line names does not"
            ))
            .with_status(status::NOT_FOUND),
            io::ErrorKind::NotFound => Failure::usage(format!(
                "`{name}` was not found in any folder of PATH: is it installed, and is its \
                     name right?"
            ))
            .with_status(status::NOT_FOUND),
            io::ErrorKind::PermissionDenied
                if name.contains(is_separator) && Path::new(&*name).is_dir() =>
            {
                Failure::usage(format!("`{name}` is a folder; a program is needed"))
                    .with_status(status::NOT_RUNNABLE)
            }
            io::ErrorKind::PermissionDenied => {
                Failure::usage(format!("`{name}` may not be run (permission denied)"))
                    .with_status(status::NOT_RUNNABLE)
            }
            _ => Failure::usage(format!("`{name}` cannot be run: {error}"))
                .with_status(status::NOT_RUNNABLE),
        }
    })
}
