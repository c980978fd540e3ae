//! A server that is a program: begun with a small environment, ended with its process group.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::client::Heard;
use super::file::Program;
use crate::tool::cut_line;

/// How long a server may take to end once its input is closed, and once it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lines of a server's standard error that are kept, and characters of each.
const LINES: usize = 10;
const LINE: usize = 400;

/// The longest piece of standard error that is taken as a line.
const PIECE: u64 = 64 * 1024;

/// The variables of this process that a server gets; those that other clients pass, and the
/// language and time of texts. All others are given by `env`.
const PASSED: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// The last words of a server on standard error.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    fn add(&self, line: String) {
        if let Ok(mut lines) = self.0.lock() {
            lines.push_back(line);
            let over = lines.len().saturating_sub(LINES);
            lines.drain(..over);
        }
    }

    /// Them, behind a colon; nothing where there are none.
    pub(super) fn told(&self) -> String {
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

/// What the guard of a server's group does: where its input ends before it is told that all is
/// over, this process has died, and the group is killed.
const GUARD: &str = r#"read -r over || kill -KILL "-$1""#;

/// A server's process. Dropped, it is killed with its group; so it is where this process dies
/// without a word.
pub(super) struct Process {
    child: Child,
    /// Holds the guard's input; killed before the group's number can be another's.
    guard: Option<Child>,
    group: Option<Pid>,
    pub(super) words: LastWords,
    /// The program has ended; what it has started may hold its output open all the same.
    pub(super) exited: CancellationToken,
}

impl Process {
    /// Starts the program; hands back its pipes, too.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(super) fn start(
        server: &str,
        program: &Program,
        env: &dyn Fn(&str) -> Option<String>,
        heard: &Heard,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let mut command = Command::new(&program.command);
        command
            .args(&program.args)
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((*name, env(name)?))))
            .envs(&program.env)
            // Ctrl-C in the terminal is for this process, which then ends the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = &program.cwd {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| not_started(program, &error))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(output), Some(input), Some(errors)) = pipes else {
            return Err("its pipes cannot be had".to_owned());
        };
        let words = LastWords::default();
        let (kept, heard, server) = (words.clone(), Arc::clone(heard), server.to_owned());
        tokio::spawn(async move {
            let mut errors = BufReader::new(errors);
            let mut line = Vec::new();
            while let Ok(1..) = (&mut errors).take(PIECE).read_until(b'\n', &mut line).await {
                let text = cut_line(String::from_utf8_lossy(&line).trim_end(), LINE);
                heard(&server, &text);
                kept.add(text);
                line.clear();
            }
        });
        let exited = CancellationToken::new();
        if let Some(program) = group {
            watch(program, exited.clone())?;
        }
        let guard = group.and_then(guard);
        Ok((Self { child, guard, group, words, exited }, output, input))
    }

    /// How it ended, where it has within a moment.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(Duration::from_millis(500), self.child.wait()).await.ok()?.ok()
    }

    /// Ends it, its input being closed: it is waited for, then asked, then killed, each with all
    /// of its group.
    pub(super) async fn end(mut self) {
        let waited = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        // What it has started may still be there where it is not.
        self.signal(Signal::TERM);
        if waited.is_err() {
            let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error is that there is nobody left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Some(guard) = &mut self.guard {
            // It has ended by itself otherwise.
            let _ = guard.start_kill();
        }
    }
}

/// Waits for a program's end, on a thread of its own. Its number is left to it, so that its group can
/// be told of no other.
fn watch(program: Pid, exited: CancellationToken) -> Result<(), String> {
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Any other error is that somebody has taken its end already.
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(program), options) {}
        exited.cancel();
    };
    let begun = std::thread::Builder::new().name("mcp-watch".to_owned()).spawn(wait);
    begun.map(drop).map_err(|error| format!("it cannot be watched: {error}"))
}

/// A program beside the server that outlives this process by a moment; without a shell there is
/// none. It is deaf to the terminal.
fn guard(group: Pid) -> Option<Child> {
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

fn not_started(program: &Program, error: &std::io::Error) -> String {
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
