//! Tasks of Cline, Roo Code and Kilo Code: `ui_messages.json` of a task's folder. A turn is an
//! `api_req_started` that states its usage; what follows it is the model's, up to the next.

use softland_session::wire::Tokens;

use crate::content::{parse_dollars, read_result};
use crate::draft::{Results, TurnDraft};
use crate::fields::{Fields, with_str};
use crate::input::{Input, JsonError};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

struct TaskReader {
    talk: ConversationId,
    /// The turn whose request has begun, and the results of its calls.
    open: Option<TurnDraft>,
    results: Results,
    asked: bool,
    calls: u64,
    /// True once a request has shown that `tokensIn` leaves out what was cached: some versions
    /// write it so, others not.
    without_cache: bool,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_array(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

fn read_array(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let line = Some(input.line_number());
    let talk = out.begin_conversation(&ConversationStart { line, ..ConversationStart::default() });
    let mut reader = TaskReader {
        talk,
        open: None,
        results: Results::default(),
        asked: false,
        calls: 0,
        without_cache: false,
    };
    let read = input.take_array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take_value()? else {
            out.list_unreadable(Some(line), "a message is longer than 64 MiB");
            return Ok(());
        };
        out.list_mended(&piece);
        if let Err(reason) = reader.take_message(out, &piece.text, line) {
            out.list_unreadable(Some(line), reason);
        }
        Ok(())
    });
    reader.close_turn(out);
    out.end_conversation(talk);
    read
}

impl TaskReader {
    fn take_message(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        line: u64,
    ) -> Result<(), String> {
        let fields = Fields::from_json(text)?;
        if fields.is_true("partial") {
            return Ok(());
        }
        let kind = fields.text("say").or_else(|| fields.text("ask")).unwrap_or_default();
        let said = fields.text("text").unwrap_or_default();
        let (time, line) = (fields.uint("ts"), Some(line));
        match &*kind {
            "api_req_started" => {
                self.close_turn(out);
                let mut draft = TurnDraft { time, line, ..TurnDraft::default() };
                let model = fields.object("modelInfo");
                draft.model = model.and_then(|model| model.owned_text("modelId"));
                self.read_usage(&mut draft, &said);
                self.open = Some(draft);
            }
            "task" | "user_feedback" => self.take_user(out, &said, (time, line)),
            "text" if !self.asked => self.take_user(out, &said, (time, line)),
            "text" | "completion_result" | "plan_mode_respond" | "followup" => {
                if let Some(draft) = &mut self.open {
                    with_str(&said, |text| draft.add_text(text));
                }
            }
            "reasoning" => {
                if let Some(draft) = &mut self.open {
                    with_str(&said, |text| draft.add_hidden(Some(text)));
                }
            }
            "tool" | "command" | "use_mcp_server" | "browser_action" => {
                self.take_call(&kind, &said, (time, line));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_user(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        (time, line): (Option<u64>, Option<u64>),
    ) {
        self.close_turn(out);
        self.asked = true;
        out.send_texts(self.talk, &[text], MessageFacts { time, line, ..MessageFacts::default() });
    }

    /// Adds a call to the open turn. Where the recording has its result, it stands beside it.
    fn take_call(&mut self, kind: &str, said: &str, (time, line): (Option<u64>, Option<u64>)) {
        let Some(draft) = &mut self.open else { return };
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let about = Fields::from_json(said).unwrap_or_default();
        let name = about.owned_text("tool").unwrap_or_else(|| kind.to_owned());
        let input = match about.raw("content") {
            Some(content) => {
                self.results.list.push((id.clone(), read_result(content, false)));
                self.results.time = self.results.time.or(time);
                self.results.line = self.results.line.or(line);
                about.raw("path").map(|path| format!("{{\"path\":{path}}}")).unwrap_or_default()
            }
            None => said.to_owned(),
        };
        draft.add_call(id, name, input, false);
    }

    /// Reads the usage of a request, which is there once it was answered.
    fn read_usage(&mut self, draft: &mut TurnDraft, text: &str) {
        let usage = Fields::from_json(text).unwrap_or_default();
        let Some(all) = usage.uint("tokensIn") else { return };
        let count = |key| usage.uint(key).unwrap_or(0);
        let (read, written) = (count("cacheReads"), count("cacheWrites"));
        self.without_cache |= read + written > all;
        let cached = if self.without_cache { 0 } else { read + written };
        draft.tokens = Some(Tokens {
            input: all.saturating_sub(cached),
            output: count("tokensOut"),
            cache_read: read,
            cache_write_5m: written,
            ..Tokens::default()
        });
        draft.cost = parse_dollars(&usage, "cost");
    }

    /// Hands on the open turn and the results of its calls. A request without usage was not answered.
    fn close_turn(&mut self, out: &mut StepOutput<'_>) {
        if let Some(mut draft) = self.open.take()
            && draft.tokens.is_some()
        {
            draft.gives |= draft.calls.is_empty() && draft.chars == 0;
            draft.emit_turn(out, self.talk);
            self.results.emit_results(out, self.talk);
        }
        self.results = Results::default();
    }
}
