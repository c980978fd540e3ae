//! A sub-agent's run: begun by a call of the tool `agent`, ended in the result of that call.
//!
//! A sub-agent has its own conversation, limits, tools and model. Its parent is charged for what it
//! spends (`budget.rs`). It always hands something back: its answer, or the reason why there is
//! none.

use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use softland_session::PendingCall;
use softland_session::core::lease::{Amount, CapUnit, CapUsage, Caps};
use softland_session::core::policy::Policy;
use softland_session::core::{Millis, NanoUsd, Outcome, Quantity};
use tokio_util::sync::CancellationToken;

use super::budget::SpendingBudget;
use super::drive;
use super::emit::{Emitter, EventSink};
use super::facts;
use super::resume;
use super::tools::is_executed;
use super::{ActiveRun, Agent, Conversation, Setup};
use crate::event::{AnsweredBy, EventKind, Report, UsageTotal};
use crate::journal::{CallRecord, CallResultRecord, JournalError, RunJournal, StartRecord};
use crate::sub_agents::AGENT_TOOL;
use crate::tool::{DEFAULT_OUTPUT_CAP, ToolOutput, cut_middle, parse_input};

/// A sub-agent's run that is ready to start.
pub(super) struct SubAgentRun {
    /// The run's part of the journal. Its id is the parent's id and the number of the sub-agent.
    journal: RunJournal,
    agent: Agent,
    setup: Setup,
    conversation: Conversation,
    budget: SpendingBudget,
    /// The call that the run answers, and its result if that is recorded.
    call: CallRecord,
    result: Option<CallResultRecord>,
}

/// The result of a sub-agent's run.
pub(super) struct SubAgentResult {
    pub(super) output: ToolOutput,
    pub(super) usage: UsageTotal,
    pub(super) cost: Option<NanoUsd>,
}

