//! Thinking modes by model, and their requirements within a tool loop.

use serde_json::json;
use softland_sim::DEFAULT_MODEL;

use crate::rules::{NEW, OLD, check, hello, round, with};
use crate::support::STRICT;

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
