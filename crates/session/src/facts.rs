//! Reads a protocol's texts into the core's words: results that failed, still run or were cleared,
//! and the visible text of turns. Live requests and recordings are read alike.

use std::borrow::Cow;

use softland_core::{Digest, LineRoom, ToolResult, VisibleText, identity, lines, tables};
use softland_wire::json::{Cursor, Error, Str};

use crate::media::digest_media;

/// Bytes of a result's text that are looked at for exit codes, at each end.
const EDGE: usize = 400;
/// Bytes of a result's text at each end in which clients write lines of their own.
const LINES_EDGE: usize = 128;
/// Characters at the beginning of a turn's text in which a tag opens its thinking, and bytes at its
/// end in which one ends it, with white space behind.
const TAG_EDGE: usize = 64;
const TAIL: usize = 256;
/// Bytes at the beginning of a result that hold a client's marker for what it has cleared.
const MARKER: usize = 160;

/// Reads the facts that the rules need of a result that is one text, for a replay of recordings.
/// `is_error` is the client's own mark. The caller fills in the id.
#[must_use]
pub fn read_result(text: &str, is_error: bool) -> ToolResult<'static> {
    let mut read = ResultReader::new(is_error);
    crate::tags::with_str(text, |text| read.add_text(text));
    read.to_facts()
}

/// A tool result's content, read part by part into the core's words.
#[derive(Clone, Debug, Default)]
pub struct ResultReader {
    digest: Option<Digest>,
    chars: u64,
    failed: bool,
    sent_back: bool,
    unfinished: bool,
    cleared: bool,
    lined: bool,
    remarked: bool,
}

impl ResultReader {
    /// Creates a reader of a result. `is_error` is the client's own mark.
    #[must_use]
    pub fn new(is_error: bool) -> Self {
        Self { failed: is_error, ..Self::default() }
    }

    /// Returns the facts that the rules need of the result. The caller fills in the call's id.
    #[must_use]
    pub fn to_facts(&self) -> ToolResult<'static> {
        ToolResult {
            id: Cow::Borrowed(""),
            digest: self.digest.unwrap_or(Digest::EMPTY),
            chars: self.chars,
            failed: self.failed,
            sent_back: self.sent_back,
            unfinished: self.unfinished,
            cleared: self.cleared,
            lined: self.lined,
            remarked: self.remarked,
            room: LineRoom::Text,
        }
    }

    /// Adds an image, a document, or another part that is no text: its JSON, or nothing where that
    /// is not known.
    pub fn add_media(&mut self, part: &str) {
        self.add_digest(digest_media(part));
    }

    /// Adds the output of a command in the Responses API's own form: `stdout`, `stderr`, `outcome`.
    pub(crate) fn add_command_output(&mut self, part: &str) {
        let mut code = None;
        // The part was scanned before, so there is no error to report.
        let _ = Cursor::new(part).read_members(|cursor, member| {
            match &*member.key.unescape() {
                "stdout" | "stderr" => {
                    if let Some((text, _)) = cursor.read_string_or_skip()? {
                        self.add_text(text);
                    }
                }
                "outcome" => {
                    let outcome = cursor.skip_value()?.slice_of(part);
                    code = identity::find_member(outcome, "exit_code");
                    self.add_digest(Digest::from_bytes(outcome.as_bytes()));
                }
                _ => {}
            }
            Ok::<_, Error>(())
        });
        self.failed |= code.is_some_and(|code| code != "0");
    }

    fn add_digest(&mut self, digest: Digest) {
        self.digest = Some(self.digest.map_or(digest, |before| before.followed_by(digest)));
    }

    /// Adds a text.
    pub fn add_text(&mut self, text: Str<'_>) {
        let digest = if identity::looks_like_json(text.raw()) {
            let text = text.unescape();
            let (digest, failed) = json_result(&text);
            self.failed |= failed;
            match self.failed {
                true => identity::digest_failed_result(&text, &tables::is_volatile_field),
                false => digest,
            }
        } else {
            self.failed |= edges_failed(text);
            match self.failed {
                true => failed_text_digest(&text.unescape()),
                false => text_digest(text),
            }
        };
        self.add_digest(digest);
        self.sent_back |= tables::asks_for_retry(text.raw());
        self.chars += text.char_count() as u64;
        self.cleared =
            tables::may_be_cleared(text.raw()) && tables::is_cleared(&text.unescape_head(MARKER));
        // A result that tells to wait is short.
        self.unfinished |= text.raw().len() <= 2 * EDGE
            && tables::may_be_unfinished(text.raw())
            && tables::is_unfinished(&text.unescape_head(EDGE));
        self.lined = lines::may_end_in_line(text.raw())
            && lines::ends_in_line(&text.unescape_tail(lines::LINE_BYTES));
        self.remarked = text.raw().ends_with(lines::REMARK_END);
    }
}

