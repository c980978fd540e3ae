//! Calls of tools that an API itself defines repeat like any others: their ids, and what came of
//! them, are no part of what the model asked for.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Role, SignalKind};
use softland_session::wire::Api;
use softland_session::{Context, Event, Exchange, Output, Step};

/// Returns the kinds of loops that are found in a history of these rounds: calls and results. Not
/// every result has room for a note on them.
fn loops(api: Api, rounds: &[(Value, Value)]) -> Vec<SignalKind> {
    let mut list = vec![json!({"role": "user", "content": "go"})];
    for (call, result) in rounds {
        match api {
            Api::Anthropic => list.extend([
                json!({"role": "assistant", "content": [call]}),
                json!({"role": "user", "content": [result]}),
            ]),
            _ => list.extend([call.clone(), result.clone()]),
        }
    }
    let body = match api {
        Api::Anthropic => json!({"model": "claude-sonnet-4-5", "max_tokens": 100,
            "messages": list, "tools": [{"name": "t", "input_schema": {"type": "object"}}]}),
        _ => json!({"model": "gpt-5.1", "input": list, "store": false,
            "tools": [{"type": "function", "name": "t"}]}),
    };
    let mut context = Context::new(Role::Gateway, Policy::default(), None, "m");
    context.api = api;
    let mut out = Output::default();
    let bytes = body.to_string().into_bytes();
    let mut exchange = Exchange::from_request(bytes, context, &mut out).unwrap();
    let Step::Send(_) = exchange.next_step().unwrap() else { panic!("nothing was sent") };
    let found = out.events.into_iter().filter_map(|event| match event {
        Event::Signal(signal) => signal.because.map(|_| signal.signal),
        _ => None,
    });
    found.collect()
}

/// A call of the Responses API by its type, what it asks for, and its result's own members. The ids
/// and the progress differ from round to round.
fn responses(n: usize, kind: &str, asks: &Value, output: &Value) -> (Value, Value) {
    let id = format!("call_0000000000{n:02}");
    let mut call = json!({"type": kind, "id": format!("item_{n}"), "call_id": id,
        "status": if n.is_multiple_of(2) { "completed" } else { "in_progress" }});
    call.as_object_mut().unwrap().extend(asks.as_object().unwrap().clone());
    if kind == "computer_call" {
        call["pending_safety_checks"] = json!([{"id": format!("check_{n}")}]);
    }
    let mut result = output.clone();
    result["call_id"] = json!(id);
    (call, result)
}

fn anthropic(n: usize, kind: &str, asks: &Value, output: &Value) -> (Value, Value) {
    let id = format!("toolu_0000000000{n:02}");
    let call = json!({"type": kind, "id": id, "name": "bash", "input": asks});
    (call, json!({"type": "tool_result", "tool_use_id": id, "content": output}))
}

/// Kinds of calls, two things that each may be asked for, and a result.
fn kinds() -> Vec<(Api, &'static str, Value, Value, Value)> {
    let shell = |command: &str| json!({"action": {"commands": [command], "timeout_ms": 9}});
    let local =
        |command: &str| json!({"action": {"type": "exec", "command": ["cat", command], "env": {}}});
    let patch =
        |diff: &str| json!({"operation": {"type": "update_file", "path": "a.rs", "diff": diff}});
    let click = |x: u32| json!({"action": {"type": "click", "x": x, "y": 2, "button": "left"}});
    let search = |query: &str| json!({"arguments": {"query": query}, "execution": "client"});
    let text = |kind: &str| json!({"type": kind, "output": "x"});
    let shown = json!({"type": "computer_call_output", "output": {"type": "computer_screenshot",
        "image_url": "data:image/png;base64,AAAA"}});
    let ran = json!({"type": "shell_call_output", "output": [{"stdout": "x", "stderr": "",
        "outcome": {"type": "exit", "exit_code": 0}}]});
    let patched = json!({"type": "apply_patch_call_output", "status": "completed", "output": "x"});
    let found = json!({"type": "tool_search_output", "status": "completed", "tools": []});
    let function = |a: u32| json!({"name": "t", "arguments": format!("{{\"a\":{a}}}")});
    let custom = |a: &str| json!({"name": "t", "input": a});
    let command = |command: &str| json!({"command": command});
    let of = Api::Responses;
    vec![
        (of, "shell_call", shell("ls a"), shell("ls b"), ran),
        (of, "local_shell_call", local("a"), local("b"), text("local_shell_call_output")),
        (of, "apply_patch_call", patch("@@ a"), patch("@@ b"), patched),
        (of, "computer_call", click(1), click(7), shown),
        (of, "tool_search_call", search("a"), search("b"), found),
        (of, "function_call", function(1), function(2), text("function_call_output")),
        (of, "custom_tool_call", custom("a"), custom("b"), text("custom_tool_call_output")),
        (Api::Anthropic, "tool_use", command("ls a"), command("ls b"), json!("x")),
    ]
}

#[test]
fn c163_calls_of_tools_of_the_api_repeat_whatever_their_ids_are() {
    for (api, kind, asks, _, output) in kinds() {
        let round = |n: usize| match api {
            Api::Anthropic => anthropic(n, kind, &asks, &output),
            _ => responses(n, kind, &asks, &output),
        };
        let noted = (1..8).find(|rounds| {
            let rounds: Vec<_> = (0..*rounds).map(round).collect();
            loops(api, &rounds) == [SignalKind::Repeat]
        });
        assert_eq!(noted, Some(3), "{kind}: the same call, three times");
    }
}

#[test]
fn c163_calls_that_ask_for_something_else_do_not_repeat() {
    for (api, kind, first, second, output) in kinds() {
        // Each asks for something of its own: the first, or the second with a number in it.
        let asks = |n: usize| match n {
            0 => first.clone(),
            _ => {
                let text = second.to_string();
                let text = text.replace("\"b\"", &format!("\"b{n}\""));
                let text =
                    text.replace("ls b", &format!("ls b{n}")).replace("@@ b", &format!("@@ b{n}"));
                let text = text.replace(":7", &format!(":{}", 70 + n));
                serde_json::from_str(&text.replace("\\\"a\\\":2", &format!("\\\"a\\\":{}", n + 2)))
                    .unwrap()
            }
        };
        let round = |n: usize| match api {
            Api::Anthropic => anthropic(n, kind, &asks(n), &output),
            _ => responses(n, kind, &asks(n), &output),
        };
        let rounds: Vec<_> = (0..5).map(round).collect();
        assert_ne!(rounds[1].0, rounds[2].0);
        assert_eq!(loops(api, &rounds), [], "{kind}");
    }
}
