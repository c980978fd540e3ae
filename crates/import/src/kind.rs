//! Recognizes a file by its first bytes, never by its name.

mod foreign;
mod others;

use softland_session::wire::json::Cursor;

use crate::Kind;
use crate::input::Scan;

/// The number of bytes that are looked at.
pub(crate) const LOOKED_AT: usize = 64 << 10;
/// The number of objects that are looked at.
const OBJECTS: usize = 60;
/// Lines at the beginning of a file that may be passed over: lines of a log, or damaged lines.
const LEFT_OUT: usize = 50;
/// Bytes of a value that are kept.
const PREVIEW: usize = 4 << 10;

/// The form in which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    ClaudeCode,
    Codex,
    Csv,
    Messages,
    MessageLines,
    OpenCode(Table),
    OpenCodeExport,
    GeminiCli,
    GeminiCliLines,
    CopilotCli,
    MiniSwe,
    SweAgent,
    Atif,
    /// A session of Pi, or of OpenClaw.
    Pi(Kind),
    Otlp,
    Inspect,
    /// A zip archive.
    Archive,
    Cline(Task),
    /// Goose's database.
    Goose,
    QwenCode,
    OpenHands(Place),
    LiteLlm,
    Ledger,
    Events,
    Journal,
}

/// A table of opencode's database, or a file of its storage folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Sessions,
    Messages,
    Parts,
    Other,
    /// The database itself.
    Database,
    SessionFile,
    MessageFile,
    PartFile,
}

/// A file in the folder of a task of Cline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// What was shown, with the usage of each request.
    Shown,
    /// The messages, without usage.
    History,
    /// The sums.
    Item,
}

/// A file of OpenHands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Trajectory,
    /// One event of a conversation.
    Event,
    /// `base_state.json`.
    State,
}

impl Form {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::ClaudeCode => Kind::ClaudeCode,
            Self::Codex => Kind::Codex,
            Self::Csv => Kind::OpenRouterCsv,
            Self::Messages | Self::MessageLines => Kind::Messages,
            Self::OpenCode(_) | Self::OpenCodeExport => Kind::OpenCode,
            Self::GeminiCli | Self::GeminiCliLines => Kind::GeminiCli,
            Self::CopilotCli => Kind::CopilotCli,
            Self::MiniSwe => Kind::MiniSwe,
            Self::SweAgent => Kind::SweAgent,
            Self::Atif => Kind::Atif,
            Self::Pi(kind) => kind,
            Self::Otlp => Kind::OtlpJson,
            Self::Inspect | Self::Archive => Kind::Inspect,
            Self::Cline(_) => Kind::Cline,
            Self::Goose => Kind::Goose,
            Self::QwenCode => Kind::QwenCode,
            Self::OpenHands(_) => Kind::OpenHands,
            Self::LiteLlm => Kind::LiteLlm,
            Self::Ledger | Self::Events | Self::Journal => Kind::Softland,
        }
    }
}

/// An object, as far as it was looked at: its members, and the beginnings of their values.
#[derive(Debug, Default)]
pub(crate) struct ObjectPreview {
    members: Vec<(String, String)>,
}

impl ObjectPreview {
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.members.iter().any(|(name, _)| name == key)
    }

    /// Returns the beginning of a member's value, as written.
    fn value(&self, key: &str) -> Option<&str> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn has_all_keys(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.has_key(key))
    }

    /// Returns true if a member is an object whose string `member` begins with `with`.
    fn object_begins_with(&self, key: &str, member: &str, with: &str) -> bool {
        let value = self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let mut inner = Self::default();
        let value = value.map_or("", String::as_str).as_bytes();
        if value.starts_with(b"{") {
            let _ = read_members(value, 1, &mut inner);
        }
        inner.short_string(member).is_some_and(|id| id.starts_with(with))
    }

    /// Returns true if the beginning of a member's value holds a text.
    fn value_holds(&self, key: &str, text: &str) -> bool {
        self.members.iter().any(|(name, value)| name == key && value.contains(text))
    }

    /// Returns a member that is an id, if it is short.
    pub(crate) fn short_id(&self, key: &str) -> Option<String> {
        let (_, value) = self.members.iter().find(|(name, _)| name == key)?;
        crate::fields::decode_id(value)
    }

    /// Returns a member that is a string, if it is short.
    pub(crate) fn short_string(&self, key: &str) -> Option<String> {
        let (_, value) = self.members.iter().find(|(name, _)| name == key)?;
        let (text, _) = Cursor::new(value).read_string().ok()?;
        Some(text.unescape().into_owned())
    }
}

