//! The built-in capability rows, each with its source, and the lookup in them.
//!
//! Sources: `o55`, `f51`, `s55`, `h55` are the migration guides and "what's new" pages of
//! Opus 5.5, Fable 5.1, Sonnet 5.5 and Haiku 5.5 on platform.claude.com; `err`, `et`, `pc`
//! its pages on errors, extended thinking and prompt caching; `skill` the claude-api skill
//! in github anthropics/skills; `o-fc`, `o-pc` OpenAI's guides to function calling and
//! prompt caching; `ds` DeepSeek's thinking-mode guide. `measured` names where a third
//! party published a measurement. Where sources disagree the stricter one is taken.

use super::CacheEffect::{Kept, Lost, Range};
use super::{AnswerFromNone, Capability, ForcedChoice, Thinking, UnknownFields, glob_matches};

/// A built-in row. The first row whose pattern matches the plain name counts.
pub(super) struct BuiltInRow {
    /// A glob for the plain name (lower case, no date, `-` for `.`).
    pub(super) pattern: &'static str,
    pub(super) capability: Capability,
    /// The source.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    pub(super) source: &'static str,
}

const fn built_in_row(
    pattern: &'static str,
    capability: Capability,
    source: &'static str,
) -> BuiltInRow {
    BuiltInRow { pattern, capability, source }
}

/// The common capability of all Claude models on Anthropic's API.
///
/// `none` costs the messages cache by the documentation (pc: `tool_choice` invalidates messages); a
/// published measurement kept it (damianvtran/local-operator: 98.2 % read on claude-opus-5 and
/// claude-fable-5-1), while forcing lost it (jaseci-labs/jac PR #8386). Under `none` Sonnet 4.6
/// ended with reasoning and no text (dust-tt/dust PR #29820). Unknown fields: 400 "Extra inputs are
/// not permitted" (microsoft/autogen #3034).
const CLAUDE: Capability = Capability {
    listed: true,
    forced: ForcedChoice::No,
    none: true,
    none_cache: Range,
    forced_cache: Lost,
    parallel_switch: true,
    parallel_cache: Lost,
    answer_from_none: AnswerFromNone::NeedsNote,
    mid_system: false,
    thinking_disabled: true,
    thinking_enabled: false,
    thinking_adaptive: true,
    thinking_absent: Thinking::Adaptive,
    thinking_opens_turn: true,
    keeps_thinking: true,
    prefix_bound: false,
    prefill: false,
    sampling: false,
    cache_minimum: 1024,
    unknown_fields: UnknownFields::Refused,
};

/// Always thinking, never forced, signed to the prefix.
const NEWEST: Capability = Capability {
    thinking_disabled: false,
    mid_system: true,
    prefix_bound: true,
    cache_minimum: 512,
    ..CLAUDE
};

/// Opus 4.7 and 4.8: adaptive or off; off without a setting.
const OPUS_4_8: Capability = Capability {
    forced: ForcedChoice::UnlessEnabled,
    mid_system: true,
    thinking_absent: Thinking::Disabled,
    ..CLAUDE
};

/// Opus 4.6 and Sonnet 4.6: every mode, no prefill.
const V4_6: Capability = Capability {
    mid_system: false,
    thinking_enabled: true,
    sampling: true,
    cache_minimum: 4096,
    ..OPUS_4_8
};

/// Manual thinking or none, prefill still allowed; earlier thinking is stripped.
const V4: Capability = Capability {
    thinking_adaptive: false,
    keeps_thinking: false,
    prefill: true,
    cache_minimum: 1024,
    ..V4_6
};

/// Models from before thinking.
const V3: Capability = Capability {
    forced: ForcedChoice::Yes,
    thinking_enabled: false,
    thinking_opens_turn: false,
    ..V4
};

/// OpenAI: `tool_choice` is not among the settings that change the cached prefix (o-pc),
/// `parallel_tool_calls` is; unknown fields are a 400 `unknown_parameter`. Under `none`
/// GPT-5.6 ended with reasoning and no text (dust-tt/dust PR #29820).
const OPENAI: Capability = Capability {
    forced: ForcedChoice::Yes,
    none_cache: Kept,
    forced_cache: Kept,
    thinking_disabled: false,
    thinking_opens_turn: false,
    mid_system: false,
    prefill: false,
    cache_minimum: 1024,
    ..CLAUDE
};

