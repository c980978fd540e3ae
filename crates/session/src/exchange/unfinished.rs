//! Errors of responses that cannot be taken.

use crate::framing::Broken;

/// The error of a stream or a body that is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub(super) Broken);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Broken::Sse(error) => write!(f, "the provider's stream cannot be read: {error}"),
            Broken::Assemble(error) => write!(f, "the provider's stream is too much: {error}"),
            Broken::Json(error) => write!(f, "the provider's answer cannot be read: {error}"),
            Broken::Other(why) => write!(f, "the provider's answer cannot be read: {why}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The reason why a response did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The stream was cut.
    Cut,
    /// The bytes are no stream of the protocol's.
    Foreign,
    /// The provider sent an error in the middle of it.
    Error {
        /// The error's type.
        kind: String,
        /// The error's message.
        message: String,
    },
    /// The response cannot be read.
    Unreadable(Unreadable),
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut => f.write_str("the provider's stream was cut before its end"),
            Self::Foreign => f.write_str(
                "what came is no stream of the API that was asked: none of its events is in it",
            ),
            Self::Error { kind, message } => {
                write!(f, "the provider ended its stream with an error: {kind}: {message}")
            }
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfinished {}
