//! The adversary against the gateway, through real sockets: hostile models, policies of any kind,
//! and clients that resend, fork, rewind, compact, walk away in the middle and come back, while
//! the gateway behind their base URL may be replaced by one that knows nothing.
//!
//! `session/tests/common` has the models, the policies and the shrinking; `seeds` there says how
//! to choose cases. What a client does beside asking is drawn from the number in a case's `about`,
//! so that a shrunk case still does it.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::allow_attributes,
    reason = "what the session's tests share is used in part"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

#[path = "../../session/tests/common/case.rs"]
mod case;
#[path = "../../session/tests/common/hostile.rs"]
mod hostile;
#[path = "../../session/tests/common/seeds.rs"]
mod seeds;
mod support;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};

use case::{Ask, Case};
use hostile::{Dice, TOOLS};
use seeds::{Adversary, Met, tells};
use serde_json::{Value, json};
use softland_gateway::Settings;
use softland_session::core::policy::{Batch, Mode, Policy};
use softland_sim::{Config, Fault, Scenario};
use support::reading::{End, Response, read};
use support::sim::Simulated;
use support::{Message, Running};

/// Client requests of a case at most.
const REQUESTS: u64 = 30;
/// Questions and reminders of a case at most.
const ASKS: usize = 3;

const ADVERSARY: Adversary = Adversary { generate, drive, must_meet: MUST_MEET };

/// What at least 1 % of the cases meet.
const MUST_MEET: &[&str] = &[
    "answer",
    "calls",
    "landing",
    "hidden requests",
    "a tail kept",
    "upstream error",
    "broken stream",
    "softland's answer",
    "cut off",
    "resent",
    "forked",
    "rewound",
    "compacted",
    "replaced",
    "went on",
    "thinking",
    "unpriced",
];

#[test]
fn every_request_lands() {
    ADVERSARY.run();
}

fn generate(seed: u64) -> Case {
    let mut dice = Dice::new(seed ^ 0x6a7e_3a41);
    let mut turns = hostile::script(&mut dice);
    for turn in &mut turns {
        // Sockets wait for real.
        turn.first_delay_ms %= 3;
    }
    let (model, rules_of) = hostile::model(&mut dice);
    let mut manner = hostile::manner(&mut dice, 0);
    manner.vain.clear();
    let ask = |text: &str, dice: &mut Dice| {
        Ask::Say(text.to_owned(), Box::new(Policy { mode: Mode::Enforce, ..hostile::policy(dice) }))
    };
    let mut asks = vec![ask("What is it?", &mut dice)];
    while asks.len() < ASKS {
        asks.push(match dice.roll(4) {
            0 => break,
            1 => Ask::Remind("go on".to_owned()),
            _ => {
                let text = dice.pick(&["And then?", "Why?", "What else?"]);
                ask(text, &mut dice)
            }
        });
    }
    let about = format!("plan {}", dice.roll(1 << 40));
    Case { about, meets: Vec::new(), api: Default::default(), model, rules_of, manner, asks, turns }
        .with_own_ids()
}

fn drive(case: &Case) -> Met {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut play = Play::new(case).await;
        play.all().await;
        play.met
    })
}

/// What a client does beside its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whim {
    None,
    /// Walks away in the middle, and asks again.
    CutOff,
    /// The response is lost on the way.
    Lose,
    /// Asks the same with other results, and forgets about it.
    Fork,
    /// Goes back within the run.
    Rewind,
    /// Puts a summary in the place of all that was.
    Compact,
    /// It is not the client: another gateway takes the place of this one.
    Replace,
}

/// One case under way.
struct Play<'a> {
    case: &'a Case,
    plan: u64,
    /// Whether gateways are replaced in this case.
    replaces: bool,
    upstream: Simulated,
    gateway: Running,
    folder: tempfile::TempDir,
    logs: Vec<PathBuf>,
    headers: Vec<String>,
    named: bool,
    head: Value,
    messages: Vec<Value>,
    /// Where the human message of the run under way stands.
    run_at: usize,
    /// Calls of the run before its history was compacted.
    carried: u64,
    policy: Policy,
    /// A tail stands in the history that only the store knows.
    tail: bool,
    met: Met,
}

