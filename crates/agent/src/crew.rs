//! The agents that an agent may call, and how deep such calls may go.
//!
//! It runs nothing: a call is a run of its own, which the loop begins.

use std::sync::Arc;

use serde_json::json;

use crate::run::Agent;
use crate::tool::ToolDef;

/// The name of the tool that calls agents.
pub const AGENT_TOOL: &str = "agent";

/// Levels of sub-agents where nothing is said.
pub const DEPTH_LIMIT: u64 = 3;

/// An agent that others may call.
#[derive(Clone)]
pub struct Member {
    /// The agent; its name is what it is called by.
    pub agent: Agent,
    /// What it is for, for the model that calls it.
    pub description: String,
    /// Whether it runs on its caller's model instead of its own.
    pub inherits: bool,
    /// Whether it may call agents itself.
    pub delegates: bool,
    /// Levels of sub-agents below it, where its own file says; its caller's file may allow fewer.
    pub depth_limit: Option<u64>,
}

/// The agents that an agent may call.
#[derive(Clone)]
pub struct Crew {
    members: Arc<[Member]>,
    /// Levels of sub-agents below the agent that has the crew.
    depth: u64,
    /// The tool as the model was told of it when the run was begun.
    told: Option<ToolDef>,
}

/// Two members of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameName {
    /// The name that both have.
    pub name: String,
}

impl std::fmt::Display for SameName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "two agents are named `{}`; names must be unique", self.name)
    }
}

impl std::error::Error for SameName {}

impl Crew {
    /// The most levels of sub-agents that there may be: each is worked on within the one above it,
    /// so that they share a stack.
    pub const MAX_DEPTH: u64 = 16;

    /// A crew for an agent that may have so many levels of sub-agents below it, or
    /// [`MAX_DEPTH`](Self::MAX_DEPTH) where that is fewer.
    ///
    /// # Errors
    /// When two members have the same name.
    pub fn new(members: Vec<Member>, depth_limit: u64) -> Result<Self, SameName> {
        for (n, member) in members.iter().enumerate() {
            let name = &member.agent.name;
            if members.iter().take(n).any(|other| other.agent.name == *name) {
                return Err(SameName { name: name.clone() });
            }
        }
        Ok(Self { members: members.into(), depth: depth_limit.min(Self::MAX_DEPTH), told: None })
    }

    /// The members, in order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.agent.name == name)
    }

    /// The tool's definition; `None` where nobody may be called, so that it is not offered.
    pub(crate) fn def(&self) -> Option<ToolDef> {
        if self.told.is_some() {
            return self.told.clone();
        }
        if self.depth == 0 || self.members.is_empty() {
            return None;
        }
        let listed: String = self
            .members
            .iter()
            .map(|member| format!("\n- {}: {}", member.agent.name, member.description))
            .collect();
        let names: Vec<&str> =
            self.members.iter().map(|member| member.agent.name.as_str()).collect();
        Some(ToolDef {
            name: AGENT_TOOL.to_owned(),
            description: format!(
                "Gives a task to another agent and returns its answer. The agent knows nothing \
                 but the prompt. Calls in one turn run at the same time. The agents are:{listed}"
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names, "description": "which agent"},
                    "prompt": {
                        "type": "string",
                        "description": "the task, with all that the agent has to know",
                    },
                },
                "required": ["name", "prompt"],
            }),
            reads: false,
            // One that was under way is gone on with, not begun again.
            repeatable: true,
        })
    }

    /// The same crew, as the model was told of it when the run was begun.
    pub(crate) fn with_told(self, told: ToolDef) -> Self {
        Self { told: Some(told), ..self }
    }

    /// The member as `caller` calls it, with tools that have seen nothing yet.
    pub(crate) fn called(&self, member: &Member, caller: &Agent) -> Agent {
        let mut agent = member.agent.clone();
        agent.tools = agent.tools.fresh();
        if member.inherits {
            let (format, thinking) = (agent.options.tool_format, agent.options.show_thinking);
            agent.model.clone_from(&caller.model);
            agent.transport = Arc::clone(&caller.transport);
            agent.options = caller.options.clone();
            (agent.options.tool_format, agent.options.show_thinking) = (format, thinking);
        }
        let below = self.depth.saturating_sub(1);
        let depth = member.depth_limit.map_or(below, |own| own.min(below));
        agent.crew = member.delegates.then(|| Self {
            members: Arc::clone(&self.members),
            depth,
            told: None,
        });
        let (own, above) = (&mut agent.policy, &caller.policy);
        // A sub-agent is of its caller's session; what its file says of a session is about itself
        // and those below it.
        let session = own.session_cost_limit_usd.take();
        own.cost_limit_usd = [own.cost_limit_usd, session].into_iter().flatten().min();
        own.session_cost_limit_usd = above.session_cost_limit_usd;
        own.mode = above.mode;
        agent
    }
}
