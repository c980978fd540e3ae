//! Programs that run in the background until they are dropped, such as a kernel.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::command::RunLine;
use super::{LAST_OUTPUT, ProgramRunner, ProgramSpec, RunningProgram, SupervisedProcess};
use crate::platform::programs;

/// The bytes of the program's last output that are kept.
const WORDS: usize = 4 * 1024;

/// A background program under its supervisor. On drop it is ended, with everything that it started,
/// and also if this process is killed.
#[derive(Debug)]
pub struct BackgroundProgram {
    process: SupervisedProcess,
    words: Arc<Mutex<VecDeque<u8>>>,
    reading: tokio::task::JoinHandle<()>,
}

impl ProgramRunner {
    /// Starts a program in a folder, with additional variables. Its standard input is empty.
    ///
    /// # Errors
    /// Returns an error if the supervisor cannot be started. A program that cannot be started ends
    /// at once.
    pub async fn start_background(
        &self,
        folder: &Path,
        program: Vec<String>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<BackgroundProgram> {
        let mut with_these = self.clone();
        with_these.environment.extend(environment);
        let order = ProgramSpec { run: RunLine::Program(program), input: None };
        let RunningProgram { process, mut output, .. } =
            with_these.start_program(folder, &order).await?;
        let words = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&words);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 4 * 1024];
            while let Ok(count @ 1..) = output.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(buffer.get(..count).unwrap_or_default());
                let over = kept.len().saturating_sub(WORDS);
                kept.drain(..over);
            }
        });
        Ok(BackgroundProgram { process, words, reading })
    }

    /// Returns the environment variables of the programs.
    pub fn environment(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.environment.iter().map(|(name, value)| (name, value))
    }
}

impl BackgroundProgram {
    /// Interrupts the program and its process group, as Ctrl-C in a terminal would.
    ///
    /// # Errors
    /// Returns an error if the program has ended, and on Windows, where programs without a console
    /// cannot be interrupted.
    pub async fn interrupt(&mut self) -> io::Result<()> {
        match &mut self.process.hold {
            Some(hold) => hold.write_all(programs::interrupt_orders()?).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for the program's end and describes it. Cancel safe.
    pub async fn wait_until_ended(&mut self) -> String {
        let status = self.process.supervisor.wait().await;
        let _ = tokio::time::timeout(LAST_OUTPUT, &mut self.reading).await;
        match status.map(|status| status.code()) {
            Ok(Some(code)) => programs::describe_exit_code(code),
            Ok(None) => "its supervisor was killed".to_owned(),
            Err(error) => format!("it is not known how it ended: {error}"),
        }
    }

    /// Returns the last output of the program.
    #[must_use]
    pub fn last_output(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = words.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}
