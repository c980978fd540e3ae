//! A client that knows nothing of softland: it keeps its history as JSON, reads responses with
//! its own small reader, runs its tools, and sends everything again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Digest, Facts, Failure, Millis, NanoUsd, Outcome, Pinned, Role, Rung, Signal};
use softland_session::{Context, Event, Exchange, Intervention, Out, Step};
use softland_sim::{Body, Config, Piece, Request, Scenario, Sim};
use softland_wire::anthropic;

use super::case::{Ask, Case};
use super::hostile::{self, TOOLS};
use super::reading;

pub(crate) struct Client {
    pub(crate) sim: Sim,
    pub(crate) policy: Policy,
    pub(crate) seen: BTreeSet<String>,
    /// A nudge or a hidden refusal led to calls: what is signed behind it needs the store that
    /// puts the tail back in, which is the gateway's.
    pub(crate) tainted: bool,
    model: String,
    streams: bool,
    head: Value,
    messages: Vec<Value>,
    records: BTreeMap<Digest, Pinned>,
    pinned: Option<Policy>,
    /// The governed histories that went upstream, with how many client messages they hold.
    governed: Vec<(usize, Vec<u8>)>,
    /// How often the store says that this context was answered in vain.
    pub(crate) vain: u64,
    shape: u64,
    now: u64,
    asked_at: u64,
}

/// What came back for one client request.
pub(crate) struct Reply {
    pub(crate) sent: Vec<u8>,
    pub(crate) upstream: Vec<Vec<u8>>,
    /// The rungs of the requests that the provider refused.
    pub(crate) refused: Vec<Option<Rung>>,
    pub(crate) content: Vec<Value>,
    pub(crate) stop: String,
    pub(crate) whole: bool,
    pub(crate) outcome: Option<Outcome>,
    /// It ended at a limit.
    pub(crate) at_limit: bool,
    pub(crate) calls: Vec<(String, String, Value)>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}, {}, whole: {}", self.outcome, self.stop, self.whole)?;
        writeln!(f, "content: {}", Value::Array(self.content.clone()))?;
        for body in &self.upstream {
            writeln!(f, "upstream: {}", text_of(messages(body)))?;
        }
        Ok(())
    }
}

impl Reply {
    /// The calls that are the client's to run, all but the answer.
    pub(crate) fn counted_calls(&self, policy: &Policy) -> u64 {
        let answers = |name: &str| policy.answer_tool.as_deref() == Some(name);
        self.calls.iter().filter(|(_, name, _)| !answers(name)).count() as u64
    }
}

