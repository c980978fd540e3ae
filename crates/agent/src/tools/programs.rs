//! Programs that tools run: ended with all that they started, their output bounded, without the
//! credentials of this process. They are not confined: they may do what the user may.
//!
//! A program is run by a supervisor, which is a process of its own ([`supervise`]): what a program
//! leaves behind becomes the supervisor's child, whatever group or session it has moved to, and
//! is ended by it. The supervisor is told to end by the end of its standard input, so that it does
//! so also where this process is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

use crate::tool::ToolOutput;

mod environment;
mod held;
mod supervise;
#[cfg(test)]
mod tests;

pub use environment::is_credential;
pub use held::Held;
pub use supervise::supervise;

/// How long a program may run.
pub(super) const TIME: Duration = Duration::from_secs(120);

/// What ending a program and all that it started may take beyond that.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// How long output is waited for when everything has ended: it lies in the pipe already, unless
/// something that could not be ended holds the pipe open.
const DREGS: Duration = Duration::from_millis(500);

/// Bytes of output that are kept from the beginning, and from the end.
const HEAD: usize = 40 * 1024;
const TAIL: usize = 16 * 1024;

/// The leave to run programs, and how.
#[derive(Clone, Debug)]
pub struct Programs {
    supervisor: PathBuf,
    argument: String,
    environment: Vec<(OsString, OsString)>,
}

/// What a supervisor is asked to run, as a line of JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The program, and its arguments.
    pub(super) program: Vec<String>,
    /// What it gets on its standard input; nothing where that is `None`.
    pub(super) input: Option<String>,
}

impl Programs {
    /// Programs run under `supervisor`, an executable file that calls [`supervise`] where its one
    /// argument is `argument`; with these variables, but those that hold credentials: what
    /// [`is_credential`] says, and `withheld`.
    pub fn new(
        supervisor: impl Into<PathBuf>,
        argument: impl Into<String>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        withheld: &[String],
    ) -> Self {
        let environment = environment::cleaned(environment, withheld);
        Self { supervisor: supervisor.into(), argument: argument.into(), environment }
    }

    /// Runs a program to its end. Dropped before that, it ends the program.
    pub(super) async fn run(&self, folder: &Path, order: &Order, time: Duration) -> ToolOutput {
        match self.start(folder, order).await {
            Ok(running) => running.finish(time).await,
            Err(error) => ToolOutput::error(format!("the command cannot be run: {error}")),
        }
    }

    async fn start(&self, folder: &Path, order: &Order) -> io::Result<Running> {
        let (reader, writer) = io::pipe()?;
        let output = Receiver::from_owned_fd(reader.into())?;
        let mut command = Command::new(&self.supervisor);
        command
            .arg(&self.argument)
            .current_dir(folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let mut supervisor = command.spawn()?;
        // It holds the pipe's other end, which would never be closed.
        drop(command);
        let mut hold = supervisor.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        hold.write_all(&line).await?;
        Ok(Running { supervisor, hold: Some(hold), output, kept: Kept::default() })
    }
}

/// A program under its supervisor.
struct Running {
    supervisor: Child,
    /// Closing it ends the program.
    hold: Option<ChildStdin>,
    output: Receiver,
    kept: Kept,
}

impl Running {
    async fn finish(mut self, time: Duration) -> ToolOutput {
        let deadline = Instant::now() + time;
        let ended = tokio::select! {
            ended = self.ended() => ended,
            () = tokio::time::sleep_until(deadline) => {
                self.hold = None;
                let ended = self.ended().await;
                return match ended {
                    Ok(_) => self.output(Some(format!(
                        "[timed out after {} s: it was ended, with all that it had started]",
                        time.as_secs()
                    ))),
                    Err(error) => lost(&error.to_string()),
                };
            }
        };
        match ended.map(|status| status.code()) {
            Ok(Some(0)) => self.output(None),
            // One of the forms that are known for a failure (`core`'s table of them).
            Ok(Some(code)) => self.output(Some(format!("Exit code {code}"))),
            Ok(None) => lost("its supervisor was killed"),
            Err(error) => lost(&error.to_string()),
        }
    }

    /// The supervisor's end, and with it the end of all that it watched over. May be dropped and
    /// called again.
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        let mut buffer = vec![0; 16 * 1024];
        let status = loop {
            tokio::select! {
                biased;
                read = self.output.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => break self.supervisor.wait().await?,
                    Ok(count) => self.kept.add(buffer.get(..count).unwrap_or_default()),
                },
                status = self.supervisor.wait() => break status?,
            }
        };
        let rest = async {
            while let Ok(count @ 1..) = self.output.read(&mut buffer).await {
                self.kept.add(buffer.get(..count).unwrap_or_default());
            }
        };
        let _ = tokio::time::timeout(DREGS, rest).await;
        Ok(status)
    }

    /// A result: what was printed, and behind it what went wrong.
    fn output(&self, wrong: Option<String>) -> ToolOutput {
        let mut content = self.kept.text();
        match wrong {
            None if content.is_empty() => ToolOutput::ok("(no output)"),
            None => ToolOutput::ok(content),
            Some(wrong) => {
                if !content.is_empty() && !content.ends_with('\n') {
                    content.push('\n');
                }
                ToolOutput::error(content + &wrong)
            }
        }
    }
}

fn lost(why: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "it is not known how the command ended ({why}); what it started may still run"
    ))
}

/// Output in bounded room: its beginning and its end.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        format!(
            "{}\n[… {} bytes left out; print less to see them]\n{}",
            String::from_utf8_lossy(&self.head),
            self.left_out,
            String::from_utf8_lossy(&tail)
        )
    }
}
