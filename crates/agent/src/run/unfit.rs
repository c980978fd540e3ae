//! Why a run cannot begin, or be gone on with.

use crate::http::provider::Api;
use crate::journal::JournalError;

/// Why a run cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A money limit, and no price to count with.
    NoPrice {
        /// The model.
        model: String,
    },
    /// The conversation's messages have the form of another API.
    OtherApi {
        /// The conversation's.
        conversation: Api,
        /// The agent's.
        agent: Api,
    },
    /// Calls stand in the conversation's messages in the other format.
    OtherFormat,
    /// The run is to be gone on with by an agent that it cannot go on with.
    OtherAgent {
        /// What is not as it was.
        what: String,
    },
    /// The run cannot be kept.
    Journal(JournalError),
}

impl std::fmt::Display for Unfit {
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
            Self::OtherAgent { what } => write!(f, "the run cannot be gone on with: {what}"),
            Self::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}
