//! The top-level members of a request, except for its messages.

use crate::json::{Span, Str};

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

/// `tools`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools<'a> {
    /// The list's span.
    pub span: Span,
    /// The tools, in order.
    pub list: Vec<Tool<'a>>,
}

/// An entry of `tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool<'a> {
    /// `name`; empty where absent (a toolset).
    pub name: Str<'a>,
    /// `type`, if present. Absent and `custom` are tools of the client, others are Anthropic's.
    pub kind: Option<Str<'a>>,
    /// The entry's span.
    pub span: Span,
    /// True if the entry ends a cached prefix.
    pub cache_control: bool,
}

/// `tool_choice`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChoice<'a> {
    /// The tools that may or must be called.
    pub kind: ToolChoiceKind<'a>,
    /// `disable_parallel_tool_use`, false where absent.
    pub disable_parallel: bool,
    /// The value's span.
    pub span: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// The `type` of a `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoiceKind<'a> {
    /// `auto`
    Auto,
    /// `any`
    Any,
    /// `none`
    None,
    /// `tool`, with the tool's name.
    Tool(Str<'a>),
    /// A kind this module does not know.
    Other(Str<'a>),
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

/// `thread`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread<'a> {
    /// `previous_message_id`: the message that the request continues from.
    pub previous: Option<Str<'a>>,
}