/// DeepSeek in thinking mode, which is the default: forcing is a 400 "Thinking mode does not
/// support this `tool_choice`". The effect of `tool_choice` on its cache is not documented.
const DEEPSEEK: Capability = Capability {
    forced: ForcedChoice::OnlyWithoutThinking,
    none_cache: Range,
    forced_cache: Range,
    parallel_switch: false,
    parallel_cache: Range,
    thinking_disabled: true,
    sampling: true,
    unknown_fields: UnknownFields::Unknown,
    ..OPENAI
};

/// Models behind `OpenAI`-like dialects, of which only the dialect is known.
const DIALECT: Capability = Capability {
    forced: ForcedChoice::No,
    thinking_absent: Thinking::Adaptive,
    thinking_disabled: false,
    ..DEEPSEEK
};

/// The rows in order: the first match counts.
#[rustfmt::skip]
pub(super) static ROWS: &[BuiltInRow] = &[
    built_in_row("claude-opus-5-5", NEWEST, "o55: forced, disabled and enabled are 400; adaptive only; prefix binding; pc: 512"),
    built_in_row("claude-fable-5-1", NEWEST, "f51: forced choice is a 400; thinking cannot be disabled; prefix binding; pc: 512"),
    built_in_row("claude-mythos-5-1", NEWEST, "f51, skill: as Fable 5.1; pc: 512"),
    built_in_row("claude-fable-5-2", NEWEST, "taken as its predecessor, f51"),
    built_in_row("claude-mythos-5-2", NEWEST, "taken as its predecessor, f51"),
    // pydantic-ai's profile refuses forcing; the Fable 5.1 page calls that a new break.
    built_in_row("claude-fable-5", Capability { prefix_bound: false, ..NEWEST }, "skill: disabled is a 400; pydantic-ai profiles/anthropic.py: forced refused; pc: 512"),
    built_in_row("claude-mythos-5", Capability { prefix_bound: false, ..NEWEST }, "skill: same API surface as Fable 5; pc: 512"),
    built_in_row("claude-mythos-preview", Capability { mid_system: false, cache_minimum: 2048, ..NEWEST }, "pc: 2048; the rest as the strictest, no page read"),
    built_in_row("claude-sonnet-5-5", Capability { mid_system: false, cache_minimum: 1024, ..NEWEST }, "s55: budgets, sampling, prefill, forced choice, disabled are 400; thinking tied to the conversation"),
    // Forcing is not among h55's breaking changes, but no source says that it is accepted.
    built_in_row("claude-haiku-5-5", Capability { thinking_disabled: true, mid_system: false, cache_minimum: 4096, keeps_thinking: false, ..NEWEST }, "h55: budgets, sampling, prefill are 400; keep earlier turns unchanged"),
    built_in_row("claude-opus-5", Capability { thinking_absent: Thinking::Adaptive, cache_minimum: 512, ..OPUS_4_8 }, "o55: any accepted with adaptive, disabled accepted at effort high or lower; skill: thinking on by default, 512"),
    built_in_row("claude-sonnet-5", Capability { mid_system: false, thinking_absent: Thinking::Adaptive, ..OPUS_4_8 }, "skill: adaptive by default, budgets and sampling refused; no mid-conversation system; pc: 1024"),
    built_in_row("claude-opus-4-8", OPUS_4_8, "skill: as 4.7; mid-conversation system messages; pc: 1024"),
    built_in_row("claude-opus-4-7", Capability { mid_system: false, cache_minimum: 2048, ..OPUS_4_8 }, "skill: adaptive only, budgets and sampling removed; pc: 2048"),
    built_in_row("claude-opus-4-6", V4_6, "skill: adaptive; err: no prefill from 4.6; pc: 4096"),
    built_in_row("claude-sonnet-4-6", Capability { cache_minimum: 1024, ..V4_6 }, "skill: adaptive; err: no prefill from 4.6; pc: 1024"),
    built_in_row("claude-opus-4-5", Capability { keeps_thinking: true, cache_minimum: 4096, ..V4 }, "et: enabled thinking refuses forcing; pc: keeps thinking from Opus 4.5, 4096"),
    built_in_row("claude-sonnet-4-5", V4, "et; pc: 1024"),
    built_in_row("claude-haiku-4-5", Capability { cache_minimum: 4096, ..V4 }, "et; pc: 4096"),
    built_in_row("claude-opus-4-1", V4, "et; pc: 1024"),
    built_in_row("claude-opus-4-0", V4, "et; pc: 1024"),
    built_in_row("claude-opus-4", V4, "et; pc: 1024"),
    built_in_row("claude-sonnet-4-0", V4, "et; pc: 1024"),
    built_in_row("claude-sonnet-4", V4, "et; pc: 1024"),
    built_in_row("claude-3-7-sonnet", V4, "et; pc (2026-02): 1024"),
    built_in_row("claude-3-5-haiku", Capability { cache_minimum: 2048, ..V3 }, "before extended thinking; pc: 2048"),
    built_in_row("claude-3-haiku", Capability { cache_minimum: 2048, ..V3 }, "before extended thinking; pc (2026-02): 2048"),
    built_in_row("claude-3-5-sonnet", V3, "before extended thinking"),
    built_in_row("claude-3-opus", V3, "before extended thinking"),
    built_in_row("claude-3-sonnet", V3, "before extended thinking"),
    // Reasoning families refuse sampling settings; the older ones do not think.
    built_in_row("gpt-4*", Capability { sampling: true, thinking_disabled: true, thinking_absent: Thinking::Disabled, ..OPENAI }, "o-fc; o-pc"),
    built_in_row("gpt-3-5*", Capability { sampling: true, thinking_disabled: true, thinking_absent: Thinking::Disabled, ..OPENAI }, "o-fc"),
    built_in_row("gpt-5*", OPENAI, "o-fc; o-pc"),
    built_in_row("gpt-6*", OPENAI, "o-fc; o-pc"),
    built_in_row("codex-*", OPENAI, "o-fc; o-pc"),
    built_in_row("o1*", OPENAI, "o-fc; o-pc"),
    built_in_row("o3*", OPENAI, "o-fc; o-pc"),
    built_in_row("o4*", OPENAI, "o-fc; o-pc"),
    built_in_row("deepseek-v4*", DEEPSEEK, "ds: thinking by default, forced choice refused while thinking"),
    built_in_row("deepseek-flash", DEEPSEEK, "ds, pricing page: the moving name of V4 Flash"),
    built_in_row("deepseek-chat", Capability { thinking_absent: Thinking::Disabled, ..DEEPSEEK }, "ds: the non-thinking name"),
    built_in_row("deepseek-reasoner", Capability { thinking_disabled: false, ..DEEPSEEK }, "ds: the thinking name"),
    // GLM writes `<tool_call>` text under none without a note (OpenRouter's typescript-agent).
    built_in_row("glm-*", DIALECT, "OpenRouterTeam/typescript-agent model-result.ts"),
    built_in_row("grok-*", DIALECT, "docs.x.ai, prompt caching: any edit of earlier messages breaks it"),
];

