//! Programs that tools run. A program ends together with everything that it started, its output is
//! bounded, and it gets no credentials of this process. Programs are not confined: they may do what
//! the user may.
//!
//! Each program is run by a supervisor, a process of its own ([`supervise_program`]). Processes
//! that a program leaves behind become children of the supervisor, whatever group or session they
//! have moved to, and the supervisor kills them. The end of its standard input tells the supervisor
//! to end, so that it does so even if this process is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use super::command::RunLine;
use crate::platform::programs;
use crate::tool::ToolOutput;

mod background;
mod environment;
mod supervise;
#[cfg(test)]
mod tests;

pub use background::BackgroundProgram;
pub use environment::is_credential;
pub use supervise::supervise_program;

/// The time limit of a program.
pub(super) const TIME: Duration = Duration::from_secs(120);

/// The additional time for ending a program and everything that it started.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// The pause between signals that a stopped supervisor goes on.
const WAKING: Duration = Duration::from_millis(50);

/// The time to wait for output when everything has ended. The output is in the pipe already, unless
/// a process that could not be ended holds the pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// The bytes of output that are kept from the beginning, and from the end.
const HEAD: usize = 40 * 1024;
const TAIL: usize = 16 * 1024;

/// Runs programs under a supervisor, with a cleaned environment.
#[derive(Clone, Debug)]
pub struct ProgramRunner {
    supervisor: PathBuf,
    argument: String,
    environment: Vec<(OsString, OsString)>,
}

/// The program that a supervisor is to run, as a line of JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgramSpec {
    #[serde(flatten)]
    pub(super) run: RunLine,
    /// The standard input of the program; `None` is empty.
    pub(super) input: Option<String>,
}

impl ProgramRunner {
    /// Creates a runner whose `supervisor` is an executable file that calls [`supervise_program`]
    /// if its only argument is `argument`. Programs get the variables of `environment`, except
    /// those that hold credentials by [`is_credential`] and those in `withheld`.
    pub fn new(
        supervisor: impl Into<PathBuf>,
        argument: impl Into<String>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        withheld: &[String],
    ) -> Self {
        let environment = environment::without_credentials(environment, withheld);
        Self { supervisor: supervisor.into(), argument: argument.into(), environment }
    }

    /// Runs a program to its end. If the future is dropped earlier, the program is ended.
    pub(super) async fn run_program(
        &self,
        folder: &Path,
        order: &ProgramSpec,
        time: Duration,
    ) -> ToolOutput {
        match self.start_program(folder, order).await {
            Ok(running) => running.wait_for_output(time).await,
            Err(error) => ToolOutput::error(format!("the command cannot be run: {error}")),
        }
    }

    async fn start_program(
        &self,
        folder: &Path,
        order: &ProgramSpec,
    ) -> io::Result<RunningProgram> {
        let (reader, writer) = io::pipe()?;
        let output = programs::read_pipe(reader)?;
        let mut command = Command::new(&self.supervisor);
        command
            .arg(&self.argument)
            .current_dir(folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        programs::prepare_supervisor(&mut command);
        let mut supervisor = command.spawn()?;
        // The command holds the other end of the pipe, which would never be closed.
        drop(command);
        let mut hold = supervisor.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        hold.write_all(&line).await?;
        let process = SupervisedProcess { supervisor, hold: Some(hold) };
        Ok(RunningProgram { process, output, kept: BoundedOutput::default() })
    }
}

/// The supervisor of a program. On drop it ends the program.
#[derive(Debug)]
struct SupervisedProcess {
    supervisor: Child,
    /// Closing this pipe ends the program.
    hold: Option<ChildStdin>,
}

impl SupervisedProcess {
    /// Asks the supervisor to end the program. The program may have stopped its supervisor, which
    /// would not see the end of the pipe.
    fn ask_to_end(&mut self) {
        self.hold = None;
        programs::wake_supervisor(self.supervisor.id());
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

/// A program under its supervisor.
struct RunningProgram {
    process: SupervisedProcess,
    output: ChildStdout,
    kept: BoundedOutput,
}

impl RunningProgram {
    async fn wait_for_output(mut self, time: Duration) -> ToolOutput {
        let deadline = Instant::now() + time;
        let ended = tokio::select! {
            ended = self.wait_until_ended() => ended,
            () = tokio::time::sleep_until(deadline) => {
                let ended = self.end_supervised().await;
                return match ended {
                    Ok(_) => self.build_output(Some(format!(
                        "[timed out after {} s: it was ended, with all that it had started]",
                        time.as_secs()
                    ))),
                    Err(error) => lost_output(&error.to_string()),
                };
            }
        };
        match ended.map(|status| status.code()) {
            Ok(Some(0)) => self.build_output(None),
            // A form that the core's table of failures knows.
            Ok(Some(code)) => self.build_output(Some(format!("Exit code {code}"))),
            Ok(None) => lost_output("its supervisor was killed"),
            Err(error) => lost_output(&error.to_string()),
        }
    }

    /// Ends the program, with all that it has started, although it may have stopped its supervisor.
    async fn end_supervised(&mut self) -> io::Result<ExitStatus> {
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            self.process.ask_to_end();
            if let Ok(ended) = tokio::time::timeout(WAKING, self.wait_until_ended()).await {
                return ended;
            }
        }
        programs::kill_tree(self.process.supervisor.id());
        self.wait_until_ended().await
    }

    /// Waits until the supervisor has ended, and with it everything that it supervised. Cancel
    /// safe.
    async fn wait_until_ended(&mut self) -> io::Result<ExitStatus> {
        let mut buffer = vec![0; 16 * 1024];
        let status = loop {
            tokio::select! {
                biased;
                read = self.output.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => break self.process.supervisor.wait().await?,
                    Ok(count) => self.kept.push_bytes(buffer.get(..count).unwrap_or_default()),
                },
                status = self.process.supervisor.wait() => break status?,
            }
        };
        let rest = async {
            while let Ok(count @ 1..) = self.output.read(&mut buffer).await {
                self.kept.push_bytes(buffer.get(..count).unwrap_or_default());
            }
        };
        let _ = tokio::time::timeout(LAST_OUTPUT, rest).await;
        Ok(status)
    }

    /// Builds a result: the output, then the failure.
    fn build_output(&self, wrong: Option<String>) -> ToolOutput {
        let mut content = self.kept.to_text();
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

fn lost_output(why: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "it is not known how the command ended ({why}); what it started may still run"
    ))
}

/// Bounded output: its beginning and its end.
#[derive(Debug, Default)]
struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl BoundedOutput {
    fn push_bytes(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    fn to_text(&self) -> String {
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