/// Returns the digest of a plain result, without the lines that differ from call to call. Clients
/// write those lines before and after the tool's output.
fn text_digest(text: Str<'_>) -> Digest {
    let raw = text.raw();
    // The text is read in one piece where its ends meet.
    let head =
        if raw.len() <= 2 * LINES_EDGE { raw.len() } else { raw.floor_char_boundary(LINES_EDGE) };
    let tail = raw.ceil_char_boundary(raw.len().saturating_sub(LINES_EDGE)).max(head);
    let may = |part: Option<&str>| part.is_some_and(tables::may_hold_volatile_line);
    let read = || identity::digest_lines(&text.unescape(), LINES_EDGE, &tables::is_volatile_line);
    let without = (may(raw.get(..head)) || may(raw.get(tail..))).then(read).flatten();
    without.unwrap_or_else(|| Digest::from_bytes(raw.as_bytes()))
}

/// Returns the digest of a plain result that failed.
fn failed_text_digest(text: &str) -> Digest {
    let lines = text.lines().filter(|line| !tables::is_volatile_line(line));
    lines.fold(Digest::EMPTY, |sum, line| sum.followed_by(identity::digest_failure(line)))
}

/// Returns the digest of a result that looks like JSON, and true if it says that it failed.
fn json_result(text: &str) -> (Digest, bool) {
    let (mut error, mut flagged) = (false, false);
    let mut seen = |key: &str, value: &str| match key {
        "error" => error = !matches!(identity::strip_quotes(value), "null" | "" | "false"),
        "isError" => flagged = identity::strip_quotes(value) == "true",
        _ => {}
    };
    let digest = identity::digest_text_with(text, &tables::is_volatile_field, &mut seen);
    (digest, error || flagged)
}

/// True if the first or the last lines of a text say that a command failed.
fn edges_failed(text: Str<'_>) -> bool {
    let raw = text.raw();
    if raw.len() <= 2 * EDGE {
        // Most results say nothing of an exit.
        return tables::may_tell_exit_escaped(raw)
            && tables::exit_failed(&text.unescape()).unwrap_or(false);
    }
    // Most results say nothing of an exit: they are not read any further.
    let head = raw.get(..raw.floor_char_boundary(EDGE)).unwrap_or(raw);
    let tail = raw.get(raw.ceil_char_boundary(raw.len() - EDGE)..).unwrap_or(raw);
    if !tables::may_tell_exit(head) && !tables::may_tell_exit(tail) {
        return false;
    }
    let edges = [&text.unescape_head(EDGE), "\n…\n", &text.unescape_tail(EDGE)].concat();
    tables::exit_failed(&edges).unwrap_or(false)
}

/// True if the ends of a text say that it may hold thinking.
fn may_hold_thinking(text: Str<'_>) -> bool {
    let head: String = text.iter().skip_while(|c| c.is_whitespace()).take(TAG_EDGE).collect();
    let raw = text.raw();
    let end = raw.get(raw.ceil_char_boundary(raw.len().saturating_sub(TAIL))..).unwrap_or_default();
    // Few texts end in a tag, in whatever form it is written.
    let may_end = end.contains('>') || end.contains("003");
    let tail = if may_end { text.unescape_tail(TAIL) } else { String::new() };
    VisibleText::may_hold_thinking(&head, &tail)
}

/// The text facts of several blocks. No more is unescaped than the rules look at.
#[derive(Clone, Debug, Default)]
pub struct TextReader {
    digest: Option<Digest>,
    seen: String,
}

impl TextReader {
    /// Adds a block's text.
    pub fn add_text(&mut self, text: Str<'_>) {
        let digest = Digest::from_bytes(text.raw().as_bytes());
        self.digest = Some(self.digest.map_or(digest, |before| before.followed_by(digest)));
        let room = (VisibleText::ENOUGH as usize).saturating_sub(self.seen.trim().len());
        if room > 0 && may_hold_thinking(text) {
            let text = text.unescape();
            let said = VisibleText::without_thinking(&text).trim_start();
            self.seen.extend(said.chars().take(room));
        } else if room > 0 {
            self.seen.extend(text.iter().skip_while(|c| c.is_whitespace()).take(room));
        }
    }

    /// Returns the facts of the texts.
    #[must_use]
    pub fn into_text(self) -> VisibleText {
        let seen = VisibleText::from_said(&self.seen);
        VisibleText { digest: self.digest.filter(|_| !seen.is_blank()), ..seen }
    }
}

#[cfg(test)]
mod tests {
    use softland_core::VisibleText;
    use softland_wire::json::Cursor;

    use super::{ResultReader, TextReader, read_result};

