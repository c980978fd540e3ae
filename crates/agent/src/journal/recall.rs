//! The replay of a journal without any effect: its runs reach everything that is recorded and
//! nothing else. Nothing is sent, run or written. The recorded run may still be active.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Journal, JournalError, JournalErrorKind, Start, file};
use crate::crew::{Crew, DEPTH_LIMIT, Member};
use crate::event::Event;
use crate::http::provider::Api;
use crate::http::{Request, Response, Transport, TransportError};
use crate::run::{Agent, Conversation, Unfit};
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput, ToolSet};

/// The content of a replayed journal.
#[derive(Debug)]
pub struct Recalled {
    /// The id of the root run.
    pub root: String,
    /// The start record of each run, by its id.
    pub starts: BTreeMap<String, Start>,
    /// The events of all runs, as far as they are recorded.
    pub events: Vec<Event>,
    /// The reason why the events end before the records do; `None` if they do not. This softland
    /// then decides differently from the recorded one.
    pub differs: Option<JournalError>,
}

impl Recalled {
    /// Replays the journal of a tree of runs.
    ///
    /// # Errors
    /// Returns an error if the file is not a journal or names an API that this softland does not
    /// speak.
    pub async fn at(path: &Path) -> Result<Self, Unfit> {
        let mut runs = file::peek(path).map_err(Unfit::Journal)?;
        let empty = || Unfit::Journal(JournalError::new(path, JournalErrorKind::Empty));
        let root = runs.root.clone().ok_or_else(empty)?;
        let of =
            |(id, past): (&String, &super::past::Past)| Some((id.clone(), past.start.clone()?));
        let starts: BTreeMap<String, Start> = runs.runs.iter().filter_map(of).collect();
        let start = starts.get(&root).ok_or_else(empty)?;
        let ended = runs.runs.get(&root).is_some_and(|past| past.end.is_some());
        if !ended {
            runs.reopen();
        }
        let mut agent = stub(start)?;
        agent.crew = crew(&starts, &root)?;
        let journal = Journal::over(path, None, runs);
        let run = journal.root(&root);
        let mut events = Vec::new();
        let mut hear = |event: &Event| {
            // Events after that only show how runs stop that may not go on.
            if journal.failure().is_none() {
                events.push(event.clone());
            }
        };
        let (mut conversation, cancel) = (Conversation::new(), CancellationToken::new());
        agent.keep(&run, &mut conversation, "", &mut hear, &cancel).await?;
        let other = |e: &JournalError| matches!(e.kind(), JournalErrorKind::Differs { .. });
        let differs = journal.failure().filter(other);
        Ok(Self { root, starts, events, differs })
    }
}

/// Returns an agent as it was recorded, without access to the world.
fn stub(start: &Start) -> Result<Agent, Unfit> {
    let other = |what: String| Unfit::OtherAgent { what };
    let api = Api::from_name(&start.api)
        .ok_or_else(|| other(format!("it asks the API {}", start.api)))?;
    let mut agent = Agent::new(&start.agent, &start.model, Arc::new(Nowhere));
    agent.options.api = api;
    let mut tools = ToolSet::new();
    for told in &start.tools {
        tools.add(Arc::new(Gone(told.def(false)))).map_err(|error| other(error.to_string()))?;
    }
    agent.tools = tools;
    Ok(agent)
}

/// Returns the agents that were called in the tree.
fn crew(starts: &BTreeMap<String, Start>, root: &str) -> Result<Option<Crew>, Unfit> {
    let mut members: Vec<Member> = Vec::new();
    for start in starts.iter().filter(|(run, _)| *run != root).map(|(_, start)| start) {
        let agent = stub(start)?;
        if let Some(known) = members.iter_mut().find(|known| known.agent.name == agent.name) {
            // An agent that asked several models used the models of its callers.
            known.inherits |= known.agent.model != agent.model;
            known.delegates |= start.agents.is_some();
            continue;
        }
        let delegates = start.agents.is_some();
        let (description, inherits) = (String::new(), false);
        members.push(Member { agent, description, inherits, delegates, depth_limit: None });
    }
    let crew = Crew::new(members, DEPTH_LIMIT);
    Ok(crew.ok().filter(|_| starts.get(root).is_some_and(|start| start.agents.is_some())))
}

/// A transport to no model. A request must be written before it is sent, and nothing is written.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn send(&self, _: Request) -> Result<Response, TransportError> {
        std::future::pending().await
    }
}

/// A tool that is not run again.
struct Gone(ToolDef);

#[async_trait]
impl Tool for Gone {
    fn def(&self) -> ToolDef {
        self.0.clone()
    }

    async fn call(&self, _: Value, _: &ToolContext) -> ToolOutput {
        ToolOutput::error("not run")
    }
}
