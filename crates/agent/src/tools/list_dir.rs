//! `list_dir`: lists the entries of one folder.

use std::fmt::Write as _;
use std::path::Path;

use cap_std::fs::DirEntry;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::root::{Root, escape_controls, shorten_path};
use crate::tool::{ToolDef, cut_line};

const MAX_SHOWN: usize = 1_000;
/// The entries that are read. A larger folder is listed in part, and the output says so.
const MAX_READ: usize = 50_000;

#[derive(Deserialize)]
pub(super) struct ListDirArgs {
    path: String,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "list_dir".to_owned(),
        description: format!(
            "Lists one folder: folders first (with a trailing /), then files with their size in \
             bytes, each sorted by name. Hidden and ignored entries are listed too. Shows at \
             most {MAX_SHOWN} entries. Use `.` for the root folder."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Folder, relative to the root folder"}
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        reads: true,
        repeatable: true,
    }
}

pub(super) fn run(
    root: &Root,
    args: ListDirArgs,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let (path, metadata) = root.metadata(&args.path)?;
    if !metadata.is_dir() {
        return Err(format!(
            "`{}` is not a folder: use read_file to see it",
            shorten_path(&args.path)
        ));
    }
    let fail = |error| root.explain_read_error(&args.path, &path, &error);
    let mut lines = Vec::new();
    let mut cut = false;
    for entry in root.dir().read_dir(&path).map_err(fail)? {
        if cancel.is_cancelled() {
            return Err("list_dir: cancelled".to_owned());
        }
        if lines.len() >= MAX_READ {
            cut = true;
            break;
        }
        lines.push(describe_entry(root, &path, &entry.map_err(fail)?));
    }
    lines.sort();
    Ok(render_entries(&lines, cut))
}

/// True for a file (so that folders sort first), the name, and the text after it.
type ListedEntry = (bool, String, String);

fn describe_entry(root: &Root, folder: &Path, entry: &DirEntry) -> ListedEntry {
    let name = cut_line(&escape_controls(&entry.file_name().to_string_lossy()), 255);
    let Ok(kind) = entry.file_type() else {
        return (true, name, " (unreadable)".to_owned());
    };
    if kind.is_dir() {
        return (false, name, "/".to_owned());
    }
    if kind.is_file() {
        let size = entry.metadata().map(|m| format!(" ({} bytes)", m.len()));
        return (true, name, size.unwrap_or_else(|_| " (unreadable)".to_owned()));
    }
    if !kind.is_symlink() {
        return (true, name, " (not a regular file)".to_owned());
    }
    match root.dir().metadata(folder.join(entry.file_name())) {
        Ok(target) if target.is_dir() => (false, name, "/ (link)".to_owned()),
        Ok(target) if target.is_file() => (true, name, format!(" ({} bytes, link)", target.len())),
        Ok(_) => (true, name, " (link, not a regular file)".to_owned()),
        Err(_) => (true, name, " (link that leads nowhere or outside)".to_owned()),
    }
}

fn render_entries(lines: &[ListedEntry], cut: bool) -> String {
    if lines.is_empty() {
        return "(the folder is empty)".to_owned();
    }
    let mut out = String::new();
    for (_, name, rest) in lines.iter().take(MAX_SHOWN) {
        out.push_str(name);
        out.push_str(rest);
        out.push('\n');
    }
    if lines.len() > MAX_SHOWN || cut {
        let left_out = lines.len().saturating_sub(MAX_SHOWN);
        let more = if cut { "or more " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "[{left_out} {more}entries not shown; use glob with a pattern]");
    }
    out
}
