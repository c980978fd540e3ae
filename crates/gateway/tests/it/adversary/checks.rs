//! The checks that hold for every response, whatever the model, the policy and the client do.

use std::collections::BTreeMap;

use serde_json::Value;
use softland_session::core::models::find_model;
use softland_session::core::policy::Batch;
use softland_session::wire::Api;
use softland_sim::{Dialect, Fault, RefusalNote};

use super::play::Play;
use crate::adversary::hostile;
use crate::support::Message;
use crate::support::reading::{End, Response, read};

impl Play<'_> {
    pub(super) fn counts(&self, name: &str) -> bool {
        !self.policy.answer_tool.iter().any(|tool| tool == name)
    }

    pub(super) fn calls_so_far(&self) -> u64 {
        let run = self.messages.iter().skip(self.run_at);
        let calls = run.flat_map(|message| self.talk.calls_in(message));
        self.carried + calls.filter(|name| self.counts(name)).count() as u64
    }

    /// Returns true if the script lets the upstream fail.
    fn may_fail(&self, which: impl Fn(&Fault) -> bool) -> bool {
        // This one fails whatever calls what is not there, or writes no JSON.
        let strict = self.talk.rules().is_some_and(|rules| rules.dialect == Dialect::Groq);
        strict || self.case.turns.iter().filter_map(|turn| turn.fault.as_ref()).any(which)
    }

    /// Returns the content of a response; `None` if the request is to be sent again.
    pub(super) fn checked(&mut self, message: &Message, hidden: u64) -> Option<Response> {
        self.check_refused();
        if message.status() != 200 {
            return self.check_error(message);
        }
        let mut reply = read(message);
        if message.is_cut {
            let breaks = self.talk.api == Api::Chat && self.may_fail(cuts);
            assert!(breaks, "nobody broke it: {}", message.text());
            assert_eq!(reply.end, End::Cut, "it broke behind its end: {}", message.text());
            self.meet("broken stream");
            return None;
        }
        // A stream that lost its last line said how it finished: that is enough for clients.
        let finished = reply.end == End::Cut && !reply.stop.is_empty();
        if finished && self.talk.api == Api::Chat && self.may_fail(cuts) {
            reply.end = End::Whole;
        }
        if reply.end != End::Whole {
            let breaks = self.may_fail(|fault| !matches!(fault, Fault::Http { .. }));
            assert!(breaks, "nobody cut it: {}", message.text());
            assert_ne!(reply.end, End::Cut, "it ends without a word: {}", message.text());
            self.meet("broken stream");
            return None;
        }
        if hidden > 0 {
            self.meet("hidden requests");
            let calls = matches!(&*reply.stop, "tool_use" | "tool_calls");
            assert!(!calls || !reply.calls().is_empty(), "{}", message.text());
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
        assert!(body["error"]["message"].is_string(), "{body}");
        assert_eq!(body["type"] == "error", self.talk.api == Api::Anthropic, "{body}");
        if status == 400 && !body["error"]["code"].is_string() {
            // Its cost limit cannot be enforced.
            let unpriced = find_model(None, &self.case.model).is_none();
            let unpriced = unpriced && self.policy.cost_limit_usd.is_some();
            assert!(unpriced, "{body} {:?}", self.upstream.sim.stats().refusals);
            self.meet("unpriced");
        } else {
            assert!(self.may_fail(|_| true), "{status} {body}");
            self.meet("upstream error");
        }
        None
    }

    pub(super) fn check_refused(&self) {
        if self.case.rules_of.is_none() {
            // How much output a model has that no table knows is learned from its refusal.
            let most = find_model(None, &self.case.model).and_then(|model| model.max_output);
            let teaches = |note: &&RefusalNote| most.is_none() && note.message.contains("_tokens");
            let (taught, refused): (Vec<_>, Vec<_>) =
                self.upstream.sim.stats().refusals.into_iter().partition(|note| teaches(&note));
            assert!(taught.len() <= 2 * self.logs.len(), "taught too often: {taught:?}");
            assert!(refused.is_empty(), "refused: {refused:?}");
        }
    }

    fn check_blocks(&mut self, message: &Message, reply: &Response) {
        for block in &reply.content {
            if let Some(text) = block["text"].as_str().filter(|_| block["type"] == "text") {
                // Beside a call Chat Completions takes it.
                let beside = self.talk.api == Api::Chat && !reply.calls().is_empty();
                let paused = reply.stop == "pause_turn" || beside;
                assert!(paused || !text.trim().is_empty(), "a blank text: {}", message.text());
            }
            if block["type"] == "thinking" && self.talk.api != Api::Anthropic {
                self.meet("thinking");
            } else if block["type"] == "thinking" {
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

    /// Checks that the answer that ends a run is not empty.
    fn check_answer(&mut self, message: &Message, reply: &Response) {
        let text = reply.text();
        if text.contains("This answer is softland's") {
            self.meet("softland's answer");
        }
        assert!(!text.contains(hostile::THOUGHT), "a thought in an answer: {text}");
        if !reply.calls().is_empty() || !reply.is_natural() {
            return;
        }
        let landing = message.header("x-softland-phase") == Some("landing");
        // A second silence after the task's own final text is an end.
        let said = self.messages.iter().skip(self.run_at).any(|m| self.talk.is_said(m));
        assert!(!text.trim().is_empty() || (said && !landing), "no answer: {}", message.text());
        self.meet(if landing { "landing" } else { "answer" });
    }
}

fn cuts(fault: &Fault) -> bool {
    matches!(fault, Fault::Cut { .. })
}

/// An event log tells of each run once how it began and how it ended, and nothing behind that.
pub(super) fn check_log(log: &str) {
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
