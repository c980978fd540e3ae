//! Trajectories of mini-swe-agent: one document. The single fenced command of a response is its
//! call, and the next message is the result.

use softland_session::ResultRead;

use crate::draft::{Draft, Results, stop};
use crate::fields::{Fields, string, with_str};
use crate::input::{Broken, Input};
use crate::message::{Message, usage};
use crate::messages::command;
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

/// The output of the command that ends a run (mini-swe-agent's `agents/default.py`, now and before
/// version 2).
const SUBMITS: &[&str] = &["COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT"];

pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = document(input, out) {
            out.broken(input, &broken);
            input.pass_line();
        }
    }
}

struct Reader {
    talk: Talk,
    /// The call that the next message answers.
    waiting: Option<String>,
    count: usize,
    results: Results,
    asked: bool,
}

fn document(input: &mut Input<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
    let line = input.line_number();
    let head = crate::kind::objects(input.ahead(1 << 20), 1);
    let session = head.first().and_then(|seen| seen.string("instance_id"));
    let begin = Begin { session: session.as_deref(), line: Some(line), ..Begin::default() };
    let mut reader: Option<Reader> = None;
    let read = input.object(&mut |input, key| {
        if key != "messages" || input.peek() != Some(b'[') {
            return Ok(());
        }
        let reader = reader.get_or_insert_with(|| {
            let (talk, results) = (out.begin(&begin), Results::default());
            Reader { talk, waiting: None, count: 0, results, asked: false }
        });
        input.array(&mut |input| {
            let line = input.line_number();
            let Some(piece) = input.take()? else {
                out.unreadable(Some(line), "a message is longer than 64 MiB");
                return Ok(());
            };
            out.mended(&piece);
            if let Err(reason) = reader.message(out, &piece.text, piece.line) {
                out.unreadable(Some(piece.line), reason);
            }
            Ok(())
        })
    });
    if let Some(mut reader) = reader {
        reader.results.give(out, reader.talk);
        out.end(reader.talk);
    }
    read
}

impl Reader {
    fn message(&mut self, out: &mut Out<'_>, text: &str, line: u64) -> Result<(), String> {
        let message = Message::of(text)?;
        self.count += 1;
        if message.is("assistant") {
            return self.turn(out, &message, text, line);
        }
        if message.is("tool") {
            let id = message.call_id.map(|id| id.unescape().into_owned()).unwrap_or_default();
            self.results.list.push((id, message.result()));
            self.results.line = self.results.line.or(Some(line));
            return Ok(());
        }
        if !message.is("user") {
            return Ok(());
        }
        let said = message.text().unwrap_or_default();
        if let Some(id) = self.waiting.take() {
            let mut read = ResultRead::default();
            with_str(&said, |text| read.text(text));
            self.results.list.push((id, read.facts()));
            self.results.line = Some(line);
            return Ok(());
        }
        self.results.give(out, self.talk);
        // The first message is the task; the harness writes the others.
        let machine = self.asked;
        self.asked = true;
        out.texts(self.talk, &[&said], Said { machine, line: Some(line), ..Said::default() });
        Ok(())
    }

    fn turn(
        &mut self,
        out: &mut Out<'_>,
        message: &Message<'_>,
        text: &str,
        line: u64,
    ) -> Result<(), String> {
        self.results.give(out, self.talk);
        let mut draft = Draft { line: Some(line), ..Draft::default() };
        message.add_to(&mut draft, "")?;
        let extra = Fields::of(text)?.object("extra");
        if let Some(response) = extra.and_then(|extra| extra.object("response")) {
            draft.model = response.owned("model");
            if let Some((tokens, cost)) = response.raw("usage").and_then(usage) {
                (draft.tokens, draft.cost) = (Some(tokens), cost);
            }
            let word = response.raw("finish_reason").and_then(string);
            draft.stop = word.map(|word| stop(&word.unescape())).or(draft.stop);
            draft.time = response.uint("created").map(|seconds| seconds.saturating_mul(1000));
        }
        if draft.calls.is_empty() {
            let said = message.text().unwrap_or_default();
            if let Some(only) = only_command(&said) {
                let id = format!("call_{}", self.count);
                draft.calls.push(command(id.clone(), "bash", only));
                self.waiting = Some(id);
            }
        }
        draft.submits =
            draft.calls.iter().any(|call| SUBMITS.iter().any(|s| call.input.contains(s)));
        draft.give(out, self.talk);
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
