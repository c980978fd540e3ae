//! Errors of a run that cannot begin or be resumed.

use crate::http::Api;
use crate::journal::JournalError;

/// The reason why a run cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// A limit on money is set, but the model has no known price.
    NoPrice {
        /// The model.
        model: String,
    },
    /// The messages of the conversation have the form of another API.
    OtherApi {
        /// The API of the conversation.
        conversation: Api,
        /// The API of the agent.
        agent: Api,
    },
    /// The calls in the conversation's messages have another format.
    OtherFormat,
    /// The run cannot be resumed by this agent.
    OtherAgent {
        /// The difference between this agent and the recorded one.
        what: String,
    },
    /// The journal cannot be read or written.
    Journal(JournalError),
}

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPrice { model } => write!(
                f,
                "a money limit is set, but the price of `{model}` is not known: leave \
                 cost_limit_usd and session_cost_limit_usd out, or give the price in the config \
                 ([[price]])"
            ),
            Self::OtherApi { conversation, agent } => write!(
                f,
                "the conversation was begun through the API `{}` and cannot go on through `{}`: \
                 begin a new one",
                conversation.name(),
                agent.name()
            ),
            Self::OtherFormat => f.write_str(
                "the conversation was begun with another tool_format and cannot go on with this \
                 one: begin a new one",
            ),
            Self::OtherAgent { what } => write!(f, "the run cannot be resumed: {what}"),
            Self::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetupError {}
