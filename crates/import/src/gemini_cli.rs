//! Chats of Gemini CLI: one document, or, of newer versions, a head and a message a line. Calls and
//! their results stand within the model's messages.
//!
//! A message is written again under its id when it grows, as a line or within `$set`; what was said
//! last counts. Messages that the user took back (`$rewindTo`) were paid, and count.

use std::collections::HashMap;

use softland_session::ResultReader;
use softland_session::core::ToolResult;
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::{Input, JsonError};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The bytes of messages that are held back, since they may be written again.
const HELD: usize = 64 << 20;

/// The messages of a chat that were read, each as it was written last.
#[derive(Debug)]
struct Chat {
    talk: ConversationId,
    held: Vec<WrittenMessage>,
    /// The place of each id in `held`.
    places: HashMap<String, usize>,
    bytes: usize,
}

#[derive(Debug)]
struct WrittenMessage {
    text: String,
    line: u64,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_document(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

fn read_document(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let mut session: Option<String> = None;
    let mut chat = None;
    let read = input.take_object(&mut |input, key| {
        match key {
            "sessionId" => {
                session = input.take_value()?.and_then(|piece| {
                    decode_string(&piece.text).map(|text| text.unescape().into_owned())
                });
            }
            "messages" if input.peek() == Some(b'[') => {
                let chat = chat.get_or_insert_with(|| Chat::begin(out, session.as_deref(), 1));
                return input.take_array(&mut |input| {
                    let line = input.line_number();
                    let Some(piece) = input.take_value()? else {
                        out.list_unreadable(Some(line), "a message is longer than 64 MiB");
                        return Ok(());
                    };
                    out.list_mended(&piece);
                    if let Err(reason) = chat.hold_message(out, &piece.text, piece.line) {
                        out.list_unreadable(Some(piece.line), reason);
                    }
                    Ok(())
                });
            }
            _ => {}
        }
        Ok(())
    });
    if let Some(chat) = chat {
        chat.end(out);
    }
    read
}

/// Reads a chat that is written line by line.
pub(crate) fn read_lines(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut chat = None;
    out.read_lines(input, &mut |out, text, line| {
        let fields = Fields::from_json(text)?;
        let session = fields.text("sessionId");
        let chat = chat.get_or_insert_with(|| Chat::begin(out, session.as_deref(), line));
        if let Some(changes) = fields.object("$set") {
            let messages = array_elements(changes.raw("messages").unwrap_or_default());
            return messages.into_iter().try_for_each(|text| chat.hold_message(out, text, line));
        }
        if fields.has_key("type") { chat.hold_message(out, text, line) } else { Ok(()) }
    });
    if let Some(chat) = chat {
        chat.end(out);
    }
}

impl Chat {
    fn begin(out: &mut StepOutput<'_>, session: Option<&str>, line: u64) -> Self {
        let begin = ConversationStart { session, line: Some(line), ..ConversationStart::default() };
        let talk = out.begin_conversation(&begin);
        Self { talk, held: Vec::new(), places: HashMap::new(), bytes: 0 }
    }

    /// Takes a message in, in the place of the one with its id.
    fn hold_message(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        line: u64,
    ) -> Result<(), String> {
        let id = Fields::from_json(text)?.id("id");
        let message = WrittenMessage { text: text.to_owned(), line };
        self.bytes += text.len();
        match id.as_ref().and_then(|id| self.places.get(id)).and_then(|at| self.held.get_mut(*at)) {
            Some(before) => {
                self.bytes -= before.text.len();
                *before = message;
            }
            None => {
                self.places.extend(id.map(|id| (id, self.held.len())));
                self.held.push(message);
            }
        }
        if self.bytes > HELD {
            self.emit_held(out);
        }
        Ok(())
    }

    fn emit_held(&mut self, out: &mut StepOutput<'_>) {
        self.places.clear();
        self.bytes = 0;
        for message in self.held.drain(..) {
            if let Err(reason) = read_message(out, self.talk, &message.text, message.line) {
                out.list_unreadable(Some(message.line), reason);
            }
        }
    }

    fn end(mut self, out: &mut StepOutput<'_>) {
        self.emit_held(out);
        out.end_conversation(self.talk);
    }
}

fn read_message(
    out: &mut StepOutput<'_>,
    talk: ConversationId,
    text: &str,
    line: u64,
) -> Result<(), String> {
    let fields = Fields::from_json(text)?;
    let at = fields.text("timestamp").and_then(|at| parse_time(&at));
    let content = fields.raw("content").unwrap_or_default();
    match &*fields.text("type").unwrap_or_default() {
        "user" => {
            let texts: Vec<_> = collect_texts(content).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            out.send_texts(
                talk,
                &texts,
                MessageFacts { time: at, line: Some(line), ..MessageFacts::default() },
            );
        }
        "gemini" => {
            let mut draft = TurnDraft { time: at, line: Some(line), ..TurnDraft::default() };
            draft.model = fields.owned_text("model");
            each_text(content, &mut |text| draft.add_text(text));
            for thought in array_elements(fields.raw("thoughts").unwrap_or_default()) {
                draft.add_hidden(Fields::from_json(thought)?.str("description"));
            }
            draft.tokens = fields.object("tokens").map(|tokens| read_tokens(&tokens));
            let mut results = Results { time: at, line: Some(line), ..Results::default() };
            for call in array_elements(fields.raw("toolCalls").unwrap_or_default()) {
                let call = Fields::from_json(call)?;
                let id = call.owned_text("id").unwrap_or_default();
                let input = call.raw("args").unwrap_or("{}").to_owned();
                draft.add_call(
                    id.clone(),
                    call.owned_text("name").unwrap_or_default(),
                    input,
                    false,
                );
                if let Some(result) = read_result(&call) {
                    results.list.push((id, result));
                }
            }
            draft.emit_turn(out, talk);
            results.emit_results(out, talk);
        }
        _ => {}
    }
    Ok(())
}

/// Calls `take` with each text of a content, which is a text or a list of parts.
fn each_text<'a>(content: &'a str, take: &mut dyn FnMut(softland_session::wire::json::Str<'a>)) {
    if let Some(text) = decode_string(content) {
        take(text);
    }
    for part in array_elements(content) {
        let text = decode_string(part).or_else(|| Fields::from_json(part).ok()?.str("text"));
        if let Some(text) = text {
            take(text);
        }
    }
}

fn collect_texts(content: &str) -> impl Iterator<Item = String> {
    let mut list = Vec::new();
    each_text(content, &mut |text| list.push(text.unescape().into_owned()));
    list.into_iter()
}

fn read_tokens(tokens: &Fields<'_>) -> Tokens {
    let count = |key| tokens.uint(key).unwrap_or(0);
    let read = count("cached");
    Tokens {
        input: count("input").saturating_sub(read).saturating_add(count("tool")),
        output: count("output").saturating_add(count("thoughts")),
        cache_read: read,
        ..Tokens::default()
    }
}

/// Returns the result of a call; `None` if it is not recorded.
fn read_result(call: &Fields<'_>) -> Option<ToolResult<'static>> {
    let list = array_elements(call.raw("result")?);
    let status = call.text("status").unwrap_or_default();
    let mut read = ResultReader::default();
    let mut error = false;
    for json in list {
        let part = Fields::from_json(json).ok()?;
        let response = part.object("functionResponse").and_then(|part| part.object("response"));
        let text = response.as_ref().and_then(|response| {
            error |= response.has_key("error");
            response.str("output").or_else(|| response.str("error"))
        });
        match text.or_else(|| part.str("text")) {
            Some(text) => read.add_text(text),
            None => read.add_media(json),
        }
    }
    let facts = read.to_facts();
    Some(ToolResult { failed: facts.failed || error || status == "error", ..facts })
}
