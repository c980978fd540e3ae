//! Roles, the blocks of messages, and marks for the cache.

use serde_json::{Value, json};

use crate::rules::{NEW, OLD, assistant, call, check, hello, round, system, text, user, with};

#[test]
fn contents_and_roles() {
    let one = |content: Value| json!([user(content)]);
    for (name, model, messages, said) in [
        ("same role twice", OLD, json!([user(json!("a")), user(json!("b"))]), ""),
        ("assistant first", OLD, json!([assistant(json!("a")), user(json!("b"))]), ""),
        (
            "empty text",
            OLD,
            one(json!([text("")])),
            "messages: text content blocks must be non-empty",
        ),
        (
            "blank text",
            OLD,
            one(json!([text(" \n")])),
            "messages: text content blocks must contain non-whitespace text",
        ),
        ("blank string", OLD, one(json!("  ")), "non-whitespace"),
        ("empty string", OLD, one(json!("")), "must have non-empty content"),
        ("empty list", OLD, one(json!([])), "must have non-empty content"),
        (
            "blank assistant text",
            OLD,
            json!([user(json!("a")), assistant(json!([text("\n")])), user(json!("b"))]),
            "non-whitespace",
        ),
        ("unknown block", OLD, one(json!([{"type": "smell"}])), "Input tag 'smell'"),
        (
            "unknown block field",
            OLD,
            one(json!([{"type": "text", "text": "a", "x": 1}])),
            "messages.0.content.0.text.x: Extra",
        ),
        (
            "unknown message field",
            OLD,
            json!([{"role": "user", "content": "a", "id": 1}]),
            "messages.0.id: Extra",
        ),
        ("unknown role", OLD, json!([{"role": "tool", "content": "a"}]), "messages.0.role"),
        ("prefill", OLD, json!([user(json!("a")), assistant(json!("The"))]), ""),
        (
            "prefill with blank",
            OLD,
            json!([user(json!("a")), assistant(json!("The "))]),
            "trailing whitespace",
        ),
        (
            "prefill no more",
            NEW,
            json!([user(json!("a")), assistant(json!("The"))]),
            "does not support assistant message prefill",
        ),
        (
            "empty text in a result",
            OLD,
            json!([
                user(json!("a")),
                assistant(json!([call("toolu_1")])),
                user(
                    json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("")]}])
                )
            ]),
            "non-empty",
        ),
        ("system in the middle", NEW, json!([user(json!("a")), system("b")]), ""),
        (
            "system, then answer",
            NEW,
            json!([user(json!("a")), system("b"), assistant(json!("c")), user(json!("d"))]),
            "",
        ),
        (
            "system first",
            NEW,
            json!([system("a"), user(json!("b"))]),
            "a `system` message must follow",
        ),
        (
            "system before user",
            NEW,
            json!([user(json!("a")), system("b"), user(json!("c"))]),
            "a `system` message must follow",
        ),
        (
            "system after assistant",
            NEW,
            json!([user(json!("a")), assistant(json!("b")), system("c")]),
            "a `system` message must follow",
        ),
        (
            "system not here",
            "claude-sonnet-5",
            json!([user(json!("a")), system("b")]),
            "role 'system' is not supported on this model",
        ),
        (
            "clear_at without header",
            NEW,
            json!([user(json!("a")),
            {"role": "system", "content": "b", "clear_at": "next_user_message"}]),
            "messages.1.clear_at: Extra",
        ),
    ] {
        check(
            name,
            "",
            &with(model, messages, json!({})),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}

#[test]
fn cache_marks() {
    let marked = |text: &str, ttl: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}});
    let list = |n: usize| json!([user(Value::Array(vec![marked("a", "5m"); n]))]);
    let mut thought = round();
    thought[1]["content"] = json!([{"type": "thinking", "thinking": "", "signature": "s",
        "cache_control": {"type": "ephemeral"}}, call("toolu_1")]);
    let automatic = json!({"cache_control": {"type": "ephemeral"}});
    for (name, messages, changes, said) in [
        ("four", list(4), json!({}), ""),
        (
            "five",
            list(5),
            json!({}),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        ("automatic alone", hello(), automatic.clone(), ""),
        (
            "three and automatic",
            json!([user(Value::Array([vec![marked("a", "5m"); 3], vec![text("b")]].concat()))]),
            automatic.clone(),
            "",
        ),
        ("four and automatic", list(4), automatic, "free cache_control slot"),
        (
            "hour after minutes",
            json!([user(json!([marked("a", "5m"), marked("b", "1h")]))]),
            json!({}),
            "ttl='1h' cache_control block must not come after",
        ),
        (
            "minutes after hour",
            json!([user(json!([marked("a", "1h"), marked("b", "5m")]))]),
            json!({}),
            "",
        ),
        (
            "odd ttl",
            json!([user(json!([marked("a", "2h")]))]),
            json!({}),
            "ttl: Input should be '5m' or '1h'",
        ),
        (
            "on empty text",
            json!([user(json!([marked("", "5m")]))]),
            json!({}),
            "cache_control cannot be set for empty text blocks",
        ),
        ("on thinking", thought, json!({}), "thinking.cache_control: Extra"),
    ] {
        check(
            name,
            "",
            &with(OLD, messages, changes),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}
