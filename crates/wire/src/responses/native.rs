//! Calls of tools that the API itself defines: what the model asks for in such an item.

use std::borrow::Cow;

use crate::json::{Cursor, Error, Kind};

/// Members of an item that the model does not ask for: the item's type and ids, how far it came, and
/// what came of it. Two calls that differ in nothing else are the same call.
const NOT_ASKED: [&str; 16] = [
    "type",
    "id",
    "call_id",
    "status",
    "output",
    "outputs",
    "result",
    "results",
    "tools",
    "error",
    "created_by",
    "caller",
    "container_id",
    "approval_request_id",
    "pending_safety_checks",
    "acknowledged_safety_checks",
];

/// Returns what the model asks for in an item that is a call of a tool of the API's own, such as
/// `shell_call` or `web_search_call`: a JSON object of the members that say so, as written. An item
/// that does not say what its call does, as some of those that the provider runs, is returned whole.
#[must_use]
pub fn native_input(item: &str) -> Cow<'_, str> {
    let mut input = String::from("{");
    let (mut says, mut for_client) = (false, false);
    let read = Cursor::new(item).read_members(|cursor, member| {
        let name = member.key.unescape();
        let value = cursor.skip_value()?.slice_of(item);
        for_client |= name == "call_id" && !matches!(value, "null" | "\"\"");
        if NOT_ASKED.contains(&&*name) || value == "null" {
            return Ok(());
        }
        let value = if name == "action" { cut_sources(value)? } else { Cow::Borrowed(value) };
        says |= says_more_than_a_kind(&value)?;
        if input.len() > 1 {
            input.push(',');
        }
        input.push_str(member.span.slice_of(item));
        input.push(':');
        input.push_str(&value);
        Ok::<_, Error>(())
    });
    // A client has to know all that it is to do.
    let whole = says || (for_client && input.len() > 1);
    if read.is_err() || !whole {
        return Cow::Borrowed(item);
    }
    input.push('}');
    Cow::Owned(input)
}

/// Returns the action of a search without the sources that were found.
fn cut_sources(action: &str) -> Result<Cow<'_, str>, Error> {
    let mut cursor = Cursor::new(action);
    if cursor.peek()? != Kind::Object {
        return Ok(Cow::Borrowed(action));
    }
    let (mut kept, mut found) = (Vec::new(), false);
    cursor.read_members(|cursor, member| {
        let value = cursor.skip_value()?.slice_of(action);
        match member.key == "sources" {
            true => found = true,
            false => kept.push(format!("{}:{value}", member.span.slice_of(action))),
        }
        Ok::<_, Error>(())
    })?;
    Ok(if found { Cow::Owned(format!("{{{}}}", kept.join(","))) } else { Cow::Borrowed(action) })
}

/// Returns true for a value that is more than an empty one, or an object with a type.
fn says_more_than_a_kind(value: &str) -> Result<bool, Error> {
    let mut cursor = Cursor::new(value);
    if cursor.peek()? != Kind::Object {
        return Ok(!matches!(value, "\"\"" | "[]"));
    }
    let mut more = false;
    cursor.read_members(|cursor, member| {
        let value = cursor.skip_value()?.slice_of(value);
        more |= member.key != "type" && !matches!(value, "null" | "\"\"" | "[]" | "{}");
        Ok::<_, Error>(())
    })?;
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_results_are_no_part_of_a_call() {
        for (item, input) in [
            (
                r#"{"type":"shell_call","id":"sh_1","call_id":"c1","action":{"commands":["ls"],"timeout_ms":9},"status":"completed"}"#,
                r#"{"action":{"commands":["ls"],"timeout_ms":9}}"#,
            ),
            (
                r#"{ "id" : "w", "action" : {"type":"search","query":"a","sources":[{"url":"u"}]}, "type":"web_search_call" }"#,
                r#"{"action":{"type":"search","query":"a"}}"#,
            ),
            (
                r#"{"type":"mcp_call","id":"m","server_label":"s","name":"t","arguments":"{}","output":"x","error":null,"status":"completed"}"#,
                r#"{"server_label":"s","name":"t","arguments":"{}"}"#,
            ),
            (
                r#"{"type":"computer_call","call_id":"c","action":{"type":"screenshot"},"pending_safety_checks":[{"id":"s"}]}"#,
                r#"{"action":{"type":"screenshot"}}"#,
            ),
        ] {
            assert_eq!(native_input(item), input);
        }
    }

    #[test]
    fn an_item_that_does_not_say_what_it_asks_for_is_its_own() {
        for item in [
            r#"{"type":"web_search_call","id":"w1","status":"completed"}"#,
            r#"{"type":"web_search_call","id":"w1","action":{"type":"search"}}"#,
            r#"{"type":"web_search_call","id":"w1","action":{"type":"search","query":"","sources":[1]}}"#,
            r#"{"type":"of_tomorrow_call","id":"o1","call_id":"c1"}"#,
            r#"{"type":"file_search_call","id":"f","queries":[],"results":null}"#,
            "[]",
            "{",
            "",
        ] {
            assert_eq!(native_input(item), item);
        }
    }
}
