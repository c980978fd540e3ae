//! The supervisor of one program: a process that outlives the program and kills what it leaves
//! behind.
//!
//! On Linux the supervisor is the reaper of all descendants of the program. No group, session or
//! double fork escapes it. On other Unixes it kills the program's process group, and on Windows the
//! program's job. It cannot end processes of another user (`sudo`) or processes that a service was
//! asked to start (`systemd-run`, `at`, a container daemon). A program that kills its supervisor
//! first has escaped, except on Windows.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::Command;

use super::super::command::RunLine;
use super::ProgramSpec;
use crate::platform::{find_program, programs};

/// The longest program spec, in bytes.
const MAX_ORDER: u64 = 64 * 1024 * 1024;

/// The exit code of a supervisor that failed, or of a program that could not be run.
const NOT_RUN: u8 = 126;
/// The exit code of a program that does not exist.
const NOT_FOUND: u8 = 127;

/// Runs the program that the first line of `orders` describes, as a child of this process.
/// Interrupts it if `orders` asks for that, and ends it if `orders` ends first. Returns the exit
/// code, in the way of shells, once the program and everything that it started have ended. Only for
/// a process that does nothing else.
pub fn supervise_program(orders: impl Read + Send + 'static) -> u8 {
    let mut orders = BufReader::new(orders);
    match read_spec(&mut orders).and_then(|order| run_program(order, orders)) {
        Ok(code) => code,
        Err(error) => {
            // The output belongs to the program. The program would report its own failure there
            // too.
            let _ = writeln!(io::stderr(), "the command cannot be run: {error}");
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
        }
    }
}

fn read_spec(orders: &mut impl BufRead) -> io::Result<ProgramSpec> {
    let mut line = Vec::new();
    orders.take(MAX_ORDER).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

fn run_program(order: ProgramSpec, orders: impl BufRead + Send + 'static) -> io::Result<u8> {
    let command = match &order.run {
        RunLine::Shell(line) => programs::shell_command(line),
        RunLine::Program(program) => {
            let (name, arguments) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
            let env = |name: &str| std::env::var_os(name);
            let mut command = Command::new(find_program(OsStr::new(name), Path::new(""), &env));
            command.args(arguments);
            command
        }
    };
    programs::run_tree(command, order.input, orders)
}
