//! A server that is a program: started with a small environment, ended with everything that
//! it started.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::client::StderrHandler;
use super::file::ServerProgram;
use crate::platform::server::ServerTree;
use crate::platform::{SERVER_VARIABLES, find_program};
use crate::tool::cut_line;

/// The time for a server to end after its input is closed, and again after it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The lines of a server's standard error that are kept, and the characters of each line.
const LINES: usize = 10;
const LINE: usize = 400;

/// The longest piece of standard error that counts as a line, in bytes.
const PIECE: u64 = 64 * 1024;

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

/// The process of a server. On drop it is killed with everything that it started, and also if this
/// process dies suddenly.
pub(super) struct ServerProcess {
    tree: ServerTree,
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
        let command = build_command(program, env);
        let started = ServerTree::start(command);
        let (tree, input, output, errors) =
            started.map_err(|error| spawn_error(program, &error))?;
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
        let exited = tree.exited();
        Ok((Self { tree, words, exited }, output, input))
    }

    /// Returns the exit status if the program ends within a moment.
    pub(super) async fn exit_status(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(Duration::from_millis(500), self.tree.wait()).await.ok()?
    }

    /// Ends the server, whose input must be closed: waits for it, then asks it, and what it has
    /// started, to end. On drop all of it is killed.
    pub(super) async fn shut_down(mut self) {
        let waited = tokio::time::timeout(PATIENCE, self.tree.wait()).await;
        // Processes that the server has started may outlive it.
        self.tree.ask_to_end();
        if waited.is_err() {
            let _ = tokio::time::timeout(PATIENCE, self.tree.wait()).await;
        }
    }
}

/// Builds the command of a program, which gets a few variables of this process, and those that are
/// declared for it.
fn build_command(program: &ServerProgram, env: &dyn Fn(&str) -> Option<String>) -> Command {
    let own = |name: &str| program.env.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    let variable = |name: &str| own(name).map(|(_, value)| value.clone()).or_else(|| env(name));
    let folder = program.cwd.clone().unwrap_or_default();
    let name =
        find_program(program.command.as_ref(), &folder, &|name| variable(name).map(Into::into));
    let mut command = Command::new(name);
    command
        .args(&program.args)
        .env_clear()
        .envs(SERVER_VARIABLES.iter().filter_map(|name| Some((*name, env(name)?))))
        .envs(&program.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(folder) = &program.cwd {
        command.current_dir(folder);
    }
    command
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
