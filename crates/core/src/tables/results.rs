//! The signs in tool results: of failure, of something that still runs, of cleared content; and the
//! fields and lines that change from call to call.
//!
//! This does not parse JSON and does not judge contents. It looks at openings, at the first and
//! last lines, and at names.

use super::{
    FoldedName, TableWord, has_folded, starts_ignoring_case, starts_with_any, w, word_lengths,
};

/// The number of lines at each end that are searched for an exit code.
const LINES: usize = 4;
/// The number of bytes of a line that are searched.
const LINE_BYTES: usize = 160;
/// The number of bytes that are searched for words that say that something runs.
const HEAD_BYTES: usize = 2048;

/// Fields of JSON results that differ between two runs of one call, folded and sorted.
pub(super) static VOLATILE_FIELDS: &[TableWord] = &[
    w("chunkid", "Codex exec output"),
    w("createdat", "common in REST results"),
    w("duration", "test runners, HTTP tools"),
    w("durationms", "MCP tools, Claude Code"),
    w("durationseconds", "Codex shell metadata"),
    w("elapsed", "test runners"),
    w("elapsedms", "HTTP tools"),
    w("elapsedseconds", "job tools"),
    w("elapsedtime", "job tools"),
    w("etag", "HTTP headers in results"),
    w("executiontime", "database tools"),
    w("executiontimems", "database tools"),
    w("fetchedat", "web tools"),
    w("generatedat", "report tools"),
    w("lastmodified", "HTTP headers in results"),
    w("latency", "HTTP tools"),
    w("latencyms", "HTTP tools"),
    w("now", "clock fields"),
    w("pid", "process tools"),
    w("processid", "process tools"),
    w("queriedat", "web tools"),
    w("requestid", "Anthropic, OpenAI, AWS results"),
    w("responsetime", "HTTP tools"),
    w("retrievedat", "web tools"),
    w("servertime", "REST results"),
    w("spanid", "OpenTelemetry"),
    w("timestamp", "common in REST results"),
    w("timestampms", "common in REST results"),
    w("took", "Elasticsearch"),
    w("tookms", "Elasticsearch"),
    w("traceid", "OpenTelemetry"),
    w("updatedat", "common in REST results"),
    w("uptime", "process tools"),
    w("walltime", "Codex exec output"),
    w("walltimeseconds", "Codex exec output"),
    w("xrequestid", "HTTP headers in results"),
];

/// Openings of text lines that differ between two runs of one call.
pub(super) static VOLATILE_LINES: &[TableWord] = &[
    w("Chunk ID:", "Codex exec_command"),
    w("Wall time:", "Codex exec_command"),
    w("Duration:", "vitest, Gemini CLI"),
    w("Elapsed:", "test runners"),
    w("Finished in ", "RSpec, cargo-nextest"),
    w("PID:", "Gemini CLI run_shell_command"),
    w("Process Group PGID:", "Gemini CLI run_shell_command"),
    w("Background PIDs:", "Gemini CLI run_shell_command"),
    w("Process running with session ID", "Codex exec_command"),
    w("Ran all test suites", "Jest"),
    w("real\t", "bash time"),
    w("user\t", "bash time"),
    w("sys\t", "bash time"),
    w("Time:", "Jest"),
    w("Total time:", "Maven"),
];

/// Whole results, or their openings, that a client puts in place of a tool's result.
pub(super) static CLEARED: &[TableWord] = &[
    w(
        "[Old tool result content cleared",
        "Claude Code microcompact, opencode, OpenClaw, Qwen Code",
    ),
    w("[tool result cleared", "clients after Anthropic's clear_tool_uses"),
    w("[cleared]", "LangChain ContextEditingMiddleware"),
    w("[[NOTE] This file read has been removed to save space", "Cline context manager"),
    w("Old environment output: (", "SWE-agent history processor"),
    w("<MASKED>", "OpenHands observation masking"),
    w("<tool_output_masked>", "Gemini CLI tool output masking"),
];

/// Openings of lines that an exit code follows.
pub(super) static EXIT_MARKS: &[TableWord] = &[
    w("Exit code", "Claude Code Bash, Gemini CLI, softland"),
    w("<returncode>", "mini-swe-agent"),
    w("returncode", "Python wrappers"),
    w("exit status", "Go os/exec"),
    w("Process exited with code", "Codex exec_command"),
    w("Process finished with exit code", "JetBrains"),
    w("exited with exit code", "Copilot CLI"),
    w("Command exited with code", "terminal tools"),
    w("Command failed with exit code", "execa"),
    w("The command completed with exit code", "OpenHands"),
    w("Command finished with exit code", "OpenHands SDK"),
    w("exit_code", "Codex shell metadata"),
];

