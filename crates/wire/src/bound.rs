//! The size limit of a response that is being assembled, with a named error beyond it.

use std::fmt;

/// The reason a stream cannot be assembled further. The assembler stays in this state.
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

/// The number of bytes held, and their limit.
#[derive(Clone, Debug)]
pub(crate) struct SizeBound {
    bytes: usize,
    limit: usize,
    failed: Option<AssembleError>,
}

impl SizeBound {
    /// Creates a bound of `limit` bytes with nothing held.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { bytes: 0, limit, failed: None }
    }

    /// Returns the error that occurred before, if any.
    pub(crate) fn check_failure(&self) -> Result<(), AssembleError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Adds to the bytes held. Bytes beyond the limit are not added: this call and every later
    /// check fail.
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), AssembleError> {
        let held = self.bytes.saturating_add(bytes);
        if held > self.limit {
            let error = AssembleError::TooLarge { limit: self.limit };
            self.failed = Some(error);
            return Err(error);
        }
        self.bytes = held;
        Ok(())
    }

    /// Subtracts from the bytes held.
    pub(crate) const fn remove_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
