//! Errors of responses that cannot be taken.

use softland_wire::anthropic::ApiError;
use softland_wire::find_error_words;
use softland_wire::json::{Cursor, Error, Kind};

use crate::framing::ResponseError;

/// The error of a step beyond the end of an exchange, whose result was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeEnded;

impl std::fmt::Display for ExchangeEnded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the exchange has ended, and its result was taken")
    }
}

impl std::error::Error for ExchangeEnded {}

/// The error of a stream or a body that is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableResponse(pub(super) ResponseError);

impl UnreadableResponse {
    /// Makes the error of a whole body. A body that tells an error is the provider's, in whatever
    /// form: `error` is an object or a text (Anthropic, OpenAI, OpenRouter, LiteLLM), or there are
    /// words under a name such as `detail` or `status_msg`.
    pub(super) fn from_body(error: ResponseError, body: &[u8]) -> Self {
        let mut tells = false;
        let read = Cursor::from_bytes(body).and_then(|mut cursor| {
            cursor.read_members(|cursor, member| {
                let is_said = matches!(cursor.peek()?, Kind::Object | Kind::String);
                tells |= is_said && member.key.eq_str("error");
                Ok::<_, Error>(())
            })
        });
        let words = match read.is_ok() && tells {
            true => Some(ApiError::from_response(200, body).message),
            false => find_error_words(body),
        };
        Self(words.map_or(error, ResponseError::Told))
    }

    /// Returns true if the provider told an error in place of a response.
    #[must_use]
    pub fn is_told_by_provider(&self) -> bool {
        matches!(self.0, ResponseError::Told(_))
    }
}

impl std::fmt::Display for UnreadableResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            ResponseError::Sse(error) => write!(f, "the provider's stream cannot be read: {error}"),
            ResponseError::Assemble(error) => {
                write!(f, "the provider's stream is too large: {error}")
            }
            ResponseError::Json(error) => {
                write!(f, "the provider's answer cannot be read: {error}")
            }
            ResponseError::Told(message) => {
                write!(f, "the provider's answer is an error: {message}")
            }
            ResponseError::Ended => f.write_str("the exchange had ended before this response came"),
            ResponseError::Other(why) => write!(f, "the provider's answer cannot be read: {why}"),
        }
    }
}

impl std::error::Error for UnreadableResponse {}

/// The reason why a response did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfinishedResponse {
    /// The stream was cut. Its last event has these words, if it is none of the protocol's.
    Cut(Option<String>),
    /// The bytes are no stream of the protocol's. Its last event has these words.
    Foreign(Option<String>),
    /// The provider sent an error in the middle of it.
    Error {
        /// The error's type.
        kind: String,
        /// The error's message.
        message: String,
    },
    /// The response cannot be read.
    Unreadable(UnreadableResponse),
}

impl std::fmt::Display for UnfinishedResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut(None) => f.write_str("the provider's stream was cut before its end"),
            Self::Cut(Some(words)) => {
                write!(f, "the provider's stream was cut before its end, behind: {words}")
            }
            Self::Foreign(Some(words)) => {
                write!(f, "the provider's answer is an error: {words}")
            }
            Self::Foreign(None) => f.write_str(
                "the response is not a stream of the API that was asked: it has none of its events",
            ),
            Self::Error { kind, message } => {
                write!(f, "the provider ended its stream with an error: {kind}: {message}")
            }
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnfinishedResponse {}
