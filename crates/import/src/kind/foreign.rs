//! Recordings of kinds that are not read, by name. They resemble one that is, and would be read as
//! that kind without any call in them.

use super::{OBJECTS, ObjectPreview, preview_objects};

/// A kind of messages whose parts have a form of their own.
struct ForeignKind {
    name: &'static str,
    /// The member of a message that holds the parts.
    member: &'static str,
    is_part: fn(&ObjectPreview) -> bool,
}

const KINDS: [ForeignKind; 5] = [
    // ai-sdk.dev, "UIMessage".
    ForeignKind {
        name: "UI messages of the AI SDK: a kind that is not read",
        member: "parts",
        is_part: |part| part.has_key("type"),
    },
    // ai.google.dev, "Content"; Gemini CLI's `/chat save`.
    ForeignKind {
        name: "contents of Gemini's API: a kind that is not read",
        member: "parts",
        is_part: |part| !part.is_empty(),
    },
    // docs.aws.amazon.com, "ContentBlock". Its texts are read like those of other APIs.
    ForeignKind {
        name: "messages of Bedrock's Converse: a kind that is not read",
        member: "content",
        is_part: |part| {
            let own = ["toolUse", "toolResult", "reasoningContent"];
            !part.has_key("type") && own.iter().any(|key| part.has_key(key))
        },
    },
    // ai-sdk.dev, "ModelMessage".
    ForeignKind {
        name: "model messages of the AI SDK: a kind that is not read",
        member: "content",
        is_part: |part| is_type(part, &["tool-call", "tool-result"]),
    },
    // goose, `MessageContent`.
    ForeignKind {
        name: "messages of goose: a kind that is not read",
        member: "content",
        is_part: |part| is_type(part, &["toolRequest", "toolResponse"]),
    },
];

/// The members of an object that may hold its messages.
const LISTS: [&str; 3] = ["messages", "history", "contents"];

/// Returns the reason why a file is not read, if its first bytes are those of such a kind.
pub(super) fn name_kind(head: &[u8]) -> Option<&'static str> {
    let objects = preview_objects(head, OBJECTS);
    let first = objects.first()?;
    let list = LISTS.iter().find_map(|key| first.value(key));
    let inner = list.map(|list| preview_objects(list.as_bytes(), OBJECTS)).unwrap_or_default();
    let messages = || objects.iter().chain(&inner).filter(|seen| seen.has_key("role"));
    KINDS.iter().find(|kind| messages().any(|seen| kind.is_kind_of(seen))).map(|kind| kind.name)
}

impl ForeignKind {
    fn is_kind_of(&self, message: &ObjectPreview) -> bool {
        let list = message.value(self.member).filter(|list| list.starts_with('['));
        let parts = preview_objects(list.unwrap_or_default().as_bytes(), OBJECTS);
        parts.iter().any(self.is_part)
    }
}

fn is_type(part: &ObjectPreview, types: &[&str]) -> bool {
    part.short_string("type").is_some_and(|kind| types.contains(&&*kind))
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
            (r#"[{"parts":[{"text":"a","type":"text"}],"role":"user"}]"#, "UI messages"),
            (r#"{"history":[{"role":"user","parts":[{"text":"a"}]}]}"#, "Gemini's"),
            (r#"[{"role":"user","content":[{"text":"a"},{"toolUse":{"name":"b"}}]}]"#, "Bedrock's"),
            (
                r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool-call"}]}]"#,
                "model messages",
            ),
            (r#"{"messages":[{"role":"assistant","content":[{"type":"toolRequest"}]}]}"#, "goose"),
            (r#"{"sessionId":"a","projectHash":"b","messages":[]}"#, ""),
            (r#"[{"role":"user","content":[{"type":"text","text":"a"}]}]"#, ""),
            (r#"[{"role":"user","content":"[{\"text\":1}]"}]"#, ""),
            (r#"[{"role":"user","content":"a"}]"#, ""),
            (r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}]"#, ""),
            // Members in another order, a text alone, and messages that a call is about.
            (r#"[{"content":[{"text":"a","type":"text"}],"role":"user"}]"#, ""),
            (r#"[{"role":"user","content":[{"text":"a"}]}]"#, ""),
            (r#"[{"role":"user","content":[{"type":"text","text":"a","toolUse":1}]}]"#, ""),
            (
                r#"[{"role":"assistant","content":[{"type":"tool_use","input":{"messages":[{"role":"user","parts":[{"text":"a"}]}]}}]}]"#,
                "",
            ),
            ("[", ""),
            ("", ""),
        ] {
            let found = name_kind(file.as_bytes()).unwrap_or_default();
            assert!(found.contains(name) && found.is_empty() == name.is_empty(), "{file}: {found}");
        }
    }
}
