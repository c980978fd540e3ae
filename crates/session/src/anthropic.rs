//! Anthropic's words and the core's.

mod framing;
pub(crate) mod history;
pub(crate) mod rewrite;

pub(crate) use framing::{Anthropic, seen};
