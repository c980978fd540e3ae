//! The state that the gateways of a fleet share, in a store that runs scripts: each call is a list of
//! operations in JSON, which the store's script runs in one round trip, and which it answers with
//! lists and texts. Redis and PostgreSQL have a crate each, with the script and the connection.
//!
//! The script keeps and finds; prices, policies and decisions about runs are the gateway's.

mod answer;
mod money;
mod notes;
mod operation;
mod read;
mod state;

pub use answer::Answer;
pub use state::{RemoteState, ScriptStore};
