//! Sessions of Qwen Code: JSONL with messages in Gemini's form; a turn is an `assistant` line.

use softland_session::wire::Tokens;

use crate::content::{read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements};
use crate::input::Input;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

#[derive(Default)]
struct QwenReader {
    /// The session's conversation, and those of sub-agents.
    talks: Vec<(String, ConversationId, Results)>,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut reader = QwenReader::default();
    out.read_lines(input, &mut |out, text, line| reader.take_line(out, text, line));
    for (_, talk, results) in &mut reader.talks {
        results.emit_results(out, *talk);
    }
}

impl QwenReader {
    fn take_line(&mut self, out: &mut StepOutput<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::from_json(text)?;
        let Some(message) = fields.object("message") else { return Ok(()) };
        let time = fields.text("timestamp").and_then(|at| parse_time(&at));
        let parts: Vec<Fields<'_>> = array_elements(message.raw("parts").unwrap_or_default())
            .into_iter()
            .map(Fields::from_json)
            .collect::<Result<_, _>>()?;
        let kind = fields.text("type").unwrap_or_default();
        let (talk, results) = match &*kind {
            "user" | "assistant" | "tool_result" => self.find_talk(out, &fields, line),
            _ => return Ok(()),
        };
        if kind == "assistant" {
            results.emit_results(out, talk);
            let mut draft = TurnDraft { time, line: Some(line), ..TurnDraft::default() };
            draft.model = fields.owned_text("model");
            parts.iter().for_each(|part| add_part(&mut draft, part));
            draft.tokens = fields.object("usageMetadata").map(|usage| read_tokens(&usage));
            draft.emit_turn(out, talk);
            return Ok(());
        }
        for part in &parts {
            let Some(response) = part.object("functionResponse") else { continue };
            let id = response.id("id").unwrap_or_default();
            let inner = response.object("response");
            let inner = inner.as_ref();
            let failed = inner.is_some_and(|inner| inner.has_key("error"));
            let content = inner.and_then(|own| own.raw("output").or_else(|| own.raw("error")));
            let content = content.or_else(|| response.raw("response")).unwrap_or_default();
            results.list.push((id, read_result(content, failed)));
            results.time = results.time.or(time);
            results.line = results.line.or(Some(line));
        }
        let texts: Vec<_> = parts.iter().filter_map(|part| part.text("text")).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        if !texts.is_empty() {
            results.emit_results(out, talk);
            let said = MessageFacts { time, line: Some(line), ..MessageFacts::default() };
            out.send_texts(talk, &texts, said);
        }
        Ok(())
    }

    /// Returns the conversation of a line, which begins with its first line.
    fn find_talk(
        &mut self,
        out: &mut StepOutput<'_>,
        fields: &Fields<'_>,
        line: u64,
    ) -> (ConversationId, &mut Results) {
        let session = fields.id("sessionId").unwrap_or_default();
        let at = self.talks.iter().position(|(known, ..)| *known == session);
        let at = at.unwrap_or_else(|| {
            let project = fields.owned_text("cwd");
            let talk = out.begin_conversation(&ConversationStart {
                session: Some(&session),
                project: project.as_deref(),
                line: Some(line),
                ..ConversationStart::default()
            });
            self.talks.push((session, talk, Results::default()));
            self.talks.len() - 1
        });
        let (_, talk, results) = &mut self.talks[at];
        (*talk, results)
    }
}

fn add_part(draft: &mut TurnDraft, part: &Fields<'_>) {
    if let Some(call) = part.object("functionCall") {
        let id = call.id("id").unwrap_or_default();
        let name = call.owned_text("name").unwrap_or_default();
        draft.add_call(id, name, read_arguments(call.raw("args")), false);
    } else if part.is_true("thought") {
        draft.add_hidden(part.str("text"));
    } else if let Some(text) = part.str("text") {
        draft.add_text(text);
    } else {
        draft.gives = true;
    }
}

/// Reads usage in Gemini's form. Qwen Code counts thoughts among the candidates, and a provider that
/// does not shows it by its total.
fn read_tokens(usage: &Fields<'_>) -> Tokens {
    let count = |key| usage.uint(key).unwrap_or(0);
    let (prompt, read) = (count("promptTokenCount"), count("cachedContentTokenCount"));
    let (said, thought) = (count("candidatesTokenCount"), count("thoughtsTokenCount"));
    let beside = count("totalTokenCount") == prompt + said + thought && thought > 0;
    Tokens {
        input: prompt.saturating_sub(read),
        output: if beside { said + thought } else { said },
        cache_read: read,
        ..Tokens::default()
    }
}
