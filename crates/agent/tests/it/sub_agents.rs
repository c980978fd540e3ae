//! Agents that call agents: each call is a run of its own that always hands something back, its
//! cost counts for its caller too, and ending a parent ends its children.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail")]

mod caps;
mod ends;
mod money;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{SimTransport, agent, counting, run};
use async_trait::async_trait;
use softland_agent::core::Outcome;
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_agent::{Agent, Event, EventKind, Report, SubAgent, SubAgents};

/// A transport whose requests take different times, so that runs interleave.
pub(crate) struct Unhurried {
    inner: Arc<SimTransport>,
    dice: AtomicU64,
}

#[async_trait]
impl Transport for Unhurried {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let n = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis((n ^ (n >> 29)) % 97)).await;
        self.inner.send(request).await
    }
}

/// An agent that plays a scenario, with a tool that counts.
pub(crate) fn playing(name: &str, scenario: &str) -> (Agent, Arc<SimTransport>) {
    let transport = SimTransport::named(scenario);
    let mut agent = agent(&transport, "anthropic/claude-sonnet-5-5");
    let dice = AtomicU64::new(name.len() as u64);
    agent.transport = Arc::new(Unhurried { inner: Arc::clone(&transport), dice });
    agent.name = name.to_owned();
    agent.tools.add_tool(Arc::new(counting("grep").0)).unwrap();
    (agent, transport)
}

/// A member that plays a scenario.
pub(crate) fn member(name: &str, scenario: &str) -> SubAgent {
    of(playing(name, scenario).0)
}

/// An agent as a member that calls nobody.
pub(crate) fn of(agent: Agent) -> SubAgent {
    let description = format!("does as {} does", agent.name);
    SubAgent { agent, description, inherits: false, delegates: false, depth_limit: None }
}

/// An agent that calls these.
pub(crate) fn calling(scenario: &str, members: Vec<SubAgent>, depth: u64) -> Agent {
    let (mut parent, _) = playing("parent", scenario);
    parent.sub_agents = Some(SubAgents::new(members, depth).unwrap());
    parent
}

