//! A client that knows nothing of softland: it keeps its history as JSON, reads responses with
//! its own small reader, runs its tools, and sends everything again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Digest, Facts, Failure, Millis, NanoUsd, Outcome, Pinned, Role, Signal};
use softland_session::{Context, Event, Exchange, Intervention, Out, Step};
use softland_sim::{Body, Config, Piece, Request, Scenario, Sim, Turn};
use softland_wire::anthropic;

use super::hostile::{self, Dice, TOOLS};

pub(crate) struct Client {
    pub(crate) sim: Sim,
    pub(crate) policy: Policy,
    pub(crate) seen: BTreeSet<String>,
    /// A nudge or a hidden refusal led to calls: what is signed behind it needs the store that
    /// puts the tail back in, which is the gateway's.
    pub(crate) tainted: bool,
    model: &'static str,
    streams: bool,
    head: Value,
    messages: Vec<Value>,
    records: BTreeMap<Digest, Pinned>,
    pinned: Option<Policy>,
    /// The governed histories that went upstream, with how many client messages they hold.
    governed: Vec<(usize, Vec<u8>)>,
    /// How often the store says that this context was answered in vain.
    pub(crate) vain: u64,
    /// How this client writes results: as a string, as a part, as two.
    shape: u64,
    now: u64,
    asked_at: u64,
}

/// What came back for one client request.
pub(crate) struct Reply {
    pub(crate) sent: Vec<u8>,
    pub(crate) upstream: Vec<Vec<u8>>,
    pub(crate) content: Vec<Value>,
    pub(crate) stop: String,
    pub(crate) whole: bool,
    pub(crate) outcome: Option<Outcome>,
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
    pub(crate) fn counted_calls(&self) -> u64 {
        self.calls.iter().filter(|(_, name, _)| name != "respond").count() as u64
    }
}

