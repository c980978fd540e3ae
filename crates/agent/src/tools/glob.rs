//! `glob`: finds files by name pattern.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::root::{Root, display_path};
use super::walk::{find_candidates, glob_matcher};
use crate::tool::ToolDef;

const MAX_SHOWN: usize = 1_000;
/// Together with [`MAX_SHOWN`], keeps the output below a tool's cap.
const MAX_BYTES: usize = 60 * 1024;

#[derive(Deserialize)]
pub(super) struct GlobArgs {
    pattern: String,
    path: Option<String>,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "glob".to_owned(),
        description: format!(
            "Finds files whose path matches a glob pattern (*, **, ?, [a-z], {{a,b}}), sorted by \
             path, at most {MAX_SHOWN}. A pattern without / matches file names in any folder; \
             one with / matches the path from the root folder. Skips hidden files and what \
             .gitignore and .ignore files name, in git repositories and elsewhere; links are not \
             followed."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Such as *.md or notes/**/*.txt"},
                "path": {"type": "string", "description": "Folder to look in; default: the root folder"}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }),
        reads: true,
        repeatable: true,
    }
}

pub(super) fn run(
    root: &Root,
    args: GlobArgs,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let matcher = glob_matcher(&args.pattern)?;
    let given = args.path.as_deref().unwrap_or(".");
    let found = find_candidates(root, given, Some(&matcher), cancel)?;
    let mut out = String::new();
    let mut shown = 0;
    for path in &found.paths {
        let line = display_path(path);
        if shown == MAX_SHOWN || out.len() + line.len() > MAX_BYTES {
            break;
        }
        out.push_str(&line);
        out.push('\n');
        shown += 1;
    }
    if found.paths.is_empty() {
        return Ok("(no file matches)".to_owned());
    }
    let left_out = found.paths.len() - shown;
    if left_out > 0 || found.cut {
        let more = if found.cut { " or more" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "[{left_out}{more} further files match; narrow the pattern or path]");
    }
    Ok(out)
}
