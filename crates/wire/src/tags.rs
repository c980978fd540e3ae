//! Tool calls that a model writes as text, between tags: `<use_tool>…</use_tool>`.
//!
//! [`Shaper`] reads a response's text as it comes, in pieces of any size, in time linear in the
//! text, and hands out [`Piece`]s: text to forward, and what was found. The same text gives the
//! same pieces however it was cut (but for where one [`Piece::Text`] ends and the next begins);
//! no half tag, no byte too many and none too few is handed out. [`read`] finds the calls of a
//! whole text by the same rules, [`results`] what the client's next message answers to them.
//!
//! What is a block: an opening tag of a configured name, with well-formed attributes or none, up
//! to its closing tag. In the text around it, what stands in a code fence (CommonMark's) or in
//! `<think>` at the beginning of a line is text. Inside it, another opening tag is literal, and
//! a closing tag closes only where the body lets it: not in a string of a JSON body, not in a
//! parameter element (`<path>…</path>`) that is still open, itself JSON-aware. A body that keeps
//! to none of these forms ends at the next closing tag and is refused by [`Block::call`]: an
//! argument arrives whole or not at all.
//!
//! It runs nothing, keeps no time (the caller says what time it is, [`Shaper::tick`]), sends no
//! keepalive and decides no policy: what a repeated, broken or invented thing means for the run
//! is for the caller. Thinking that the provider sends apart from the text must not be pushed.

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

pub use call::{Call, Input, Malformed};
pub use listed::{ListedCall, listed};
pub use marks::RESULT_TAGS;
pub use read::{Found, Reading, read};
pub use results::{Answer, Results, results};
pub use shaper::Shaper;

use body::nested_openings;

/// The default of [`Shape::held_limit`], in bytes: several times the longest output of any model.
pub const DEFAULT_HELD_LIMIT: usize = 4 * 1024 * 1024;

/// The longest tag name, in bytes.
pub const MAX_NAME: usize = 64;

/// An opening tag with all its attributes is at most so long, in bytes; longer is text.
pub const MAX_TAG: usize = 1024;

/// The names of the tags that hold calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags(Vec<String>);

impl Tags {
    /// The given names, in this order.
    ///
    /// # Errors
    /// When there is none, or one is empty, longer than [`MAX_NAME`], or has a character that
    /// ends a name.
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

    /// The names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Whether a name begins with this byte.
    fn begin_with(&self, byte: u8) -> bool {
        self.0.iter().any(|known| known.as_bytes().first() == Some(&byte))
    }

    fn begin(&self, prefix: &str) -> bool {
        self.0.iter().any(|known| known.starts_with(prefix))
    }
}

/// Why a list of tag names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagsError {
    /// The list is empty.
    None,
    /// This name is none.
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

/// How a response's text is shaped: `[shape.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `tags`
    pub tags: Tags,
    /// `suppress_tail_after_tools`: once a block is complete, nothing after the last complete
    /// block passes, a half-written one neither. Text between two blocks passes when the second
    /// closes.
    pub suppress_tail: bool,
    /// `stop_after_tools`
    pub stop_after: StopAfter,
    /// `max_tools`: the response ends after so many calls.
    pub max_tools: Option<NonZeroU32>,
    /// `drop_repeated_blocks`: a block whose whole text is that of any earlier block of the
    /// response is taken out.
    pub drop_repeated: bool,
    /// `partial_blocks`: what becomes of a block that is open when the text ends.
    pub partial: PartialBlocks,
    /// Whether the response ends where an invented result begins, rather than only saying so.
    /// With `suppress_tail` nothing that follows the last complete block before it passes.
    pub stop_at_echo: bool,
    /// How many bytes may be held back at once; also, apart, how many bytes of earlier blocks are
    /// kept for `drop_repeated`. More is a [`ShapeError`]. Less than 4 KiB counts as 4 KiB.
    pub held_limit: usize,
}

