//! A sub-agent's run: begun by a call of the tool `agent`, ended in the result of that call.
//!
//! A sub-agent has its own conversation, limits, tools and model. Its parent is charged for what it
//! spends (`budget.rs`). It always hands something back: its answer, or the reason why there is
//! none.

use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use softland_session::Pending;
use softland_session::core::lease::{Amount, Caps, Standing, What};
use softland_session::core::policy::Policy;
use softland_session::core::{Limit, Millis, NanoUsd, Outcome};
use tokio_util::sync::CancellationToken;

use super::begun;
use super::drive;
use super::emit::{Emitter, Hear};
use super::facts;
use super::purse::Purse;
use super::tools::runs;
use super::{Agent, Conversation, Setup, UnderWay};
use crate::crew::AGENT_TOOL;
use crate::event::{AnsweredBy, EventKind, Report, UsageTotal};
use crate::journal::{Call, CallResult, JournalError, RunJournal, Start};
use crate::tool::{DEFAULT_OUTPUT_CAP, ToolOutput, cut_middle, parse_input};

/// A sub-agent's run that is ready to start.
pub(super) struct Child {
    /// The run's part of the journal. Its id is the parent's id and the number of the sub-agent.
    journal: RunJournal,
    agent: Agent,
    setup: Setup,
    conversation: Conversation,
    purse: Purse,
    /// The call that the run answers, and its result if that is recorded.
    call: Call,
    result: Option<CallResult>,
}

/// The result of a sub-agent's run.
pub(super) struct HandedBack {
    pub(super) output: ToolOutput,
    pub(super) usage: UsageTotal,
    pub(super) cost: Option<NanoUsd>,
}

