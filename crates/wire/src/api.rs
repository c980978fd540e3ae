//! The three APIs that models are asked through.

/// An API of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// Anthropic Messages.
    #[default]
    Anthropic,
    /// OpenAI Chat Completions, and the dialects of it.
    Chat,
    /// OpenAI Responses.
    Responses,
}

impl Api {
    /// The smallest output limit that it takes, in tokens: the Responses API refuses less than 16.
    #[must_use]
    pub const fn least_output(self) -> u64 {
        match self {
            Self::Anthropic | Self::Chat => 1,
            Self::Responses => 16,
        }
    }

    /// The member of a tool's result that holds what the tool said.
    pub(crate) const fn result_member(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "content",
            Self::Responses => "output",
        }
    }

    /// The `type` of a text that somebody other than the model says.
    pub(crate) const fn text_part(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "text",
            Self::Responses => "input_text",
        }
    }
}
