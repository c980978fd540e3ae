//! Rollouts of Codex: a turn is everything before a `token_count` with a new total.

use softland_session::core::Digest;
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::Input;
use crate::items;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

#[derive(Default)]
struct Reader {
    talk: Option<ConversationId>,
    session: Option<String>,
    agent: Option<String>,
    project: Option<String>,
    model: Option<String>,
    draft: Option<TurnDraft>,
    results: Results,
    total: Option<String>,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut reader = Reader::default();
    out.read_lines(input, &mut |out, text, line| reader.take_line(out, text, line));
    if let Some(talk) = reader.talk {
        reader.results.emit_results(out, talk);
    }
}

impl Reader {
    fn take_line(&mut self, out: &mut StepOutput<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::from_json(text)?;
        let Some(payload) = fields.object("payload") else { return Ok(()) };
        let at = fields.text("timestamp").and_then(|at| parse_time(&at));
        let inner = payload.text("type").unwrap_or_default();
        match &*fields.text("type").unwrap_or_default() {
            "session_meta" => {
                self.session =
                    payload.owned_text("id").or_else(|| payload.owned_text("session_id"));
                self.project = payload.owned_text("cwd");
                let source = payload.object("source");
                let spawned = source.as_ref().and_then(|source| source.raw("subagent"));
                self.agent = spawned.map(|raw| {
                    decode_string(raw)
                        .map_or_else(|| "subagent".to_owned(), |name| name.unescape().into_owned())
                });
            }
            "turn_context" => {
                self.model = payload.owned_text("model").or_else(|| self.model.take())
            }
            "response_item" => self.take_item(out, &inner, &payload, at, line)?,
            "event_msg" if inner == "user_message" => {
                let talk = self.open_conversation(out, line);
                self.results.emit_results(out, talk);
                let text = payload.text("message").unwrap_or_default();
                let images = payload.raw("images");
                let images = images.filter(|images| !array_elements(images).is_empty());
                let media = images.map(|images| Digest::from_bytes(images.as_bytes()));
                let said =
                    MessageFacts { media, time: at, line: Some(line), ..MessageFacts::default() };
                out.send_texts(talk, &[&text], said);
            }
            "event_msg" if inner == "token_count" => self.take_token_count(out, &payload, at, line),
            _ => {}
        }
        Ok(())
    }

    fn open_conversation(&mut self, out: &mut StepOutput<'_>, line: u64) -> ConversationId {
        let begin = ConversationStart {
            session: self.session.as_deref(),
            agent: self.agent.as_deref(),
            project: self.project.as_deref(),
            line: Some(line),
            ..ConversationStart::default()
        };
        *self.talk.get_or_insert_with(|| out.begin_conversation(&begin))
    }

    /// Returns the turn that is being written. Results of the turn before are handed on first.
    fn open_draft(
        &mut self,
        out: &mut StepOutput<'_>,
        at: Option<u64>,
        line: u64,
    ) -> &mut TurnDraft {
        let talk = self.open_conversation(out, line);
        if self.draft.is_none() {
            self.results.emit_results(out, talk);
        }
        self.draft.get_or_insert_with(|| TurnDraft {
            time: at,
            line: Some(line),
            ..TurnDraft::default()
        })
    }

    fn take_item(
        &mut self,
        out: &mut StepOutput<'_>,
        kind: &str,
        payload: &Fields<'_>,
        at: Option<u64>,
        line: u64,
    ) -> Result<(), String> {
        match kind {
            "message" if payload.text("role").as_deref() == Some("assistant") => {
                let draft = self.open_draft(out, at, line);
                for part in array_elements(payload.raw("content").unwrap_or_default()) {
                    if let Some(text) = Fields::from_json(part)?.str("text") {
                        draft.add_text(text);
                    }
                }
            }
            kind if items::is_model_item(kind) => {
                items::add_item(self.open_draft(out, at, line), kind, payload)?;
            }
            kind if items::is_result(kind) => {
                self.open_conversation(out, line);
                let id = payload.owned_text("call_id").unwrap_or_default();
                self.results.list.push((id, items::read_output(payload)));
                self.results.time = self.results.time.or(at);
                self.results.line = self.results.line.or(Some(line));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a response, if its total is a new one.
    fn take_token_count(
        &mut self,
        out: &mut StepOutput<'_>,
        payload: &Fields<'_>,
        at: Option<u64>,
        line: u64,
    ) {
        let Some(info) = payload.object("info") else { return };
        let Some(total) = info.raw("total_token_usage") else { return };
        if self.total.as_deref() == Some(total) {
            return;
        }
        self.total = Some(total.to_owned());
        let model = self.model.clone();
        let talk = self.open_conversation(out, line);
        if self.draft.is_none() {
            self.results.emit_results(out, talk);
        }
        let mut draft = self.draft.take().unwrap_or_default();
        draft.model = model;
        draft.time = draft.time.or(at);
        draft.line = draft.line.or(Some(line));
        draft.tokens = info.object("last_token_usage").map(|usage| read_tokens(&usage));
        draft.emit_turn(out, talk);
        self.results.emit_results(out, talk);
    }
}

fn read_tokens(usage: &Fields<'_>) -> Tokens {
    let count = |key| usage.uint(key).unwrap_or(0);
    let read = count("cached_input_tokens");
    Tokens {
        input: count("input_tokens").saturating_sub(read),
        output: count("output_tokens"),
        cache_read: read,
        ..Tokens::default()
    }
}
