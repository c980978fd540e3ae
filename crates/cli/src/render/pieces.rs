//! What is printed, as values: where it goes, how it looks, what it says.

/// The stream that a piece goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Standard output: the answer.
    Answer,
    /// Standard error: everything else.
    Notes,
}

/// How a piece looks where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Call,
    Bad,
    /// Of an answer's Markdown, as the next ones.
    Code,
    Emphasis,
    StrongEmphasis,
    Link,
}

impl Style {
    /// The parameters of its SGR sequence; none for plain text.
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

/// One piece of output. Its text holds no control character but line ends, unless it is the
/// answer on its way to something that is no terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) to: To,
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Piece {
    pub(crate) fn note(style: Style, text: impl Into<String>) -> Self {
        Self { to: To::Notes, style, text: text.into() }
    }

    pub(crate) fn answer(text: impl Into<String>) -> Self {
        Self { to: To::Answer, style: Style::Plain, text: text.into() }
    }
}
