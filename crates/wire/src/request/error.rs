//! Why a body is not a request: one answer for the three protocols.

use std::fmt;

use crate::json::{self, Cursor, Kind};

/// Why a body is not a request this crate can view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Not JSON.
    Json(json::Error),
    /// A member that must be there is not.
    Missing {
        /// The member's name.
        member: &'static str,
    },
    /// A member has a shape that the API does not know.
    Shape {
        /// Which member.
        member: &'static str,
        /// What it may be.
        allowed: &'static str,
        /// Byte offset of its value in the body.
        at: usize,
    },
}

impl RequestError {
    /// Names the member when the next value is none of `kinds`.
    pub(crate) fn unless(
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
