//! Provider wire formats, incremental and byte-preserving.
//!
//! [`json`] finds spans in JSON text without building a tree, [`sse`] splits a byte stream into
//! server-sent events, and each protocol has a module built on them ([`anthropic`], [`chat`],
//! [`responses`]). [`request`] presents the requests of all three in the same way, [`Splice`] edits
//! them, and [`tags`] reads calls that a model writes as text. Each module keeps what it does not
//! understand: unknown members, blocks and events survive untouched, and anything that is not
//! edited is never re-serialised.
//!
//! This crate does no I/O, reads no clock and takes no decision: it knows what the bytes say, not
//! what should be done about it. It knows nothing of the other crates.

pub mod anthropic;
mod api;
mod bound;
mod caller;
pub mod chat;
mod error_text;
pub mod json;
mod overlay;
pub mod request;
pub mod responses;
mod splice;
pub mod sse;
pub mod tags;
mod tokens;

pub use api::Api;
pub use error_text::find_error_words;
pub use overlay::lay_over;
pub use splice::{Splice, SpliceError};
pub use tokens::{ExtraCharges, ServiceTier, Tokens};
