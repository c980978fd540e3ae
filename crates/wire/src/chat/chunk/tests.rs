//! Chunks, tested member by member.

use super::*;

fn chunk(data: &str) -> Chunk<'_> {
    match Event::from_data("", data).unwrap() {
        Event::Chunk(chunk) => chunk,
        Event::Done => panic!("{data}"),
    }
}

#[test]
fn done_is_done_with_any_space_around_it() {
    for data in ["[DONE]", " [DONE]", "[DONE]\n"] {
        assert_eq!(Event::from_data("", data).unwrap(), Event::Done);
    }
    assert!(Event::from_data("", "[done]").is_err());
    assert!(Event::from_data("", "").is_err());
    assert!(Event::from_data("error", "boom").is_err());
}

#[test]
fn a_chunk_is_read_in_any_order_of_keys() {
    let chunk = chunk(
        r#"{"usage":null,"choices":[{"finish_reason":null,"delta":{"tool_calls":[{"function":{"arguments":"{","name":"f"},"id":"c","type":"function","index":3}],"content":null,"role":"assistant","refusal":"r","reasoning":"a","reasoning_content":"b","reasoning_details":[{"x":1}],"annotations":[1],"audio":null},"index":0,"native_finish_reason":"end_turn"}],"model":"m","created":5,"id":"i","obfuscation":"zz","object":"chat.completion.chunk"}"#,
    );
    assert_eq!((chunk.id, chunk.created), (Str::from_plain("i").unwrap(), Some(5)));
    assert!(chunk.usage.is_none() && chunk.error.is_none());
    let choice = &chunk.choices[0];
    assert_eq!(choice.finish_reason, None);
    assert_eq!(choice.native_finish_reason.unwrap(), "end_turn");
    let delta = &choice.delta;
    assert_eq!((delta.role.unwrap(), delta.content), (Str::from_plain("assistant").unwrap(), None));
    assert_eq!(delta.refusal.unwrap(), "r");
    assert_eq!(delta.reasoning.unwrap(), "a");
    assert_eq!(delta.reasoning_content.unwrap(), "b");
    assert_eq!(delta.reasoning_details, Some(r#"[{"x":1}]"#));
    assert_eq!(delta.extra, [(Str::from_plain("annotations").unwrap(), "[1]")]);
    let call = &delta.tool_calls[0];
    assert_eq!((call.index, call.custom), (Some(3), false));
    assert_eq!(
        (call.id.unwrap(), call.name.unwrap()),
        (Str::from_plain("c").unwrap(), Str::from_plain("f").unwrap())
    );
    assert_eq!(call.arguments.unwrap(), "{");
}

#[test]
fn what_is_empty_is_absent_and_null_is_too() {
    let chunk = chunk(
        r#"{"choices":[{"delta":{"content":"","role":null,"tool_calls":[{"id":"","function":{"name":"","arguments":""}},{"id":"null","index":null,"function":null}]},"finish_reason":""}]}"#,
    );
    let choice = &chunk.choices[0];
    assert_eq!((choice.index, choice.finish_reason), (0, None));
    assert!(choice.delta.content.unwrap().is_empty());
    let [first, second] = &choice.delta.tool_calls[..] else { panic!("{choice:?}") };
    assert_eq!((first.id, first.name, first.index), (None, None, None));
    assert!(first.arguments.unwrap().is_empty());
    assert_eq!((second.id, second.arguments), (None, None));
}

#[test]
fn usage_is_found_where_vendors_put_it() {
    for data in [
        r#"{"choices":[],"usage":{"prompt_tokens":3}}"#,
        r#"{"choices":[{"delta":{}}],"x_groq":{"id":"r","usage":{"prompt_tokens":3}}}"#,
        r#"{"choices":[{"delta":{},"usage":{"prompt_tokens":3}}]}"#,
        r#"{"x_groq":{"usage":{"prompt_tokens":9}},"usage":{"prompt_tokens":3},"choices":[]}"#,
        r#"{"usage":{"prompt_tokens":3},"choices":[{"usage":{"prompt_tokens":9}}]}"#,
        r#"{"usage":{"prompt_tokens":3},"x_groq":{"usage":{"prompt_tokens":9}},"choices":[]}"#,
    ] {
        assert_eq!(chunk(data).usage.unwrap().tokens.input, 3, "{data}");
    }
    assert_eq!(chunk(r#"{"choices":null,"usage":null,"x_groq":null}"#), Chunk::default());
}

#[test]
fn errors_are_found_where_vendors_put_them() {
    for data in [
        r#"{"error":{"message":"m"}}"#,
        r#"{"error":"m","choices":[]}"#,
        r#"{"choices":[{"index":0,"error":{"message":"m"},"message":{}}]}"#,
        r#"{"object":"error","message":"m"}"#,
    ] {
        assert_eq!(chunk(data).error.unwrap().message, "m", "{data}");
    }
    assert!(chunk(r#"{"error":null,"choices":[]}"#).error.is_none());
}

#[test]
fn parts_and_objects_stand_where_texts_do_elsewhere() {
    let chunk = chunk(
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}],"tool_calls":[{"type":"custom","custom":{"name":"n","input":"i"}},{"function":{"name":"n","arguments":{"a":1}},"extra_content":{"google":{}}}],"function_call":{"name":"old","arguments":"{}"}}}]}"#,
    );
    let delta = &chunk.choices[0].delta;
    assert_eq!(delta.parts, Some(r#"[{"type":"text","text":"a"}]"#));
    assert_eq!(delta.content, None);
    assert!(delta.tool_calls[0].custom);
    assert_eq!(delta.tool_calls[0].arguments.unwrap(), "i");
    assert_eq!(delta.tool_calls[1].object, Some(r#"{"a":1}"#));
    assert_eq!(delta.tool_calls[1].extra[0].1, r#"{"google":{}}"#);
    assert_eq!(delta.function_call.as_ref().unwrap().name.unwrap(), "old");
}
