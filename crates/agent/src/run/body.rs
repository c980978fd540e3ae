//! The conversation that an agent owns, and the request bodies made of it.
//!
//! Messages are kept as JSON and only ever appended, so that every request begins with the bytes
//! of the one before it: prompt caches and signed thinking depend on that.

use std::sync::Arc;
use std::sync::Mutex;

use serde_json::{Value, json};
use softland_session::Pending;
use softland_session::core::models::capability::Thinking;
use softland_session::core::{Admission, Digest, NanoUsd, lines};

use super::{Records, UnderWay};

/// What stands in the place of an answer that a run did not come to.
const INTERRUPTED: &str = "[interrupted before an answer]";
/// Output tokens of a request where nothing else is said.
const MAX_TOKENS: u64 = 16_000;

/// The messages of an agent, run after run.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Vec<Vec<u8>>,
    records: Records,
    cost: NanoUsd,
    ends_with_model: bool,
    inbox: Inbox,
    /// Digest of the system prompt and tools that the messages were made under.
    head: Option<Digest>,
}

/// Messages for a run that is under way.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<Vec<String>>>);

impl Inbox {
    /// Says something to the run: it is delivered with the results of the round under way, after
    /// them, and only steers; what is still here when the run ends opens the next one.
    pub fn say(&self, text: impl Into<String>) {
        self.lock().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Conversation {
    /// A conversation without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A way to speak to the run that is under way.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// The messages, each a JSON object in the provider's form.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(Vec::as_slice)
    }

    pub(super) fn session_cost(&self) -> NanoUsd {
        self.cost
    }

    pub(super) fn charge(&mut self, cost: NanoUsd) {
        self.cost += cost;
    }

    pub(super) fn records(&self) -> Records {
        self.records.clone()
    }

    /// Opens a run. Where the run before it came to no answer, a marker stands for that, so that
    /// the question does not read as text after tool results.
    pub(super) fn ask(&mut self, prompt: &str) {
        if !self.messages.is_empty() && !self.ends_with_model {
            self.push(&json!({"role": "assistant", "content": INTERRUPTED}));
        }
        let mut texts = self.inbox.take();
        texts.push(prompt.to_owned());
        texts.retain(|text| !text.trim().is_empty());
        if texts.is_empty() {
            texts.push("(no question)".to_owned());
        }
        let blocks: Vec<Value> =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        self.push(&json!({"role": "user", "content": blocks}));
        self.ends_with_model = false;
    }

    pub(super) fn extend(&mut self, messages: Vec<Vec<u8>>, records: Records) {
        self.ends_with_model |= !messages.is_empty();
        self.messages.extend(messages);
        self.records = records;
    }

    /// What the model is shown before the messages has changed: thinking that is signed over it
    /// can no longer be verified and is left out, which the API allows from the beginning on.
    pub(super) fn shown_before(&mut self, head: &Value, bound: bool) {
        let head = Digest::of(head.to_string().as_bytes());
        if bound && self.head.is_some_and(|known| known != head) {
            self.messages.iter_mut().for_each(drop_thinking);
        }
        self.head = Some(head);
    }

    /// Answers a round: (id, text, failed), in order, and then whatever was said meanwhile.
    pub(super) fn answer(&mut self, results: &[(String, String, bool)]) {
        let results = results.iter().map(|(id, content, failed)| {
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            if *failed {
                result["is_error"] = Value::Bool(true);
            }
            result
        });
        let said = self.inbox.take().into_iter().filter(|text| !text.trim().is_empty());
        let said = said.map(|text| json!({"type": "text", "text": text}));
        let blocks: Vec<Value> = results.chain(said).collect();
        self.push(&json!({"role": "user", "content": blocks}));
        self.ends_with_model = false;
    }

    /// Answers the calls of a turn that was the answer itself, so that a later question finds no
    /// call open.
    pub(super) fn close_answer(&mut self, calls: &[Pending], answer: &str) {
        let told = |call: &Pending| match call.admission {
            Admission::Answer => (call.id.clone(), "Delivered.".to_owned(), false),
            _ => (call.id.clone(), "Not run: the answer was given beside it.".to_owned(), true),
        };
        let results: Vec<_> = calls.iter().map(told).collect();
        self.answer(&results);
        let text = if answer.trim().is_empty() { "(delivered)" } else { answer };
        self.push(&json!({"role": "assistant", "content": text}));
        self.ends_with_model = true;
    }

    fn push(&mut self, message: &Value) {
        self.messages.push(message.to_string().into_bytes());
    }
}

fn drop_thinking(message: &mut Vec<u8>) {
    let Ok(mut value) = serde_json::from_slice::<Value>(message) else { return };
    let Some(blocks) = value["content"].as_array_mut() else { return };
    let before = blocks.len();
    blocks.retain(|block| block["type"] != "thinking" && block["type"] != "redacted_thinking");
    if blocks.len() != before {
        if blocks.is_empty() {
            blocks.push(json!({"type": "text", "text": lines::NO_ANSWER}));
        }
        *message = value.to_string().into_bytes();
    }
}

impl UnderWay<'_> {
    /// Makes the conversation ready for this agent's tools and instructions.
    pub(super) fn settle_head(&mut self) {
        let head = json!([self.agent.model, self.agent.system, self.tool_definitions()]);
        self.conversation.shown_before(&head, self.setup.capability.prefix_bound);
    }

