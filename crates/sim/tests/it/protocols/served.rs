//! Models, keys and routes of OpenAI's protocols: refusals before a request is read further.

use crate::protocols::apis::{Api, sim, user};
use crate::protocols::check;
use serde_json::{Value, json};
use softland_sim::{Config, Request, Scenario, Sim};

fn hello(api: Api, model: &str) -> Value {
    api.body(model, vec![user("hello")])
}

#[test]
fn models() {
    let unlisted = "The model `gpt-9` does not exist or you do not have access to it.";
    for api in [Api::Chat, Api::Responses] {
        for (name, model, status, said) in [
            ("listed", "gpt-4o", 200, ""),
            ("dated", "gpt-4o-2024-08-06", 200, ""),
            ("unlisted", "gpt-9", 404, unlisted),
            ("posed", "sim/reader@gpt-5.2", 200, ""),
            ("posed by default", "looper", 200, ""),
            ("posed as unlisted", "reader@gpt-9", 404, unlisted),
            ("unknown scenario", "sim/nope", 404, "there are: reader"),
            ("unrouted", "openai/gpt-9", 400, "openai/gpt-9 is not a valid model ID"),
        ] {
            check(api, name, &hello(api, model), status, said);
        }
        let (_, reply) = api.json(&sim("reader"), &hello(api, "gpt-9"));
        assert_eq!(reply["error"]["code"], "model_not_found");
        assert_eq!(reply["error"]["type"], "invalid_request_error");
        let (_, reply) = api.json(&sim("reader"), &hello(api, "gpt-5.6"));
        assert_eq!(reply["model"], "gpt-5.6-sol", "answers name the snapshot");
        let (_, reply) = api.json(&sim("reader"), &hello(api, "looper"));
        assert_eq!(reply["model"], softland_sim::DEFAULT_OPEN_MODEL);
        check(api, "no model", &json!({}), 400, "you must provide a model parameter");
    }
    let only = "only supported in v1/responses and not in v1/chat/completions.";
    check(Api::Chat, "codex", &hello(Api::Chat, "gpt-5.3-codex"), 404, only);
    check(Api::Responses, "codex", &hello(Api::Responses, "gpt-5.3-codex"), 200, "");
    check(Api::Responses, "glm", &hello(Api::Responses, "glm-4.7"), 404, "not served");
    check(Api::Chat, "compat", &hello(Api::Chat, "claude-haiku-4-5"), 200, "");
    for model in softland_sim::open_models() {
        if model.chat {
            check(
                Api::Chat,
                model.id,
                &json!({"model": model.id, "messages": [user("hi")]}),
                200,
                "",
            );
        }
        if model.responses {
            check(Api::Responses, model.id, &json!({"model": model.id, "input": "hi"}), 200, "");
        }
    }
}

#[test]
fn an_alias_has_the_rules_of_the_model_it_stands_for() {
    let sim = Sim::new(Config {
        aliases: vec![("my-model".into(), "gpt-5.2".into())],
        ..Config::new(Scenario::from_name("reader").unwrap())
    });
    let mut body = hello(Api::Chat, "my-model");
    let (status, reply) = Api::Chat.json(&sim, &body);
    assert_eq!((status, &reply["model"]), (200, &json!("my-model")));
    body["max_tokens"] = 9.into();
    assert_eq!(Api::Chat.json(&sim, &body).0, 400);
}

fn send(
    sim: &Sim,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, Value) {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let response = sim.respond(0, &Request { method, path, headers: &headers, body });
    let header = ["x-request-id", "request-id"].iter().any(|h| response.header(h).is_some());
    assert!(header, "{path}");
    (response.status, serde_json::from_slice(&response.collect_bytes().0).unwrap())
}

#[test]
fn keys_routes_and_sizes() {
    let sim = sim("reader");
    let bearer = ("Authorization", "Bearer k");
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let good = json!({"model": "gpt-4o", "messages": [user("hi")], "input": "hi"});
        let fields = if path.ends_with("responses") { "messages" } else { "input" };
        let good = crate::protocols::with(good, json!({fields: null})).to_string();
        let good = good.as_bytes();
        let huge = vec![b' '; softland_sim::MAX_BODY + 1];
        for (name, method, headers, body, status, said) in [
            ("bearer", "POST", vec![bearer], good, 200, ""),
            ("Azure's header", "POST", vec![("api-key", "k")], good, 200, ""),
            ("no key", "POST", vec![], good, 401, "You didn't provide an API key."),
            ("Anthropic's header", "POST", vec![("x-api-key", "k")], good, 401, "didn't provide"),
            (
                "a bad key",
                "POST",
                vec![("authorization", "Bearer invalid")],
                good,
                401,
                "Incorrect",
            ),
            ("no JSON", "POST", vec![bearer], b"{", 400, "could not parse the JSON body"),
            ("no object", "POST", vec![bearer], b"[]", 400, "could not parse the JSON body"),
            ("too large", "POST", vec![bearer], &huge, 413, "too large"),
            ("a method", "GET", vec![bearer], b"", 405, "Not allowed to GET"),
        ] {
            let (got, reply) = send(&sim, method, &format!("{path}?x=1"), &headers, body);
            assert_eq!(got, status, "{path} {name}: {reply}");
            let message = reply["error"]["message"].as_str().unwrap_or("");
            assert!(message.contains(said), "{path} {name}: {message}");
            if status != 200 {
                let keys: Vec<&String> = reply["error"].as_object().unwrap().keys().collect();
                assert_eq!(keys, ["code", "message", "param", "type"], "{name}");
            }
        }
    }
    let (status, list) = send(&sim, "GET", "/v1/models", &[bearer], b"");
    assert_eq!((status, &list["object"]), (200, &json!("list")));
    let version = ("anthropic-version", "2023-06-01");
    let (_, list) = send(&sim, "GET", "/v1/models", &[bearer, version], b"");
    assert_eq!(list["data"][0]["type"], "model", "an Anthropic client gets Anthropic's");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_and_one_that_just_fits_is_cut() {
    let sim = |window| {
        Sim::new(Config {
            context_window: Some(window),
            ..Config::new(Scenario::from_name("echo").unwrap())
        })
    };
    for api in [Api::Chat, Api::Responses] {
        let mut body = api.body("gpt-4o", vec![user(&"x".repeat(4000))]);
        body.as_object_mut().unwrap().remove("tools");
        let (status, reply) = api.json(&sim(500), &body);
        assert_eq!((status, &reply["error"]["code"]), (400, &json!("context_length_exceeded")));
        assert_eq!(api.ask(&sim(1020), &body).stop, "length", "{api:?}");
    }
}
