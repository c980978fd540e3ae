//! What results of tools look like when they are written as text.
//!
//! A table with sources, for two ends: to find a result that a model made up after its call, and
//! to tell a client's real results apart. Only beginnings of lines are looked at, at most
//! [`MAX_MARK`] bytes of each.

use super::Tags;

/// How much of a line is looked at, in bytes.
pub(super) const MAX_MARK: usize = 128;

/// How many bytes a `*` in [`RESULT_LINES`] stands for at most.
const MAX_GAP: usize = 64;

/// Emphasis, headings and quotation before the mark itself.
const DECORATION: &[u8] = b"*#>_ \t";

/// Tags that hold a result, each with who writes it. Beside these, a configured tag's name with
/// `_result`, `_results`, `_response` or `_output` behind it.
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

/// What makes a result's tag of a call's: `use_tool_result`.
const RESULT_ENDINGS: &[&str] = &["_result", "_results", "_response", "_output"];

/// Beginnings of lines, in lower case; `*` stands for up to [`MAX_GAP`] bytes.
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

/// Whether a line begins like a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    /// What is there of the line does not tell.
    More,
    /// It does, by so many bytes.
    Yes(usize),
}

impl Verdict {
    /// Of two readings the one that needs the least of the line, so that it does not matter how
    /// much of it is there.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes(one), Self::Yes(two)) => Self::Yes(one.min(two)),
            (Self::Yes(length), _) | (_, Self::Yes(length)) => Self::Yes(length),
            (Self::More, _) | (_, Self::More) => Self::More,
            (Self::No, Self::No) => Self::No,
        }
    }

    /// The same, behind `bytes` more.
    const fn behind(self, bytes: usize) -> Self {
        match self {
            Self::Yes(length) => Self::Yes(length + bytes),
            other => other,
        }
    }

    /// Not decided, unless no more can come.
    const fn open(whole: bool) -> Self {
        if whole { Self::No } else { Self::More }
    }
}

/// Judges a line by its beginning; `whole` says that no more of it can come. Bytes beyond
/// [`MAX_MARK`] are not looked at.
pub(super) fn judge(line: &str, whole: bool, tags: &Tags) -> Verdict {
    let bytes = line.as_bytes();
    let whole = whole || bytes.len() >= MAX_MARK;
    let bytes = bytes.get(..MAX_MARK).unwrap_or(bytes);
    let decorated = bytes.iter().take_while(|b| DECORATION.contains(b)).count();
    let bytes = bytes.get(decorated..).unwrap_or_default();
    let lines = RESULT_LINES.iter().filter(|(mark, _)| may_begin(mark, bytes));
    let lines = lines.map(|(mark, _)| begins(mark.as_bytes(), bytes, whole));
    lines.fold(judge_tag(bytes, whole, tags), Verdict::or).behind(decorated)
}

fn judge_tag(line: &[u8], whole: bool, tags: &Tags) -> Verdict {
    let Some(line) = line.strip_prefix(b"<") else {
        return Verdict::open(whole || !line.is_empty());
    };
    let known = RESULT_TAGS.iter().filter(|(name, _)| may_begin(name, line));
    let known = known.map(|(name, _)| begins_tag(&[name], line, whole));
    let made = tags.names().iter().filter(|name| may_begin(name, line)).flat_map(|name| {
        RESULT_ENDINGS.iter().map(|ending| begins_tag(&[name.as_str(), ending], line, whole))
    });
    known.chain(made).fold(Verdict::No, Verdict::or).behind(1)
}

/// Whether the first byte of a line is a mark's; no mark begins with a gap. Most lines end here.
fn may_begin(mark: &str, line: &[u8]) -> bool {
    let (first, found) = (mark.as_bytes().first(), line.first());
    found.is_none_or(|found| first.is_none_or(|first| found.eq_ignore_ascii_case(first)))
}

/// Whether `line` begins with a name, given in parts, and what ends a name.
fn begins_tag(parts: &[&str], line: &[u8], whole: bool) -> Verdict {
    let mut rest = line;
    for part in parts {
        let length = part.len().min(rest.len());
        let (head, after) = rest.split_at(length);
        if !part.as_bytes().starts_with(head) {
            return Verdict::No;
        }
        if length < part.len() {
            return Verdict::open(whole);
        }
        rest = after;
    }
    match rest.first() {
        Some(b'>' | b' ' | b'\t' | b'/') => Verdict::Yes(line.len() - rest.len() + 1),
        Some(_) => Verdict::No,
        None => Verdict::open(whole),
    }
}

fn begins(mark: &[u8], line: &[u8], whole: bool) -> Verdict {
    let Some((&expected, rest)) = mark.split_first() else { return Verdict::Yes(0) };
    let Some((&found, after)) = line.split_first() else { return Verdict::open(whole) };
    if expected != b'*' {
        let same = found.eq_ignore_ascii_case(&expected);
        return if same { begins(rest, after, whole).behind(1) } else { Verdict::No };
    }
    let gap = line.iter().take(MAX_GAP).take_while(|b| !b"<\n".contains(b)).count();
    // A gap up to the end of what is there may go on.
    let open = Verdict::open(whole || gap < line.len() || gap == MAX_GAP);
    let after = |n: usize| begins(rest, line.get(n..).unwrap_or_default(), whole).behind(n);
    (1..=gap).map(after).fold(open, Verdict::or)
}

/// Whether a line begins with the mark of [`RESULT_LINES`] that names the tool, and the name.
pub(super) fn named_line(line: &str) -> Option<(&str, usize)> {
    let rest = line.strip_prefix("Tool '")?;
    let (name, _) = rest.split_once("' result:")?;
    let fits = name.len() <= MAX_GAP && !name.contains(['<', '\n']);
    fits.then_some((name, "Tool '".len() + name.len() + "' result:".len()))
}

/// Whether a tag's name is a result's.
pub(super) fn is_result_tag(name: &str, tags: &Tags) -> bool {
    RESULT_TAGS.iter().any(|(known, _)| *known == name)
        || tags.names().iter().any(|tag| {
            name.strip_prefix(tag.as_str()).is_some_and(|rest| RESULT_ENDINGS.contains(&rest))
        })
}
