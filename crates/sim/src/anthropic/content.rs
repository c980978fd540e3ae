//! The content of a block as part of the prompt: the same for a string and a list with one text,
//! without cache marks, with the keys of tool inputs in their order. Signatures and the cache are
//! computed over it; token counts are estimated from it.

use crate::anthropic::request::{Block, read_blocks};
use crate::constraints::estimate_tokens;
use crate::digest::Digest;
use crate::json::Json;

/// The tokens that an image counts as.
const IMAGE: u64 = 1_600;
/// The tokens that a document counts as if its pages cannot be read here.
const DOCUMENT: u64 = 3_000;
/// The tokens of every block apart from its text.
const OVERHEAD: u64 = 3;

/// Adds a block to a digest and returns its estimated tokens.
pub(crate) fn feed_block(digest: &mut Digest, block: &Block<'_>) -> u64 {
    digest.add_field(block.kind);
    let bytes = match block.kind {
        "text" => feed_field(digest, block.text),
        "thinking" => {
            feed_field(digest, block.str_at("thinking"))
                + feed_field(digest, block.str_at("signature"))
        }
        "redacted_thinking" => feed_field(digest, block.str_at("data")),
        "tool_use" => {
            let input = block.get("input").map(Json::to_text).unwrap_or_default();
            feed_field(digest, block.str_at("id"))
                + feed_field(digest, block.str_at("name"))
                + feed_field(digest, &input)
        }
        "tool_result" => return OVERHEAD + feed_result(digest, block),
        _ => return OVERHEAD + feed_other(digest, block),
    };
    OVERHEAD + estimate_tokens(bytes)
}

/// Adds JSON without its cache marks, such as a tool definition. Returns its estimated tokens.
pub(crate) fn feed_json(digest: &mut Digest, json: &Json) -> u64 {
    let mut text = String::new();
    for (key, value) in json.entries().iter().filter(|(key, _)| key != "cache_control") {
        text.push_str(key);
        text.push(':');
        value.write_to(&mut text);
    }
    digest.add_field(&text);
    OVERHEAD + estimate_tokens(text.len())
}

fn feed_field(digest: &mut Digest, text: &str) -> usize {
    digest.add_field(text);
    text.len()
}

fn feed_result(digest: &mut Digest, block: &Block<'_>) -> u64 {
    let id = feed_field(digest, block.str_at("tool_use_id"));
    digest.add_word(u64::from(block.get("is_error").and_then(Json::as_bool) == Some(true)));
    let content = block.get("content").map(|c| read_blocks(c, 0)).unwrap_or_default();
    let inner: u64 = content
        .iter()
        .filter(|b| !b.text.is_empty() || !b.is_kind("text"))
        .map(|b| feed_block(digest, b))
        .sum();
    estimate_tokens(id) + inner
}

fn feed_other(digest: &mut Digest, block: &Block<'_>) -> u64 {
    let mut bytes = 0;
    for (key, value) in block.entries().iter().filter(|(key, _)| key != "cache_control") {
        let text = value.to_text();
        digest.add_field(key);
        bytes += feed_field(digest, &text);
    }
    let encoded = block.get("source").and_then(|s| s.str_at("type")).is_some_and(|t| t != "text");
    match block.kind {
        "image" => IMAGE,
        "document" if encoded => DOCUMENT,
        _ => estimate_tokens(bytes),
    }
}
