//! A simulated LLM provider that speaks Anthropic's Messages API: strict where the real one is,
//! priced like it, and misbehaving on request. Its rules are written from facts about the API and
//! apart from all code that obeys them: it depends on no other crate of this workspace.
//!
//! [`Sim::respond`] is pure but for the simulator's own memory: time comes in, delays go out. No
//! clock, no network, no randomness. [`serve`] carries it over HTTP.
//!
//! Other protocols will stand beside this one: what a model does ([`Scenario`], [`Turn`]) knows
//! no wire; request, rules, message and stream are Anthropic's.
//!
//! ```
//! use softland_sim::{Config, Request, Scenario, Sim};
//!
//! let sim = Sim::new(Config::new(Scenario::named("reader")?));
//! let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
//!     .map(|(name, value)| (name.to_owned(), value.to_owned()));
//! let body = br#"{"model":"claude-sonnet-5-5","max_tokens":64,
//!     "messages":[{"role":"user","content":"hello"}]}"#;
//! let request =
//!     Request { method: "POST", path: "/v1/messages", headers: &headers, body };
//! assert_eq!(sim.respond(0, &request).status, 200);
//! assert_eq!(sim.refused(), 0);
//! # Ok::<(), String>(())
//! ```

mod bodies;
mod cache;
mod content;
mod digest;
mod error;
mod http;
mod json;
mod laws;
mod message;
mod models;
mod reply;
mod request;
mod rules;
mod scenario;
mod script;
mod sim;
mod stats;
mod stream;
mod turn;

pub use cache::Usage;
pub use http::serve;
pub use json::Json;
pub use models::{DEFAULT_MODEL, Forced, Model, ThinkingModes, all as models, find as find_model};
pub use reply::{Body, Chunk, Piece, Response};
pub use request::Request;
pub use scenario::{Builtin, Scenario, pose};
pub use script::Script;
pub use sim::{Binding, Config, MAX_BODY, Sim};
pub use stats::{Charge, RefusalNote, Stats};
pub use turn::{Fault, Part, Stop, Turn};
