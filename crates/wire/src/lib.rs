//! Provider wire formats, incremental and byte-preserving.
//!
//! [`json`] finds spans in JSON text without building a tree, [`sse`] cuts a byte stream into
//! server-sent events, and each protocol has one module over them ([`anthropic`]). What a module
//! does not understand it keeps: unknown members, blocks and events survive untouched, and what
//! is not edited is never re-serialised.
//!
//! This crate does no I/O, reads no clock and takes no decision: it knows what the bytes say, not
//! what should be done about it. It knows nothing of the other crates.

pub mod anthropic;
pub mod json;
mod splice;
pub mod sse;
mod tokens;

pub use splice::{Splice, SpliceError};
pub use tokens::Tokens;
