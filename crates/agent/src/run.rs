//! The loop: ask the model, run its tools, answer every call, until the run has landed.
//!
//! Limits, loops and landing are decided in `softland_session`; this module carries requests and
//! results, keeps time and money, and tells what happens. It prints nothing.

mod body;
mod child;
mod drive;
mod emit;
mod facts;
mod form;
mod lease;
mod purse;
mod tools;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use softland_session::core::models::capability::Capability;
use softland_session::core::models::{self, Model};
use softland_session::core::policy::{Landing, Policy};
use softland_session::core::{Digest, Ended, NanoUsd, Outcome, Pinned, Reason, Role, Used};
use softland_session::wire::tags::Shape;
use softland_session::{Context, Done, Exchange, Out, Pending};
use tokio_util::sync::CancellationToken;

use crate::crew::Crew;
use crate::event::{AnsweredBy, Event, EventKind, Report};
use crate::http::Transport;
use crate::http::provider::Api;
use crate::http::retry::RetryPolicy;
use crate::tool::{ToolFormat, ToolSet};

pub use body::{Conversation, Inbox};
use drive::Driven;
use emit::Emitter;
use facts::Meter;
use purse::Purse;

/// The name of the answer tool that `landing = "respond"` declares.
const RESPOND: &str = "respond";

/// An agent: a model, its instructions, its tools and its policy.
#[derive(Clone)]
pub struct Agent {
    /// What it is called, in events.
    pub name: String,
    /// The system prompt; empty for none.
    pub system: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// The tools it may call.
    pub tools: ToolSet,
    /// The agents that it may call, by the tool `agent`; `None`: it has no such tool.
    pub crew: Option<Crew>,
    /// What holds for its runs.
    pub policy: Policy,
    /// The way to its model.
    pub transport: Arc<dyn Transport>,
    /// Everything that has a sensible default.
    pub options: Options,
}

/// Settings of an agent that have sensible defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API that the model is asked through. Default: Anthropic Messages.
    pub api: Api,
    /// Output tokens of a request; `None`: 16,000 or the model's maximum, if that is less, or 8,192
    /// where that is not known.
    pub max_tokens: Option<u64>,
    /// Whether to ask for visible thinking, where the model has it.
    pub show_thinking: bool,
    /// When failed requests are sent again.
    pub retry: RetryPolicy,
    /// What the model's API accepts; `None`: by the built-in table.
    pub capability: Option<Capability>,
    /// The price in force; `None`: by the built-in table.
    pub price: Option<models::Price>,
    /// How the model calls tools. Default: through its API.
    pub tool_format: ToolFormat,
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
        }
    }
}

/// Why a run cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A money limit, and no price to count with.
    NoPrice {
        /// The model.
        model: String,
    },
    /// The conversation's messages have the form of another API.
    OtherApi {
        /// The conversation's.
        conversation: Api,
        /// The agent's.
        agent: Api,
    },
    /// Calls stand in the conversation's messages in the other format.
    OtherFormat,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPrice { model } => write!(
                f,
                "a money limit is set, but the price of `{model}` is not known: leave \
                 cost_limit_usd and session_cost_limit_usd out, or give the price in the config \
                 ([[price]])"
            ),
            Self::OtherApi { conversation, agent } => write!(
                f,
                "the conversation was begun through the API `{}` and cannot go on through `{}`: \
                 begin a new one",
                conversation.name(),
                agent.name()
            ),
            Self::OtherFormat => f.write_str(
                "the conversation was begun with another tool_format and cannot go on with this \
                 one: begin a new one",
            ),
        }
    }
}

impl std::error::Error for Unfit {}

