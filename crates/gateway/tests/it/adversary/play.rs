//! One case: a client with a history of its own, a provider with a hostile model, and between them
//! a gateway that may be replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use softland_gateway::{Clock, Settings};
use softland_session::core::policy::Policy;
use softland_session::wire::Api;
use softland_sim::{Config, Scenario};

use super::checks::check_log;
use super::talk::{self, Talk};
use crate::adversary::case::{Ask, Case};
use crate::adversary::hostile::Dice;
use crate::adversary::seeds::{Met, tells};
use crate::support::reading::Response;
use crate::support::sim::Simulated;
use crate::support::{self, Message, Running};

/// Client requests of a case at most.
const REQUESTS: u64 = 30;

/// Whoever asks a question has read the answer before it, which takes so long, in milliseconds.
const READING: u64 = 5_000;

/// An action of a client beside its next request.
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
pub(crate) struct Play<'a> {
    pub(super) case: &'a Case,
    pub(super) talk: Talk<'a>,
    /// True if gateways are replaced in this case.
    pub(super) replaces: bool,
    pub(super) upstream: Simulated,
    pub(super) gateway: Running,
    pub(super) folder: tempfile::TempDir,
    pub(super) logs: Vec<PathBuf>,
    /// The milliseconds by which the gateways' clock is ahead of the real one.
    ahead: Arc<AtomicU64>,
    pub(super) headers: Vec<String>,
    pub(super) named: bool,
    pub(super) head: Value,
    pub(super) messages: Vec<Value>,
    /// The position of the running run's human message.
    pub(super) run_at: usize,
    /// Calls of the run before its history was compacted.
    pub(super) carried: u64,
    pub(super) policy: Policy,
    /// A tail stands in the history that only the store knows.
    pub(super) tail: bool,
    pub(super) met: Met,
}

impl<'a> Play<'a> {
    pub(crate) async fn new(case: &'a Case) -> Self {
        let plan = case.manner.plan;
        let mut dice = Dice::new(plan);
        let talk = Talk::of(case);
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = case.manner.piece_bytes;
        config.aliases = talk::aliases(case);
        let upstream = Simulated::of(config).await;
        let folder = tempfile::tempdir().unwrap();
        let mut headers: Vec<String> = talk.headers().iter().copied().map(str::to_owned).collect();
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
        let ahead = Arc::default();
        let settings = Self::settings(&upstream, &policy, &log);
        let gateway = Running::with_clock(settings, clock(&ahead)).await;
        Self {
            case,
            talk,
            replaces,
            upstream,
            gateway,
            logs: vec![log],
            ahead,
            folder,
            headers,
            named: !name.is_empty(),
            head: talk.head(),
            messages: Vec::new(),
            run_at: 0,
            carried: 0,
            policy,
            tail: false,
            met: Met::new(),
        }
    }

    pub(super) fn settings(upstream: &Simulated, policy: &Policy, log: &Path) -> Settings {
        let mut settings = support::settings(&upstream.url);
        settings.policies.insert("default".to_owned(), policy.clone());
        settings.log.events = Some(log.to_owned());
        settings
    }

    pub(super) fn meet(&mut self, what: &str) {
        self.met.insert(what.to_owned());
    }

    pub(crate) async fn all(&mut self) {
        let mut asks = self.case.asks.iter();
        self.ask(asks.next().unwrap());
        for request in 0..REQUESTS {
            let whim = self.whim(request);
            self.follow(whim, request).await;
            let before = self.upstream.sim.stats().responses;
            let message = self.post().await;
            if tells() {
                let calls = message.header("x-softland-tool-calls");
                println!("{request} {whim:?}: {} {calls:?}\n{}\n", message.line, message.text());
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
        if self.case.manner.plan == 0 {
            return Whim::None;
        }
        let mut dice = Dice::new(self.case.manner.plan.wrapping_mul(31).wrapping_add(request));
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
                let at = self.places();
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

    /// Returns the positions at which the run's history could end so that the model is next.
    fn places(&self) -> Vec<usize> {
        let clients = |at: usize| self.messages.get(at).is_some_and(|m| self.talk.is_clients(m));
        let later = self.run_at + 1..self.messages.len();
        later.filter(|at| clients(*at) && !clients(at + 1)).collect()
    }

    /// The same history with other results, asked once.
    async fn fork(&mut self) {
        let kept = self.messages.clone();
        let talk = self.talk;
        let newest = self.messages.iter_mut().rev().take_while(|message| talk.is_clients(message));
        let changed = newest.filter_map(|message| talk.change_results(message).then_some(()));
        if kept.len() < 2 || changed.count() == 0 {
            self.messages = kept;
            return;
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
        self.gateway = Running::with_clock(settings, clock(&self.ahead)).await;
        self.logs.push(log);
        self.meet("replaced");
    }

    fn ask(&mut self, ask: &Ask) {
        match ask {
            Ask::Say(text, policy) => {
                let first = self.messages.is_empty();
                self.ahead.fetch_add(READING, Ordering::SeqCst);
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
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let body = self.talk.body(&self.head, &self.messages);
        self.gateway.request(&format!("POST {}", self.talk.path()), &headers, &body)
    }

    async fn post(&self) -> Message {
        self.gateway.ask_for_part(self.request()).await
    }

    /// Takes a turn with calls, and runs them; false where there are none to run.
    fn goes_on(&mut self, reply: &Response) -> bool {
        let calls = reply.calls();
        let delivers = calls.iter().any(|(_, name, _)| !self.counts(name));
        if calls.is_empty() || delivers {
            return false;
        }
        self.messages.extend(self.talk.turn(reply));
        self.messages.extend(self.talk.results(reply));
        true
    }

    /// Takes an answer; false where the conversation cannot go on.
    fn adopt(&mut self, reply: &Response) -> bool {
        let says = !reply.text().is_empty() || !reply.calls().is_empty();
        let says = says || self.talk.api == Api::Anthropic && !reply.content.is_empty();
        if !says || !reply.is_natural() {
            return false;
        }
        self.messages.extend(self.talk.turn(reply));
        let told = self.talk.told(reply, "Delivered.");
        if !told.is_empty() {
            self.messages.extend(told);
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

/// A clock that goes as time does, and is ahead of it.
fn clock(ahead: &Arc<AtomicU64>) -> Clock {
    let (ahead, began) = (Arc::clone(ahead), Instant::now());
    Arc::new(move || {
        let passed = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
        1_790_000_000_000 + passed + ahead.load(Ordering::SeqCst)
    })
}
