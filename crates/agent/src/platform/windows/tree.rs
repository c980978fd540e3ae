//! A program and everything that it starts, as a job object. The system ends the job's processes
//! when its last handle is closed, however this process ends.

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

/// A program in a job of its own, which has no console of the user: Ctrl-C does not reach it. On
/// drop it is ended, with everything that it started.
pub(super) struct ProcessTree {
    end: CancellationToken,
    ended: CancellationToken,
    status: watch::Receiver<Option<ExitStatus>>,
}

/// The pipes of a program, as far as they were asked for.
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl ProcessTree {
    /// Starts a program.
    ///
    /// # Errors
    /// Returns an error if it cannot be started or put into a job.
    pub(super) fn start(command: Command) -> io::Result<(Self, Pipes)> {
        let mut command = CommandWrap::from(command);
        command.wrap(CreationFlags(CREATE_NO_WINDOW)).wrap(KillOnDrop).wrap(JobObject);
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin().take(), child.stdout().take());
        let pipes = Pipes { stdin, stdout, stderr: child.stderr().take() };
        let (end, ended) = (CancellationToken::new(), CancellationToken::new());
        let (tell, status) = watch::channel(None);
        tokio::spawn(hold_job(child, end.clone(), ended.clone(), tell));
        Ok((Self { end, ended, status }, pipes))
    }

    /// Waits for the program's end; what it started may go on. Cancel safe. Returns `None` if the
    /// system cannot tell how the program ended.
    pub(super) async fn wait(&self) -> Option<ExitStatus> {
        self.ended.cancelled().await;
        *self.status.borrow()
    }

    /// Returns a token that is cancelled when the program has ended.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Ends the program, with everything that it started.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Holds the job until it is to end, and tells when its program has ended.
async fn hold_job(
    mut child: Box<dyn ChildWrapper>,
    end: CancellationToken,
    ended: CancellationToken,
    tell: watch::Sender<Option<ExitStatus>>,
) {
    let finished = tokio::select! {
        // The inner child is the program alone; the outer one would wait for the whole job.
        status = child.inner_mut().wait() => {
            tell.send_replace(status.ok());
            ended.cancel();
            true
        }
        () = end.cancelled() => false,
    };
    end.cancelled().await;
    let _ = child.start_kill();
    if !finished {
        tell.send_replace(child.inner_mut().wait().await.ok());
        ended.cancel();
    }
}
