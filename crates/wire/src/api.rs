//! The three APIs through which models are called.

/// An API of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// Anthropic Messages.
    #[default]
    Anthropic,
    /// OpenAI Chat Completions and its dialects.
    Chat,
    /// OpenAI Responses.
    Responses,
}

impl Api {
    /// Returns the smallest output limit the API accepts, in tokens: the Responses API refuses less
    /// than 16.
    #[must_use]
    pub const fn min_output_tokens(self) -> u64 {
        match self {
            Self::Anthropic | Self::Chat => 1,
            Self::Responses => 16,
        }
    }

    /// Returns the member of a tool result that holds the tool's output.
    pub(crate) const fn result_member_name(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "content",
            Self::Responses => "output",
        }
    }

    /// Returns the `type` of a text part that does not come from the model.
    pub(crate) const fn text_part_type(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "text",
            Self::Responses => "input_text",
        }
    }
}
