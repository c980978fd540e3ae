//! The forms of tool results that are written as text.
//!
//! A table with sources, used for two purposes: to find a result that a model invented after its
//! call, and to separate a client's real results. Only the beginnings of lines are examined, at
//! most [`MAX_MARK`] bytes each.

use super::Tags;

/// The number of bytes of a line that are examined.
pub(super) const MAX_MARK: usize = 128;

/// The largest number of bytes that a `*` in [`RESULT_LINES`] matches.
const MAX_GAP: usize = 64;

/// Emphasis, heading and quotation characters that may precede the mark.
const DECORATION: &[u8] = b"*#>_ \t";

/// Tags that hold a result, each with its writers. The name of a configured tag followed by
/// `_result`, `_results`, `_response` or `_output` also counts.
pub const RESULT_TAGS: &[(&str, &str)] = &[
    ("tool_result", "Anthropic's name for it; DeepSeek's chat encoding since V3.2"),
    ("tool_results", "the same, for several"),
    ("function_results", "Anthropic's tool use in prompts, before it had an API"),
    ("function_result", "the same, for one"),
    ("fnr", "how Claude spells function_results where the tag itself is filtered"),
    ("tool_response", "Hermes and Qwen chat templates"),
    ("tool_use_result", "Cherry Studio's prompt for models without tool calling"),
    ("tool_output", "agents that mark tool output as untrusted data"),
    ("observation", "ReAct with tags"),
];

/// Suffixes that turn the name of a call's tag into that of a result's tag: `use_tool_result`.
const RESULT_ENDINGS: &[&str] = &["_result", "_results", "_response", "_output"];

/// Beginnings of lines, in lower case. `*` matches up to [`MAX_GAP`] bytes.
const RESULT_LINES: &[(&str, &str)] = &[
    ("[tool result]", "engines that print a conversation; made up by models that read one"),
    ("[tool result:", "the same"),
    ("[tool result for ", "agents that feed results back as user text"),
    ("[tool results]", "the same"),
    ("[tool_result]", "printed conversations in Anthropic's names"),
    ("[function result]", "printed conversations in OpenAI's older names"),
    ("[* for '*'] result:", "Cline, Roo Code"),
    ("tool '*' result:", "Copilot for Obsidian, the client of system [4]"),
    ("tool result:", "agents that feed results back as user text"),
    ("tool results:", "the same"),
    ("tool output:", "the same"),
    ("tool response:", "the same"),
    ("function result:", "the same"),
    ("function return:", "MemGPT's printed conversations"),
    ("observation:", "ReAct; why it is used as a stop sequence"),
    ("<|tool_outputs_begin|>", "DeepSeek's chat template, in ASCII"),
    ("<|tool_output_begin|>", "the same"),
    ("<｜tool▁outputs▁begin｜>", "DeepSeek's chat template"),
    ("<｜tool▁output▁begin｜>", "the same"),
    ("<|observation|>", "GLM's chat template"),
    ("<|im_start|>tool", "ChatML with a tool role"),
];

/// The verdict on a line: does it begin like a result?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkVerdict {
    No,
    /// The available part of the line is too short to decide.
    More,
    /// It does, by its first bytes, with their number.
    Yes(usize),
}

impl MarkVerdict {
    /// Combines two verdicts into the one that needs the shorter part of the line, so that the
    /// length of the available part does not matter.
    fn combine_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes(one), Self::Yes(two)) => Self::Yes(one.min(two)),
            (Self::Yes(length), _) | (_, Self::Yes(length)) => Self::Yes(length),
            (Self::More, _) | (_, Self::More) => Self::More,
            (Self::No, Self::No) => Self::No,
        }
    }

    /// Returns the same verdict for a line with `bytes` more bytes at its beginning.
    const fn shift_by(self, bytes: usize) -> Self {
        match self {
            Self::Yes(length) => Self::Yes(length + bytes),
            other => other,
        }
    }

    /// Returns the verdict for an undecided line: `More`, unless the line is complete.
    const fn undecided_unless(whole: bool) -> Self {
        if whole { Self::No } else { Self::More }
    }
}

