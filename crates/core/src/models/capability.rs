//! The capabilities of a model's API: forced tool choice, thinking modes, mid-conversation system
//! messages, and the effect of each of them on the prompt cache.
//!
//! This is data, each row with its source, and the few questions that landing and nudging ask of
//! it. It does not know prices or sizes (the table beside it does), does not choose a rung, and
//! does not learn: the sender of a request remembers what a 400 teaches.

mod rows;
#[cfg(test)]
mod tests;

use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::{Model, find_model, names};

/// The conditions under which a request may force a tool (`any`, `tool`, `required`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedChoice {
    /// Always.
    Yes,
    /// With thinking off or adaptive; `enabled` with a budget is refused.
    UnlessEnabled,
    /// Only with thinking off.
    OnlyWithoutThinking,
    /// Never.
    No,
}

/// The effect of a changed request field on the cached messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheEffect {
    /// They stay readable.
    Kept,
    /// They are read and written anew.
    Lost,
    /// Sources disagree, or there is none: price it both ways.
    Range,
}

/// The answer of a model under `tool_choice: none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFromNone {
    /// It answers in text without being told.
    Visible,
    /// It may end with reasoning alone, or write a call as text, unless a visible note tells it to
    /// answer. The setting itself is invisible to models.
    NeedsNote,
}

/// The thinking mode of a request, in any protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Off.
    Disabled,
    /// On, with a budget (Anthropic's manual mode).
    Enabled,
    /// On, as much as the model sees fit; also OpenAI's and DeepSeek's reasoning.
    Adaptive,
    /// No thinking up front, some between tool calls (Sonnet 5.5).
    BetweenTools,
}

/// The form of the nudge after an empty turn (`docs/governing.md` §10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NudgeForm {
    /// An assistant message with a placeholder, then a user message.
    Pair,
    /// A `role: "system"` message in mid-conversation.
    MidSystem,
    /// A user message alone, for an assistant turn that must open with thinking when there is none
    /// to open it with. It is sent only once, since consecutive user messages merge.
    BareUser,
}

/// The treatment of request fields that a provider does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// Answers 4xx.
    Refused,
    /// Takes no notice.
    Ignored,
    /// Not known; treat as refused.
    Unknown,
}

/// The features that one model, at one provider, accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// True if a row of the table or of the user is behind this; otherwise it is the safest row.
    pub listed: bool,
    /// The conditions for a forced tool choice.
    pub forced: ForcedChoice,
    /// True if `tool_choice: none` is accepted with tools declared.
    pub none: bool,
    /// The effect on the messages' cache when `tool_choice` goes from auto to none.
    pub none_cache: CacheEffect,
    /// The effect on the messages' cache when `tool_choice` goes from auto to a forced tool.
    pub forced_cache: CacheEffect,
    /// True if there is a switch against parallel calls (`disable_parallel_tool_use`,
    /// `parallel_tool_calls`).
    pub parallel_switch: bool,
    /// The effect on the messages' cache when that switch is changed.
    pub parallel_cache: CacheEffect,
    /// The answer under `none`.
    pub answer_from_none: AnswerFromNone,
    /// True if `role: "system"` between messages is accepted.
    pub mid_system: bool,
    /// True if thinking may be switched off.
    pub thinking_disabled: bool,
    /// True if the manual mode with a budget is accepted.
    pub thinking_enabled: bool,
    /// True if the adaptive mode is accepted.
    pub thinking_adaptive: bool,
    /// The thinking mode of a request without a thinking field.
    pub thinking_absent: Thinking,
    /// True if an assistant turn must open with a thinking block in manual mode.
    pub thinking_opens_turn: bool,
    /// True if thinking of earlier turns stays in the context across human messages. Otherwise a
    /// human message strips it, and the cache after it is lost.
    pub keeps_thinking: bool,
    /// True if thinking is signed over the exact prefix: an edit of any earlier byte is a 400.
    pub prefix_bound: bool,
    /// True if the last message may be an assistant message to be continued.
    pub prefill: bool,
    /// True if `temperature`, `top_p` and `top_k` may be set.
    pub sampling: bool,
    /// The minimum of a cached prefix, in tokens; shorter prefixes are silently not cached.
    pub cache_minimum: u32,
    /// The treatment of unknown request fields.
    pub unknown_fields: UnknownFields,
}

