//! What happened, as the fold sees it: neutral words for what any protocol's messages say.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::money::NanoUsd;
use crate::tables;
use crate::time::Millis;

/// A user message of the history: results of an open round, texts, or both.
#[derive(Clone, Debug, Default)]
pub struct User<'a> {
    /// Tool results, in the message's order.
    pub results: Vec<ToolResult<'a>>,
    /// Texts beside or instead of results, in order.
    pub texts: Vec<UserText<'a>>,
    /// Whether the message holds something else that a person may have sent (an image, a file).
    pub media: bool,
    /// The name of who speaks, where the protocol has one.
    pub name: Option<Cow<'a, str>>,
    /// Whether a person's message stands right behind its results, where those have one of their
    /// own.
    pub spoken_after: bool,
}

/// One text of a user message, with the digest of its words, which several ask for.
#[derive(Clone, Debug)]
pub struct UserText<'a> {
    text: Cow<'a, str>,
    digest: Digest,
    tags: bool,
}

impl<'a> UserText<'a> {
    /// A text, unescaped.
    #[must_use]
    pub fn of(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        let words = tables::own_words(&text);
        let tags = words.is_empty() && !text.trim().is_empty();
        let digest = Digest::of(if tags { text.as_bytes() } else { words.as_bytes() });
        Self { text, digest, tags }
    }

    /// The text, unescaped.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What somebody said: the text without the harness's tags around it.
    pub(crate) fn words(&self) -> &str {
        tables::own_words(&self.text)
    }

    /// Of the words.
    pub(crate) const fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it is nothing but a harness's tags.
    pub(crate) const fn is_tags(&self) -> bool {
        self.tags
    }
}

/// One tool result of the history.
#[derive(Clone, Debug)]
pub struct ToolResult<'a> {
    /// The id of the call it answers.
    pub id: Cow<'a, str>,
    /// Digest of its content, volatile members and lines left out ([`crate::identity`]).
    pub digest: Digest,
    /// Characters of its text.
    pub chars: u64,
    /// Whether the call failed.
    pub failed: bool,
    /// Whether it asks for the call once more, in the form that was asked for.
    pub sent_back: bool,
    /// Whether it says that what was asked about still runs: then the call polls.
    pub unfinished: bool,
    /// Whether the client has replaced the content by a constant marker.
    pub cleared: bool,
    /// Whether it already ends in a line of softland's.
    pub lined: bool,
    /// Whether a person's words stand at its end ([`crate::lines::remark`]).
    pub remarked: bool,
}

/// One tool call of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Joins it to its result, within one round only.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// The arguments: complete JSON.
    pub input: &'a str,
    /// Whether the provider runs it (web search and the like).
    pub server: bool,
}

/// Why a turn ended, in neutral words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done, or wants its tools run.
    Natural,
    /// The output limit.
    Length,
    /// One of the client's stop sequences.
    Sequence,
    /// The model or a filter refused.
    Refusal,
    /// The provider paused its own tools; the turn goes on when it is sent back.
    Pause,
    /// The context window is full.
    ContextFull,
    /// History does not say, or the word is new.
    Unknown,
}

/// A finished turn of the model.
#[derive(Clone, Debug)]
pub struct Finished<'a> {
    /// What its visible text comes to.
    pub text: Text,
    /// Its tool calls, in order.
    pub calls: Vec<Call<'a>>,
    /// Whether the last call is incomplete: cut by the output limit, or not valid JSON.
    pub cut_call: bool,
    /// Whether it holds thinking or other content that is not visible.
    pub hidden: bool,
    /// Whether it gives the client something beside text and calls: an image, sound, what a tool
    /// of the provider's made.
    pub gives: bool,
    /// Why it ended.
    pub stop: Stop,
    /// Output tokens, where known.
    pub output_tokens: Option<u64>,
}

