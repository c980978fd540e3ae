//! The texts that clients write when they compact a conversation: requests for its summary, and the
//! parts of a system prompt that are new in each conversation.

use super::{TableWord, starts_with_any, w};

/// Texts that ask for the summary of a conversation. They stand in the last text of the request.
pub(super) static SUMMARY_REQUESTS: &[TableWord] = &[
    w("Your task is to create a detailed summary of", "Claude Code, Roo Code"),
    w("Create a handoff summary for another LLM that will resume", "Codex"),
    w("Provide a detailed prompt for continuing our conversation above", "opencode, Kilo"),
    w("Provide a detailed but concise summary of our conversation above", "opencode (to 1.0)"),
    w(
        "structured context checkpoint summary that another LLM will use",
        "pi, as in its compaction",
    ),
    w("generate the <state_snapshot>", "Gemini CLI, Qwen Code"),
    w("You are the component that summarizes a conversation when its context", "Qwen Code 0.24.4"),
    w("Then, produce the <state_snapshot>", "Qwen Code 0.24.4"),
    w("The current conversation is rapidly running out of context", "Cline"),
    w("You are maintaining a context-aware state summary for", "OpenHands condenser"),
    w("An llm context limit was reached when a user was in a working session", "goose"),
    w("You are now given a task to compact this conversation context", "Kimi"),
    w("You are about to run out of context. Create a handoff summary", "Kimi Code 2.1.0"),
    w("Create a comprehensive summary of our entire conversation", "Mistral Vibe"),
    w("Write a continuation summary that will allow you", "Anthropic SDK tool_runner"),
    w("Please create a detailed summary of the conversation so far", "Copilot CLI"),
    w("Summarize the conversation history so far", "VS Code Copilot Chat"),
    w("Please provide a concise summary of our conversation so far", "Continue CLI 1.5.47"),
];

/// Words for summing up, and for what is summed up, in lower case. A short request that has one of
/// each asks for a summary, whatever client wrote it. They are plain English and of no one client.
pub(super) static SUMMING_UP: &[&str] =
    &["summari", "summary", "condense", "compact", "recap", "handover", "handoff"];
pub(super) static SUMMED_UP: &[&str] = &[
    "conversation so far",
    "our conversation",
    "this conversation",
    "conversation above",
    "conversation history",
    "chat history",
    "messages above",
    "so far",
    "for the next session",
    "to continue the work",
];

/// Openings of parts of a system prompt that differ from conversation to conversation.
pub(super) static VOLATILE_SYSTEM: &[TableWord] =
    &[w("x-anthropic-billing-header:", "Claude Code: a digest of the first message")];

/// The bytes at each end of a text that are searched. The conversation to be summed up may stand
/// between them.
const EDGE: usize = 8 << 10;

/// Returns true if a text asks for the summary of a conversation in the words of a known client.
#[must_use]
pub fn asks_for_summary(text: &str) -> bool {
    let head = text.get(..text.floor_char_boundary(EDGE)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len().saturating_sub(EDGE))..);
    let tail = tail.filter(|_| text.len() > EDGE).unwrap_or_default();
    SUMMARY_REQUESTS.iter().any(|row| head.contains(row.word) || tail.contains(row.word))
}

/// Returns true if a short text asks for a summary in plain words, whatever client wrote it.
#[must_use]
pub fn asks_plainly_for_summary(text: &str) -> bool {
    text.len() <= SHORT_REQUEST && sums_up(&text.to_lowercase())
}

/// The longest request for a summary that is known by single words, in bytes.
const SHORT_REQUEST: usize = 1 << 10;

fn sums_up(text: &str) -> bool {
    let holds = |words: &[&str]| words.iter().any(|word| text.contains(word));
    holds(SUMMED_UP) && holds(SUMMING_UP)
}

/// Returns true if a part of a system prompt does not tell which program wrote it.
#[must_use]
pub fn is_volatile_system(text: &str) -> bool {
    starts_with_any(VOLATILE_SYSTEM, text.trim_start())
}
