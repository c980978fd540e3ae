//! `write_file`: writes a whole file.

use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::change::{ChangeEffect, Files};
use super::root::shorten_path;
use crate::tool::ToolDef;

#[derive(Deserialize)]
pub(super) struct WriteFileArgs {
    path: String,
    content: String,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "write_file".to_owned(),
        description: "Writes a whole text file, with the folders above it. A file that is there \
                      already is replaced only if it was read with read_file in this run and has \
                      not changed since. To change a part of a file use edit_file."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File, relative to the root folder"},
                "content": {"type": "string", "description": "All of the file's text"}
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }),
        reads: false,
        repeatable: false,
    }
}

pub(super) fn run(
    files: &Files,
    args: WriteFileArgs,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let (path, content) = (shorten_path(&args.path), args.content.as_bytes());
    Ok(match files.write_file(&args.path, content, cancel)? {
        ChangeEffect::Created => format!("created `{path}` ({} bytes)", content.len()),
        ChangeEffect::Replaced => format!("replaced `{path}` ({} bytes)", content.len()),
        ChangeEffect::Nothing => format!("`{path}` has this content already: nothing was changed"),
    })
}
