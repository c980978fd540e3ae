//! The history that a client keeps, what it does to it, and how it writes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_core::policy::Policy;

use super::case::{Manner, Move};

/// What clients write in the place of a result.
const CLEARED: &str = "[Old tool result content cleared]";
/// How a summary begins.
const SUMMARY: &str = "This session is being continued from a previous conversation that ran out \
                       of context. What was done:";

/// What a harness's own messages begin with.
const REMINDER: &str = "<system-reminder>";

pub(crate) struct History {
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
    pub(crate) fn new(manner: &Manner, mid_system: bool) -> Self {
        let (messages, runs, chars) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (restyles, notes) = (manner.restyles, manner.notes && mid_system);
        Self { messages, runs, chars, summaries: 0, restyles, notes }
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
        if last.is_none_or(|message| message["role"] == "assistant") {
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
                let (calls, chars) = self.used(1);
                let at = self.run().asked_at;
                self.summaries += 1;
                let summary = format!("{SUMMARY} {calls} calls ({}).", self.summaries);
                self.messages = vec![json!({"role": "user", "content": summary})];
                let (policy, carried) = (policy.clone(), (calls, chars));
                self.runs = vec![RunStart { at: 0, policy, asked_at: at, carried }];
                true
            }
            Move::Clear => self.clear(1),
        }
    }

    fn rewind(&mut self) -> bool {
        let at = self.runs.last().unwrap().at;
        let older = self.messages.len() - 1;
        let rounds: Vec<usize> =
            (at..older).filter(|n| self.messages[*n]["role"] == "user").collect();
        let Some(to) = rounds.get(rounds.len() / 2) else { return false };
        self.messages.truncate(to + 1);
        true
    }

    /// Whether a result in it is cleared.
    pub(crate) fn is_cleared(&self) -> bool {
        self.blocks(0, "tool_result").any(|block| block["content"] == CLEARED)
    }

    /// Clears every result but those of the newest messages.
    pub(crate) fn clear(&mut self, newest: usize) -> bool {
        let older = self.messages.len().saturating_sub(newest);
        let mut any = false;
        for message in &mut self.messages[..older] {
            let Some(blocks) = message["content"].as_array_mut() else { continue };
            for block in blocks.iter_mut().filter(|block| block["type"] == "tool_result") {
                block["content"] = json!(CLEARED);
                any = true;
            }
        }
        any
    }

    /// Drops all thinking so far.
    pub(crate) fn forget(&mut self) {
        for message in &mut self.messages {
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
        for result in &results {
            let id = result["tool_use_id"].as_str().unwrap().to_owned();
            let count = |text: &Value| text.as_str().unwrap_or_default().chars().count() as u64;
            let parts = result["content"].as_array();
            let chars = parts.map_or_else(
                || count(&result["content"]),
                |parts| parts.iter().map(|part| count(&part["text"])).sum(),
            );
            self.chars.insert(id, chars);
        }
        self.messages.push(json!({"role": "user", "content": results}));
    }

    /// Calls of the run, and characters of their results, those of the newest `without` messages
    /// apart.
    pub(crate) fn used(&self, without: usize) -> (u64, u64) {
        let run = self.runs.last().unwrap();
        let (mut calls, mut chars) = run.carried;
        let answers = |block: &Value| run.policy.answer_tool.as_deref() == block["name"].as_str();
        let answered: Vec<&str> = self
            .blocks(run.at, "tool_use")
            .filter(|b| answers(b))
            .map(|b| b["id"].as_str().unwrap())
            .collect();
        calls += self.blocks(run.at, "tool_use").filter(|block| !answers(block)).count() as u64;
        let newest = self.messages.len() - without;
        let late: Vec<&Value> = self.blocks(newest.max(run.at), "tool_result").collect();
        for result in self.blocks(run.at, "tool_result").filter(|result| !late.contains(result)) {
            let id = result["tool_use_id"].as_str().unwrap();
            if !answered.contains(&id) {
                chars += self.chars.get(id).copied().unwrap_or(0);
            }
        }
        (calls, chars)
    }

    fn blocks<'h>(&'h self, from: usize, kind: &'h str) -> impl Iterator<Item = &'h Value> {
        let messages = self.messages[from..].iter();
        let blocks = messages.flat_map(|message| message["content"].as_array()).flatten();
        blocks.filter(move |block| block["type"] == kind)
    }

    /// The messages as they are sent now.
    pub(crate) fn written(&self) -> Vec<Value> {
        let mut written = Vec::new();
        for (n, message) in self.messages.iter().enumerate() {
            let next = self.messages.get(n + 1);
            let mut message = message.clone();
            if self.restyles && next.is_none() {
                restyle(&mut message["content"]);
            }
            let user = message["role"] == "user";
            written.push(message);
            let fits = next.is_none_or(|next| next["role"] == "assistant");
            if self.notes && user && fits && n % 3 != 1 {
                written.push(json!({"role": "system", "content": format!("It is {n} o'clock.")}));
            }
        }
        written
    }
}

/// A text as a list, with a cache mark on the last block.
fn restyle(content: &mut Value) {
    if let Some(text) = content.as_str() {
        *content = json!([{"type": "text", "text": text}]);
    }
    if let Some(last) = content.as_array_mut().and_then(|blocks| blocks.last_mut()) {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// The calls of a turn behind its texts.
pub(crate) fn reorder(content: &mut [Value]) -> bool {
    let before = content.to_vec();
    content.sort_by_key(|block| block["type"] == "tool_use");
    before != content
}
