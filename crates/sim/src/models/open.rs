//! Models behind OpenAI's protocols: one row per id, rules as data. This module decides nothing;
//! `chat`, `responses` and `openai` read it. Ids of Anthropic's own table are served too, as by its
//! compatibility layer.
//!
//! Sources (all read as of 2026-11): prices, windows and output maxima: the PyPI package
//! `genai-prices` 0.2.3, and its OpenRouter rows for models that have none (an output maximum that
//! no source states is that of the family); cache: OpenAI's prompt-caching guide and DeepSeek's;
//! forced choice and reasoning: recorded requests and DeepSeek's thinking guide. A higher price for
//! long inputs and DeepSeek's hours are left out.

use super::{Forced, find_model as find_claude};
use crate::usage::Usage;

/// A vendor's variant of OpenAI's protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI itself.
    OpenAi,
    /// A first chunk without choices, and content filter results.
    Azure,
    /// `reasoning_content`, and cache hits and misses in the usage.
    DeepSeek,
    /// Comments, `reasoning_details`, two last chunks, cost.
    OpenRouter,
    /// `reasoning_content`, a role in every delta.
    Zai,
    /// Whole calls in one chunk. Invalid calls fail the stream.
    Groq,
    /// Whole calls in one chunk, `reasoning_content`.
    Xai,
    /// Anthropic's compatibility layer: a call's index is that of its content block.
    AnthropicCompat,
}

/// The conditions under which a model reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasoning {
    /// Never.
    Never,
    /// Only when the request asks for it.
    OnRequest,
    /// Unless the request switches it off.
    ByDefault,
    /// Always.
    Always,
}

/// The conditions under which a request may force a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forcing {
    /// Always.
    Free,
    /// Not while the model reasons: refused with 400.
    NotWhileReasoning,
    /// Always; the model does not reason then.
    DropsReasoning,
    /// Never: refused with 400.
    Never,
}

/// A vendor's way of caching prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Not at all.
    None,
    /// The longest exact prefix, in steps of a number of tokens.
    Prefix {
        /// The tokens of a step.
        step: u64,
        /// The shortest prefix that is cached, in tokens.
        min: u64,
        /// The time after the last read until it is forgotten, in milliseconds.
        ttl_ms: u64,
    },
    /// The longest prefix that ends with a message; writes have a price.
    MessageEnds {
        /// The shortest prefix that is cached, in tokens.
        min: u64,
        /// The time after the last read until it is forgotten, in milliseconds.
        ttl_ms: u64,
    },
    /// At the request's own `cache_control` marks; writes have a price.
    Marks {
        /// The shortest prefix that is cached, in tokens.
        min: u64,
        /// The time after the last read until it is forgotten, in milliseconds.
        ttl_ms: u64,
    },
}

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct OpenModel {
    /// The id without a date.
    pub id: &'static str,
    /// Other names of the same model.
    pub aliases: &'static [&'static str],
    /// The model's name in responses; if empty, the requested name.
    pub answers_as: &'static str,
    /// The vendor's dialect.
    pub dialect: Dialect,
    /// True if Chat Completions serves it.
    pub chat: bool,
    /// True if it accepts tools there.
    pub chat_tools: bool,
    /// True if Responses serves it.
    pub responses: bool,
    /// The limit of input and output together, in tokens.
    pub context_window: u64,
    /// The largest output limit.
    pub output_max: u64,
    /// Nano-dollars per uncached input token.
    pub input_nano: u64,
    /// Nano-dollars per token read from the cache.
    pub cached_nano: u64,
    /// Nano-dollars per token written to the cache.
    pub write_nano: u64,
    /// Nano-dollars per output token.
    pub output_nano: u64,
    /// The conditions under which it reasons.
    pub reasoning: Reasoning,
    /// The conditions for a forced tool choice.
    pub forcing: Forcing,
    /// The way in which prompts are cached.
    pub caching: Caching,
    /// True for a Claude: blank texts are refused, and text after tool results silences it.
    pub claude: bool,
    /// True if the conversation may end in an assistant message.
    pub prefill: bool,
    /// True if `parallel_tool_calls` is accepted.
    pub parallel_switch: bool,
}

