//! OpenAI's Responses: items, histories that the server keeps, events, background requests.

mod bill;
mod output;
mod request;
mod rules;
mod serve;
mod store;
mod stream;

pub(crate) use serve::serve;
pub(crate) use store::Store;
