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

pub(crate) use cache::Cache;
pub(crate) use error::Refusal;
pub(crate) use serve::{is_mine, serve};
