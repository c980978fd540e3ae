//! Messages of opencode and their parts, as its files, its database and dumps of it hold them.

use softland_session::ResultReader;
use softland_session::core::{Digest, NanoUsd, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_stop};
use crate::fields::{Fields, decode_string};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The facts of a message that are known before its parts are read.
#[derive(Debug)]
pub(super) struct MessageInfo {
    pub(super) session: String,
    pub(super) assistant: bool,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    stop: Option<String>,
    pub(super) time: Option<u64>,
    agent: Option<String>,
}

impl MessageInfo {
    /// Reads a message. In a table, `time` and `session` stand beside its data; in a file, within
    /// it.
    pub(super) fn from_fields(session: String, time: Option<u64>, data: &Fields<'_>) -> Self {
        let count = |fields: &Fields<'_>, key| fields.uint(key).unwrap_or(0);
        let tokens = data.object("tokens").map(|tokens| {
            let cache = tokens.object("cache").unwrap_or_default();
            Tokens {
                input: count(&tokens, "input"),
                output: count(&tokens, "output") + count(&tokens, "reasoning"),
                cache_read: count(&cache, "read"),
                cache_write_5m: count(&cache, "write"),
                cache_write_1h: 0,
                ..Tokens::default()
            }
        });
        let cost = data.raw("cost").and_then(|raw| raw.parse::<f64>().ok());
        // opencode writes 0 if it knows no price.
        let cost = cost.filter(|cost| *cost > 0.0).and_then(NanoUsd::from_dollars);
        Self {
            session,
            assistant: data.text("role").as_deref() == Some("assistant"),
            model: data.owned_text("modelID"),
            tokens,
            cost,
            stop: data.owned_text("finish"),
            time: time.or_else(|| data.object("time")?.uint("created")),
            agent: data.owned_text("agent").or_else(|| data.owned_text("mode")),
        }
    }
}

/// A session whose parts are being read.
pub(super) struct Session {
    pub(super) talk: ConversationId,
    draft: TurnDraft,
    results: Results,
    texts: Vec<String>,
    media: Option<Digest>,
    machine: bool,
}

impl Session {
    /// Begins a session with its first message. With a `parent`, it is a sub-agent's session.
    pub(super) fn begin_conversation(
        out: &mut StepOutput<'_>,
        parent: Option<&str>,
        project: Option<&str>,
        first: &MessageInfo,
    ) -> Self {
        let agent = parent.map(|_| first.agent.as_deref().unwrap_or("subagent"));
        let session = Some(parent.unwrap_or(&first.session));
        Self {
            talk: out.begin_conversation(&ConversationStart {
                session,
                agent,
                project,
                ..ConversationStart::default()
            }),
            draft: TurnDraft::default(),
            results: Results::default(),
            texts: Vec::new(),
            media: None,
            machine: false,
        }
    }

    /// Hands on a message after all its parts were read.
    pub(super) fn finish_message(&mut self, out: &mut StepOutput<'_>, message: &MessageInfo) {
        let texts = std::mem::take(&mut self.texts);
        if message.assistant {
            let mut draft = std::mem::take(&mut self.draft);
            draft.model.clone_from(&message.model);
            (draft.tokens, draft.cost, draft.time) = (message.tokens, message.cost, message.time);
            draft.stop = message.stop.as_deref().map(parse_stop);
            draft.emit_turn(out, self.talk);
            self.results.emit_results(out, self.talk);
        } else {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let machine = self.machine && texts.is_empty();
            let said = MessageFacts { machine, media: self.media, time: message.time, line: None };
            out.send_texts(self.talk, &texts, said);
        }
        (self.media, self.machine) = (None, false);
    }

    /// Takes a part of the message that is being read.
    pub(super) fn take_part(&mut self, assistant: bool, data: &Fields<'_>) {
        match &*data.text("type").unwrap_or_default() {
            "text" if assistant => {
                if let Some(text) = data.str("text") {
                    self.draft.add_text(text);
                }
            }
            "text" if data.is_true("synthetic") => self.machine = true,
            "text" => self.texts.extend(data.owned_text("text")),
            "reasoning" => self.draft.add_hidden(data.str("text")),
            "file" if !assistant => self.media = Some(Digest::EMPTY),
            "file" => self.draft.gives = true,
            "tool" => self.take_tool(data),
            _ => {}
        }
    }

    fn take_tool(&mut self, data: &Fields<'_>) {
        let id = data.owned_text("callID").unwrap_or_default();
        let state = data.object("state").unwrap_or_default();
        let input = state.raw("input").unwrap_or("{}");
        let input =
            decode_string(input).map_or_else(|| input.into(), |text| text.unescape()).into_owned();
        self.draft.add_call(id.clone(), data.owned_text("tool").unwrap_or_default(), input, false);
        let status = state.text("status").unwrap_or_default();
        let mut read = ResultReader::default();
        match state.str("output").or_else(|| state.str("error")) {
            Some(text) => read.add_text(text),
            None => return,
        }
        let facts = read.to_facts();
        let failed = facts.failed || status == "error";
        self.results.list.push((id, ToolResult { failed, ..facts }));
    }
}
