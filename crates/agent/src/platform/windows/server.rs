//! A server that is a program, in a job of its own.

use std::io;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::tree::ProcessTree;

/// A server and everything that it starts. On drop, and if this process dies, all of it is ended.
pub(crate) struct ServerTree(ProcessTree);

impl ServerTree {
    /// Starts a server, all of whose streams are pipes.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub(crate) fn start(
        command: Command,
    ) -> io::Result<(Self, ChildStdin, ChildStdout, ChildStderr)> {
        let (tree, pipes) = ProcessTree::start(command)?;
        match (pipes.stdin, pipes.stdout, pipes.stderr) {
            (Some(input), Some(output), Some(errors)) => Ok((Self(tree), input, output, errors)),
            _ => Err(io::Error::other("its pipes cannot be had")),
        }
    }

    /// Waits for the end of the program. Cancel safe.
    pub(crate) async fn wait(&mut self) -> Option<ExitStatus> {
        self.0.wait().await
    }

    /// Returns a token that is cancelled when the program has ended.
    pub(crate) fn exited(&self) -> CancellationToken {
        self.0.ended()
    }

    /// Ends the server with everything that it started. There is no signal that would ask it to.
    pub(crate) fn ask_to_end(&self) {
        self.0.end();
    }
}
