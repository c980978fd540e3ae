//! Translation between Anthropic's protocol and the core's words.

mod framing;
pub(crate) mod history;
pub(crate) mod rewrite;

pub(crate) use framing::{AnthropicFraming, block_view};