    /// A history is read in pieces, a response whole.
    #[test]
    fn c164_a_history_tells_thinking_from_an_answer_as_a_response_does() {
        let filled = |n: usize| format!("{}\n</think>\nIt is 4.", "a".repeat(n));
        let mut texts: Vec<String> = (40..70).map(filled).collect();
        for text in [
            "<think>hm</think>",
            "\n [THINK]hm[/THINK]\n",
            "\u{25c1}think\u{25b7}hm\u{25c1}/think\u{25b7}",
            "<|channel|>analysis<|message|>hm<|end|>",
            "<|start|>assistant<|channel|>analysis<|message|>hm<|end|>yes",
            "I look.\n</think>\n\n",
            "End it with </think>",
            "<p>4</p>",
            "",
        ] {
            texts.push(text.to_owned());
            texts.push(format!("{text}{}", " \n".repeat(20)));
        }
        for text in texts {
            let plain = serde_json::to_string(&text).expect("JSON");
            let ascii: String = plain
                .chars()
                .map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", c as u32) })
                .collect();
            for json in [plain, ascii] {
                let mut reader = TextReader::default();
                reader.add_text(Cursor::new(&json).read_string().expect("a string").0);
                let (read, whole) = (reader.into_text(), VisibleText::from_text(&text));
                assert_eq!(read.is_blank(), whole.is_blank(), "{json}");
                assert_eq!(read.placeholder, whole.placeholder, "{json}");
            }
        }
    }

    fn codex(chunk: &str, seconds: &str, output: &str) -> String {
        format!(
            "Chunk ID: {chunk}\nWall time: {seconds} seconds\nProcess exited with code 0\nOutput:\n{output}"
        )
    }

    #[test]
    fn lines_that_differ_from_call_to_call_do_not_tell_results_apart() {
        let digest = |text: &str| read_result(text, false).digest;
        assert_eq!(digest(&codex("a1", "0.1", "x\n")), digest(&codex("b2", "12.25", "x\n")));
        assert_ne!(digest(&codex("a1", "0.1", "x\n")), digest(&codex("a1", "0.1", "y\n")));
        let timed = |time: &str| format!("3 passed\nreal\t{time}\nuser\t0m0.1s\nsys\t0m0.0s\n");
        assert_eq!(digest(&timed("0m1.0s")), digest(&timed("0m2.0s")));
        // A tool's output between them counts, whatever it looks like; so does a clock's answer.
        let deep = |n: u64| codex("a", "0.1", &format!("{0}Time: {n}\n{0}", "line\n".repeat(200)));
        assert_ne!(digest(&deep(1)), digest(&deep(2)));
        assert_ne!(digest("Time: 12:00"), digest("Time: 12:01"));
    }

    #[test]
    fn a_command_that_fails_the_same_way_is_the_same_failure() {
        let digest = |text: &str| read_result(text, true).digest;
        assert_eq!(digest("1 failed in 0.04s"), digest("1 failed in 0.12s"));
        assert_ne!(digest("1 failed in 0.04s"), digest("2 failed in 0.04s"));
        let json =
            |time: &str| digest(&format!(r#"{{"output":"x\n1 failed in {time}s","code":1}}"#));
        assert_eq!(json("0.04"), json("0.12"));
        // What works is its text: a clock's answer is new each time.
        let works = |text: &str| read_result(text, false).digest;
        assert_ne!(works("It is 10:03:11"), works("It is 10:03:12"));
        assert_ne!(works("1 passed in 0.04s"), works("1 passed in 0.12s"));
    }

    #[test]
    fn the_output_of_a_command_in_parts_is_read_whole() {
        let read = |stdout: &str, stderr: &str, code: u8| {
            let mut read = ResultReader::default();
            read.add_command_output(&format!(
                r#"{{"stdout":"{stdout}","stderr":"{stderr}","outcome":{{"type":"exit","exit_code":{code}}}}}"#
            ));
            read.to_facts()
        };
        assert_eq!(read("a", "b", 0).digest, read("a", "b", 0).digest);
        for other in [read("a2", "b", 0), read("a", "b2", 0), read("a", "b", 1)] {
            assert_ne!(read("a", "b", 0).digest, other.digest);
        }
        assert!(read("a", "b", 1).failed && !read("a", "b", 0).failed);
        assert_eq!(read("ab", "cd", 0).chars, 4);
    }

    #[test]
    fn a_failed_command_is_seen_however_it_is_written() {
        let failed = |json: &str| {
            let (text, _) = Cursor::new(json).read_string().expect("a string");
            let mut read = ResultReader::default();
            read.add_text(text);
            read.to_facts().failed
        };
        assert!(failed(r#""no such file\nExit code 2""#));
        assert!(failed(r#""no such file\n\u0045xit code 2""#));
        assert!(failed(r#""<returncode>1</returncode>""#));
        assert!(!failed(r#""all is well\nExit code 0""#) && !failed(r#""Nothing is said.""#));
    }

    #[test]
    fn a_command_that_still_runs_is_one_to_wait_for() {
        let text =
            "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n";
        assert!(read_result(text, false).unfinished && !read_result(text, false).failed);
        assert!(read_result("no", true).failed);
    }
}