impl<'a> Play<'a> {
    async fn new(case: &'a Case) -> Self {
        let plan = case.about.strip_prefix("plan ").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut dice = Dice::new(plan);
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = case.manner.piece_bytes;
        config.aliases = case.aliases();
        let upstream = Simulated::of(config).await;
        let folder = tempfile::tempdir().unwrap();
        let mut headers: Vec<String> =
            ["x-api-key: any", "anthropic-version: 2023-06-01"].map(str::to_owned).into();
        let name = dice.pick(&[
            "",
            "x-claude-code-session-id: one",
            "x-softland-session: one",
            "x-softland-run: one",
        ]);
        if !name.is_empty() {
            headers.push(name.to_owned());
        }
        let replaces = plan > 0 && dice.chance(25);
        let policy = Policy::default();
        let log = folder.path().join("events-0");
        let gateway = Running::with(Self::settings(&upstream, &policy, &log)).await;
        Self {
            case,
            plan,
            replaces,
            upstream,
            gateway,
            logs: vec![log],
            folder,
            headers,
            named: !name.is_empty(),
            head: head(case),
            messages: Vec::new(),
            run_at: 0,
            carried: 0,
            policy,
            tail: false,
            met: Met::new(),
        }
    }

    fn settings(upstream: &Simulated, policy: &Policy, log: &Path) -> Settings {
        let mut settings = support::settings(&upstream.url);
        settings.policies.insert("default".to_owned(), policy.clone());
        settings.log.events = Some(log.to_owned());
        settings
    }

    fn meet(&mut self, what: &str) {
        self.met.insert(what.to_owned());
    }

    async fn all(&mut self) {
        let mut asks = self.case.asks.iter();
        self.ask(asks.next().unwrap());
        for request in 0..REQUESTS {
            let whim = self.whim(request);
            self.follow(whim, request).await;
            let before = self.upstream.sim.stats().responses;
            let message = self.post().await;
            if tells() {
                println!("{request} {whim:?}: {}\n{}\n", message.line, message.text());
            }
            let hidden = self.upstream.sim.stats().responses.saturating_sub(before + 1);
            let Some(reply) = self.checked(&message, hidden) else {
                if message.header("x-should-retry") == Some("false") {
                    break;
                }
                continue;
            };
            if whim == Whim::Lose {
                continue;
            }
            if !self.goes_on(&reply) {
                let Some(ask) = asks.next().filter(|_| self.adopt(&reply)) else { break };
                self.ask(ask);
            }
        }
        self.end().await;
    }

    fn whim(&self, request: u64) -> Whim {
        if self.plan == 0 {
            return Whim::None;
        }
        let mut dice = Dice::new(self.plan.wrapping_mul(31).wrapping_add(request));
        match dice.roll(100) {
            0..6 => Whim::CutOff,
            6..11 => Whim::Lose,
            11..15 => Whim::Fork,
            15..18 => Whim::Rewind,
            18..21 if !self.replaces => Whim::Compact,
            18..30 if self.replaces && !self.tail => Whim::Replace,
            _ => Whim::None,
        }
    }

    async fn follow(&mut self, whim: Whim, request: u64) {
        match whim {
            Whim::None => {}
            Whim::Lose => self.meet("resent"),
            Whim::CutOff => {
                let mut wire = self.gateway.client().await;
                wire.send(self.request()).await;
                if request.is_multiple_of(2) {
                    let read = support::Wire::more(&mut wire);
                    let _ = tokio::time::timeout(std::time::Duration::from_millis(20), read).await;
                }
                drop(wire);
                self.meet("cut off");
            }
            Whim::Fork => self.fork().await,
            Whim::Rewind => {
                let later = self.messages.iter().enumerate().skip(self.run_at + 1);
                let users = later.filter(|(_, message)| message["role"] == "user");
                let at: Vec<usize> = users.map(|(at, _)| at).collect();
                if at.len() > 1 {
                    self.messages.truncate(at[at.len() / 2 - 1] + 1);
                    self.meet("rewound");
                }
            }
            Whim::Compact => {
                if self.messages.len() < self.run_at + 2 {
                    return;
                }
                self.carried = if self.named { self.calls_so_far() } else { 0 };
                // The same summary again would be the same conversation, gone back.
                let summary = format!(
                    "This session is being continued from a previous conversation that ran out \
                     of context. Things were looked at, {request} times."
                );
                self.messages = vec![json!({"role": "user", "content": summary})];
                self.run_at = 0;
                self.meet("compacted");
            }
            Whim::Replace => self.replace().await,
        }
    }

    /// The same history with other results, asked once.
    async fn fork(&mut self) {
        let kept = self.messages.clone();
        let last = self.messages.last_mut().unwrap();
        let Some(results) = last["content"].as_array_mut().filter(|_| kept.len() > 1) else {
            return;
        };
        for result in results.iter_mut().filter(|result| result["type"] == "tool_result") {
            result["content"] = json!("something else");
        }
        let before = self.upstream.sim.stats().responses;
        let message = self.post().await;
        let hidden = self.upstream.sim.stats().responses.saturating_sub(before + 1);
        let tail = self.tail;
        let _ = self.checked(&message, hidden);
        self.tail = tail;
        self.messages = kept;
        self.meet("forked");
    }

