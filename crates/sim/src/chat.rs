//! OpenAI's Chat Completions and the dialects of other vendors: their rules, their billing and
//! their responses.

mod answer;
mod bill;
mod request;
mod rules;
mod serve;
mod stream;
mod whole;

pub(crate) use serve::serve_request;
