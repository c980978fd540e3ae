//! OpenAI's Responses API: items, stored histories, events, background requests.

mod bill;
mod output;
mod request;
mod rules;
mod serve;
mod store;
mod stream;

pub(crate) use serve::serve_request;
pub(crate) use store::Store;