impl Client {
    pub(crate) fn new(dice: &mut Dice, model: &'static str, turns: Vec<Turn>) -> Self {
        let mut config = Config::new(Scenario::Scripted(turns));
        config.piece_bytes = dice.chance(30).then(|| 1 + dice.roll(40) as usize);
        let tool = |name: &&str| json!({"name": name, "input_schema": {"type": "object"}});
        let mut tools: Vec<Value> = TOOLS.iter().map(tool).collect();
        if dice.chance(40) {
            tools.push(tool(&"respond"));
        }
        let streams = dice.chance(70);
        let mut head =
            json!({"model": model, "max_tokens": 8000, "tools": tools, "stream": streams});
        let adaptive = softland_core::models::capability(None, model).thinking_adaptive;
        if adaptive && dice.chance(60) {
            head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        if dice.chance(40) {
            head["cache_control"] = json!({"type": "ephemeral"});
        }
        Self {
            sim: Sim::new(config),
            policy: Policy::default(),
            seen: BTreeSet::new(),
            tainted: false,
            model,
            streams,
            head,
            messages: Vec::new(),
            records: BTreeMap::new(),
            pinned: None,
            governed: Vec::new(),
            vain: 0,
            shape: dice.roll(4),
            now: 0,
            asked_at: 0,
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
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

    /// Goes on after an answer: asks something else under another policy, asks again, or lets the
    /// harness speak. False: it leaves.
    pub(crate) fn next_message(&mut self, dice: &mut Dice) -> bool {
        match dice.roll(4) {
            0 => return false,
            1 => {
                self.seen.insert("went on".to_owned());
                self.messages.push(json!({"role": "user", "content":
                    "<system-reminder>go on</system-reminder>"}));
            }
            _ => {
                self.policy = Policy { mode: self.policy.mode, ..hostile::policy(dice) };
                let n = self.messages.len();
                self.say(&format!("{} ({n})", dice.pick(&["And then?", "Why?", "What else?"])));
            }
        }
        true
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
        let mut context = Context::new(Role::Gateway, self.policy.clone(), None, self.model);
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
        let done = loop {
            match exchange.step() {
                Step::Done(done) => break done,
                Step::Send(body) => {
                    let held = anthropic::Request::scan(&body).unwrap().messages.list.len();
                    // Without a tail it is the governed history and nothing else.
                    if upstream.is_empty() && held == self.messages.len() {
                        self.governed.push((self.messages.len(), body.clone()));
                    }
                    self.post(&mut exchange, &body, &mut out);
                    upstream.push(body);
                }
            }
        };
        self.records = done.records.clone();
        self.note(&out, done.ended.as_ref());
        let mut reply = read(&out.bytes, self.streams);
        let hidden = upstream.len() > 1 && done.ended.is_none();
        self.tainted |= hidden && !reply.calls.is_empty();
        reply.sent = sent;
        reply.upstream = upstream;
        reply.outcome = done.ended.as_ref().map(|ended| ended.outcome);
        self.vain = 0;
        reply
    }

    fn post(&mut self, exchange: &mut Exchange, body: &[u8], out: &mut Out) {
        self.now += 1000;
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body };
        let response = self.sim.respond(self.now, &request);
        if response.status != 200 {
            return exchange.fail(Failure::Provider, out);
        }
        self.note_way(&response.collect().0);
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
    }

    /// Which way of being empty a response is, if it is.
    fn note_way(&mut self, bytes: &[u8]) {
        if bytes.windows(12).any(|part| part == b"event: error") {
            return;
        }
        let reply = read(bytes, self.streams);
        let says = |block: &Value| {
            block["type"] == "tool_use"
                || block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
        };
        if !reply.whole || reply.stop != "end_turn" || reply.content.iter().any(says) {
            return;
        }
        let is = |kind: &str| reply.content.iter().any(|block| block["type"] == kind);
        let way = match reply.content.len() {
            0 => "no block",
            _ if is("text") => "blank",
            _ => "thinking",
        };
        self.seen.insert(format!("way {way}"));
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

/// A response, read as a client would.
fn read(bytes: &[u8], streams: bool) -> Reply {
    let mut reply = Reply {
        sent: Vec::new(),
        upstream: Vec::new(),
        content: Vec::new(),
        stop: String::new(),
        whole: false,
        outcome: None,
        calls: Vec::new(),
    };
    if streams {
        read_stream(bytes, &mut reply);
    } else if let Ok(message) = serde_json::from_slice::<Value>(bytes) {
        reply.content = message["content"].as_array().cloned().unwrap_or_default();
        reply.stop = message["stop_reason"].as_str().unwrap_or_default().to_owned();
        reply.whole = true;
    }
    for (n, block) in reply.content.iter_mut().enumerate() {
        if block["type"] == "tool_use" {
            // What clients do with a provider's mistakes.
            if block["id"] == "" {
                block["id"] = json!(format!("call_{n}"));
            }
            if !block["input"].is_object() {
                block["input"] = json!({"INVALID_JSON": block["input"].to_string()});
            }
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            reply.calls.push((text("id"), text("name"), block["input"].clone()));
        }
    }
    reply
}

fn read_stream(bytes: &[u8], reply: &mut Reply) {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut json = String::new();
    let mut open = false;
    let mut starts = 0;
    for frame in text.split("\n\n").filter(|frame| !frame.trim().is_empty()) {
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or("{}");
        // Half an event stands at the end of a stream that was cut, and only there.
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        assert!(!reply.whole, "something follows the end: {event}");
        let index = event["index"].as_u64().map(|n| n as usize);
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                starts += 1;
                assert_eq!(starts, 1, "one head");
            }
            "content_block_start" => {
                assert!(!open && starts == 1, "blocks follow one another: {text}");
                assert_eq!(index, Some(reply.content.len()), "indexes count: {text}");
                open = true;
                json.clear();
                reply.content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(open, "a delta without its block: {text}");
                assert_eq!(index, Some(reply.content.len() - 1));
                let block = reply.content.last_mut().unwrap();
                let delta = &event["delta"];
                let add = |block: &mut Value, key: &str| {
                    let more = delta[key].as_str().unwrap();
                    block[key] = json!(block[key].as_str().unwrap_or_default().to_owned() + more);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => add(block, "text"),
                    "thinking_delta" => add(block, "thinking"),
                    "signature_delta" => add(block, "signature"),
                    "input_json_delta" => json.push_str(delta["partial_json"].as_str().unwrap()),
                    other => panic!("unknown delta {other}"),
                }
            }
            "content_block_stop" => {
                assert!(open, "an end without its block: {text}");
                open = false;
                if !json.trim().is_empty() {
                    let block = reply.content.last_mut().unwrap();
                    block["input"] = serde_json::from_str(&json)
                        .ok()
                        .filter(Value::is_object)
                        .unwrap_or_else(|| json!({"INVALID_JSON": json}));
                }
            }
            "message_delta" => {
                assert!(!open, "the message ends within a block: {text}");
                let stop = event["delta"]["stop_reason"].as_str();
                reply.stop = stop.unwrap_or_default().to_owned();
            }
            "message_stop" => reply.whole = true,
            _ => {}
        }
    }
}
