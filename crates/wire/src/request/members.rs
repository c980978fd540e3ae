//! The top-level members of a request, except for its messages.

use crate::json::{Span, Str};

/// `tools`
pub type Tools<'a> = ToolsOf<Str<'a>>;

/// An entry of `tools`.
pub type Tool<'a> = ToolOf<Str<'a>>;

/// `tool_choice`
pub type ToolChoice<'a> = ToolChoiceOf<Str<'a>>;

/// The `type` of a `tool_choice`.
pub type ToolChoiceKind<'a> = ToolChoiceKindOf<Str<'a>>;

/// `thread`
pub type Thread<'a> = ThreadOf<Str<'a>>;

/// `max_tokens`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// The value, in tokens.
    pub value: u64,
    /// The value's span.
    pub span: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// The form of [`Tools`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolsOf<S> {
    /// The list's span.
    pub span: Span,
    /// The tools, in order.
    pub list: Vec<ToolOf<S>>,
}

/// The form of [`Tool`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOf<S> {
    /// `name`; empty where absent (a toolset).
    pub name: S,
    /// `type`, if present. Absent and `custom` are tools of the client, others are Anthropic's.
    pub kind: Option<S>,
    /// The entry's span.
    pub span: Span,
    /// True if the entry ends a cached prefix.
    pub cache_control: bool,
}

/// The form of [`ToolChoice`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChoiceOf<S> {
    /// The tools that may or must be called.
    pub kind: ToolChoiceKindOf<S>,
    /// `disable_parallel_tool_use`, false where absent.
    pub disable_parallel: bool,
    /// The value's span.
    pub span: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// The form of [`ToolChoiceKind`] with strings of a kind `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoiceKindOf<S> {
    /// `auto`
    Auto,
    /// `any`
    Any,
    /// `none`
    None,
    /// `tool`, with the tool's name.
    Tool(S),
    /// A kind this module does not know.
    Other(S),
}

/// `thinking`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thinking {
    /// The requested mode.
    pub mode: ThinkingMode,
    /// The value's span, if present.
    pub span: Option<Span>,
}

/// The `type` of `thinking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingMode {
    /// No `thinking` member: the model's default.
    #[default]
    Absent,
    /// `disabled`
    Disabled,
    /// `enabled`, with `budget_tokens` (0 where absent).
    Enabled {
        /// The budget, in tokens.
        budget: u64,
    },
    /// `adaptive`
    Adaptive,
    /// A type this module does not know.
    Other,
}

/// The form of [`Thread`] with strings of a kind `S`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadOf<S> {
    /// `previous_message_id`: the message that the request continues from.
    pub previous: Option<S>,
}