impl Agent {
    /// An agent without tools, under the default policy.
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
            crew: None,
            policy: Policy::default(),
            transport,
            options: Options::default(),
        }
    }

    /// Runs one prompt in a new conversation.
    ///
    /// # Errors
    /// [`Unfit`] before anything is sent. However the run itself ends is in the report.
    pub async fn run(
        &self,
        prompt: &str,
        events: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Report, Unfit> {
        let mut conversation = Conversation::new();
        self.ask(&mut conversation, prompt, events, &CancellationToken::new()).await
    }

    /// Runs one prompt in a conversation, which it extends, to the run's end. `cancel` ends the
    /// run early and leaves the conversation valid.
    ///
    /// # Errors
    /// [`Unfit`] before anything is sent.
    pub async fn ask(
        &self,
        conversation: &mut Conversation,
        prompt: &str,
        events: &mut (dyn FnMut(&Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Report, Unfit> {
        let setup = Setup::of(self)?;
        self.crew_is_fit()?;
        let api = self.options.api;
        if let Some(other) = conversation.api().filter(|known| *known != api) {
            return Err(Unfit::OtherApi { conversation: other, agent: api });
        }
        let format = self.options.tool_format;
        if conversation.api().is_some() && conversation.format() != format {
            return Err(Unfit::OtherFormat);
        }
        conversation.ask(api, format, prompt);
        let purse = Purse::of_session(&setup.policy, conversation.session_cost());
        let sink = Mutex::new(events);
        let emit = Emitter::new(&sink, emit::new_run_id());
        Ok(UnderWay::new(self, setup, conversation, purse, emit, cancel).run().await)
    }

    /// A limit on money holds for all whom the agent calls, so each needs a price.
    fn crew_is_fit(&self) -> Result<(), Unfit> {
        let Some(crew) = &self.crew else { return Ok(()) };
        let limited = self.policy.cost_limit_usd.or(self.policy.session_cost_limit_usd);
        for member in crew.members() {
            let mut agent = crew.called(member, self);
            agent.policy.cost_limit_usd = agent.policy.cost_limit_usd.or(limited);
            Setup::of(&agent)?;
        }
        Ok(())
    }
}

/// What is settled once per run.
struct Setup {
    model: Option<&'static Model>,
    price: Option<models::Price>,
    capability: Capability,
    policy: Policy,
    /// How calls are read that are written as text.
    shape: Option<Arc<Shape>>,
}

impl Setup {
    fn of(agent: &Agent) -> Result<Self, Unfit> {
        let (provider, name) = agent.named_model();
        let model = models::find(provider, name);
        let price = agent.options.price.or_else(|| model.map(|model| model.price));
        let capability =
            agent.options.capability.unwrap_or_else(|| models::capability(provider, name));
        let mut policy = agent.policy.clone();
        if policy.landing == Landing::Respond && policy.answer_tool.is_none() {
            policy.answer_tool = Some(RESPOND.to_owned());
        }
        let money = policy.cost_limit_usd.or(policy.session_cost_limit_usd);
        if money.is_some() && price.is_none() {
            return Err(Unfit::NoPrice { model: agent.model.clone() });
        }
        let shape = match agent.options.tool_format {
            ToolFormat::Native => None,
            ToolFormat::Tags => form::tags::shape().map(Arc::new),
        };
        Ok(Self { model, price, capability, policy, shape })
    }
}

/// A run under way.
struct UnderWay<'a> {
    agent: &'a Agent,
    setup: Setup,
    conversation: &'a mut Conversation,
    meter: Meter,
    emit: Emitter<'a>,
    cancel: &'a CancellationToken,
    /// Children that it has begun.
    children: u64,
}

impl<'a> UnderWay<'a> {
    fn new(
        agent: &'a Agent,
        setup: Setup,
        conversation: &'a mut Conversation,
        purse: Purse,
        emit: Emitter<'a>,
        cancel: &'a CancellationToken,
    ) -> Self {
        let meter = Meter::new(&setup, purse);
        Self { agent, setup, conversation, meter, emit, cancel, children: 0 }
    }
}

impl UnderWay<'_> {
    async fn run(&mut self) -> Report {
        self.emit.send(EventKind::RunStart {
            agent: self.agent.name.clone(),
            model: self.agent.model.clone(),
            policy: Box::new(self.setup.policy.clone()),
        });
        self.settle_head();
        loop {
            let (driven, used) = self.turn().await;
            let Driven { done, failure } = driven;
            let Done { ended, answer, local, calls, messages, records, used: after, .. } = done;
            self.conversation.extend(messages, records);
            self.conversation.charged(self.meter.purse.session_spent());
            let Some(mut ended) = ended else {
                self.answer_calls(&calls, used.result_chars).await;
                self.conversation.charged(self.meter.purse.session_spent());
                if self.cancel.is_cancelled() {
                    return self.cancelled(&used, &calls);
                }
                continue;
            };
            if !local && !calls.is_empty() {
                self.conversation.close_answer(&calls, answer.as_deref().unwrap_or_default());
            }
            let answered_by = if local { AnsweredBy::Local } else { AnsweredBy::Model };
            let is_answer = ended.outcome.is_done();
            ended.remaining = after.remaining(&self.setup.policy, &self.meter.spent());
            return self.report(Report {
                ended,
                answered_by: is_answer.then_some(answered_by),
                answer: answer.filter(|_| is_answer),
                turns: after.turns,
                tool_calls: after.calls,
                usage: self.meter.total(),
                cost_usd: self.meter.cost().map(NanoUsd::dollars),
                failure,
            });
        }
    }

    /// One turn: the request and whatever softland sends for it. Returns what the run had used
    /// before it, too.
    async fn turn(&mut self) -> (Driven, Used) {
        let body = self.request();
        self.wait_for_room(body.len()).await;
        let facts = self.meter.facts(body.len());
        let context = Context {
            api: self.agent.options.api.into(),
            role: Role::Engine,
            policy: self.setup.policy.clone(),
            records: self.conversation.records(),
            facts,
            capability: self.setup.capability,
            output_maximum: self.setup.model.and_then(|model| model.max_output).map(u64::from),
            window: self.setup.model.and_then(|model| model.context_window).map(u64::from),
            shape: self.setup.shape.clone(),
            chain: None,
        };
        let mut out = Out::default();
        let exchange = match Exchange::begin(body, context, &mut out) {
            Ok(exchange) => exchange,
            Err(error) => return (Driven::ours(&error), Used::default()),
        };
        let used = exchange.run().used().clone();
        self.tell(out);
        if !exchange.is_done() {
            self.emit.turn(used.turns + 1, self.setup.policy.turns_limit);
        }
        (self.drive(exchange).await, used)
    }

    fn cancelled(&mut self, used: &Used, calls: &[Pending]) -> Report {
        let ran = calls.iter().filter(|call| call.admission.runs()).count() as u64;
        let (turns, tool_calls) = (used.turns + 1, used.calls + ran);
        let after = Used { turns, calls: tool_calls, ..used.clone() };
        let remaining = after.remaining(&self.setup.policy, &self.meter.spent());
        let ended = Ended { remaining, ..Ended::plain(Outcome::Cancelled, Reason::User) };
        self.report(Report {
            ended,
            answer: None,
            answered_by: None,
            turns,
            tool_calls,
            usage: self.meter.total(),
            cost_usd: self.meter.cost().map(NanoUsd::dollars),
            failure: None,
        })
    }

    fn report(&mut self, report: Report) -> Report {
        let kind = if report.ended.outcome.is_done() {
            EventKind::Done { report: Box::new(report.clone()) }
        } else {
            let message = report.failure.clone().unwrap_or_else(|| "cancelled".to_owned());
            EventKind::Error { message, report: Box::new(report.clone()) }
        };
        self.emit.send(kind);
        report
    }
}

impl Agent {
    /// The provider, if one is named, and the model's own name. A simulated model is priced as
    /// the model it poses as.
    fn named_model(&self) -> (Option<&str>, &str) {
        let (provider, name) = match self.model.split_once('/') {
            Some((provider, name)) => (Some(provider), name),
            None => (None, self.model.as_str()),
        };
        if provider == Some("sim") {
            return posed(self.options.api, name);
        }
        (provider, name)
    }
}

/// The provider and the model of a simulated one, `docs/scenarios.md`: without an id it poses as
/// one model of each vendor's.
fn posed(api: Api, name: &str) -> (Option<&str>, &str) {
    let posed = name.split_once('@').map(|(_, model)| model);
    match (api, posed) {
        (Api::Anthropic, posed) => (Some("anthropic"), posed.unwrap_or(SIM_MODEL)),
        (Api::OpenAiChat | Api::OpenAiResponses, None) => (Some("openai"), SIM_OPENAI_MODEL),
        (_, Some(model)) if model.contains('/') => (Some("openrouter"), model),
        // The name says whose it is.
        (_, Some(model)) => (None, model),
    }
}

/// The model that `sim/NAME` poses as on Anthropic Messages.
const SIM_MODEL: &str = "claude-sonnet-5-5";
/// The model that it poses as on OpenAI's APIs.
const SIM_OPENAI_MODEL: &str = "gpt-5.6-sol";

type Records = BTreeMap<Digest, Pinned>;
