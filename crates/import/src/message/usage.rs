//! Reads usage in any provider's form, recognized by its keys.

use softland_session::core::NanoUsd;
use softland_session::wire::json::Cursor;
use softland_session::wire::{ExtraCharges, ServiceTier, Tokens, anthropic, chat, responses};

use crate::fields::Fields;

/// Reads a `usage` object: its tokens, and the cost that the provider reports.
pub(crate) fn parse_usage(raw: &str) -> Option<(Tokens, Option<NanoUsd>)> {
    let fields = Fields::from_json(raw).ok()?;
    let served = fields.text("service_tier").unwrap_or_default();
    let served = ServiceTier::from_tier(&served, false);
    let with_tier = |tokens: Tokens| {
        let beside = ExtraCharges { served: tokens.beside.served.max(served), ..tokens.beside };
        Tokens { beside, ..tokens }
    };
    // The reader of Chat Completions knows how costs are written.
    let chat = chat::Usage::from_cursor(&mut Cursor::new(raw)).ok()??;
    let cost = chat.cost_nano_usd.map(NanoUsd);
    if fields.has_key("prompt_tokens") || fields.has_key("completion_tokens") {
        return Some((with_tier(chat.tokens), cost));
    }
    if fields.has_key("input_tokens_details") || fields.has_key("total_tokens") {
        let usage = responses::Usage::from_cursor(&mut Cursor::new(raw)).ok()??;
        return Some((with_tier(usage.tokens), cost));
    }
    if !fields.has_key("input_tokens") && !fields.has_key("output_tokens") {
        return cost.map(|cost| (Tokens::default(), Some(cost)));
    }
    let update = anthropic::UsageUpdate::from_cursor(&mut Cursor::new(raw)).ok()?;
    let mut usage = anthropic::Usage::default();
    usage.apply_update(&update);
    let beside = usage.billed_tokens().beside;
    Some((Tokens { beside, ..usage.tokens }, cost))
}
