//! Answers of servers that are not quite the protocol's: half of a character in a text, a content
//! block that cannot be read. A caller that waits gets an error or the rest, and never waits until
//! its time is over.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::tool::cut_line;

/// The message about a text that was cut within a character.
pub(super) const HALF: &str = "a text in the message holds half of a character: the escape of one \
                               surrogate without the other, such as \\ud83d";

/// The types of content blocks that are known.
const KNOWN: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Returns an error for the id of an answer that cannot be read; `None` if the line is no answer.
pub(super) fn read_answer(line: &[u8]) -> Option<Value> {
    let Ok(answer) = serde_json::from_slice::<Value>(line) else {
        return answer_half_a_character(line);
    };
    let id = answer.get("id").filter(|id| id.is_string() || id.is_number())?;
    answer.get("result")?;
    Some(error_answer(id, "the result is not of the form that MCP has for it"))
}

/// Returns an error for the id of an answer that would be readable, were there not half of a
/// character in a text of it. `None` for a request, whose id is the server's own.
pub(super) fn answer_half_a_character(line: &[u8]) -> Option<Value> {
    let message = read_beside_half_a_character(line)?;
    if message.get("method").is_some() {
        return None;
    }
    let id = message.get("id").filter(|id| id.is_string() || id.is_number())?;
    Some(error_answer(id, HALF))
}

/// Reads the result of a tool with each block described that cannot be read. `None` if it is
/// another result, or none of a tool for more than its blocks.
pub(super) fn read_tool_result(mut result: Value) -> Option<CallToolResult> {
    for block in result.get_mut("content")?.as_array_mut()? {
        if ContentBlock::deserialize(&*block).is_err() {
            *block = json!({"type": "text", "text": describe_block(block)});
        }
    }
    serde_json::from_value(result).ok()
}

/// Describes a block that cannot be read, with its text if it has one.
fn describe_block(block: &Value) -> String {
    let kind = block.get("type").and_then(Value::as_str);
    let name = match kind.map(|kind| (kind, KNOWN.contains(&kind))) {
        Some((kind, true)) => format!("[content of the kind {kind}, which is not of its form]"),
        Some((kind, false)) => {
            format!("[content of the kind {}, which is not known]", cut_line(kind, 60))
        }
        None => "[content of no kind]".to_owned(),
    };
    match block.as_str().or_else(|| block.get("text")?.as_str()) {
        Some(text) => format!("{name}\n{text}"),
        None => name,
    }
}

/// Returns the id of a message that would be readable, were there not half of a character in a
/// text of it.
pub(super) fn id_beside_half_a_character(line: &[u8]) -> Option<Value> {
    let message = read_beside_half_a_character(line)?;
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned()
}

/// Reads a message with each half of a character replaced; `None` if there is none in it.
fn read_beside_half_a_character(line: &[u8]) -> Option<Value> {
    let mended = mend_surrogates(std::str::from_utf8(line).ok()?)?;
    serde_json::from_str(&mended).ok()
}

pub(super) fn error_answer(id: &Value, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": why}})
}

/// Returns the text with each escape of a lone surrogate replaced; `None` if there is none.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let taken = match (surrogate(escape, 0), surrogate(escape, 6)) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                found = true;
                mended.push_str("\\ufffd");
                rest = escape.get(6..)?;
                continue;
            }
            // Any other escape: the character behind the backslash is part of it.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        mended.push_str(escape.get(..taken)?);
        rest = escape.get(taken..)?;
    }
    mended.push_str(rest);
    found.then_some(mended)
}

/// A half of a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// Returns the half of a pair whose escape stands at this byte.
fn surrogate(text: &str, at: usize) -> Option<Half> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{id_beside_half_a_character, mend_surrogates, read_answer, read_tool_result};
    use crate::mcp::content::result_output;

    #[test]
    fn halves_of_characters_are_found_and_pairs_are_not() {
        for (text, mended) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""\ude00 b""#, Some(r#""\ufffd b""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\n""#, Some(r#""\ufffd\n""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u00e9 é \\""#, None),
            ("\\", None),
        ] {
            assert_eq!(mend_surrogates(text).as_deref(), mended, "{text}");
        }
    }

    #[test]
    fn who_waits_for_half_a_character_gets_an_error() {
        let line = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#;
        assert_eq!(id_beside_half_a_character(line), Some(json!(7)));
        let answer = read_answer(line).expect("an answer");
        assert_eq!(answer["id"], 7);
        assert!(
            answer["error"]["message"].as_str().is_some_and(|m| m.contains("half of a character"))
        );
        // What is no message stays none.
        let request = br#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"text":"cut \ud83d"}}"#;
        for line in
            [&b"Listening on stdio"[..], b"{\"id\":1", b"\"\\ud83d\"", b"\xff", request.as_slice()]
        {
            assert_eq!(read_answer(line), None);
        }
    }

    #[test]
    fn c141_blocks_that_cannot_be_read_are_named_beside_the_others() {
        for (block, named) in [
            (
                json!({"type": "hologram", "x": 1}),
                "[content of the kind hologram, which is not known]",
            ),
            (
                json!({"type": "note", "text": "its words"}),
                "[content of the kind note, which is not known]\nits words",
            ),
            (json!({"text": "its words"}), "[content of no kind]\nits words"),
            (json!("its words"), "[content of no kind]\nits words"),
            (json!(null), "[content of no kind]"),
            (json!(5), "[content of no kind]"),
            (json!([]), "[content of no kind]"),
            (json!({"type": 5}), "[content of no kind]"),
            (
                json!({"type": "image", "data": "AA=="}),
                "[content of the kind image, which is not of its form]",
            ),
            (
                json!({"type": "resource_link", "uri": "file:///a"}),
                "[content of the kind resource_link, which is not of its form]",
            ),
            (
                json!({"type": "resource", "resource": {}}),
                "[content of the kind resource, which is not of its form]",
            ),
            (
                json!({"type": "text", "text": 5}),
                "[content of the kind text, which is not of its form]",
            ),
            // Neighbours that can be read.
            (json!({"type": "text", "text": "one"}), "one"),
            (
                json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
                "[an image, image/png, 1 bytes, cannot be shown]",
            ),
        ] {
            let kept = json!({"type": "text", "text": "KEPT"});
            let result = json!({"content": [kept, block, kept], "isError": false});
            let read = read_tool_result(result).expect("a result");
            let output = result_output(&read);
            assert_eq!(output.content, format!("KEPT\n{named}\nKEPT"), "{block}");
            assert!(!output.is_error);
        }
        for other in [
            json!({}),
            json!(null),
            json!({"content": "one"}),
            json!({"content": [], "isError": "no"}),
        ] {
            assert!(read_tool_result(other.clone()).is_none(), "{other}");
        }
    }
}
