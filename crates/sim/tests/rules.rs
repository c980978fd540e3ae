//! Every rule as a row: a change to a good request, and what the provider says to it.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

mod support;

use serde_json::{Value, json};
use softland_sim::{DEFAULT_MODEL, Request};
use support::{STRICT, body, post, sim, tool};

const OLD: &str = "claude-sonnet-4-5";
const NEW: &str = "claude-opus-4-8";

/// A round of one call and its result.
fn round() -> Value {
    json!([
        {"role": "user", "content": "find it"},
        {"role": "assistant", "content": [call("toolu_1")]},
        {"role": "user", "content": [result("toolu_1")]},
    ])
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "grep", "input": {"pattern": "x"}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "a.md:1:x"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn system(content: &str) -> Value {
    json!({"role": "system", "content": content})
}

/// `said` empty: accepted.
#[track_caller]
fn check(name: &str, betas: &str, body: &Value, status: u16, said: &str) {
    let sim = sim("reader");
    let response = post(&sim, 0, "/v1/messages", betas, body);
    let (bytes, _) = response.collect();
    let reply: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let message = reply["error"]["message"].as_str().unwrap_or("");
    assert_eq!(response.status, status, "{name}: {message}");
    assert!(message.contains(said), "{name}: `{message}` has no `{said}`");
    assert_eq!(sim.refused(), u64::from(status != 200), "{name}");
    if status == 400 {
        assert_eq!(reply["error"]["type"], "invalid_request_error", "{name}");
        let count = post(&sim, 0, "/v1/messages/count_tokens", betas, &counted(body));
        let free = ["max_tokens", "temperature", "top_p", "top_k", "stop_sequences"];
        if !free.iter().any(|f| message.contains(f)) {
            assert_eq!(count.status, 400, "{name}: count_tokens accepts it");
        }
    }
}

fn counted(body: &Value) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().unwrap();
    for key in
        ["max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream", "metadata"]
    {
        fields.remove(key);
    }
    body
}

fn with(model: &str, messages: Value, changes: Value) -> Value {
    let mut body = body(model, messages);
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
            value => body[key] = value.clone(),
        }
    }
    body
}

fn hello() -> Value {
    json!([user(json!("hello"))])
}