impl ActiveRun<'_> {
    /// Returns true if a call is for another agent.
    pub(super) fn is_sub_agent_call(&self, call: &PendingCall) -> bool {
        call.name == AGENT_TOOL && self.sub_agent_tool().is_some()
    }

    /// Creates the run that one of a turn's `calls` asks for, or finds the recorded one, and emits
    /// the event for it. The error says why there is no run.
    pub(super) async fn prepare_sub_agent(
        &mut self,
        (at, call): (u64, &PendingCall),
        calls: &[PendingCall],
    ) -> Result<SubAgentRun, ToolOutput> {
        let number = self.count_sub_agents(calls);
        let (id, name, input) = (call.id.clone(), call.name.clone(), call.input.clone());
        let now = CallRecord { turn: self.turn, call: at, id, name, input, held: false };
        let broken = |error: JournalError| ToolOutput::error(error.to_string());
        let recorded = match self.journal.take_agent_call(&now).map_err(broken)? {
            Some((known, result)) => {
                if known.held {
                    self.meter.budget.restore_hold(self.sub_agent_input(number));
                }
                result
            }
            None => {
                self.journal.wait_until_caught_up().await;
                // The first of the calls holds money back for all of them, even if they run one
                // after another.
                let first = self.sub_agent_calls(calls).next();
                let held = first.is_some_and(|first| std::ptr::eq(first, call))
                    && self.hold_for_sub_agents(calls).await;
                self.journal.record_call(&CallRecord { held, ..now.clone() }).map_err(broken)?;
                None
            }
        };
        let journal = self.journal.nth_child(self.turn, at, self.children + 1);
        let child = match (journal.start_record().cloned(), &recorded) {
            (Some(start), _) => {
                self.resume_sub_agent(call, &start, number).map(|made| (made, recorded.clone()))
            }
            (None, Some(result)) => return Err(result.to_output()),
            (None, None) => {
                self.journal.wait_until_caught_up().await;
                let made = self.begin_sub_agent(call, &journal, number).await;
                if let Err(output) = &made {
                    self.journal
                        .record_result(&now, output, Duration::ZERO, false)
                        .map_err(broken)?;
                }
                made.map(|made| (made, None))
            }
        };
        let ((agent, setup, conversation, budget), result) = child?;
        self.children += 1;
        self.emit.emit_event(EventKind::Child {
            child_run: journal.run_id().to_owned(),
            agent: agent.name.clone(),
            id: call.id.clone(),
        });
        Ok(SubAgentRun { journal, agent, setup, conversation, budget, call: now, result })
    }

    /// Creates a sub-agent's run and writes its start.
    async fn begin_sub_agent(
        &self,
        call: &PendingCall,
        journal: &RunJournal,
        siblings: u64,
    ) -> Result<SubAgentParts, ToolOutput> {
        let cancelled = || ToolOutput::error(format!("{AGENT_TOOL}: cancelled before it ran"));
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let (mut agent, prompt) = self.resolve_call(call).map_err(ToolOutput::error)?;
        let refused = |why: &dyn std::fmt::Display| {
            ToolOutput::error(format!("{AGENT_TOOL}: `{}` was not run: {why}", agent.name))
        };
        let setup = Setup::from_agent(&agent).map_err(|unfit| refused(&unfit))?;
        let reserve = self.answer_reserve(&agent, &setup, &prompt, siblings);
        let opened = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(cancelled()),
            opened = self.meter.budget.open_child(&setup.policy, reserve, siblings) => opened,
            () = drive::wait_until(self.exploring_deadline()) => {
                return Err(refused(&"its caller has no time left"));
            }
        };
        let (budget, now) = opened.map_err(|short| refused(&explain_shortage(&short.standing)))?;
        // The sub-agent has its own time limit, and never more time than its parent.
        agent.policy.time_limit = budget.time_left();
        let policy = Policy { time_limit: agent.policy.time_limit, ..setup.policy };
        let setup = Setup { policy, ..setup };
        let mut conversation = Conversation::new();
        conversation.open_run(agent.options.api, agent.options.tool_format, &prompt);
        let cost = (budget.session_spent(), Some(now));
        let start = resume::start_record(&agent, &setup, &conversation, cost);
        journal.record_start(start).map_err(|error| ToolOutput::error(error.to_string()))?;
        Ok((agent, setup, conversation, budget))
    }

    /// Restores a recorded sub-agent's run as it began.
    fn resume_sub_agent(
        &self,
        call: &PendingCall,
        start: &StartRecord,
        siblings: u64,
    ) -> Result<SubAgentParts, ToolOutput> {
        let again = self.resolve_call(call).ok().and_then(|(agent, prompt)| {
            let agent = resume::restore_agent(&agent, start).ok()?;
            let setup = Setup::from_agent(&agent).ok()?;
            Some((agent, setup, prompt))
        });
        let Some((agent, setup, prompt)) = again else {
            let error = self.journal.mismatch_error("start", self.turn);
            return Err(ToolOutput::error(error.to_string()));
        };
        let reserve = self.answer_reserve(&agent, &setup, &prompt, siblings);
        let began = Millis(start.began.unwrap_or(0));
        let budget = self.meter.budget.reopen_child(&setup.policy, reserve, siblings, began);
        let mut conversation = Conversation::new();
        resume::restore_conversation(&mut conversation, start, &agent);
        Ok((agent, setup, conversation, budget))
    }

    /// Returns the reserve for the answer of one of `siblings` sub-agents when it begins: its share
    /// of what its caller may use. For each request the sub-agent reserves what it needs, as every
    /// run does.
    fn answer_reserve(&self, agent: &Agent, setup: &Setup, prompt: &str, siblings: u64) -> Amount {
        let first = facts::estimate_first(setup, first_request_bytes(agent, prompt));
        let (policy, budget) = (&setup.policy, &self.meter.budget);
        let answer = first.answer_share(policy, &budget.lowest_caps(), budget.child_part(siblings));
        let own =
            Caps { money: policy.cost_limit_usd, tokens: policy.tokens_limit, ..Caps::default() };
        let own = if policy.is_observing() { Caps::default() } else { own };
        first.initial_reserve(answer.min(first.answer_share(policy, &own, 1)))
    }

    /// Holds money back for the answers of the sub-agents of these calls. Returns false if then not
    /// all of them could begin.
    async fn hold_for_sub_agents(&self, calls: &[PendingCall]) -> bool {
        let number = self.count_sub_agents(calls);
        let of = |call: &PendingCall| {
            let (agent, prompt) = self.resolve_call(call).ok()?;
            let setup = Setup::from_agent(&agent).ok()?;
            Some(self.answer_reserve(&agent, &setup, &prompt, number))
        };
        let begin = self.sub_agent_calls(calls).filter_map(of);
        let all = begin.fold(Amount::default(), Amount::saturating_add);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            held = self.meter.budget.hold_more(self.sub_agent_input(number), all) => held,
            () = drive::wait_until(self.exploring_deadline()) => false,
        }
    }

    fn sub_agent_calls<'c>(
        &self,
        calls: &'c [PendingCall],
    ) -> impl Iterator<Item = &'c PendingCall> {
        calls.iter().filter(|call| is_executed(call) && self.is_sub_agent_call(call))
    }

    fn count_sub_agents(&self, calls: &[PendingCall]) -> u64 {
        self.sub_agent_calls(calls).count() as u64
    }

    /// Returns the agent that is called, and its prompt.
    fn resolve_call(&self, call: &PendingCall) -> Result<(Agent, String), String> {
        let (Some(sub_agents), Some(def)) = (&self.agent.sub_agents, self.sub_agent_tool()) else {
            return Err(format!("{AGENT_TOOL}: no agent may be called here"));
        };
        let input = parse_input(&def, &call.input)?;
        let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        let (name, prompt) = (text("name"), text("prompt"));
        let Some(member) = sub_agents.get(name) else {
            let names: Vec<&str> =
                sub_agents.members().iter().map(|m| m.agent.name.as_str()).collect();
            return Err(format!(
                "{AGENT_TOOL}: there is no agent `{}`; the agents are: {}",
                crate::tool::cut_line(name, 80),
                names.join(", ")
            ));
        };
        if prompt.is_empty() {
            return Err(format!("{AGENT_TOOL}: the prompt is empty; say what `{name}` is to do"));
        }
        Ok((sub_agents.agent_for_caller(member, self.agent), prompt.to_owned()))
    }

    /// Returns what the answers of `number` sub-agents may add to the run's own input. Each
    /// sub-agent reserves its share for writing the answer; the caller pays for it again when it
    /// reads the answer.
    fn sub_agent_input(&self, number: u64) -> Amount {
        let (policy, budget) = (&self.setup.policy, &self.meter.budget);
        let share = facts::estimate_first(&self.setup, 0).answer_share(
            policy,
            &budget.lowest_caps(),
            budget.child_part(number),
        );
        self.meter.input_amount(share.saturating_mul(number))
    }

    /// Counts the usage of a sub-agent as its parent's, and returns its output.
    pub(super) fn charge_sub_agent(&mut self, back: SubAgentResult) -> ToolOutput {
        self.meter.add_sub_agent(back.usage, back.cost);
        back.output
    }
}