    /// The body of the next request, before it is governed.
    pub(super) fn request(&self) -> Vec<u8> {
        let (provider, name) = self.agent.named_model();
        let model = if self.agent.model.starts_with("sim/") {
            self.agent.model.split_once('/').map_or("", |(_, name)| name)
        } else {
            name
        };
        let mut head = json!({
            "model": model,
            "max_tokens": self.max_tokens(),
            "stream": true,
        });
        let marks = provider == Some("anthropic");
        if marks {
            // The mark moves with the end of the request and leaves the messages' bytes alone.
            head["cache_control"] = json!({"type": "ephemeral"});
        }
        if !self.agent.system.is_empty() {
            let mut block = json!({"type": "text", "text": self.agent.system});
            if marks {
                block["cache_control"] = json!({"type": "ephemeral"});
            }
            head["system"] = json!([block]);
        }
        let tools = self.tool_definitions();
        if !tools.is_empty() {
            head["tools"] = Value::Array(tools);
        }
        let adaptive = self.setup.capability.thinking_adaptive
            && self.setup.capability.thinking_absent == Thinking::Adaptive;
        if self.agent.options.show_thinking && adaptive {
            head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        let mut body = head.to_string().into_bytes();
        body.pop();
        body.extend_from_slice(br#","messages":["#);
        body.extend_from_slice(&self.conversation.messages.join(b",".as_slice()));
        body.extend_from_slice(b"]}");
        body
    }

    fn max_tokens(&self) -> u64 {
        let most = self.setup.model.and_then(|model| model.max_output).map_or(u64::MAX, u64::from);
        self.agent.options.max_tokens.unwrap_or(MAX_TOKENS).min(most)
    }

    fn tool_definitions(&self) -> Vec<Value> {
        let mut tools: Vec<Value> = self
            .agent
            .tools
            .defs()
            .map(|def| {
                json!({
                    "name": def.name,
                    "description": def.description,
                    "input_schema": def.input_schema,
                })
            })
            .collect();
        let undeclared = |name: &&String| self.agent.tools.get(name).is_none();
        let answer_tool = self.setup.policy.answer_tool.as_ref().filter(undeclared);
        tools.extend(answer_tool.map(|name| {
            json!({
                "name": name,
                "description": "Gives the final answer. Call it once, when you are done.",
                "input_schema": {
                    "type": "object",
                    "properties": {"answer": {"type": "string", "description": "the answer"}},
                    "required": ["answer"],
                },
            })
        }));
        tools
    }
}
