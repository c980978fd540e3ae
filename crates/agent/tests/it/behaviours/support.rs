//! One scripted run and all its observable effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use softland_agent::core::policy::Policy;
use softland_agent::http::Transport;
use softland_agent::{Agent, Conversation, Event, EventKind, Report, ToolOutput};
use softland_sim::{Config, Part, Scenario, Turn};
use tokio_util::sync::CancellationToken;

use crate::common::{Counting, SimTransport, agent};

/// A model that takes neither forcing nor mid-conversation system messages.
pub(crate) const MODEL: &str = "anthropic/claude-sonnet-5-5";
/// One that may be forced.
pub(crate) const FORCEABLE: &str = "anthropic/claude-opus-4-6";
/// The tools that every agent here has.
pub(crate) const TOOLS: [&str; 2] = ["grep", "read_file"];

/// The behaviour of a tool in these tests, from the call's number and input.
pub(crate) type Answer = fn(u64, &Value) -> ToolOutput;

/// A run and its observable effects.
pub(crate) struct Ran {
    pub(crate) report: Report,
    pub(crate) events: Vec<Event>,
    /// The requests on the wire, parsed and as sent.
    pub(crate) requests: Vec<Value>,
    pub(crate) raw: Vec<String>,
    /// The number of tool executions.
    pub(crate) executed: u64,
    pub(crate) transport: Arc<SimTransport>,
}

/// The settings of a run, if they differ from the usual ones.
pub(crate) struct Case {
    pub(crate) policy: Policy,
    pub(crate) model: &'static str,
    pub(crate) thinking: bool,
    pub(crate) answer: Answer,
    pub(crate) config: Config,
}

impl Case {
    pub(crate) fn new(policy: Policy, turns: Vec<Turn>) -> Self {
        let config = Config::new(Scenario::Scripted(turns));
        let answer: Answer = |n, _| ToolOutput::ok(format!("finding {n}"));
        Self { policy, model: MODEL, thinking: false, answer, config }
    }

    /// The agent of the case, its transport, and the number of calls that its tools ran.
    pub(crate) fn agent(self) -> (Agent, Arc<SimTransport>, Arc<AtomicU64>) {
        let transport = SimTransport::new(self.config);
        let mut agent = agent(&transport, self.model);
        agent.system = "You search notes.".to_owned();
        agent.policy = self.policy;
        agent.options.show_thinking = self.thinking;
        let ran = add_tools(&mut agent, self.answer);
        (agent, transport, ran)
    }

    pub(crate) async fn run(self) -> Ran {
        let (agent, transport, ran) = self.agent();
        let mut conversation = Conversation::new();
        let (report, events) = ask(&agent, &mut conversation, "What is it?").await;
        Ran::new(report, events, transport, &ran)
    }
}

impl Ran {
    pub(crate) fn new(
        report: Report,
        events: Vec<Event>,
        transport: Arc<SimTransport>,
        ran: &AtomicU64,
    ) -> Self {
        let raw = transport.bodies.lock().unwrap().clone();
        Self {
            report,
            events,
            requests: transport.requests(),
            raw: raw.into_iter().map(|body| String::from_utf8(body).unwrap()).collect(),
            executed: ran.load(Ordering::Relaxed),
            transport,
        }
    }

    /// The texts of the tool results in a request's last message.
    pub(crate) fn results(&self, request: usize) -> Vec<String> {
        results(&self.requests[request])
    }

    /// The last line of each of those.
    pub(crate) fn lines(&self, request: usize) -> Vec<String> {
        self.results(request).iter().map(|text| last_line(text)).collect()
    }

    pub(crate) fn answer(&self) -> &str {
        self.report.answer.as_deref().unwrap_or_default()
    }

    /// (outcome, reason, rung) in the words of `docs/reference/events.md`.
    pub(crate) fn end(&self) -> (&'static str, String, Option<&'static str>) {
        let ended = &self.report.ended;
        (ended.outcome.word(), ended.reason.to_string(), ended.rung.map(|rung| rung.word()))
    }

    /// The simulator found nothing to refuse.
    pub(crate) fn nothing_refused(&self) {
        let stats = self.transport.sim.stats();
        assert_eq!(stats.refused, 0, "{:?}", stats.refusals);
    }
}

/// Runs turns under a policy, on the usual model.
pub(crate) async fn play(policy: Policy, turns: Vec<Turn>) -> Ran {
    Case::new(policy, turns).run().await
}

