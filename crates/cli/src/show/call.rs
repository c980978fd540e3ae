//! `softland show RUN --call TURN.N`: shows the complete input and result of one call.

use std::process::ExitCode;

use serde_json::{Value, json};
use softland_agent::journal::{CallPosition, StoredCall};

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::render::Writer;
use crate::run::state;
use crate::runs::output_status;

/// Shows the call. Control characters are made harmless for a terminal; other output keeps its
/// bytes.
pub(super) fn show_call(args: &ShowArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let folder = state::journal_folder(&|name| std::env::var(name).ok());
    let within = folder.as_deref().and_then(|folder| state::find_enclosing_run(&args.run, folder));
    let (path, found) = match within {
        Some((_, path)) => {
            let found = StoredCall::find_in_run(&path, &args.run, &args.call);
            (path, found)
        }
        None => {
            let path =
                state::find_journal(&args.run, folder.as_deref()).map_err(explain_ledgers)?;
            let found = StoredCall::find_in_root(&path, &args.call);
            (path, found)
        }
    };
    let found = found.map_err(|error| Failure::usage(error.to_string()))?;
    let Some(call) = found else {
        let (path, place) = (path.display(), format_call_path(&args.call));
        return Err(Failure::usage(format!("{path} has no call {place} that was executed")));
    };
    let text = if args.of.json { render_json(&call) } else { render_text(&call) };
    match writer.stdout_is_terminal() {
        true => writer.write_harmless_result(&text),
        false => writer.write_result(&text),
    }
    Ok(output_status(writer))
}

/// Says why a run of a ledger is not found.
fn explain_ledgers(missing: Failure) -> Failure {
    let messages = missing.messages.into_iter();
    Failure::from_messages(messages.map(|said| said + "; a ledger holds no calls").collect())
}

fn format_call_path(places: &[CallPosition]) -> String {
    let named = places.iter().map(|place| format!("{}.{}", place.turn, place.call + 1));
    named.collect::<Vec<_>>().join("/")
}

fn render_text(call: &StoredCall) -> String {
    let input = match serde_json::from_str::<Value>(&call.input) {
        Ok(input) => serde_json::to_string_pretty(&input).unwrap_or_else(|_| call.input.clone()),
        Err(_) => call.input.clone(),
    };
    let (how, content) = match &call.result {
        None => ("no result was recorded".to_owned(), ""),
        Some(result) => {
            let failed = if result.is_error { "failed · " } else { "" };
            (format!("{failed}{} ms", result.ms), result.content.trim_end())
        }
    };
    format!("→ {} {}\n{input}\n← {how}\n{content}\n", call.name, call.id)
}

fn render_json(call: &StoredCall) -> String {
    let result = call.result.as_ref();
    let object = json!({
        "id": call.id,
        "name": call.name,
        "input": serde_json::from_str(&call.input).unwrap_or_else(|_| Value::from(&*call.input)),
        "ok": result.map(|result| !result.is_error),
        "content": result.map(|result| &result.content),
        "ms": result.map(|result| result.ms),
    });
    format!("{object}\n")
}