impl OpenModel {
    /// Returns the simulated price in nano-dollars. All cache writes have one price.
    #[must_use]
    pub fn cost_nano(&self, usage: &Usage) -> u64 {
        usage.input * self.input_nano
            + usage.cache_read * self.cached_nano
            + (usage.cache_write_5m + usage.cache_write_1h) * self.write_nano
            + usage.output * self.output_nano
    }

    /// True if `max_tokens`, sampling and stop sequences are refused, as by OpenAI's own reasoning
    /// models.
    pub(crate) fn is_strict_reasoner(&self) -> bool {
        matches!(self.dialect, Dialect::OpenAi | Dialect::Azure)
            && self.reasoning != Reasoning::Never
    }

    /// True if sampling parameters are accepted once the effort `none` switches reasoning off:
    /// GPT-5.1 and later (OpenAI's guides to GPT-5.1, 5.2 and 5.4, parameter compatibility). For
    /// GPT-5.6 and later the guides do not say, so the same is assumed.
    pub(crate) fn samples_without_reasoning(&self) -> bool {
        self.is_strict_reasoner() && (self.id.starts_with("gpt-5.") || self.id.starts_with("gpt-6"))
    }

    /// True if refusals have a field of their own. Otherwise they are text.
    pub(crate) fn has_refusals(&self) -> bool {
        self.knows_fields() || self.dialect == Dialect::OpenRouter
    }

    /// True if a changed list of tools loses the whole prefix, not only the part after the change.
    pub(crate) fn tools_are_settings(&self) -> bool {
        self.dialect != Dialect::DeepSeek
    }

    /// True if every field of a request is known, and others are refused.
    pub(crate) fn knows_fields(&self) -> bool {
        matches!(self.dialect, Dialect::OpenAi | Dialect::Azure)
    }
}

/// The model of `sim/NAME` on OpenAI's protocols without a model id.
pub const DEFAULT_OPEN_MODEL: &str = "gpt-5.6-sol";

/// Looks up a model by id, alias, id with a date (`…-2025-08-07`) or with a route mark (`…:free`).
/// Ids of Anthropic's table are found too, as its compatibility layer serves them.
#[must_use]
pub fn find_open_model(id: &str) -> Option<OpenModel> {
    let named = |name: &str| MODELS.iter().find(|m| m.id == name || m.aliases.contains(&name));
    let undated = |name: &str| {
        let at = name.len().checked_sub(11)?;
        let (stem, date) = name.split_at_checked(at)?;
        let digit = |(i, b): (usize, u8)| match i {
            0 | 5 | 8 => b == b'-',
            _ => b.is_ascii_digit(),
        };
        date.bytes().enumerate().all(digit).then(|| named(stem)).flatten()
    };
    let unmarked = |name: &str| named(name.rsplit_once(':')?.0).filter(|m| m.id.contains('/'));
    let own = named(id).or_else(|| undated(id)).or_else(|| unmarked(id));
    own.copied().or_else(|| find_compatible_claude(id))
}

/// Returns every model of the table, without those of the compatibility layer.
#[must_use]
pub fn all_open_models() -> &'static [OpenModel] {
    MODELS
}

fn find_compatible_claude(id: &str) -> Option<OpenModel> {
    let model = find_claude(id)?;
    Some(OpenModel {
        id: model.id,
        dialect: Dialect::AnthropicCompat,
        responses: false,
        context_window: model.context_window,
        output_max: model.output_max,
        input_nano: model.input_nano,
        cached_nano: model.input_nano,
        write_nano: model.input_nano,
        output_nano: model.output_nano,
        forcing: if model.forced == Forced::Never { Forcing::Never } else { Forcing::Free },
        caching: Caching::None,
        claude: true,
        prefill: model.prefill,
        ..GPT4
    })
}

const MINUTE: u64 = 60_000;
/// A few minutes in memory: the shortest documented lifetime.
const SHORT: Caching = Caching::Prefix { step: 128, min: 1024, ttl_ms: 5 * MINUTE };
const ENDS: Caching = Caching::MessageEnds { min: 1024, ttl_ms: 30 * MINUTE };

