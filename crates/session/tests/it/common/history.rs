//! The history that a client keeps, what it does to it, and how it writes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_core::policy::Policy;

use super::case::{Manner, Move};
use super::native;
use softland_wire::Api;

/// What clients write in the place of a result.
const CLEARED: &str = "[Old tool result content cleared]";
/// How a summary begins.
const SUMMARY: &str = "This session is being continued from a previous conversation that ran out \
                       of context. What was done:";

/// What a harness's own messages begin with.
const REMINDER: &str = "<system-reminder>";

pub(crate) struct History {
    api: Api,
    pub(crate) messages: Vec<Value>,
    pub(crate) runs: Vec<RunStart>,
    /// Characters of each result at first sight.
    chars: BTreeMap<String, u64>,
    /// How often it was compacted.
    summaries: u64,
    restyles: bool,
    notes: bool,
}

/// Where a run began.
pub(crate) struct RunStart {
    at: usize,
    /// The policy that it is pinned to.
    pub(crate) policy: Policy,
    /// When.
    pub(crate) asked_at: u64,
    /// Calls and characters from before its history was compacted.
    carried: (u64, u64),
}

impl History {
    pub(crate) fn new(api: Api, manner: &Manner, mid_system: bool) -> Self {
        let (messages, runs, chars) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (restyles, notes) = (manner.restyles, manner.notes && mid_system);
        Self { api, messages, runs, chars, summaries: 0, restyles, notes }
    }

    /// The run under way.
    pub(crate) fn run(&mut self) -> &mut RunStart {
        self.runs.last_mut().unwrap()
    }

    /// Somebody asks. Without an answer between, it is more of the same question.
    pub(crate) fn say(&mut self, text: &str, policy: &Policy, now: u64) {
        let at = self.messages.len();
        let reminds = |message: &Value| {
            message["content"].as_str().is_some_and(|text| text.starts_with(REMINDER))
        };
        let last = self.messages.iter().rev().find(|message| !reminds(message));
        if last.is_none_or(native::is_models) {
            let (policy, carried) = (policy.clone(), (0, 0));
            self.runs.push(RunStart { at, policy, asked_at: now, carried });
        }
        self.messages.push(json!({"role": "user", "content": text}));
    }

    /// The harness speaks.
    pub(crate) fn remind(&mut self, text: &str) {
        let text = format!("{REMINDER}{text}</system-reminder>");
        self.messages.push(json!({"role": "user", "content": text}));
    }

    /// Goes back to before a question, so many of them back; false where there is none.
    pub(crate) fn fork(&mut self, back: u64) -> bool {
        let Some(index) = self.runs.len().checked_sub(1 + back as usize) else { return false };
        self.messages.truncate(self.runs[index].at);
        self.runs.truncate(index);
        true
    }

    /// Makes a move of the client's; false where there is nothing to move.
    pub(crate) fn make(&mut self, made: Move, policy: &Policy) -> bool {
        match made {
            Move::Rewind => self.rewind(),
            Move::Compact => {
                let (calls, chars) = self.used(true);
                let at = self.run().asked_at;
                self.summaries += 1;
                let summary = format!("{SUMMARY} {calls} calls ({}).", self.summaries);
                self.messages = vec![json!({"role": "user", "content": summary})];
                let (policy, carried) = (policy.clone(), (calls, chars));
                self.runs = vec![RunStart { at: 0, policy, asked_at: at, carried }];
                true
            }
            Move::Clear => self.clear(true),
        }
    }

    fn rewind(&mut self) -> bool {
        let at = self.runs.last().unwrap().at;
        let older = self.messages.len() - 1;
        let ends = |n: &usize| {
            let (message, next) = (&self.messages[*n], &self.messages[*n + 1]);
            message["role"] == "user" || (native::is_results(message) && !native::is_results(next))
        };
        let rounds: Vec<usize> = (at..older).filter(ends).collect();
        let Some(to) = rounds.get(rounds.len() / 2) else { return false };
        self.messages.truncate(to + 1);
        true
    }

    /// Whether a result in it is cleared.
    pub(crate) fn is_cleared(&self) -> bool {
        let mut results = self.messages.iter().flat_map(native::results_of);
        results.any(|(_, content)| content == CLEARED)
    }

