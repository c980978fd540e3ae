//! The protocols that models are asked through.

/// A protocol that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
}

impl Api {
    /// All protocols, in the order of `docs/reference/commands.md`.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// Returns the path of its requests, after the base URL.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAiChat => "/v1/chat/completions",
            Self::OpenAiResponses => "/v1/responses",
        }
    }

    /// Returns the protocol with that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.name() == name)
    }
}

impl From<Api> for softland_session::wire::Api {
    fn from(api: Api) -> Self {
        match api {
            Api::Anthropic => Self::Anthropic,
            Api::OpenAiChat => Self::Chat,
            Api::OpenAiResponses => Self::Responses,
        }
    }
}
