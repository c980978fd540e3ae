//! The agents of the tests: a lead with tools of its own and two sub-agents. Their model reads its
//! position from the request, so that another process meets the same model.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_agent::testing::{ScriptedModel, ScriptedReply};
use softland_agent::{
    AGENT_TOOL, Agent, SubAgent, SubAgents, Tool, ToolContext, ToolDef, ToolOutput,
};
use softland_restate::{AgentLoader, LoadedAgent};

/// The calls of each agent, round by round: `n` may not run twice, `p` may, others name agents.
const LEAD: &[&[&str]] =
    &[&["n1"], &["scout", "deputy", "n2", "p3"], &["n4", "p5", "n6", "p7"], &["n8"]];
const SCOUT: &[&[&str]] = &[&["n9", "p10"], &["n11"], &["p12"]];
const DEPUTY: &[&[&str]] =
    &[&["p13"], &["n14"], &["n15", "p16"], &["n17"], &["p18"], &["n19", "p20"]];
/// An agent whose results have so many megabytes.
const LARGE: &[&[&str]] = &[&["f20"], &["f40"]];

const LARGE_TOOL: &str = "fetch";
const MODEL: &str = "anthropic/claude-sonnet-5-5";

/// The keys of all calls of tools.
pub(crate) fn all_keys() -> Vec<&'static str> {
    let all = [LEAD, SCOUT, DEPUTY].concat().concat();
    all.into_iter().filter(|key| !matches!(*key, "scout" | "deputy")).collect()
}

/// The moments of a request or a call: before it begins, while it runs, and when it returns.
pub(crate) const MOMENTS: [&str; 3] = ["begins", "runs", "returns"];
/// The file that names the moment at which a worker is killed, such as `17 runs`.
const KILL: &str = "kill";

/// The requests and calls that this process has begun.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// A request or a call of this process.
struct Effect<'a> {
    number: usize,
    folder: &'a Path,
}

impl<'a> Effect<'a> {
    fn begin(folder: &'a Path) -> Self {
        let effect = Self { number: BEGUN.fetch_add(1, Ordering::SeqCst), folder };
        effect.reach(MOMENTS[0]);
        effect
    }

    /// Has this process killed if it is to be killed here. The next process is not.
    fn reach(&self, moment: &str) {
        let path = self.folder.join(KILL);
        let named = std::fs::read_to_string(&path).unwrap_or_default();
        if named == format!("{} {moment}", self.number) {
            std::fs::remove_file(path).unwrap();
            let id = std::process::id().to_string();
            std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
        }
    }
}

/// Has the next worker of this folder killed at this moment of its `number`th request or call.
pub(crate) fn kill_worker_at(folder: &Path, number: usize, moment: &str) {
    std::fs::write(folder.join(KILL), format!("{number} {moment}")).unwrap();
}

/// Returns the number of requests and calls of a tree that is left alone.
pub(crate) fn all_effects() -> usize {
    let requests = [LEAD, SCOUT, DEPUTY].iter().map(|rounds| rounds.len() + 1).sum::<usize>();
    all_keys().len() + requests
}

struct Model {
    rounds: &'static [&'static [&'static str]],
    folder: PathBuf,
}

#[async_trait]
impl Transport for Model {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let effect = Effect::begin(&self.folder);
        tokio::time::sleep(Duration::from_millis(20)).await;
        effect.reach(MOMENTS[1]);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let is_results = |m: &&Value| m["content"][0]["type"] == "tool_result";
        let done = messages.iter().filter(is_results).count();
        let reply = match self.rounds.get(done) {
            Some(round) => {
                round.iter().fold(ScriptedReply::from_text(""), |reply, key| match *key {
                    "scout" | "deputy" => {
                        reply.with_call(AGENT_TOOL, json!({"name": key, "prompt": "Go on."}))
                    }
                    key if key.starts_with('n') => reply.with_call("note", json!({"key": key})),
                    key if key.starts_with('f') => reply.with_call(LARGE_TOOL, json!({"key": key})),
                    key => reply.with_call("peek", json!({"key": key})),
                })
            }
            None => {
                let results = messages.iter().filter(is_results).flat_map(|message| {
                    message["content"].as_array().unwrap().iter().map(|result| {
                        let content = &result["content"];
                        let text = content.as_str().or_else(|| content[0]["text"].as_str());
                        text.unwrap().chars().take(60).collect()
                    })
                });
                let results: Vec<String> = results.collect();
                ScriptedReply::from_text(results.join("; "))
            }
        };
        let response = ScriptedModel::new([reply]).send(request).await;
        effect.reach(MOMENTS[2]);
        response
    }
}

/// A tool that adds a line to a file whenever it runs.
struct Errand {
    name: &'static str,
    folder: PathBuf,
}

#[async_trait]
impl Tool for Errand {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: self.name.to_owned(),
            description: "does a part".to_owned(),
            input_schema: json!({"type": "object", "properties": {"key": {"type": "string"}}}),
            reads: self.name == "peek",
            repeatable: self.name == "peek",
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let effect = Effect::begin(&self.folder);
        let key = input["key"].as_str().unwrap();
        let path = self.folder.join("ran");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{key}\n").as_bytes()).unwrap();
        if self.name == LARGE_TOOL {
            let megabytes: usize = key[1..].parse().unwrap();
            return ToolOutput::ok("a line of a large result\n".repeat(megabytes * 40_000));
        }
        effect.reach(MOMENTS[1]);
        let slow = self.folder.join("slow").exists();
        tokio::time::sleep(Duration::from_millis(if slow { 30_000 } else { 30 })).await;
        effect.reach(MOMENTS[2]);
        ToolOutput::ok(format!("{key} is done"))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }

    fn output_cap(&self) -> Option<usize> {
        (self.name == LARGE_TOOL).then_some(usize::MAX)
    }
}

fn agent(name: &str, folder: &Path, rounds: &'static [&'static [&'static str]]) -> Agent {
    let model = Model { rounds, folder: folder.to_owned() };
    let mut agent = Agent::new(name, MODEL, Arc::new(model));
    for name in ["note", "peek"] {
        agent.tools.add_tool(Arc::new(Errand { name, folder: folder.to_owned() })).unwrap();
    }
    agent
}

/// Loads the lead, whose tools write to this folder.
pub(crate) struct Loader {
    pub(crate) folder: PathBuf,
}

#[async_trait]
impl AgentLoader for Loader {
    async fn load_agent(&self, name: &str) -> Result<LoadedAgent, String> {
        if name == "large" {
            let folder = self.folder.clone();
            let model = Model { rounds: LARGE, folder: folder.clone() };
            let mut agent = Agent::new(name, MODEL, Arc::new(model));
            agent.tools.add_tool(Arc::new(Errand { name: LARGE_TOOL, folder })).unwrap();
            return Ok(LoadedAgent { agent, resources: Arc::new(()) });
        }
        if name != "lead" {
            return Err(format!("the worker has no agent `{name}`"));
        }
        let member = |agent: Agent| SubAgent {
            agent,
            description: "does a part".to_owned(),
            inherits: false,
            delegates: false,
            depth_limit: None,
        };
        let mut lead = agent("lead", &self.folder, LEAD);
        let members = vec![
            member(agent("scout", &self.folder, SCOUT)),
            member(agent("deputy", &self.folder, DEPUTY)),
        ];
        lead.sub_agents = Some(SubAgents::new(members, 1).unwrap());
        Ok(LoadedAgent { agent: lead, resources: Arc::new(()) })
    }
}