#[test]
fn top_level_fields() {
    for (name, model, changes, said) in [
        ("plain", OLD, json!({}), ""),
        ("no tools", OLD, json!({"tools": null}), ""),
        ("unknown field", OLD, json!({"foo": 1}), "foo: Extra inputs are not permitted"),
        ("no max_tokens", OLD, json!({"max_tokens": null}), "max_tokens: Field required"),
        (
            "max_tokens too large",
            OLD,
            json!({"max_tokens": 64_001}),
            "max_tokens: 64001 > 64000, which is the maximum",
        ),
        ("max_tokens largest", OLD, json!({"max_tokens": 64_000}), ""),
        ("max_tokens text", OLD, json!({"max_tokens": "9"}), "max_tokens: Input should be"),
        ("prewarming", OLD, json!({"max_tokens": 0}), ""),
        ("prewarming streamed", OLD, json!({"max_tokens": 0, "stream": true}), "max_tokens: 0"),
        ("no messages", OLD, json!({"messages": null}), "messages: Field required"),
        ("empty messages", OLD, json!({"messages": []}), "messages: at least one message"),
        ("messages text", OLD, json!({"messages": "x"}), "messages: Input should be"),
        ("cold", OLD, json!({"temperature": 0.0}), ""),
        ("too hot", OLD, json!({"temperature": -5.0}), "temperature: range: 0..1"),
        ("no temperature here", STRICT, json!({"temperature": 0.5}), "temperature"),
        ("default temperature", STRICT, json!({"temperature": 1.0}), ""),
        ("top_k here", STRICT, json!({"top_k": 5}), "top_k"),
        (
            "beta without header",
            OLD,
            json!({"context_management": {"edits": []}}),
            "context_management: Extra",
        ),
        ("blank stop sequence", OLD, json!({"stop_sequences": [" "]}), "stop_sequences"),
        ("effort", NEW, json!({"output_config": {"effort": "xhigh"}}), ""),
        (
            "effort not here",
            OLD,
            json!({"output_config": {"effort": "low"}}),
            "does not support the effort",
        ),
        (
            "effort not known",
            "claude-opus-4-6",
            json!({"output_config": {"effort": "xhigh"}}),
            "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
        ),
        ("system blocks", OLD, json!({"system": [text("be brief")]}), ""),
        (
            "empty system block",
            OLD,
            json!({"system": [text("")]}),
            "system: text content blocks must be non-empty",
        ),
    ] {
        check(
            name,
            "",
            &with(model, hello(), changes),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}

#[test]
fn betas_open_their_fields() {
    let budget =
        |total: u64| json!({"output_config": {"task_budget": {"type": "tokens", "total": total}}});
    let beta = "task-budgets-2026-03-13";
    for (name, model, betas, changes, said) in [
        (
            "context management",
            OLD,
            "a, context-management-2025-06-27",
            json!({"context_management": {}}),
            "",
        ),
        ("task budget", NEW, beta, budget(20_000), ""),
        ("small task budget", NEW, beta, budget(19_999), "greater than or equal to 20000"),
        ("task budget without header", NEW, "", budget(20_000), "task_budget: Extra"),
        (
            "task budget not here",
            "claude-sonnet-5",
            beta,
            budget(20_000),
            "task_budget is not supported",
        ),
        (
            "thread",
            OLD,
            "message-threads-2026-08-12",
            json!({"thread": {"type": "create"}}),
            "thread",
        ),
        (
            "block binding",
            STRICT,
            "",
            json!({"thinking": {"type": "adaptive", "block_binding": {}}}),
            "thinking.block_binding: Extra",
        ),
    ] {
        check(
            name,
            betas,
            &with(model, hello(), changes),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}

#[test]
fn tools_and_tool_choice() {
    let forced = "tool_choice: type \"tool\" and \"any\" are not supported for this model.";
    let on = json!({"type": "enabled", "budget_tokens": 1024});
    for (name, model, changes, said) in [
        ("any", OLD, json!({"tool_choice": {"type": "any"}}), ""),
        ("named", NEW, json!({"tool_choice": {"type": "tool", "name": "grep"}}), ""),
        (
            "any, adaptive",
            "claude-opus-4-6",
            json!({"tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}}),
            "",
        ),
        (
            "any, enabled",
            OLD,
            json!({"tool_choice": {"type": "any"}, "thinking": on}),
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        ("any on Opus 5.5", STRICT, json!({"tool_choice": {"type": "any"}}), forced),
        (
            "named on Sonnet 5.5",
            DEFAULT_MODEL,
            json!({"tool_choice": {"type": "tool", "name": "grep"}}),
            forced,
        ),
        ("any on Fable 5.1", "claude-fable-5-1", json!({"tool_choice": {"type": "any"}}), forced),
        ("none", STRICT, json!({"tool_choice": {"type": "none"}}), ""),
        (
            "none without tools",
            OLD,
            json!({"tool_choice": {"type": "none"}, "tools": null}),
            "while providing tools",
        ),
        ("unknown choice", OLD, json!({"tool_choice": {"type": "required"}}), "'required'"),
        (
            "unknown name",
            OLD,
            json!({"tool_choice": {"type": "tool", "name": "nope"}}),
            "Tool 'nope' not found in provided tools",
        ),
        (
            "same name twice",
            OLD,
            json!({"tools": [tool("a", &["x"]), tool("a", &["y"])]}),
            "tools: Tool names must be unique.",
        ),
        (
            "bad name",
            OLD,
            json!({"tools": [tool("a b", &["x"])]}),
            "tools.0.custom.name: String should match pattern",
        ),
        (
            "no schema",
            OLD,
            json!({"tools": [{"name": "a"}]}),
            "tools.0.custom.input_schema: Field required",
        ),
        (
            "unknown tool field",
            OLD,
            json!({"tools": [{"name": "a", "input_schema": {"type": "object"}, "color": 1}]}),
            "tools.0.custom.color: Extra",
        ),
        (
            "server tool",
            OLD,
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
            "",
        ),
        (
            "unknown tool type",
            OLD,
            json!({"tools": [{"type": "psychic_2026", "name": "p"}]}),
            "psychic_2026",
        ),
    ] {
        check(
            name,
            "",
            &with(model, hello(), changes),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}

#[test]
fn thinking_modes() {
    let on = json!({"type": "enabled", "budget_tokens": 1024});
    for (name, model, thinking, said) in [
        ("enabled", OLD, on.clone(), ""),
        (
            "budget too small",
            OLD,
            json!({"type": "enabled", "budget_tokens": 1}),
            "greater than or equal to 1024",
        ),
        (
            "budget too large",
            OLD,
            json!({"type": "enabled", "budget_tokens": 4096}),
            "`max_tokens` must be greater than",
        ),
        (
            "adaptive not here",
            OLD,
            json!({"type": "adaptive"}),
            "\"thinking.type.adaptive\" is not supported",
        ),
        (
            "enabled no more",
            NEW,
            on.clone(),
            "\"thinking.type.enabled\" is not supported for this model",
        ),
        ("disabled", NEW, json!({"type": "disabled"}), ""),
        (
            "disabled no more",
            STRICT,
            json!({"type": "disabled"}),
            "\"thinking.type.disabled\" is not supported",
        ),
        (
            "disabled on Fable 5",
            "claude-fable-5",
            json!({"type": "disabled"}),
            "\"thinking.type.disabled\"",
        ),
        ("between tools", DEFAULT_MODEL, json!({"type": "between_tools"}), ""),
        ("between tools not here", STRICT, json!({"type": "between_tools"}), "between_tools"),
        ("unknown", OLD, json!({"type": "hard"}), "'hard'"),
        ("display", STRICT, json!({"type": "adaptive", "display": "summarized"}), ""),
        (
            "display unknown",
            STRICT,
            json!({"type": "adaptive", "display": "loud"}),
            "thinking.display",
        ),
    ] {
        let body = with(model, hello(), json!({"thinking": thinking}));
        check(name, "", &body, if said.is_empty() { 200 } else { 400 }, said);
    }
    let loops = with(OLD, round(), json!({"thinking": on}));
    check(
        "loop without thinking",
        "",
        &loops,
        400,
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    );
}

#[test]
fn results_answer_calls() {
    let missing =
        "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.";
    let opening = || user(json!("find it"));
    let called = || assistant(json!([call("toolu_1")]));
    for (name, messages, said) in [
        ("answered", round(), ""),
        ("first", json!([called(), user(json!([result("toolu_1")]))]), ""),
        ("missing", json!([opening(), called(), user(json!("well?"))]), missing),
        ("at the end", json!([opening(), called()]), missing),
        (
            "after text",
            json!([opening(), called(), user(json!([text("so"), result("toolu_1")]))]),
            missing,
        ),
        (
            "text after",
            json!([opening(), called(), user(json!([result("toolu_1"), text("so")]))]),
            "",
        ),
        (
            "in two messages",
            json!([
                opening(),
                assistant(json!([call("toolu_1"), call("toolu_2")])),
                user(json!([result("toolu_1")])),
                user(json!([result("toolu_2")]))
            ]),
            "",
        ),
        (
            "one of two",
            json!([
                opening(),
                assistant(json!([call("toolu_2"), call("toolu_1")])),
                user(json!([result("toolu_2")]))
            ]),
            missing,
        ),
        (
            "orphan",
            json!([user(json!([result("toolu_9")]))]),
            "unexpected `tool_use_id` found in `tool_result` blocks: toolu_9",
        ),
        (
            "of another turn",
            json!([
                opening(),
                called(),
                user(json!([result("toolu_1")])),
                assistant(json!("ok")),
                user(json!([result("toolu_1")]))
            ]),
            "unexpected `tool_use_id`",
        ),
        (
            "twice",
            json!([opening(), called(), user(json!([result("toolu_1"), result("toolu_1")]))]),
            "each tool_use must have a single result",
        ),
        (
            "same id twice",
            json!([
                opening(),
                assistant(json!([call("toolu_1"), call("toolu_1")])),
                user(json!([result("toolu_1")]))
            ]),
            "`tool_use` ids must be unique",
        ),
        (
            "input text",
            json!([
                opening(),
                assistant(json!([{"type": "tool_use", "id": "a", "name": "grep", "input": "{}"}]))
            ]),
            "tool_use.input: Input should be a valid dictionary",
        ),
        (
            "bad id",
            json!([
                opening(),
                assistant(json!([{"type": "tool_use", "id": "a b", "name": "grep", "input": {}}]))
            ]),
            "tool_use.id: String should match pattern",
        ),
        (
            "result by the assistant",
            json!([opening(), assistant(json!([result("toolu_1")]))]),
            "`tool_result` blocks can only be in `user` messages",
        ),
        (
            "call by the user",
            json!([user(json!([call("toolu_1")]))]),
            "`tool_use` blocks can only be in `assistant` messages",
        ),
        (
            "server tool left open",
            json!([
                opening(),
                assistant(json!([{"type": "server_tool_use", "id": "srvtoolu_1",
            "name": "web_search", "input": {}}])),
                user(json!("go on"))
            ]),
            "`web_search` tool use with id `srvtoolu_1` was found without",
        ),
    ] {
        check(
            name,
            "",
            &with(NEW, messages, json!({})),
            if said.is_empty() { 200 } else { 400 },
            said,
        );
    }
}

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

#[test]
fn models_keys_routes_and_sizes() {
    check("unlisted", "", &body("claude-nonexistent", hello()), 404, "model: claude-nonexistent");
    check("posed", "", &body("sim/reader@claude-opus-5-5", hello()), 200, "");
    check("posed by default", "", &body("looper", hello()), 200, "");
    check("posed as unlisted", "", &body("reader@gpt-9", hello()), 404, "model: gpt-9");
    check("unknown scenario", "", &body("sim/nope", hello()), 404, "there are: reader");
    let sim = sim("reader");
    let good = serde_json::to_vec(&body(OLD, hello())).unwrap();
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let version = pair("Anthropic-Version", "2023-06-01");
    for (name, method, path, headers, body, status, kind) in [
        (
            "key",
            "POST",
            "/v1/messages?beta=true",
            vec![pair("X-Api-Key", "k"), version.clone()],
            &good[..],
            200,
            "",
        ),
        (
            "bearer",
            "POST",
            "/v1/messages",
            vec![pair("Authorization", "Bearer k"), version.clone()],
            &good,
            200,
            "",
        ),
        (
            "no key",
            "POST",
            "/v1/messages",
            vec![version.clone()],
            &good,
            401,
            "authentication_error",
        ),
        (
            "bad key",
            "POST",
            "/v1/messages",
            vec![pair("x-api-key", "invalid"), version.clone()],
            &good,
            401,
            "authentication_error",
        ),
        (
            "no version",
            "POST",
            "/v1/messages",
            vec![pair("x-api-key", "k")],
            &good,
            400,
            "invalid_request_error",
        ),
        (
            "no JSON",
            "POST",
            "/v1/messages",
            vec![pair("x-api-key", "k"), version.clone()],
            b"{",
            400,
            "invalid_request_error",
        ),
        (
            "no object",
            "POST",
            "/v1/messages",
            vec![pair("x-api-key", "k"), version.clone()],
            b"[]",
            400,
            "invalid_request_error",
        ),
        ("models", "GET", "/v1/models", vec![pair("x-api-key", "k")], b"", 200, ""),
        (
            "elsewhere",
            "POST",
            "/v1/chat/completions",
            vec![pair("x-api-key", "k")],
            b"{}",
            404,
            "not_found_error",
        ),
    ] {
        let response = sim.respond(0, &Request { method, path, headers: &headers, body });
        let reply: Value = serde_json::from_slice(&response.collect().0).unwrap();
        assert_eq!(response.status, status, "{name}: {reply}");
        assert_eq!(reply["error"]["type"].as_str().unwrap_or(""), kind, "{name}");
        assert!(response.header("request-id").is_some());
    }
    let huge = vec![b' '; softland_sim::MAX_BODY + 1];
    let headers = [pair("x-api-key", "k"), version];
    let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body: &huge };
    assert_eq!(sim.respond(0, &request).status, 413);
}

#[test]
fn a_prompt_that_is_too_long_is_refused_and_one_that_just_fits_is_cut() {
    let config = softland_sim::Config {
        context_window: Some(500),
        ..softland_sim::Config::new(softland_sim::Scenario::named("echo").unwrap())
    };
    let sim = softland_sim::Sim::new(config);
    let said = |n: usize| json!({"model": OLD, "max_tokens": 4096, "messages": [user(json!("x".repeat(n)))]});
    let (status, reply) = support::ask(&sim, &said(4000));
    assert_eq!(status, 400);
    let message = reply["error"]["message"].as_str().unwrap();
    assert_eq!(message, "prompt is too long: 1003 tokens > 500 maximum");
    let (status, reply) = support::ask(&sim, &said(1950));
    assert_eq!((status, &reply["stop_reason"]), (200, &json!("model_context_window_exceeded")));
}

#[test]
fn an_alias_has_the_rules_of_the_model_it_stands_for() {
    let config = softland_sim::Config {
        aliases: vec![("brand-new-1".into(), STRICT.into())],
        ..softland_sim::Config::new(softland_sim::Scenario::named("reader").unwrap())
    };
    let sim = softland_sim::Sim::new(config);
    let (status, reply) = support::ask(&sim, &body("brand-new-1", hello()));
    assert_eq!((status, &reply["model"]), (200, &json!("brand-new-1")));
    let forced = with("brand-new-1", hello(), json!({"tool_choice": {"type": "any"}}));
    assert_eq!(support::ask(&sim, &forced).0, 400);
    assert_eq!(support::ask(&sim, &body("brand-new-2", hello())).0, 404);
}