/// Recognizes a file by its first bytes. Also returns how many of its first lines have to be left
/// out.
pub(crate) fn recognize_file(head: &[u8]) -> Result<(Form, usize), &'static str> {
    if head.is_empty() {
        return Err("empty");
    }
    if head.starts_with(b"SQLite format 3\0") {
        // The owner may be named in the -wal file alone, until its pages are taken over.
        return Ok((Form::Ledger, 0));
    }
    if head.starts_with(b"PK\x03\x04") {
        return Ok((Form::Archive, 0));
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err("UTF-16: to be saved as UTF-8 first");
    }
    if head.iter().all(u8::is_ascii_whitespace) {
        return Err("empty");
    }
    if let Some(other) = foreign::name_kind(head) {
        return Err(other);
    }
    if let Some(form) = recognize_text(head) {
        return Ok((form, 0));
    }
    let mut rest = head;
    for left_out in 1..=LEFT_OUT {
        let Some(end) = memchr::memchr(b'\n', rest) else { break };
        let (line, behind) = rest.split_at(end + 1);
        if !may_be_left_out(line) {
            break;
        }
        rest = behind;
        if let Some(form) = recognize_text(rest).filter(|_| continues_below(rest)) {
            return Ok((form, left_out));
        }
    }
    Err("not a known kind of recording")
}

fn recognize_text(head: &[u8]) -> Option<Form> {
    match head.iter().find(|byte| !byte.is_ascii_whitespace())? {
        b'{' => {
            let objects = preview_objects(head, OBJECTS);
            if objects.first().is_some_and(is_gemini_head) {
                return Some(Form::GeminiCliLines);
            }
            others::recognize_lines(&objects)
                .or_else(|| objects.iter().find_map(|seen| recognize_object(seen, head)))
        }
        b'[' => recognize_array(head),
        _ => crate::openrouter_csv::is_header(head).then_some(Form::Csv),
    }
}

/// Returns true if an object is the head of a chat of Gemini CLI whose messages are lines.
fn is_gemini_head(seen: &ObjectPreview) -> bool {
    seen.has_all_keys(&["sessionId", "projectHash"]) && !seen.has_key("messages")
}

/// Returns true if a first line is of no use by itself: no document begins in it and goes on below.
fn may_be_left_out(line: &[u8]) -> bool {
    let mut seen = line.iter().filter(|byte| !byte.is_ascii_whitespace());
    let begins = match (seen.next(), seen.next()) {
        (Some(b'{'), next) => matches!(next, None | Some(b'"' | b'}')),
        (Some(b'['), next) => {
            matches!(next, None | Some(b'{' | b'[' | b'"' | b']' | b'-' | b'0'..=b'9'))
        }
        _ => false,
    };
    !begins || !matches!(Scan::default().find_end(line, 0), Ok(None))
}

/// Returns true if the next line is of the same kind: an example within a text is no recording.
fn continues_below(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (Some(first), Some(next)) = (lines.next(), lines.next()) else { return true };
    let object = |line: &[u8]| line.trim_ascii_start().first() == Some(&b'{');
    !object(first) || object(next) || matches!(Scan::default().find_end(first, 0), Ok(None))
}

fn recognize_object(seen: &ObjectPreview, head: &[u8]) -> Option<Form> {
    others::recognize_object(seen).or_else(|| recognize_older(seen, head))
}

fn recognize_older(seen: &ObjectPreview, head: &[u8]) -> Option<Form> {
    let kind = seen.short_string("type").unwrap_or_default();
    let holds = |word: &[u8]| memchr::memmem::find(head, word).is_some();
    if seen.has_all_keys(&["v", "seq", "run", "event"]) {
        return Some(Form::Events);
    }
    if seen.has_all_keys(&["v", "run", "ms", "kind"]) {
        return Some(Form::Journal);
    }
    if seen.has_key("payload") && !kind.is_empty() {
        return Some(Form::Codex);
    }
    if seen.has_key("data") && !seen.has_key("sessionId") && kind.contains('.') {
        return Some(Form::CopilotCli);
    }
    if is_claude_line(seen, &kind) {
        return Some(Form::ClaudeCode);
    }
    if seen.has_all_keys(&["sessionId", "messages"]) {
        return Some(Form::GeminiCli);
    }
    if seen.has_key("trajectory") || (seen.has_key("history") && holds(b"\"agent\"")) {
        return Some(Form::SweAgent);
    }
    let begins =
        |key: &str, with: &str| seen.short_string(key).is_some_and(|id| id.starts_with(with));
    if seen.has_key("sessionID") && seen.has_key("messageID") && begins("id", "prt") {
        return Some(Form::OpenCode(Table::PartFile));
    }
    if seen.has_key("sessionID") && seen.has_key("role") && begins("id", "msg") {
        return Some(Form::OpenCode(Table::MessageFile));
    }
    if begins("id", "ses") && seen.has_key("time") && !seen.has_key("messages") {
        return Some(Form::OpenCode(Table::SessionFile));
    }
    if seen.has_all_keys(&["id", "worktree", "time"]) {
        return Some(Form::OpenCode(Table::Other));
    }
    if seen.object_begins_with("info", "id", "ses") {
        return Some(Form::OpenCodeExport);
    }
    if seen.has_key("messages") {
        let responses = holds(b"\"extra\"") && holds(b"\"response\"");
        let mini = seen.has_key("info") || seen.has_key("trajectory_format") || responses;
        return Some(if mini { Form::MiniSwe } else { Form::Messages });
    }
    // `{"info": {…}, "messages": […]}` with a long `info`.
    if seen.has_key("info") && holds(b"\"mini_version\"") {
        return Some(Form::MiniSwe);
    }
    (seen.has_key("role") || is_item(seen)).then_some(Form::MessageLines)
}

