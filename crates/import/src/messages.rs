//! Message arrays in Anthropic's or OpenAI's form: arrays, objects that hold an array, or one
//! message a line.

use softland_session::core::{NanoUsd, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{OwnedCall, Results, TurnDraft};
use crate::fields::Fields;
use crate::input::{Input, JsonError};
use crate::items;
use crate::message::{Message, UnreadParts};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The tokens and the cost of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnCost {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) cost: Option<NanoUsd>,
}

/// A conversation that is read message by message.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) talk: ConversationId,
    /// The object's model, for messages that name none.
    pub(crate) model: Option<String>,
    /// Tokens and cost of the next turn, and its time, if they are recorded apart from its message.
    pub(crate) came: Option<TurnCost>,
    pub(crate) at: Option<u64>,
    /// True if consecutive messages of the model are one turn, with pauses between them.
    pub(crate) one_turn: bool,
    results: Results,
    /// The turn that collects items of the Responses API.
    open: Option<TurnDraft>,
    /// The number of the last call in the deprecated function form.
    functions: u64,
    unread: UnreadParts,
}

impl Conversation {
    pub(crate) fn new(talk: ConversationId, model: Option<String>) -> Self {
        Self {
            talk,
            model,
            came: None,
            at: None,
            one_turn: false,
            results: Results::default(),
            open: None,
            functions: 0,
            unread: UnreadParts::default(),
        }
    }

    /// Takes a message; `line` is set if the file is read by lines.
    pub(crate) fn take_message(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        line: Option<u64>,
    ) -> Result<(), String> {
        let message = Message::from_json(text)?;
        self.unread.count_parts(&message);
        let role = message.role.map(|role| role.unescape()).unwrap_or_default();
        let assistant = matches!(&*role, "assistant" | "model");
        if role.is_empty() {
            return self.take_item(out, text, line);
        }
        let goes_on = self.one_turn || self.open.is_some() || message.is_output();
        if !(assistant && goes_on) {
            self.close_draft(out);
        }
        match &*role {
            "assistant" | "model" if goes_on => {
                message.add_to(self.open_draft(out, line), "")?;
            }
            "assistant" | "model" => {
                self.results.emit_results(out, self.talk);
                let mut draft = self.new_draft(line);
                self.functions += 1;
                message.add_to(&mut draft, &format!("function-{}", self.functions))?;
                if let Some((tokens, cost)) = message.usage {
                    (draft.tokens, draft.cost) = (Some(tokens), cost);
                }
                self.emit_turn(out, draft);
            }
            "tool" => {
                let id = message.call_id.or(message.id).map(|id| id.unescape().into_owned());
                self.take_result(id.unwrap_or_default(), message.tool_result(), line);
            }
            "function" => {
                self.take_result(
                    format!("function-{}", self.functions),
                    message.tool_result(),
                    line,
                );
            }
            "user" => self.take_user(out, &message, line),
            "system" | "developer" => {}
            other => return Err(format!("no message: its role is {other}")),
        }
        Ok(())
    }

    fn new_draft(&self, line: Option<u64>) -> TurnDraft {
        TurnDraft { line, time: self.at, model: self.model.clone(), ..TurnDraft::default() }
    }

    /// Takes an item of the Responses API. The items of the model up to the next result, or up to a
    /// message of somebody else, are one turn.
    fn take_item(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        line: Option<u64>,
    ) -> Result<(), String> {
        let item = Fields::from_json(text)?;
        match item.text("type").as_deref() {
            Some(kind) if items::is_model_item(kind) => {
                items::add_item(self.open_draft(out, line), kind, &item)
            }
            Some(kind) if items::is_result(kind) => {
                self.close_draft(out);
                let id = item.id("call_id").unwrap_or_default();
                self.take_result(id, items::read_output(&item), line);
                Ok(())
            }
            _ => Err("no message: it has no role".to_owned()),
        }
    }

    /// Returns the turn that collects items. Results of the turn before are handed on first.
    fn open_draft(&mut self, out: &mut StepOutput<'_>, line: Option<u64>) -> &mut TurnDraft {
        if self.open.is_none() {
            self.results.emit_results(out, self.talk);
        }
        let fresh = self.new_draft(line);
        self.open.get_or_insert(fresh)
    }

    fn close_draft(&mut self, out: &mut StepOutput<'_>) {
        if let Some(draft) = self.open.take() {
            self.emit_turn(out, draft);
        }
    }

    fn emit_turn(&mut self, out: &mut StepOutput<'_>, mut draft: TurnDraft) {
        if let Some(TurnCost { tokens, cost }) = self.came.take() {
            (draft.tokens, draft.cost) = (tokens, cost);
        }
        draft.emit_turn(out, self.talk);
    }

    fn take_user(&mut self, out: &mut StepOutput<'_>, message: &Message<'_>, line: Option<u64>) {
        let (results, texts, media) = message.collect_contents();
        self.results.emit_results(out, self.talk);
        if results.is_empty() {
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let time = self.at;
            out.send_texts(
                self.talk,
                &texts,
                MessageFacts { media, time, line, ..MessageFacts::default() },
            );
            return;
        }
        self.results =
            Results { list: results, texts, media, time: self.at, line, ..Results::default() };
        self.results.emit_results(out, self.talk);
    }

