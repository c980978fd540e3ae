//! By what a request's conversation is found again (`docs/governing.md` §6 and §7): made up, and
//! on what real clients send.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests")]

use std::path::Path;

use serde_json::{Value, json};
use softland_session::Outline;
use softland_session::core::Digest;
use softland_session::wire::{Api, request::Request};

fn of(messages: &Value) -> Outline {
    let tools = json!([{"name": "shell", "input_schema": {"type": "object"}}]);
    let body = json!({"model": "claude-opus-5", "messages": messages, "tools": tools}).to_string();
    Outline::from_request(&Request::from_body(Api::Anthropic, body.as_bytes()).unwrap())
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "shell", "input": {"command": "ls"}})
}

fn result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What clients write in another way from one request to the next makes no difference.
#[test]
fn the_way_of_writing_makes_no_difference() {
    let marked = |mut block: Value| {
        block["cache_control"] = json!({"type": "ephemeral"});
        block
    };
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let id = "toolu_0000000001";
    let one = of(&json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [thinking, text("a"), call(id), text("b")]},
        {"role": "user", "content": [result(id, "file")]}
    ]));
    let other = of(&json!([
        {"role": "user", "content": [marked(text("go"))]},
        {"role": "system", "content": "It is late."},
        {"role": "assistant", "content": [text("a"), text("b"), call(id)]},
        {"role": "user", "content": [marked(json!({"type": "tool_result", "tool_use_id": id,
            "content": [text("file")], "is_error": false}))]},
        {"role": "system", "content": "It is later."}
    ]));
    assert_eq!(one, other);
    assert_eq!(one.answered.len(), 1);
    assert_eq!(one.answered[0].before, of(&json!([{"role": "user", "content": "go"}])).here);
    assert_eq!(one.answered[0].calls, next_calls(&[(id, "shell", r#"{"command":"ls"}"#)]));
}

/// What is another conversation is another.
#[test]
fn what_was_said_makes_a_difference() {
    let id = "toolu_0000000001";
    let history = |asked: &str, said: &str, input: &str, file: &str| {
        of(&json!([
            {"role": "user", "content": asked},
            {"role": "assistant", "content": [text(said), {"type": "tool_use", "id": id,
                "name": "shell", "input": {"command": input}}]},
            {"role": "user", "content": [result(id, file)]}
        ]))
        .here
    };
    let usual = history("go", "so", "ls", "file");
    let others = [
        history("stop", "so", "ls", "file"),
        history("go", "no", "ls", "file"),
        history("go", "so", "rm", "file"),
        history("go", "so", "ls", "files"),
    ];
    assert!(others.iter().all(|other| *other != usual), "{others:?}");
    let both = |first: &str, second: &str| {
        of(&json!([
            {"role": "user", "content": first},
            {"role": "assistant", "content": "so"},
            {"role": "user", "content": second}
        ]))
    };
    assert_ne!(both("a", "b").here, both("b", "a").here, "the order of messages counts");
    let answered = of(&json!([{"role": "assistant", "content": "go"}]));
    assert_ne!(answered.here, of(&json!([{"role": "user", "content": "go"}])).here, "so do roles");
    assert_ne!(both("a", "b").opening_digest(), both("b", "a").opening_digest());
    let summary = "This session is being continued from a previous conversation that ran out of \
                   context. We did this.";
    let summed = |first: &str, second: &str| {
        let outline = both(first, second);
        (outline.opens_in_summary, outline.ends_in_summary)
    };
    assert_eq!(summed(summary, "b"), (true, false));
    assert_eq!(
        summed("a", summary),
        (false, true),
        "behind a turn of the model's it opens nothing"
    );
    assert_eq!(summed("a", "b"), (false, false));
    let alone =
        of(&json!([{"role": "user", "content": "go"}, {"role": "user", "content": summary}]));
    assert!(alone.opens_in_summary && alone.ends_in_summary);
    assert_eq!(alone.asks.len(), 1, "a summary asks nothing");
}

/// Calls and what came back, in order, where one id is given to several and a result is missing.
#[test]
fn calls_are_shown_with_their_results() {
    let read =
        |path: &str| json!({"type": "tool_use", "id": "c", "name": "read", "input": {"p": path}});
    let history = |second: &str| {
        of(&json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [read("a"), read("b")]},
            {"role": "user", "content": [result("c", "one"), result("c", second)]},
            {"role": "assistant", "content": [read("c")]},
            {"role": "user", "content": "stop that"}
        ]))
        .calls
    };
    let calls = history("two");
    let turns: Vec<(usize, bool)> = calls.iter().map(|c| (c.turn, c.result.is_some())).collect();
    assert_eq!(turns, [(0, true), (0, true), (1, false)]);
    assert_eq!(calls[..1], history("other")[..1]);
    assert_ne!(calls[1].result, history("other")[1].result);
    assert_ne!((calls[0].call, calls[0].result), (calls[1].call, calls[1].result));
}

