//! A simulated LLM provider that speaks Anthropic's Messages API, OpenAI's Chat Completions (with
//! the dialects of other vendors) and OpenAI's Responses. It is as strict as the real APIs, has
//! their prices, and misbehaves on request. Its rules are written from facts about the APIs, apart
//! from all code that obeys them: this crate depends on no other crate of the workspace.
//!
//! [`Sim::respond`] is pure apart from the simulator's own memory: time comes in as an argument,
//! and delays are part of the response. There is no clock, no network and no randomness.
//! [`serve_http`] offers the simulator over HTTP.
//!
//! The model's behaviour ([`Scenario`], [`Turn`]) is independent of any protocol. Each protocol has
//! a folder with its reader (request to history), its rules, its billing and its writers (turn to
//! body or stream).
//!
//! ```
//! use softland_sim::{Config, Request, Scenario, Sim};
//!
//! let sim = Sim::new(Config::new(Scenario::from_name("reader")?));
//! let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
//!     .map(|(name, value)| (name.to_owned(), value.to_owned()));
//! let body = br#"{"model":"claude-sonnet-5-5","max_tokens":64,
//!     "messages":[{"role":"user","content":"hello"}]}"#;
//! let request =
//!     Request { method: "POST", path: "/v1/messages", headers: &headers, body };
//! assert_eq!(sim.respond(0, &request).status, 200);
//!
//! let headers = [("authorization".to_owned(), "Bearer any".to_owned())];
//! let body = br#"{"model":"gpt-5.2","messages":[{"role":"user","content":"hello"}]}"#;
//! let request =
//!     Request { method: "POST", path: "/v1/chat/completions", headers: &headers, body };
//! assert_eq!(sim.respond(0, &request).status, 200);
//! assert_eq!(sim.refused_requests(), 0);
//! # Ok::<(), String>(())
//! ```

mod anthropic;
mod bodies;
mod chat;
mod constraints;
mod digest;
mod events;
mod history;
mod http;
mod json;
mod models;
mod openai;
mod pieces;
mod reply;
mod request;
mod responses;
mod run_counters;
mod scenario;
mod script;
mod sim;
mod stats;
mod tagged;
mod turn;
mod usage;

pub use http::serve_http;
pub use json::Json;
pub use models::open::{
    Caching, DEFAULT_OPEN_MODEL, Dialect, Forcing, OpenModel, Reasoning,
    all_open_models as open_models, find_open_model,
};
pub use models::{DEFAULT_MODEL, Forced, Model, ThinkingModes, all_models as models, find_model};
pub use reply::{Body, Chunk, Piece, Response};
pub use request::Request;
pub use scenario::{Builtin, Scenario, parse_model_name, parse_posed_model};
pub use script::Script;
pub use sim::{Binding, Config, MAX_BODY, Sim};
pub use stats::{Charge, RefusalNote, Stats};
pub use turn::{Fault, Part, Stop, Turn};
pub use usage::Usage;
