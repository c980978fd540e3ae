//! Properties of the codec over generated input, most of them against `serde_json` as the judge.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a failed step is a failed test")]

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use softland_wire::{
    Api, Splice,
    json::{self, Cursor},
    request::{Content, Request},
    sse::{Decoder, write_event},
};

use crate::support::cases;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\\n\u{e9}\u{1F600} ]{0,80}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts that are nearly JSON: its tokens in any order.
fn nearly_json() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\n\"",
        "\\",
        "\\u00e9",
        "\\ud83d",
        "\\u12",
        "0",
        "1",
        "-",
        "1.5",
        "e3",
        "E+",
        ".",
        "01",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "é",
        "\"long string that is more than forty-eight bytes of text, with a \\\" in it\"",
        "{\"k\":1}",
        "[1,2]",
        "{}",
        "[]",
        "x",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

/// The scanner accepts what `serde_json` accepts, and also control characters within strings.
fn agrees(text: &str) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let ours = json::check_text(text);
    let lenient = text.bytes().any(|b| b < 0x20);
    prop_assert!(ours.is_ok() == theirs || (ours.is_ok() && lenient), "{:?}: {:?}", text, ours);
    if let Ok(span) = ours {
        prop_assert_eq!(span.slice_of(text), text.trim_matches([' ', '\n', '\r', '\t']));
    }
    Ok(())
}

/// Rebuilds a value through the cursor.
fn rebuilt(cursor: &mut Cursor<'_>) -> Result<Value, json::Error> {
    Ok(match cursor.peek()? {
        json::Kind::Object => {
            let mut members = Map::new();
            cursor.read_members(|cursor, member| {
                members.insert(member.key.unescape().into_owned(), rebuilt(cursor)?);
                Ok::<_, json::Error>(())
            })?;
            Value::Object(members)
        }
        json::Kind::Array => {
            let mut list = Vec::new();
            cursor.read_elements(|cursor| {
                list.push(rebuilt(cursor)?);
                Ok::<_, json::Error>(())
            })?;
            Value::Array(list)
        }
        json::Kind::String => {
            let (text, span) = cursor.read_string()?;
            let meaning = text.unescape().into_owned();
            assert_eq!(text.char_count(), meaning.chars().count());
            assert_eq!(text.is_blank(), meaning.trim().is_empty());
            assert!(text.eq_str(&meaning));
            assert_eq!(span.len(), text.raw().len() + 2);
            Value::String(meaning)
        }
        _ => serde_json::from_str(cursor.skip_value()?.slice_of(cursor.text())).unwrap(),
    })
}

/// A stream's frames as `(event, data)`, fed in pieces of the given sizes.
fn decoded(stream: &[u8], sizes: &[usize]) -> Vec<(String, String)> {
    let mut decoder = Decoder::new(1 << 20);
    let mut found = Vec::new();
    let mut rest = stream;
    let mut sizes = sizes.iter().cycle();
    loop {
        let (piece, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        decoder.push(piece);
        if after.is_empty() {
            decoder.finish();
        }
        while let Some(frame) = decoder.next() {
            let frame = frame.unwrap();
            found.push((frame.event.to_owned(), frame.data.into_owned()));
        }
        if after.is_empty() {
            return found;
        }
        rest = after;
    }
}

fn any_part() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(|text| json!({"text": text, "type": "text"})),
        Just(json!({"type": "text", "text": "", "cache_control": {"type": "ephemeral"}})),
        any_json().prop_map(|source| json!({"type": "image", "source": source})),
    ]
}

fn any_result() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        any::<String>().prop_map(|text| Some(Value::from(text))),
        prop::collection::vec(any_part(), 0..4).prop_map(|parts| Some(Value::from(parts))),
    ];
    (content, any::<bool>(), any_json()).prop_map(|(content, failed, extra)| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "toolu_1", "x": extra});
        if let Some(content) = content {
            block["content"] = content;
        }
        if failed {
            block["is_error"] = true.into();
        }
        block
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        3 => any_result(),
        1 => any_part(),
        1 => any_json().prop_map(|input| {
            json!({"type": "tool_use", "id": "toolu_1", "name": "grep", "input": input})
        }),
        1 => any_json().prop_map(|data| json!({"type": "new_kind", "content": data})),
    ];
    let content = prop_oneof![
        any::<String>().prop_map(Value::from),
        prop::collection::vec(block, 0..5).prop_map(Value::from),
    ];
    (content, any::<bool>()).prop_map(|(content, user)| {
        json!({"role": if user { "user" } else { "assistant" }, "content": content})
    })
}

fn any_request() -> impl Strategy<Value = Value> {
    let messages = prop::collection::vec(any_message(), 0..5);
    (messages, any::<Option<u32>>(), any::<bool>(), any_json()).prop_map(
        |(messages, max_tokens, choice, extra)| {
            let mut request = json!({"model": "m", "messages": messages, "extra": extra});
            if let Some(max_tokens) = max_tokens {
                request["max_tokens"] = max_tokens.into();
            }
            if choice {
                request["tool_choice"] = json!({"type": "auto"});
            }
            request
        },
    )
}

/// Returns a text after `line` is appended.
fn with_line(old: &str, line: &str) -> Value {
    if old.is_empty() { line.into() } else { format!("{old}\n\n{line}").into() }
}

