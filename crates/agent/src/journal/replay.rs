//! The replay of a journal without any effect: its runs reach everything that is recorded and
//! nothing else. Nothing is sent, run or written. The recorded run may still be active.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Journal, JournalError, JournalErrorKind, StartRecord, file};
use crate::event::Event;
use crate::http::{Api, Request, Response, ServedModel, Transport, TransportError};
use crate::run::{Agent, Conversation, SetupError};
use crate::sub_agents::{DEPTH_LIMIT, SubAgent, SubAgents};
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput, ToolSet};

/// The content of a replayed journal.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplayedJournal {
    /// The id of the root run.
    pub root: String,
    /// The start record of each run, by its id.
    pub starts: BTreeMap<String, StartRecord>,
    /// The events of all runs, as far as they are recorded.
    pub events: Vec<Event>,
    /// The reason why the events end before the records do; `None` if they do not. This softland
    /// then decides differently from the recorded one.
    pub differs: Option<JournalError>,
}

impl ReplayedJournal {
    /// Replays the journal of a tree of runs.
    ///
    /// # Errors
    /// Returns an error if the file is not a journal or names an API that this softland does not
    /// speak.
    pub async fn from_path(path: &Path) -> Result<Self, SetupError> {
        Self::from_path_as(path, &|_, _| None).await
    }

    /// Replays the journal like [`from_path`](Self::from_path). Journals of earlier versions do not
    /// name the model that a simulated one posed as; `served` returns it.
    ///
    /// # Errors
    /// The same as those of [`from_path`](Self::from_path).
    pub async fn from_path_as(
        path: &Path,
        served: &(dyn Fn(Api, &str) -> Option<ServedModel> + Sync),
    ) -> Result<Self, SetupError> {
        let mut runs = file::read_only(path).map_err(SetupError::Journal)?;
        let empty = || SetupError::Journal(JournalError::new(path, JournalErrorKind::Empty));
        let root = runs.root.clone().ok_or_else(empty)?;
        let of = |(id, past): (&String, &super::recorded_run::RecordedRun)| {
            Some((id.clone(), past.start.clone()?))
        };
        let starts: BTreeMap<String, StartRecord> = runs.runs.iter().filter_map(of).collect();
        let start = starts.get(&root).ok_or_else(empty)?;
        let ended = runs.runs.get(&root).is_some_and(|past| past.end.is_some());
        if !ended {
            runs.reopen_tree();
        }
        let mut agent = recorded_agent(start, served)?;
        agent.sub_agents = recorded_sub_agents(&starts, &root, served)?;
        let journal = Journal::with_runs(path, None, runs);
        let run = journal.root_run(&root);
        let mut events = Vec::new();
        let mut hear = |event: &Event| {
            // Events after that only show how runs stop that may not go on.
            if journal.failure().is_none() {
                events.push(event.clone());
            }
        };
        let (mut conversation, cancel) = (Conversation::new(), CancellationToken::new());
        agent.run_in_journal(&run, &mut conversation, "", &mut hear, &cancel).await?;
        let other = |e: &JournalError| matches!(e.kind(), JournalErrorKind::Differs { .. });
        let differs = journal.failure().filter(other);
        Ok(Self { root, starts, events, differs })
    }
}

/// Returns an agent as it was recorded, without access to the world.
fn recorded_agent(
    start: &StartRecord,
    served: &(dyn Fn(Api, &str) -> Option<ServedModel> + Sync),
) -> Result<Agent, SetupError> {
    let other = |what: String| SetupError::OtherAgent { what };
    let api = Api::from_name(&start.api)
        .ok_or_else(|| other(format!("it asks the API {}", start.api)))?;
    let mut agent = Agent::new(&start.agent, &start.model, Arc::new(NoTransport));
    agent.options.api = api;
    agent.options.served = start.served.clone().or_else(|| served(api, &start.model));
    let mut tools = ToolSet::new();
    for told in &start.tools {
        tools
            .add_tool(Arc::new(AbsentTool(told.to_def(false))))
            .map_err(|error| other(error.to_string()))?;
    }
    agent.tools = tools;
    Ok(agent)
}

/// Returns the agents that were called in the tree.
fn recorded_sub_agents(
    starts: &BTreeMap<String, StartRecord>,
    root: &str,
    served: &(dyn Fn(Api, &str) -> Option<ServedModel> + Sync),
) -> Result<Option<SubAgents>, SetupError> {
    let mut members: Vec<SubAgent> = Vec::new();
    for start in starts.iter().filter(|(run, _)| *run != root).map(|(_, start)| start) {
        let agent = recorded_agent(start, served)?;
        if let Some(known) = members.iter_mut().find(|known| known.agent.name == agent.name) {
            // An agent that asked several models used the models of its callers.
            known.inherits |= known.agent.model != agent.model;
            known.delegates |= start.agents.is_some();
            continue;
        }
        let delegates = start.agents.is_some();
        let (description, inherits) = (String::new(), false);
        members.push(SubAgent { agent, description, inherits, delegates, depth_limit: None });
    }
    let sub_agents = SubAgents::new(members, DEPTH_LIMIT);
    Ok(sub_agents.ok().filter(|_| starts.get(root).is_some_and(|start| start.agents.is_some())))
}

/// A transport to no model. A request must be written before it is sent, and nothing is written.
struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    async fn send(&self, _: Request) -> Result<Response, TransportError> {
        std::future::pending().await
    }
}

/// A tool that is not run again.
struct AbsentTool(ToolDef);

#[async_trait]
impl Tool for AbsentTool {
    fn def(&self) -> ToolDef {
        self.0.clone()
    }

    async fn call(&self, _: Value, _: &ToolContext) -> ToolOutput {
        ToolOutput::error("not run")
    }
}
