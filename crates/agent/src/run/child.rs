//! A sub-agent's run: begun by a call of the tool `agent`, ended in that call's result.
//!
//! A child has its own conversation, limits, tools and model; what it spends is its parent's too
//! (`purse.rs`). It always hands something back: its answer, or why there is none.

use std::pin::Pin;

use serde_json::Value;
use softland_session::Pending;
use softland_session::core::policy::Policy;
use softland_session::core::{Because, Limit, NanoUsd, Outcome};
use tokio_util::sync::CancellationToken;

use super::emit::{Emitter, Hear};
use super::facts;
use super::purse::Purse;
use super::{Agent, Conversation, Setup, UnderWay};
use crate::crew::AGENT_TOOL;
use crate::event::{AnsweredBy, EventKind, Report, UsageTotal};
use crate::journal::RunJournal;
use crate::tool::{DEFAULT_OUTPUT_CAP, ToolOutput, cut_middle, parse_input};

/// A child that is about to run.
pub(super) struct Child {
    /// Its run's id: its parent's, and which of its parent's children it is.
    run: String,
    agent: Agent,
    setup: Setup,
    prompt: String,
    purse: Purse,
}

/// What a child's run came to.
pub(super) struct HandedBack {
    pub(super) output: ToolOutput,
    pub(super) usage: UsageTotal,
    pub(super) cost: Option<NanoUsd>,
}

impl UnderWay<'_> {
    /// Whether a call is one of another agent.
    pub(super) fn delegates(&self, call: &Pending) -> bool {
        call.name == AGENT_TOOL && self.offered().is_some()
    }

    /// Makes the run that a call asks for, and tells of it; or says why there is none.
    pub(super) fn child(&mut self, call: &Pending) -> Result<Child, ToolOutput> {
        if self.cancel.is_cancelled() {
            return Err(ToolOutput::error(format!("{AGENT_TOOL}: cancelled before it ran")));
        }
        let (mut agent, prompt) = self.called(call).map_err(ToolOutput::error)?;
        let refused = |why: &dyn std::fmt::Display| {
            ToolOutput::error(format!("{AGENT_TOOL}: `{}` was not run: {why}", agent.name))
        };
        let setup = Setup::of(&agent).map_err(|unfit| refused(&unfit))?;
        let first = facts::first(&setup, first_request(&agent, &prompt));
        let reserve = first.reserve(&setup.policy, self.meter.purse.tokens_cap());
        let purse = self
            .meter
            .purse
            .child(&setup.policy, reserve)
            .map_err(|short| refused(&no_room(&short.standing.because())))?;
        // Its own time, and no more than its parent's.
        agent.policy.time_limit = purse.time_left();
        let policy = Policy { time_limit: agent.policy.time_limit, ..setup.policy };
        let setup = Setup { policy, ..setup };
        self.children += 1;
        let run = format!("{}.{}", self.emit.run(), self.children);
        self.emit.send(EventKind::Child {
            child_run: run.clone(),
            agent: agent.name.clone(),
            id: call.id.clone(),
        });
        Ok(Child { run, agent, setup, prompt, purse })
    }

    /// The agent that is called, and its prompt.
    fn called(&self, call: &Pending) -> Result<(Agent, String), String> {
        let (Some(crew), Some(def)) = (&self.agent.crew, self.offered()) else {
            return Err(format!("{AGENT_TOOL}: no agent may be called here"));
        };
        let input = parse_input(&def, &call.input)?;
        let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        let (name, prompt) = (text("name"), text("prompt"));
        let Some(member) = crew.get(name) else {
            let names: Vec<&str> = crew.members().iter().map(|m| m.agent.name.as_str()).collect();
            return Err(format!(
                "{AGENT_TOOL}: there is no agent `{}`; the agents are: {}",
                crate::tool::cut_line(name, 80),
                names.join(", ")
            ));
        };
        if prompt.is_empty() {
            return Err(format!("{AGENT_TOOL}: the prompt is empty; say what `{name}` is to do"));
        }
        Ok((crew.called(member, self.agent), prompt.to_owned()))
    }

    /// Holds back for the answer what the children's answers will add to its input.
    pub(super) fn expect_children(&self, number: u64) {
        let tokens = self.setup.policy.reserve_tokens.saturating_mul(number);
        self.meter.purse.hold_more(self.meter.input(tokens));
    }

    /// Counts what a child has used as its parent's.
    pub(super) fn take_back(&mut self, back: HandedBack) -> ToolOutput {
        self.meter.add_child(back.usage, back.cost);
        back.output
    }
}

