//! Models, keys, routes and sizes: refusals before a request is read any further.

use serde_json::{Value, json};
use softland_sim::Request;

use crate::rules::{OLD, check, hello, user, with};
use crate::support::{STRICT, body, sim};

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
            "/v1/embeddings",
            vec![pair("x-api-key", "k")],
            b"{}",
            404,
            "not_found_error",
        ),
    ] {
        let response = sim.respond(0, &Request { method, path, headers: &headers, body });
        let reply: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
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
        ..softland_sim::Config::new(softland_sim::Scenario::from_name("echo").unwrap())
    };
    let sim = softland_sim::Sim::new(config);
    let said = |n: usize| json!({"model": OLD, "max_tokens": 4096, "messages": [user(json!("x".repeat(n)))]});
    let (status, reply) = crate::support::ask(&sim, &said(4000));
    assert_eq!(status, 400);
    let message = reply["error"]["message"].as_str().unwrap();
    assert_eq!(message, "prompt is too long: 1003 tokens > 500 maximum");
    let (status, reply) = crate::support::ask(&sim, &said(1950));
    assert_eq!((status, &reply["stop_reason"]), (200, &json!("model_context_window_exceeded")));
}

#[test]
fn an_alias_has_the_rules_of_the_model_it_stands_for() {
    let config = softland_sim::Config {
        aliases: vec![("brand-new-1".into(), STRICT.into())],
        ..softland_sim::Config::new(softland_sim::Scenario::from_name("reader").unwrap())
    };
    let sim = softland_sim::Sim::new(config);
    let (status, reply) = crate::support::ask(&sim, &body("brand-new-1", hello()));
    assert_eq!((status, &reply["model"]), (200, &json!("brand-new-1")));
    let forced = with("brand-new-1", hello(), json!({"tool_choice": {"type": "any"}}));
    assert_eq!(crate::support::ask(&sim, &forced).0, 400);
    assert_eq!(crate::support::ask(&sim, &body("brand-new-2", hello())).0, 404);
}

#[test]
fn a_version_takes_what_it_has() {
    let new = "2026-10-21";
    let old = "2023-06-01";
    let plain = || body(OLD, hello());
    let cited = json!({"type": "text", "text": "a", "citations": [{"type": "char_location"}]});
    let document = json!({"type": "document", "source": {"type": "text", "data": "a"}});
    let answered =
        json!([user(json!("a")), {"role": "assistant", "content": [document]}, user(json!("b"))]);
    for (version, request, status) in [
        (old, plain(), 200),
        (new, plain(), 200),
        ("2099-01-01", plain(), 400),
        (old, with(OLD, hello(), json!({"temperature": 1.0})), 200),
        (new, with(OLD, hello(), json!({"temperature": 1.0})), 400),
        (new, with(OLD, hello(), json!({"top_p": 1.0})), 400),
        (new, with(OLD, hello(), json!({"top_k": 1})), 400),
        (new, body(OLD, json!([user(json!([cited]))])), 400),
        (new, body(OLD, answered), 400),
    ] {
        let sim = sim("reader");
        let headers = [
            ("Authorization".to_owned(), "Bearer k".to_owned()),
            ("anthropic-version".to_owned(), version.to_owned()),
        ];
        let bytes = serde_json::to_vec(&request).unwrap();
        let asked =
            Request { method: "POST", path: "/v1/messages", headers: &headers, body: &bytes };
        let response = sim.respond(0, &asked);
        let reply: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
        assert_eq!(response.status, status, "{version}: {request}: {reply}");
    }
}

#[test]
fn safeguards_are_known_under_their_beta() {
    let asked = with(OLD, hello(), json!({"safeguards": {"dangerous_tool_use": {}}}));
    check("without the beta", "", &asked, 400, "safeguards: Extra inputs are not permitted");
    check("with the beta", "dangerous-tool-use-2026-09-03", &asked, 200, "");
}

#[test]
fn references_to_tools_stand_alone_in_a_result() {
    let reference = json!({"type": "tool_reference", "tool_name": "grep"});
    let answered = |content: Value| {
        let mut messages = crate::rules::round();
        messages[2]["content"][0]["content"] = content;
        body(OLD, messages)
    };
    check("alone", "", &answered(json!([reference])), 200, "");
    let mixed = answered(json!([reference, {"type": "text", "text": "a"}]));
    check("mixed", "", &mixed, 400, "tool_reference cannot be mixed with other content");
}
