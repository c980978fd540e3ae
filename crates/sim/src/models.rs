//! Models and what each accepts: one row per model, rules as data, each column with its source.
//! This module decides nothing; `rules` reads it. An unlisted id is a 404, as with the provider.
//!
//! Sources (all read as of 2026-11): forced choice, thinking modes, prefill: the migration guides
//! of Opus 5.5 and Fable 5.1 and the error page of the vendor's documentation; cache minimum and
//! multipliers: its prompt-caching and pricing pages; output maxima and default efforts: its model
//! overview pages; prices and windows: the PyPI package `genai-prices` 0.2.3. If sources conflict
//! or are silent, the row is the stricter one, and a comment says so.

pub(crate) mod open;

/// The conditions under which a request may force a tool (`tool_choice` of type `any` or `tool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Unless `thinking.type` is `enabled`.
    NotWithEnabledThinking,
    /// Never: refused with 400.
    Never,
}

/// The values that `thinking` may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkingModes {
    /// `enabled` with `budget_tokens`.
    pub enabled: bool,
    /// `adaptive`.
    pub adaptive: bool,
    /// `disabled`. Without it, thinking is on even if the request does not mention it.
    pub disabled: bool,
    /// `between_tools`: the least thinking of models that refuse `disabled`.
    pub between_tools: bool,
}

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The id without a date.
    pub id: &'static str,
    /// Other names of the same model.
    pub aliases: &'static [&'static str],
    /// The limit of input and output together, in tokens.
    pub context_window: u64,
    /// The largest `max_tokens`.
    pub output_max: u64,
    /// Nano-dollars per uncached input token ($1 per million tokens is 1000).
    pub input_nano: u64,
    /// Nano-dollars per output token.
    pub output_nano: u64,
    /// Price of a cache read, in thousandths of the input price.
    pub read_permille: u64,
    /// Shorter prompts are silently not cached, in tokens.
    pub cache_min: u64,
    /// The conditions for a forced tool choice.
    pub forced: Forced,
    /// The thinking modes.
    pub thinking: ThinkingModes,
    /// True if `temperature`, `top_p`, `top_k` may differ from their defaults.
    pub sampling: bool,
    /// True if the conversation may end in an assistant message, which the model continues.
    pub prefill: bool,
    /// True if `role: "system"` is accepted inside `messages`.
    pub mid_system: bool,
    /// The values of `output_config.effort`; empty if the parameter is refused.
    pub efforts: &'static [&'static str],
    /// The default effort. Naming it changes nothing in the cache.
    pub default_effort: &'static str,
    /// True if `output_config.task_budget` is accepted.
    pub task_budget: bool,
    /// True if thinking blocks are signed over the exact prefix of the conversation.
    pub binds: bool,
    /// True if thinking of earlier turns stays in the prompt after a new human message.
    pub keeps_thinking: bool,
    /// True if `thinking.display` defaults to `omitted`.
    pub omits_thinking: bool,
}

/// The model of `sim/NAME` without a model id.
pub const DEFAULT_MODEL: &str = "claude-sonnet-5-5";

/// Looks up a model by id, alias, or id with a date (`…-20250929`).
#[must_use]
pub fn find_model(id: &str) -> Option<&'static Model> {
    let named = |name: &str| MODELS.iter().find(|m| m.id == name || m.aliases.contains(&name));
    named(id).or_else(|| {
        let (stem, date) = id.rsplit_once('-')?;
        (date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit())).then(|| named(stem))?
    })
}

/// Returns every model that the simulator knows.
#[must_use]
pub fn all_models() -> &'static [Model] {
    MODELS
}

const FOUR: &[&str] = &["high", "low", "max", "medium"];
const FIVE: &[&str] = &["high", "low", "max", "medium", "xhigh"];

const MANUAL: ThinkingModes =
    ThinkingModes { enabled: true, adaptive: false, disabled: true, between_tools: false };
const BOTH: ThinkingModes = ThinkingModes { adaptive: true, ..MANUAL };
const ADAPTIVE: ThinkingModes = ThinkingModes { enabled: false, ..BOTH };
const ALWAYS: ThinkingModes = ThinkingModes { disabled: false, ..ADAPTIVE };

/// The oldest generation. Newer rows state the differences.
const BASE: Model = Model {
    id: "",
    aliases: &[],
    context_window: 200_000,
    output_max: 64_000,
    input_nano: 3_000,
    output_nano: 15_000,
    read_permille: 100,
    cache_min: 1024,
    forced: Forced::NotWithEnabledThinking,
    thinking: MANUAL,
    sampling: true,
    prefill: true,
    mid_system: false,
    efforts: &[],
    default_effort: "high",
    task_budget: false,
    binds: false,
    keeps_thinking: false,
    omits_thinking: false,
};

/// Models from 4.6 on.
const M46: Model = Model {
    context_window: 1_000_000,
    thinking: BOTH,
    prefill: false,
    efforts: FOUR,
    keeps_thinking: true,
    ..BASE
};

/// Models from Opus 4.7 and Sonnet 5 on.
const M47: Model = Model {
    output_max: 128_000,
    thinking: ADAPTIVE,
    sampling: false,
    efforts: FIVE,
    omits_thinking: true,
    ..M46
};

