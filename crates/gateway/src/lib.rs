//! A gateway between agents and their models. [`softland_session`] decides what becomes of a
//! request and its response, and [`softland_govern`] carries it out and remembers. This crate has
//! the sockets, the pages and the ledger.
//!
//! It reads no arguments, no environment variables and no configuration files: [`Settings`] are
//! passed in.

mod audit;
mod budgets;
mod dollars;
mod key_spend;
mod keys;
mod metrics;
mod page_files;
mod pages;
mod recap;
mod run_row;
mod run_steps;
mod secret;
mod serve;
mod settings;
mod state;
mod stored_keys;
mod tape;
mod token;
mod usage_metrics;
mod watch;

pub use audit::{Audit, AuditFormat, AuditRequest};
pub use keys::{KeyEntry, digest_token};
pub use metrics::{INTERVENTIONS, ObservedSummary, Summary};
pub use pages::add_history;
pub use recap::{Recap, RecapRun};
pub use secret::Secret;
pub use serve::server::{Gateway, Handle};
pub use serve::tls::{ServerTls, TlsProblem};
pub use settings::{
    Admin, BaseUrl, BaseUrlProblem, Limits, LogSettings, Settings, Upstream, UpstreamProblem,
};
pub use softland_govern::budget::{BudgetRule, OnExhausted};
pub use softland_govern::money::window::{BudgetWindow, WindowLength};
pub use softland_govern::{
    self as govern, ClientKey, KeyStore, Prices, Protocol, Route, Shaping, SharedState, TokenDigest,
};
pub use softland_ledger::{Clock, LedgerPlace};
pub use softland_session::wire::tags::{PartialBlocks, Shape, StopAfter, Tags};
pub use state::{ReloadProblem, StartError};
pub use token::make_key_token;
