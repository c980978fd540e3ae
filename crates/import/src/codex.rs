//! Rollouts of Codex: a turn is everything before a `token_count` with a new total.

use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, time};
use crate::fields::{Fields, elements, string};
use crate::input::Input;
use crate::items;
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

#[derive(Default)]
struct Reader {
    talk: Option<Talk>,
    session: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    draft: Option<Draft>,
    results: Results,
    total: Option<String>,
}

pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    let mut reader = Reader::default();
    out.lines(input, &mut |out, text, line| reader.line(out, text, line));
    if let Some(talk) = reader.talk {
        reader.results.give(out, talk);
    }
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::of(text)?;
        let Some(payload) = fields.object("payload") else { return Ok(()) };
        let at = fields.text("timestamp").and_then(|at| time(&at));
        let inner = payload.text("type").unwrap_or_default();
        match &*fields.text("type").unwrap_or_default() {
            "session_meta" => {
                self.session = payload.owned("id").or_else(|| payload.owned("session_id"));
                let source = payload.object("source");
                let spawned = source.as_ref().and_then(|source| source.raw("subagent"));
                self.agent = spawned.map(|raw| {
                    string(raw)
                        .map_or_else(|| "subagent".to_owned(), |name| name.unescape().into_owned())
                });
            }
            "turn_context" => self.model = payload.owned("model").or_else(|| self.model.take()),
            "response_item" => self.item(out, &inner, &payload, at, line)?,
            "event_msg" if inner == "user_message" => {
                let talk = self.talk(out, line);
                self.results.give(out, talk);
                let text = payload.text("message").unwrap_or_default();
                let media = payload.raw("images").is_some_and(|raw| !elements(raw).is_empty());
                let said = Said { media, time: at, line: Some(line), ..Said::default() };
                out.texts(talk, &[&text], said);
            }
            "event_msg" if inner == "token_count" => self.count(out, &payload, at, line),
            _ => {}
        }
        Ok(())
    }

    fn talk(&mut self, out: &mut Out<'_>, line: u64) -> Talk {
        let (session, agent) = (self.session.as_deref(), self.agent.as_deref());
        let begin = Begin { session, agent, line: Some(line), ..Begin::default() };
        *self.talk.get_or_insert_with(|| out.begin(&begin))
    }

    /// Returns the turn that is being written. Results of the turn before are handed on first.
    fn draft(&mut self, out: &mut Out<'_>, at: Option<u64>, line: u64) -> &mut Draft {
        let talk = self.talk(out, line);
        if self.draft.is_none() {
            self.results.give(out, talk);
        }
        self.draft.get_or_insert_with(|| Draft { time: at, line: Some(line), ..Draft::default() })
    }

    fn item(
        &mut self,
        out: &mut Out<'_>,
        kind: &str,
        payload: &Fields<'_>,
        at: Option<u64>,
        line: u64,
    ) -> Result<(), String> {
        match kind {
            "message" if payload.text("role").as_deref() == Some("assistant") => {
                let draft = self.draft(out, at, line);
                for part in elements(payload.raw("content").unwrap_or_default()) {
                    if let Some(text) = Fields::of(part)?.str("text") {
                        draft.text(text);
                    }
                }
            }
            kind if items::is_models(kind) => {
                items::add_to(self.draft(out, at, line), kind, payload)?;
            }
            kind if items::is_result(kind) => {
                self.talk(out, line);
                let id = payload.owned("call_id").unwrap_or_default();
                self.results.list.push((id, items::output(payload)));
                self.results.time = self.results.time.or(at);
                self.results.line = self.results.line.or(Some(line));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a response, if its total is a new one.
    fn count(&mut self, out: &mut Out<'_>, payload: &Fields<'_>, at: Option<u64>, line: u64) {
        let Some(info) = payload.object("info") else { return };
        let Some(total) = info.raw("total_token_usage") else { return };
        if self.total.as_deref() == Some(total) {
            return;
        }
        self.total = Some(total.to_owned());
        let model = self.model.clone();
        let talk = self.talk(out, line);
        if self.draft.is_none() {
            self.results.give(out, talk);
        }
        let mut draft = self.draft.take().unwrap_or_default();
        draft.model = model;
        draft.time = draft.time.or(at);
        draft.line = draft.line.or(Some(line));
        draft.tokens = info.object("last_token_usage").map(|usage| tokens(&usage));
        draft.give(out, talk);
        self.results.give(out, talk);
    }
}

fn tokens(usage: &Fields<'_>) -> Tokens {
    let count = |key| usage.uint(key).unwrap_or(0);
    let read = count("cached_input_tokens");
    Tokens {
        input: count("input_tokens").saturating_sub(read),
        output: count("output_tokens"),
        cache_read: read,
        ..Tokens::default()
    }
}
