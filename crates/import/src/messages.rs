//! Message arrays in Anthropic's or OpenAI's form: arrays, objects that hold an array, or one
//! message a line.

use softland_session::core::{NanoUsd, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Draft, OwnCall, Results};
use crate::fields::Fields;
use crate::input::{Broken, Input};
use crate::items;
use crate::message::Message;
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

/// The tokens and the cost of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) cost: Option<NanoUsd>,
}

/// A conversation that is read message by message.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) talk: Talk,
    /// The object's model, for messages that name none.
    pub(crate) model: Option<String>,
    /// Tokens and cost of the next turn, and its time, if they are recorded apart from its message.
    pub(crate) came: Option<Came>,
    pub(crate) at: Option<u64>,
    /// True if consecutive messages of the model are one turn, with pauses between them.
    pub(crate) one_turn: bool,
    results: Results,
    /// The turn that collects items of the Responses API.
    open: Option<Draft>,
    /// The number of the last call in the deprecated function form.
    functions: u64,
}

impl Conversation {
    pub(crate) fn new(talk: Talk, model: Option<String>) -> Self {
        Self {
            talk,
            model,
            came: None,
            at: None,
            one_turn: false,
            results: Results::default(),
            open: None,
            functions: 0,
        }
    }

    /// Takes a message; `line` is set if the file is read by lines.
    pub(crate) fn message(
        &mut self,
        out: &mut Out<'_>,
        text: &str,
        line: Option<u64>,
    ) -> Result<(), String> {
        let message = Message::of(text)?;
        let role = message.role.map(|role| role.unescape()).unwrap_or_default();
        let assistant = matches!(&*role, "assistant" | "model");
        if role.is_empty() {
            return self.item(out, text, line);
        }
        let goes_on = self.one_turn || self.open.is_some() || message.is_output();
        if !(assistant && goes_on) {
            self.close(out);
        }
        match &*role {
            "assistant" | "model" if goes_on => {
                message.add_to(self.draft(out, line), "")?;
            }
            "assistant" | "model" => {
                self.results.give(out, self.talk);
                let mut draft = self.fresh(line);
                self.functions += 1;
                message.add_to(&mut draft, &format!("function-{}", self.functions))?;
                if let Some((tokens, cost)) = message.usage {
                    (draft.tokens, draft.cost) = (Some(tokens), cost);
                }
                self.give(out, draft);
            }
            "tool" => {
                let id = message.call_id.or(message.id).map(|id| id.unescape().into_owned());
                self.result(id.unwrap_or_default(), message.result(), line);
            }
            "function" => {
                self.result(format!("function-{}", self.functions), message.result(), line);
            }
            "user" => self.user(out, &message, line),
            "system" | "developer" => {}
            other => return Err(format!("no message: its role is {other}")),
        }
        Ok(())
    }

    fn fresh(&self, line: Option<u64>) -> Draft {
        Draft { line, time: self.at, model: self.model.clone(), ..Draft::default() }
    }

    /// Takes an item of the Responses API. The items of the model up to the next result, or up to a
    /// message of somebody else, are one turn.
    fn item(&mut self, out: &mut Out<'_>, text: &str, line: Option<u64>) -> Result<(), String> {
        let item = Fields::of(text)?;
        match item.text("type").as_deref() {
            Some(kind) if items::is_models(kind) => {
                items::add_to(self.draft(out, line), kind, &item)
            }
            Some(kind) if items::is_result(kind) => {
                self.close(out);
                let id = item.id("call_id").unwrap_or_default();
                self.result(id, items::output(&item), line);
                Ok(())
            }
            _ => Err("no message: it has no role".to_owned()),
        }
    }

    /// Returns the turn that collects items. Results of the turn before are handed on first.
    fn draft(&mut self, out: &mut Out<'_>, line: Option<u64>) -> &mut Draft {
        if self.open.is_none() {
            self.results.give(out, self.talk);
        }
        let fresh = self.fresh(line);
        self.open.get_or_insert(fresh)
    }

    fn close(&mut self, out: &mut Out<'_>) {
        if let Some(draft) = self.open.take() {
            self.give(out, draft);
        }
    }

    fn give(&mut self, out: &mut Out<'_>, mut draft: Draft) {
        if let Some(Came { tokens, cost }) = self.came.take() {
            (draft.tokens, draft.cost) = (tokens, cost);
        }
        draft.give(out, self.talk);
    }

    fn user(&mut self, out: &mut Out<'_>, message: &Message<'_>, line: Option<u64>) {
        let (results, texts, media) = message.said();
        self.results.give(out, self.talk);
        if results.is_empty() {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let time = self.at;
            out.texts(self.talk, &texts, Said { media, time, line, ..Said::default() });
            return;
        }
        self.results =
            Results { list: results, texts, media, time: self.at, line, ..Results::default() };
        self.results.give(out, self.talk);
    }

