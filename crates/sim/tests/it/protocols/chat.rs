//! Refusals of Chat Completions, as rows: a change to a good request, and the error for it.

use crate::protocols::apis::{Api, assistant, sim, user};
use crate::protocols::{check, with};
use serde_json::{Value, json};

const API: Api = Api::Chat;
const OLD: &str = "gpt-4o";
const NEW: &str = "gpt-5.2";
const DEEP: &str = "deepseek-v4-flash";
const CLAUDE: &str = "anthropic/claude-haiku-4.5";
const NEW_CLAUDE: &str = "anthropic/claude-opus-5.5";

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function",
        "function": {"name": "grep", "arguments": "{\"pattern\":\"x\"}"}})
}

fn calls(ids: &[&str]) -> Value {
    let list: Vec<Value> = ids.iter().map(|id| call(id)).collect();
    json!({"role": "assistant", "content": null, "tool_calls": list})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "a.md:1:x"})
}

fn body(model: &str, messages: Vec<Value>) -> Value {
    API.body(model, messages)
}

fn hello(model: &str) -> Value {
    body(model, vec![user("hello")])
}

#[test]
fn calls_and_results_belong_together() {
    let unanswered = "An assistant message with 'tool_calls' must be followed by tool messages \
                      responding to each 'tool_call_id'. The following tool_call_ids did not have \
                      response messages: ";
    let orphan = "messages with role 'tool' must be a response to a preceeding message with \
                  'tool_calls'.";
    let ask = || user("find it");
    for model in [OLD, NEW, CLAUDE, "glm-4.7", "grok-4.3"] {
        for (name, messages, status, said) in [
            ("answered", vec![ask(), calls(&["a"]), result("a")], 200, String::new()),
            ("both", vec![ask(), calls(&["a", "b"]), result("b"), result("a")], 200, String::new()),
            ("and a word", vec![ask(), calls(&["a"]), result("a"), ask()], 200, String::new()),
            ("unanswered", vec![ask(), calls(&["a"])], 400, format!("{unanswered}a")),
            ("half", vec![ask(), calls(&["a", "b"]), result("a")], 400, format!("{unanswered}b")),
            ("none", vec![ask(), calls(&["a", "b"]), ask()], 400, format!("{unanswered}a, b")),
            ("late", vec![ask(), calls(&["a"]), ask(), result("a")], 400, format!("{unanswered}a")),
            ("orphan", vec![ask(), result("a")], 400, orphan.to_owned()),
            ("other", vec![ask(), calls(&["a"]), result("b")], 400, orphan.to_owned()),
            ("twice", vec![ask(), calls(&["a"]), result("a"), result("a")], 400, orphan.to_owned()),
            (
                "behind an answer",
                vec![ask(), calls(&["a"]), result("a"), assistant("x"), result("a")],
                400,
                orphan.to_owned(),
            ),
            (
                "one id, two calls",
                vec![ask(), calls(&["a", "a"]), result("a")],
                400,
                "Duplicate value for 'tool_call_id' of 'a' in message[1]".to_owned(),
            ),
            (
                "an id again in a later round",
                vec![ask(), calls(&["a"]), result("a"), calls(&["a"]), result("a")],
                200,
                String::new(),
            ),
        ] {
            check(API, &format!("{model} {name}"), &body(model, messages), status, &said);
        }
    }
}

