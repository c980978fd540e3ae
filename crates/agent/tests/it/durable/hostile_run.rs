//! A case of the adversary as a run that an engine keeps, and what holds for it however often its
//! process has crashed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use softland_agent::core::policy::Policy;
use softland_agent::core::{Digest, models};
use softland_agent::http::Api;
use softland_agent::{Agent, Event, EventKind, Report, Tool, ToolContext, ToolDef, ToolOutput};
use softland_sim::{Config, Scenario};

use crate::adversary::case::{Ask, Case};
use crate::adversary::cases::{api_of, counted, names};
use crate::adversary::checks;
use crate::adversary::hostile::{Dice, TOOLS};
use crate::adversary::seeds::Met;
use crate::adversary::watch::Watching;
use crate::common::{Counting, agent};

/// A tool that may not run twice.
struct Unrepeatable(Counting);

#[async_trait]
impl Tool for Unrepeatable {
    fn def(&self) -> ToolDef {
        ToolDef { repeatable: false, ..self.0.def() }
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        // Other calls of the round get their turn, and so does a crash.
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.call(input, cx).await
    }
}

/// The first run of a case.
pub(crate) struct HostileRun {
    pub(crate) agent: Agent,
    pub(crate) prompt: String,
    /// What follows from the case alone.
    pub(crate) dice: Dice,
    api: Api,
    policy: Policy,
    watching: Arc<Watching>,
    /// The calls of the tools that may not run twice.
    once: Vec<(&'static str, Arc<AtomicU64>)>,
}

impl HostileRun {
    /// Creates the run of a case; `None` if nobody asks anything in it.
    pub(crate) fn of_case(case: &Case) -> Option<Self> {
        let Some(Ask::Say(prompt, policy)) = case.asks.first() else { return None };
        let api = api_of(case);
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        let (model, listed) = names(api, case);
        config.aliases =
            case.rules_of.iter().map(|_| (case.model.clone(), listed.clone())).collect();
        config.piece_bytes = case.manner.piece_bytes;
        let watching = Watching::new(config);
        let mut agent = agent(&watching.transport, &model);
        agent.options.api = api;
        agent.transport = Arc::<Watching>::clone(&watching);
        agent.options.price = Some(models::all_models()[0].price);
        agent.options.show_thinking = case.manner.thinking;
        agent.policy = (**policy).clone();
        let ran: Arc<AtomicU64> = Arc::default();
        let seed = Digest::from_bytes(case.to_text().as_bytes()).to_string();
        let mut dice = Dice::new(u64::from_str_radix(&seed[..15], 16).unwrap());
        let mut once = Vec::new();
        for &tool in TOOLS {
            let calls = Arc::<AtomicU64>::default();
            let counted = counted(tool, &calls, &ran);
            let added = if dice.chance(70) {
                once.push((tool, calls));
                agent.tools.add_tool(Arc::new(Unrepeatable(counted)))
            } else {
                agent.tools.add_tool(Arc::new(counted))
            };
            added.unwrap();
        }
        let (prompt, policy) = (prompt.clone(), (**policy).clone());
        Some(Self { agent, prompt, dice, api, policy, watching, once })
    }

    /// Checks all events of the run. Returns what was met.
    pub(crate) fn check(&self, case: &Case, events: Vec<Event>) -> Met {
        let came = (report(&events), events);
        checks::events(&came.1);
        checks::report(&came.0);
        checks::refused(case, &self.watching, 0);
        let script = case.turns.len() as u64;
        checks::first_run(&came, &self.policy, &self.once, script, &self.watching.transport);
        if self.api != Api::OpenAiResponses {
            checks::prefixes(self.api, &self.watching.transport, &[]);
        }
        let mut seen = Met::new();
        checks::note(&came, &mut seen);
        let interrupted = |event: &Event| match &event.kind {
            EventKind::ToolResult { content, .. } => content.contains("interrupted. This call"),
            _ => false,
        };
        if came.1.iter().any(interrupted) {
            seen.insert("interrupted".to_owned());
        }
        seen
    }
}

fn report(events: &[Event]) -> Report {
    match &events.last().unwrap().kind {
        EventKind::Done { report } | EventKind::Error { report, .. } => report.as_ref().clone(),
        other => panic!("no end: {other:?}"),
    }
}
