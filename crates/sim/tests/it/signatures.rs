//! Issued thinking comes back unchanged or is refused, bound to its prefix or not.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use crate::support::{STRICT, ask, body, post};
use proptest::prelude::*;
use serde_json::{Value, json};
use softland_sim::{Binding, Config, Part, Scenario, Sim, Turn};

fn scripted(turns: Vec<Turn>, binding: Binding) -> Sim {
    Sim::new(Config { binding, ..Config::new(Scenario::Scripted(turns)) })
}

fn thought(n: usize) -> Turn {
    Turn::from_parts(vec![
        Part::Thinking(format!("first thought of {n}")),
        Part::tool_call("grep", format!("{{\"pattern\":\"a{n}\"}}")),
        Part::Thinking(format!("second thought of {n}")),
        Part::tool_call("grep", format!("{{\"pattern\":\"b{n}\"}}")),
    ])
}

/// Three rounds with two thinking blocks each; the last round has no results yet.
fn loop_of(sim: &Sim, model: &str) -> Value {
    let mut body = body(model, json!([{"role": "user", "content": "find it"}]));
    body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
    for _ in 0..3 {
        let (status, reply) = ask(sim, &body);
        assert_eq!(status, 200, "{reply}");
        let calls = reply["content"].as_array().unwrap().iter().filter(|b| b["type"] == "tool_use");
        let results: Vec<Value> = calls
            .map(|c| json!({"type": "tool_result", "tool_use_id": c["id"], "content": "a.md:1:x"}))
            .collect();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": reply["content"]}));
        messages.push(json!({"role": "user", "content": results}));
    }
    body
}

fn refusal(sim: &Sim, body: &Value) -> String {
    let (status, reply) = ask(sim, body);
    assert!(status == 200 || status == 400, "{reply}");
    reply["error"]["message"].as_str().unwrap_or("").to_owned()
}

const MODIFIED: &str = "blocks in the latest assistant message cannot be modified";
const INVALID: &str = "Invalid `signature` in `thinking` block";
const REBOUND: &str = "The block is bound to a different conversation";

type Change = fn(&mut Value);

/// A change to a good request, and the refusals of it unbound and bound.
const CHANGES: &[(&str, Change, &str, &str)] = &[
    ("nothing", |_| (), "", ""),
    (
        "moved mark",
        |b| b["messages"][4]["content"][0]["cache_control"] = json!({"type": "ephemeral"}),
        "",
        "",
    ),
    (
        "string as list",
        |b| b["messages"][0]["content"] = json!([{"type": "text", "text": "find it"}]),
        "",
        "",
    ),
    ("other effort", |b| b["output_config"] = json!({"effort": "low"}), "", ""),
    ("no tools wanted", |b| b["tool_choice"] = json!({"type": "none"}), "", ""),
    (
        "edited latest",
        |b| b["messages"][5]["content"][0]["thinking"] = "other".into(),
        MODIFIED,
        MODIFIED,
    ),
    (
        "edited earlier",
        |b| b["messages"][1]["content"][0]["thinking"] = "other".into(),
        INVALID,
        INVALID,
    ),
    ("forged", |b| b["messages"][5]["content"][0]["signature"] = "abc".into(), INVALID, INVALID),
    (
        "reordered latest",
        |b| b["messages"][5]["content"].as_array_mut().unwrap().swap(0, 2),
        MODIFIED,
        REBOUND,
    ),
    (
        "one of latest left out",
        |b| drop(b["messages"][5]["content"].as_array_mut().unwrap().remove(2)),
        MODIFIED,
        MODIFIED,
    ),
    ("all of latest left out", |b| drop_thinking(b, 5), MODIFIED, MODIFIED),
    ("leading run left out", |b| drop_thinking(b, 1), "", ""),
    ("hole in the middle", |b| drop_thinking(b, 3), "", REBOUND),
    ("edited result", |b| b["messages"][2]["content"][0]["content"] = "other".into(), "", REBOUND),
    ("edited question", |b| b["messages"][0]["content"] = "other".into(), "", REBOUND),
    ("other system", |b| b["system"] = "be brief".into(), "", REBOUND),
    (
        "tool added",
        |b| b["tools"].as_array_mut().unwrap().push(support::tool("more", &["x"])),
        "",
        REBOUND,
    ),
    ("other model", |b| b["model"] = "claude-opus-5".into(), "", ""),
];

fn drop_thinking(body: &mut Value, message: usize) {
    let content = body["messages"][message]["content"].as_array_mut().unwrap();
    content.retain(|b| b["type"] != "thinking");
}

