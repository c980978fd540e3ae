//! Anthropic's Messages API: its rules, its billing and its responses.

mod bodies;
mod cache;
mod content;
mod error;
mod history;
mod message;
mod request;
mod rules;
mod serve;
mod stream;

pub(crate) use cache::AnthropicCache;
pub(crate) use error::AnthropicRefusal;
pub(crate) use serve::{is_anthropic_form, serve_request};
