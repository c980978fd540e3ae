//! Recordings of kinds that are not read, by name. They resemble one that is, and would be read as
//! that kind without any call in them.

use super::{OBJECTS, ObjectPreview, preview_objects};

/// A kind, and the marks in the beginning of a message's parts that tell it: the opening of the
/// first part, or that of any part.
struct ForeignKind {
    name: &'static str,
    /// The member that holds the parts.
    member: &'static str,
    marks: &'static [&'static str],
}

/// The kinds of messages whose parts have a form of their own.
const MESSAGES: [ForeignKind; 5] = [
    // ai.google.dev, "Content"; Gemini CLI's `/chat save`.
    ForeignKind {
        name: "contents of Gemini's API: a kind that is not read",
        member: "parts",
        marks: &["[{\"text\":", "[{\"functionCall\":", "[{\"functionResponse\":", "[{\"thought"],
    },
    // ai-sdk.dev, "UIMessage".
    ForeignKind {
        name: "UI messages of the AI SDK: a kind that is not read",
        member: "parts",
        marks: &["[{\"type\":"],
    },
    // docs.aws.amazon.com, "ContentBlock".
    ForeignKind {
        name: "messages of Bedrock's Converse: a kind that is not read",
        member: "content",
        marks: &["[{\"text\":", "[{\"toolUse\":", "[{\"toolResult\":", "[{\"reasoningContent\":"],
    },
    // ai-sdk.dev, "ModelMessage".
    ForeignKind {
        name: "model messages of the AI SDK: a kind that is not read",
        member: "content",
        marks: &["{\"type\":\"tool-call\"", "{\"type\":\"tool-result\""],
    },
    // goose, `MessageContent`.
    ForeignKind {
        name: "messages of goose: a kind that is not read",
        member: "content",
        marks: &["{\"type\":\"toolRequest\"", "{\"type\":\"toolResponse\""],
    },
];

/// Returns the reason why a file is not read, if its first bytes are those of such a kind.
pub(super) fn name_kind(head: &[u8]) -> Option<&'static str> {
    let mut objects = preview_objects(head, OBJECTS);
    if let Some(at) = memchr::memmem::find(head, b"\"messages\"") {
        let inner = head.get(at..).unwrap_or_default();
        let list = memchr::memchr(b'[', inner).and_then(|at| inner.get(at..)).unwrap_or_default();
        objects.extend(preview_objects(list, OBJECTS));
    }
    let head_of_lines = |seen: &ObjectPreview| {
        seen.has_all_keys(&["sessionId", "projectHash"]) && !seen.has_key("messages")
    };
    if objects.first().is_some_and(head_of_lines) {
        return Some("a chat of Gemini CLI as lines: a kind that is not read");
    }
    let messages = || objects.iter().filter(|seen| seen.has_key("role"));
    MESSAGES.iter().find(|kind| messages().any(|seen| kind.is_kind_of(seen))).map(|kind| kind.name)
}

impl ForeignKind {
    fn is_kind_of(&self, message: &ObjectPreview) -> bool {
        let parts: String =
            message.value(self.member).unwrap_or_default().split_ascii_whitespace().collect();
        // In a text the quotes of a mark would be escaped.
        let holds = |mark: &&&str| match mark.starts_with('[') {
            true => parts.starts_with(**mark),
            false => parts.starts_with('[') && parts.contains(**mark),
        };
        self.marks.iter().any(|mark| holds(&mark))
    }
}

#[cfg(test)]
mod tests {
    use super::name_kind;
    use crate::kind::{Form, recognize_file};

    #[test]
    fn a_file_of_such_a_kind_is_not_taken_for_another() {
        let of = |file: &str| recognize_file(file.as_bytes()).map(|(form, _)| form);
        let gemini = r#"[{"role":"user","parts":[{"text":"a"}]}]"#;
        assert!(of(gemini).is_err_and(|why| why.contains("Gemini")));
        assert_eq!(of(r#"[{"role":"user","content":"a"}]"#), Ok(Form::Messages));
        // A type and a session are not enough.
        let line = r#"{"type":"user","sessionId":"a","content":"b"}"#;
        assert!(of(line).is_err());
        let line = r#"{"type":"user","sessionId":"a","uuid":"b","message":{"role":"user"}}"#;
        assert_eq!(of(line), Ok(Form::ClaudeCode));
    }

    #[test]
    fn a_kind_that_is_not_read_is_named_and_its_neighbours_are_not() {
        for (file, name) in [
            (r#"[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[]}]"#, "Gemini's"),
            (r#"[{"role":"user","parts": [ {"functionCall": {}} ]}]"#, "Gemini's"),
            (r#"[{"id":"1","role":"user","parts":[{"type":"text","text":"a"}]}]"#, "UI messages"),
            (r#"[{"role":"user","content":[{"text":"a"}]}]"#, "Bedrock's"),
            (
                r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool-call"}]}]"#,
                "model messages",
            ),
            (r#"{"messages":[{"role":"assistant","content":[{"type":"toolRequest"}]}]}"#, "goose"),
            (
                "{\"sessionId\":\"a\",\"projectHash\":\"b\"}\n{\"type\":\"user\",\"sessionId\":\"a\"}",
                "as lines",
            ),
            (r#"{"sessionId":"a","projectHash":"b","messages":[]}"#, ""),
            (r#"[{"role":"user","content":[{"type":"text","text":"a"}]}]"#, ""),
            (r#"[{"role":"user","content":"[{\"text\":1}]"}]"#, ""),
            (r#"[{"role":"user","content":"a"}]"#, ""),
            (r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}]"#, ""),
            ("[", ""),
            ("", ""),
        ] {
            let found = name_kind(file.as_bytes()).unwrap_or_default();
            assert!(found.contains(name) && found.is_empty() == name.is_empty(), "{file}: {found}");
        }
    }
}