#[test]
fn changes_are_refused_as_the_binding_says() {
    for (binding, which) in [(Binding::Never, 0), (Binding::ByModel, 1), (Binding::Always, 1)] {
        let sim = scripted((0..4).map(thought).collect(), binding);
        let good = loop_of(&sim, STRICT);
        for (name, change, unbound, bound) in CHANGES {
            let mut body = good.clone();
            change(&mut body);
            let wanted = [*unbound, *bound][which];
            let said = refusal(&sim, &body);
            assert_eq!(said.is_empty(), wanted.is_empty(), "{name}, {binding:?}: `{said}`");
            assert!(said.contains(wanted), "{name}, {binding:?}: `{said}`");
        }
    }
}

#[test]
fn the_escape_drops_what_does_not_match_and_says_so() {
    let sim = scripted((0..5).map(thought).collect(), Binding::ByModel);
    let mut body = loop_of(&sim, STRICT);
    body["system"] = "be brief".into();
    body["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    let beta = "thinking-binding-controls-2026-08-01";
    let response = post(&sim, 0, "/v1/messages", beta, &body);
    let reply: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
    let dropped = reply["input_transformations"].as_array().unwrap();
    assert_eq!(dropped.len(), 6, "{reply}");
    assert_eq!(dropped[0]["path"], "messages.1.content.0");
    assert_eq!(dropped[0]["reason"], "prefix_binding_mismatch");
}

#[test]
fn thinking_may_be_turned_off_within_a_loop() {
    let sim = scripted((0..4).map(thought).collect(), Binding::ByModel);
    let mut body = loop_of(&sim, "claude-opus-4-8");
    assert_eq!(refusal(&sim, &body), "");
    body["thinking"] = json!({"type": "disabled"});
    assert_eq!(refusal(&sim, &body), "");
}

#[test]
fn foreign_signatures_are_taken_only_when_asked_and_own_ones_are_checked_all_the_same() {
    let body = |thinking: &str, signature: &str| {
        json!({"model": "claude-sonnet-4-5", "max_tokens": 9000, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": thinking, "signature": signature},
                {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}]})
    };
    let strict = scripted(Vec::new(), Binding::ByModel);
    let open = Sim::new(Config {
        accept_foreign_signatures: true,
        ..Config::new(Scenario::Scripted(Vec::new()))
    });
    assert!(refusal(&strict, &body("x", "foreign")).contains(INVALID));
    assert_eq!(refusal(&open, &body("x", "foreign")), "");
    let own = "sim1.claude-sonnet-4-5.1.0.1.0.0000000000000001.0000000000000000";
    assert!(refusal(&open, &body("x", own)).contains(INVALID));
}

#[test]
fn with_enabled_thinking_a_loop_that_calls_begins_with_it() {
    let sim = scripted(vec![Turn::from_call("grep", "{\"pattern\":\"x\"}")], Binding::ByModel);
    let mut body = body("claude-sonnet-4-5", json!([{"role": "user", "content": "find it"}]));
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    let (_, reply) = ask(&sim, &body);
    assert_eq!(reply["content"][0]["type"], "thinking", "{reply}");
}

proptest! {
    /// An honest client that returns every response whole is never refused.
    #[test]
    fn an_honest_client_is_never_refused(
        turns in prop::collection::vec(parts(), 1..6),
        steering in prop::collection::vec(any::<bool>(), 6),
        mode in 0..3_u8,
    ) {
        let turns = turns.into_iter().map(Turn::from_parts).collect();
        let binding = if mode == 2 { Binding::Never } else { Binding::Always };
        let sim = scripted(turns, binding);
        let (model, thinking) = match mode {
            0 => ("claude-sonnet-4-6", json!({"type": "enabled", "budget_tokens": 1024})),
            _ => ("claude-opus-5-5", json!({"type": "adaptive"})),
        };
        let mut body = body(model, json!([{"role": "user", "content": "find it"}]));
        body["thinking"] = thinking;
        for talk in steering {
            let (status, reply) = ask(&sim, &body);
            prop_assert_eq!(status, 200, "{}", reply);
            let content = reply["content"].as_array().unwrap().clone();
            let calls = content.iter().filter(|b| b["type"] == "tool_use");
            let mut next: Vec<Value> = calls
                .map(|c| json!({"type": "tool_result", "tool_use_id": c["id"], "content": "r"}))
                .collect();
            if next.is_empty() || talk {
                next.push(json!({"type": "text", "text": "go on"}));
            }
            let messages = body["messages"].as_array_mut().unwrap();
            if !content.is_empty() {
                messages.push(json!({"role": "assistant", "content": content}));
            }
            messages.push(json!({"role": "user", "content": next}));
        }
        prop_assert_eq!(sim.refused_requests(), 0);
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        Just(Part::Thinking("hm".to_owned())),
        Just(Part::RedactedThinking),
        Just(Part::text("some text")),
        Just(Part::tool_call("grep", "{\"pattern\":\"x\"}")),
        Just(Part::tool_call("read_file", "{\"path\":\"a.md\"}")),
    ];
    prop::collection::vec(part, 0..5)
}
