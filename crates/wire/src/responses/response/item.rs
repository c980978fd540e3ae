//! An item of a response, and its form in the next request.

use crate::{
    json::{Cursor, Error, Kind, Str, is_strict_object, write_str},
    responses::stream::{StreamItem, StreamItemKind},
    splice::quote_text,
};

/// An output item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputItem {
    /// The item's kind.
    pub kind: OutputKind,
    /// `id`; empty where absent.
    pub id: String,
    /// The item in the form that goes back: a JSON object, byte for byte as received when it was
    /// done. For an item that was cut, its start combined with the content that arrived.
    pub raw: String,
    /// True if the item was received whole.
    pub done: bool,
    /// True if its `status` is `completed`.
    pub completed: bool,
}

/// The kind of an output item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// `message`
    Message {
        /// The text of all its parts, concatenated.
        text: String,
        /// The refusal, if the model refused.
        refusal: Option<String>,
        /// `phase`: `commentary` or `final_answer`.
        phase: Option<String>,
    },
    /// `function_call`. If `custom` is true, `custom_tool_call`. A call named `parallel`, which
    /// wraps others, is kept as it is.
    Call {
        /// The id that the call's output must name.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The tool's namespace, if it has one.
        namespace: Option<String>,
        /// The arguments: JSON text as received, or the input of a custom tool.
        arguments: String,
        /// True if the call is whole: the item was done and is not marked incomplete, and a
        /// function's arguments are a JSON object that every parser accepts. A partial call ends
        /// like a whole one, but with broken arguments (recorded). An incomplete call must never be
        /// run.
        complete: bool,
        /// True if the tool is a custom tool, which takes any text.
        custom: bool,
    },
    /// `reasoning`
    Reasoning {
        /// The parts of the summary, separated by empty lines.
        summary: String,
        /// The reasoning itself, if the provider shows it.
        text: String,
        /// True if it can be sent back without being stored at the provider.
        encrypted: bool,
    },
    /// Any other item.
    Other {
        /// The item's type.
        kind: String,
        /// `call_id`; empty where absent.
        call_id: String,
    },
}

/// The texts of an item, from its members or from streamed pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct ItemTexts {
    pub(super) text: String,
    pub(super) refusal: Option<String>,
    pub(super) summary: String,
    pub(super) reasoning: String,
}

impl OutputItem {
    /// Returns the text of a message.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            OutputKind::Message { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Appends the item in the form that goes back to the API.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.raw.as_bytes());
    }

    /// Creates an item that was received whole.
    pub(super) fn from_whole(item: &StreamItem<'_>) -> Self {
        let texts = match item.kind {
            StreamItemKind::Message { .. } | StreamItemKind::Reasoning { .. } => {
                ItemTexts::from_item(item.raw)
            }
            StreamItemKind::Call { .. } | StreamItemKind::Other { .. } => ItemTexts::default(),
        };
        let mut kind = build_kind(&item.kind, texts);
        if let OutputKind::Call { arguments, complete, custom, .. } = &mut kind {
            let cut = matches!(&*item.status.unescape(), "incomplete" | "failed");
            *complete = !cut && (*custom || is_strict_object(arguments));
        }
        Self {
            kind,
            id: item.id.into_string(),
            raw: item.raw.to_owned(),
            done: true,
            completed: item.status == "completed",
        }
    }

    /// Creates an item that began and was cut, with the content that was streamed.
    pub(super) fn from_cut(item: &StreamItem<'_>, texts: ItemTexts, streamed: String) -> Self {
        let raw = rewrite_item(item.raw, &item.kind, &texts, &streamed);
        let mut kind = build_kind(&item.kind, texts);
        if let OutputKind::Call { arguments, .. } = &mut kind
            && !streamed.is_empty()
        {
            *arguments = streamed;
        }
        if let OutputKind::Reasoning { encrypted, .. } = &mut kind {
            *encrypted = false;
        }
        Self { kind, id: item.id.into_string(), raw, done: false, completed: false }
    }
}

fn build_kind(kind: &StreamItemKind<'_>, texts: ItemTexts) -> OutputKind {
    match *kind {
        StreamItemKind::Message { phase } => OutputKind::Message {
            text: texts.text,
            refusal: texts.refusal,
            phase: phase.map(Str::into_string),
        },
        StreamItemKind::Call { call_id, name, namespace, arguments, custom } => OutputKind::Call {
            call_id: call_id.into_string(),
            name: name.into_string(),
            namespace: namespace.map(Str::into_string),
            arguments: arguments.into_string(),
            complete: false,
            custom,
        },
        StreamItemKind::Reasoning { encrypted } => {
            OutputKind::Reasoning { summary: texts.summary, text: texts.reasoning, encrypted }
        }
        StreamItemKind::Other { kind, call_id } => {
            OutputKind::Other { kind: kind.into_string(), call_id: call_id.into_string() }
        }
    }
}