impl Shape {
    /// Text passes unchanged and is only watched.
    #[must_use]
    pub const fn watch(tags: Tags) -> Self {
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
    /// `burst`: the response ends when no further block has begun for so long after one closed.
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

/// What the shaper hands out. [`forward`](Self::forward) is what goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// Text.
    Text(&'a str),
    /// A block has begun; what it holds is held back. One of `Block`, `Repeated` and `Partial`
    /// follows for each, unless reading ends with an error.
    Opened {
        /// The tag's name.
        tag: &'a str,
    },
    /// A block is complete: a tool call, its text to be forwarded whole.
    Block(Block<'a>),
    /// A block is complete, repeats an earlier one and was taken out.
    Repeated(Block<'a>),
    /// A block was open when the text ended. It is no call.
    Partial {
        /// From the opening tag to the end of the text.
        raw: &'a str,
        /// Opening tags inside it, all of them literal.
        nested: usize,
        /// Whether it passes; dropped bytes also count in `Trimmed`.
        passed: bool,
    },
    /// What looks like the result of a tool follows a call, though no tool has run: the turn's
    /// calls are not to be run. Said once.
    Echo {
        /// What it was told by.
        mark: &'a str,
    },
    /// The response is to be ended here, validly, and the upstream with it. Nothing more passes.
    Stop(StopReason),
    /// So many bytes were dropped at the end: one `trim_tail`. Said at most once, at the end.
    Trimmed {
        /// How many.
        bytes: u64,
    },
}

impl<'a> Piece<'a> {
    /// The bytes that go to the client.
    #[must_use]
    pub const fn forward(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Block(block) => Some(block.raw),
            Self::Partial { raw, passed: true, .. } => Some(raw),
            _ => None,
        }
    }
}

/// Why a response is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The name for logs.
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
pub struct Block<'a> {
    /// All of it, tags included.
    pub raw: &'a str,
    /// Length of the opening tag, in bytes.
    opening: usize,
    /// Where the closing tag begins in `raw`.
    closing: usize,
    /// Whether something stands between its parameter elements.
    stray: bool,
}

impl<'a> Block<'a> {
    /// The tag's name.
    #[must_use]
    pub fn tag(&self) -> &'a str {
        let name = self.raw.get(1..self.opening).unwrap_or_default();
        name.split(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').next().unwrap_or(name)
    }

    /// The opening tag, attributes included.
    #[must_use]
    pub fn opening(&self) -> &'a str {
        self.raw.get(..self.opening).unwrap_or_default()
    }

    /// What stands between the tags.
    #[must_use]
    pub fn inner(&self) -> &'a str {
        self.raw.get(self.opening..self.closing).unwrap_or_default()
    }

    /// How many opening tags of `tags` stand literally inside it: worth a warning.
    #[must_use]
    pub fn nested(&self, tags: &Tags) -> usize {
        nested_openings(self.inner(), tags)
    }

    /// The call, or why it is none.
    ///
    /// # Errors
    /// When no tool is named or the arguments cannot be told.
    pub fn call(&self) -> Result<Call, Malformed> {
        call::decode(self)
    }
}

/// What a response came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls handed out: complete blocks, repeated ones apart.
    pub calls: u32,
    /// Complete blocks taken out as repeated.
    pub repeated: u32,
    /// Whether a block was open at the end.
    pub partial: bool,
    /// Whether an invented result was seen.
    pub echo: bool,
    /// Bytes dropped at the end.
    pub dropped_bytes: u64,
    /// Why the response was ended early, if it was. Ended so or cut, its reason is `stop`.
    pub stop: Option<StopReason>,
}

/// Why a text cannot be shaped further. The shaper stays in this state; what it held is not
/// handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// More would have to be held back at once.
    Held {
        /// [`Shape::held_limit`]
        limit: usize,
    },
    /// More bytes of earlier blocks would have to be kept to find repeated ones.
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