/// The oldest generation. Newer rows state the differences.
const GPT4: OpenModel = OpenModel {
    id: "",
    aliases: &[],
    answers_as: "",
    dialect: Dialect::OpenAi,
    chat: true,
    chat_tools: true,
    responses: true,
    context_window: 128_000,
    output_max: 16_384,
    input_nano: 2_500,
    cached_nano: 1_250,
    write_nano: 2_500,
    output_nano: 10_000,
    reasoning: Reasoning::Never,
    forcing: Forcing::Free,
    caching: SHORT,
    claude: false,
    prefill: true,
    parallel_switch: true,
};

const GPT41: OpenModel = OpenModel { context_window: 1_000_000, output_max: 32_768, ..GPT4 };

const O_SERIES: OpenModel = OpenModel {
    context_window: 200_000,
    output_max: 100_000,
    reasoning: Reasoning::Always,
    ..GPT4
};

const GPT5: OpenModel = OpenModel {
    context_window: 400_000,
    output_max: 128_000,
    reasoning: Reasoning::ByDefault,
    ..with_prices(GPT4, [1_250, 125, 1_250, 10_000])
};

/// Since GPT-5.6, cache writes have a price.
const GPT56: OpenModel = OpenModel { context_window: 1_050_000, caching: ENDS, ..GPT5 };

const DEEPSEEK: OpenModel = OpenModel {
    dialect: Dialect::DeepSeek,
    context_window: 1_000_000,
    output_max: 393_216,
    reasoning: Reasoning::ByDefault,
    forcing: Forcing::NotWhileReasoning,
    // The vendor's storage unit; entries live for hours.
    caching: Caching::Prefix { step: 64, min: 64, ttl_ms: 120 * MINUTE },
    ..GPT4
};

const OPENROUTER: OpenModel = OpenModel { dialect: Dialect::OpenRouter, responses: false, ..GPT4 };

/// Claude behind OpenRouter, which silently drops the `reasoning` of forced requests.
const ROUTED_CLAUDE: OpenModel = OpenModel {
    context_window: 200_000,
    output_max: 64_000,
    reasoning: Reasoning::OnRequest,
    forcing: Forcing::DropsReasoning,
    caching: Caching::Marks { min: 1024, ttl_ms: 5 * MINUTE },
    claude: true,
    ..OPENROUTER
};

/// The newest Claude models refuse forcing and prefill on every host.
const ROUTED_NEW: OpenModel = OpenModel {
    context_window: 1_000_000,
    output_max: 128_000,
    forcing: Forcing::Never,
    prefill: false,
    ..ROUTED_CLAUDE
};

/// Only `auto` is documented for `tool_choice`; forcing is refused, `none` is accepted.
const GLM: OpenModel = OpenModel {
    dialect: Dialect::Zai,
    responses: false,
    context_window: 200_000,
    output_max: 128_000,
    reasoning: Reasoning::ByDefault,
    forcing: Forcing::Never,
    ..with_prices(GPT4, [600, 110, 600, 2_200])
};

const GROQ: OpenModel = OpenModel {
    dialect: Dialect::Groq,
    responses: false,
    context_window: 131_072,
    output_max: 32_768,
    ..GPT4
};

const GROK: OpenModel = OpenModel {
    dialect: Dialect::Xai,
    responses: false,
    context_window: 1_000_000,
    output_max: 128_000,
    reasoning: Reasoning::ByDefault,
    ..GPT4
};

/// Sets the prices in nano-dollars per token: input, cache read, cache write, output.
const fn with_prices(base: OpenModel, nano: [u64; 4]) -> OpenModel {
    let [input_nano, cached_nano, write_nano, output_nano] = nano;
    OpenModel { input_nano, cached_nano, write_nano, output_nano, ..base }
}

const fn new_row(id: &'static str, base: OpenModel, nano: [u64; 4]) -> OpenModel {
    OpenModel { id, ..with_prices(base, nano) }
}

/// Sets the snapshot that responses name.
const fn with_snapshot(answers_as: &'static str, base: OpenModel) -> OpenModel {
    OpenModel { answers_as, ..base }
}

