//! Chats of Gemini CLI: one document, with calls and their results within the model's messages.

use softland_session::ResultRead;
use softland_session::core::ToolResult;
use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, time};
use crate::fields::{Fields, elements, string};
use crate::input::{Broken, Input};
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = document(input, out) {
            out.broken(input, &broken);
            input.pass_line();
        }
    }
}

fn document(input: &mut Input<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
    let mut session: Option<String> = None;
    let mut talk = None;
    let read = input.object(&mut |input, key| {
        match key {
            "sessionId" => {
                session = input
                    .take()?
                    .and_then(|piece| string(&piece.text).map(|text| text.unescape().into_owned()));
            }
            "messages" if input.peek() == Some(b'[') => {
                let begin =
                    Begin { session: session.as_deref(), line: Some(1), ..Begin::default() };
                let talk = *talk.get_or_insert_with(|| out.begin(&begin));
                return input.array(&mut |input| {
                    let line = input.line_number();
                    let Some(piece) = input.take()? else {
                        out.unreadable(Some(line), "a message is longer than 64 MiB");
                        return Ok(());
                    };
                    out.mended(&piece);
                    if let Err(reason) = message(out, talk, &piece.text, piece.line) {
                        out.unreadable(Some(piece.line), reason);
                    }
                    Ok(())
                });
            }
            _ => {}
        }
        Ok(())
    });
    if let Some(talk) = talk {
        out.end(talk);
    }
    read
}

fn message(out: &mut Out<'_>, talk: Talk, text: &str, line: u64) -> Result<(), String> {
    let fields = Fields::of(text)?;
    let at = fields.text("timestamp").and_then(|at| time(&at));
    let content = fields.raw("content").unwrap_or_default();
    match &*fields.text("type").unwrap_or_default() {
        "user" => {
            let texts: Vec<_> = texts(content).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            out.texts(talk, &texts, Said { time: at, line: Some(line), ..Said::default() });
        }
        "gemini" => {
            let mut draft = Draft { time: at, line: Some(line), ..Draft::default() };
            draft.model = fields.owned("model");
            each_text(content, &mut |text| draft.text(text));
            for thought in elements(fields.raw("thoughts").unwrap_or_default()) {
                draft.hidden(Fields::of(thought)?.str("description"));
            }
            draft.tokens = fields.object("tokens").map(|tokens| usage(&tokens));
            let mut results = Results { time: at, line: Some(line), ..Results::default() };
            for call in elements(fields.raw("toolCalls").unwrap_or_default()) {
                let call = Fields::of(call)?;
                let id = call.owned("id").unwrap_or_default();
                let input = call.raw("args").unwrap_or("{}").to_owned();
                draft.call(id.clone(), call.owned("name").unwrap_or_default(), input, false);
                if let Some(result) = result(&call) {
                    results.list.push((id, result));
                }
            }
            draft.give(out, talk);
            results.give(out, talk);
        }
        _ => {}
    }
    Ok(())
}

/// Calls `take` with each text of a content, which is a text or a list of parts.
fn each_text<'a>(content: &'a str, take: &mut dyn FnMut(softland_session::wire::json::Str<'a>)) {
    if let Some(text) = string(content) {
        take(text);
    }
    for part in elements(content) {
        let text = string(part).or_else(|| Fields::of(part).ok()?.str("text"));
        if let Some(text) = text {
            take(text);
        }
    }
}

fn texts(content: &str) -> impl Iterator<Item = String> {
    let mut list = Vec::new();
    each_text(content, &mut |text| list.push(text.unescape().into_owned()));
    list.into_iter()
}

fn usage(tokens: &Fields<'_>) -> Tokens {
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
fn result(call: &Fields<'_>) -> Option<ToolResult<'static>> {
    let list = elements(call.raw("result")?);
    let status = call.text("status").unwrap_or_default();
    let mut read = ResultRead::default();
    let mut error = false;
    for part in list {
        let part = Fields::of(part).ok()?;
        let response = part.object("functionResponse").and_then(|part| part.object("response"));
        let text = response.as_ref().and_then(|response| {
            error |= response.has("error");
            response.str("output").or_else(|| response.str("error"))
        });
        match text.or_else(|| part.str("text")) {
            Some(text) => read.text(text),
            None => read.media(),
        }
    }
    let facts = read.facts();
    Some(ToolResult { failed: facts.failed || error || status == "error", ..facts })
}
