//! The state that the gateways of a fleet share, in a store that runs scripts: each call is a list of
//! operations in JSON, which the store's script runs in one round trip, and which it answers with
//! lists and texts. A store has a crate of its own, with the script and the connection.
//!
//! The script keeps and finds; prices, policies and decisions about runs are the gateway's.

mod answer;
mod content;
mod keys;
mod money;
mod notes;
mod operation;
mod read;
mod state;

pub use answer::Answer;
pub use state::{RemoteState, ScriptStore};
