//! Tool calls that a model writes as text, between tags: `<use_tool>…</use_tool>`.
//!
//! [`Shaper`] reads a response's text as it arrives, in pieces of any size and in time linear in
//! the text, and returns [`ShapedPiece`]s: text to forward, and what was found. The same text gives
//! the same pieces however it was split (except for the boundaries between [`ShapedPiece::Text`]s).
//! No partial tag is returned, and no byte is added or lost. [`parse_text`] finds the calls of a
//! whole text by the same rules. [`parse_results`] finds the results in the client's next message.
//!
//! A block is an opening tag of a configured name, with well-formed attributes or none, up to its
//! closing tag. In the text around blocks, a code fence (CommonMark's) and a `<think>` at the
//! beginning of a line make their content plain text. Inside a block, another opening tag is
//! literal, and a closing tag closes the block only where the body allows it: not in a string of a
//! JSON body, and not in an open parameter element (`<path>…</path>`), which is itself JSON-aware.
//! A body that has none of these forms ends at the next closing tag and is refused by
//! [`TagBlock::read_call`]: an argument arrives whole or not at all.
//!
//! This module runs nothing, reads no clock (the caller supplies the time, [`Shaper::tick`]), sends
//! no keepalive and decides no policy: the caller decides what a repeated, broken or invented block
//! means for the run. Thinking that the provider sends apart from the text must not be pushed.

mod body;
mod call;
mod json;
mod listed;
mod marks;
mod markup;
mod read;
mod results;
mod scan;
mod shaper;
#[cfg(test)]
mod tests;

use std::{fmt, num::NonZeroU32};

pub use call::{MalformedCall, TextCall, TextCallInput};
pub use listed::{ListedCall, parse_listed_calls};
pub use marks::RESULT_TAGS;
pub use read::{FoundBlock, ParsedText, parse_text};
pub use results::{ParsedResults, TextResult, parse_results};
pub use shaper::Shaper;

use body::count_nested_openings;

/// The default of [`Shape::held_limit`], in bytes: several times the longest output of any model.
pub const DEFAULT_HELD_LIMIT: usize = 4 * 1024 * 1024;

/// The longest tag name, in bytes.
pub const MAX_NAME: usize = 64;

/// The longest opening tag including its attributes, in bytes. A longer one is text.
pub const MAX_TAG: usize = 1024;

/// The names of the tags that hold calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Creates a list of tag names in the given order.
    ///
    /// # Errors
    /// Fails if the list is empty, or if a name is empty, longer than [`MAX_NAME`], or contains a
    /// character that ends a name.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, TagsError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() {
            return Err(TagsError::None);
        }
        for name in &names {
            let ends_name = |b: u8| b <= b' ' || b"<>/=\"'`".contains(&b);
            if name.is_empty() || name.len() > MAX_NAME || name.bytes().any(ends_name) {
                return Err(TagsError::Name(name.clone()));
            }
        }
        Ok(Self(names))
    }

    /// Returns the names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    fn has_name(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Returns true if a name begins with this byte.
    fn any_starts_with_byte(&self, byte: u8) -> bool {
        self.0.iter().any(|known| known.as_bytes().first() == Some(&byte))
    }

    fn any_starts_with(&self, prefix: &str) -> bool {
        self.0.iter().any(|known| known.starts_with(prefix))
    }
}

/// The reason a list of tag names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagsError {
    /// The list is empty.
    None,
    /// This string is not a tag name.
    Name(String),
}

impl fmt::Display for TagsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no tag is named: at least one is needed"),
            Self::Name(name) => write!(
                f,
                "`{name}` is no tag name: 1 to {MAX_NAME} bytes without space, `<`, `>`, `/`, `=` \
                 or quotes are allowed"
            ),
        }
    }
}

impl std::error::Error for TagsError {}

/// The policy for shaping a response's text: `[shape.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `tags`
    pub tags: Tags,
    /// `suppress_tail_after_tools`: once a block is complete, nothing after the last complete block
    /// passes, including a partial block. Text between two blocks passes when the second closes.
    pub suppress_tail: bool,
    /// `stop_after_tools`
    pub stop_after: StopAfter,
    /// `max_tools`: the response ends after this number of calls.
    pub max_tools: Option<NonZeroU32>,
    /// `drop_repeated_blocks`: a block with exactly the text of an earlier block of the response is
    /// removed.
    pub drop_repeated: bool,
    /// `partial_blocks`: the treatment of a block that is open when the text ends.
    pub partial: PartialBlocks,
    /// True if the response ends where an invented result begins; otherwise the result is only
    /// reported. With `suppress_tail` nothing after the last complete block before it passes.
    pub stop_at_echo: bool,
    /// The number of bytes that may be held back at once and, separately, the number of bytes of
    /// earlier blocks that are kept for `drop_repeated`. Exceeding it is a [`ShapeError`]. Values
    /// below 4 KiB count as 4 KiB.
    pub held_limit: usize,
}

impl Shape {
    /// Creates a shape that only observes: text passes unchanged.
    #[must_use]
    pub const fn watch_only(tags: Tags) -> Self {
        Self {
            tags,
            suppress_tail: false,
            stop_after: StopAfter::Off,
            max_tools: None,
            drop_repeated: false,
            partial: PartialBlocks::Pass,
            stop_at_echo: false,
            held_limit: DEFAULT_HELD_LIMIT,
        }
    }
}

