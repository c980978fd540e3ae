//! Programs that tools run, and everything that they start.

use std::io::{self, PipeReader, Read};
use std::os::windows::io::OwnedHandle;
use std::os::windows::process::CommandExt as _;
use std::process::{Command, Stdio};

use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdout;
use tokio::sync::oneshot;
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

use super::tree::ProcessTree;

/// The shell that runs command lines, as models are told.
pub(crate) const SHELL: &str = "cmd /c";

/// Returns the command of a command line, which `cmd` reads as it is. The line's output is UTF-8,
/// if its programs heed the console's code page.
pub(crate) fn shell_command(line: &str) -> Command {
    let mut command = Command::new("cmd.exe");
    command.raw_arg(format!("/d /s /c \"chcp 65001 >nul 2>nul & {line}\""));
    command
}

/// Returns the reason why a command line cannot be run on this system.
pub(crate) fn check_command_line(line: &str) -> Result<(), &'static str> {
    // `cmd` would run the first line, and ignore the others.
    if line.trim().contains('\n') {
        return Err("on Windows, `command` has one line, for cmd: join commands with && or &");
    }
    Ok(())
}

/// Returns the orders that interrupt a program.
///
/// # Errors
/// Returns an error: a program without a console gets no Ctrl-C.
pub(crate) fn interrupt_orders() -> io::Result<&'static [u8]> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "a program in the background cannot be interrupted on Windows, only ended",
    ))
}

/// Prepares the command of a supervisor: Ctrl-C in the terminal is for the user of this process.
pub(crate) fn prepare_supervisor(command: &mut tokio::process::Command) {
    command.creation_flags(CREATE_NO_WINDOW.0);
}

/// Does nothing: a program cannot stop its supervisor.
pub(crate) fn wake_supervisor(_: Option<u32>) {}

/// Does nothing: a supervisor that ends takes its job with it.
pub(crate) fn kill_tree(_: Option<u32>) {}

/// Returns the reading end of a pipe, for tokio.
pub(crate) fn read_pipe(reader: PipeReader) -> io::Result<ChildStdout> {
    ChildStdout::from_std(OwnedHandle::from(reader).into())
}

/// Describes the exit code of a supervisor.
pub(crate) fn describe_exit_code(code: i32) -> String {
    format!("it ended with exit code {code}")
}

/// Runs a program to its end, with `input` as its standard input, and then ends everything that it
/// has started. Ends it earlier if `orders` ends. Returns its exit code; codes that do not fit are
/// 255.
///
/// # Errors
/// Returns an error if the program cannot be started.
pub(crate) fn run_tree(
    mut command: Command,
    input: Option<String>,
    mut orders: impl Read + Send + 'static,
) -> io::Result<u8> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let (over, ordered) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut orders, &mut io::sink());
        let _ = over.send(());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let (tree, pipes) = ProcessTree::start(command.into())?;
        if let Some((mut pipe, input)) = pipes.stdin.zip(input) {
            // A program need not read all of it.
            tokio::spawn(async move { pipe.write_all(input.as_bytes()).await });
        }
        tokio::select! {
            status = tree.wait() => Ok(status.and_then(|status| status.code())),
            _ = ordered => {
                tree.end();
                Ok(tree.wait().await.and_then(|status| status.code()))
            }
        }
    });
    // A write to a program that does not read would hold the runtime up.
    runtime.shutdown_background();
    code.map(|code: Option<i32>| code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
