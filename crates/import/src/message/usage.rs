//! Reads usage in any provider's form, recognized by its keys.

use softland_session::core::NanoUsd;
use softland_session::wire::json::Cursor;
use softland_session::wire::{Tokens, anthropic, chat, responses};

use crate::fields::Fields;

/// Reads a `usage` object: its tokens, and the cost that the provider reports.
pub(crate) fn usage(raw: &str) -> Option<(Tokens, Option<NanoUsd>)> {
    let fields = Fields::of(raw).ok()?;
    // The reader of Chat Completions knows how costs are written.
    let chat = chat::Usage::read(&mut Cursor::new(raw)).ok()??;
    let cost = chat.cost_nano_usd.map(NanoUsd);
    if fields.has("prompt_tokens") || fields.has("completion_tokens") {
        return Some((chat.tokens, cost));
    }
    if fields.has("input_tokens_details") || fields.has("total_tokens") {
        let usage = responses::Usage::read(&mut Cursor::new(raw)).ok()??;
        return Some((usage.tokens, cost));
    }
    if !fields.has("input_tokens") && !fields.has("output_tokens") {
        return cost.map(|cost| (Tokens::default(), Some(cost)));
    }
    let update = anthropic::UsageUpdate::read(&mut Cursor::new(raw)).ok()?;
    let mut usage = anthropic::Usage::default();
    usage.update(&update);
    Some((usage.tokens, cost))
}
