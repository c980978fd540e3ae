//! The conversation of an agent, and the request bodies made of it.
//!
//! Messages are stored as JSON and only ever appended, so that every request begins with the bytes
//! of the request before it. Prompt caches and signed thinking depend on that.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::Mutex;

use serde_json::{Value, json};
use softland_session::PendingCall;
use softland_session::core::models::capability::Thinking;
use softland_session::core::{Admission, Digest, NanoUsd, lines};

use super::form::{self, AnsweredCall, ApiFormat, CallStatus, RequestParts};
use super::{ActiveRun, Agent, PinnedRecords};
use crate::http::Api;
use crate::tool::{ToolDef, ToolFormat};

/// The text in place of the answer of a run that ended without one.
const INTERRUPTED: &str = "[interrupted before an answer]";
/// The output tokens of a request, unless a setting says otherwise.
const MAX_TOKENS: u64 = 16_000;
/// The output tokens of a request to a model whose maximum is not known. Some models refuse more
/// (`deepseek-chat` takes 8,192). An answer that is cut off goes on in a continuation.
const UNKNOWN_MAX_TOKENS: u64 = 8_192;

/// The messages of an agent, over all its runs.
///
/// Each question is a run of its own, with fresh limits; the model sees what was said before.
///
/// ```
/// use std::sync::Arc;
///
/// use softland_agent::testing::{ScriptedModel, ScriptedReply};
/// use softland_agent::{Agent, Conversation};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model =
///     ScriptedModel::new(["Four euros.", "Tomas was."].map(ScriptedReply::from_text));
/// let agent = Agent::new("analyst", "test/script", Arc::new(model));
/// let mut conversation = Conversation::new();
/// let cancel = CancellationToken::new();
/// for question in ["What is the price?", "And who was against it?"] {
///     agent.run_in_conversation(&mut conversation, question, &mut |_| {}, &cancel).await?;
/// }
/// assert_eq!(conversation.messages().count(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) records: PinnedRecords,
    pub(super) cost: NanoUsd,
    pub(super) ends_with_model: bool,
    pub(super) inbox: Inbox,
    /// The digest of the system prompt and the tools under which the messages were made.
    pub(super) head: Option<Digest>,
    /// The API whose form the messages have; `None` without messages.
    pub(super) api: Option<Api>,
    /// The form of the calls in the messages.
    pub(super) format: ToolFormat,
}

/// Messages from a person to an active run. [`Conversation::inbox`] returns it.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<Vec<String>>>);

impl Inbox {
    /// Sends a message to the run. It is delivered behind the results of the current round and only
    /// steers the run. A message that is still undelivered when the run ends opens the next run.
    pub fn send_text(&self, text: impl Into<String>) {
        self.lock_messages().push(text.into());
    }