impl ItemTexts {
    /// Reads the texts of an item's `content` and `summary`.
    fn from_item(raw: &str) -> Self {
        let mut texts = Self::default();
        // The item was scanned before, so there is no error to report.
        let _ = Cursor::new(raw).read_members(|cursor, member| {
            let list = cursor.peek()? == Kind::Array;
            match &*member.key.unescape() {
                "content" | "summary" if list => {
                    cursor.read_elements(|cursor| texts.read_part(cursor))?;
                }
                _ => {}
            }
            Ok::<_, Error>(())
        });
        texts
    }

    fn read_part(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        let (mut kind, mut text) = (Str::default(), Str::default());
        cursor.read_members(|cursor, member| {
            let target = match &*member.key.unescape() {
                "type" => &mut kind,
                "text" | "refusal" => &mut text,
                _ => return Ok(()),
            };
            *target = cursor.read_string_or_skip()?.unwrap_or_default().0;
            Ok::<_, Error>(())
        })?;
        match &*kind.unescape() {
            "output_text" => text.push_to(&mut self.text),
            "refusal" => text.push_to(self.refusal.get_or_insert_default()),
            "reasoning_text" => text.push_to(&mut self.reasoning),
            "summary_text" => {
                self.start_summary_part();
                text.push_to(&mut self.summary);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a separator before a further part of the summary.
    pub(super) fn start_summary_part(&mut self) {
        if !self.summary.is_empty() {
            self.summary.push_str("\n\n");
        }
    }
}

/// Returns the item as it started, with its empty members replaced by the streamed content.
fn rewrite_item(raw: &str, kind: &StreamItemKind<'_>, texts: &ItemTexts, streamed: &str) -> String {
    let mut set: Vec<(&str, Vec<u8>)> = Vec::new();
    match kind {
        StreamItemKind::Message { .. } => set.push(("content", format_content(texts))),
        StreamItemKind::Call { custom, .. } if !streamed.is_empty() => {
            set.push((if *custom { "input" } else { "arguments" }, quote_text(streamed)));
        }
        StreamItemKind::Reasoning { .. } if !texts.summary.is_empty() => {
            let part = format_part("summary_text", "text", &texts.summary);
            set.push(("summary", [b"[".as_slice(), &part, b"]"].concat()));
        }
        _ => {}
    }
    set.push(("status", br#""incomplete""#.to_vec()));
    let mut out = vec![b'{'];
    let mut put = |name: &str, value: &[u8]| {
        if out.len() > 1 {
            out.push(b',');
        }
        write_str(&mut out, name);
        out.push(b':');
        out.extend_from_slice(value);
    };
    // The item was scanned before, so there is no error to report.
    let _ = Cursor::new(raw).read_members(|cursor, member| {
        let value = cursor.skip_value()?.slice_of(raw);
        let name = member.key.unescape();
        // Only reasoning that is done has content that can go back.
        let stale = name == "encrypted_content";
        if !stale && !set.iter().any(|(key, _)| *key == name) {
            put(&name, value.as_bytes());
        }
        Ok::<_, Error>(())
    });
    for (name, value) in &set {
        put(name, value);
    }
    out.push(b'}');
    // Only text was written to it, so the check cannot fail.
    String::from_utf8(out).unwrap_or_else(|_| raw.to_owned())
}

/// Returns the content of a message that was cut.
fn format_content(texts: &ItemTexts) -> Vec<u8> {
    let mut out = vec![b'['];
    if !texts.text.is_empty() {
        out.extend(format_part("output_text", "text", &texts.text));
    }
    if let Some(refusal) = &texts.refusal {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend(format_part("refusal", "refusal", refusal));
    }
    out.push(b']');
    out
}

fn format_part(kind: &str, member: &str, text: &str) -> Vec<u8> {
    let mut out = format!(r#"{{"type":"{kind}","{member}":"#).into_bytes();
    write_str(&mut out, text);
    if kind == "output_text" {
        out.extend_from_slice(br#","annotations":[]"#);
    }
    out.push(b'}');
    out
}
