//! The agent loop: asks the model, runs its tools and answers every call until the run has landed.
//!
//! Limits, loops and landing are decided in `softland_session`. This module carries requests and
//! results, keeps track of time and money, and emits events. It prints nothing.

mod body;
mod budget;
mod drive;
mod emit;
mod facts;
mod form;
#[cfg(feature = "http")]
mod from_env;
mod journaling;
mod lease;
mod resume;
mod setup_error;
mod stream;
mod sub_agent;
mod tools;

use std::sync::{Arc, Mutex};

use softland_session::core::models::capability::Capability;
use softland_session::core::models::{self, Model};
use softland_session::core::policy::{Landing, Policy};
use softland_session::core::{NanoUsd, Outcome, PinnedRecords, Reason, Role, RunEnding, RunUsage};
use softland_session::wire::tags::Shape;
use softland_session::{
    Context, Done, Exchange, Output, PendingCall, find_local_answer, read_local_reason,
};
use tokio_util::sync::CancellationToken;

use crate::event::{AnsweredBy, Event, EventKind, Report};
use crate::http::retry::RetryPolicy;
use crate::http::{Api, ServedModel, Transport};
use crate::journal::{JournalError, RunJournal};
use crate::sub_agents::SubAgents;
use crate::tool::{ToolFormat, ToolSet};

pub use body::{Conversation, Inbox};
use budget::SpendingBudget;
use drive::FinishedExchange;
use emit::Emitter;
use facts::Meter;
#[cfg(feature = "http")]
pub use from_env::ConnectError;
use journaling::AnsweredRound;
pub use setup_error::SetupError;
pub use stream::EventStream;
#[cfg(feature = "mcp")]
pub(crate) use sub_agent::report_to_output;

/// The name of the answer tool that `landing = "respond"` declares.
const RESPOND: &str = "respond";

/// An agent: a model, its instructions, its tools and its policy.
///
/// A limit is no error: the report says how the run ended, and whose answer it has.
///
/// ```
/// use std::sync::Arc;
///
/// use softland_agent::testing::{ScriptedModel, ScriptedReply};
/// use softland_agent::{Agent, AnsweredBy};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([ScriptedReply::from_text("Four euros a month.")]);
/// let mut agent = Agent::new("analyst", "test/script", Arc::new(model));
/// agent.system = "Answer in one sentence.".to_owned();
/// agent.policy.tool_calls_limit = Some(30);
/// agent.options.max_tokens = Some(2_000);
///
/// let report = agent.run("What is the price?", &mut |event| drop(event)).await?;
/// assert_eq!(report.ended.outcome.word(), "answered");
/// assert_eq!(report.answered_by, Some(AnsweredBy::Model));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Agent {
    /// The agent's name, as it stands in events.
    pub name: String,
    /// The system prompt; empty for none.
    pub system: String,
    /// The model, as `PROVIDER/MODEL`.
    pub model: String,
    /// The tools that the agent may call.
    pub tools: ToolSet,
    /// The agents that this agent may call through the tool `agent`; `None` leaves the tool out.
    pub sub_agents: Option<SubAgents>,
    /// The policy of the agent's runs.
    pub policy: Policy,
    /// The transport to the model's provider.
    pub transport: Arc<dyn Transport>,
    /// Settings that have sensible defaults.
    pub options: Options,
}

/// Settings of an agent that have sensible defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API through which the model is asked. Default: Anthropic Messages.
    pub api: Api,
    /// The output tokens of a request. `None`: 16,000, or the model's maximum if that is less, or
    /// 8,192 if the maximum is not known.
    pub max_tokens: Option<u64>,
    /// True if visible thinking is requested from models that offer it.
    pub show_thinking: bool,
    /// The rules for sending failed requests again.
    pub retry: RetryPolicy,
    /// The capabilities of the model's API; `None`: those of the built-in table.
    pub capability: Option<Capability>,
    /// The price in force; `None`: the price of the built-in table.
    pub price: Option<models::Price>,
    /// The way in which the model calls tools. Default: through its API.
    pub tool_format: ToolFormat,
    /// The model that answers; `None`: the one that the transport says, or else the model's name.
    pub served: Option<ServedModel>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            api: Api::Anthropic,
            max_tokens: None,
            show_thinking: false,
            retry: RetryPolicy::default(),
            capability: None,
            price: None,
            tool_format: ToolFormat::Native,
            served: None,
        }
    }
}

impl Agent {
    /// Creates an agent without tools, under the default policy.
    pub fn new(
        name: impl Into<String>,
        model: impl Into<String>,
        transport: Arc<dyn Transport>,
    ) -> Self {
        Self {
            name: name.into(),
            system: String::new(),
            model: model.into(),
            tools: ToolSet::new(),
            sub_agents: None,
            policy: Policy::default(),
            transport,
            options: Options::default(),
        }
    }

