//! Anthropic Messages: requests, streams, whole responses, errors and usage.
//!
//! [`Event`] is one event of a response stream, [`Assembler`] folds events into a [`Message`], and
//! [`respond`] writes responses of our own. A request is seen and edited by the view of all
//! protocols, [`crate::request`], which has this one's shape. Facts about the API come from the
//! vendor's documentation and SDK types and from recordings of it.

mod error;
mod message;
pub mod respond;
mod stream;
mod usage;

pub use crate::{blame::Blame, bound::AssembleError};
pub use error::{ApiError, ErrorKind};
pub use message::{Assembler, Block, End, Extra, Finished, Message, MessageError, Stop};
pub use stream::{BlockStart, BlockStartKind, Event, MessageDelta, MessageStart};
pub(crate) use usage::is_country;
pub use usage::{Iteration, Usage, UsageUpdate};
