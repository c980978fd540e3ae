//! Calls that a client writes into the text of its history as a list, in JSON or as Python prints
//! it: `Calling tools:
//! [{'id': 'call_1', 'type': 'function', 'function': {'name': …}}]`.
//!
//! Each element of the list counts as a call, even if it cannot be read completely: the call was
//! made nevertheless.

use crate::json::{Cursor, Error, Kind, write_str};

/// A call in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedCall {
    /// The id; empty where there is none.
    pub id: String,
    /// The tool's name; empty where it cannot be read.
    pub name: String,
    /// The arguments as JSON; an empty object where they cannot be read.
    pub input: String,
}

/// Returns the calls of a text that ends in a list of calls after a line `heading`, or nothing if
/// it does not. Several lists, each after its own heading, are read as one.
#[must_use]
pub fn parse_listed_calls(text: &str, heading: &str) -> Vec<ListedCall> {
    let (mut calls, mut rest) = (Vec::new(), text);
    let mut starts_line = true;
    while let Some(at) = rest.find(heading) {
        let (before, behind) = (rest.get(..at), rest.get(at + heading.len()..));
        let (Some(before), Some(behind)) = (before, behind) else { break };
        let own_line = if before.is_empty() { starts_line } else { before.ends_with('\n') };
        starts_line = false;
        rest = behind;
        let Some((elements, behind)) = own_line.then(|| split_list(rest)).flatten() else {
            continue;
        };
        calls.extend(elements.iter().map(|element| read_listed_call(element)));
        rest = behind;
    }
    if rest.trim().is_empty() { calls } else { Vec::new() }
}

/// Splits the list at the start of a text into its elements, each as JSON. Also returns the text
/// after the list.
fn split_list(text: &str) -> Option<(Vec<String>, &str)> {
    let mut rest = text.trim_start().strip_prefix('[')?;
    let (mut elements, mut element) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    while let Some(first) = rest.chars().next() {
        let behind = rest.get(first.len_utf8()..)?;
        match first {
            '\'' | '"' => {
                let (said, behind) = read_quoted(behind, first)?;
                write_str(&mut element, &said);
                rest = behind;
                continue;
            }
            ']' | ',' if depth == 0 => {
                if !element.is_empty() {
                    elements.push(String::from_utf8(std::mem::take(&mut element)).ok()?);
                }
                if first == ']' {
                    return Some((elements, behind));
                }
            }
            '{' | '[' | '(' => {
                depth += 1;
                element.push(if first == '{' { b'{' } else { b'[' });
            }
            '}' | ']' | ')' => {
                depth = depth.checked_sub(1)?;
                // Python writes a tuple with one element as `(1,)`.
                element.pop_if(|last| *last == b',');
                element.push(if first == '}' { b'}' } else { b']' });
            }
            ',' | ':' => element.push(first as u8),
            _ if first.is_whitespace() => {}
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "[](){},:'\"".contains(c))?;
                let (word, behind) = rest.split_at(end);
                write_word(&mut element, word);
                rest = behind;
                continue;
            }
        }
        rest = behind;
    }
    None
}

fn write_word(out: &mut Vec<u8>, word: &str) {
    match word {
        "True" | "true" => out.extend(b"true"),
        "False" | "false" => out.extend(b"false"),
        "None" | "null" => out.extend(b"null"),
        _ if crate::json::check_text(word).is_ok() => out.extend(word.bytes()),
        _ => write_str(out, word),
    }
}

/// Reads a string up to its closing quote. Returns it unescaped, and the text after it.
fn read_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut said = String::new();
    let mut rest = text;
    loop {
        let at = rest.find([quote, '\\'])?;
        said.push_str(rest.get(..at)?);
        rest = rest.get(at..)?;
        if let Some(behind) = rest.strip_prefix(quote) {
            return Some((said, behind));
        }
        let mut letters = rest.get(1..)?.chars();
        let letter = letters.next()?;
        let digits = match letter {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        rest = letters.as_str();
        match letter {
            'n' => said.push('\n'),
            't' => said.push('\t'),
            'r' => said.push('\r'),
            'x' | 'u' | 'U' => {
                let code = rest.get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                said.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                rest = rest.get(digits..)?;
            }
            other => said.push(other),
        }
    }
}

