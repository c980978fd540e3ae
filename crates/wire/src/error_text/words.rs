//! The words of an error in a form that no vendor's reader knows: what stands under a member with a
//! name such as `message`, `msg`, `detail` or `error`, at any place of its JSON.
//!
//! Known forms: `{"errors":[{"code","message"}]}` (Cloudflare), `{"base_resp":{"status_code",
//! "status_msg"}}` (MiniMax), `{"error_code","error_msg"}` (Baidu), `{"detail":…}` (FastAPI),
//! `[{"error":{…}}]` (Gemini), `{"title","detail","status"}` (RFC 9457).

use super::bound_message;
use crate::json::{Cursor, Error, Kind, Str};

/// The levels of objects and lists that are looked into.
const DEPTH: u32 = 6;

/// Returns the words of a body or an event that tells an error in any JSON form; `None` if it has
/// none. They are bounded, and keys in them are masked.
#[must_use]
pub fn find_error_words(json: &[u8]) -> Option<String> {
    let words = find_words(&mut Cursor::from_bytes(json).ok()?)?;
    let words = bound_message(words.unescape().trim());
    Some(words).filter(|words| !words.is_empty())
}

/// Returns the words of the value at the cursor. Of several, those under the name that says most.
pub(crate) fn find_words<'a>(cursor: &mut Cursor<'a>) -> Option<Str<'a>> {
    let mut best = None;
    look_into(cursor, None, DEPTH, &mut best).ok()?;
    cursor.expect_end().ok()?;
    best.map(|(_, words)| words)
}

/// Looks into a value that stands under a name of this rank.
fn look_into<'a>(
    cursor: &mut Cursor<'a>,
    rank: Option<u8>,
    depth: u32,
    best: &mut Option<(u8, Str<'a>)>,
) -> Result<(), Error> {
    match cursor.peek()? {
        Kind::String => {
            let (words, _) = cursor.read_string()?;
            let better = |rank: &u8| best.as_ref().is_none_or(|(known, _)| rank < known);
            if let Some(rank) = rank.filter(better)
                && !words.is_blank()
            {
                *best = Some((rank, words));
            }
        }
        Kind::Object if depth > 0 => {
            cursor.read_members(|cursor, member| {
                look_into(cursor, rank_of_name(&member.key.unescape()), depth - 1, best)
            })?;
        }
        Kind::Array if depth > 0 => {
            cursor.read_elements(|cursor| look_into(cursor, rank, depth - 1, best))?;
        }
        _ => {
            cursor.skip_value()?;
        }
    }
    Ok(())
}

/// Returns the rank of a member's name, 0 for names of words for people; `None` if it names no
/// words.
fn rank_of_name(name: &str) -> Option<u8> {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|c| c.to_ascii_lowercase()).take(64).collect();
    match &*name {
        "errordescription" | "msg" => Some(0),
        name if name.ends_with("message") || name.ends_with("msg") => Some(0),
        "detail" | "details" | "description" | "errorsummary" => Some(1),
        "title" | "reason" | "error" | "errors" | "cause" | "faultstring" => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(json: &str) -> String {
        find_error_words(json.as_bytes()).unwrap_or_default()
    }

    #[test]
    fn c152_the_words_of_any_form_are_found() {
        for json in [
            r#"[{"error":{"code":429,"message":"It is over","status":"RESOURCE_EXHAUSTED"}}]"#,
            r#"{"result":null,"success":false,"errors":[{"code":7009,"message":"It is over"}],"messages":[]}"#,
            r#"{"id":"x","choices":null,"base_resp":{"status_code":1004,"status_msg":"It is over"}}"#,
            r#"{"error_code":17,"error_msg":"It is over"}"#,
            r#"{"detail":"It is over"}"#,
            r#"{"detail":[{"type":"missing","loc":["body","model"],"msg":"It is over","input":"x"}]}"#,
            r#"{"detail":{"error":{"message":"It is over"}}}"#,
            r#"{"message":"It is over","type":"x","code":5}"#,
            r#"{"timestamp":"2026","status":404,"error":"Not Found","message":"It is over"}"#,
            r#"{"error":"invalid_grant","error_description":"It is over"}"#,
            r#"{"title":"Bad","status":400,"detail":"It is over"}"#,
            r#"{"errors":["It is over","and more"]}"#,
            r#"{"Fault":{"faultstring":"It is over","detail":{"errorcode":"x"}}}"#,
            r#"{"error":"","errorMessage":" It is over "}"#,
        ] {
            assert_eq!(words(json), "It is over", "{json}");
        }
    }

    #[test]
    fn c152_what_is_no_error_has_no_words() {
        for json in [
            "",
            "null",
            "[]",
            "{}",
            "\"error\"",
            "<html>error</html>",
            "{\"message\":",
            "17",
            r#"{"error":{}}"#,
            r#"{"error_code":17,"error_type":"x","message_id":"m"}"#,
            r#"{"id":"x","messages":[{"role":"user","content":"hello"}]}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"hello"},"done":true}"#,
        ] {
            assert_eq!(words(json), "", "{json}");
        }
        let deep = format!("{}\"message\":\"x\"{}", "{\"a\":".repeat(20), "}".repeat(20));
        assert_eq!(words(&deep), "");
        let keyed = words(r#"{"detail":"no such key: sk-0123456789abcdef"}"#);
        assert_eq!(keyed, "no such key: sk-[masked]");
        assert_eq!(words(&format!("{{\"msg\":\"{}\"}}", "x".repeat(5000))).len(), 1000);
    }
}
