//! Fields that real clients send and the documentation does not mention.

use crate::support::{STRICT, body, post, sim};
use serde_json::{Value, json};

/// Claude Code 2.1.330 sets the effort inside a system message under a beta of its own.
#[test]
fn a_system_message_may_set_the_effort_under_either_beta() {
    let question = json!([
        {"role": "user", "content": "Where are the beans?"},
        {"role": "system", "content": "You are in a folder.", "output_config": {"effort": "low"}},
    ]);
    for (betas, status) in [
        ("mid-conversation-output-config-2026-07-01", 200),
        ("claude-code-20250219,per-turn-control-2026-07-01", 200),
        ("claude-code-20250219", 400),
    ] {
        let answer =
            post(&sim("reader"), 0, "/v1/messages", betas, &body(STRICT, question.clone()));
        assert_eq!(answer.status, status, "{betas}");
        if status == 400 {
            let error: Value = serde_json::from_slice(&answer.collect_bytes().0).expect("an error");
            let message = &error["error"]["message"];
            assert_eq!(message, "messages.1.output_config: Extra inputs are not permitted");
        }
    }
}
