//! The events that the fold reads: neutral words for the messages of any protocol.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::Quantity;
use crate::digest::Digest;
use crate::money::NanoUsd;
use crate::tables;
use crate::time::Millis;

/// A user message of the history: results of an open round, texts, or both.
#[derive(Clone, Debug, Default)]
pub struct UserMessage<'a> {
    /// Tool results, in the message's order.
    pub results: Vec<ToolResult<'a>>,
    /// Texts beside or instead of results, in order.
    pub texts: Vec<UserText<'a>>,
    /// The digest of other content that a person or a program may have sent (an image, a file).
    pub media: Option<Digest>,
    /// The name of the speaker, if the protocol has one.
    pub name: Option<Cow<'a, str>>,
    /// True if a person's message stands right behind the results, in a protocol in which results
    /// have messages of their own.
    pub spoken_after: bool,
}

/// One text of a user message, with the digest of its words.
#[derive(Clone, Debug)]
pub struct UserText<'a> {
    text: Cow<'a, str>,
    digest: Digest,
    tags: bool,
}

impl<'a> UserText<'a> {
    /// Reads a text, unescaped.
    #[must_use]
    pub fn new(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        let words = tables::strip_harness_tags(&text);
        let tags = words.is_empty() && !text.trim().is_empty();
        let digest = Digest::from_bytes(if tags { text.as_bytes() } else { words.as_bytes() });
        Self { text, digest, tags }
    }

    /// Returns the text, unescaped.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the words of the text: the text without the harness's tags around it.
    pub(crate) fn words(&self) -> &str {
        tables::strip_harness_tags(&self.text)
    }

    /// Returns the digest of the words.
    pub(crate) const fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns true if the text is nothing but a harness's tags.
    pub(crate) const fn is_tags(&self) -> bool {
        self.tags
    }
}

/// One tool result of the history.
#[derive(Clone, Debug)]
pub struct ToolResult<'a> {
    /// The id of the call it answers.
    pub id: Cow<'a, str>,
    /// The digest of its content, without volatile members and lines ([`crate::identity`]).
    pub digest: Digest,
    /// The number of characters of its text.
    pub chars: u64,
    /// True if the call failed.
    pub failed: bool,
    /// True if the result asks for the call again, in another form.
    pub sent_back: bool,
    /// True if the result says that something still runs; then the call polls.
    pub unfinished: bool,
    /// True if the client has replaced the content by a constant marker.
    pub cleared: bool,
    /// True if the result already ends in a line of softland's.
    pub lined: bool,
    /// True if a person's words stand at its end ([`crate::lines::format_remark`]).
    pub remarked: bool,
    /// The room that it has for a line of softland's.
    pub room: LineRoom,
}

/// The room that a tool result has for a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineRoom {
    /// The model reads the result as text: a line fits.
    #[default]
    Text,
    /// No line fits: the result has a form in which no text has a place, or code that the model
    /// wrote waits for it. Nothing stands behind it either.
    Closed,
}

/// One tool call of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The id that joins it to its result, within one round only.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments, as complete JSON.
    pub input: &'a str,
    /// True if the provider runs it (web search and the like).
    pub server: bool,
}

/// The reason why a turn ended, in neutral words.
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
    /// A reason that is not known here: a new word, or another vendor's. It is neither a natural
    /// end nor a cut.
    Other,
    /// Nothing says why: a history, or a response without a reason.
    Unknown,
}

/// A finished turn of the model.
#[derive(Clone, Debug)]
pub struct FinishedTurn<'a> {
    /// Its visible text.
    pub text: VisibleText,
    /// Its tool calls, in order.
    pub calls: Vec<Call<'a>>,
    /// True if the last call is incomplete: cut by the output limit, or not valid JSON.
    pub cut_call: bool,
    /// True if the turn holds thinking or other content that is not visible.
    pub hidden: bool,
    /// True if the turn gives the client something beside text and calls: an image, sound, the
    /// product of a provider's tool.
    pub gives: bool,
    /// The reason why it ended.
    pub stop: Stop,
    /// The number of output tokens, if known.
    pub output_tokens: Option<u64>,
}

/// The properties of a turn's visible text that the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisibleText {
    /// The digest of the text; `None` if there is none.
    pub digest: Option<Digest>,
    /// The number of visible characters, without white space at the ends, counted to
    /// [`VisibleText::ENOUGH`] at most.
    pub visible: u64,
    /// True if the text is the placeholder of an empty turn.
    pub placeholder: bool,
}

impl VisibleText {
    /// A number of visible characters above any rule's threshold.
    pub const ENOUGH: u64 = 64;

