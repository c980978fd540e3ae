//! A journal told again, without the world: its runs come to all that is recorded, and to nothing
//! else. Nothing is sent, run or written, and the run may be under way.

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

/// What a journal tells.
#[derive(Debug)]
pub struct Recalled {
    /// The root's id.
    pub root: String,
    /// What each run was begun with, by its id.
    pub starts: BTreeMap<String, Start>,
    /// The events of all runs, as far as they are recorded.
    pub events: Vec<Event>,
    /// Why they end before the records do, where they do: this softland decides otherwise.
    pub differs: Option<JournalError>,
}

impl Recalled {
    /// Tells the journal of a tree of runs.
    ///
    /// # Errors
    /// A file that is no journal, or whose API this softland does not speak.
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
            // What comes then is how runs stop that may not go on.
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

/// An agent as it was recorded, without the world.
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

/// Whoever was called in the tree.
fn crew(starts: &BTreeMap<String, Start>, root: &str) -> Result<Option<Crew>, Unfit> {
    let mut members: Vec<Member> = Vec::new();
    for start in starts.iter().filter(|(run, _)| *run != root).map(|(_, start)| start) {
        let agent = stub(start)?;
        if let Some(known) = members.iter_mut().find(|known| known.agent.name == agent.name) {
            // One that asked several models asked its callers'.
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

/// A way to no model: what is to be sent has to be written first, and nothing is.
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