impl Capability {
    /// The capability that is legal everywhere, for a model without a row.
    ///
    /// `none` counts as accepted, since the rung after it is no request at all; a refused request
    /// leads to that rung.
    pub const SAFEST: Self = Self {
        listed: false,
        forced: ForcedChoice::No,
        none: true,
        none_cache: CacheEffect::Range,
        forced_cache: CacheEffect::Range,
        parallel_switch: false,
        parallel_cache: CacheEffect::Range,
        answer_from_none: AnswerFromNone::NeedsNote,
        mid_system: false,
        thinking_disabled: false,
        thinking_enabled: false,
        thinking_adaptive: false,
        thinking_absent: Thinking::Adaptive,
        thinking_opens_turn: true,
        keeps_thinking: true,
        prefix_bound: true,
        prefill: false,
        sampling: false,
        cache_minimum: 4096,
        unknown_fields: UnknownFields::Unknown,
    };

    /// Returns true if a request in this thinking mode may force a tool. `thinking` is `None` if
    /// the request says nothing about thinking.
    #[must_use]
    pub fn may_force_tool(&self, thinking: Option<Thinking>) -> bool {
        let thinking = thinking.unwrap_or(self.thinking_absent);
        match self.forced {
            ForcedChoice::Yes => true,
            ForcedChoice::UnlessEnabled => thinking != Thinking::Enabled,
            ForcedChoice::OnlyWithoutThinking => thinking == Thinking::Disabled,
            ForcedChoice::No => false,
        }
    }

    /// Returns the form of the nudge after an empty turn. `has_thinking` is true if the empty turn
    /// holds a thinking block that can open the placeholder's turn.
    #[must_use]
    pub fn nudge_form(&self, thinking: Option<Thinking>, has_thinking: bool) -> NudgeForm {
        let thinking = thinking.unwrap_or(self.thinking_absent);
        if self.mid_system {
            NudgeForm::MidSystem
        } else if self.thinking_opens_turn && thinking == Thinking::Enabled && !has_thinking {
            NudgeForm::BareUser
        } else {
            NudgeForm::Pair
        }
    }
}

/// Returns the capability of `model` by the built-in rows. Names are unwrapped as by
/// [`find_model`]: `us.anthropic.claude-opus-4-8-v1:0` is Claude Opus 4.8, at Bedrock.
#[must_use]
pub fn find_capability(provider: Option<&str>, model: &str) -> Capability {
    capability_of_row(find_model(provider, model), provider, model)
}

/// Returns the same if the model's row is already found, or is known to be none.
#[must_use]
pub fn capability_of_row(row: Option<&Model>, provider: Option<&str>, model: &str) -> Capability {
    rows::find_row(provider, &plain_name(row, model))
}

/// Returns true if a glob matches a whole name: `*` stands for any text, letters match in either
/// case. Takes time proportional to both lengths multiplied, without allocation.
#[must_use]
pub fn glob_matches(pattern: &str, model: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), model.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The position to go back to when the text after the last `*` does not fit.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(want) if want.eq_ignore_ascii_case(byte) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                retry = Some((after_star, from + 1));
                p = after_star;
                t = from + 1;
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// Returns the name that rows are matched against: the table's id if there is one, without
/// wrappings and dates, in lower case, with `-` for `.` (`claude-opus-4.8`).
fn plain_name(row: Option<&Model>, model: &str) -> String {
    let known = row.map(|row| row.id);
    let mut name = names::without_prefixes(known.unwrap_or_else(|| model.trim()));
    name = name.rsplit('/').next().unwrap_or(name);
    while let Some(shorter) = names::without_one_suffix(name) {
        name = shorter;
    }
    name.chars().map(|c| if c == '.' { '-' } else { c.to_ascii_lowercase() }).collect()
}