/// What a client writes anew for each conversation, and marks that move, make no other program.
#[test]
fn a_system_prompt_tells_one_program_from_another() {
    let system = |system: Value| {
        let body = json!({"model": "m", "system": system, "messages": []}).to_string();
        Outline::from_request(&Request::from_body(Api::Anthropic, body.as_bytes()).unwrap()).system
    };
    let billed =
        |digest: &str| text(&format!("x-anthropic-billing-header: cc_version=2.1.{digest};"));
    let mut marked = text("Be brief.");
    marked["cache_control"] = json!({"type": "ephemeral"});
    let one = system(json!([billed("8ad"), text("Be brief.")]));
    assert_eq!(one, system(json!([billed("bac"), marked])));
    assert_ne!(one, system(json!([billed("8ad"), text("Be long.")])));
    assert_ne!(system(json!("Be brief.")), system(json!("Be long.")));
    let chat = |said: &str, later: &str| {
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": said}, {"role": "user", "content": "go"},
            {"role": "system", "content": later}]});
        Outline::from_request(&Request::from_body(Api::Chat, body.to_string().as_bytes()).unwrap())
            .system
    };
    assert_eq!(chat("Be brief.", "It is late."), chat("Be brief.", "It is later."));
    assert_ne!(chat("Be brief.", ""), chat("Be long.", ""));
}

/// The digest of a response's calls.
fn next_calls(calls: &[(&str, &str, &str)]) -> Option<Digest> {
    of(&json!([])).next_turn(calls, &[]).calls
}

/// Ids count only where a backend does not give them again elsewhere.
#[test]
fn an_id_tells_only_if_it_is_long_and_has_digits() {
    let calls_of = |ids: &[&str], input: &str| {
        next_calls(&ids.iter().map(|id| (*id, "shell", input)).collect::<Vec<_>>())
    };
    for (ids, tells) in [
        (vec!["toolu_01ABCDEF"], true),
        (vec!["call_1"], false),
        (vec!["call_abcdefghij"], false),
        (vec!["123456789012"], true),
        (vec!["12345678901"], false),
        (vec!["toolu_01ABCDEF", "call_1"], false),
        (vec![], false),
    ] {
        // Calls that no id tells apart are known by what they ask for.
        let same = calls_of(&ids, "{}") == calls_of(&ids, r#"{"a":1}"#);
        assert_eq!(same, tells || ids.is_empty(), "{ids:?}");
        assert_eq!(calls_of(&ids, "{}").is_none(), ids.is_empty(), "{ids:?}");
        let calls: Vec<Value> = ids.iter().map(|id| call(id)).collect();
        let outline = of(&json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": calls}
        ]));
        assert_eq!(outline.answered[0].calls, calls_of(&ids, r#"{"command":"ls"}"#), "{ids:?}");
    }
    let (a, b) = ("toolu_000000001", "toolu_000000002");
    assert_eq!(calls_of(&[a, b], "{}"), calls_of(&[b, a], "{}"), "clients reorder");
    assert_ne!(calls_of(&[a], "{}"), calls_of(&[b], "{}"));
    // A provider's own call is no client's.
    let server = json!({"type": "server_tool_use", "id": a, "name": "web_search", "input": {}});
    let outline = of(&json!([
        {"role": "user", "content": "go"}, {"role": "assistant", "content": [server]}
    ]));
    assert_eq!(outline.answered[0].calls, None);
}

/// The requests of one folder of the recorded clients: agent, session, outline.
struct Sent {
    name: String,
    agent: Option<String>,
    session: Option<String>,
    threaded: bool,
    outline: Outline,
}

fn recorded(client: &str) -> Vec<Sent> {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/clients");
    let folder = Path::new(shared).join(client);
    assert!(folder.is_dir(), "there are no recordings at {folder:?}");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let sent = files.iter().filter_map(|file| {
        let recorded: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        if !recorded["path"].as_str()?.starts_with("/v1/messages") {
            return None;
        }
        let body = recorded["body"].to_string();
        let header = |name: &str| {
            let headers = recorded["headers"].as_array()?.iter();
            let named =
                |pair: &&Value| pair[0].as_str().is_some_and(|key| key.eq_ignore_ascii_case(name));
            headers.clone().find(named)?[1].as_str().map(str::to_owned)
        };
        Some(Sent {
            name: file.file_stem()?.to_str()?.to_owned(),
            agent: header("x-claude-code-agent-id"),
            session: header("x-claude-code-session-id"),
            threaded: recorded["body"].get("thread").is_some(),
            outline: Outline::from_request(
                &Request::from_body(Api::Anthropic, body.as_bytes()).ok()?,
            ),
        })
    });
    sent.collect()
}

/// Whether a request goes on from another one's answer.
fn follows(later: &Sent, earlier: &Sent) -> bool {
    later.outline.answered.iter().any(|turn| turn.before == earlier.outline.here)
}

/// Each request of one agent goes on from the one before it, and from its newest turn, which is
/// known by its calls too.
#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_requests_of_one_agent_chain_together() {
    for (client, requests) in [
        ("ai-sdk-anthropic", 3),
        ("ai-sdk7-anthropic", 3),
        ("anthropic-python-loop", 3),
        ("claude-agent-sdk", 3),
        ("claude-code", 3),
        ("claude-code-2.1.197", 3),
        ("langchain-anthropic", 3),
        ("pydantic-ai-anthropic-structured", 4),
    ] {
        let sent = recorded(client);
        assert_eq!(sent.len(), requests, "{client}");
        for pair in sent.windows(2) {
            let (earlier, later) = (&pair[0], &pair[1]);
            let newest = later.outline.answered.last().unwrap();
            assert_eq!(newest.before, earlier.outline.here, "{client} {}", later.name);
            assert_eq!(
                later.outline.opening_digest(),
                earlier.outline.opening_digest(),
                "{client} {}",
                later.name
            );
            assert_eq!(later.outline.tools, earlier.outline.tools, "{client} {}", later.name);
        }
    }
}