#[test]
fn tools_and_choices() {
    let none = |choice: Value| with(hello(OLD), json!({"tools": null, "tool_choice": choice}));
    let named = API.named("grep");
    let flat = json!({"type": "function", "name": "grep"});
    let allowed = |name: &str| {
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
            "tools": [{"type": "function", "function": {"name": name}}]}})
    };
    let choose = |choice: Value| with(hello(OLD), json!({"tool_choice": choice}));
    let bare = json!([{"type": "function", "name": "grep", "parameters": {}}]);
    let wrong = json!([{"type": "function", "function": {"name": "a b"}}]);
    let only = "'tool_choice' is only allowed when 'tools' are specified.";
    for (name, body, status, said) in [
        ("auto", choose("auto".into()), 200, ""),
        ("none", choose("none".into()), 200, ""),
        ("required", choose("required".into()), 200, ""),
        ("named", choose(named), 200, ""),
        ("allowed", choose(allowed("grep")), 200, ""),
        ("allowed, unknown", choose(allowed("nope")), 400, "Tool choice 'nope' not found"),
        ("unknown", choose(API.named("nope")), 400, "not found in 'tools' parameter."),
        (
            "in Responses' form",
            choose(flat),
            400,
            "Missing required parameter: 'tool_choice.function'.",
        ),
        ("a word", choose("sometimes".into()), 400, "Invalid value: 'sometimes'."),
        ("required, no tools", none("required".into()), 400, only),
        ("none, no tools", none("none".into()), 400, only),
        (
            "parallel, no tools",
            with(hello(OLD), json!({"tools": null, "parallel_tool_calls": false})),
            400,
            "'parallel_tool_calls' is only allowed when 'tools' are specified.",
        ),
        (
            "empty tools",
            with(hello(OLD), json!({"tools": []})),
            400,
            "Invalid 'tools': empty array.",
        ),
        (
            "tools in Responses' form",
            with(hello(OLD), json!({"tools": bare})),
            400,
            "'tools[0].function'",
        ),
        ("a name", with(hello(OLD), json!({"tools": wrong})), 400, "does not match pattern"),
        ("astra", hello("gpt-6-astra"), 400, "Please use /v1/responses instead."),
        ("astra without", with(hello("gpt-6-astra"), json!({"tools": null})), 200, ""),
        (
            "one at a time, o3-mini",
            with(hello("o3-mini"), json!({"parallel_tool_calls": false})),
            400,
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
        ),
    ] {
        check(API, name, &body, status, said);
    }
}

#[test]
fn forcing_is_refused_where_it_is() {
    let thinking = "Thinking mode does not support this tool_choice";
    let refused = "type \\\"tool\\\" and \\\"any\\\" are not supported for this model.";
    for (model, status, said) in [
        (OLD, 200, ""),
        (NEW, 200, ""),
        (DEEP, 400, thinking),
        ("deepseek-reasoner", 400, thinking),
        ("deepseek-chat", 200, ""),
        (CLAUDE, 200, ""),
        (NEW_CLAUDE, 400, refused),
        ("claude-opus-5-5", 400, "are not supported for this model."),
        ("glm-4.7", 400, "only \"auto\" and \"none\""),
    ] {
        for choice in [API.any(), API.named("grep")] {
            let forced = with(hello(model), json!({"tool_choice": choice}));
            check(API, model, &forced, status, said);
        }
        check(API, model, &with(hello(model), json!({"tool_choice": "none"})), 200, "");
    }
    let off = json!({"tool_choice": "required", "thinking": {"type": "disabled"}});
    check(API, "not thinking", &with(hello(DEEP), off), 200, "");
    // OpenRouter silently drops the request to reason.
    let both = json!({"tool_choice": "required", "reasoning": {"max_tokens": 2000}});
    let (status, reply) = API.json(&sim("thinker"), &with(hello(CLAUDE), both));
    assert_eq!(status, 200, "{reply}");
    assert!(reply["choices"][0]["message"]["reasoning"].is_null(), "{reply}");
}

