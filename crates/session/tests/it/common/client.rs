//! A client that knows nothing of softland, and a gateway of which nothing is left between two
//! requests but its store. The client keeps its history as JSON, reads responses with its own small
//! reader, runs its tools, and sends everything again.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{
    Because, Facts, Millis, NanoUsd, Outcome, Quantity, Reason, RequestFailure, Role, Rung, Signal,
};
use softland_session::{
    Context, Event, Exchange, Intervention, OpenedRequest, Outline, Output, Step,
};
use softland_sim::{Binding, Body, Config, Piece, Request, Scenario, Sim};
use softland_wire::{Api, request};

use super::case::{Ask, Case, Manner, Move};
use super::history::{History, reorder};
use super::hostile;
use super::prefix::{Prefixes, assert_head_kept, messages, text_of};
use super::store::Store;
use super::{native, openai, reading};

pub(crate) struct Client {
    pub(crate) sim: Sim,
    pub(crate) policy: Policy,
    pub(crate) seen: BTreeSet<String>,
    pub(crate) history: History,
    case: Case,
    manner: Manner,
    head: Value,
    store: Store,
    prefixes: Prefixes,
    /// Whether the store was lost, and whether results were cleared that it knew.
    pub(crate) emptied: bool,
    pub(crate) blind: bool,
    /// A stream of the request under way was cut, perhaps behind its `finish_reason`.
    unended: bool,
    /// Requests of the client so far.
    requests: u64,
    now: u64,
}

/// What came back for one client request.
pub(crate) struct Reply {
    pub(crate) sent: Vec<u8>,
    pub(crate) governed: Vec<u8>,
    pub(crate) upstream: Vec<Vec<u8>>,
    /// The rungs of the requests that the provider refused, and why.
    pub(crate) refused: Vec<(Option<Rung>, String)>,
    api: Api,
    pub(crate) content: Vec<Value>,
    /// The same as it goes back into the history of OpenAI's protocols.
    items: Vec<Value>,
    pub(crate) stop: String,
    pub(crate) whole: bool,
    pub(crate) outcome: Option<Outcome>,
    /// It ended at a limit.
    pub(crate) at_limit: bool,
    /// Calls and result characters of the run before this turn, as the session counts them.
    pub(crate) used: (u64, u64),
    pub(crate) calls: Vec<(String, String, Value)>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}, {}, whole: {}", self.outcome, self.stop, self.whole)?;
        writeln!(f, "content: {}", Value::Array(self.content.clone()))?;
        for body in &self.upstream {
            writeln!(f, "upstream: {}", text_of(messages(self.api, body)))?;
        }
        Ok(())
    }
}

impl Reply {
    /// The calls that are the client's to run, all but the answer.
    pub(crate) fn counted_calls(&self, policy: &Policy) -> u64 {
        let answers = |name: &str| policy.answer_tool.iter().any(|tool| tool == name);
        self.calls.iter().filter(|(_, name, _)| !answers(name)).count() as u64
    }
}

impl Client {
    pub(crate) fn new(case: &Case) -> Self {
        let manner = case.manner.clone();
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = manner.piece_bytes;
        config.aliases = native::aliases(case);
        if manner.unbound {
            config.binding = Binding::Never;
        }
        let known = native::known(case);
        Self {
            sim: Sim::new(config),
            policy: Policy::default(),
            seen: BTreeSet::new(),
            history: History::new(
                case.api,
                &manner,
                known.mid_system || case.api != Api::Anthropic,
            ),
            case: case.clone(),
            manner,
            head: native::head(case),
            store: Store::default(),
            prefixes: Prefixes::new(case.api),
            emptied: false,
            blind: false,
            unended: false,
            requests: 0,
            now: 0,
        }
    }

    /// Somebody asks, or the harness speaks.
    pub(crate) fn ask(&mut self, ask: &Ask) {
        let (text, policy) = match ask {
            Ask::Say(text, policy) => (text, policy),
            Ask::Fork(back, text, policy) => {
                if self.history.fork(*back) {
                    self.prefixes.truncate(self.history.messages.len());
                    self.seen.insert("forked".to_owned());
                }
                (text, policy)
            }
            Ask::Remind(text) => {
                self.seen.insert("went on".to_owned());
                self.history.remind(text);
                return;
            }
        };
        let ended = self.history.messages.last().is_some_and(native::is_models);
        if self.manner.forgets && ended {
            self.history.forget();
            if self.history.clear(false) {
                self.seen.insert("cleared".to_owned());
            }
            self.prefixes.forget(!self.emptied);
        }
        self.policy = Policy::clone(policy);
        let n = self.requests;
        self.history.say(&format!("{text} ({n})"), policy, self.now);
    }