/// Judges a line by its beginning. `whole` is true if no more of the line can arrive. Bytes beyond
/// [`MAX_MARK`] are not examined.
pub(super) fn judge_line(line: &str, whole: bool, tags: &Tags) -> MarkVerdict {
    let bytes = line.as_bytes();
    let whole = whole || bytes.len() >= MAX_MARK;
    let bytes = bytes.get(..MAX_MARK).unwrap_or(bytes);
    let decorated = bytes.iter().take_while(|b| DECORATION.contains(b)).count();
    let bytes = bytes.get(decorated..).unwrap_or_default();
    let lines = RESULT_LINES.iter().filter(|(mark, _)| may_begin_with(mark, bytes));
    let lines = lines.map(|(mark, _)| match_mark(mark.as_bytes(), bytes, whole));
    lines.fold(judge_tag(bytes, whole, tags), MarkVerdict::combine_with).shift_by(decorated)
}

fn judge_tag(line: &[u8], whole: bool, tags: &Tags) -> MarkVerdict {
    let Some(line) = line.strip_prefix(b"<") else {
        return MarkVerdict::undecided_unless(whole || !line.is_empty());
    };
    let known = RESULT_TAGS.iter().filter(|(name, _)| may_begin_with(name, line));
    let known = known.map(|(name, _)| match_tag_name(&[name], line, whole));
    let made = tags.names().iter().filter(|name| may_begin_with(name, line)).flat_map(|name| {
        RESULT_ENDINGS.iter().map(|ending| match_tag_name(&[name.as_str(), ending], line, whole))
    });
    known.chain(made).fold(MarkVerdict::No, MarkVerdict::combine_with).shift_by(1)
}

/// Returns true if the first byte of a line is that of the mark. No mark begins with a gap. Most
/// lines are rejected here.
fn may_begin_with(mark: &str, line: &[u8]) -> bool {
    let (first, found) = (mark.as_bytes().first(), line.first());
    found.is_none_or(|found| first.is_none_or(|first| found.eq_ignore_ascii_case(first)))
}

/// Returns a verdict on a line that may begin with a name, given in parts, and a byte that ends it.
fn match_tag_name(parts: &[&str], line: &[u8], whole: bool) -> MarkVerdict {
    let mut rest = line;
    for part in parts {
        let length = part.len().min(rest.len());
        let (head, after) = rest.split_at(length);
        if !part.as_bytes().starts_with(head) {
            return MarkVerdict::No;
        }
        if length < part.len() {
            return MarkVerdict::undecided_unless(whole);
        }
        rest = after;
    }
    match rest.first() {
        Some(b'>' | b' ' | b'\t' | b'/') => MarkVerdict::Yes(line.len() - rest.len() + 1),
        Some(_) => MarkVerdict::No,
        None => MarkVerdict::undecided_unless(whole),
    }
}

fn match_mark(mark: &[u8], line: &[u8], whole: bool) -> MarkVerdict {
    let Some((&expected, rest)) = mark.split_first() else { return MarkVerdict::Yes(0) };
    let Some((&found, after)) = line.split_first() else {
        return MarkVerdict::undecided_unless(whole);
    };
    if expected != b'*' {
        let same = found.eq_ignore_ascii_case(&expected);
        return if same { match_mark(rest, after, whole).shift_by(1) } else { MarkVerdict::No };
    }
    let gap = line.iter().take(MAX_GAP).take_while(|b| !b"<\n".contains(b)).count();
    // A gap that extends to the end of the available text may continue.
    let open = MarkVerdict::undecided_unless(whole || gap < line.len() || gap == MAX_GAP);
    let after = |n: usize| match_mark(rest, line.get(n..).unwrap_or_default(), whole).shift_by(n);
    (1..=gap).map(after).fold(open, MarkVerdict::combine_with)
}

/// Parses a line that begins with the mark of [`RESULT_LINES`] that names the tool. Returns the
/// name and the length of the mark.
pub(super) fn parse_named_line(line: &str) -> Option<(&str, usize)> {
    let rest = line.strip_prefix("Tool '")?;
    let (name, _) = rest.split_once("' result:")?;
    let fits = name.len() <= MAX_GAP && !name.contains(['<', '\n']);
    fits.then_some((name, "Tool '".len() + name.len() + "' result:".len()))
}

/// Returns true if a tag's name is that of a result.
pub(super) fn is_result_tag(name: &str, tags: &Tags) -> bool {
    RESULT_TAGS.iter().any(|(known, _)| *known == name)
        || tags.names().iter().any(|tag| {
            name.strip_prefix(tag.as_str()).is_some_and(|rest| RESULT_ENDINGS.contains(&rest))
        })
}
