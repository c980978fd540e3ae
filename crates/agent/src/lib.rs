//! An agent runner that always lands: the loop, its tools, agent files and the HTTP transport.
//!
//! ```
//! use std::sync::Arc;
//!
//! use softland_agent::Agent;
//! use softland_agent::testing::{ScriptedModel, ScriptedReply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // With a real model: `Agent::from_env("anthropic/claude-sonnet-5-5")?`.
//! let model = ScriptedModel::new([ScriptedReply::from_text("Twelve.")]);
//! let agent = Agent::new("shop", "test/script", Arc::new(model));
//! let report = agent.run("How many lamps are there?", &mut |_| {}).await?;
//! assert_eq!(report.answer.as_deref(), Some("Twelve."));
//! # Ok(())
//! # }
//! ```
//!
//! This crate takes no decision about limits, loops or landing; that is the work of
//! `softland_session` and of the `core` that it re-exports. It prints nothing and reads no
//! arguments and no configuration file. `Agent::from_env` reads the process's environment;
//! everything else reads variables through a function that the caller passes, so that callers and
//! tests decide which variables are visible.
//!
//! # Features
//!
//! - `http` (default): providers over HTTP, and `Agent::from_env`. Without it a program has a
//!   [`Transport`](http::Transport) of its own.
//! - `journal` (default): journals on disk, from which runs are resumed and shown.
//! - `tools` (default): agent files, and the built-in tools over files and programs; with `http`
//!   also `http_get`.
//! - `mcp`: tools of MCP servers, and agents as tools of MCP clients.
//!
//! The loop, tools of one's own, sub-agents and [`testing`] need none of them.

#[cfg(feature = "tools")]
pub mod agent_file;
#[cfg(feature = "journal")]
pub mod durable;
mod event;
pub mod http;
pub mod journal;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod platform;
mod run;
mod sub_agents;
pub mod testing;
pub mod tool;
#[cfg(feature = "tools")]
pub mod tools;

#[cfg(feature = "tools")]
pub use agent_file::{AgentFile, Problem};
pub use event::{AnsweredBy, Event, EventKind, Report, UsageTotal};
#[cfg(feature = "journal")]
pub use journal::Journal;
pub use journal::{JournalError, RunJournal};
#[cfg(feature = "http")]
pub use run::ConnectError;
pub use run::{Agent, Conversation, EventStream, Inbox, Options, SetupError};
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
