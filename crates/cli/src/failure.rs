//! The failure of a command: messages for a person, and the exit status.

use std::process::ExitCode;

/// The exit statuses that have a meaning (`docs/reference/commands.md`).
pub(crate) mod status {
    /// Usage or configuration.
    pub(crate) const USAGE: u8 = 2;
    /// The run ended with a local answer.
    pub(crate) const LOCAL_ANSWER: u8 = 3;
    /// The provider failed.
    pub(crate) const PROVIDER: u8 = 4;
    /// The program exists but cannot be run (as shells have it).
    pub(crate) const NOT_RUNNABLE: u8 = 126;
    /// The program does not exist (as shells have it).
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Cancelled by the user.
    pub(crate) const CANCELLED: u8 = 130;
}

/// The failure of a command that ends before its work is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The messages, each with the problem, its place and the allowed values.
    pub(crate) messages: Vec<String>,
    /// True if the messages are printed without `error:` before them.
    pub(crate) plain: bool,
    status: u8,
}

impl Failure {
    /// Creates a failure of usage or configuration with one message.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::from_messages(vec![message.into()])
    }

    /// Creates a failure of usage or configuration with several messages.
    pub(crate) fn from_messages(messages: Vec<String>) -> Self {
        Self { messages, plain: false, status: status::USAGE }
    }

    /// Creates a failure of usage whose text is complete in itself.
    pub(crate) fn from_text(text: String) -> Self {
        Self { messages: vec![text], plain: true, status: status::USAGE }
    }

    /// Replaces the exit status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Returns the exit status of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}