    /// Reads a text, unescaped.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self::from_said(Self::without_thinking(text))
    }

    /// Reads a text whose thinking was taken out, unescaped.
    #[must_use]
    pub fn from_said(text: &str) -> Self {
        let trimmed = text.trim_matches(is_invisible);
        Self {
            digest: (!trimmed.is_empty()).then(|| Digest::from_bytes(text.as_bytes())),
            visible: count_chars(trimmed),
            placeholder: trimmed == crate::lines::NO_ANSWER,
        }
    }

    /// Returns true if nothing of the text is visible.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.visible == 0
    }

    /// Returns a text without the thinking that it opens with: some models write theirs as text,
    /// within tags. Thinking without an end is all of the text, and so is a text that does nothing
    /// but end a thinking which began in the prompt.
    #[must_use]
    pub fn without_thinking(text: &str) -> &str {
        tables::without_thinking(text, is_invisible)
    }

    /// Returns true if a text that begins with `head` and ends with `tail` may hold thinking. The
    /// longest tag has 48 characters.
    #[must_use]
    pub fn may_hold_thinking(head: &str, tail: &str) -> bool {
        let (head, tail) =
            (head.trim_start_matches(is_invisible), tail.trim_end_matches(is_invisible));
        tables::may_hold_thinking(head, tail)
    }

    /// Returns true if nothing of a text is visible, without reading all of it.
    #[must_use]
    pub fn is_invisible_text(text: &str) -> bool {
        text.chars().all(is_invisible)
    }
}

/// Counts the characters of a text, to [`VisibleText::ENOUGH`] at most.
fn count_chars(text: &str) -> u64 {
    // No character is longer than four bytes.
    let enough = text.floor_char_boundary(4 * VisibleText::ENOUGH as usize);
    let head = text.get(..enough).unwrap_or_default();
    (head.chars().count() as u64).min(VisibleText::ENOUGH)
}

/// Returns true for characters that show nothing: white space, and the zero-width characters that
/// models emit.
fn is_invisible(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// The facts of a request that the transcript does not show. A record that was written before a
/// member existed is read without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The input (cached or not) and output tokens of the run so far.
    pub tokens: u64,
    /// The money of the run so far, including its children.
    pub cost: NanoUsd,
    /// The money of the session so far.
    pub session_cost: NanoUsd,
    /// The run's money held by requests under way. It is not spent, and not available.
    pub cost_held: NanoUsd,
    /// The session's money held by requests under way.
    pub session_cost_held: NanoUsd,
    /// The time since the run's first request, without idle gaps.
    pub elapsed: Millis,
    /// The estimated input of the next request, in tokens. A token limit refuses no request for its
    /// worst case; only a money limit does.
    pub next_input: u64,
    /// The most that the next request's input can cost.
    pub next_input_cost: NanoUsd,
    /// The same at the uncached input price, for the request after the next one.
    pub reserve_input_cost: NanoUsd,
    /// The most that one output token costs, in pico-dollars.
    pub output_pico: u64,
    /// The thinking tokens that the request asks for within its output.
    pub thinking_budget: u64,
    /// The number of times that this same context was answered in vain before.
    pub stale: u64,
    /// The number of turns refused by a tool's own limit that the transcript does not show.
    pub tool_refusals: u64,
    /// For a sub-agent's run: the money of the account above it that has the least left, except the
    /// session's.
    pub cost_above: Option<AccountAbove<NanoUsd>>,
    /// The same for tokens.
    pub tokens_above: Option<AccountAbove<u64>>,
    /// True if a budget counts what the run uses, as its provider reports it.
    pub is_budgeted: bool,
    /// The budget that has no room for the next request, if one has none.
    pub budget: Option<BudgetShortage>,
}

/// A budget that has no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetShortage {
    /// What is spent of its window.
    pub used: Quantity,
    /// Its limit.
    pub limit: Quantity,
    /// The most that the request may cost, if it is short of money.
    pub needed: Option<NanoUsd>,
}

/// The usage and limit of an account above the run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountAbove<T> {
    /// The amount that is spent, or held back for the answers of others.
    pub used: T,
    /// The account's limit.
    pub limit: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_to_enough() {
        for character in ["a", "é", "€", "𝄞"] {
            for count in [0, 1, 63, 64, 65, 300] {
                let visible = VisibleText::from_text(&character.repeat(count)).visible;
                assert_eq!(
                    visible,
                    VisibleText::ENOUGH.min(count as u64),
                    "{count} of {character}"
                );
            }
        }
    }

    #[test]
    fn thinking_that_is_written_as_text_is_no_answer() {
        for (text, rest) in [
            ("<think>Let me see.</think>", ""),
            (" <think>Let me see.</think>\n", "\n"),
            ("<think>It breaks off", ""),
            ("<think>a</think><think>b</think>c", "c"),
            ("<thinking>a</think>b</thinking>yes", "yes"),
            ("<think>a</think>It is 4.", "It is 4."),
            ("It is 4. <think>a</think>", "It is 4. <think>a</think>"),
            ("<thinker>", "<thinker>"),
            ("\u{200b}\n<think>a</think>", ""),
            ("", ""),
        ] {
            assert_eq!(VisibleText::without_thinking(text), rest, "{text}");
            assert_eq!(VisibleText::from_text(text).is_blank(), rest.trim().is_empty(), "{text}");
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
            assert_eq!(VisibleText::is_invisible_text(text), nothing, "{text:?}");
            assert_eq!(VisibleText::from_text(text).is_blank(), nothing, "{text:?}");
        }
    }
}