    async fn replace(&mut self) {
        self.gateway.stopped().await;
        let log = self.folder.path().join(format!("events-{}", self.logs.len()));
        let settings = Self::settings(&self.upstream, &self.policy, &log);
        self.gateway = Running::with(settings).await;
        self.logs.push(log);
        self.meet("replaced");
    }

    fn ask(&mut self, ask: &Ask) {
        match ask {
            Ask::Say(text, policy) => {
                let first = self.messages.is_empty();
                self.run_at = self.messages.len();
                self.carried = 0;
                self.messages
                    .push(json!({"role": "user", "content": format!("{text} ({})", self.run_at)}));
                // Another gateway knows neither another policy of earlier runs nor what was
                // decided by money and time.
                if self.replaces && !first {
                    return;
                }
                self.policy = Policy::clone(policy);
                if self.replaces {
                    let usual = Policy::default();
                    self.policy.tokens_limit = usual.tokens_limit;
                    self.policy.cost_limit_usd = usual.cost_limit_usd;
                    self.policy.time_limit = usual.time_limit;
                }
                let log = self.logs.last().unwrap();
                let settings = Self::settings(&self.upstream, &self.policy, log);
                self.gateway.handle.reload(settings).unwrap();
            }
            Ask::Remind(text) => {
                let text = format!("<system-reminder>{text}</system-reminder>");
                self.messages.push(json!({"role": "user", "content": text}));
                self.meet("went on");
            }
            // What else a client of the session's does is a whim here.
            Ask::Fork(..) => {}
        }
    }