impl UnderWay<'_> {
    /// Returns true if a call is for another agent.
    pub(super) fn delegates(&self, call: &Pending) -> bool {
        call.name == AGENT_TOOL && self.offered().is_some()
    }

    /// Creates the run that one of a turn's `calls` asks for, or finds the recorded one, and emits
    /// the event for it. The error says why there is no run.
    pub(super) async fn child(
        &mut self,
        (at, call): (u64, &Pending),
        calls: &[Pending],
    ) -> Result<Child, ToolOutput> {
        let number = self.number_of(calls);
        let (id, name, input) = (call.id.clone(), call.name.clone(), call.input.clone());
        let now = Call { turn: self.turn, call: at, id, name, input, held: false };
        let broken = |error: JournalError| ToolOutput::error(error.to_string());
        let recorded = match self.journal.agent_call(&now).map_err(broken)? {
            Some((known, result)) => {
                if known.held {
                    self.meter.purse.hold_more_again(self.of_children(number));
                }
                result
            }
            None => {
                self.journal.caught_up().await;
                // The first of the calls holds money back for all of them, even if they run one
                // after another.
                let first = self.children_among(calls).next();
                let held = first.is_some_and(|first| std::ptr::eq(first, call))
                    && self.holds_for(calls).await;
                self.journal.calls(&Call { held, ..now.clone() }).map_err(broken)?;
                None
            }
        };
        let journal = self.journal.nth_child(self.turn, at, self.children + 1);
        let child = match (journal.start().cloned(), &recorded) {
            (Some(start), _) => {
                self.child_again(call, &start, number).map(|made| (made, recorded.clone()))
            }
            (None, Some(result)) => return Err(result.output()),
            (None, None) => {
                self.journal.caught_up().await;
                let made = self.new_child(call, &journal, number).await;
                if let Err(output) = &made {
                    self.journal.result(&now, output, Duration::ZERO, false).map_err(broken)?;
                }
                made.map(|made| (made, None))
            }
        };
        let ((agent, setup, conversation, purse), result) = child?;
        self.children += 1;
        self.emit.send(EventKind::Child {
            child_run: journal.run().to_owned(),
            agent: agent.name.clone(),
            id: call.id.clone(),
        });
        Ok(Child { journal, agent, setup, conversation, purse, call: now, result })
    }

    /// Creates a sub-agent's run and writes its start.
    async fn new_child(
        &self,
        call: &Pending,
        journal: &RunJournal,
        siblings: u64,
    ) -> Result<Made, ToolOutput> {
        let cancelled = || ToolOutput::error(format!("{AGENT_TOOL}: cancelled before it ran"));
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let (mut agent, prompt) = self.called(call).map_err(ToolOutput::error)?;
        let refused = |why: &dyn std::fmt::Display| {
            ToolOutput::error(format!("{AGENT_TOOL}: `{}` was not run: {why}", agent.name))
        };
        let setup = Setup::of(&agent).map_err(|unfit| refused(&unfit))?;
        let reserve = self.hands_back(&agent, &setup, &prompt, siblings);
        let opened = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(cancelled()),
            opened = self.meter.purse.child(&setup.policy, reserve, siblings) => opened,
            () = drive::until(self.exploring_ends()) => {
                return Err(refused(&"the time of its caller is over"));
            }
        };
        let (purse, now) = opened.map_err(|short| refused(&no_room(&short.standing)))?;
        // The sub-agent has its own time limit, and never more time than its parent.
        agent.policy.time_limit = purse.time_left();
        let policy = Policy { time_limit: agent.policy.time_limit, ..setup.policy };
        let setup = Setup { policy, ..setup };
        let mut conversation = Conversation::new();
        conversation.ask(agent.options.api, agent.options.tool_format, &prompt);
        let cost = (purse.session_spent(), Some(now));
        let start = begun::start(&agent, &setup, &conversation, cost);
        journal.begin(start).map_err(|error| ToolOutput::error(error.to_string()))?;
        Ok((agent, setup, conversation, purse))
    }

    /// Restores a recorded sub-agent's run as it began.
    fn child_again(
        &self,
        call: &Pending,
        start: &Start,
        siblings: u64,
    ) -> Result<Made, ToolOutput> {
        let again = self.called(call).ok().and_then(|(agent, prompt)| {
            let agent = begun::again(&agent, start).ok()?;
            let setup = Setup::of(&agent).ok()?;
            Some((agent, setup, prompt))
        });
        let Some((agent, setup, prompt)) = again else {
            let error = self.journal.differs("start", self.turn);
            return Err(ToolOutput::error(error.to_string()));
        };
        let reserve = self.hands_back(&agent, &setup, &prompt, siblings);
        let began = Millis(start.began.unwrap_or(0));
        let purse = self.meter.purse.child_again(&setup.policy, reserve, siblings, began);
        let mut conversation = Conversation::new();
        begun::converse(&mut conversation, start, &agent);
        Ok((agent, setup, conversation, purse))
    }

    /// Returns the reserve for the answer of one of `siblings` sub-agents when it begins: its share
    /// of what its caller may use. For each request the sub-agent reserves what it needs, as every
    /// run does.
    fn hands_back(&self, agent: &Agent, setup: &Setup, prompt: &str, siblings: u64) -> Amount {
        let first = facts::first(setup, first_request(agent, prompt));
        let (policy, purse) = (&setup.policy, &self.meter.purse);
        let answer = first.share(policy, &purse.caps(), purse.part_of(siblings));
        let own =
            Caps { money: policy.cost_limit_usd, tokens: policy.tokens_limit, ..Caps::default() };
        let own = if policy.observes() { Caps::default() } else { own };
        first.holds(answer.min(first.share(policy, &own, 1)))
    }

    /// Holds money back for the answers of the sub-agents of these calls. Returns false if then not
    /// all of them could begin.
    async fn holds_for(&self, calls: &[Pending]) -> bool {
        let number = self.number_of(calls);
        let of = |call: &Pending| {
            let (agent, prompt) = self.called(call).ok()?;
            let setup = Setup::of(&agent).ok()?;
            Some(self.hands_back(&agent, &setup, &prompt, number))
        };
        let begin = self.children_among(calls).filter_map(of);
        let all = begin.fold(Amount::default(), Amount::plus);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            held = self.meter.purse.hold_more(self.of_children(number), all) => held,
            () = drive::until(self.exploring_ends()) => false,
        }
    }

    fn children_among<'c>(&self, calls: &'c [Pending]) -> impl Iterator<Item = &'c Pending> {
        calls.iter().filter(|call| runs(call) && self.delegates(call))
    }

    fn number_of(&self, calls: &[Pending]) -> u64 {
        self.children_among(calls).count() as u64
    }

    /// Returns the agent that is called, and its prompt.
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

    /// Returns what the answers of `number` sub-agents may add to the run's own input. Each
    /// sub-agent reserves its share for writing the answer; the caller pays for it again when it
    /// reads the answer.
    fn of_children(&self, number: u64) -> Amount {
        let (policy, purse) = (&self.setup.policy, &self.meter.purse);
        let share =
            facts::first(&self.setup, 0).share(policy, &purse.caps(), purse.part_of(number));
        self.meter.input(share.saturating_mul(number))
    }

    /// Counts the usage of a sub-agent as its parent's, and returns its output.
    pub(super) fn take_back(&mut self, back: HandedBack) -> ToolOutput {
        self.meter.add_child(back.usage, back.cost);
        back.output
    }
}

