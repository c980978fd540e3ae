//! The agents that an agent may call, and how deep such calls may go.
//!
//! This module runs nothing: the loop begins each call as a run of its own.

use std::sync::Arc;

use serde_json::json;

use crate::run::Agent;
use crate::tool::ToolDef;

/// The name of the tool that calls agents.
pub const AGENT_TOOL: &str = "agent";

/// The default for the levels of sub-agents.
pub const DEPTH_LIMIT: u64 = 3;

/// An agent that other agents may call.
#[derive(Clone)]
pub struct SubAgent {
    /// The agent. Callers use its name.
    pub agent: Agent,
    /// The agent's purpose, for the model that calls it.
    pub description: String,
    /// True if the agent runs on its caller's model instead of its own.
    pub inherits: bool,
    /// True if the agent may call agents itself.
    pub delegates: bool,
    /// The levels of sub-agents below this agent, if its own file sets them. The caller's file may
    /// allow fewer.
    pub depth_limit: Option<u64>,
}

/// The agents that an agent may call.
///
/// ```
/// use std::sync::Arc;
///
/// use serde_json::json;
/// use softland_agent::testing::{ScriptedModel, ScriptedReply};
/// use softland_agent::{AGENT_TOOL, Agent, DEPTH_LIMIT, SubAgent, SubAgents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reader = ScriptedModel::new([ScriptedReply::from_text("4 euros, decided on 14 May.")]);
/// let reader = SubAgent {
///     agent: Agent::new("reader", "test/script", Arc::new(reader)),
///     description: "Reads the notes".to_owned(),
///     inherits: false,
///     delegates: false,
///     depth_limit: None,
/// };
/// let lead = ScriptedModel::new([
///     ScriptedReply::from_call(AGENT_TOOL, json!({"name": "reader", "prompt": "The price?"})),
///     ScriptedReply::from_text("The price is 4 euros."),
/// ]);
/// let mut lead = Agent::new("lead", "test/script", Arc::new(lead));
/// lead.sub_agents = Some(SubAgents::new(vec![reader], DEPTH_LIMIT)?);
/// let report = lead.run("What is the price?", &mut |_| {}).await?;
/// assert_eq!(report.answer.as_deref(), Some("The price is 4 euros."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SubAgents {
    members: Arc<[SubAgent]>,
    /// The levels of sub-agents below the agent that has these sub-agents.
    depth: u64,
    /// The definition of the tool as the model was told it when the run began.
    told: Option<ToolDef>,
}

/// Two sub-agents with the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateName {
    /// The name that both have.
    pub name: String,
}

impl std::fmt::Display for DuplicateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "two agents are named `{}`; names must be unique", self.name)
    }
}

impl std::error::Error for DuplicateName {}

impl SubAgents {
    /// The most levels of sub-agents. Each level is polled within the level above it, so that all
    /// of them share one stack.
    pub const MAX_DEPTH: u64 = 16;

    /// Creates the sub-agents of an agent with at most `depth_limit` levels below it, and never
    /// more than [`MAX_DEPTH`](Self::MAX_DEPTH).
    ///
    /// # Errors
    /// Returns an error if two sub-agents have the same name.
    pub fn new(members: Vec<SubAgent>, depth_limit: u64) -> Result<Self, DuplicateName> {
        for (n, member) in members.iter().enumerate() {
            let name = &member.agent.name;
            if members.iter().take(n).any(|other| other.agent.name == *name) {
                return Err(DuplicateName { name: name.clone() });
            }
        }
        Ok(Self { members: members.into(), depth: depth_limit.min(Self::MAX_DEPTH), told: None })
    }

    /// Returns the sub-agents, in order.
    #[must_use]
    pub fn members(&self) -> &[SubAgent] {
        &self.members
    }

    /// Returns the sub-agent with that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SubAgent> {
        self.members.iter().find(|member| member.agent.name == name)
    }

    /// Returns the definition of the tool; `None` if no agent may be called, so that the tool is
    /// not offered.
    pub(crate) fn tool_def(&self) -> Option<ToolDef> {
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
            // An interrupted sub-agent's run is resumed, not begun again.
            repeatable: true,
        })
    }

    /// Returns the same sub-agents with the tool definition that the model was told when the run
    /// began.
    pub(crate) fn with_recorded_tool(self, told: ToolDef) -> Self {
        Self { told: Some(told), ..self }
    }

    /// Returns the sub-agent as `caller` calls it, with tools that have seen no file yet.
    pub(crate) fn agent_for_caller(&self, member: &SubAgent, caller: &Agent) -> Agent {
        let mut agent = member.agent.clone();
        agent.tools = agent.tools.for_another_run();
        if member.inherits {
            let (format, thinking) = (agent.options.tool_format, agent.options.show_thinking);
            agent.model.clone_from(&caller.model);
            agent.transport = Arc::clone(&caller.transport);
            agent.options = caller.options.clone();
            (agent.options.tool_format, agent.options.show_thinking) = (format, thinking);
        }
        let below = self.depth.saturating_sub(1);
        let depth = member.depth_limit.map_or(below, |own| own.min(below));
        agent.sub_agents = member.delegates.then(|| Self {
            members: Arc::clone(&self.members),
            depth,
            told: None,
        });
        let (own, above) = (&mut agent.policy, &caller.policy);
        // A sub-agent belongs to its caller's session. Session limits in its file apply to it and
        // to the agents below it.
        let session = own.session_cost_limit_usd.take();
        own.cost_limit_usd = [own.cost_limit_usd, session].into_iter().flatten().min();
        own.session_cost_limit_usd = above.session_cost_limit_usd;
        own.mode = above.mode;
        agent
    }
}