    /// Clears every result but those of the newest round; of all, if there is no round `kept`.
    pub(crate) fn clear(&mut self, kept: bool) -> bool {
        let newest = if kept { self.newest_round() } else { 0 };
        let older = self.messages.len().saturating_sub(newest);
        let mut any = false;
        for content in self.messages[..older].iter_mut().flat_map(native::results_mut) {
            *content = json!(CLEARED);
            any = true;
        }
        any
    }

    /// How many of the last messages hold the newest results, or whatever is newest.
    fn newest_round(&self) -> usize {
        let newest = self.messages.iter().rev().take_while(|message| native::is_results(message));
        newest.count().max(1)
    }

    /// Drops all thinking so far. DeepSeek's, which is in the open, has to stay.
    pub(crate) fn forget(&mut self) {
        let items = self.api == Api::Responses;
        if items {
            let kept = |n: usize| {
                let older = self.messages[..n].iter();
                older.filter(|message| message["type"] != "reasoning").count()
            };
            let starts: Vec<usize> = self.runs.iter().map(|run| kept(run.at)).collect();
            for (run, at) in self.runs.iter_mut().zip(starts) {
                run.at = at;
            }
            self.messages.retain(|message| message["type"] != "reasoning");
        }
        for message in &mut self.messages {
            if let Some(members) = message.as_object_mut().filter(|_| self.api != Api::Anthropic) {
                for key in ["reasoning", "reasoning_details"] {
                    members.remove(key);
                }
                if items {
                    // The item's own id is nothing without its reasoning.
                    members.remove("id");
                }
            }
            let Some(blocks) = message["content"].as_array_mut() else { continue };
            let speaks = |block: &Value| !block["type"].as_str().unwrap().ends_with("thinking");
            if blocks.iter().any(speaks) {
                blocks.retain(speaks);
            }
        }
    }

    /// The store has forgotten everything: the runs are pinned anew, and nothing is carried.
    pub(crate) fn unpin(&mut self, policy: &Policy) {
        for run in &mut self.runs {
            run.policy.clone_from(policy);
            run.carried = (0, 0);
        }
    }

    /// Results come in.
    pub(crate) fn results(&mut self, results: Vec<Value>) {
        for (id, content) in results.iter().flat_map(native::results_of) {
            let chars = native::text_of(content).chars().count() as u64;
            self.chars.insert(id.to_owned(), chars);
        }
        self.messages.extend(results);
    }

    /// Calls of the run, and characters of their results; with `older`, without those of the newest
    /// round.
    pub(crate) fn used(&self, older: bool) -> (u64, u64) {
        let run = self.runs.last().unwrap();
        let (mut calls, mut chars) = run.carried;
        let of_run = &self.messages[run.at..];
        let answers = |name: &str| run.policy.answer_tool.iter().any(|tool| tool == name);
        let all = || of_run.iter().flat_map(native::calls);
        let answered: Vec<&str> = all().filter(|(_, name)| answers(name)).map(|c| c.0).collect();
        calls += all().filter(|(_, name)| !answers(name)).count() as u64;
        let newest = if older { self.newest_round() } else { 0 };
        let before = of_run.len().saturating_sub(newest);
        for (id, _) in of_run[..before].iter().flat_map(native::results_of) {
            if !answered.contains(&id) {
                chars += self.chars.get(id).copied().unwrap_or(0);
            }
        }
        (calls, chars)
    }

    /// The messages as they are sent now.
    pub(crate) fn written(&self) -> Vec<Value> {
        let mut written = Vec::new();
        for (n, message) in self.messages.iter().enumerate() {
            let next = self.messages.get(n + 1);
            let mut message = message.clone();
            if self.restyles && next.is_none() && message["role"] == "user" {
                restyle(self.api, &mut message["content"]);
            }
            let told = message["role"] == "user" || native::is_results(&message);
            written.push(message);
            let fits = next.is_none_or(native::is_models);
            if self.notes && told && fits && n % 3 != 1 {
                written.push(json!({"role": "system", "content": format!("It is {n} o'clock.")}));
            }
        }
        written
    }
}

/// A text as a list, with Anthropic's cache mark on the last block.
fn restyle(api: Api, content: &mut Value) {
    if let Some(text) = content.as_str() {
        *content = json!([native::part(api, text)]);
    }
    if let Some(last) = content.as_array_mut().and_then(|blocks| blocks.last_mut())
        && api == Api::Anthropic
    {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// The calls of a turn behind its texts.
pub(crate) fn reorder(content: &mut [Value]) -> bool {
    let before = content.to_vec();
    content.sort_by_key(|block| block["type"] == "tool_use");
    before != content
}
