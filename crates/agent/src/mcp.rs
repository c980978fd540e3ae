//! The Model Context Protocol: servers whose tools agents use, and agents that are tools of
//! clients.
//!
//! Only this module knows `rmcp`. A server is never trusted: its messages are bounded, its calls
//! end in time, its output is a result like any other, and it ends with this process. Its tools are
//! listed before a run; the tools of a run never change.

mod client;
mod content;
mod errors;
mod file;
mod http;
mod lines;
mod odd;
mod open_requests;
mod process;
mod serve;
mod tool;

pub use client::{Servers, StartError, StderrHandler};
pub use file::{DeclaredServer, ServerLocation, ServerProgram, ServersFile};
pub use http::{AgentListener, ListenError, listen_on_loopback};
pub use serve::{Specialist, serve_stdio};

/// The prefix of the names of all MCP tools.
pub(crate) const PREFIX: &str = "mcp__";

/// Returns the name and version of this program for servers and clients.
fn this_program() -> rmcp::model::Implementation {
    rmcp::model::Implementation::new("softland", env!("CARGO_PKG_VERSION"))
}