/// A sub-agent shares its parent's session and nothing of its content; the parent goes on where it
/// was.
#[test]
#[ignore = "reads recordings from ../shared"]
fn a_recorded_sub_agent_is_a_conversation_of_its_own() {
    let sent = recorded("claude-code-subagent");
    let (child, parent): (Vec<&Sent>, Vec<&Sent>) =
        sent.iter().partition(|sent| sent.agent.is_some());
    assert_eq!((child.len(), parent.len()), (3, 3));
    for chain in [&child, &parent] {
        for pair in chain.windows(2) {
            assert!(follows(pair[1], pair[0]), "{} after {}", pair[1].name, pair[0].name);
        }
    }
    for (child, parent) in child.iter().flat_map(|c| parent.iter().map(move |p| (c, p))) {
        assert_eq!(child.session, parent.session);
        assert!(!follows(child, parent) && !follows(parent, child));
        assert_ne!(child.outline.opening_digest(), parent.outline.opening_digest());
    }
}

/// `--resume` and `--fork-session` go on from what was answered, the latter under another session.
#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_resumes_and_forks_are_found_by_their_content() {
    let sent = recorded("claude-code-resume");
    for pair in sent.windows(2) {
        assert!(follows(&pair[1], &pair[0]), "{} after {}", pair[1].name, pair[0].name);
    }
    assert_eq!(sent[1].session, sent[2].session);
    assert_ne!(sent[2].session, sent[3].session);
}

/// A title request has no tools and begins elsewhere; a thread's first request, sent again as a
/// whole, is the same one; what shows no history belongs to nothing.
#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_side_requests_and_threads() {
    let sent = recorded("opencode-anthropic");
    assert!(!sent[0].outline.uses_tools);
    assert!(sent[1..].iter().all(|sent| sent.outline.uses_tools));
    assert!(!sent[1..].iter().any(|later| follows(later, &sent[0])));
    assert!(follows(&sent[2], &sent[1]) && follows(&sent[3], &sent[2]));
    let sent = recorded("anthropic-tool_runner-unthreaded");
    assert!(sent[0].threaded && !sent[1].threaded);
    assert_eq!(sent[0].outline.here, sent[1].outline.here);
    assert!(follows(&sent[2], &sent[1]) && follows(&sent[3], &sent[2]));
    let sent = recorded("anthropic-python-tool_runner");
    assert!(sent[1].threaded && sent[1].outline.answered.is_empty());
    assert_ne!(sent[1].outline.opening_digest(), sent[0].outline.opening_digest());
}

/// goose's note of the moment stands in the newest message, or behind the newest result, and is gone
/// in the next request.
#[test]
fn c13_a_note_that_moves_makes_no_difference() {
    let id = "toolu_0000000001";
    let note = |n: u64| format!("<info-msg>\nIt is 10:0{n}\n</info-msg>");
    let history = |first: Value, behind: Option<Value>| {
        let mut results = vec![result(id, "file")];
        results.extend(behind);
        of(&json!([
            {"role": "user", "content": first},
            {"role": "assistant", "content": [text("a"), call(id)]},
            {"role": "user", "content": results}
        ]))
    };
    let bare = history("go\tnow".into(), None);
    assert_eq!(history(format!("go\tnow\n{}", note(1)).into(), None), bare);
    assert_eq!(history(json!([text("go\tnow"), text(&note(2))]), None), bare);
    assert_eq!(history("go\tnow".into(), Some(text(&note(3)))), bare);
    assert_ne!(history("go\tthere".into(), Some(text(&note(3)))), bare);
    assert_ne!(history("go\tnow".into(), Some(text("and then?"))), bare);
    let alone = |n| of(&json!([{"role": "user", "content": note(n)}]));
    assert_ne!(alone(1), alone(2), "nothing else stands there");
}

/// A flattened turn is known by the ids of its calls, as the response that brought them is.
#[test]
fn c15_flattened_turns_are_known_by_their_calls() {
    let list = "Calling tools:\n[{'id': 'call_000000001', 'function': {'name': 'a'}}]";
    let of = |behind: &str| {
        of(&json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": list},
            {"role": "user", "content": behind}
        ]))
    };
    assert_eq!(
        of("Observation:\n1").answered[0].calls,
        next_calls(&[("call_000000001", "a", "{}")])
    );
    assert_eq!(of("What does it write?").answered[0].calls, None, "a text that quotes a list");
}
