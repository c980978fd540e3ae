//! Trajectories of mini-swe-agent: one document. The single fenced command of a response is its
//! call, and the next message is the result.

use softland_session::ResultReader;

use crate::draft::{Results, TurnDraft, parse_stop};
use crate::fields::{Fields, decode_string, with_str};
use crate::input::{Input, JsonError};
use crate::message::{Message, parse_usage};
use crate::messages::command_call;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The output of the command that ends a run (mini-swe-agent's `agents/default.py`, now and before
/// version 2).
const SUBMITS: &[&str] = &["COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT"];

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_document(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

struct Reader {
    talk: ConversationId,
    /// The call that the next message answers.
    waiting: Option<String>,
    count: usize,
    results: Results,
    asked: bool,
}

fn read_document(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let line = input.line_number();
    let head = crate::kind::preview_objects(input.peek_bytes(1 << 20), 1);
    let session = head.first().and_then(|seen| seen.short_string("instance_id"));
    let begin = ConversationStart {
        session: session.as_deref(),
        line: Some(line),
        ..ConversationStart::default()
    };
    let mut reader: Option<Reader> = None;
    let read = input.take_object(&mut |input, key| {
        if key != "messages" || input.peek() != Some(b'[') {
            return Ok(());
        }
        let reader = reader.get_or_insert_with(|| {
            let (talk, results) = (out.begin_conversation(&begin), Results::default());
            Reader { talk, waiting: None, count: 0, results, asked: false }
        });
        input.take_array(&mut |input| {
            let line = input.line_number();
            let Some(piece) = input.take_value()? else {
                out.list_unreadable(Some(line), "a message is longer than 64 MiB");
                return Ok(());
            };
            out.list_mended(&piece);
            if let Err(reason) = reader.take_message(out, &piece.text, piece.line) {
                out.list_unreadable(Some(piece.line), reason);
            }
            Ok(())
        })
    });
    if let Some(mut reader) = reader {
        reader.results.emit_results(out, reader.talk);
        out.end_conversation(reader.talk);
    }
    read
}

impl Reader {
    fn take_message(
        &mut self,
        out: &mut StepOutput<'_>,
        text: &str,
        line: u64,
    ) -> Result<(), String> {
        let message = Message::from_json(text)?;
        self.count += 1;
        if message.has_role("assistant") {
            return self.take_turn(out, &message, text, line);
        }
        if message.has_role("tool") {
            let id = message.call_id.map(|id| id.unescape().into_owned()).unwrap_or_default();
            self.results.list.push((id, message.tool_result()));
            self.results.line = self.results.line.or(Some(line));
            return Ok(());
        }
        if !message.has_role("user") {
            return Ok(());
        }
        let said = message.text().unwrap_or_default();
        if let Some(id) = self.waiting.take() {
            let mut read = ResultReader::default();
            with_str(&said, |text| read.add_text(text));
            self.results.list.push((id, read.to_facts()));
            self.results.line = Some(line);
            return Ok(());
        }
        self.results.emit_results(out, self.talk);
        // The first message is the task; the harness writes the others.
        let machine = self.asked;
        self.asked = true;
        out.send_texts(
            self.talk,
            &[&said],
            MessageFacts { machine, line: Some(line), ..MessageFacts::default() },
        );
        Ok(())
    }

    fn take_turn(
        &mut self,
        out: &mut StepOutput<'_>,
        message: &Message<'_>,
        text: &str,
        line: u64,
    ) -> Result<(), String> {
        self.results.emit_results(out, self.talk);
        let mut draft = TurnDraft { line: Some(line), ..TurnDraft::default() };
        message.add_to(&mut draft, "")?;
        let extra = Fields::from_json(text)?.object("extra");
        if let Some(response) = extra.and_then(|extra| extra.object("response")) {
            draft.model = response.owned_text("model");
            if let Some((tokens, cost)) = response.raw("usage").and_then(parse_usage) {
                (draft.tokens, draft.cost) = (Some(tokens), cost);
            }
            draft.note_tier(&response.text("service_tier").unwrap_or_default());
            let word = response.raw("finish_reason").and_then(decode_string);
            draft.stop = word.map(|word| parse_stop(&word.unescape())).or(draft.stop);
            draft.time = response.uint("created").map(|seconds| seconds.saturating_mul(1000));
        }
        if draft.calls.is_empty() {
            let said = message.text().unwrap_or_default();
            if let Some(only) = only_command(&said) {
                let id = format!("call_{}", self.count);
                draft.calls.push(command_call(id.clone(), "bash", only));
                self.waiting = Some(id);
            }
        }
        draft.submits =
            draft.calls.iter().any(|call| SUBMITS.iter().any(|s| call.input.contains(s)));
        draft.emit_turn(out, self.talk);
        Ok(())
    }
}

/// Returns the command of a response that has exactly one fenced block of shell.
fn only_command(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut found = None;
    while let Some((body, after)) = next_fenced(rest) {
        if found.replace(body).is_some() {
            return None;
        }
        rest = after;
    }
    found
}

fn next_fenced(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    loop {
        let (_, behind) = rest.split_once("```")?;
        let tag = ["bash", "mswea_bash_command"].iter().find_map(|tag| behind.strip_prefix(tag));
        // White space up to a line end, then the command.
        let body = tag.and_then(|tagged| {
            let space = tagged.len() - tagged.trim_start().len();
            let (space, _) = tagged.split_at(space);
            let line = space.rfind('\n')?;
            tagged.get(line + 1..)
        });
        if let Some((body, after)) = body.and_then(|body| body.split_once("```")) {
            return Some((body.strip_suffix('\n').unwrap_or(body), after));
        }
        rest = behind;
    }
}