/// The parts of a sub-agent's run.
type Made = (Agent, Setup, Conversation, Purse);

impl Child {
    /// Runs the sub-agent to its end and writes its result to the journal of its `parent`. The
    /// future is boxed because a sub-agent's run contains the same future types as its parent's.
    pub(super) fn run<'a>(
        self,
        sink: &'a dyn Hear,
        parent: &'a RunJournal,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = (HandedBack, Duration)> + Send + 'a>> {
        Box::pin(async move {
            let Self { journal, agent, setup, mut conversation, purse, call, result } = self;
            let began = Instant::now();
            let emit = Emitter::new(sink, journal.clone(), agent.options.show_thinking);
            let within = (&journal, &cancel);
            let mut under_way =
                UnderWay::new(&agent, setup, &mut conversation, purse, emit, within);
            let report = under_way.run().await;
            let cost = under_way.meter.cost();
            let cancelled = report.ended.outcome == Outcome::Cancelled
                && (cancel.is_cancelled() || parent.was_cancelled(call.turn));
            let (usage, output) = (report.usage, hand_back(Some(AGENT_TOOL), &agent.name, report));
            let (output, took) = match result {
                Some(result) => (result.output(), Duration::from_millis(result.took)),
                // The process that resumes the tree resumes this run too.
                None if cancelled => (output, began.elapsed()),
                None => {
                    let took = began.elapsed();
                    match parent.result(&call, &output, took, false) {
                        Ok(()) => (output, took),
                        Err(error) => (ToolOutput::error(error.to_string()), took),
                    }
                }
            };
            (HandedBack { output, usage, cost }, took)
        })
    }
}

/// Returns the approximate size of a sub-agent's first request, in bytes.
fn first_request(agent: &Agent, prompt: &str) -> usize {
    /// The bytes around the system prompt, the prompt and the tools.
    const FRAME: usize = 512;
    let tool = |def: &crate::tool::ToolDef| {
        def.name.len() + def.description.len() + def.input_schema.to_string().len()
    };
    let crew = agent.crew.as_ref().and_then(crate::crew::Crew::def);
    let tools: usize = agent.tools.defs().chain(crew.as_ref()).map(tool).sum();
    agent.system.len() + prompt.len() + tools + FRAME
}

/// Returns the text that a caller's model gets of a run: its answer. A last line says so if the
/// model did not end freely by itself. `tool` is the tool that was called, for errors.
pub(crate) fn hand_back(tool: Option<&str>, name: &str, report: Report) -> ToolOutput {
    let mark = mark(&report);
    let failed = |how: &str| {
        let tool = tool.map(|tool| format!("{tool}: ")).unwrap_or_default();
        ToolOutput::error(format!("{tool}`{name}` {how}"))
    };
    let Report { ended, answer, failure, .. } = report;
    match (ended.outcome, answer) {
        (Outcome::Cancelled, _) => failed("was cancelled"),
        (Outcome::Failed, _) | (_, None) => {
            let why = failure.unwrap_or_else(|| ended.reason.to_string());
            failed(&format!("failed: {why}"))
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

/// Returns the last line of the output, if it needs one.
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

/// Explains why too little is left. Spent amounts and amounts held by other runs are listed apart,
/// because held amounts may come back.
fn no_room(standing: &Standing) -> String {
    let Standing { what, cap, spent, reserved, leased, .. } = *standing;
    let held = reserved.saturating_add(leased);
    let (unit, of): (_, fn(u64) -> String) = match what {
        What::Money => ("", |nano| NanoUsd(nano).to_string()),
        What::Tokens => (" tokens", |count| count.to_string()),
        What::Calls => (" calls", |count| count.to_string()),
        What::Time => return "the time of its caller is over".to_owned(),
    };
    let (cap, spent, held) = (of(cap), of(spent), of(held));
    format!(
        "too little is left for its answer ({spent} of {cap}{unit} used, {held} held back for \
         answers and requests of others)"
    )
}
