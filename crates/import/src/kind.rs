//! What a file is, told by its first bytes: never by its name.

use softland_session::wire::json::Cursor;

use crate::Kind;
use crate::input::Scan;

/// Bytes that are looked at.
pub(crate) const LOOKED_AT: usize = 64 << 10;
/// Objects that are looked at.
const OBJECTS: usize = 60;
/// Bytes of a value that are kept.
const PREVIEW: usize = 200;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    ClaudeCode,
    Codex,
    Csv,
    Messages,
    MessageLines,
    OpenCode(Table),
    GeminiCli,
    CopilotCli,
    MiniSwe,
    SweAgent,
    Ledger,
    Events,
    Journal,
}

/// A table of opencode's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Sessions,
    Messages,
    Parts,
    Other,
}

impl Form {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::ClaudeCode => Kind::ClaudeCode,
            Self::Codex => Kind::Codex,
            Self::Csv => Kind::OpenRouterCsv,
            Self::Messages | Self::MessageLines => Kind::Messages,
            Self::OpenCode(_) => Kind::OpenCode,
            Self::GeminiCli => Kind::GeminiCli,
            Self::CopilotCli => Kind::CopilotCli,
            Self::MiniSwe => Kind::MiniSwe,
            Self::SweAgent => Kind::SweAgent,
            Self::Ledger | Self::Events | Self::Journal => Kind::Softland,
        }
    }
}

/// What is seen of an object: its members, and how their values begin.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    members: Vec<(String, String)>,
}

impl Seen {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|(name, _)| name == key)
    }

    fn all(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.has(key))
    }

    /// A member that is a string, if it is short.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        let (_, value) = self.members.iter().find(|(name, _)| name == key)?;
        let (text, _) = Cursor::new(value).string().ok()?;
        Some(text.unescape().into_owned())
    }
}

/// What the first bytes of a file say.
pub(crate) fn tell(head: &[u8]) -> Result<Form, &'static str> {
    if head.is_empty() {
        return Err("empty");
    }
    if head.starts_with(b"SQLite format 3\0") {
        // Whose it is may stand in its -wal file alone, until that is taken over.
        return Ok(Form::Ledger);
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    let form = match first {
        None => return Err("empty"),
        Some(b'{') => objects(head, OBJECTS).iter().find_map(|seen| of_object(seen, head)),
        Some(b'[') => of_array(head),
        Some(_) => crate::openrouter_csv::is_header(head).then_some(Form::Csv),
    };
    form.ok_or("no kind of recording that is known")
}

fn of_object(seen: &Seen, head: &[u8]) -> Option<Form> {
    let kind = seen.string("type").unwrap_or_default();
    let holds = |word: &[u8]| memchr::memmem::find(head, word).is_some();
    if seen.all(&["v", "seq", "run", "event"]) {
        return Some(Form::Events);
    }
    if seen.all(&["v", "run", "ms", "kind"]) {
        return Some(Form::Journal);
    }
    if seen.has("payload") && !kind.is_empty() {
        return Some(Form::Codex);
    }
    if seen.has("data") && !seen.has("sessionId") && kind.contains('.') {
        return Some(Form::CopilotCli);
    }
    let claude = ["user", "assistant", "progress", "system", "summary", "file-history-snapshot"];
    if (claude.contains(&kind.as_str()) || kind == "queue-operation")
        && ["sessionId", "uuid", "leafUuid", "messageId"].iter().any(|key| seen.has(key))
    {
        return Some(Form::ClaudeCode);
    }
    if seen.all(&["sessionId", "messages"]) {
        return Some(Form::GeminiCli);
    }
    if seen.has("trajectory") || (seen.has("history") && holds(b"\"agent\"")) {
        return Some(Form::SweAgent);
    }
    if seen.has("messages") {
        let responses = holds(b"\"extra\"") && holds(b"\"response\"");
        let mini = seen.has("info") || seen.has("trajectory_format") || responses;
        return Some(if mini { Form::MiniSwe } else { Form::Messages });
    }
    // `{"info": {…}, "messages": […]}`, of which the beginning is long.
    if seen.has("info") && holds(b"\"mini_version\"") {
        return Some(Form::MiniSwe);
    }
    (seen.has("role") || is_item(seen)).then_some(Form::MessageLines)
}

/// Whether an object is an item of OpenAI's Responses API that is no message.
fn is_item(seen: &Seen) -> bool {
    let kind = seen.string("type").unwrap_or_default();
    crate::items::is_result(&kind) || crate::items::is_models(&kind)
}

fn of_array(head: &[u8]) -> Option<Form> {
    let objects = objects(head, OBJECTS);
    let Some(first) = objects.first() else {
        let rest = head.iter().filter(|byte| !byte.is_ascii_whitespace()).take(2);
        return rest.eq(b"[]").then_some(Form::Messages);
    };
    if first.has("role") || first.has("messages") || is_item(first) {
        return Some(Form::Messages);
    }
    if first.all(&["message_id", "session_id", "data"]) {
        return Some(Form::OpenCode(Table::Parts));
    }
    if first.all(&["session_id", "data", "seq"]) {
        return Some(Form::OpenCode(Table::Other));
    }
    if first.all(&["session_id", "data"]) {
        return Some(Form::OpenCode(Table::Messages));
    }
    first.all(&["project_id", "directory"]).then_some(Form::OpenCode(Table::Sessions))
}

/// The first objects of a JSON text that may be cut, at its top or in its outermost array.
pub(crate) fn objects(bytes: &[u8], most: usize) -> Vec<Seen> {
    let mut list = Vec::new();
    let mut at = spaces(bytes, 0, b"");
    if bytes.get(at) == Some(&b'[') {
        at += 1;
    }
    while list.len() < most {
        at = spaces(bytes, at, b",");
        if bytes.get(at) != Some(&b'{') {
            break;
        }
        let mut seen = Seen::default();
        let end = members(bytes, at + 1, &mut seen);
        list.push(seen);
        // A broken line: the next one may be whole.
        let line = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            memchr::memchr(b'\n', rest).map(|at| from + at + 1)
        };
        let Some(next) = end.or_else(|| line(at)) else { break };
        at = next;
    }
    list
}

/// Reads members up to the end of their object; `None` where it does not end.
fn members(bytes: &[u8], mut at: usize, seen: &mut Seen) -> Option<usize> {
    loop {
        at = spaces(bytes, at, b",");
        if bytes.get(at) == Some(&b'}') {
            return Some(at + 1);
        }
        let key = bytes.get(at..).filter(|rest| rest.starts_with(b"\""))?;
        let end = Scan::default().end(key, 0).ok()??;
        let name = key.get(1..end - 1).unwrap_or_default();
        at = spaces(bytes, at + end, b":");
        let value = bytes.get(at..)?;
        let end = Scan::default().end(value, 0).ok()?;
        let shown = value.get(..end.unwrap_or(value.len()).min(PREVIEW)).unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        seen.members.push((text(name), text(shown)));
        at += end?;
    }
}

fn spaces(bytes: &[u8], mut at: usize, also: &[u8]) -> usize {
    while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || also.contains(byte)) {
        at += 1;
    }
    at
}
