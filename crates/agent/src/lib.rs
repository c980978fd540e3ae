//! An agent runner that always lands: the loop, its tools, agent files and the HTTP transport.
//!
//! This crate takes no decision about limits, loops or landing; that is the work of
//! `softland_session` and of the `core` that it re-exports. It prints nothing and reads no
//! arguments and no configuration file. Environment variables are read through a function that the
//! caller passes, so that callers and tests decide which variables are visible.

pub mod agent_file;
mod event;
pub mod http;
pub mod journal;
#[cfg(feature = "mcp")]
pub mod mcp;
mod run;
mod sub_agents;
pub mod tool;
pub mod tools;

pub use agent_file::{AgentFile, Problem};
pub use event::{AnsweredBy, Event, EventKind, Report, UsageTotal};
pub use journal::{Journal, JournalError, RunJournal};
pub use run::{Agent, Conversation, Inbox, Options, SetupError};
pub use sub_agents::{AGENT_TOOL, DEPTH_LIMIT, DuplicateName, SubAgent, SubAgents};
pub use tool::{
    Tool, ToolCall, ToolContext, ToolDef, ToolFormat, ToolOutput, ToolSet, ToolSetError,
};
pub use tools::Root;

/// The policy core: limits and outcomes.
pub use softland_session::core;
/// The wire formats: JSON that is edited without being written anew.
pub use softland_session::wire;