    fn request(&self) -> String {
        let mut body = self.head.to_string();
        body.pop();
        let messages = Value::Array(self.messages.clone());
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let body = format!(r#"{body},"messages":{messages}}}"#);
        self.gateway.request("POST /v1/messages", &headers, &body)
    }

    async fn post(&self) -> Message {
        self.gateway.ask(self.request()).await
    }

    fn counts(&self, name: &str) -> bool {
        self.policy.answer_tool.as_deref() != Some(name)
    }

    fn calls_so_far(&self) -> u64 {
        let blocks = self.messages.iter().skip(self.run_at).filter_map(|m| m["content"].as_array());
        let calls = blocks.flatten().filter(|block| {
            block["type"] == "tool_use" && self.counts(block["name"].as_str().unwrap_or_default())
        });
        self.carried + calls.count() as u64
    }

    /// Whether the script lets the upstream fail.
    fn may_fail(&self, which: impl Fn(&Fault) -> bool) -> bool {
        self.case.turns.iter().filter_map(|turn| turn.fault.as_ref()).any(which)
    }

    /// What a response says; `None` where the request is to be sent again.
    fn checked(&mut self, message: &Message, hidden: u64) -> Option<Response> {
        self.check_refused();
        if message.status() != 200 {
            return self.check_error(message);
        }
        let reply = read(message);
        if reply.end != End::Whole {
            let breaks = self.may_fail(|fault| !matches!(fault, Fault::Http { .. }));
            assert!(breaks, "nobody cut it: {}", message.text());
            assert_ne!(reply.end, End::Cut, "it ends without a word: {}", message.text());
            self.meet("broken stream");
            return None;
        }
        if hidden > 0 {
            self.meet("hidden requests");
            assert!(reply.stop != "tool_use" || !reply.calls().is_empty(), "{}", message.text());
            self.tail |= !reply.calls().is_empty();
        }
        if self.tail {
            self.meet("a tail kept");
        }
        self.check_blocks(message, &reply);
        self.check_calls(message, &reply);
        self.check_answer(message, &reply);
        Some(reply)
    }

    fn check_error(&mut self, message: &Message) -> Option<Response> {
        let status = message.status();
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(body["type"], "error", "{body}");
        if status == 400 {
            // Its cost limit cannot be held.
            let unpriced = self.case.rules_of.is_some() && self.policy.cost_limit_usd.is_some();
            assert!(unpriced, "{body} {:?}", self.upstream.sim.stats().refusals);
            self.meet("unpriced");
        } else {
            assert!(self.may_fail(|_| true), "{status} {body}");
            self.meet("upstream error");
        }
        None
    }

    fn check_refused(&self) {
        if self.case.rules_of.is_none() {
            let refused = self.upstream.refused();
            assert_eq!(refused, 0, "refused: {:?}", self.upstream.sim.stats().refusals);
        }
    }

    fn check_blocks(&mut self, message: &Message, reply: &Response) {
        for block in &reply.content {
            if let Some(text) = block["text"].as_str().filter(|_| block["type"] == "text") {
                let paused = reply.stop == "pause_turn";
                assert!(paused || !text.trim().is_empty(), "a blank text: {}", message.text());
            }
            if block["type"] == "thinking" {
                let signature = block["signature"].as_str().unwrap_or_default();
                assert!(!signature.is_empty(), "half of a thinking: {}", message.text());
                self.meet("thinking");
            }
        }
        let calls = reply.calls();
        for (id, ..) in &calls {
            let same = calls.iter().filter(|(other, ..)| other == id).count();
            assert_eq!(same, 1, "an id twice: {}", message.text());
        }
    }

    /// No more calls reach the client than are allowed.
    fn check_calls(&mut self, message: &Message, reply: &Response) {
        let calls = reply.calls().iter().filter(|(_, name, _)| self.counts(name)).count() as u64;
        let so_far = self.calls_so_far();
        let Some(limit) = self.policy.tool_calls_limit.filter(|_| calls > 0) else { return };
        self.meet("calls");
        let most = if self.policy.batch == Batch::All && limit > 0 { limit + 5 } else { limit };
        let (sum, text) = (so_far + calls, message.text());
        assert!(sum <= most, "{so_far} and {calls} calls of {limit}: {text}");
    }

    /// What ends a run says something.
    fn check_answer(&mut self, message: &Message, reply: &Response) {
        let text = reply.text();
        if text.contains("This answer is softland's") {
            self.meet("softland's answer");
        }
        assert!(!text.contains(hostile::THOUGHT), "a thought in an answer: {text}");
        let natural = matches!(reply.stop.as_str(), "end_turn" | "tool_use");
        if !reply.calls().is_empty() || !natural {
            return;
        }
        let landing = message.header("x-softland-phase") == Some("landing");
        // A second silence after the task's own final text is an end.
        let said = self.messages.iter().skip(self.run_at).any(|message| {
            let blocks = message["content"].as_array().filter(|_| message["role"] == "assistant");
            blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "text"))
        });
        assert!(!text.trim().is_empty() || (said && !landing), "no answer: {}", message.text());
        self.meet(if landing { "landing" } else { "answer" });
    }

    /// Takes a turn with calls, and runs them; false where there are none to run.
    fn goes_on(&mut self, reply: &Response) -> bool {
        let calls = reply.calls();
        let delivers = calls.iter().any(|(_, name, _)| !self.counts(name));
        if calls.is_empty() || delivers {
            return false;
        }
        self.messages.push(json!({"role": "assistant", "content": reply.content}));
        let results = calls.iter().enumerate().map(|(n, (id, name, input))| {
            let (text, failed) = hostile::tool_result(name, &input.to_string(), n as u64 * 7 + 1);
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "is_error": failed});
            result["content"] = match self.case.manner.shape {
                0 if text.is_empty() => json!([]),
                0 | 1 if !text.is_empty() => json!([{"type": "text", "text": text}]),
                _ => json!(text),
            };
            result
        });
        let content: Vec<Value> = results.collect();
        self.messages.push(json!({"role": "user", "content": content}));
        true
    }

    /// Takes an answer; false where the conversation cannot go on.
    fn adopt(&mut self, reply: &Response) -> bool {
        if reply.content.is_empty() || !matches!(reply.stop.as_str(), "end_turn" | "tool_use") {
            return false;
        }
        self.messages.push(json!({"role": "assistant", "content": reply.content}));
        let told = reply.calls().into_iter().map(
            |(id, ..)| json!({"type": "tool_result", "tool_use_id": id, "content": "Delivered."}),
        );
        let told: Vec<Value> = told.collect();
        if !told.is_empty() {
            self.messages.push(json!({"role": "user", "content": told}));
            self.messages.push(json!({"role": "assistant", "content": "It is delivered."}));
        }
        true
    }

    /// The event logs tell of each run once how it ended, and nothing behind that.
    async fn end(&mut self) {
        self.check_refused();
        self.gateway.stopped().await;
        for log in &self.logs {
            check_log(&std::fs::read_to_string(log).unwrap_or_default());
        }
    }
}