/// Fable and Mythos 5: thinking is always on. Sources on forcing conflict; the stricter one holds.
const FABLE5: Model = Model {
    input_nano: 10_000,
    output_nano: 50_000,
    cache_min: 512,
    forced: Forced::Never,
    thinking: ALWAYS,
    mid_system: true,
    task_budget: true,
    ..M47
};

const FABLE51: Model = Model { read_permille: 25, binds: true, ..FABLE5 };
/// 5.2 is only in the price table: it gets the rules of 5.1.
const FABLE52: Model = Model { input_nano: 8_000, output_nano: 40_000, ..FABLE51 };

const OPUS4: Model = Model { input_nano: 15_000, output_nano: 75_000, output_max: 32_000, ..BASE };
const OPUS47: Model =
    Model { input_nano: 5_000, output_nano: 25_000, task_budget: true, cache_min: 2048, ..M47 };
const OPUS48: Model = Model { cache_min: 1024, mid_system: true, ..OPUS47 };

const MODELS: &[Model] = &[
    Model { id: "claude-sonnet-4-0", aliases: &["claude-sonnet-4"], ..BASE },
    Model { id: "claude-sonnet-4-5", ..BASE },
    Model { id: "claude-sonnet-4-6", ..M46 },
    // Not on the list of models that take mid-conversation system messages or task budgets.
    Model { id: "claude-sonnet-5", input_nano: 2_000, output_nano: 10_000, ..M47 },
    // Cache minimum not stated: that of Sonnet 5. No forced choice, no `disabled`, `between_tools`:
    // third party only (release notes of a client library's Anthropic provider, 3.0.125), as are
    // mid-conversation system messages (the same of another, 1.5.13).
    Model {
        id: "claude-sonnet-5-5",
        input_nano: 2_000,
        output_nano: 10_000,
        read_permille: 50,
        forced: Forced::Never,
        thinking: ThinkingModes { between_tools: true, ..ALWAYS },
        mid_system: true,
        task_budget: true,
        ..M47
    },
    Model {
        id: "claude-haiku-4-5",
        input_nano: 1_000,
        output_nano: 5_000,
        cache_min: 4096,
        ..BASE
    },
    // Sources give prices, window, task budgets and mid-conversation system messages (a recorded
    // client sends them); the rest is that of the other 5.5 models, cache minimum and stripping of
    // old thinking that of Haiku 4.5.
    Model {
        id: "claude-haiku-5-5",
        input_nano: 100,
        output_nano: 500,
        cache_min: 4096,
        forced: Forced::Never,
        default_effort: "medium",
        mid_system: true,
        task_budget: true,
        keeps_thinking: false,
        ..M47
    },
    Model { id: "claude-opus-4-0", aliases: &["claude-opus-4"], ..OPUS4 },
    Model { id: "claude-opus-4-1", ..OPUS4 },
    Model {
        id: "claude-opus-4-5",
        input_nano: 5_000,
        output_nano: 25_000,
        cache_min: 4096,
        efforts: &["high", "low", "medium"],
        keeps_thinking: true,
        ..BASE
    },
    Model {
        id: "claude-opus-4-6",
        input_nano: 5_000,
        output_nano: 25_000,
        output_max: 128_000,
        cache_min: 4096,
        ..M46
    },
    Model { id: "claude-opus-4-7", ..OPUS47 },
    Model { id: "claude-opus-4-8", ..OPUS48 },
    Model { id: "claude-opus-5", cache_min: 512, ..OPUS48 },
    Model {
        id: "claude-opus-5-5",
        input_nano: 4_000,
        output_nano: 20_000,
        read_permille: 50,
        cache_min: 512,
        forced: Forced::Never,
        thinking: ALWAYS,
        default_effort: "medium",
        binds: true,
        ..OPUS48
    },
    Model { id: "claude-fable-5", ..FABLE5 },
    Model { id: "claude-fable-5-1", ..FABLE51 },
    Model { id: "claude-fable-5-2", ..FABLE52 },
    Model { id: "claude-mythos-5", ..FABLE5 },
    Model { id: "claude-mythos-5-1", ..FABLE51 },
    Model { id: "claude-mythos-5-2", ..FABLE52 },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_aliases_find_their_row_and_nothing_else_does() {
        for (asked, found) in [
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4-20250514", Some("claude-sonnet-4-0")),
            ("claude-opus-5-5", Some("claude-opus-5-5")),
            ("claude-opus-5-5-2025", None),
            ("claude-nonexistent", None),
            ("", None),
            ("-20250929", None),
        ] {
            assert_eq!(find_model(asked).map(|m| m.id), found, "{asked}");
        }
        assert!(find_model(DEFAULT_MODEL).is_some());
    }

    #[test]
    fn prices_are_whole_nano_dollars() {
        for model in all_models() {
            assert_eq!(model.input_nano * model.read_permille % 1000, 0, "{}", model.id);
            assert_eq!(model.input_nano * 125 % 100, 0, "{}", model.id);
            assert!(model.output_max < model.context_window);
        }
    }
}
