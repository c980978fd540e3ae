//! Messages of opencode and their parts, as its files, its database and dumps of it hold them.

use softland_session::ResultRead;
use softland_session::core::{NanoUsd, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, stop};
use crate::fields::{Fields, string};
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

/// The facts of a message that are known before its parts are read.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) session: String,
    pub(super) assistant: bool,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    stop: Option<String>,
    pub(super) time: Option<u64>,
    agent: Option<String>,
}

impl Message {
    /// Reads a message. In a table, `time` and `session` stand beside its data; in a file, within
    /// it.
    pub(super) fn of(session: String, time: Option<u64>, data: &Fields<'_>) -> Self {
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
            model: data.owned("modelID"),
            tokens,
            cost,
            stop: data.owned("finish"),
            time: time.or_else(|| data.object("time")?.uint("created")),
            agent: data.owned("agent").or_else(|| data.owned("mode")),
        }
    }
}

/// A session whose parts are being read.
pub(super) struct Session {
    pub(super) talk: Talk,
    draft: Draft,
    results: Results,
    texts: Vec<String>,
    media: bool,
    machine: bool,
}

impl Session {
    /// Begins a session with its first message. With a `parent`, it is a sub-agent's session.
    pub(super) fn begin(out: &mut Out<'_>, parent: Option<&str>, first: &Message) -> Self {
        let agent = parent.map(|_| first.agent.as_deref().unwrap_or("subagent"));
        let session = Some(parent.unwrap_or(&first.session));
        Self {
            talk: out.begin(&Begin { session, agent, ..Begin::default() }),
            draft: Draft::default(),
            results: Results::default(),
            texts: Vec::new(),
            media: false,
            machine: false,
        }
    }

    /// Hands on a message after all its parts were read.
    pub(super) fn over(&mut self, out: &mut Out<'_>, message: &Message) {
        let texts = std::mem::take(&mut self.texts);
        if message.assistant {
            let mut draft = std::mem::take(&mut self.draft);
            draft.model.clone_from(&message.model);
            (draft.tokens, draft.cost, draft.time) = (message.tokens, message.cost, message.time);
            draft.stop = message.stop.as_deref().map(stop);
            draft.give(out, self.talk);
            self.results.give(out, self.talk);
        } else {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let machine = self.machine && texts.is_empty();
            let said = Said { machine, media: self.media, time: message.time, line: None };
            out.texts(self.talk, &texts, said);
        }
        (self.media, self.machine) = (false, false);
    }

    /// Takes a part of the message that is being read.
    pub(super) fn part(&mut self, assistant: bool, data: &Fields<'_>) {
        match &*data.text("type").unwrap_or_default() {
            "text" if assistant => {
                if let Some(text) = data.str("text") {
                    self.draft.text(text);
                }
            }
            "text" if data.is_true("synthetic") => self.machine = true,
            "text" => self.texts.extend(data.owned("text")),
            "reasoning" => self.draft.hidden(data.str("text")),
            "file" if !assistant => self.media = true,
            "file" => self.draft.gives = true,
            "tool" => self.tool(data),
            _ => {}
        }
    }

    fn tool(&mut self, data: &Fields<'_>) {
        let id = data.owned("callID").unwrap_or_default();
        let state = data.object("state").unwrap_or_default();
        let input = state.raw("input").unwrap_or("{}");
        let input = string(input).map_or_else(|| input.into(), |text| text.unescape()).into_owned();
        self.draft.call(id.clone(), data.owned("tool").unwrap_or_default(), input, false);
        let status = state.text("status").unwrap_or_default();
        let mut read = ResultRead::default();
        match state.str("output").or_else(|| state.str("error")) {
            Some(text) => read.text(text),
            None => return,
        }
        let facts = read.facts();
        let failed = facts.failed || status == "error";
        self.results.list.push((id, ToolResult { failed, ..facts }));
    }
}
