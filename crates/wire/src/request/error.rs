//! The error of a body that is not a request, shared by the three protocols.

use std::fmt;

use crate::json::{self, Cursor, Kind};

/// The reason a body is not a request that this crate can view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Not JSON.
    Json(json::Error),
    /// A required member is missing.
    Missing {
        /// The member's name.
        member: &'static str,
    },
    /// A member has a shape that the API does not know.
    Shape {
        /// The member's name.
        member: &'static str,
        /// The shapes it may have.
        allowed: &'static str,
        /// Byte offset of its value in the body.
        at: usize,
    },
}

impl RequestError {
    /// Returns an error that names the member if the next value is none of `kinds`.
    pub(crate) fn expect_kind(
        cursor: &mut Cursor<'_>,
        kinds: &[Kind],
        member: &'static str,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if kinds.contains(&cursor.peek()?) {
            return Ok(());
        }
        let at = cursor.skip_value()?.start;
        Err(Self::Shape { member, allowed, at })
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the request body is {error}"),
            Self::Missing { member } => write!(f, "the request has no `{member}`"),
            Self::Shape { member, allowed, at } => {
                write!(f, "`{member}` at byte {at} of the request must be {allowed}")
            }
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Missing { .. } | Self::Shape { .. } => None,
        }
    }
}

impl From<json::Error> for RequestError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}
