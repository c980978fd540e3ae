//! A gateway between agents and their models: what one request and its response become is decided
//! by [`softland_session`]; here are sockets, stores, money and the ledger.
//!
//! It reads no argument, no environment variable and no configuration file: [`Settings`] come in.

mod secret;
mod settings;

pub use secret::Secret;
pub use settings::{
    Admin, BaseUrl, BaseUrlProblem, Limits, LogSettings, Protocol, Prices, Route, Settings,
    Upstream,
};
