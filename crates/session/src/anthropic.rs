//! Anthropic's words and the core's.

pub(crate) mod history;
pub(crate) mod relay;
pub(crate) mod tail;
pub(crate) mod turn;