/// Words that say that something still runs.
pub(super) static UNFINISHED: &[TableWord] = &[
    w("<status>running</status>", "Claude Code BashOutput, TaskOutput"),
    w("Process running with session ID", "Codex exec_command"),
    w("\"status\":\"running\"", "job tools"),
    w("\"status\": \"running\"", "job tools"),
    w("\"status\":\"pending\"", "job tools"),
    w("\"status\": \"pending\"", "job tools"),
    w("\"status\":\"queued\"", "job tools"),
    w("\"status\": \"queued\"", "job tools"),
    w("\"status\":\"in_progress\"", "GitHub runs"),
    w("\"status\": \"in_progress\"", "GitHub runs"),
    w("still running", "Copilot CLI, OpenHands"),
    w("not finished yet", "job tools"),
    w("no new output", "terminal tools"),
];

/// Returns true if a field of a JSON result differs between two runs of the same call.
#[must_use]
pub fn is_volatile_field(name: &str) -> bool {
    // This is called for every member of every result that is JSON.
    static LENGTHS: [u64; 26] = word_lengths(VOLATILE_FIELDS);
    let name = FoldedName::find_within(&LENGTHS, name);
    name.is_some_and(|name| has_folded(VOLATILE_FIELDS, &name))
}

/// Returns true if a line of a text result differs between two runs of the same call.
#[must_use]
pub fn is_volatile_line(line: &str) -> bool {
    starts_with_any(VOLATILE_LINES, line.trim_start())
}

/// Returns true if a line of this text, escaped or not, may be a volatile line, by its first
/// letters. This spares most results the closer look.
#[must_use]
pub fn may_hold_volatile_line(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = skip_space(rest);
        if opens_volatile(rest) {
            return true;
        }
        match next_line(rest) {
            Some(line) => rest = line,
            None => return false,
        }
    }
}

/// Returns the text behind leading white space, which may be written as an escape.
fn skip_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [b' ' | b'\t' | b'\n' | b'\r', rest @ ..]
            | [b'\\', b'n' | b't' | b'r', rest @ ..]
            | [b'\\', b'u', b'0', b'0', b'0' | b'2', _, rest @ ..] => rest,
            _ => return text,
        }
    }
}

fn next_line(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match skip_to_mark(text)? {
            [b'\n', rest @ ..]
            | [b'\\', b'n', rest @ ..]
            | [b'\\', b'u', b'0', b'0', b'0', b'a' | b'A', rest @ ..] => return Some(rest),
            [_, _, rest @ ..] => rest,
            _ => return None,
        }
    }
}

/// Returns the text from its first line end or escape on. Most pieces hold none, which is found out
/// without a branch.
fn skip_to_mark(mut text: &[u8]) -> Option<&[u8]> {
    let is_mark = |byte: &u8| (*byte == b'\n') | (*byte == b'\\');
    while let Some((piece, rest)) = text.split_first_chunk::<16>() {
        if piece.iter().fold(false, |found, byte| found | is_mark(byte)) {
            break;
        }
        text = rest;
    }
    text.get(text.iter().position(is_mark)?..)
}

fn opens_volatile(line: &[u8]) -> bool {
    let Some(start) = line.first_chunk::<4>() else { return false };
    // Few letters open a volatile line.
    if VOLATILE_LETTERS >> (start[0] & 31) & 1 == 0 {
        return false;
    }
    let start = u32::from_le_bytes(start.map(|byte| byte.to_ascii_lowercase()));
    VOLATILE_STARTS.iter().fold(false, |found, word| found | (*word == start))
}

/// The first four letters of [`VOLATILE_LINES`], in lower case: each as it is, and with a tab as
/// the beginning of an escape.
static VOLATILE_STARTS: [u32; 2 * VOLATILE_LINES.len()] = {
    let mut starts = [0; 2 * VOLATILE_LINES.len()];
    let mut row = 0;
    while row < VOLATILE_LINES.len() {
        let word = VOLATILE_LINES[row].word.as_bytes();
        let [a, b, c] = [word[0], word[1], word[2]];
        let escaped = if word[3] == b'\t' { b'\\' } else { word[3] };
        starts[2 * row] = lower_word([a, b, c, word[3]]);
        starts[2 * row + 1] = lower_word([a, b, c, escaped]);
        row += 1;
    }
    starts
};

/// The letters that these lines begin with, a bit each: `a` and `A` are the second.
static VOLATILE_LETTERS: u32 = {
    let (mut letters, mut row) = (0, 0);
    while row < VOLATILE_LINES.len() {
        letters |= 1 << (VOLATILE_LINES[row].word.as_bytes()[0] & 31);
        row += 1;
    }
    letters
};

const fn lower_word(mut word: [u8; 4]) -> u32 {
    word.make_ascii_lowercase();
    u32::from_le_bytes(word)
}

/// Returns true if a client has replaced this result by a constant marker; then it has no identity.
#[must_use]
pub fn is_cleared(text: &str) -> bool {
    starts_with_any(CLEARED, text.trim())
}

/// Returns true if a text may be a marker of a cleared result, escaped or not, by its first letter.
/// This spares most results the closer look.
#[must_use]
pub fn may_be_cleared(text: &str) -> bool {
    let first = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    match first(text.trim_start()) {
        // White space may be written as an escape.
        None | Some(b'\\') => true,
        letter => CLEARED.iter().any(|row| first(row.word) == letter),
    }
}

