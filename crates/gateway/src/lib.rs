//! A gateway between agents and their models. [`softland_session`] decides what becomes of a
//! request and its response; this crate has the sockets, the stores, the money and the ledger.
//!
//! It reads no arguments, no environment variables and no configuration files: [`Settings`] are
//! passed in.

mod accounts;
mod active;
mod activity;
mod audit;
mod body;
mod conversations;
mod credential;
mod errors;
mod govern;
mod guard;
mod headers;
mod identify;
mod learned;
mod metrics;
mod money;
mod names;
mod page_files;
mod pages;
mod pass;
mod records;
mod request_id;
mod route;
mod run_steps;
mod runs;
mod secret;
mod server;
mod settings;
mod signals;
mod state;
mod store;
mod tape;
mod ticket;
mod token_counts;
mod upstream;

pub use audit::{Audit, AuditFormat, AuditRequest};
pub use metrics::{INTERVENTIONS, ObservedSummary, Summary};
pub use secret::Secret;
pub use server::{Gateway, Handle};
pub use settings::{
    Admin, BaseUrl, BaseUrlProblem, Limits, LogSettings, Prices, Protocol, Route, Settings,
    Shaping, Upstream, UpstreamProblem,
};
pub use softland_ledger::Clock;
pub use softland_session::wire::tags::{PartialBlocks, Shape, StopAfter, Tags};
pub use state::{ReloadProblem, StartError};
