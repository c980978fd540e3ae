//! What a model says in one response, before any wire: blocks, how it stops, how it fails.

/// One block of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Visible text.
    Text(String),
    /// Thinking; it is left out where the request's thinking is off, and signed otherwise.
    Thinking(String),
    /// Thinking that the provider keeps encrypted.
    RedactedThinking,
    /// A call of one of the client's tools.
    Tool {
        /// Absent: an id of the simulator's.
        id: Option<String>,
        /// The tool's name, declared or not.
        name: String,
        /// The input as JSON text, which may be broken on purpose.
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
    /// A call of a client tool with an id of the simulator's.
    #[must_use]
    pub fn tool(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::Tool { id: None, name: name.into(), input: input.into() }
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Whether the client is asked to run a tool.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Tool { .. })
    }

    /// Whether the provider runs a tool of its own.
    pub(crate) fn is_server_call(&self) -> bool {
        matches!(self, Self::ServerTool { .. })
    }
}

/// Why a response stops.
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

/// How a response fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error instead of a response.
    Http {
        /// The status, 400 to 599.
        status: u16,
        /// Seconds in `retry-after`.
        retry_after: Option<u64>,
    },
    /// An `error` event after that many events of the stream (529 without streaming).
    ErrorEvent {
        /// Events before it.
        after: usize,
    },
    /// The connection breaks after that many events, in the middle of the next one.
    Cut {
        /// Whole events before it.
        after: usize,
    },
}

/// One response of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Blocks in order.
    pub parts: Vec<Part>,
    /// Why it stops; absent: what follows from the blocks.
    pub stop: Option<Stop>,
    /// How it fails, if it does.
    pub fault: Option<Fault>,
    /// Milliseconds before the first byte.
    pub first_delay_ms: u64,
    /// Milliseconds before each delta.
    pub delta_delay_ms: u64,
    /// Ignores `tool_choice` and `disable_parallel_tool_use`, which no real model can: for tests
    /// against hostile providers.
    pub lawless: bool,
}

impl Turn {
    /// A response of these blocks.
    #[must_use]
    pub fn of(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// A response of one text.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self::of(vec![Part::text(text)])
    }

    /// A response of one call.
    #[must_use]
    pub fn call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::of(vec![Part::tool(name, input)])
    }

    /// A failed response.
    #[must_use]
    pub fn fail(status: u16, retry_after: Option<u64>) -> Self {
        Self { fault: Some(Fault::Http { status, retry_after }), ..Self::default() }
    }

    /// The same with a stop reason.
    #[must_use]
    pub fn stopping(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The same with a fault.
    #[must_use]
    pub fn failing(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }
}
