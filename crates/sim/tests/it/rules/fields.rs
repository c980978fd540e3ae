//! Top-level fields, the betas that enable some of them, and the models' limits on each.

use serde_json::json;

use crate::rules::{NEW, OLD, check, hello, text, with};
use crate::support::STRICT;

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
