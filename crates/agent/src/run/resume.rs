//! The start record of a run, and an agent as it was when the run began.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use softland_session::core::models::Price;
use softland_session::core::{Millis, NanoUsd};

use super::{Agent, Conversation, Inbox, Setup, SetupError};
use crate::http::{Api, ServedModel};
#[cfg(feature = "journal")]
use crate::journal::JournalSummary;
use crate::journal::{self, RecordedToolDef, StartRecord};
use crate::tool::{Tool, ToolContext, ToolDef, ToolFormat, ToolOutput, ToolSet};

/// Builds the start record of a run.
pub(super) fn start_record(
    agent: &Agent,
    setup: &Setup,
    conversation: &Conversation,
    (cost_before, began): (NanoUsd, Option<Millis>),
) -> StartRecord {
    let options = &agent.options;
    let text = |message: &[u8]| String::from_utf8_lossy(message).into_owned();
    StartRecord {
        parent: None,
        continues: None,
        softland: env!("CARGO_PKG_VERSION").to_owned(),
        ts: journal::now_rfc3339(),
        agent: agent.name.clone(),
        model: agent.model.clone(),
        served: Some(&setup.served)
            .filter(|served| **served != ServedModel::from_name(&agent.model))
            .cloned(),
        api: options.api.name().to_owned(),
        system: agent.system.clone(),
        tools: agent.tools.defs().map(RecordedToolDef::from).collect(),
        agents: agent.sub_agent_tool().as_ref().map(RecordedToolDef::from),
        tags: options.tool_format == ToolFormat::Tags,
        policy: setup.policy.clone(),
        max_tokens: options.max_tokens,
        show_thinking: options.show_thinking,
        price: setup
            .price
            .map(|p| [p.input, p.output, p.cache_read, p.cache_write_5m, p.cache_write_1h]),
        began: began.map(|began| began.0),
        session_nano: cost_before.0,
        head: conversation.head,
        messages: conversation.messages().map(text).collect(),
        records: conversation.records(),
        setup: Value::Null,
    }
}

/// Replaces the conversation by the one with which the run began. The inbox stays, so that new
/// messages reach the resumed run.
pub(super) fn restore_conversation(
    conversation: &mut Conversation,
    start: &StartRecord,
    agent: &Agent,
) {
    *conversation = Conversation {
        inbox: conversation.inbox(),
        ..initial_conversation(start, agent.options.api)
    };
}

/// Returns the agent as it was when the run began. Tools, transport, retry settings and the model's
/// capabilities are those of the current agent.
pub(super) fn restore_agent(agent: &Agent, start: &StartRecord) -> Result<Agent, SetupError> {
    let other = |what: String| SetupError::OtherAgent { what };
    if agent.model != start.model {
        return Err(other(format!("it asks {}, not {}", start.model, agent.model)));
    }
    let api = Api::from_name(&start.api).filter(|api| *api == agent.options.api);
    let api = api.ok_or_else(|| {
        other(format!("it asks through the API {}, not {}", start.api, agent.options.api.name()))
    })?;
    let mut tools = ToolSet::new();
    for told in &start.tools {
        let tool = agent.tools.find_tool(&told.name);
        let tool = tool.ok_or_else(|| other(format!("its tool `{}` is missing", told.name)))?;
        let tool = Arc::new(RecordedTool { def: told.to_def(tool.def().repeatable), tool });
        tools.add_tool(tool).map_err(|error| other(error.to_string()))?;
    }
    let sub_agents = match &start.agents {
        None => None,
        Some(told) => {
            let sub_agents = agent.sub_agents.clone();
            let sub_agents =
                sub_agents.ok_or_else(|| other("the agents that it calls are missing".into()))?;
            Some(sub_agents.with_recorded_tool(told.to_def(true)))
        }
    };
    let price = start.price.map(|[input, output, cache_read, cache_write_5m, cache_write_1h]| {
        Price { input, output, cache_read, cache_write_5m, cache_write_1h }
    });
    Ok(Agent {
        name: start.agent.clone(),
        system: start.system.clone(),
        model: start.model.clone(),
        tools,
        sub_agents,
        policy: start.policy.clone(),
        transport: Arc::clone(&agent.transport),
        options: super::Options {
            api,
            max_tokens: start.max_tokens,
            show_thinking: start.show_thinking,
            price,
            tool_format: recorded_format(start),
            served: start.served.clone().or_else(|| agent.options.served.clone()),
            ..agent.options.clone()
        },
    })
}

/// Checks that the sub-agents that a run has called can be resumed.
pub(super) fn check_recorded_agents(
    agent: &Agent,
    children: &[StartRecord],
) -> Result<(), SetupError> {
    let other = |what: String| SetupError::OtherAgent { what };
    let Some(sub_agents) = agent.sub_agents.as_ref().filter(|_| !children.is_empty()) else {
        return Ok(());
    };
    for start in children {
        let name = &start.agent;
        let member = sub_agents.get(name);
        let member = member.ok_or_else(|| other(format!("its agent `{name}` is missing")))?;
        let model = if member.inherits { &start.model } else { &member.agent.model };
        let delegates = sub_agents.clone();
        let today = Agent {
            model: model.clone(),
            sub_agents: member.delegates.then_some(delegates),
            ..member.agent.clone()
        };
        let api = Api::from_name(&start.api).filter(|_| member.inherits);
        let options =
            super::Options { api: api.unwrap_or(today.options.api), ..today.options.clone() };
        restore_agent(&Agent { options, ..today }, start).map_err(|unfit| match unfit {
            SetupError::OtherAgent { what } => other(format!("its agent `{name}`: {what}")),
            unfit => unfit,
        })?;
    }
    Ok(())
}