/// Checks every tree of runs: each run's events are numbered without gaps and end in exactly one
/// terminal event, every child is announced in its caller's events before it begins, and every
/// executed call has its one result. Returns the end of each run, by id.
#[track_caller]
pub(crate) fn checked(events: &[Event]) -> BTreeMap<String, Report> {
    let (mut seq, mut ended, mut children) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut open: BTreeMap<(String, String), u64> = BTreeMap::new();
    for event in events {
        let run = event.run.clone();
        assert!(!ended.contains_key(&run), "{run} goes on after its end");
        let next = seq.entry(run.clone()).or_insert(0);
        assert_eq!(event.seq, *next, "gap in {run}");
        match &event.kind {
            EventKind::RunStart { agent, .. } => {
                assert_eq!(*next, 0);
                if let Some((_, known)) = children.get(&run) {
                    assert_eq!(agent, known);
                }
            }
            EventKind::Child { child_run, agent, id } => {
                assert!(open.contains_key(&(run.clone(), id.clone())), "no call of {child_run}");
                children.insert(child_run.clone(), (run.clone(), agent.clone()));
            }
            EventKind::ToolExecute { id, .. } => {
                *open.entry((run.clone(), id.clone())).or_default() += 1;
            }
            EventKind::ToolResult { id, .. } => {
                assert_eq!(open.remove(&(run.clone(), id.clone())), Some(1), "result of {id}");
            }
            EventKind::Done { report } | EventKind::Error { report, .. } => {
                ended.insert(run.clone(), Report::clone(report));
            }
            _ => {}
        }
        *next += 1;
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
    for run in seq.keys() {
        assert!(ended.contains_key(run), "{run} has no end");
        let told = run.matches('.').count() == 0 || children.contains_key(run);
        assert!(told, "nobody was told of {run}");
    }
    assert!(children.keys().all(|child| ended.contains_key(child)));
    ended
}

/// Returns the results of calls of `agent`, in order: whether the call succeeded, and its text.
pub(crate) fn handed_back(events: &[Event]) -> Vec<(bool, String)> {
    let of = |event: &Event| match &event.kind {
        EventKind::ToolResult { name, ok, content, .. } if name == "agent" => {
            Some((*ok, content.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Returns the cost of all responses, in nano-dollars.
pub(crate) fn spent(events: &[Event]) -> u64 {
    let of = |event: &Event| match &event.kind {
        EventKind::Usage { cost_usd, .. } => cost_usd.map(|usd| (usd * 1e9).round() as u64),
        _ => None,
    };
    events.iter().filter_map(of).sum()
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_run_side_by_side_and_hand_back_in_order() {
    let mut landing = member("sweeper", "sweeper");
    landing.agent.policy.tool_calls_limit = Some(3);
    let members = vec![member("parallel", "parallel"), landing, member("tail", "tail")];
    let parent = calling("delegate", members, 3);
    let (report, events) = run(&parent, "Where is it?").await;
    assert_eq!(report.ended.outcome, Outcome::Answered);
    let ended = checked(&events);
    assert_eq!(ended.len(), 4);
    let back = handed_back(&events);
    assert!(back.iter().all(|(ok, _)| *ok), "{back:?}");
    assert!(back[0].1.starts_with("I made 18 calls in 3 batches"), "{back:?}");
    assert!(back[1].1.ends_with("\n\n[landed: tool_calls 3 of 3]"), "{back:?}");
    // They take turns: after the first event of the last child others go on.
    let runs: Vec<&str> = events.iter().map(|event| event.run.as_str()).collect();
    let changes = runs.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 6, "one after another: {changes}");
    // The parent is charged for what they used.
    assert_eq!(report.cost_usd.map(|usd| (usd * 1e9).round() as u64), Some(spent(&events)));
    let own: u64 = ended.values().filter(|r| r.turns > 0).map(|r| r.usage.output).sum();
    assert_eq!(own, 2 * report.usage.output - outputs_of(&events, runs[0]));
}

/// Output tokens of one run's own responses.
fn outputs_of(events: &[Event], run: &str) -> u64 {
    let of = |event: &Event| match &event.kind {
        EventKind::Usage { output, .. } if event.run == run => Some(*output),
        _ => None,
    };
    events.iter().filter_map(of).sum()
}

#[tokio::test(start_paused = true)]
async fn nesting_ends_at_the_depth_limit() {
    for depth in 0..=4 {
        let (mut nest, transport) = playing("nest", "delegate");
        nest.policy.tool_calls_limit = Some(5);
        let nest = SubAgent { delegates: true, ..of(nest) };
        let parent = calling("delegate", vec![nest], depth);
        let (report, events) = run(&parent, "How deep?").await;
        assert_eq!(report.ended.outcome, Outcome::Answered);
        let ended = checked(&events);
        let levels = ended.keys().map(|run| run.matches('.').count() as u64).max();
        assert_eq!((levels, ended.len() as u64), (Some(depth), depth + 1));
        // An agent at the limit is not offered the tool.
        let offered = |body: &serde_json::Value| body["tools"].to_string().contains("\"agent\"");
        let without = transport.requests().iter().filter(|body| !offered(body)).count();
        assert_eq!(without > 0, depth > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_may_allow_fewer_levels_than_its_caller() {
    let leaf = member("leaf", "tail");
    let nest = SubAgent { delegates: true, depth_limit: Some(0), ..member("nest", "delegate") };
    let (_, events) = run(&calling("delegate", vec![leaf, nest], 3), "Who?").await;
    assert_eq!(checked(&events).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_member_without_a_model_runs_on_its_callers() {
    let own = member("own", "tail");
    let inheriting = SubAgent { inherits: true, ..member("inheriting", "mute") };
    let mut parent = calling("delegate", vec![own, inheriting], 1);
    parent.model = "anthropic/claude-haiku-4-5".to_owned();
    let (_, events) = run(&parent, "Which?").await;
    checked(&events);
    let models: BTreeMap<&str, &str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::RunStart { agent, model, .. } => Some((agent.as_str(), model.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(models["inheriting"], "anthropic/claude-haiku-4-5");
    assert_eq!(models["own"], "anthropic/claude-sonnet-5-5");
    assert!(handed_back(&events)[1].1.contains("I asked 0 times"), "the caller's scenario");
}

#[tokio::test(start_paused = true)]
async fn calls_that_name_nobody_or_nothing_are_told_so() {
    use softland_sim::{Part, Turn};
    let calls = [
        r#"{"name": "nobody", "prompt": "Go."}"#,
        r#"{"name": "tail", "prompt": "  "}"#,
        r#"{"name": "tail"}"#,
    ];
    let turn = Turn::from_parts(calls.map(|input| Part::tool_call("agent", input)).to_vec());
    let transport = SimTransport::scripted(vec![turn]);
    let mut parent = agent(&transport, "anthropic/claude-sonnet-5-5");
    parent.sub_agents = Some(SubAgents::new(vec![member("tail", "tail")], 3).unwrap());
    let (report, events) = run(&parent, "Try.").await;
    assert_eq!((report.ended.outcome, report.tool_calls), (Outcome::Answered, 3));
    assert_eq!(checked(&events).len(), 1);
    let back = handed_back(&events);
    assert!(back.iter().all(|(ok, _)| !ok), "{back:?}");
    assert!(back[0].1.contains("there is no agent `nobody`; the agents are: tail"), "{back:?}");
    assert!(back[1].1.contains("the prompt is empty"), "{back:?}");
    assert!(back[2].1.contains("prompt"), "{back:?}");
}