/// The parts of a sub-agent's run.
type SubAgentParts = (Agent, Setup, Conversation, SpendingBudget);

impl SubAgentRun {
    /// Runs the sub-agent to its end and writes its result to the journal of its `parent`. The
    /// future is boxed because a sub-agent's run contains the same future types as its parent's.
    pub(super) fn run_to_end<'a>(
        self,
        sink: &'a dyn EventSink,
        parent: &'a RunJournal,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = (SubAgentResult, Duration)> + Send + 'a>> {
        Box::pin(async move {
            let Self { journal, agent, setup, mut conversation, budget, call, result } = self;
            let began = Instant::now();
            let emit = Emitter::new(sink, journal.clone(), agent.options.show_thinking)
                .with_policy(&setup.policy);
            let within = (&journal, &cancel);
            let mut under_way =
                ActiveRun::new(&agent, setup, &mut conversation, budget, emit, within);
            let report = under_way.run().await;
            let cost = under_way.meter.total_cost();
            let cancelled = report.ended.outcome == Outcome::Cancelled
                && (cancel.is_cancelled() || parent.was_cancelled(call.turn));
            let (usage, output) =
                (report.usage, report_to_output(Some(AGENT_TOOL), &agent.name, report));
            let (output, took) = match result {
                Some(result) => (result.to_output(), Duration::from_millis(result.took)),
                // The process that resumes the tree resumes this run too.
                None if cancelled => (output, began.elapsed()),
                None => {
                    let took = began.elapsed();
                    match parent.record_result(&call, &output, took, false) {
                        Ok(()) => (output, took),
                        Err(error) => (ToolOutput::error(error.to_string()), took),
                    }
                }
            };
            (SubAgentResult { output, usage, cost }, took)
        })
    }
}

/// Returns the approximate size of a sub-agent's first request, in bytes.
fn first_request_bytes(agent: &Agent, prompt: &str) -> usize {
    /// The bytes around the system prompt, the prompt and the tools.
    const FRAME: usize = 512;
    let tool = |def: &crate::tool::ToolDef| {
        def.name.len() + def.description.len() + def.input_schema.to_string().len()
    };
    let sub_agents = agent.sub_agents.as_ref().and_then(crate::sub_agents::SubAgents::tool_def);
    let tools: usize = agent.tools.defs().chain(sub_agents.as_ref()).map(tool).sum();
    agent.system.len() + prompt.len() + tools + FRAME
}

/// Returns the text that a caller's model gets of a run: its answer. A last line says so if the
/// model did not end freely by itself. `tool` is the tool that was called, for errors.
pub(crate) fn report_to_output(tool: Option<&str>, name: &str, report: Report) -> ToolOutput {
    let mark = outcome_mark(&report);
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
fn outcome_mark(report: &Report) -> Option<String> {
    let ended = &report.ended;
    let limit = match (&ended.limit, &ended.value) {
        (Some(key), Some(value)) => {
            let left = ended.remaining.get(key);
            match (value, left) {
                (Quantity::Count(limit), Some(Quantity::Count(left))) => {
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
fn explain_shortage(standing: &CapUsage) -> String {
    let CapUsage { what, cap, spent, reserved, leased, .. } = *standing;
    let held = reserved.saturating_add(leased);
    let (unit, of): (_, fn(u64) -> String) = match what {
        CapUnit::Money => ("", |nano| NanoUsd(nano).to_string()),
        CapUnit::Tokens => (" tokens", |count| count.to_string()),
        CapUnit::Time => return "its caller has no time left".to_owned(),
    };
    let (cap, spent, held) = (of(cap), of(spent), of(held));
    format!(
        "too little is left for its answer ({spent} of {cap}{unit} used, {held} held back for \
         answers and requests of others)"
    )
}
