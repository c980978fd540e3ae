//! A server that is a program: started with a small environment, ended with its process group.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::client::StderrHandler;
use super::file::ServerProgram;
use crate::tool::cut_line;

/// The time for a server to end after its input is closed, and again after it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The lines of a server's standard error that are kept, and the characters of each line.
const LINES: usize = 10;
const LINE: usize = 400;

/// The longest piece of standard error that counts as a line, in bytes.
const PIECE: u64 = 64 * 1024;

/// The variables of this process that a server gets: those that other clients pass, and those for
/// language and time. All other variables are given by `env`.
const PASSED: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// The last lines of a server's standard error.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    fn push_line(&self, line: String) {
        if let Ok(mut lines) = self.0.lock() {
            lines.push_back(line);
            let over = lines.len().saturating_sub(LINES);
            lines.drain(..over);
        }
    }

    /// Returns the lines behind a colon, for a message; empty without lines.
    pub(super) fn to_suffix(&self) -> String {
        let lines: Vec<String> = match self.0.lock() {
            Ok(lines) => lines.iter().filter(|line| !line.trim().is_empty()).cloned().collect(),
            Err(_) => Vec::new(),
        };
        if lines.is_empty() {
            return String::new();
        }
        format!("; its last words: {}", lines.join(" | "))
    }
}

/// The script of the guard of a server's process group. If its input ends before it is told that
/// everything is over, this process has died, and the guard kills the group.
const GUARD: &str = r#"read -r over || kill -KILL "-$1""#;

/// The process of a server. On drop it is killed with its group, and also if this process dies
/// suddenly.
pub(super) struct ServerProcess {
    child: Child,
    /// The guard, whose input is held open. It is killed before the group's id can be reused.
    guard: Option<Child>,
    group: Option<Pid>,
    pub(super) words: StderrTail,
    /// Cancelled when the program has ended. A child of the program may still hold its output open.
    pub(super) exited: CancellationToken,
}

impl ServerProcess {
    /// Starts the program. Also returns its pipes.
    ///
    /// # Errors
    /// Returns the reason why the program cannot be started.
    pub(super) fn start(
        server: &str,
        program: &ServerProgram,
        env: &dyn Fn(&str) -> Option<String>,
        heard: &StderrHandler,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let mut command = Command::new(&program.command);
        command
            .args(&program.args)
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((*name, env(name)?))))
            .envs(&program.env)
            // Ctrl-C in the terminal is meant for this process, which then ends the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = &program.cwd {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| spawn_error(program, &error))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(output), Some(input), Some(errors)) = pipes else {
            return Err("its pipes cannot be had".to_owned());
        };
        let words = StderrTail::default();
        let (kept, heard, server) = (words.clone(), Arc::clone(heard), server.to_owned());
        tokio::spawn(async move {
            let mut errors = BufReader::new(errors);
            let mut line = Vec::new();
            while let Ok(1..) = (&mut errors).take(PIECE).read_until(b'\n', &mut line).await {
                let text = cut_line(String::from_utf8_lossy(&line).trim_end(), LINE);
                heard(&server, &text);
                kept.push_line(text);
                line.clear();
            }
        });
        let exited = CancellationToken::new();
        if let Some(program) = group {
            watch_exit(program, exited.clone())?;
        }
        let guard = group.and_then(spawn_guard);
        Ok((Self { child, guard, group, words, exited }, output, input))
    }

    /// Returns the exit status if the program ends within a moment.
    pub(super) async fn exit_status(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(Duration::from_millis(500), self.child.wait()).await.ok()?.ok()
    }

    /// Ends the server, whose input must be closed: waits for it, then asks it and its group to
    /// end. On drop the group is killed.
    pub(super) async fn shut_down(mut self) {
        let waited = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        // Processes that the server has started may outlive it.
        self.signal_group(Signal::TERM);
        if waited.is_err() {
            let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error means that no process is left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerProcess {
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
fn watch_exit(program: Pid, exited: CancellationToken) -> Result<(), String> {
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Any other error means that the program was already reaped.
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(program), options) {}
        exited.cancel();
    };
    let begun = std::thread::Builder::new().name("mcp-watch".to_owned()).spawn(wait);
    begun.map(drop).map_err(|error| format!("it cannot be watched: {error}"))
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

fn spawn_error(program: &ServerProgram, error: &std::io::Error) -> String {
    let command = cut_line(&program.command, 200);
    match (error.kind(), &program.cwd) {
        (std::io::ErrorKind::NotFound, Some(folder)) if !folder.is_dir() => {
            format!("cwd: the folder {} does not exist", folder.display())
        }
        (std::io::ErrorKind::NotFound, _) => {
            format!("command: `{command}` is not found; give a path, or a program of PATH")
        }
        _ => format!("command: `{command}` cannot be started: {error}"),
    }
}
