//! The turn of a model in one response, independent of any protocol: its blocks, stop and fault.

/// One block of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Visible text.
    Text(String),
    /// Thinking. It is omitted if the request turns thinking off, and signed otherwise.
    Thinking(String),
    /// Thinking that the provider keeps encrypted.
    RedactedThinking,
    /// A call of one of the client's tools.
    Tool {
        /// The id; if absent, the simulator makes one.
        id: Option<String>,
        /// The tool's name, declared or not.
        name: String,
        /// The input as JSON text, which a scenario may break on purpose.
        input: String,
    },
    /// A call of a tool that the provider runs.
    ServerTool {
        /// The tool's name.
        name: String,
        /// The input as JSON text.
        input: String,
    },
    /// The result of the last server tool call; the content is JSON text.
    ServerResult {
        /// The block's type, such as `web_search_tool_result`.
        kind: String,
        /// The content as JSON text.
        content: String,
    },
}

impl Part {
    /// Creates a call of a client tool, with an id made by the simulator.
    #[must_use]
    pub fn tool_call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::Tool { id: None, name: name.into(), input: input.into() }
    }

    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// True for a call that the client is asked to run.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Tool { .. })
    }

    /// True for a call of a tool that the provider runs.
    pub(crate) fn is_server_call(&self) -> bool {
        matches!(self, Self::ServerTool { .. })
    }
}

/// The reason why a response stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `end_turn`
    EndTurn,
    /// `tool_use`
    ToolUse,
    /// `max_tokens`, with the last block cut in the middle.
    MaxTokens,
    /// `stop_sequence`
    StopSequence(String),
    /// `pause_turn`
    PauseTurn,
    /// `refusal`
    Refusal,
    /// `model_context_window_exceeded`
    ContextWindow,
}

impl Stop {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence(_) => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::ContextWindow => "model_context_window_exceeded",
        }
    }
}

/// The way in which a response fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error instead of a response.
    Http {
        /// The status code, 400 to 599.
        status: u16,
        /// The seconds in `retry-after`.
        retry_after: Option<u64>,
    },
    /// An `error` event in the stream after `after` events. Without streaming, a status of 529.
    ErrorEvent {
        /// The number of events before it.
        after: usize,
    },
    /// The connection breaks after `after` events, in the middle of the next one.
    Cut {
        /// The number of whole events before it.
        after: usize,
    },
}

/// One response of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The blocks, in order.
    pub parts: Vec<Part>,
    /// The stop reason; if absent, it follows from the blocks.
    pub stop: Option<Stop>,
    /// The fault, if the response fails.
    pub fault: Option<Fault>,
    /// The delay before the first byte, in milliseconds.
    pub first_delay_ms: u64,
    /// The delay before each delta, in milliseconds.
    pub delta_delay_ms: u64,
    /// Ignores `tool_choice` and `disable_parallel_tool_use`, which no real model can do: for tests
    /// against hostile providers.
    pub lawless: bool,
}

impl Turn {
    /// Creates a response of these blocks.
    #[must_use]
    pub fn from_parts(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Creates a response of one text.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::from_parts(vec![Part::text(text)])
    }

    /// Creates a response of one call.
    #[must_use]
    pub fn from_call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::from_parts(vec![Part::tool_call(name, input)])
    }

    /// Creates a response that fails with an HTTP status.
    #[must_use]
    pub fn from_status(status: u16, retry_after: Option<u64>) -> Self {
        Self { fault: Some(Fault::Http { status, retry_after }), ..Self::default() }
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Sets the fault.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }
}