impl RecordedToolDef {
    /// Returns the tool's definition. A call that was interrupted may run again only if the tool
    /// was repeatable when the run began and still is.
    pub(crate) fn to_def(&self, repeatable_today: bool) -> ToolDef {
        let Self { name, description, input_schema, reads, repeatable } = self.clone();
        let repeatable = repeatable_today && repeatable.unwrap_or(true);
        ToolDef { name, description, input_schema, reads, repeatable }
    }
}

#[cfg(feature = "journal")]
impl JournalSummary {
    /// Returns the conversation that the run has left, ready for the next run. If the run is still
    /// active, the conversation goes as far as the run has.
    ///
    /// # Errors
    /// Returns an error if the journal names an API that this softland does not speak.
    pub fn rebuild_conversation(&self) -> Result<Conversation, SetupError> {
        let start = &self.start;
        let other = || SetupError::OtherAgent { what: format!("it asks the API {}", start.api) };
        let api = Api::from_name(&start.api).ok_or_else(other)?;
        let mut conversation = initial_conversation(start, api);
        let mut nano = 0;
        for (took, round) in self.turns() {
            let mut records = conversation.records();
            records.extend(took.records.clone());
            conversation.append_turn(message_bytes(&took.messages), records);
            nano = took.nano;
            if let Some(round) = round {
                conversation.append_answers(message_bytes(&round.messages));
            }
        }
        let answered = self.turns().last().is_some_and(|(_, round)| round.is_some());
        let answer = self.finished.as_ref().and_then(|finished| finished.report.answer.as_ref());
        if let Some(answer) = answer.filter(|_| answered) {
            conversation.append_final_answer(answer);
        }
        // Sub-agents may have spent money after the last turn.
        let finished = self.finished.as_ref().and_then(|finished| finished.report.cost_usd);
        let finished = finished.and_then(NanoUsd::from_dollars).unwrap_or(NanoUsd::ZERO);
        let cost = NanoUsd(nano).max(finished);
        conversation.set_session_cost(NanoUsd(start.session_nano) + cost);
        Ok(conversation)
    }
}

/// Returns the conversation as it was when the run began.
fn initial_conversation(start: &StartRecord, api: Api) -> Conversation {
    Conversation {
        messages: message_bytes(&start.messages),
        records: start.records.clone(),
        cost: NanoUsd(start.session_nano),
        ends_with_model: false,
        inbox: Inbox::default(),
        head: start.head,
        api: Some(api),
        format: recorded_format(start),
    }
}

fn recorded_format(start: &StartRecord) -> ToolFormat {
    if start.tags { ToolFormat::Tags } else { ToolFormat::Native }
}

fn message_bytes(messages: &[String]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| message.clone().into_bytes()).collect()
}

impl Agent {
    /// Returns the differences between this agent and the one with which a run began, as texts for
    /// a person. The run is resumed as it began.
    #[must_use]
    pub fn differs_from(&self, start: &StartRecord) -> Vec<String> {
        let mut differences = Vec::new();
        if self.name != start.agent {
            differences.push(format!("its name was `{}`", start.agent));
        }
        if self.system != start.system {
            differences.push("its instructions were others".to_owned());
        }
        for told in &start.tools {
            let today = self.tools.get(&told.name);
            if today.is_some_and(|today| RecordedToolDef::from(today) != *told) {
                differences.push(format!("the tool `{}` had another description", told.name));
            }
        }
        for name in self.tools.names() {
            if !start.tools.iter().any(|told| told.name == name) {
                differences.push(format!("it had no tool `{name}`"));
            }
        }
        differences
    }
}

/// A tool with the description that it had when the run began.
struct RecordedTool {
    def: ToolDef,
    tool: Arc<dyn Tool>,
}

#[async_trait]
impl Tool for RecordedTool {
    fn def(&self) -> ToolDef {
        self.def.clone()
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        self.tool.call(input, cx).await
    }

    fn timeout(&self) -> Option<Duration> {
        self.tool.timeout()
    }

    fn output_cap(&self) -> Option<usize> {
        self.tool.output_cap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_again_may_be_by_what_held_then_and_by_what_holds_today() {
        let def = |repeatable| ToolDef {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: serde_json::json!({"type": "object"}),
            reads: false,
            repeatable,
        };
        for (then, today, wanted) in
            [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
        {
            assert_eq!(
                RecordedToolDef::from(&def(then)).to_def(today).repeatable,
                wanted,
                "{then}, {today}"
            );
        }
    }
}