#[test]
fn limits_and_parameters() {
    let set = |model: &str, changes: Value| with(hello(model), changes);
    for (name, body, status, said) in [
        ("old limit", set(OLD, json!({"max_tokens": 9})), 200, ""),
        ("new limit", set(OLD, json!({"max_completion_tokens": 9})), 200, ""),
        (
            "both",
            set(OLD, json!({"max_tokens": 9, "max_completion_tokens": 9})),
            400,
            "at the same time is not supported",
        ),
        (
            "old limit, reasoner",
            set(NEW, json!({"max_tokens": 9})),
            400,
            "Use 'max_completion_tokens' instead.",
        ),
        ("new limit, reasoner", set(NEW, json!({"max_completion_tokens": 9})), 200, ""),
        ("old limit elsewhere", set(DEEP, json!({"max_tokens": 9})), 200, ""),
        (
            "too large",
            set(OLD, json!({"max_tokens": 128_000})),
            400,
            "max_tokens is too large: 128000. This model supports at most 16384 completion tokens",
        ),
        ("none at all", set(OLD, json!({"max_tokens": 0})), 400, "Expected a value >= 1"),
        ("temperature", set(OLD, json!({"temperature": 0.2})), 200, ""),
        (
            "too hot",
            set(OLD, json!({"temperature": 2.5})),
            400,
            "Expected a value <= 2, but got 2.5",
        ),
        (
            "temperature, reasoner",
            set(NEW, json!({"temperature": 0})),
            400,
            "'temperature' does not support 0 with this model. Only the default (1) value",
        ),
        ("default, reasoner", set(NEW, json!({"temperature": 1})), 200, ""),
        (
            "temperature, reasoning off",
            set(NEW, json!({"temperature": 0, "reasoning_effort": "none"})),
            200,
            "",
        ),
        ("stop, reasoner", set(NEW, json!({"stop": "x"})), 400, "'stop' is not supported"),
        ("effort", set(NEW, json!({"reasoning_effort": "low"})), 200, ""),
        ("effort of none", set(OLD, json!({"reasoning_effort": "low"})), 400, "'reasoning_effort'"),
        (
            "unknown",
            set(OLD, json!({"cache_control": {}})),
            400,
            "Unknown parameter: 'cache_control'.",
        ),
        ("unknown elsewhere", set(DEEP, json!({"anything": {}})), 200, ""),
        ("choices", set(OLD, json!({"n": 2})), 400, "one choice"),
        (
            "options alone",
            set(OLD, json!({"stream_options": {"include_usage": true}})),
            400,
            "only allowed when 'stream' is enabled",
        ),
        (
            "cache, older",
            set(NEW, json!({"prompt_cache_options": {}})),
            400,
            "prompt_cache_options",
        ),
        ("cache", set("gpt-5.6", json!({"prompt_cache_options": {}})), 200, ""),
        (
            "no list",
            set(OLD, json!({"messages": "hi"})),
            400,
            "expected an array, but got a string",
        ),
        ("no messages", set(OLD, json!({"messages": []})), 400, "Invalid 'messages': empty array."),
        ("messages missing", set(OLD, json!({"messages": null})), 400, "parameter: 'messages'"),
    ] {
        check(API, name, &body, status, said);
    }
}

#[test]
fn contents() {
    let say = |role: &str, content: Value| json!({"role": role, "content": content});
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]);
    for (name, model, last, status, said) in [
        ("a text", OLD, say("user", "x".into()), 200, ""),
        ("parts", OLD, say("user", json!([{"type": "text", "text": "x"}])), 200, ""),
        ("an image", OLD, say("user", image.clone()), 200, ""),
        ("empty", OLD, say("user", "".into()), 200, ""),
        ("empty to a Claude", CLAUDE, say("user", "".into()), 400, "non-whitespace text"),
        ("blank to a Claude", CLAUDE, say("assistant", " \n".into()), 400, "non-whitespace text"),
        ("blank to another", OLD, say("assistant", " \n".into()), 200, ""),
        ("null", OLD, say("user", Value::Null), 400, "expected a string, got null."),
        ("silent", OLD, json!({"role": "assistant"}), 400, "expected a string, got null."),
        ("no parts", OLD, say("user", json!([])), 400, "empty array"),
        ("an image of a system", OLD, say("system", image), 400, "'image_url'"),
        ("developer", OLD, say("developer", "be brief".into()), 200, ""),
        ("no role", OLD, json!({"content": "x"}), 400, "messages[1].role"),
        ("a strange role", OLD, say("critic", "x".into()), 400, "Invalid value: 'critic'."),
        (
            "another vendor's field",
            OLD,
            json!({"role": "assistant", "content": "x", "reasoning_content": "hm"}),
            400,
            "Unknown parameter: 'messages[1].reasoning_content'.",
        ),
        (
            "no calls",
            OLD,
            json!({"role": "assistant", "content": "x", "tool_calls": []}),
            400,
            "Invalid 'messages[1].tool_calls': empty array.",
        ),
    ] {
        check(API, name, &body(model, vec![user("hello"), last]), status, said);
    }
    let ends = body(NEW_CLAUDE, vec![user("hello"), assistant("Well,")]);
    check(API, "prefill", &ends, 400, "does not support assistant message prefill");
    check(API, "prefill elsewhere", &body(OLD, vec![user("a"), assistant("b")]), 200, "");
}

#[test]
fn text_behind_results_silences_a_claude_and_nobody_else() {
    let messages = || vec![user("find"), calls(&["a"]), result("a"), user("Two calls left.")];
    for (model, silent) in [(CLAUDE, true), ("claude-haiku-4-5", true), (OLD, false), (DEEP, false)]
    {
        let off = json!({"thinking": {"type": "disabled"}});
        let body = with(body(model, messages()), if model == DEEP { off } else { json!({}) });
        let reply = API.ask(&sim("reader"), &body);
        let nothing = reply.text.is_empty() && reply.calls.is_empty();
        assert_eq!(nothing, silent, "{model}: {reply:?}");
    }
}
