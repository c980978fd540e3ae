//! Parts of messages that are not read: they are counted, so that nobody takes them for silence.

use std::collections::BTreeMap;

use softland_session::wire::json::{Cursor, Error};

use super::{Block, Message};

/// Kinds of parts that are read, or that are known to hold no text and no call.
const KNOWN: [&str; 30] = [
    // docs.anthropic.com, "Messages".
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "server_tool_use",
    "mcp_tool_use",
    "image",
    "document",
    "search_result",
    "container_upload",
    "compaction",
    "compaction_delta",
    "tool_reference",
    // platform.openai.com, "Chat" and "Responses".
    "image_url",
    "input_audio",
    "audio",
    "file",
    "refusal",
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    "summary_text",
    "reasoning_text",
    "reasoning",
    // Other servers of the same APIs.
    "video",
    "video_url",
    "audio_url",
    "cache_point",
];

/// The greatest number of kinds that are told apart.
const KINDS: usize = 8;
/// The greatest number of characters of a kind's name that is shown.
const NAME: usize = 40;

/// The parts of a recording that are not read, by kind.
#[derive(Debug, Default)]
pub(crate) struct UnreadParts {
    kinds: BTreeMap<String, u64>,
    others: u64,
}

impl UnreadParts {
    /// Counts the parts of a message that are not read.
    pub(crate) fn count_parts(&mut self, message: &Message<'_>) {
        let member = message.unread_member().map(str::to_owned);
        for name in message.content.iter().filter_map(name_unread).chain(member) {
            if self.kinds.len() >= KINDS && !self.kinds.contains_key(&name) {
                self.others += 1;
            } else {
                *self.kinds.entry(name).or_default() += 1;
            }
        }
    }

    /// Returns what is not read, if there is anything.
    pub(crate) fn describe(&self) -> Option<String> {
        let mut list: Vec<_> =
            self.kinds.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        if self.others > 0 {
            list.push(format!("others ({})", self.others));
        }
        (!list.is_empty()).then(|| format!("parts of a kind that is not read: {}", list.join(", ")))
    }
}

/// Returns the name of a part that is not read: its type, or its first member where it has none.
pub(super) fn name_unread(block: &Block<'_>) -> Option<String> {
    let name = match block.kind {
        Some(kind) => {
            let kind = kind.unescape();
            let known = KNOWN.contains(&&*kind) || kind.ends_with("_tool_result");
            (!known).then(|| kind.into_owned())?
        }
        None if block.text.is_some() || block.json.is_empty() => return None,
        None => first_member(block.json)?,
    };
    Some(name.chars().take(NAME).collect())
}

fn first_member(json: &str) -> Option<String> {
    let mut first = None;
    // The part was read before, so there is no error to report.
    let _ = Cursor::new(json).read_members(|cursor, member| {
        first.get_or_insert_with(|| member.key.unescape().into_owned());
        cursor.skip_value()?;
        Ok::<_, Error>(())
    });
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(contents: &[&str]) -> Option<String> {
        let mut unread = UnreadParts::default();
        for content in contents {
            let text = format!(r#"{{"role":"assistant","content":{content}}}"#);
            unread.count_parts(&Message::from_json(&text).expect("a message"));
        }
        unread.describe()
    }

    #[test]
    fn parts_that_are_not_read_are_counted_by_kind() {
        let list = [
            r#"[{"type":"text","text":"a"},{"type":"functionCall","name":"b"}]"#,
            r#"[{"type":"functionCall"},{"toolUse":{"name":"b"}}]"#,
        ];
        let all = "parts of a kind that is not read: functionCall (2), toolUse (1)";
        assert_eq!(described(&list).as_deref(), Some(all));
    }

    #[test]
    fn c144_what_stands_in_another_member_is_named_and_is_no_silence() {
        for (members, named) in [
            (r#""segments":[{"type":"text","text":"a"}],"tool_uses":[]"#, "segments"),
            (r#""segments":[],"tool_uses":[{"id":"c"}]"#, "tool_uses"),
            (r#""blocks":[{"block_type":"text","text":"a"}]"#, "blocks"),
            (r#""text":"a""#, "text"),
            (r#""content":null,"text":"a""#, "text"),
            (r#""content":"","text":"a""#, "text"),
            (r#""content":[],"parts":[{"text":"a"}]"#, "parts"),
            (r#""content":{"content_type":"text","parts":["a"]}"#, "content_type"),
            (r#""content":[{"type":"hologram"}]"#, "hologram"),
            // Neighbours: what is read, and silence.
            (r#""content":{"type":"text","text":"a"}"#, ""),
            (r#""content":"a","text":"a""#, ""),
            (r#""content":[{"type":"text","text":"a"}],"parts":["a"]"#, ""),
            (r#""content":null,"text":"b","tool_calls":[{"id":"c","function":{"name":"d"}}]"#, ""),
            (r#""content":null,"refusal":"no","text":"a""#, ""),
            (r#""content":"","text":"","blocks":[],"parts":null"#, ""),
            (r#""content":"","annotations":[{"a":1}],"metadata":{"a":1}"#, ""),
        ] {
            let text = format!(r#"{{"role":"assistant",{members}}}"#);
            let message = Message::from_json(&text).expect("a message");
            let mut unread = UnreadParts::default();
            unread.count_parts(&message);
            let told = unread.describe().unwrap_or_default();
            assert_eq!(told.contains(&format!("{named} (1)")), !named.is_empty(), "{text}: {told}");
            assert_eq!(told.is_empty(), named.is_empty(), "{text}: {told}");
            let mut draft = crate::draft::TurnDraft::default();
            message.add_to(&mut draft, "").expect("a turn");
            assert_eq!(draft.gives, !named.is_empty(), "{text}");
        }
        // A message that nobody sent, such as a result of a tool, is not meant.
        let message = Message::from_json(r#"{"type":"function_call_output","text":"a"}"#);
        assert_eq!(message.expect("a message").unread_member(), None);
    }

    #[test]
    fn parts_that_are_read_or_hold_no_call_are_not() {
        for content in [
            "null",
            r#""a""#,
            r#"["a", 1, null]"#,
            r#"[{"text":"a"}]"#,
            r#"[{"type":"image","source":{}},{"type":"tool_use","id":"a","name":"b","input":{}}]"#,
            r#"[{"type":"bash_code_execution_tool_result","content":{}}]"#,
        ] {
            assert_eq!(described(&[content]), None, "{content}");
        }
    }

    #[test]
    fn the_list_is_bounded() {
        let list: Vec<_> =
            (0..99).map(|n| format!(r#"[{{"type":"k{n}{}"}}]"#, "x".repeat(99))).collect();
        let list: Vec<_> = list.iter().map(String::as_str).collect();
        let all = described(&list).expect("parts");
        assert!(all.len() < 600 && all.ends_with("others (91)"), "{all}");
    }
}
