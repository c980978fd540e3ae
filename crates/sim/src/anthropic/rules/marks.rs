//! Rules for cache marks: their number, their places, and the order of their TTLs.

use super::allow_only;
use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::anthropic::request::{Block, Prompt, read_blocks};
use crate::json::Json;

/// The maximum number of marks in a request, the automatic one included.
const MAX: usize = 4;

pub(super) fn check_marks(prompt: &Prompt<'_>) -> AnthropicResult {
    let mut marks = Vec::new();
    for (i, tool) in prompt.tools.iter().enumerate() {
        note_mark(tool.get("cache_control"), &format!("tools.{i}"), &mut marks)?;
    }
    for (i, block) in prompt.system.iter().enumerate() {
        block_marks(block, &format!("system.{i}"), &mut marks)?;
    }
    for block in prompt.turns.iter().flat_map(|t| &t.blocks) {
        block_marks(block, &block.path(), &mut marks)?;
    }
    note_automatic(prompt, &mut marks)?;
    ensure(marks.len() <= MAX, || {
        format!(
            "A maximum of {MAX} blocks with cache_control may be provided. Found {}.",
            marks.len()
        )
    })?;
    let late = marks.iter().skip_while(|ttl| **ttl == Ttl::Hour).any(|ttl| *ttl == Ttl::Hour);
    ensure(!late, || {
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note \
         that blocks are processed in the following order: `tools`, `system`, `messages`."
            .to_owned()
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ttl {
    Minutes,
    Hour,
}

fn read_ttl(mark: &Json, path: &str) -> AnthropicResult<Ttl> {
    allow_only(mark, &format!("{path}.cache_control"), &["type", "ttl", "scope"])?;
    ensure(mark.str_at("type") == Some("ephemeral"), || {
        format!("{path}.cache_control.type: Input should be 'ephemeral'")
    })?;
    match mark.get("ttl") {
        None => Ok(Ttl::Minutes),
        Some(ttl) => match ttl.as_str() {
            Some("5m") => Ok(Ttl::Minutes),
            Some("1h") => Ok(Ttl::Hour),
            _ => refuse_with(format!("{path}.cache_control.ttl: Input should be '5m' or '1h'")),
        },
    }
}

fn note_mark(mark: Option<&Json>, path: &str, marks: &mut Vec<Ttl>) -> AnthropicResult {
    match mark {
        None | Some(Json::Null) => Ok(()),
        Some(mark) => {
            marks.push(read_ttl(mark, path)?);
            Ok(())
        }
    }
}

fn block_marks(block: &Block<'_>, path: &str, marks: &mut Vec<Ttl>) -> AnthropicResult {
    if let Some(content) = block.get("content").filter(|_| block.is_kind("tool_result")) {
        for (i, inner) in read_blocks(content, 0).iter().enumerate() {
            note_mark(inner.get("cache_control"), &format!("{path}.content.{i}"), marks)?;
        }
    }
    note_mark(block.get("cache_control"), path, marks)
}

/// Adds the top-level mark, which takes a slot and applies to the last cacheable block. If that
/// block is already marked, the two marks are the same, so the TTLs must agree.
fn note_automatic(prompt: &Prompt<'_>, marks: &mut Vec<Ttl>) -> AnthropicResult {
    let Some(mark) = prompt.body.get("cache_control").filter(|m| **m != Json::Null) else {
        return Ok(());
    };
    let wanted = read_ttl(mark, "")?;
    ensure(marks.len() < MAX, || {
        "cache_control: automatic caching needs a free cache_control slot; all 4 are used"
            .to_owned()
    })?;
    let last = prompt.turns.iter().rev().flat_map(|t| t.blocks.iter().rev());
    let last = last.filter(|b| !b.is_thinking()).find_map(|b| b.get("cache_control"));
    match last.map(|m| read_ttl(m, "")).transpose()? {
        Some(there) if on_last(prompt) => ensure(there == wanted, || {
            "cache_control: ttl differs from that of the last marked block".to_owned()
        }),
        _ => {
            marks.push(wanted);
            Ok(())
        }
    }
}

fn on_last(prompt: &Prompt<'_>) -> bool {
    let mut all = prompt.turns.iter().rev().flat_map(|t| t.blocks.iter().rev());
    all.find(|b| !b.is_thinking()).is_some_and(|b| b.get("cache_control").is_some())
}
