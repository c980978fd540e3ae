//! Tool definitions, forced choice, and calls with their results.

use serde_json::json;
use softland_sim::DEFAULT_MODEL;

use crate::rules::{NEW, OLD, assistant, call, check, hello, result, round, text, user, with};
use crate::support::{STRICT, tool};

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
