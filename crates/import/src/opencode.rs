//! Dumps of opencode's database: sessions, messages and their parts in files of one folder.

use std::collections::{BTreeMap, HashMap};

use softland_session::ResultRead;
use softland_session::core::{NanoUsd, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, stop};
use crate::fields::{Fields, string};
use crate::input::{Broken, Input};
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

/// What is known of sessions and messages before their parts are read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Of each session with a parent, the parent.
    parents: HashMap<String, String>,
    messages: Vec<Message>,
    by_id: HashMap<String, usize>,
}

#[derive(Debug)]
struct Message {
    session: String,
    assistant: bool,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    stop: Option<String>,
    time: Option<u64>,
    agent: Option<String>,
}

/// Calls `each` with the rows of a table.
fn rows(
    input: &mut Input<'_>,
    out: &mut Out<'_>,
    each: &mut dyn FnMut(&mut Out<'_>, &Fields<'_>, u64) -> Result<(), String>,
) {
    let read: Result<(), Broken> = input.array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take()? else {
            out.unreadable(Some(line), "a row is longer than 64 MiB");
            return Ok(());
        };
        out.mended(&piece);
        let line = piece.line;
        let taken = Fields::of(&piece.text).and_then(|fields| each(out, &fields, line));
        if let Err(reason) = taken {
            out.unreadable(Some(line), reason);
        }
        Ok(())
    });
    if let Err(broken) = read {
        out.broken(input, &broken);
    }
}

impl Known {
    pub(crate) fn sessions(&mut self, input: &mut Input<'_>, out: &mut Out<'_>) {
        rows(input, out, &mut |_, row, _| {
            if let (Some(id), Some(parent)) = (row.owned("id"), row.owned("parent_id")) {
                self.parents.insert(id, parent);
            }
            Ok(())
        });
    }

    pub(crate) fn messages(&mut self, input: &mut Input<'_>, out: &mut Out<'_>) {
        let mut ids: Vec<String> = Vec::new();
        let mut list = Vec::new();
        rows(input, out, &mut |_, row, _| {
            let data = row.text("data").ok_or("no `data`")?;
            let data = Fields::of(&data)?;
            list.push((row.uint("time_created"), list.len(), Message::of(row, &data)));
            ids.push(row.owned("id").ok_or("no `id`")?);
            Ok(())
        });
        list.sort_by_key(|(time, at, _)| (*time, *at));
        for (_, at, message) in list {
            if let Some(id) = ids.get_mut(at) {
                self.by_id.insert(std::mem::take(id), self.messages.len());
            }
            self.messages.push(message);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Reads the parts, and hands on every session.
    pub(crate) fn parts(&self, input: Option<&mut Input<'_>>, out: &mut Out<'_>) {
        let mut by_session: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, message) in self.messages.iter().enumerate() {
            by_session.entry(&message.session).or_default().push(at);
        }
        let mut open: HashMap<&str, Session> = HashMap::new();
        // In the order of their first messages.
        for message in &self.messages {
            let name = message.session.as_str();
            open.entry(name).or_insert_with(|| {
                let order = by_session.remove(name).unwrap_or_default();
                Session::begin(self, message, order, out)
            });
        }
        if let Some(input) = input {
            rows(input, out, &mut |out, row, _| {
                let id = row.text("message_id").ok_or("no `message_id`")?;
                let at = *self.by_id.get(&*id).ok_or("a part of no message")?;
                let session = self.messages.get(at).map_or("", |message| &message.session);
                let session = open.get_mut(session).ok_or("a part of no session")?;
                let data = row.text("data").ok_or("no `data`")?;
                session.part(self, out, at, &Fields::of(&data)?)
            });
        }
        let mut rest: Vec<_> = open.into_values().collect();
        rest.sort_by_key(|session| session.talk);
        for mut session in rest {
            session.advance(self, out, usize::MAX);
            out.end(session.talk);
        }
    }
}

impl Message {
    fn of(row: &Fields<'_>, data: &Fields<'_>) -> Self {
        let count = |fields: &Fields<'_>, key| fields.uint(key).unwrap_or(0);
        let tokens = data.object("tokens").map(|tokens| {
            let cache = tokens.object("cache").unwrap_or_default();
            Tokens {
                input: count(&tokens, "input"),
                output: count(&tokens, "output") + count(&tokens, "reasoning"),
                cache_read: count(&cache, "read"),
                cache_write_5m: count(&cache, "write"),
                cache_write_1h: 0,
            }
        });
        let cost = data.raw("cost").and_then(|raw| raw.parse::<f64>().ok());
        // It writes 0 where it knows no price.
        let cost = cost.filter(|cost| *cost > 0.0).and_then(NanoUsd::from_dollars);
        Self {
            session: row.owned("session_id").unwrap_or_default(),
            assistant: data.text("role").as_deref() == Some("assistant"),
            model: data.owned("modelID"),
            tokens,
            cost,
            stop: data.owned("finish"),
            time: row.uint("time_created"),
            agent: data.owned("agent").or_else(|| data.owned("mode")),
        }
    }
}

/// A session whose parts are read.
struct Session {
    talk: Talk,
    order: Vec<usize>,
    /// Where in `order` it is.
    next: usize,
    draft: Draft,
    results: Results,
    texts: Vec<String>,
    media: bool,
    machine: bool,
}

impl Session {
    fn begin(known: &Known, first: &Message, order: Vec<usize>, out: &mut Out<'_>) -> Self {
        let parent = known.parents.get(&first.session);
        let session = parent.unwrap_or(&first.session);
        let agent = parent.map(|_| first.agent.as_deref().unwrap_or("subagent"));
        let begin = Begin { session: Some(session), agent, ..Begin::default() };
        Self {
            talk: out.begin(&begin),
            order,
            next: 0,
            draft: Draft::default(),
            results: Results::default(),
            texts: Vec::new(),
            media: false,
            machine: false,
        }
    }

    /// Hands on what comes before a message.
    fn advance(&mut self, known: &Known, out: &mut Out<'_>, until: usize) {
        while let Some(&at) = self.order.get(self.next) {
            if at == until {
                return;
            }
            self.next += 1;
            let Some(message) = known.messages.get(at) else { continue };
            let texts = std::mem::take(&mut self.texts);
            if !message.assistant {
                let texts: Vec<_> = texts.iter().map(String::as_str).collect();
                let machine = self.machine && texts.is_empty();
                let said = Said { machine, media: self.media, time: message.time, line: None };
                out.texts(self.talk, &texts, said);
            } else {
                let mut draft = std::mem::take(&mut self.draft);
                draft.model.clone_from(&message.model);
                (draft.tokens, draft.cost, draft.time) =
                    (message.tokens, message.cost, message.time);
                draft.stop = message.stop.as_deref().map(stop);
                draft.give(out, self.talk);
                self.results.give(out, self.talk);
            }
            (self.media, self.machine) = (false, false);
        }
    }

    fn part(
        &mut self,
        known: &Known,
        out: &mut Out<'_>,
        at: usize,
        data: &Fields<'_>,
    ) -> Result<(), String> {
        if !self.order.get(self.next..).unwrap_or_default().contains(&at) {
            return Err("a part that comes behind its message's end".to_owned());
        }
        self.advance(known, out, at);
        let assistant = known.messages.get(at).is_some_and(|message| message.assistant);
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
        Ok(())
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