    /// Takes a result. The results of one turn are handed on together.
    pub(crate) fn result(&mut self, id: String, result: ToolResult<'static>, line: Option<u64>) {
        self.results.list.push((id, result));
        self.results.time = self.results.time.or(self.at);
        self.results.line = self.results.line.or(line);
    }

    /// Hands on everything that waits.
    pub(crate) fn flush(&mut self, out: &mut Out<'_>) {
        self.close(out);
        self.results.give(out, self.talk);
    }

    pub(crate) fn end(mut self, out: &mut Out<'_>) {
        self.flush(out);
        out.end(self.talk);
    }
}

/// Reads a file of any number of arrays, and of objects that hold an array.
pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    while let Some(next) = input.peek() {
        let line = input.line_number();
        let read = match next {
            b'[' => array(input, out),
            b'{' => object(input, out, line),
            _ => Err(Broken::Malformed),
        };
        if let Err(broken) = read {
            out.broken(input, &broken);
            input.pass_line();
        }
    }
}

/// Reads a file with one message a line.
pub(crate) fn lines(input: &mut Input<'_>, out: &mut Out<'_>) {
    let talk = out.begin(&Begin { line: Some(1), ..Begin::default() });
    let mut conversation = Conversation::new(talk, None);
    out.lines(input, &mut |out, text, line| conversation.message(out, text, Some(line)));
    conversation.end(out);
}

/// Reads one array of messages, or of objects that hold messages.
fn array(input: &mut Input<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
    let mut conversation = None;
    let read = input.array(&mut |input| {
        if input.peek() == Some(b'{') && starts_with_messages(input) {
            let line = input.line_number();
            return object(input, out, line);
        }
        let conversation = conversation.get_or_insert_with(|| {
            let talk = out.begin(&Begin { line: Some(1), ..Begin::default() });
            Conversation::new(talk, None)
        });
        message(input, out, conversation)
    });
    if let Some(conversation) = conversation {
        conversation.end(out);
    }
    read
}

/// Returns true if the next object holds messages.
fn starts_with_messages(input: &mut Input<'_>) -> bool {
    let ahead = input.ahead(64 << 10);
    let objects = crate::kind::objects(ahead, 1);
    objects.first().is_some_and(|object| object.has("messages"))
}

/// Takes the next value as a message.
pub(crate) fn message(
    input: &mut Input<'_>,
    out: &mut Out<'_>,
    conversation: &mut Conversation,
) -> Result<(), Broken> {
    let line = input.line_number();
    match input.take()? {
        None => out.unreadable(Some(line), "a message is longer than 64 MiB"),
        Some(piece) => {
            out.mended(&piece);
            if let Err(reason) = conversation.message(out, &piece.text, Some(piece.line)) {
                out.unreadable(Some(piece.line), reason);
            }
        }
    }
    Ok(())
}

/// Reads one object. Its messages may come before its id and model, and do not wait for them.
/// Messages of an object whose name comes later are counted without it.
fn object(input: &mut Input<'_>, out: &mut Out<'_>, line: u64) -> Result<(), Broken> {
    let (mut id, mut model) = (None, None);
    let mut conversation: Option<Conversation> = None;
    let mut found = false;
    // An id and a model after the messages are looked for ahead, as far as the buffer reaches.
    let ahead = crate::kind::objects(input.ahead(1 << 20), 1);
    if let Some(first) = ahead.first() {
        id = first.id("id");
        model = first.string("model");
    }
    let read = input.object(&mut |input, key| {
        match key {
            "id" => id = input.take()?.and_then(|piece| crate::fields::id(&piece.text)),
            "model" if input.peek() == Some(b'"') => {
                model = input.take()?.and_then(|piece| crate::fields::id(&piece.text));
            }
            "messages" if input.peek() == Some(b'[') => {
                found = true;
                let begin = Begin { session: id.as_deref(), line: Some(line), ..Begin::default() };
                let conversation = conversation
                    .get_or_insert_with(|| Conversation::new(out.begin(&begin), model.clone()));
                return input.array(&mut |input| message(input, out, conversation));
            }
            _ => {}
        }
        Ok(())
    });
    if let Some(conversation) = conversation {
        conversation.end(out);
    }
    if read.is_ok() && !found {
        out.unreadable(Some(line), "no `messages` in this object");
    }
    read
}

/// Returns the single command of a text recording, as a call.
pub(crate) fn command(id: String, name: &str, command: &str) -> OwnCall {
    let mut input = b"{\"command\":".to_vec();
    softland_session::wire::json::write_str(&mut input, command);
    input.push(b'}');
    let input = String::from_utf8(input).unwrap_or_default();
    OwnCall { id, name: name.to_owned(), input, server: false }
}