    /// Returns true if no message waits to be delivered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock_messages().is_empty()
    }

    fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_messages())
    }

    fn lock_messages(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Conversation {
    /// Creates a conversation without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a handle for sending messages to the active run.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Returns the API whose form the messages have; `None` while there are no messages.
    #[must_use]
    pub fn api(&self) -> Option<Api> {
        self.api
    }

    /// Returns the messages, each a JSON object in the form of the first API that was asked (OpenAI
    /// Responses: its items). The system prompt is not among them.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(Vec::as_slice)
    }

    /// Returns the form of the calls in the messages.
    pub(super) fn tool_format(&self) -> ToolFormat {
        self.format
    }

    pub(super) fn session_cost(&self) -> NanoUsd {
        self.cost
    }

    /// Sets what the session has spent so far.
    pub(super) fn set_session_cost(&mut self, cost: NanoUsd) {
        self.cost = cost;
    }

    pub(super) fn records(&self) -> PinnedRecords {
        self.records.clone()
    }

    /// Opens a run. If the run before it ended without an answer, a marker takes the answer's
    /// place, so that the question does not read as text after tool results.
    pub(super) fn open_run(&mut self, api: Api, format: ToolFormat, prompt: &str) {
        (self.api, self.format) = (Some(api), format);
        if !self.messages.is_empty() && !self.ends_with_model {
            self.push_message(&self.api_format().model_message(INTERRUPTED));
        }
        let mut texts = self.inbox.take_messages();
        texts.push(prompt.to_owned());
        texts.retain(|text| !text.trim().is_empty());
        if texts.is_empty() {
            texts.push("(no question)".to_owned());
        }
        self.api_format()
            .user_messages(&texts)
            .iter()
            .for_each(|message| self.push_message(message));
        self.ends_with_model = false;
    }

    fn api_format(&self) -> &'static dyn ApiFormat {
        form::conversation_format(self.api.unwrap_or(Api::Anthropic), self.format)
    }

    pub(super) fn append_turn(&mut self, messages: Vec<Vec<u8>>, records: PinnedRecords) {
        self.ends_with_model |= !messages.is_empty();
        self.messages.extend(messages);
        self.records = records;
    }

    /// Records the system prompt and tools of the next request. If they have changed, thinking that
    /// is signed over them can no longer be verified. It is left out of all messages, which the API
    /// allows.
    pub(super) fn set_prompt_head(&mut self, head: &Value, bound: bool) {
        let head = Digest::from_bytes(head.to_string().as_bytes());
        if bound && self.head.is_some_and(|known| known != head) {
            let form = self.api_format();
            self.messages.iter_mut().for_each(|message| drop_signed_thinking(form, message));
        }
        self.head = Some(head);
    }

    /// Takes the messages that arrived since the last call.
    pub(super) fn take_inbox(&self) -> Vec<String> {
        let mut said = self.inbox.take_messages();
        said.retain(|text| !text.trim().is_empty());
        said
    }

    /// Returns the messages that answer a round, in order. What was said meanwhile follows as a
    /// message of its own or stands at the end of the last result.
    pub(super) fn answer_messages(
        &self,
        results: &[AnsweredCall],
        said: &[String],
        in_result: bool,
    ) -> Vec<Vec<u8>> {
        let messages = match results.split_last() {
            Some((last, before)) if in_result && !said.is_empty() => {
                let text = format!("{}\n\n{}", last.text, lines::format_remark(&said.join("\n\n")));
                let last = AnsweredCall { text, ..last.clone() };
                self.api_format().result_messages(&[before, &[last]].concat(), &[])
            }
            _ => self.api_format().result_messages(results, said),
        };
        messages.iter().map(message_bytes).collect()
    }

    /// Appends the answers to a round.
    pub(super) fn append_answers(&mut self, messages: Vec<Vec<u8>>) {
        self.messages.extend(messages);
        self.ends_with_model = false;
    }

    /// Returns the results for the calls of a turn that was itself the answer, so that no call is
    /// open when the next question comes.
    pub(super) fn closing_results(calls: &[PendingCall]) -> Vec<AnsweredCall> {
        let told = |call: &PendingCall| {
            let (text, how) = match call.admission {
                Admission::Answer => ("Delivered.", CallStatus::Succeeded),
                _ => ("Not run: the answer was given beside it.", CallStatus::NotRun),
            };
            let (id, name) = (call.id.clone(), call.name.clone());
            AnsweredCall { id, name, text: text.to_owned(), how }
        };
        calls.iter().map(told).collect()
    }

    /// Appends the final answer after the results of a turn that gave it by a call.
    pub(super) fn append_final_answer(&mut self, answer: &str) {
        let text = if answer.trim().is_empty() { "(delivered)" } else { answer };
        self.push_message(&self.api_format().model_message(text));
        self.ends_with_model = true;
    }

    fn push_message(&mut self, message: &Value) {
        self.messages.push(message_bytes(message));
    }
}