pub(crate) fn add_tools(agent: &mut Agent, answer: Answer) -> Arc<AtomicU64> {
    let ran: Arc<AtomicU64> = Arc::default();
    for name in TOOLS {
        let ran = Arc::clone(&ran);
        let answer =
            Box::new(move |_, input: &Value| answer(ran.fetch_add(1, Ordering::Relaxed), input));
        agent.tools.add_tool(Arc::new(Counting { name, calls: Arc::default(), answer })).unwrap();
    }
    ran
}

/// An agent on any transport, with the usual tools.
pub(crate) fn agent_on(transport: Arc<dyn Transport>) -> (Agent, Arc<AtomicU64>) {
    let mut agent = Agent::new("test", MODEL, transport);
    agent.options.retry.base = std::time::Duration::ZERO;
    agent.options.retry.max_retries = 2;
    let ran = add_tools(&mut agent, |n, _| ToolOutput::ok(format!("finding {n}")));
    (agent, ran)
}

pub(crate) async fn ask(
    agent: &Agent,
    conversation: &mut Conversation,
    prompt: &str,
) -> (Report, Vec<Event>) {
    let mut events = Vec::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let cancel = CancellationToken::new();
    let report = agent.run_in_conversation(conversation, prompt, &mut sink, &cancel).await.unwrap();
    (report, events)
}

// --- turns

/// A call of `grep` with an argument of its own.
pub(crate) fn grep(n: u64) -> Turn {
    Turn::from_parts(vec![call(n)])
}

/// Several in one turn.
pub(crate) fn batch(calls: std::ops::Range<u64>) -> Turn {
    Turn::from_parts(calls.map(call).collect())
}

pub(crate) fn call(n: u64) -> Part {
    Part::tool_call("grep", format!(r#"{{"pattern":"p{n}"}}"#))
}

/// That many calls, one a turn, and then an answer.
pub(crate) fn calls_then(calls: u64, answer: &str) -> Vec<Turn> {
    (0..calls).map(grep).chain([Turn::from_text(answer)]).collect()
}

// --- what is on the wire

/// The texts of the tool results in a request's last message.
pub(crate) fn results(request: &Value) -> Vec<String> {
    let last = request["messages"].as_array().and_then(|all| all.last()).unwrap();
    results_of(last)
}

pub(crate) fn results_of(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].as_str().unwrap().to_owned()).collect()
}

/// The ids in a message's blocks of one type.
pub(crate) fn ids(message: &Value, kind: &str, member: &str) -> Vec<String> {
    let blocks = message["content"].as_array().into_iter().flatten();
    let found = blocks.filter(|block| block["type"] == kind);
    found.map(|block| block[member].as_str().unwrap().to_owned()).collect()
}

/// Every call of the messages is answered once, in the very next message, in order.
pub(crate) fn all_answered(messages: &[Value]) {
    for (n, message) in messages.iter().enumerate() {
        let none = Value::Null;
        let calls = ids(message, "tool_use", "id");
        let answers = ids(messages.get(n + 1).unwrap_or(&none), "tool_result", "tool_use_id");
        if message["role"] == "assistant" {
            assert_eq!(calls, answers, "message {n} of {messages:#?}");
        }
    }
}

pub(crate) fn messages_of(conversation: &Conversation) -> Vec<Value> {
    conversation.messages().map(|m| serde_json::from_slice(m).unwrap()).collect()
}

pub(crate) fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().to_owned()
}

/// Returns the text between two marks of a request.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from} in {text}"));
    let end = text[start..].find(to).unwrap_or_else(|| panic!("no {to} in {text}"));
    &text[start..start + end]
}

// --- events

/// (id, name) of every call that was executed.
pub(crate) fn executed(events: &[Event]) -> Vec<(String, String)> {
    let of = |event: &Event| match &event.kind {
        EventKind::ToolExecute { id, name, .. } => Some((id.clone(), name.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The text that was streamed.
pub(crate) fn streamed(events: &[Event]) -> String {
    let of = |event: &Event| match &event.kind {
        EventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Exactly one terminal event, the last; numbers without gaps.
pub(crate) fn one_end(events: &[Event]) {
    let ends = events.iter().filter(|event| event.kind.is_terminal()).count();
    assert_eq!(ends, 1, "{} terminal events", ends);
    assert!(events.last().is_some_and(|event| event.kind.is_terminal()));
    assert!(events.iter().enumerate().all(|(n, event)| event.seq == n as u64), "gaps");
}
