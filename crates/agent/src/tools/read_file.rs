//! `read_file`: reads a text file, or a part of it, with line numbers.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::change::Files;
use super::root::shorten_path;
use crate::tool::{DEFAULT_OUTPUT_CAP, ToolDef};

const DEFAULT_LIMIT: u64 = 2_000;
/// The characters of a line that are shown.
const LINE_CHARS: usize = 2_000;
/// Room for the last line, which says how to go on.
const NOTE_ROOM: usize = 256;

#[derive(Deserialize)]
pub(super) struct ReadFileArgs {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "read_file".to_owned(),
        description: format!(
            "Reads a text file. Each line comes with its number: `   12→text`. Shows at most \
             {DEFAULT_LIMIT} lines at once; use offset and limit for other parts. Paths are \
             relative to the root folder."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File, relative to the root folder"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line to show, from 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "Number of lines to show"}
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        reads: true,
        repeatable: true,
    }
}

pub(super) fn run(
    files: &Files,
    args: ReadFileArgs,
    _: &CancellationToken,
) -> Result<String, String> {
    let reading = files.read_text(&args.path)?;
    let shown = render_file(&reading.bytes, &args)?;
    files.mark_seen(reading);
    Ok(shown)
}

fn render_file(bytes: &[u8], args: &ReadFileArgs) -> Result<String, String> {
    if bytes.is_empty() {
        return Ok("(the file is empty)".to_owned());
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let first = args.offset.unwrap_or(1);
    let total = text.lines().count() as u64;
    if first > total {
        return Err(format!(
            "`{}` has {total} lines; offset {first} is past its end",
            shorten_path(&args.path)
        ));
    }
    Ok(render_page(text, first, args.limit.unwrap_or(DEFAULT_LIMIT), total))
}

/// Returns the lines from `first` on, up to `limit` lines and the output cap.
fn render_page(text: &str, first: u64, limit: u64, total: u64) -> String {
    let mut out = String::new();
    let mut next = first;
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    for line in text.lines().skip(skipped) {
        if next - first >= limit {
            break;
        }
        let line = number_line(next, line);
        if out.len() + line.len() > DEFAULT_OUTPUT_CAP - NOTE_ROOM {
            break;
        }
        out.push_str(&line);
        next += 1;
    }
    if next <= total {
        let shown_to = next - 1;
        // Writing to a String cannot fail.
        let _ = write!(out, "[lines {first} to {shown_to} of {total}; go on with offset {next}]");
    }
    out
}

fn number_line(number: u64, line: &str) -> String {
    let chars = line.chars().count();
    if chars <= LINE_CHARS {
        return format!("{number:>6}→{line}\n");
    }
    let kept: String = line.chars().take(LINE_CHARS).collect();
    format!("{number:>6}→{kept}[… {} more characters in this line]\n", chars - LINE_CHARS)
}
