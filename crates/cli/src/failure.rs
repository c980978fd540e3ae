//! Why a command could not do its work: messages for a person, and the exit status.

use std::process::ExitCode;

/// Exit statuses that have a meaning (contract, section 2).
pub(crate) mod status {
    /// Usage or configuration.
    pub(crate) const USAGE: u8 = 2;
    /// The run ended with a local answer.
    pub(crate) const LOCAL_ANSWER: u8 = 3;
    /// The provider failed.
    pub(crate) const PROVIDER: u8 = 4;
    /// The program to run is there and cannot be run (as shells have it).
    pub(crate) const NOT_RUNNABLE: u8 = 126;
    /// The program to run is not there (as shells have it).
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Cancelled by the user.
    pub(crate) const CANCELLED: u8 = 130;
}

/// A command that ends before its work is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One message each: what, where, what is allowed.
    pub(crate) messages: Vec<String>,
    /// Messages are printed as they are, without `error:` before them.
    pub(crate) plain: bool,
    status: u8,
}

impl Failure {
    /// Wrong usage or configuration, with one message.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::all(vec![message.into()])
    }

    /// Wrong usage or configuration, with several messages.
    pub(crate) fn all(messages: Vec<String>) -> Self {
        Self { messages, plain: false, status: status::USAGE }
    }

    /// Wrong usage, explained by a text that is complete in itself.
    pub(crate) fn explained(text: String) -> Self {
        Self { messages: vec![text], plain: true, status: status::USAGE }
    }

    /// The same with another exit status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The process's exit status.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}