/// What the rules need of a turn's visible text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Tells one text from another; `None` where there is none.
    pub digest: Option<Digest>,
    /// Visible characters, white space at the ends left out; counted to [`Text::ENOUGH`] at most.
    pub visible: u64,
    /// Whether it is the placeholder of an empty turn.
    pub placeholder: bool,
}

impl Text {
    /// More visible characters than any rule asks for.
    pub const ENOUGH: u64 = 64;

    /// Reads a text, unescaped.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let trimmed = text.trim_matches(invisible);
        Self {
            digest: (!trimmed.is_empty()).then(|| Digest::of(text.as_bytes())),
            visible: counted(trimmed),
            placeholder: trimmed == crate::lines::NO_ANSWER,
        }
    }

    /// Whether nothing is to be seen.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.visible == 0
    }

    /// Whether nothing is to be seen of a text, without reading all of it.
    #[must_use]
    pub fn shows_nothing(text: &str) -> bool {
        text.chars().all(invisible)
    }
}

/// How many characters a text has, counted to [`Text::ENOUGH`] at most.
fn counted(text: &str) -> u64 {
    // No character is longer than four bytes.
    let enough = text.floor_char_boundary(4 * Text::ENOUGH as usize);
    let head = text.get(..enough).unwrap_or_default();
    (head.chars().count() as u64).min(Text::ENOUGH)
}

/// Characters that show nothing: white space, and the zero-width ones that models emit.
fn invisible(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// What the transcript cannot show, at the moment of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Input (cached or not) and output tokens of the run so far.
    pub tokens: u64,
    /// Money of the run so far, its children included.
    pub cost: NanoUsd,
    /// Money of the session so far.
    pub session_cost: NanoUsd,
    /// What requests under way hold of the run's money: it is not spent, and not to be had.
    #[serde(default)]
    pub cost_held: NanoUsd,
    /// The same of the session's.
    #[serde(default)]
    pub session_cost_held: NanoUsd,
    /// Time since the run's first request, idle gaps left out.
    pub elapsed: Millis,
    /// What the next request's input comes to in tokens, as near as that can be told: a request
    /// that may fit into a token limit is not refused for its worst case, which is for money.
    pub next_input: u64,
    /// The dearest the next request's input can be billed.
    pub next_input_cost: NanoUsd,
    /// The same at the uncached input price, for the request after it.
    pub reserve_input_cost: NanoUsd,
    /// What one output token costs at most, in pico-dollars.
    pub output_pico: u64,
    /// Thinking tokens that the request asks for within its output.
    pub thinking_budget: u64,
    /// How often this same context was answered in vain before.
    pub stale: u64,
    /// Turns refused by a tool's own limit that the transcript does not show.
    pub tool_refusals: u64,
    /// Where the run is somebody's sub-agent: the money of the account above it, but the
    /// session's, that has the least left.
    #[serde(default)]
    pub cost_above: Option<Above<NanoUsd>>,
    /// The same of tokens.
    #[serde(default)]
    pub tokens_above: Option<Above<u64>>,
}

/// What stands in an account above a run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above<T> {
    /// Spent, or held back for the answers of others.
    pub used: T,
    /// The limit of whoever the account belongs to.
    pub limit: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_to_enough() {
        for character in ["a", "é", "€", "𝄞"] {
            for count in [0, 1, 63, 64, 65, 300] {
                let visible = Text::of(&character.repeat(count)).visible;
                assert_eq!(visible, Text::ENOUGH.min(count as u64), "{count} of {character}");
            }
        }
    }

    #[test]
    fn what_shows_nothing_is_blank_however_it_is_asked() {
        for (text, nothing) in [
            ("", true),
            (" \n\t", true),
            ("\u{200b}\u{feff} \u{2060}", true),
            (" a ", false),
            ("\u{200b}.\u{200b}", false),
        ] {
            assert_eq!(Text::shows_nothing(text), nothing, "{text:?}");
            assert_eq!(Text::of(text).is_blank(), nothing, "{text:?}");
        }
    }
}