impl Client {
    pub(crate) fn new(case: &Case) -> Self {
        let manner = &case.manner;
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = manner.piece_bytes;
        config.aliases = case.aliases();
        let tool = |name: &&str| json!({"name": name, "input_schema": {"type": "object"}});
        let mut tools: Vec<Value> = TOOLS.iter().map(tool).collect();
        if manner.answer_tool {
            tools.push(tool(&"respond"));
        }
        let mut head = json!({
            "model": case.model, "max_tokens": 8000, "tools": tools, "stream": !manner.whole
        });
        // The client knows its model, whoever else does.
        let rules = softland_core::models::capability(None, case.rules());
        if manner.thinking && rules.thinking_adaptive {
            head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        if manner.cache {
            head["cache_control"] = json!({"type": "ephemeral"});
        }
        Self {
            sim: Sim::new(config),
            policy: Policy::default(),
            seen: BTreeSet::new(),
            tainted: false,
            model: case.model.clone(),
            streams: !manner.whole,
            head,
            messages: Vec::new(),
            records: BTreeMap::new(),
            pinned: None,
            governed: Vec::new(),
            vain: 0,
            shape: manner.shape,
            now: 0,
            asked_at: 0,
        }
    }

    /// Somebody asks, or the harness speaks.
    pub(crate) fn ask(&mut self, ask: &Ask) {
        match ask {
            Ask::Say(text, policy) => {
                self.policy = Policy::clone(policy);
                let n = self.messages.len();
                self.say(&format!("{text} ({n})"));
            }
            Ask::Remind(text) => {
                self.seen.insert("went on".to_owned());
                let text = format!("<system-reminder>{text}</system-reminder>");
                self.messages.push(json!({"role": "user", "content": text}));
            }
        }
    }

    fn say(&mut self, text: &str) {
        // Without an answer between, it is more of the same question.
        if self.messages.last().is_none_or(|message| message["role"] == "assistant") {
            self.pinned = None;
            self.asked_at = self.now;
        }
        self.messages.push(json!({"role": "user", "content": text}));
    }

    /// The policy that the run under way was begun with.
    pub(crate) fn pinned_policy(&mut self) -> Policy {
        self.pinned.get_or_insert_with(|| self.policy.clone()).clone()
    }

    pub(crate) fn resent(&mut self) {
        self.seen.insert("resent".to_owned());
    }

    fn body(&self) -> Vec<u8> {
        let mut body = self.head.to_string();
        body.pop();
        let messages = Value::Array(self.messages.clone());
        format!(r#"{body},"messages":{messages}}}"#).into_bytes()
    }

    /// One request through the session.
    pub(crate) fn turn(&mut self) -> Reply {
        let sent = self.body();
        let mut context = Context::new(Role::Gateway, self.policy.clone(), None, &self.model);
        context.records = self.records.clone();
        let spent = self.now - self.asked_at;
        context.facts = Facts {
            tokens: spent / 2,
            cost: NanoUsd(spent * 60_000),
            session_cost: NanoUsd(self.now * 60_000),
            elapsed: Millis(spent * 3),
            next_input: 400,
            next_input_cost: NanoUsd(100_000),
            reserve_input_cost: NanoUsd(100_000),
            output_pico: 15_000,
            stale: self.vain,
            ..Facts::default()
        };
        let mut out = Out::default();
        let mut exchange = Exchange::begin(sent.clone(), context, &mut out).unwrap();
        let mut upstream: Vec<Vec<u8>> = Vec::new();
        let mut refused = Vec::new();
        let done = loop {
            match exchange.step() {
                Step::Done(done) => break done,
                Step::Send(body) => {
                    let held = anthropic::Request::scan(&body).unwrap().messages.list.len();
                    // Without a tail it is the governed history and nothing else.
                    if upstream.is_empty() && held == self.messages.len() {
                        self.governed.push((self.messages.len(), body.to_vec()));
                    }
                    let rung = exchange.rung();
                    if self.post(&mut exchange, &body, &mut out) == 400 {
                        refused.push(rung);
                    }
                    upstream.push(body.to_vec());
                }
            }
        };
        self.records = done.records.clone();
        self.note(&out, done.ended.as_ref());
        let reading::Response { content, stop, whole, calls } =
            reading::read(&out.bytes, self.streams);
        self.vain = 0;
        let outcome = done.ended.as_ref().map(|ended| ended.outcome);
        let at_limit = done.ended.as_ref().is_some_and(|ended| ended.limit.is_some());
        let reply =
            Reply { sent, upstream, refused, content, stop, whole, outcome, at_limit, calls };
        let calls = reply.counted_calls(&self.pinned_policy());
        self.tainted |= reply.upstream.len() > 1 && calls > 0;
        reply
    }

    /// Sends one request and feeds the exchange with what comes back; returns the status.
    fn post(&mut self, exchange: &mut Exchange, body: &[u8], out: &mut Out) -> u16 {
        self.now += 1000;
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body };
        let response = self.sim.respond(self.now, &request);
        if response.status != 200 {
            exchange.fail(Failure::Provider, out);
            return response.status;
        }
        let way = reading::way_of_being_empty(&response.collect().0, self.streams);
        self.seen.extend(way.map(str::to_owned));
        let taken = match response.body {
            Body::Whole { bytes, .. } => exchange.whole(&bytes, out).is_ok(),
            Body::Stream(chunks) => {
                let pushed = chunks.iter().all(|chunk| match &chunk.piece {
                    Piece::Bytes(bytes) => exchange.push(bytes, out).is_ok(),
                    Piece::Cut => true,
                });
                pushed && exchange.finish(out).is_ok()
            }
        };
        if !taken {
            exchange.fail(Failure::Provider, out);
        }
        200
    }

    /// Keeps a response in the history, as clients do.
    pub(crate) fn adopt(&mut self, reply: &Reply) {
        if reply.content.is_empty() {
            return;
        }
        self.messages.push(json!({"role": "assistant", "content": reply.content}));
        if reply.outcome.is_some() && !reply.calls.is_empty() {
            // The answer came as a tool's call: it is taken, and told so.
            let told = reply.calls.iter().map(|(id, ..)| {
                json!({"type": "tool_result", "tool_use_id": id, "content": "Delivered."})
            });
            self.messages.push(json!({"role": "user", "content": told.collect::<Vec<_>>()}));
            self.messages.push(json!({"role": "assistant", "content": "It is delivered."}));
        }
    }

    /// Runs the calls.
    pub(crate) fn run_tools(&mut self, reply: &Reply) {
        let results = reply.calls.iter().enumerate().map(|(n, (id, name, input))| {
            let (text, failed) = hostile::tool_result(name, &input.to_string(), n as u64 * 7 + 1);
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "is_error": failed});
            let part = |text: &str| json!({"type": "text", "text": text});
            result["content"] = match self.shape {
                0 if text.is_empty() => json!([]),
                0 => json!([part(&text)]),
                1 if !text.is_empty() => json!([part("one"), part(&text)]),
                _ => json!(text),
            };
            result
        });
        let content: Vec<Value> = results.collect();
        self.messages.push(json!({"role": "user", "content": content}));
    }

    /// Where one client request extends another, so does what went upstream.
    pub(crate) fn check_prefixes(&self) {
        for pair in self.governed.windows(2) {
            let [(few, before), (more, after)] = pair else { continue };
            if few > more {
                continue;
            }
            let (before, after) = (messages(before), messages(after));
            let prefix = before.strip_suffix(b"]").unwrap();
            assert!(
                after.starts_with(prefix),
                "the prefix changed:\n{}\n---\n{}",
                text_of(before),
                text_of(after)
            );
        }
    }

    fn note(&mut self, out: &Out, ended: Option<&softland_core::Ended>) {
        if let Some(ended) = ended {
            self.seen.insert(format!("outcome {}", ended.outcome.word()));
            self.seen.insert(format!("reason {}", ended.reason));
            self.seen.extend(ended.rung.map(|rung| format!("rung {}", rung.word())));
        }
        for event in &out.events {
            match event {
                Event::Signal(Signal { signal, .. }) => {
                    self.seen.insert(format!("signal {}", signal.word()));
                }
                Event::Intervention { intervention, .. } => {
                    let rungs = [Intervention::Refuse, Intervention::None, Intervention::Respond];
                    if rungs.contains(intervention) {
                        self.seen.insert(format!("rung {}", intervention.word()));
                    }
                    self.seen.insert(format!("intervention {}", intervention.word()));
                }
                _ => {}
            }
        }
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("(not UTF-8)")
}

fn messages(body: &[u8]) -> &[u8] {
    let span = anthropic::Request::scan(body).unwrap().messages.span;
    &body[span.start..span.end]
}
