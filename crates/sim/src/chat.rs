//! OpenAI's Chat Completions and the dialects of other vendors: what they refuse, how they bill
//! and how they speak.

mod answer;
mod bill;
mod request;
mod rules;
mod serve;
mod stream;
mod whole;

pub(crate) use serve::serve;