/// Finds the row of a plain name, and changes it as its provider requires.
pub(super) fn find_row(provider: Option<&str>, plain: &str) -> Capability {
    let row = ROWS.iter().find(|row| glob_matches(row.pattern, plain));
    let capability = row.map_or(Capability::SAFEST, |row| row.capability);
    adapt_to_provider(provider.unwrap_or(""), plain, capability)
}

/// Changes a capability for hosts that differ from the vendor's own API.
fn adapt_to_provider(provider: &str, plain: &str, base: Capability) -> Capability {
    let is = |names: &[&str]| names.iter().any(|name| provider.eq_ignore_ascii_case(name));
    if is(&["openrouter"]) {
        // This is another protocol in front of the vendor's. No mid-conversation system message is
        // known to pass. It drops fields that it does not know, and silently drops `reasoning` of
        // forced anthropic requests (pydantic-ai #7283), so never force them.
        let forced = if plain.starts_with("claude") { ForcedChoice::No } else { base.forced };
        return Capability {
            forced,
            mid_system: false,
            unknown_fields: UnknownFields::Unknown,
            ..base
        };
    }
    if is(&["bedrock", "aws", "vertex", "google"]) && plain.starts_with("claude") {
        // Bedrock: Sonnet 5 takes forcing only with thinking disabled (pydantic-ai
        // on Anthropic); the others are taken as no laxer than that.
        let forced = match base.forced {
            ForcedChoice::No => ForcedChoice::No,
            ForcedChoice::Yes | ForcedChoice::UnlessEnabled | ForcedChoice::OnlyWithoutThinking => {
                ForcedChoice::OnlyWithoutThinking
            }
        };
        return Capability { forced, mid_system: false, ..base };
    }
    base
}