/// `stop_after_tools`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopAfter {
    /// `off`
    #[default]
    Off,
    /// `first`: the response ends with its first call.
    First,
    /// `burst`: the response ends if no further block begins within this time after one closed.
    Burst {
        /// `burst_ms`, milliseconds.
        burst_ms: u64,
    },
}

/// `partial_blocks`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialBlocks {
    /// `pass`
    #[default]
    Pass,
    /// `drop`
    Drop,
}

/// An output of the shaper. [`forward_text`](Self::forward_text) is the part for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapedPiece<'a> {
    /// Text.
    Text(&'a str),
    /// A block has begun; its content is held back. `Block`, `Repeated` or `Partial` follows for
    /// each, unless reading ends with an error.
    Opened {
        /// The tag's name.
        tag: &'a str,
    },
    /// A complete block: a tool call, whose text is to be forwarded whole.
    Block(TagBlock<'a>),
    /// A complete block that repeats an earlier one and was removed.
    Repeated(TagBlock<'a>),
    /// A block that was open when the text ended. It is not a call.
    Partial {
        /// The text from the opening tag to the end.
        raw: &'a str,
        /// The number of opening tags inside it, all of them literal.
        nested: usize,
        /// True if the block passes. Dropped bytes also count in `Trimmed`.
        passed: bool,
    },
    /// Text that looks like a tool result follows a call, though no tool has run: the calls of this
    /// turn must not be run. Reported once.
    Echo {
        /// The text that identified it.
        mark: &'a str,
    },
    /// The response must be ended here, validly, and the upstream with it. Nothing more passes.
    Stop(StopReason),
    /// Bytes were dropped at the end: one `trim_tail`. Reported at most once, at the end.
    Trimmed {
        /// The number of bytes.
        bytes: u64,
    },
}

impl<'a> ShapedPiece<'a> {
    /// Returns the text for the client.
    #[must_use]
    pub const fn forward_text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Block(block) => Some(block.raw),
            Self::Partial { raw, passed: true, .. } => Some(raw),
            _ => None,
        }
    }
}

/// The reason a response is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// `stop_after_tools = "first"`
    First,
    /// `stop_after_tools = "burst"`
    Burst,
    /// `max_tools`
    MaxTools,
    /// An invented result began.
    Echo,
}

impl StopReason {
    /// Returns the name for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Burst => "burst",
            Self::MaxTools => "max_tools",
            Self::Echo => "echo",
        }
    }
}

/// A complete block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagBlock<'a> {
    /// The whole block, including its tags.
    pub raw: &'a str,
    /// Length of the opening tag, in bytes.
    opening: usize,
    /// Offset of the closing tag in `raw`.
    closing: usize,
    /// True if there is text between the block's parameter elements.
    stray: bool,
}

impl<'a> TagBlock<'a> {
    /// Returns the tag's name.
    #[must_use]
    pub fn tag(&self) -> &'a str {
        let name = self.raw.get(1..self.opening).unwrap_or_default();
        name.split(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').next().unwrap_or(name)
    }

    /// Returns the opening tag, including its attributes.
    #[must_use]
    pub fn opening(&self) -> &'a str {
        self.raw.get(..self.opening).unwrap_or_default()
    }

    /// Returns the text between the tags.
    #[must_use]
    pub fn inner(&self) -> &'a str {
        self.raw.get(self.opening..self.closing).unwrap_or_default()
    }

    /// Returns the number of opening tags of `tags` that are literal text inside it: worth a
    /// warning.
    #[must_use]
    pub fn count_nested(&self, tags: &Tags) -> usize {
        count_nested_openings(self.inner(), tags)
    }

    /// Returns the call, or the reason the block is not a call.
    ///
    /// # Errors
    /// Fails if no tool is named or the arguments cannot be determined.
    pub fn read_call(&self) -> Result<TextCall, MalformedCall> {
        call::decode_block(self)
    }
}

/// The summary of a shaped response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeSummary {
    /// Calls returned: complete blocks, except repeated ones.
    pub calls: u32,
    /// Complete blocks removed as repeated.
    pub repeated: u32,
    /// True if a block was open at the end.
    pub partial: bool,
    /// True if an invented result was seen.
    pub echo: bool,
    /// Bytes dropped at the end.
    pub dropped_bytes: u64,
    /// The reason the response was ended early, if it was. The stop reason of a response that was
    /// ended or cut this way is `stop`.
    pub stop: Option<StopReason>,
}

/// The reason a text cannot be shaped further. The shaper stays in this state, and does not return
/// the text it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// Too many bytes would have to be held back at once.
    Held {
        /// [`Shape::held_limit`]
        limit: usize,
    },
    /// Too many bytes of earlier blocks would have to be kept to find repeated ones.
    Kept {
        /// [`Shape::held_limit`]
        limit: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { limit } => write!(
                f,
                "a block or the text after one is longer than the {limit} bytes that may be held"
            ),
            Self::Kept { limit } => write!(
                f,
                "the blocks of the response are longer than the {limit} bytes that may be kept to \
                 find repeated ones"
            ),
        }
    }
}

impl std::error::Error for ShapeError {}