/// The edits of `splices_say_what_they_should`, made on the tree.
fn edited(mut request: Value, line: &str) -> Value {
    request["max_tokens"] = 5.into();
    request["tool_choice"] = json!({"type": "none"});
    let text_block = json!({"type": "text", "text": line});
    for message in request["messages"].as_array_mut().unwrap() {
        match &mut message["content"] {
            Value::String(text) => *text = with_line(text, line).as_str().unwrap().to_owned(),
            Value::Array(blocks) => {
                for block in blocks.iter_mut().filter(|b| b["type"] == "tool_result") {
                    edit_result(block, line);
                }
                match blocks.last_mut().filter(|last| last["type"] == "text") {
                    Some(last) => last["text"] = with_line(last["text"].as_str().unwrap(), line),
                    None => blocks.push(text_block.clone()),
                }
            }
            other => panic!("{other}"),
        }
    }
    request["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "on"}));
    request
}

fn edit_result(block: &mut Value, line: &str) {
    match &mut block["content"] {
        Value::Null => block["content"] = line.into(),
        Value::String(text) => *text = with_line(text, line).as_str().unwrap().to_owned(),
        Value::Array(parts) => match parts.iter_mut().rev().find(|part| part["type"] == "text") {
            Some(part) => part["text"] = with_line(part["text"].as_str().unwrap(), line),
            None => parts.push(json!({"type": "text", "text": line})),
        },
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn scanner_and_serde_json_take_the_same_texts(text in nearly_json()) {
        agrees(&text)?;
    }

    #[test]
    fn any_bytes_are_judged_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match Cursor::from_bytes(&bytes) {
            Ok(cursor) => agrees(cursor.text())?,
            Err(error) => prop_assert_eq!(error.kind, json::JsonErrorKind::Utf8),
        }
        let _ = Request::from_body(Api::Anthropic, &bytes);
    }

    #[test]
    fn a_broken_text_is_judged_alike(value in any_json(), at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        if bytes[at].is_ascii() {
            bytes[at] = byte;
        }
        agrees(std::str::from_utf8(&bytes).unwrap())?;
        bytes.truncate(at);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            agrees(text)?;
        }
    }

    #[test]
    fn the_cursor_sees_every_value(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let mut cursor = Cursor::new(&text);
        prop_assert_eq!(rebuilt(&mut cursor).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        cursor.expect_end().unwrap();
    }

    #[test]
    fn written_strings_read_the_same(text in any::<String>()) {
        let mut out = Vec::new();
        json::write_str(&mut out, &text);
        prop_assert_eq!(&serde_json::from_slice::<String>(&out).unwrap(), &text);
        let written = std::str::from_utf8(&out).unwrap();
        prop_assert_eq!(Cursor::new(written).read_string().unwrap().0.unescape(), text);
    }

    #[test]
    fn tails_end_strings(text in "[a\"\\\\\n\u{e9}\u{1}]{0,12}", bytes in 0_usize..20) {
        let mut out = Vec::new();
        json::write_str(&mut out, &text);
        let written = std::str::from_utf8(&out).unwrap();
        let string = Cursor::new(written).read_string().unwrap().0;
        let tail = string.unescape_tail(bytes);
        prop_assert!(bytes < string.raw().len() || tail == text);
        // Within `\u0001` the rest stays as written. Otherwise the tail is that of the text.
        let inside_hex = tail.starts_with(['u', '0', '1']);
        prop_assert!(text.ends_with(&tail) || inside_hex, "{:?} {:?}", text, tail);
    }

    #[test]
    fn events_survive_any_cut(
        events in prop::collection::vec(("[a-z_]{0,9}", "[^\r]{1,60}"), 0..8),
        sizes in prop::collection::vec(1_usize..40, 1..8),
        comment in any::<bool>(),
    ) {
        let mut stream = Vec::new();
        for (event, data) in &events {
            write_event(&mut stream, event, data);
            if comment {
                stream.extend_from_slice(b": keep-alive\n\n");
            }
        }
        let mut found = decoded(&stream, &sizes);
        if comment {
            found.retain(|(event, data)| !event.is_empty() || !data.is_empty());
        }
        prop_assert_eq!(found, events);
    }

    #[test]
    fn splices_say_what_they_should(
        request in any_request(),
        pretty in any::<bool>(),
        line in "[a-zA-Z0-9 \"\\\\\n\u{e9}]{1,20}",
    ) {
        let body = if pretty { format!("{request:#}") } else { request.to_string() };
        let view = Request::from_body(Api::Anthropic, body.as_bytes()).unwrap();
        let mut splice = Splice::new();
        // The order in which edits are made does not matter.
        splice.append_messages(&view, &[r#"{"role":"user","content":"on"}"#]);
        for message in view.messages.list.iter().rev() {
            if let Content::Blocks { blocks, .. } = &message.content {
                for block in blocks {
                    splice.append_to_result(Api::Anthropic, block, &line);
                }
            }
            splice.append_to_message(Api::Anthropic, message, &line);
        }
        splice.set_max_tokens(&view, 5);
        splice.set_tool_choice(&view, r#"{"type":"none"}"#);
        let spliced = splice.apply(body.as_bytes()).unwrap();
        let read: Value = serde_json::from_slice(&spliced).unwrap();
        let before: Value = serde_json::from_str(&body).unwrap();
        prop_assert_eq!(read, edited(before, &line));
        kept_in_order(body.as_bytes(), &spliced)?;
    }
}

/// All edits but those of set members only insert: the body is a subsequence of the result, apart
/// from the values replaced. Checked where nothing is replaced.
fn kept_in_order(body: &[u8], spliced: &[u8]) -> Result<(), TestCaseError> {
    let text = std::str::from_utf8(body).unwrap();
    if text.contains("max_tokens") || text.contains("tool_choice") || text.contains("null") {
        return Ok(());
    }
    let mut rest = spliced.iter();
    prop_assert!(body.iter().all(|byte| rest.any(|other| other == byte)));
    Ok(())
}