/// Returns true if the beginning of a result says that something still runs.
#[must_use]
pub fn is_unfinished(text: &str) -> bool {
    let head = take_head(text, HEAD_BYTES).as_bytes();
    head.iter().enumerate().any(|(at, first)| {
        OPENS_UNFINISHED.get(usize::from(*first)) == Some(&true)
            && UNFINISHED.iter().any(|row| {
                let word = row.word.as_bytes();
                head.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word))
            })
    })
}

/// The bytes that a row of [`UNFINISHED`] begins with, in either case.
static OPENS_UNFINISHED: [bool; 256] = {
    let mut opens = [false; 256];
    let mut row = 0;
    while row < UNFINISHED.len() {
        let first = UNFINISHED[row].word.as_bytes()[0];
        opens[first.to_ascii_lowercase() as usize] = true;
        opens[first.to_ascii_uppercase() as usize] = true;
        row += 1;
    }
    opens
};

/// Returns true if a text may hold one of the words of [`is_unfinished`], escaped or not. It takes
/// one pass without a branch, so it costs nearly nothing.
#[must_use]
pub fn may_be_unfinished(text: &str) -> bool {
    // The last word stands for the escape of any letter: the case of `\` is `|`.
    has_any_four(text, &[*b"stat", *b"runn", *b"fini", *b"outp", *b"|u00"])
}

/// Tells from a known exit-code line whether a command failed: `Some(true)` for a code that is not
/// 0, `Some(false)` for 0, and `None` if there is no such line among the first and the last four.
/// The first such line counts.
#[must_use]
pub fn exit_failed(text: &str) -> Option<bool> {
    let text = text.trim();
    let first = text.lines().take(LINES).find_map(line_exit_code);
    let code = first
        .or_else(|| text.lines().rev().take(LINES).find_map(line_exit_code))
        .or_else(|| json_exit_code(text))?;
    Some(code != 0)
}

/// Returns true if a text may hold a line that [`exit_failed`] knows, escaped or not: every mark
/// contains one of two short words. It takes one pass without a branch, so it costs nearly nothing.
#[must_use]
pub fn may_tell_exit(text: &str) -> bool {
    has_any_four(text, &[*b"exit", *b"urnc"])
}

/// Returns the same if a letter of a mark may be written as an escape.
#[must_use]
pub fn may_tell_exit_escaped(text: &str) -> bool {
    has_any_four(text, &[*b"exit", *b"urnc", *b"|u00"])
}

/// Returns true if a text holds one of these lower-case words, in any case.
fn has_any_four<const N: usize>(text: &str, words: &[[u8; 4]; N]) -> bool {
    let bytes = text.as_bytes();
    let from = |at| bytes.get(at..).unwrap_or_default();
    let windows = bytes.iter().zip(from(1)).zip(from(2)).zip(from(3));
    windows.fold(false, |found, (((a, b), c), d)| {
        words.iter().fold(found, |found, word| {
            found
                | ((a | 0x20 == word[0])
                    & (b | 0x20 == word[1])
                    & (c | 0x20 == word[2])
                    & (d | 0x20 == word[3]))
        })
    })
}

/// Returns the code of a line that opens with a mark, after brackets.
fn line_exit_code(line: &str) -> Option<i64> {
    let line = take_head(line, LINE_BYTES).trim_start_matches([' ', '\t', '[', '(']);
    let line = line.strip_prefix("<exited").map_or(line, |_| line.trim_start_matches('<'));
    let row = EXIT_MARKS.iter().find(|row| starts_ignoring_case(line, row.word))?;
    let rest = line.get(row.word.len()..)?;
    let rest = rest.trim_start_matches([':', '=', ' ', '"', '\'']);
    let code = leading_number(rest)?;
    let after = rest.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit());
    // `Exit code 1 means …` is prose; what these tools write ends here or is punctuated.
    let ends = after.is_empty() || !after.trim_start().starts_with(char::is_alphanumeric);
    ends.then_some(code)
}

/// Returns the number of `"exit_code": N` in a JSON object's first or last bytes.
fn json_exit_code(text: &str) -> Option<i64> {
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let keys = ["\"exit_code\"", "\"exitCode\"", "\"returncode\""];
    [take_head(text, LINE_BYTES), take_tail(text, LINE_BYTES)].into_iter().find_map(|part| {
        keys.iter().find_map(|key| {
            let (_, rest) = part.split_once(key)?;
            leading_number(rest.trim_start().strip_prefix(':')?.trim_start())
        })
    })
}

fn leading_number(text: &str) -> Option<i64> {
    let sign = usize::from(text.starts_with('-'));
    let digits = text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    text.get(..sign + digits)?.parse().ok()
}

/// Returns at most `bytes` bytes from the start, on a character boundary.
fn take_head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// Returns at most `bytes` bytes from the end, on a character boundary.
fn take_tail(text: &str, bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(start..).unwrap_or(text)
}
