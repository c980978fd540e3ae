//! The pieces of output as values: their stream, their style and their text.

/// The stream to which a piece is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    /// Standard output: the answer.
    Answer,
    /// Standard error: everything else.
    Notes,
}

/// The style of a piece, on a stream with colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Call,
    Bad,
    /// Code in an answer's Markdown, to which the following styles also belong.
    Code,
    Emphasis,
    StrongEmphasis,
    Link,
}

impl Style {
    /// Returns the parameters of the style's SGR sequence; `None` for plain text.
    pub(super) fn sgr(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
            Self::Call | Self::Code => Some("36"),
            Self::Bad => Some("31"),
            Self::Emphasis => Some("3"),
            Self::StrongEmphasis => Some("1;3"),
            Self::Link => Some("4"),
        }
    }
}

/// A piece of output. Its text has no control characters but line ends, unless it is the answer on
/// its way to something other than a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) to: OutputStream,
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Piece {
    pub(crate) fn note(style: Style, text: impl Into<String>) -> Self {
        Self { to: OutputStream::Notes, style, text: text.into() }
    }

    pub(crate) fn answer(text: impl Into<String>) -> Self {
        Self { to: OutputStream::Answer, style: Style::Plain, text: text.into() }
    }
}