impl Child {
    /// Runs it to its end. In a box, since a child's run is made of the same parts as its
    /// parent's.
    pub(super) fn run<'a>(
        self,
        sink: &'a dyn Hear,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = HandedBack> + Send + 'a>> {
        Box::pin(async move {
            let Self { run, agent, setup, prompt, purse } = self;
            let mut conversation = Conversation::new();
            let journal = RunJournal::unkept(run);
            let emit = Emitter::new(sink, journal.clone(), agent.options.show_thinking);
            let within = (&journal, &cancel);
            let mut under_way =
                UnderWay::new(&agent, setup, &mut conversation, purse, emit, within);
            under_way.conversation.ask(agent.options.api, agent.options.tool_format, &prompt);
            let report = under_way.run().await;
            let cost = under_way.meter.cost();
            let (usage, output) = (report.usage, hand_back(&agent.name, report));
            HandedBack { output, usage, cost }
        })
    }
}

/// Bytes of a child's first request, nearly.
fn first_request(agent: &Agent, prompt: &str) -> usize {
    /// What stands around them.
    const FRAME: usize = 512;
    let tool = |def: &crate::tool::ToolDef| {
        def.name.len() + def.description.len() + def.input_schema.to_string().len()
    };
    let crew = agent.crew.as_ref().and_then(crate::crew::Crew::def);
    let tools: usize = agent.tools.defs().chain(crew.as_ref()).map(tool).sum();
    agent.system.len() + prompt.len() + tools + FRAME
}

/// What a parent's model is given of a child's run: the answer, with a last line that says so
/// where it is not the model's own free end.
fn hand_back(name: &str, report: Report) -> ToolOutput {
    let mark = mark(&report);
    let Report { ended, answer, failure, .. } = report;
    match (ended.outcome, answer) {
        (Outcome::Cancelled, _) => {
            ToolOutput::error(format!("{AGENT_TOOL}: `{name}` was cancelled"))
        }
        (Outcome::Failed, _) | (_, None) => {
            let why = failure.unwrap_or_else(|| ended.reason.to_string());
            ToolOutput::error(format!("{AGENT_TOOL}: `{name}` failed: {why}"))
        }
        (Outcome::Answered | Outcome::Landed | Outcome::Stopped, Some(answer)) => {
            let answer = cut_middle(answer.trim_end(), DEFAULT_OUTPUT_CAP);
            ToolOutput::ok(match mark {
                None => answer,
                Some(mark) => format!("{answer}\n\n{mark}"),
            })
        }
    }
}

/// The last line of what is handed back.
fn mark(report: &Report) -> Option<String> {
    let ended = &report.ended;
    let limit = match (&ended.limit, &ended.value) {
        (Some(key), Some(value)) => {
            let left = ended.remaining.get(key);
            match (value, left) {
                (Limit::Count(limit), Some(Limit::Count(left))) => {
                    format!("{} {} of {limit}", ended.reason, limit.saturating_sub(*left))
                }
                _ => format!("{}, limit {value}", ended.reason),
            }
        }
        _ => ended.reason.to_string(),
    };
    if report.answered_by == Some(AnsweredBy::Local) {
        return Some(format!("[not the model's answer: {limit}]"));
    }
    (ended.outcome == Outcome::Landed).then(|| format!("[landed: {limit}]"))
}

fn no_room(because: &Because) -> String {
    format!("too little is left for its answer ({because})")
}
