//! The bill of recorded turns beside the standard price of their tokens: tiers for long inputs, the
//! service tier, and the tools that a provider runs.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;

use serde_json::{Value, json};
use softland_import::report::Report;
use softland_import::{FileReplay, ReadOptions, ReplaySettings, build_report, read_paths};
use softland_session::core::NanoUsd;

/// Reads one recording. Its name is arbitrary.
fn read(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    std::fs::write(&path, text).unwrap();
    let settings = ReplaySettings::default();
    let sink = |path: &Path| FileReplay::new(&settings, path);
    build_report(read_paths(&[path], &ReadOptions { threads: 1 }, sink, |_| ()))
}

/// Returns what a run of one answer costs, and what of it is `output`.
fn bill(answer: Value) -> (f64, f64) {
    let mut said = json!({"role": "assistant", "content": "So it is."});
    said.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    let text = json!({"id": "s", "messages": [{"role": "user", "content": "Is it so?"}, said]});
    let report = read(&text.to_string());
    assert_eq!(report.runs.len(), 1, "{:?}", report.unreadable);
    let run = &report.runs[0];
    let spent = run.spending.r#where.classes;
    assert_eq!(Some(spent.total()), run.cost_usd);
    (run.cost_usd.unwrap().to_dollars(), spent.output.to_dollars())
}

fn near(found: f64, wanted: f64, what: &str) {
    assert!((found - wanted).abs() < 1e-9, "{what}: {found} in place of {wanted}");
}

#[test]
fn c96_a_recorded_turn_is_billed_its_tier_and_the_tools_of_its_provider() {
    let claude = |more: Value| {
        let mut usage = json!({"input_tokens": 100_000, "output_tokens": 1000});
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bill(json!({"model": "claude-opus-4-6", "usage": usage}))
    };
    // 5 and 25 dollars for a million tokens.
    near(claude(json!({})).0, 0.525, "standard");
    near(claude(json!({"service_tier": "batch"})).0, 0.2625, "half in a batch");
    near(claude(json!({"service_tier": "priority"})).0, 0.525, "paid in advance");
    near(claude(json!({"inference_geo": "us"})).0, 0.5775, "in one country");
    let searched = claude(json!({"server_tool_use": {"web_search_requests": 3}}));
    near(searched.0, 0.555, "three searches of a cent");
    near(searched.1, 0.055, "fees are in the class of the output");

    let openai = |more: Value| {
        let mut answer = json!({"model": "gpt-5",
            "usage": {"prompt_tokens": 100_000, "completion_tokens": 1000}});
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bill(answer).0
    };
    // 1.25 and 10 dollars for a million tokens.
    near(openai(json!({})), 0.135, "standard");
    near(openai(json!({"service_tier": "default"})), 0.135, "the default tier");
    near(openai(json!({"service_tier": "on_demand"})), 0.135, "a tier of an unknown name");
    near(openai(json!({"service_tier": "flex"})), 0.0675, "flex");
    near(openai(json!({"service_tier": "priority"})), 0.27, "priority");

    let gemini = |input: u64| {
        let usage = json!({"prompt_tokens": input, "completion_tokens": 1000});
        bill(json!({"model": "gemini-2.5-pro", "usage": usage})).0
    };
    near(gemini(200_000), 0.26, "1.25 and 10 dollars");
    near(gemini(300_000), 0.765, "2.50 and 15 dollars for a long input");
}

#[test]
fn programs_and_searches_in_the_content_are_billed_once() {
    let program = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution",
        "input": {"code": "1 + 1"}});
    let usage = json!({"input_tokens": 1000, "output_tokens": 1000});
    let content = json!([program, {"type": "text", "text": "Two."}]);
    let (cost, output) =
        bill(json!({"model": "claude-opus-4-6", "usage": usage, "content": content}));
    // Five minutes of a container are billed at least.
    near(cost, 0.005 + 0.025 + 0.004_166_667, "a program");
    near(output, 0.025 + 0.004_166_667, "its container");

    let item = |payload: Value| json!({"type": "response_item", "payload": payload}).to_string();
    let search = |kind: &str| item(json!({"type": "web_search_call", "action": {"type": kind}}));
    let usage = json!({"input_tokens": 1000, "cached_input_tokens": 0, "output_tokens": 1000});
    let count = json!({"type": "token_count",
        "info": {"total_token_usage": usage, "last_token_usage": usage}});
    let rollout = [
        json!({"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}}).to_string(),
        json!({"type": "turn_context", "payload": {"model": "gpt-5"}}).to_string(),
        json!({"type": "event_msg", "payload": {"type": "user_message", "message": "Look."}})
            .to_string(),
        search("search"),
        search("open_page"),
        item(json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "There it is."}]})),
        json!({"type": "event_msg", "payload": count}).to_string(),
    ];
    let report = read(&rollout.join("\n"));
    let [run] = report.runs.as_slice() else { panic!("{:?}", report.unreadable) };
    assert_eq!(run.cost_usd, Some(NanoUsd(1_250_000 + 10_000_000 + 10_000_000)));
    assert_eq!(run.tool_calls, 0);
}
