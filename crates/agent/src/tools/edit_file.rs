//! `edit_file`: replaces one piece of a file, found by its exact text.

use memchr::memmem;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::change::{ChangeEffect, Files};
use super::root::shorten_path;
use crate::tool::ToolDef;

#[derive(Deserialize)]
pub(super) struct EditFileArgs {
    path: String,
    old: String,
    new: String,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "edit_file".to_owned(),
        description: "Replaces one piece of a text file: `old`, which must stand in the file \
                      exactly once, letter for letter, by `new`. Read the file first with \
                      read_file; the line numbers that it shows are no part of the file. Refuses \
                      a file that has changed since it was read."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File, relative to the root folder"},
                "old": {"type": "string", "description": "The text to replace, with enough around it to stand there once"},
                "new": {"type": "string", "description": "The text in its place; empty to delete"}
            },
            "required": ["path", "old", "new"],
            "additionalProperties": false
        }),
        reads: false,
        repeatable: false,
    }
}

pub(super) fn run(
    files: &Files,
    args: EditFileArgs,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let path = shorten_path(&args.path);
    if args.old.is_empty() {
        return Err(
            "`old` is empty: give the text to replace (write_file writes a whole file)".to_owned()
        );
    }
    if args.old == args.new {
        return Err("`old` and `new` are the same: nothing was changed".to_owned());
    }
    let mut lines = (0, 0);
    let edit = |text: &[u8]| {
        let place = find_replacement(text, &args)?;
        let first = count_newlines(text.get(..place.at).unwrap_or_default()) + 1;
        lines = (first, first + count_newlines(place.new.trim_ascii_end()));
        Ok(place.apply_to(text))
    };
    match files.edit_file(&args.path, edit, cancel)? {
        ChangeEffect::Nothing => Ok(format!("`{path}` is the same with it: nothing was changed")),
        ChangeEffect::Created | ChangeEffect::Replaced => {
            let (first, last) = lines;
            let lines = if first == last {
                format!("line {first}")
            } else {
                format!("lines {first} to {last}")
            };
            Ok(format!("edited `{path}`: the new text stands at {lines}"))
        }
    }
}

/// The position of the old text, and the text that replaces it.
struct Replacement {
    at: usize,
    length: usize,
    new: Vec<u8>,
}

impl Replacement {
    fn apply_to(&self, text: &[u8]) -> Vec<u8> {
        let before = text.get(..self.at).unwrap_or_default();
        let after = text.get(self.at + self.length..).unwrap_or_default();
        [before, &self.new, after].concat()
    }
}

fn find_replacement(text: &[u8], args: &EditFileArgs) -> Result<Replacement, String> {
    let path = shorten_path(&args.path);
    let (mut old, mut new) = (args.old.clone(), args.new.clone());
    let crlf = memmem::find_iter(text, b"\r\n").count();
    let alike = crlf == count_newlines(text);
    if crlf > 0 && (alike || memmem::find(text, old.as_bytes()).is_none()) {
        // `read_file` does not show line ends.
        (old, new) = (with_crlf(&old), with_crlf(&new));
    }
    let Some(at) = memmem::find(text, old.as_bytes()) else {
        let hint = if args.old.lines().any(is_numbered) {
            "; the line numbers and → that read_file shows are no part of the file"
        } else {
            ": it must be there letter for letter, with the same spaces and line ends"
        };
        return Err(format!("`old` does not stand in `{path}`{hint}"));
    };
    // Copies may overlap. Then the model's intention is unclear too.
    let behind = text.get(at + 1..).unwrap_or_default();
    if memmem::find(behind, old.as_bytes()).is_some() {
        let places = memmem::find_iter(text, old.as_bytes()).count().max(2);
        return Err(format!(
            "`old` stands in `{path}` {places} times: give more of the text around it, so that it \
             stands there once"
        ));
    }
    Ok(Replacement { at, length: old.len(), new: new.into_bytes() })
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Returns true if a line looks like the output of `read_file`.
fn is_numbered(line: &str) -> bool {
    line.split_once('→').is_some_and(|(number, _)| number.trim().parse::<u64>().is_ok())
}

fn count_newlines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}
