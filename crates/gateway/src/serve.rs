//! HTTP: connections of clients, what may pass and to where, and requests to upstreams.
//!
//! Nothing here decides what a governed request becomes.

pub(crate) mod activity;
pub(crate) mod credential;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod pass;
pub(crate) mod request_body;
pub(crate) mod route;
pub(crate) mod server;
pub(crate) mod ticket;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod upstream;
