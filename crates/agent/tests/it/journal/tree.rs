//! A tree of runs that the tests kill and resume: a lead, a deputy and a scout that both call, side
//! by side and one below the other, under limits on money.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::core::{Millis, NanoUsd};
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_agent::journal::new_run_id;
use softland_agent::{Agent, SubAgent, SubAgents};
use softland_sim::{Part, Turn};

use crate::journal::errand::{self, Came, answered, journal, tools};

/// The calls of an agent, round by round: `n` may not be run again, `p` may; `scout:x` and
/// `deputy:x` are calls of agents.
const LEAD: &[&[&str]] = &[&["n"], &["scout:a", "deputy:b", "n", "p"], &["scout:c", "p"], &["n"]];
const DEPUTY: &[&[&str]] = &[&["p"], &["scout:d", "scout:e"], &["n"]];
const SCOUT: &[&[&str]] = &[&["n", "p"], &["n"]];

/// Calls of tools and of agents in the whole tree.
pub(crate) const CALLS: usize = 24;

/// A model that plays all agents. It reads its role and its position from the request.
pub(crate) struct Model {
    pub(crate) requests: AtomicU64,
}

impl Model {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { requests: AtomicU64::new(0) })
    }
}

/// The keys of one agent's calls of tools, such as `na1`.
fn keys(key: &str, rounds: &[&[&str]]) -> Vec<Vec<String>> {
    let mut number = 0;
    let mut name = |call: &&str| {
        number += 1;
        if call.contains(':') { (*call).to_owned() } else { format!("{call}{key}{number}") }
    };
    rounds.iter().map(|round| round.iter().map(&mut name).collect()).collect()
}

/// The keys of all calls of tools.
pub(crate) fn all_keys() -> Vec<String> {
    let of = |key: &str, rounds| keys(key, rounds).concat();
    let mut all = of("l", LEAD);
    all.extend(of("b", DEPUTY));
    for key in ["a", "c", "d", "e"] {
        all.extend(of(key, SCOUT));
    }
    all.retain(|key| !key.contains(':'));
    all
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap().to_owned(),
    }
}

fn turn(body: &Value) -> Turn {
    let messages = body["messages"].as_array().unwrap();
    let system = body["system"].to_string();
    let prompt = text(&messages[0]["content"]);
    let rounds = match () {
        () if system.contains("the lead") => keys("l", LEAD),
        () if system.contains("the deputy") => keys(&prompt, DEPUTY),
        () => keys(&prompt, SCOUT),
    };
    let results: Vec<&Value> = messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .collect();
    let done =
        messages.iter().filter(|message| message["content"][0]["type"] == "tool_result").count();
    let Some(round) = rounds.get(done) else {
        let said: Vec<String> = results.iter().map(|result| text(&result["content"])).collect();
        return Turn::from_text(format!("{prompt} came to: {}", said.join("; ")));
    };
    let call = |key: &String| match key.split_once(':') {
        Some((name, prompt)) => {
            Part::tool_call("agent", json!({"name": name, "prompt": prompt}).to_string())
        }
        None => {
            let tool = if key.starts_with('n') { "note" } else { "peek" };
            Part::tool_call(tool, json!({"key": key}).to_string())
        }
    };
    let mut parts = vec![Part::text(format!("Round {done}."))];
    parts.extend(round.iter().map(call));
    Turn::from_parts(parts)
}

#[async_trait]
impl Transport for Model {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        // Runs take turns.
        tokio::task::yield_now().await;
        Ok(answered(&request, &body, turn(&body)))
    }
}

fn agent(name: &str, folder: &Path, model: &Arc<Model>) -> Agent {
    let model = Arc::clone(model) as Arc<dyn Transport>;
    let mut agent = Agent::new(name, "anthropic/claude-sonnet-5-5", model);
    agent.system = format!("You are the {name}.");
    agent.tools = tools(folder);
    agent.policy.tool_calls_limit = Some(30);
    agent.policy.cost_limit_usd = Some(NanoUsd::from_dollars(40.0).unwrap());
    agent
}

fn member(agent: Agent, delegates: bool) -> SubAgent {
    let description = format!("does as {} does", agent.name);
    SubAgent { agent, description, inherits: false, delegates, depth_limit: None }
}

/// Returns the lead of the tree with this limit on money.
pub(crate) fn lead(folder: &Path, model: &Arc<Model>, dollars: f64) -> Agent {
    let scout = member(agent("scout", folder, model), false);
    let deputy = member(agent("deputy", folder, model), true);
    let mut lead = agent("lead", folder, model);
    lead.sub_agents = Some(SubAgents::new(vec![scout, deputy], 2).unwrap());
    lead.policy.cost_limit_usd = NanoUsd::from_dollars(dollars);
    lead.policy.session_cost_limit_usd = NanoUsd::from_dollars(dollars * 2.0);
    lead
}

/// Enough money for the whole errand, including requests that are charged with their worst case.
pub(crate) const ENOUGH: f64 = 60.0;

/// The additional limits of a tree.
pub(crate) const LIMITS: [&str; 3] = ["time", "chars", "few chars"];

/// Returns the lead under such a limit, and all agents below it.
pub(crate) fn limited(folder: &Path, model: &Arc<Model>, limit: &str) -> Agent {
    let mut lead = lead(folder, model, ENOUGH);
    let own = |agent: &mut Agent| match limit {
        "time" => agent.policy.time_limit = Some(Millis::from_secs(3600)),
        // Calls run one by one.
        _ => agent.policy.result_chars_limit = Some(100_000),
    };
    let sub_agents = lead.sub_agents.as_ref().unwrap();
    let members = sub_agents.members().iter().map(|member| {
        let mut member = member.clone();
        own(&mut member.agent);
        member
    });
    lead.sub_agents = Some(SubAgents::new(members.collect(), 2).unwrap());
    own(&mut lead);
    if limit == "few chars" {
        // The second round crosses the limit: results are cut, and calls are not run.
        lead.policy.result_chars_limit = Some(60);
    }
    lead
}

/// Runs the tree to its end, from its beginning or from where it was.
pub(crate) async fn run(folder: &Path, model: &Arc<Model>, dollars: f64) -> Came {
    let journal = journal(folder).root_run(&new_run_id());
    errand::run(&lead(folder, model, dollars), &journal).await
}

/// Returns each run's events without the parts that differ between two trees: times, durations, the
/// root's id.
pub(crate) fn told(came: &Came) -> BTreeMap<String, Vec<Value>> {
    let mut runs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (event, value) in came.events.iter().zip(came.told()) {
        let run = suffix(&event.run);
        let mut value = value;
        if let Some(child) = value.get("child_run").and_then(Value::as_str).map(suffix) {
            value["child_run"] = child.into();
        }
        runs.entry(run).or_default().push(value);
    }
    runs
}

/// Returns a run's position in its tree: its id without the root's.
pub(crate) fn suffix(run: &str) -> String {
    run.split_once('.').map_or(String::new(), |(_, suffix)| suffix.to_owned())
}

/// Checks the events of any tree, live or replayed.
#[track_caller]
pub(crate) fn well_told(came: &Came, what: &str) {
    for (run, events) in told(came) {
        let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{what}: run {run}");
        let ids = |kind: &str| -> Vec<String> {
            let of = |event: &&Value| event["event"] == kind;
            let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
            events.iter().filter(of).map(id).collect()
        };
        assert_eq!(ids("tool_execute"), ids("tool_result"), "{what}: run {run}");
        let ends = events.iter().filter(|e| e["event"] == "done" || e["event"] == "error");
        assert_eq!(ends.count(), 1, "{what}: run {run}");
    }
}
