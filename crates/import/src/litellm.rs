//! Spend logs of LiteLLM's proxy: a turn is a row that succeeded, a conversation a session's rows in
//! the order of their times.

use softland_session::core::NanoUsd;
use softland_session::wire::Tokens;

use crate::content::parse_dollars;
use crate::draft::{TurnDraft, parse_time};
use crate::fields::Fields;
use crate::input::{Input, JsonError};
use crate::message::parse_usage;
use crate::step::{ActivityRow, ConversationStart};
use crate::step_output::StepOutput;

/// The most completion tokens of a trivial row.
const TRIVIAL: u64 = 5;

/// A row, as far as it is kept until all have been read.
struct Row {
    session: String,
    model: Option<String>,
    time: Option<u64>,
    line: u64,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut rows = Vec::new();
    while let Some(next) = input.peek() {
        let read = match next {
            b'[' => input.take_array(&mut |input| take_row(input, out, &mut rows)),
            _ => take_row(input, out, &mut rows),
        };
        if let Err(broken) = read {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
    rows.sort_by(|a: &Row, b: &Row| (&a.session, a.time).cmp(&(&b.session, b.time)));
    for session in rows.chunk_by(|a, b| a.session == b.session) {
        emit_session(out, session);
    }
}

fn take_row(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    rows: &mut Vec<Row>,
) -> Result<(), JsonError> {
    let line = input.line_number();
    match input.take_value()? {
        Some(piece) => {
            out.list_mended(&piece);
            match read_row(&piece.text, line) {
                Ok(row) => rows.extend(row),
                Err(reason) => out.list_unreadable(Some(line), reason),
            }
        }
        None => out.list_unreadable(Some(line), "a row is longer than 64 MiB"),
    }
    Ok(())
}

/// Reads a row; `None` stands for a request that failed.
fn read_row(text: &str, line: u64) -> Result<Option<Row>, String> {
    let fields = Fields::from_json(text)?;
    if fields.text("status").as_deref() == Some("failure") {
        return Ok(None);
    }
    let metadata = fields.object("metadata");
    let usage = metadata.as_ref().and_then(|metadata| parse_usage(metadata.raw("usage_object")?));
    let tokens = usage.map(|(tokens, _)| tokens).or_else(|| {
        let (prompt, output) = (fields.uint("prompt_tokens")?, fields.uint("completion_tokens")?);
        Some(Tokens { input: prompt, output, ..Tokens::default() })
    });
    // What the proxy answered from its own cache asked no provider.
    let own_cache = fields.text("cache_hit").is_some_and(|hit| hit.eq_ignore_ascii_case("true"));
    let session = ["session_id", "end_user", "api_key"].iter().find_map(|key| fields.id(key));
    Ok(Some(Row {
        session: session.unwrap_or_default(),
        model: fields.owned_text("model"),
        time: fields.text("startTime").and_then(|at| parse_time(&at)),
        line,
        tokens: tokens.filter(|_| !own_cache),
        cost: parse_dollars(&fields, "spend"),
    }))
}

fn emit_session(out: &mut StepOutput<'_>, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let talk = out.begin_conversation(&ConversationStart {
        session: Some(&first.session),
        line: Some(first.line),
        ..ConversationStart::default()
    });
    for row in rows {
        let tokens = row.tokens.unwrap_or_default();
        let activity = ActivityRow {
            prompt: tokens.input_total(),
            trivial: (1..=TRIVIAL).contains(&tokens.output),
            ..ActivityRow::default()
        };
        let draft = TurnDraft {
            model: row.model.clone(),
            tokens: row.tokens,
            cost: row.cost,
            time: row.time,
            line: Some(row.line),
            row: Some(activity),
            ..TurnDraft::default()
        };
        draft.emit_turn(out, talk);
    }
    out.end_conversation(talk);
}
