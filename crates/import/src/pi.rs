//! Sessions of Pi, and of OpenClaw, which writes the same lines without a tree: a turn is an
//! assistant's `message`.

use softland_session::core::Stop;
use softland_session::wire::Tokens;

use crate::content::{collect_texts, parse_dollars, read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_stop, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::Input;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

#[derive(Default)]
struct PiReader {
    session: Option<String>,
    project: Option<String>,
    model: Option<String>,
    talk: Option<ConversationId>,
    results: Results,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut reader = PiReader::default();
    out.read_lines(input, &mut |out, text, line| reader.take_line(out, text, line));
    if let Some(talk) = reader.talk {
        reader.results.emit_results(out, talk);
    }
}

impl PiReader {
    fn take_line(&mut self, out: &mut StepOutput<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::from_json(text)?;
        match &*fields.text("type").unwrap_or_default() {
            "session" => {
                self.session = fields.id("id");
                self.project = fields.owned_text("cwd");
                self.model = fields.owned_text("modelId");
            }
            "model_change" => {
                self.model = fields.owned_text("modelId").or_else(|| self.model.take())
            }
            "message" => {
                let time = fields.text("timestamp").and_then(|at| parse_time(&at));
                if let Some(message) = fields.object("message") {
                    self.take_message(out, &message, time, line)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        out: &mut StepOutput<'_>,
        message: &Fields<'_>,
        time: Option<u64>,
        line: u64,
    ) -> Result<(), String> {
        let content = message.raw("content").unwrap_or_default();
        match &*message.text("role").unwrap_or_default() {
            "user" => {
                let talk = self.open_talk(out, line);
                self.results.emit_results(out, talk);
                let (texts, media) = collect_texts(content);
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let line = Some(line);
                let said = MessageFacts { media, time, line, ..MessageFacts::default() };
                out.send_texts(talk, &texts, said);
            }
            "assistant" => {
                let mut draft = self.read_turn(message)?;
                (draft.time, draft.line) = (time, Some(line));
                let nothing = draft.chars == 0 && draft.calls.is_empty() && !draft.hidden;
                let broken =
                    matches!(message.text("stopReason").as_deref(), Some("aborted" | "error"));
                if broken && nothing && draft.tokens.is_none_or(|tokens| tokens.is_unreported()) {
                    return Ok(()); // The request brought no turn.
                }
                let talk = self.open_talk(out, line);
                self.results.emit_results(out, talk);
                draft.emit_turn(out, talk);
            }
            "toolResult" => {
                self.open_talk(out, line);
                let id = message.id("toolCallId").unwrap_or_default();
                self.results.list.push((id, read_result(content, message.is_true("isError"))));
                self.results.time = self.results.time.or(time);
                self.results.line = self.results.line.or(Some(line));
            }
            _ => {}
        }
        Ok(())
    }

    fn read_turn(&self, message: &Fields<'_>) -> Result<TurnDraft, String> {
        let model = message.owned_text("model").or_else(|| self.model.clone());
        let mut draft = TurnDraft { model, ..TurnDraft::default() };
        let content = message.raw("content").unwrap_or_default();
        if let Some(text) = decode_string(content) {
            draft.add_text(text);
        }
        for part in array_elements(content) {
            let part = Fields::from_json(part)?;
            match &*part.text("type").unwrap_or_default() {
                "text" => part.str("text").into_iter().for_each(|text| draft.add_text(text)),
                "thinking" => draft.add_hidden(part.str("thinking")),
                "toolCall" | "tool_use" => {
                    let id = part.id("id").unwrap_or_default();
                    let name = part.owned_text("name").unwrap_or_default();
                    let input = read_arguments(part.raw("arguments").or_else(|| part.raw("input")));
                    draft.add_call(id, name, input, false);
                }
                _ => draft.hidden = true,
            }
        }
        if let Some(usage) = message.object("usage") {
            let count = |key| usage.uint(key).unwrap_or(0);
            draft.tokens = Some(Tokens {
                input: count("input"),
                output: count("output"),
                cache_read: count("cacheRead"),
                cache_write_5m: count("cacheWrite"),
                ..Tokens::default()
            });
            draft.cost = usage.object("cost").and_then(|cost| parse_dollars(&cost, "total"));
        }
        draft.stop = message.text("stopReason").map(|word| match &*word {
            "toolUse" => Stop::Natural,
            word => parse_stop(word),
        });
        Ok(draft)
    }

    fn open_talk(&mut self, out: &mut StepOutput<'_>, line: u64) -> ConversationId {
        let (session, project) = (self.session.as_deref(), self.project.as_deref());
        let line = Some(line);
        let begin = ConversationStart { session, project, line, ..ConversationStart::default() };
        *self.talk.get_or_insert_with(|| out.begin_conversation(&begin))
    }
}