fn message_bytes(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

fn drop_signed_thinking(form: &dyn ApiFormat, message: &mut Vec<u8>) {
    let Ok(mut value) = serde_json::from_slice::<Value>(message) else { return };
    if form.drop_signed(&mut value) {
        *message = value.to_string().into_bytes();
    }
}

impl Agent {
    /// Returns the tool that calls agents, if any agent may be called.
    pub(super) fn sub_agent_tool(&self) -> Option<ToolDef> {
        let own = self.tools.get(crate::sub_agents::AGENT_TOOL);
        self.sub_agents.as_ref().filter(|_| own.is_none())?.tool_def()
    }
}

impl ActiveRun<'_> {
    /// Prepares the conversation for this agent's tools and instructions.
    pub(super) fn update_prompt_head(&mut self) {
        let tools: Vec<_> = self
            .tool_definitions()
            .into_iter()
            .map(|tool| json!([tool.name, tool.description, tool.input_schema]))
            .collect();
        let head = json!([self.agent.model, self.agent.system, tools]);
        self.conversation.set_prompt_head(&head, self.setup.capability.prefix_bound);
    }

    /// Returns the body of the next request, before it is governed.
    pub(super) fn build_request(&self) -> Vec<u8> {
        let form = form::format_of(self.agent.options.api);
        let capability = &self.setup.capability;
        let adaptive =
            capability.thinking_adaptive && capability.thinking_absent == Thinking::Adaptive;
        let (system, tools) = self.shown_head();
        let head = form.request_head(&RequestParts {
            model: &self.setup.served,
            system: &system,
            tools: &tools,
            max_tokens: self.max_tokens(),
            thinking: self.agent.options.show_thinking && adaptive,
        });
        let opening = form.system_message(&system).map(|first| first.to_string().into_bytes());
        let messages: Vec<&[u8]> =
            opening.iter().chain(&self.conversation.messages).map(Vec::as_slice).collect();
        let mut body = head.to_string().into_bytes();
        body.pop();
        body.extend_from_slice(format!(r#","{}":["#, form.messages_member()).as_bytes());
        body.extend_from_slice(&messages.join(b",".as_slice()));
        body.extend_from_slice(b"]}");
        body
    }

    /// Returns the system prompt and the tools that a request declares.
    fn shown_head(&self) -> (Cow<'_, str>, Vec<ToolDef>) {
        let (system, tools) = (&self.agent.system, self.tool_definitions());
        match self.agent.options.tool_format {
            ToolFormat::Native => (Cow::Borrowed(system), tools),
            ToolFormat::Tags => {
                (Cow::Owned(form::tags::system_with_tools(system, &tools)), Vec::new())
            }
        }
    }

    pub(super) fn max_tokens(&self) -> u64 {
        let most = self.setup.model.and_then(|model| model.max_output).map(u64::from);
        let usual = if most.is_some() { MAX_TOKENS } else { UNKNOWN_MAX_TOKENS };
        self.agent.options.max_tokens.unwrap_or(usual).min(most.unwrap_or(u64::MAX))
    }

    /// Returns the tool that calls agents, if any agent may be called.
    pub(super) fn sub_agent_tool(&self) -> Option<ToolDef> {
        self.agent.sub_agent_tool()
    }

    /// Returns true if what was said meanwhile goes into the last result. Text behind tool results
    /// makes Claude end its turn without a word, on every provider.
    pub(super) fn puts_remarks_in_result(&self) -> bool {
        let Agent { options, .. } = self.agent;
        let claude = || self.setup.served.name.contains("claude");
        options.tool_format == ToolFormat::Native && (options.api == Api::Anthropic || claude())
    }

    fn tool_definitions(&self) -> Vec<ToolDef> {
        let mut tools: Vec<ToolDef> = self.agent.tools.defs().cloned().collect();
        tools.extend(self.sub_agent_tool());
        let undeclared = |name: &&String| self.agent.tools.get(name).is_none();
        let answer_tools = self.setup.policy.answer_tool.iter().filter(undeclared);
        tools.extend(answer_tools.map(|name| ToolDef {
            name: name.clone(),
            description: "Gives the final answer. Call it once, when you are done.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"answer": {"type": "string", "description": "the answer"}},
                "required": ["answer"],
            }),
            reads: true,
            repeatable: true,
        }));
        tools
    }
}