fn head(case: &Case) -> Value {
    let tool = |name: &&str| json!({"name": name, "input_schema": {"type": "object"}});
    let mut tools: Vec<Value> = TOOLS.iter().map(tool).collect();
    if case.manner.answer_tool {
        tools.push(tool(&"respond"));
    }
    let mut head = json!({
        "model": case.model, "max_tokens": 8000, "tools": tools, "stream": !case.manner.whole
    });
    let rules = softland_session::core::models::capability(None, case.rules());
    if case.manner.thinking && rules.thinking_adaptive {
        head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
    }
    if case.manner.cache {
        head["cache_control"] = json!({"type": "ephemeral"});
    }
    head
}

fn check_log(log: &str) {
    let mut runs: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        runs.entry(text("run")).or_default().push((line["seq"].as_u64().unwrap(), text("event")));
    }
    for (run, events) in runs {
        let names: Vec<&str> = events.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names.first(), Some(&"run_start"), "{run}: {names:?}");
        let starts = names.iter().filter(|name| **name == "run_start").count();
        assert_eq!(starts, 1, "{run}: {names:?}");
        let first_end = names.iter().position(|name| matches!(*name, "done" | "error"));
        assert!(first_end.is_none_or(|at| at + 1 == names.len()), "{run}: {names:?}");
        assert!(events.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{run}: {events:?}");
    }
}

/// Who only observes changes no byte in either direction, whatever the model does.
#[test]
fn who_only_observes_changes_no_byte() {
    for seed in 0..150 {
        let case = generate(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(observed(&case, seed));
    }
}

async fn observed(case: &Case, seed: u64) {
    let Some(Ask::Say(_, policy)) = case.asks.first() else { panic!("a case begins with an ask") };
    let policy = Policy { mode: Mode::Observe, ..Policy::clone(policy) };
    let mut sides = Vec::new();
    for observes in [true, false] {
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = case.manner.piece_bytes;
        config.aliases = case.aliases();
        let upstream = Simulated::of(config).await;
        let log = PathBuf::from("unused");
        let mut settings = Play::settings(&upstream, &policy, &log);
        settings.log.events = None;
        let gateway = Running::with(settings).await;
        let to = if observes { gateway.address.to_string() } else { upstream.url[7..].to_owned() };
        let mut said = Vec::new();
        let mut messages = vec![json!({"role": "user", "content": "What is it?"})];
        for _ in 0..6 {
            let mut body = head(case);
            body["messages"] = json!(messages);
            let body = body.to_string();
            let request = format!(
                "POST /v1/messages HTTP/1.1\r\nhost: {to}\r\nx-api-key: any\r\n\
                 anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut wire = support::Wire::to(to.parse().unwrap()).await;
            wire.send(request).await;
            let Some((status, bytes, whole)) = raw(&mut wire).await else { break };
            said.push((status, String::from_utf8(bytes.clone()).unwrap(), whole));
            if !whole || status != 200 {
                continue;
            }
            let ids: Vec<String> = ids(&bytes);
            if ids.is_empty() {
                break;
            }
            let calls = ids
                .iter()
                .map(|id| json!({"type": "tool_use", "id": id, "name": "grep", "input": {}}));
            let results = ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id}));
            let calls: Vec<Value> = calls.collect();
            let results: Vec<Value> = results.collect();
            messages.push(json!({"role": "assistant", "content": calls}));
            messages.push(json!({"role": "user", "content": results}));
        }
        sides.push((said, upstream.refused()));
    }
    // A message that broke off is no message: who waits for all of it is told so.
    let broke = |(status, _, whole): &(u16, String, bool)| !*whole || *status == 502;
    let whole = case.manner.whole;
    for side in &mut sides {
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.1.clear());
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.0 = 502);
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.2 = true);
    }
    assert_eq!(sides[0], sides[1], "seed {seed}: {policy:?}");
}

/// Status and body of a response, and whether it came to its end.
async fn raw(wire: &mut support::Wire) -> Option<(u16, Vec<u8>, bool)> {
    let head = wire.head().await?;
    let mut body = Vec::new();
    if head.header("transfer-encoding").is_some() {
        loop {
            match wire.chunk().await {
                None => return Some((head.status(), body, false)),
                Some(chunk) if chunk.is_empty() => return Some((head.status(), body, true)),
                Some(chunk) => body.extend(chunk),
            }
        }
    }
    let length: usize = head.header("content-length")?.parse().unwrap();
    while wire.read.len() < length && wire.more().await {}
    let whole = wire.read.len() >= length;
    body.append(&mut wire.read);
    Some((head.status(), body, whole))
}

/// Ids of the calls, wherever they stand.
fn ids(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut ids: Vec<String> = Vec::new();
    for part in text.split("\"id\":\"").skip(1) {
        let id = part.split('"').next().unwrap_or_default();
        if id.starts_with("toolu_") && !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}