    /// Does something to the history.
    pub(crate) fn make(&mut self, made: Move) {
        if self.history.make(made, &self.policy) {
            let (word, edits) = match made {
                Move::Rewind => ("rewound", false),
                Move::Compact => ("compacted", true),
                Move::Clear => ("cleared", true),
            };
            self.seen.insert(word.to_owned());
            self.prefixes.truncate(self.history.messages.len());
            if edits {
                self.prefixes.forget(!self.emptied);
            }
        }
    }

    /// The store is lost, and so is what only it knows.
    pub(crate) fn empty_store(&mut self) {
        self.store = Store::default();
        self.emptied = true;
        self.history.unpin(&self.policy);
        self.prefixes = Prefixes::new(self.case.api);
        self.seen.insert("emptied".to_owned());
    }

    pub(crate) fn resent(&mut self) {
        self.seen.insert("resent".to_owned());
    }

    fn body(&self) -> Vec<u8> {
        let mut body = self.head.to_string();
        body.pop();
        let messages = Value::Array(self.history.written());
        let member = native::member(self.case.api);
        format!(r#"{body},"{member}":{messages}}}"#).into_bytes()
    }

    fn facts(&mut self, refusals: u64) -> Facts {
        let spent = self.now - self.history.run().asked_at;
        Facts {
            tokens: spent / 2,
            cost: NanoUsd(spent * 60_000),
            session_cost: NanoUsd(self.now * 60_000),
            elapsed: Millis(spent * 3),
            next_input: 400,
            next_input_cost: NanoUsd(100_000),
            reserve_input_cost: NanoUsd(100_000),
            output_pico: 15_000,
            stale: self.manner.vain.get(&self.requests).copied().unwrap_or(0),
            tool_refusals: refusals,
            ..Facts::default()
        }
    }

    /// One request through the session.
    pub(crate) fn turn(&mut self) -> Reply {
        self.blind |= self.emptied && self.history.is_cleared();
        let sent = self.body();
        let api = self.case.api;
        let request = request::Request::from_body(api, &sent).unwrap();
        let outline = Outline::from_request(&request);
        let (provider, model) = native::names(&self.case);
        let mut context = Context::new(Role::Gateway, self.policy.clone(), provider, model);
        context.api = api;
        context.records = self.store.records();
        let remembered = self.store.remembered(&outline);
        let opened =
            OpenedRequest::read_history(&request, sent.clone().into(), context, remembered);
        let run = opened.newest_position().map(|here| here.run);
        let facts = self.facts(self.store.refusals(run));
        let mut out = Output::default();
        let mut exchange = opened.into_exchange(&facts, &mut out);
        let governed = exchange.governed_body();
        let used = exchange.run().used();
        let used = (used.calls, used.result_chars);
        let mut upstream: Vec<Vec<u8>> = Vec::new();
        self.unended = false;
        let mut refused = Vec::new();
        let done = loop {
            match exchange.next_step().unwrap() {
                Step::Done(done) => break done,
                Step::Send(body) => {
                    let rung = exchange.rung();
                    assert_head_kept(&sent, &body, rung);
                    let first = upstream.is_empty();
                    upstream.push(body.to_vec());
                    let before = self.sim.stats().refusals.len();
                    self.post(&mut exchange, &body, first, &mut out);
                    // A 400 of Groq's may be the model's fault, and is no refusal.
                    let refusals = self.sim.stats().refusals;
                    refused.extend(refusals.iter().skip(before).map(|r| (rung, r.message.clone())));
                }
            }
        };
        let bodies = (sent.as_slice(), &governed[..], upstream.last().map(Vec::as_slice));
        let again = self.prefixes.turn(self.history.messages.len(), bodies, &done);
        self.seen.extend(again.into_iter().map(str::to_owned));
        self.store.keep(&done, run, &outline);
        self.note(&out, done.ended.as_ref());
        if out.bytes.windows(13).any(|part| part == b"event: error\n") {
            self.seen.insert("error told".to_owned());
        }
        if super::seeds::tells() {
            println!("{}", String::from_utf8_lossy(&out.bytes));
        }
        let reading::Response { content, stop, whole, calls, items } =
            openai::read(api, &out.bytes, !self.manner.whole);
        let ends = api != Api::Chat || self.manner.whole || out.bytes.ends_with(openai::DONE);
        let outcome = done.ended.as_ref().map(|ended| ended.outcome);
        let failed = outcome == Some(Outcome::Failed);
        assert!(ends || failed || !whole || self.unended, "what ends says so");
        let at_limit = done.ended.as_ref().is_some_and(|ended| ended.limit.is_some());
        self.requests += 1;
        Reply {
            sent: sent.clone(),
            governed: governed.to_vec(),
            upstream,
            refused,
            api,
            content,
            items,
            stop,
            whole,
            outcome,
            at_limit,
            used,
            calls,
        }
    }

    /// Sends one request and feeds the exchange with what comes back.
    fn post(&mut self, exchange: &mut Exchange, body: &[u8], first: bool, out: &mut Output) {
        self.now += 1000;
        let api = self.case.api;
        let (path, headers) = (native::path(api), native::headers(api));
        let request = Request { method: "POST", path, headers: &headers, body };
        let response = self.sim.respond(self.now, &request);
        if response.status != 200 {
            exchange.fail_request(RequestFailure::Provider, out);
            return;
        }
        self.unended |= api == Api::Chat && !response.collect_bytes().0.ends_with(openai::DONE);
        if api == Api::Anthropic {
            let way = reading::way_of_being_empty(&response.collect_bytes().0, !self.manner.whole);
            self.seen.extend(way.map(str::to_owned));
        }
        // What is only observed has no limit to reach.
        let limited = first && !exchange.run().policy().is_observing();
        let expires = self.manner.expires.get(&self.requests).filter(|_| limited);
        let taken = match response.body {
            Body::Whole { .. } if expires.is_some() => None,
            Body::Whole { bytes, .. } => Some(exchange.push_whole(&bytes, out).is_ok()),
            Body::Stream(chunks) => {
                let most = expires.map_or(usize::MAX, |after| *after as usize);
                let pushed = chunks.iter().take(most).all(|chunk| match &chunk.piece {
                    Piece::Bytes(bytes) => exchange.push_bytes(bytes, out).is_ok(),
                    Piece::Cut => true,
                });
                expires.is_none().then(|| pushed && exchange.finish_response(out).is_ok())
            }
        };
        match taken {
            Some(true) => {}
            Some(false) => exchange.fail_request(RequestFailure::Provider, out),
            None => {
                self.seen.insert("expired".to_owned());
                let (used, limit) =
                    (Quantity::Time(Millis(60_000)), Quantity::Time(Millis(60_000)));
                exchange.land_at_limit(Because::new(Reason::Time, used, limit), out);
            }
        }
    }

    /// Keeps a response in the history, as clients do.
    pub(crate) fn adopt(&mut self, reply: &Reply) {
        // Who drops thinking has nothing to keep of a turn that is nothing else; and of OpenAI's
        // protocols none takes it back alone.
        let drops = self.manner.forgets || self.case.api != Api::Anthropic;
        if reply.content.is_empty() || (drops && reply.content.iter().all(thinks)) {
            return;
        }
        let mut content = reply.content.clone();
        if self.manner.reorders && self.case.api == Api::Anthropic && reorder(&mut content) {
            self.seen.insert("reordered".to_owned());
        }
        self.prefixes.adopted();
        let turn = match self.case.api {
            Api::Anthropic => vec![json!({"role": "assistant", "content": content})],
            Api::Chat => reply.items.clone(),
            Api::Responses => {
                // The API takes no reasoning back that nothing follows, though its model's end.
                let mut items = reply.items.clone();
                let last = items.iter().rposition(|item| item["type"] != "reasoning");
                items.truncate(last.map_or(0, |last| last + 1));
                items
            }
        };
        self.history.messages.extend(turn);
        if reply.outcome.is_some() && !reply.calls.is_empty() {
            // The answer came as a tool's call: it is taken, and told so.
            let told = reply.calls.iter().map(|(id, ..)| (id.clone(), json!("Delivered."), false));
            self.history.results(native::results(self.case.api, told.collect()));
            let thanks = json!({"role": "assistant", "content": "It is delivered."});
            self.history.messages.push(thanks);
        }
    }

    /// Runs the calls.
    pub(crate) fn run_tools(&mut self, reply: &Reply) {
        let api = self.case.api;
        let answers = reply.calls.iter().enumerate().map(|(n, (id, name, input))| {
            let (text, failed) = hostile::tool_result(name, &input.to_string(), n as u64 * 7 + 1);
            let part = |text: &str| native::part(api, text);
            // A Claude takes no blank text, whoever serves it.
            let claude = api == Api::Chat && self.case.rules().contains("claude");
            let text = if claude && text.is_empty() { "(nothing)".to_owned() } else { text };
            let content = match self.manner.shape {
                0 if text.is_empty() && api == Api::Anthropic => json!([]),
                0 if !text.is_empty() => json!([part(&text)]),
                1 if !text.is_empty() => json!([part("one"), part(&text)]),
                _ => json!(text),
            };
            (id.clone(), content, failed)
        });
        self.history.results(native::results(api, answers.collect()));
    }

    fn note(&mut self, out: &Output, ended: Option<&softland_core::RunEnding>) {
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

/// Whether a block is thinking.
fn thinks(block: &Value) -> bool {
    let kind = block["type"].as_str().unwrap();
    kind == "reasoning" || kind.ends_with("thinking")
}
