//! A server that is a program, in a process group of its own.

use std::io;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

/// The script of the guard of a server's process group. If its input ends before it is told that
/// everything is over, this process has died, and the guard kills the group.
const GUARD: &str = r#"read -r over || kill -KILL "-$1""#;

/// A server and its process group. On drop the group is killed, and also if this process dies
/// suddenly.
pub(crate) struct ServerTree {
    child: Child,
    /// The guard, whose input is held open. It is killed before the group's id can be reused.
    guard: Option<Child>,
    group: Option<Pid>,
    exited: CancellationToken,
}

impl ServerTree {
    /// Starts a server, all of whose streams are pipes.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub(crate) fn start(
        mut command: Command,
    ) -> io::Result<(Self, ChildStdin, ChildStdout, ChildStderr)> {
        // Ctrl-C in the terminal is meant for this process, which then ends the server.
        let mut child = command.process_group(0).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("its pipes cannot be had"));
        };
        let exited = CancellationToken::new();
        let mut tree = Self { child, guard: None, group, exited };
        if let Some(program) = group {
            watch_exit(program, tree.exited.clone())?;
        }
        tree.guard = group.and_then(spawn_guard);
        Ok((tree, input, output, errors))
    }

    /// Waits for the end of the program. Cancel safe.
    pub(crate) async fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Returns a token that is cancelled when the program has ended.
    pub(crate) fn exited(&self) -> CancellationToken {
        self.exited.clone()
    }

    /// Asks the server, and everything in its group, to end.
    pub(crate) fn ask_to_end(&self) {
        self.signal_group(Signal::TERM);
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error means that no process is left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerTree {
    fn drop(&mut self) {
        self.signal_group(Signal::KILL);
        if let Some(guard) = &mut self.guard {
            // Otherwise the guard would end by itself.
            let _ = guard.start_kill();
        }
    }
}

/// Waits for the end of a program, on a thread of its own. The program is not reaped, so that the
/// id of its group cannot be reused.
fn watch_exit(program: Pid, exited: CancellationToken) -> io::Result<()> {
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Any other error means that the program was already reaped.
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(program), options) {}
        exited.cancel();
    };
    std::thread::Builder::new().name("mcp-watch".to_owned()).spawn(wait).map(drop)
}

/// Starts the guard, a program that outlives this process by a moment and ignores the terminal;
/// `None` without a shell.
fn spawn_guard(group: Pid) -> Option<Child> {
    let guard = Command::new("/bin/sh")
        .args(["-c", GUARD, "sh", &group.as_raw_nonzero().to_string()])
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    guard.ok()
}
