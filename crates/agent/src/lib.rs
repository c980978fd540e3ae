//! An agent runner that always lands: the loop, its tools, agent files and the HTTP transport.
//!
//! This crate takes no decision about limits, loops or landing; that is the work of
//! `softland_session` and of the `core` that it re-exports. It prints nothing and reads no
//! arguments and no configuration file. Environment variables are read through a function that the
//! caller passes, so that callers and tests decide which variables are visible.
//!
//! # Features
//!
//! - `http` (default): providers over HTTP. Without it a program has a
//!   [`Transport`](http::Transport) of its own.
//! - `journal` (default): journals on disk, from which runs are resumed and shown.
//! - `tools` (default): agent files, and the built-in tools over files and programs; with `http`
//!   also `http_get`.
//! - `mcp`: tools of MCP servers, and agents as tools of MCP clients.
//!
//! The loop, tools of one's own and sub-agents need none of them.

#[cfg(feature = "tools")]
pub mod agent_file;
mod event;
pub mod http;
pub mod journal;
#[cfg(feature = "mcp")]
pub mod mcp;
mod run;
mod sub_agents;
pub mod tool;
#[cfg(feature = "tools")]
pub mod tools;

#[cfg(feature = "tools")]
pub use agent_file::{AgentFile, Problem};
pub use event::{AnsweredBy, Event, EventKind, Report, UsageTotal};
#[cfg(feature = "journal")]
pub use journal::Journal;
pub use journal::{JournalError, RunJournal};
pub use run::{Agent, Conversation, Inbox, Options, SetupError};
pub use sub_agents::{AGENT_TOOL, DEPTH_LIMIT, DuplicateName, SubAgent, SubAgents};
pub use tool::{
    Tool, ToolCall, ToolContext, ToolDef, ToolFormat, ToolOutput, ToolSet, ToolSetError,
};
#[cfg(feature = "tools")]
pub use tools::Root;

/// The policy core: limits and outcomes.
pub use softland_session::core;
/// The wire formats: JSON that is edited without being written anew.
pub use softland_session::wire;
