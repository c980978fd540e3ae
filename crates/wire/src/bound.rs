//! What may be held of a response that is folded: so many bytes, and beyond them a named error.

use std::fmt;

/// Why a stream cannot be folded further. The assembler stays in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssembleError {
    /// The message is larger than the limit.
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(f, "the streamed message is larger than the {limit} bytes allowed")
            }
        }
    }
}

impl std::error::Error for AssembleError {}

/// The bytes held, against their limit.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    bytes: usize,
    limit: usize,
    failed: Option<AssembleError>,
}

impl Bound {
    /// Nothing held, of at most `limit` bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { bytes: 0, limit, failed: None }
    }

    /// The error that came before, if one did.
    pub(crate) fn check(&self) -> Result<(), AssembleError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Holds more. What goes beyond the limit is not held, and fails this time and for good.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), AssembleError> {
        let held = self.bytes.saturating_add(bytes);
        if held > self.limit {
            let error = AssembleError::TooLarge { limit: self.limit };
            self.failed = Some(error);
            return Err(error);
        }
        self.bytes = held;
        Ok(())
    }

    /// Holds less.
    pub(crate) const fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