    /// Runs one prompt in a new conversation.
    ///
    /// # Errors
    /// Returns [`SetupError`] before anything is sent. Any later failure of the run is in the
    /// report.
    pub async fn run(
        &self,
        prompt: &str,
        events: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Report, SetupError> {
        let mut conversation = Conversation::new();
        self.run_in_conversation(&mut conversation, prompt, events, &CancellationToken::new()).await
    }

    /// Runs one prompt in a conversation, to the end of the run, and appends the run's messages to
    /// it. `cancel` ends the run early and leaves the conversation valid.
    ///
    /// # Errors
    /// Returns [`SetupError`] before anything is sent.
    pub async fn run_in_conversation(
        &self,
        conversation: &mut Conversation,
        prompt: &str,
        events: &mut (dyn FnMut(&Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Report, SetupError> {
        self.run_in_journal(&RunJournal::without_journal(), conversation, prompt, events, cancel)
            .await
    }

    /// Runs one prompt like [`Self::run_in_conversation`] and records the run in a journal.
    ///
    /// If the journal already holds a run, that run is resumed as it began: `prompt` and the
    /// agent's current settings are ignored, and the conversation is replaced by the journal's.
    /// Tools, transport and sub-agents are those of this agent. The runs of its sub-agents are
    /// recorded in the same journal and resumed by the same call.
    ///
    /// # Errors
    /// Returns [`SetupError`] before anything is sent.
    pub async fn run_in_journal(
        &self,
        journal: &RunJournal,
        conversation: &mut Conversation,
        prompt: &str,
        events: &mut (dyn FnMut(&Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Report, SetupError> {
        let agent = match journal.start_record() {
            Some(start) => resume::restore_agent(self, start)?,
            None => self.clone(),
        };
        resume::check_recorded_agents(&agent, &journal.recorded_children())?;
        let setup = Setup::from_agent(&agent)?;
        agent.check_sub_agents()?;
        match journal.start_record() {
            Some(start) => resume::restore_conversation(conversation, start, &agent),
            None => agent.add_prompt(conversation, prompt)?,
        }
        let cost_before = conversation.session_cost();
        let budget = SpendingBudget::for_session(&setup.policy, cost_before, journal.clock());
        let sink = Mutex::new(events);
        let emit = Emitter::new(&sink, journal.clone(), agent.options.show_thinking)
            .with_policy(&setup.policy);
        let mut under_way =
            ActiveRun::new(&agent, setup, conversation, budget, emit, (journal, cancel));
        under_way.update_prompt_head();
        under_way.write_start().map_err(SetupError::Journal)?;
        journal.collect_runs();
        Ok(Box::pin(under_way.run()).await)
    }

    /// Returns the model that answers.
    fn served_model(&self) -> ServedModel {
        let said = || self.transport.served_model(self.options.api, &self.model);
        let served = self.options.served.clone().or_else(said);
        served.unwrap_or_else(|| ServedModel::from_name(&self.model))
    }

    /// Adds the prompt to the conversation.
    fn add_prompt(&self, conversation: &mut Conversation, prompt: &str) -> Result<(), SetupError> {
        let (api, format) = (self.options.api, self.options.tool_format);
        if let Some(other) = conversation.api().filter(|known| *known != api) {
            return Err(SetupError::OtherApi { conversation: other, agent: api });
        }
        if conversation.api().is_some() && conversation.tool_format() != format {
            return Err(SetupError::OtherFormat);
        }
        conversation.open_run(api, format, prompt);
        Ok(())
    }

    /// Checks that every agent that may be called has a price if a limit on money is set.
    fn check_sub_agents(&self) -> Result<(), SetupError> {
        let Some(sub_agents) = &self.sub_agents else { return Ok(()) };
        let limited = self.policy.cost_limit_usd.or(self.policy.session_cost_limit_usd);
        for member in sub_agents.members() {
            let mut agent = sub_agents.agent_for_caller(member, self);
            agent.policy.cost_limit_usd = agent.policy.cost_limit_usd.or(limited);
            Setup::from_agent(&agent)?;
        }
        Ok(())
    }
}

/// The settings that are decided once per run.
struct Setup {
    /// The model that answers.
    served: ServedModel,
    /// The model's row in the built-in table.
    model: Option<&'static Model>,
    price: Option<models::Price>,
    capability: Capability,
    policy: Policy,
    /// The reader of calls that are written as text.
    shape: Option<Arc<Shape>>,
}

impl Setup {
    fn from_agent(agent: &Agent) -> Result<Self, SetupError> {
        let served = agent.served_model();
        let (provider, name) = (served.provider.as_deref(), served.name.as_str());
        let model = models::find_model(provider, name);
        let priced = agent.options.price.or(served.price);
        let price = priced.or_else(|| model.map(|model| model.price));
        let capability =
            agent.options.capability.unwrap_or_else(|| models::find_capability(provider, name));
        let mut policy = agent.policy.clone();
        if policy.landing == Landing::Respond && policy.answer_tool.is_empty() {
            policy.answer_tool.push(RESPOND.to_owned());
        }
        let money = policy.cost_limit_usd.or(policy.session_cost_limit_usd);
        if money.is_some() && price.is_none() {
            return Err(SetupError::NoPrice { model: agent.model.clone() });
        }
        let shape = match agent.options.tool_format {
            ToolFormat::Native => None,
            ToolFormat::Tags => form::tags::tag_shape().map(Arc::new),
        };
        Ok(Self { served, model, price, capability, policy, shape })
    }
}

/// A run in progress.
struct ActiveRun<'a> {
    agent: &'a Agent,
    setup: Setup,
    conversation: &'a mut Conversation,
    meter: Meter,
    emit: Emitter<'a>,
    cancel: &'a CancellationToken,
    journal: &'a RunJournal,
    /// The cost of the session before this run.
    cost_before: NanoUsd,
    /// The number of the turn, from 1, and the number of the request within the turn.
    turn: u64,
    nth: u64,
    /// The number of sub-agents that this run has begun.
    children: u64,
    /// The number of turns that the run has reached, and of executed calls.
    reached: (u64, u64),
}

impl<'a> ActiveRun<'a> {
    fn new(
        agent: &'a Agent,
        setup: Setup,
        conversation: &'a mut Conversation,
        budget: SpendingBudget,
        emit: Emitter<'a>,
        (journal, cancel): (&'a RunJournal, &'a CancellationToken),
    ) -> Self {
        let cost_before = budget.session_spent();
        let meter = Meter::new(&setup, budget, journal.clock());
        Self {
            agent,
            setup,
            conversation,
            meter,
            emit,
            cancel,
            journal,
            cost_before,
            turn: 0,
            nth: 0,
            children: 0,
            reached: (0, 0),
        }
    }
}

impl ActiveRun<'_> {
    async fn run(&mut self) -> Report {
        self.emit.emit_event(EventKind::RunStart {
            agent: self.agent.name.clone(),
            model: self.agent.model.clone(),
            policy: Box::new(self.setup.policy.clone()),
        });
        loop {
            (self.turn, self.nth) = (self.turn + 1, 0);
            let (driven, used) = self.run_turn().await;
            self.wait_for_replay().await;
            let report = match self.journal.failure() {
                Some(error) => Some(self.journal_failure_report(&error)),
                None => self.finish_turn(driven, &used).await,
            };
            if let Some(report) = report {
                self.wait_for_replay().await;
                return self.emit_report(report);
            }
        }
    }

    /// Waits until the whole tree has been replayed, once this run has. Nothing new is written
    /// before that.
    pub(super) async fn wait_for_replay(&self) {
        if !self.journal.is_replaying() {
            self.journal.wait_until_caught_up().await;
        }
    }

    /// Takes a turn into the conversation. Answers its calls, or returns the report of a run that
    /// has ended.
    async fn finish_turn(&mut self, driven: FinishedExchange, used: &RunUsage) -> Option<Report> {
        let FinishedExchange { done, failure } = driven;
        let Done { ended, answer, local, calls, messages, records, used: after, .. } = done;
        self.reached = (after.turns.max(used.turns + 1), used.calls);
        if let Err(error) = self.take_turn(messages, records) {
            return Some(self.journal_failure_report(&error));
        }
        let Some(mut ended) = ended else {
            let ran = calls.iter().filter(|call| call.admission.is_run()).count() as u64;
            self.reached.1 += ran;
            return match self.answer_calls(&calls, used.result_chars).await {
                Err(error) => Some(self.journal_failure_report(&error)),
                Ok(AnsweredRound { cancelled: true }) => Some(self.cancelled_report(used, &calls)),
                Ok(AnsweredRound { cancelled: false }) => None,
            };
        };
        if !local && !calls.is_empty() {
            let answer = answer.as_deref().unwrap_or_default();
            if let Err(error) = self.close_answer(&calls, answer) {
                return Some(self.journal_failure_report(&error));
            }
        }
        // A gateway between this program and the provider may have answered in the model's place.
        let of_gateway = answer.as_deref().filter(|_| !local).and_then(find_local_answer);
        if let Some(words) = of_gateway {
            let reason = read_local_reason(words).unwrap_or(Reason::Provider);
            ended = RunEnding::without_limit(Outcome::Stopped, reason);
        }
        let local = local || of_gateway.is_some();
        let answered_by = if local { AnsweredBy::Local } else { AnsweredBy::Model };
        let is_answer = ended.outcome.is_done();
        ended.remaining = after.remaining_limits(&self.setup.policy, &self.meter.spent_facts());
        Some(Report {
            answered_by: is_answer.then_some(answered_by),
            answer: answer.filter(|_| is_answer),
            failure,
            ..self.report_without_answer(ended, after.turns, after.calls)
        })
    }

    /// Returns a report without an answer.
    fn report_without_answer(&self, ended: RunEnding, turns: u64, tool_calls: u64) -> Report {
        let resume = self.journal.resumable_id().filter(|_| !ended.outcome.is_done());
        Report {
            ended,
            answer: None,
            answered_by: None,
            turns,
            tool_calls,
            usage: self.meter.total_usage(),
            cost_usd: self.meter.total_cost().map(NanoUsd::to_dollars),
            resume,
            failure: None,
        }
    }

    /// Returns the report of a run that ends because its journal cannot be written.
    fn journal_failure_report(&self, error: &JournalError) -> Report {
        let ended = RunEnding::without_limit(Outcome::Failed, Reason::Journal);
        let report = self.report_without_answer(ended, self.reached.0, self.reached.1);
        let resume = report.resume.clone().filter(|_| error.allows_resume());
        Report { failure: Some(error.to_string()), resume, ..report }
    }

    /// Runs one turn: its request and every request that softland adds. Also returns what the run
    /// had used before the turn.
    async fn run_turn(&mut self) -> (FinishedExchange, RunUsage) {
        let body = self.build_request();
        if !self.journal.has_turn(self.turn) {
            self.journal.wait_until_caught_up().await;
            self.wait_for_budget(body.len()).await;
        }
        let facts = |elapsed| self.meter.turn_facts(body.len(), elapsed);
        let facts = match self.journal.record_turn(self.turn, self.shares_budget(), facts) {
            Ok(facts) => facts,
            Err(error) => return (FinishedExchange::internal_error(&error), RunUsage::default()),
        };
        let context = Context {
            api: self.agent.options.api.into(),
            role: Role::Engine,
            policy: self.setup.policy.clone().into(),
            records: self.conversation.records(),
            facts,
            capability: self.setup.capability,
            output_maximum: self.setup.model.and_then(|model| model.max_output).map(u64::from),
            window: self.setup.model.and_then(|model| model.context_window).map(u64::from),
            shape: self.setup.shape.clone(),
            chain: None,
            asked_at: 0,
        };
        let mut out = Output::default();
        let exchange = match Exchange::from_request(body, context, &mut out) {
            Ok(exchange) => exchange,
            Err(error) => return (FinishedExchange::internal_error(&error), RunUsage::default()),
        };
        let used = exchange.run().used().clone();
        self.emit_output(out);
        if !exchange.is_done() {
            self.emit.begin_turn(exchange.run(), &self.setup.policy);
        }
        (self.drive_exchange(exchange).await, used)
    }

    /// Returns true if the run shares its budget with other runs.
    fn shares_budget(&self) -> bool {
        self.agent.sub_agents.is_some() || self.journal.is_child()
    }

    fn cancelled_report(&self, used: &RunUsage, calls: &[PendingCall]) -> Report {
        let ran = calls.iter().filter(|call| call.admission.is_run()).count() as u64;
        let (turns, tool_calls) = (used.turns + 1, used.calls + ran);
        let after = RunUsage { turns, calls: tool_calls, ..used.clone() };
        let remaining = after.remaining_limits(&self.setup.policy, &self.meter.spent_facts());
        let ended =
            RunEnding { remaining, ..RunEnding::without_limit(Outcome::Cancelled, Reason::User) };
        self.report_without_answer(ended, turns, tool_calls)
    }

    /// Writes the end of the run, then emits it.
    fn emit_report(&mut self, report: Report) -> Report {
        let written = self.journal.record_end(self.turn, self.emit.seq(), &report);
        let report = match written {
            Err(error) if report.ended.reason != Reason::Journal => {
                self.reached = (report.turns, report.tool_calls);
                self.journal_failure_report(&error)
            }
            Ok(Some(recorded)) => recorded,
            _ => report,
        };
        let kind = if report.ended.outcome.is_done() {
            EventKind::Done { report: Box::new(report.clone()) }
        } else {
            let message = report.failure.clone().unwrap_or_else(|| "cancelled".to_owned());
            EventKind::Error { message, report: Box::new(report.clone()) }
        };
        self.emit.emit_event(kind);
        report
    }
}