/// Returns true for a line of Claude Code's, which one member alone does not tell: other programs
/// write a `type` and a `sessionId`, too.
fn is_claude_line(seen: &ObjectPreview, kind: &str) -> bool {
    let any = |keys: &[&str]| keys.iter().any(|key| seen.has_key(key));
    match kind {
        "user" | "assistant" => any(&["uuid", "message"]) && any(&["sessionId", "uuid"]),
        "progress" | "system" => any(&["uuid"]),
        "summary" => any(&["leafUuid"]),
        "file-history-snapshot" => any(&["messageId"]),
        "queue-operation" => any(&["operation"]) && any(&["sessionId"]),
        _ => false,
    }
}

/// Returns true if an object is an item of OpenAI's Responses API other than a message.
fn is_item(seen: &ObjectPreview) -> bool {
    let kind = seen.short_string("type").unwrap_or_default();
    crate::items::is_result(&kind) || crate::items::is_model_item(&kind)
}

fn recognize_array(head: &[u8]) -> Option<Form> {
    let objects = preview_objects(head, OBJECTS);
    let Some(first) = objects.first() else {
        let rest = head.iter().filter(|byte| !byte.is_ascii_whitespace()).take(2);
        return rest.eq(b"[]").then_some(Form::Messages);
    };
    if let Some(form) = others::recognize_array(&objects) {
        return Some(form);
    }
    if first.has_key("role") || first.has_key("messages") || is_item(first) {
        return Some(Form::Messages);
    }
    if first.has_all_keys(&["message_id", "session_id", "data"]) {
        return Some(Form::OpenCode(Table::Parts));
    }
    if first.has_all_keys(&["session_id", "data", "seq"])
        || first.has_all_keys(&["content", "status", "priority"])
        || first.has_all_keys(&["file", "additions", "deletions"])
    {
        return Some(Form::OpenCode(Table::Other));
    }
    if first.has_all_keys(&["session_id", "data"]) {
        return Some(Form::OpenCode(Table::Messages));
    }
    first.has_all_keys(&["project_id", "directory"]).then_some(Form::OpenCode(Table::Sessions))
}

/// Returns the first objects of a JSON text, at its top or in its outermost array. The text may be
/// cut.
pub(crate) fn preview_objects(bytes: &[u8], most: usize) -> Vec<ObjectPreview> {
    let mut list = Vec::new();
    let mut at = skip_spaces(bytes, 0, b"");
    if bytes.get(at) == Some(&b'[') {
        at += 1;
    }
    while list.len() < most {
        at = skip_spaces(bytes, at, b",");
        if bytes.get(at) != Some(&b'{') {
            break;
        }
        let mut seen = ObjectPreview::default();
        let end = read_members(bytes, at + 1, &mut seen);
        list.push(seen);
        // This line is broken; the next one may be whole.
        let line = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            memchr::memchr(b'\n', rest).map(|at| from + at + 1)
        };
        let Some(next) = end.or_else(|| line(at)) else { break };
        at = next;
    }
    list
}

/// Reads members up to the end of their object; returns `None` if the object does not end.
fn read_members(bytes: &[u8], mut at: usize, seen: &mut ObjectPreview) -> Option<usize> {
    loop {
        at = skip_spaces(bytes, at, b",");
        if bytes.get(at) == Some(&b'}') {
            return Some(at + 1);
        }
        let key = bytes.get(at..).filter(|rest| rest.starts_with(b"\""))?;
        let end = Scan::default().find_end(key, 0).ok()??;
        let name = key.get(1..end - 1).unwrap_or_default();
        at = skip_spaces(bytes, at + end, b":");
        let value = bytes.get(at..)?;
        let end = Scan::default().find_end(value, 0).ok()?;
        let shown = value.get(..end.unwrap_or(value.len()).min(PREVIEW)).unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        seen.members.push((text(name), text(shown)));
        at += end?;
    }
}

fn skip_spaces(bytes: &[u8], mut at: usize, also: &[u8]) -> usize {
    while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || also.contains(byte)) {
        at += 1;
    }
    at
}
