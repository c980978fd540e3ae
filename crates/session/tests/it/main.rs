//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

mod adversary;
mod answers;
mod beginnings;
mod common;
mod embedding;
mod failures;
mod gateway;
mod growth;
mod landing_prices;
mod openai;
mod outline;
mod past;
mod protocols;
mod tags;
mod tails;