fn read_listed_call(json: &str) -> ListedCall {
    let mut call = ListedCall::default();
    let read = Cursor::new(json).read_members(|cursor, member| match &*member.key.unescape() {
        "id" => cursor
            .read_string_or_skip()
            .map(|id| call.id = id.map_or_else(String::new, unescape_text)),
        "function" if cursor.peek()? == Kind::Object => cursor
            .read_members(|cursor, member| {
                read_call_field(cursor, &member.key.unescape(), &mut call)
            })
            .map(|_| ()),
        key => read_call_field(cursor, key, &mut call),
    });
    if read.is_err() || call.input.is_empty() {
        "{}".clone_into(&mut call.input);
    }
    call
}

fn read_call_field(cursor: &mut Cursor<'_>, key: &str, call: &mut ListedCall) -> Result<(), Error> {
    match key {
        "name" => call.name = cursor.read_string_or_skip()?.map_or_else(String::new, unescape_text),
        "arguments" | "input" if cursor.peek()? == Kind::String => {
            call.input = unescape_text(cursor.read_string()?);
            if crate::json::check_text(&call.input).is_err() {
                let mut quoted = Vec::new();
                write_str(&mut quoted, &call.input);
                call.input = String::from_utf8(quoted).unwrap_or_default();
            }
        }
        "arguments" | "input" => {
            call.input = cursor.skip_value()?.slice_of(cursor.text()).to_owned()
        }
        _ => {}
    }
    Ok(())
}

fn unescape_text((said, _): (crate::json::Str<'_>, crate::json::Span)) -> String {
    said.unescape().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        parse_listed_calls(text, "Calling tools:\n").into_iter().map(|call| call.name).collect()
    }

    #[test]
    fn a_list_is_read_as_python_prints_it() {
        let text = "I look.\nCalling tools:\n[{'id': 'call_1', 'type': 'function', 'function': \
                    {'name': 'bash', 'arguments': {'command': \"echo 'a' \\\\n\", 'n': 3, 'ok': \
                    True, 'x': None, 'l': ['\\n', (1,)], 'é': '\\xe9\\u20ac'}}}, {'id': 'call_2', \
                    'type': 'function', 'function': {'name': 'read', 'arguments': '{\"p\": 1}'}}]";
        let calls = parse_listed_calls(text, "Calling tools:\n");
        assert_eq!(calls.len(), 2);
        assert_eq!((&*calls[0].id, &*calls[0].name), ("call_1", "bash"));
        let input =
            r#"{"command":"echo 'a' \\n","n":3,"ok":true,"x":null,"l":["\n",[1]],"é":"é€"}"#;
        assert_eq!(calls[0].input, input);
        assert_eq!((&*calls[1].id, &*calls[1].input), ("call_2", "{\"p\": 1}"));
    }

    #[test]
    fn what_is_no_list_at_the_end_is_text() {
        for text in [
            "",
            "Calling tools:\nnone",
            "Calling tools:\n[]",
            "Calling tools:\n[{'id': 'c', 'function': {'name': 'a'}}] is what it writes.",
            "It writes Calling tools:\n[{'id': 'c', 'function': {'name': 'a'}}]",
            "Calling tools:\n[{'id': 'c', 'function': {'name': 'a'}",
            "Calling tools:\n[{'id': 'c}]",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn every_list_and_every_element_counts() {
        let one = "Calling tools:\n[{'id': 'c', 'function': {'name': 'a', 'arguments': {}}}]";
        assert_eq!(names(&[one, "\n", one].concat()), ["a", "a"]);
        assert_eq!(names("Calling tools:\n[7, {'name': 'b'}, {1: 2}]"), ["", "b", ""]);
        let deep = ["[".repeat(500), "]".repeat(500)].concat();
        let text =
            format!("Calling tools:\n[{{'function': {{'name': 'a', 'arguments': {deep}}}}}]");
        assert_eq!(names(&text), ["a"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,60}", inside in "[\\[\\]{}(),:'\"\\\\a1\n]{0,60}") {
            let whole = format!("{text}\nCalling tools:\n[{inside}]");
            for call in parse_listed_calls(&whole, "Calling tools:\n") {
                prop_assert!(crate::json::check_text(&call.input).is_ok(), "{}", call.input);
            }
        }
    }
}