    /// Takes a result. The results of one turn are handed on together.
    pub(crate) fn take_result(
        &mut self,
        id: String,
        result: ToolResult<'static>,
        line: Option<u64>,
    ) {
        self.results.list.push((id, result));
        self.results.time = self.results.time.or(self.at);
        self.results.line = self.results.line.or(line);
    }

    /// Hands on everything that waits.
    pub(crate) fn flush(&mut self, out: &mut StepOutput<'_>) {
        self.close_draft(out);
        self.results.emit_results(out, self.talk);
    }

    pub(crate) fn end_conversation(mut self, out: &mut StepOutput<'_>) {
        self.flush(out);
        if let Some(what) = self.unread.describe() {
            out.list_unreadable(None, what);
        }
        out.end_conversation(self.talk);
    }
}

/// Reads a file of any number of arrays, and of objects that hold an array.
pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while let Some(next) = input.peek() {
        let line = input.line_number();
        let read = match next {
            b'[' => read_array(input, out),
            b'{' => read_object(input, out, line),
            _ => Err(JsonError::Malformed),
        };
        if let Err(broken) = read {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

/// Reads a file with one message a line.
pub(crate) fn read_lines(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let talk = out
        .begin_conversation(&ConversationStart { line: Some(1), ..ConversationStart::default() });
    let mut conversation = Conversation::new(talk, None);
    out.read_lines(input, &mut |out, text, line| conversation.take_message(out, text, Some(line)));
    conversation.end_conversation(out);
}

/// Reads one array of messages, or of objects that hold messages.
fn read_array(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let mut conversation = None;
    let read = input.take_array(&mut |input| {
        if input.peek() == Some(b'{') && starts_with_messages(input) {
            let line = input.line_number();
            return read_object(input, out, line);
        }
        let conversation = conversation.get_or_insert_with(|| {
            let talk = out.begin_conversation(&ConversationStart {
                line: Some(1),
                ..ConversationStart::default()
            });
            Conversation::new(talk, None)
        });
        read_message(input, out, conversation)
    });
    if let Some(conversation) = conversation {
        conversation.end_conversation(out);
    }
    read
}

/// Returns true if the next object holds messages.
fn starts_with_messages(input: &mut Input<'_>) -> bool {
    let ahead = input.peek_bytes(64 << 10);
    let objects = crate::kind::preview_objects(ahead, 1);
    objects.first().is_some_and(|object| object.has_key("messages"))
}

/// Takes the next value as a message.
pub(crate) fn read_message(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    conversation: &mut Conversation,
) -> Result<(), JsonError> {
    let line = input.line_number();
    match input.take_value()? {
        None => out.list_unreadable(Some(line), "a message is longer than 64 MiB"),
        Some(piece) => {
            out.list_mended(&piece);
            if let Err(reason) = conversation.take_message(out, &piece.text, Some(piece.line)) {
                out.list_unreadable(Some(piece.line), reason);
            }
        }
    }
    Ok(())
}

/// Reads one object. Its messages may come before its id and model, and do not wait for them.
/// Messages of an object whose name comes later are counted without it.
fn read_object(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    line: u64,
) -> Result<(), JsonError> {
    let (mut id, mut model) = (None, None);
    let mut conversation: Option<Conversation> = None;
    let mut found = false;
    // An id and a model after the messages are looked for ahead, as far as the buffer reaches.
    let ahead = crate::kind::preview_objects(input.peek_bytes(1 << 20), 1);
    if let Some(first) = ahead.first() {
        id = first.short_id("id");
        model = first.short_string("model");
    }
    let read = input.take_object(&mut |input, key| {
        match key {
            "id" => {
                id = input.take_value()?.and_then(|piece| crate::fields::decode_id(&piece.text))
            }
            "model" if input.peek() == Some(b'"') => {
                model = input.take_value()?.and_then(|piece| crate::fields::decode_id(&piece.text));
            }
            "messages" if input.peek() == Some(b'[') => {
                found = true;
                let begin = ConversationStart {
                    session: id.as_deref(),
                    line: Some(line),
                    ..ConversationStart::default()
                };
                let conversation = conversation.get_or_insert_with(|| {
                    Conversation::new(out.begin_conversation(&begin), model.clone())
                });
                return input.take_array(&mut |input| read_message(input, out, conversation));
            }
            _ => {}
        }
        Ok(())
    });
    if let Some(conversation) = conversation {
        conversation.end_conversation(out);
    }
    if read.is_ok() && !found {
        out.list_unreadable(Some(line), "no `messages` in this object");
    }
    read
}

/// Returns the single command of a text recording, as a call.
pub(crate) fn command_call(id: String, name: &str, command: &str) -> OwnedCall {
    let mut input = b"{\"command\":".to_vec();
    softland_session::wire::json::write_str(&mut input, command);
    input.push(b'}');
    let input = String::from_utf8(input).unwrap_or_default();
    OwnedCall { id, name: name.to_owned(), input, server: false }
}