const MODELS: &[OpenModel] = &[
    with_snapshot("gpt-4o-2024-08-06", new_row("gpt-4o", GPT4, [2_500, 1_250, 2_500, 10_000])),
    with_snapshot("gpt-4o-mini-2024-07-18", new_row("gpt-4o-mini", GPT4, [150, 75, 150, 600])),
    with_snapshot("gpt-4.1-2025-04-14", new_row("gpt-4.1", GPT41, [2_000, 500, 2_000, 8_000])),
    with_snapshot(
        "gpt-4.1-mini-2025-04-14",
        new_row("gpt-4.1-mini", GPT41, [400, 100, 400, 1_600]),
    ),
    with_snapshot("gpt-4.1-nano-2025-04-14", new_row("gpt-4.1-nano", GPT41, [100, 25, 100, 400])),
    // o1 and o3-mini make one call at a time and do not have the switch.
    OpenModel {
        parallel_switch: false,
        ..new_row("o1", O_SERIES, [15_000, 7_500, 15_000, 60_000])
    },
    new_row("o3", O_SERIES, [2_000, 500, 2_000, 8_000]),
    OpenModel {
        parallel_switch: false,
        ..new_row("o3-mini", O_SERIES, [1_100, 550, 1_100, 4_400])
    },
    new_row("o4-mini", O_SERIES, [1_100, 275, 1_100, 4_400]),
    with_snapshot("gpt-5-2025-08-07", new_row("gpt-5", GPT5, [1_250, 125, 1_250, 10_000])),
    with_snapshot("gpt-5-mini-2025-08-07", new_row("gpt-5-mini", GPT5, [250, 25, 250, 2_000])),
    with_snapshot("gpt-5-nano-2025-08-07", new_row("gpt-5-nano", GPT5, [50, 5, 50, 400])),
    new_row("gpt-5.1", GPT5, [1_250, 125, 1_250, 10_000]),
    with_snapshot("gpt-5.2-2025-12-11", new_row("gpt-5.2", GPT5, [1_750, 175, 1_750, 14_000])),
    OpenModel { chat: false, ..new_row("gpt-5.3-codex", GPT5, [1_750, 175, 1_750, 14_000]) },
    OpenModel {
        context_window: 1_050_000,
        ..new_row("gpt-5.4", GPT5, [2_500, 250, 2_500, 15_000])
    },
    new_row("gpt-5.4-mini", GPT5, [750, 75, 750, 4_500]),
    new_row("gpt-5.4-nano", GPT5, [200, 20, 200, 1_250]),
    OpenModel {
        context_window: 1_000_000,
        ..new_row("gpt-5.5", GPT5, [5_000, 500, 5_000, 30_000])
    },
    OpenModel {
        aliases: &["gpt-5.6"],
        answers_as: "gpt-5.6-sol",
        ..new_row("gpt-5.6-sol", GPT56, [4_000, 400, 5_000, 20_000])
    },
    new_row("gpt-5.6-terra", GPT56, [2_000, 200, 2_500, 12_000]),
    new_row("gpt-5.6-luna", GPT56, [200, 20, 250, 1_200]),
    new_row("gpt-6-sol", GPT56, [2_000, 200, 2_500, 10_000]),
    new_row("gpt-6-luna", GPT56, [100, 10, 125, 500]),
    // Tools only with Responses (third party).
    OpenModel {
        chat_tools: false,
        ..new_row("gpt-6-astra", GPT56, [10_000, 1_000, 12_500, 50_000])
    },
    new_row("gpt-6.1-sol", GPT56, [2_000, 100, 2_500, 10_000]),
    new_row("gpt-6.2-sol", GPT56, [2_000, 100, 2_500, 10_000]),
    new_row("gpt-6.1-terra", GPT56, [1_000, 50, 1_250, 5_000]),
    OpenModel {
        id: "model-router",
        answers_as: "gpt-4.1-mini-2025-04-14",
        dialect: Dialect::Azure,
        responses: false,
        ..with_prices(GPT41, [400, 100, 400, 1_600])
    },
    OpenModel {
        aliases: &["deepseek-flash"],
        ..new_row("deepseek-v4-flash", DEEPSEEK, [150, 3, 150, 600])
    },
    new_row("deepseek-v4-pro", DEEPSEEK, [660, 22, 660, 1_980]),
    OpenModel {
        reasoning: Reasoning::Never,
        context_window: 64_000,
        output_max: 8_192,
        ..new_row("deepseek-chat", DEEPSEEK, [135, 35, 135, 550])
    },
    OpenModel {
        reasoning: Reasoning::Always,
        context_window: 64_000,
        output_max: 32_768,
        ..new_row("deepseek-reasoner", DEEPSEEK, [135, 35, 135, 550])
    },
    new_row("anthropic/claude-haiku-4.5", ROUTED_CLAUDE, [1_000, 100, 1_250, 5_000]),
    new_row("anthropic/claude-sonnet-4.5", ROUTED_CLAUDE, [3_000, 300, 3_750, 15_000]),
    new_row("anthropic/claude-sonnet-5.5", ROUTED_NEW, [2_000, 100, 2_500, 10_000]),
    new_row("anthropic/claude-opus-5.5", ROUTED_NEW, [4_000, 200, 5_000, 20_000]),
    new_row("openai/gpt-4o", OPENROUTER, [2_500, 1_250, 2_500, 10_000]),
    new_row("openai/gpt-4o-mini", OPENROUTER, [150, 75, 150, 600]),
    OpenModel {
        context_window: 200_000,
        output_max: 100_000,
        reasoning: Reasoning::Always,
        ..new_row("openai/o4-mini", OPENROUTER, [1_100, 275, 1_100, 4_400])
    },
    OpenModel {
        context_window: 1_050_000,
        output_max: 128_000,
        reasoning: Reasoning::ByDefault,
        caching: ENDS,
        ..new_row("openai/gpt-5.6-sol", OPENROUTER, [4_000, 400, 5_000, 20_000])
    },
    OpenModel {
        reasoning: Reasoning::ByDefault,
        ..new_row("z-ai/glm-4.6", OPENROUTER, [600, 110, 600, 2_200])
    },
    OpenModel {
        reasoning: Reasoning::ByDefault,
        ..new_row("minimax/minimax-m2", OPENROUTER, [255, 30, 255, 1_020])
    },
    new_row("glm-4.6", GLM, [600, 110, 600, 2_200]),
    new_row("glm-4.7", GLM, [600, 110, 600, 2_200]),
    new_row("llama-3.3-70b-versatile", GROQ, [590, 590, 590, 790]),
    OpenModel {
        reasoning: Reasoning::ByDefault,
        ..new_row("openai/gpt-oss-120b", GROQ, [150, 75, 150, 600])
    },
    new_row("grok-4.3", GROK, [1_250, 200, 1_250, 2_500]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_marks_and_other_tables_find_their_row_and_nothing_else_does() {
        for (asked, found) in [
            ("gpt-4o-2024-08-06", Some("gpt-4o")),
            ("gpt-5.6", Some("gpt-5.6-sol")),
            ("minimax/minimax-m2:free", Some("minimax/minimax-m2")),
            ("gpt-4o:free", None),
            ("claude-haiku-4-5-20251001", Some("claude-haiku-4-5")),
            ("gpt-9", None),
            ("gpt-4o-2024-08", None),
            ("", None),
            ("ééééé", None),
        ] {
            assert_eq!(find_open_model(asked).map(|m| m.id), found, "{asked}");
        }
        assert!(find_open_model(DEFAULT_OPEN_MODEL).is_some_and(|m| m.chat && m.responses));
    }

    #[test]
    fn rows_are_sound() {
        for model in all_open_models() {
            assert!(model.output_max < model.context_window, "{}", model.id);
            assert!(model.cached_nano <= model.input_nano, "{}", model.id);
            let charged =
                matches!(model.caching, Caching::MessageEnds { .. } | Caching::Marks { .. });
            assert_eq!(model.write_nano > model.input_nano, charged, "{}", model.id);
            assert!(model.chat || model.responses, "{}", model.id);
        }
    }
}
