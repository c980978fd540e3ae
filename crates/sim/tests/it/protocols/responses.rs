//! Refusals and storage of the Responses API: items and their order, histories by id, background
//! requests, the events of a stream.

use crate::protocols::apis::{Api, assistant, events, sim, user};
use crate::protocols::{check, check_with, with};
use serde_json::{Value, json};
use softland_sim::{Config, Request, Scenario, Script, Sim, Stop, Turn};

const API: Api = Api::Responses;
const MODEL: &str = "gpt-4o";

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "grep", "arguments": "{\"pattern\":\"x\"}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "a.md:1:x"})
}

fn body(input: Vec<Value>) -> Value {
    API.body(MODEL, input)
}

fn hello() -> Value {
    body(vec![user("hello")])
}

fn get(sim: &Sim, now: u64, method: &str, path: &str) -> (u16, Value) {
    let headers = [("authorization".to_owned(), "Bearer k".to_owned())];
    let response = sim.respond(now, &Request { method, path, headers: &headers, body: b"" });
    (response.status, serde_json::from_slice(&response.collect_bytes().0).unwrap())
}

#[test]
fn calls_and_outputs_belong_together() {
    let none = "No tool output found for function call ";
    let orphan = "No tool call found for function call output with call_id ";
    let ask = || user("find it");
    for (name, input, status, said) in [
        ("answered", vec![ask(), call("a"), output("a")], 200, String::new()),
        ("both", vec![ask(), call("a"), call("b"), output("b"), output("a")], 200, String::new()),
        (
            "interleaved",
            vec![ask(), call("a"), output("a"), call("b"), output("b")],
            200,
            String::new(),
        ),
        ("and a word", vec![ask(), call("a"), output("a"), ask()], 200, String::new()),
        ("a word between", vec![ask(), call("a"), ask(), output("a")], 200, String::new()),
        ("unanswered", vec![ask(), call("a")], 400, format!("{none}a.")),
        ("half", vec![ask(), call("a"), call("b"), output("a")], 400, format!("{none}b.")),
        (
            "answered after the model went on",
            vec![ask(), call("a"), ask(), assistant("x"), output("a")],
            400,
            format!("{none}a."),
        ),
        ("orphan", vec![ask(), output("a")], 400, format!("{orphan}a.")),
        ("before", vec![ask(), output("a"), call("a")], 400, format!("{orphan}a.")),
        ("twice", vec![ask(), call("a"), output("a"), output("a")], 400, format!("{orphan}a.")),
    ] {
        check(API, name, &body(input), status, &said);
    }
}

#[test]
fn items_and_fields() {
    let set = |changes: Value| with(hello(), changes);
    let item = |item: Value| body(vec![user("hello"), item]);
    let named = json!({"type": "function", "function": {"name": "grep"}});
    let allowed = json!({"type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "function", "name": "grep"}]});
    let nested = json!([{"type": "function", "function": {"name": "grep", "parameters": {}}}]);
    for (name, body, status, said) in [
        ("a text", set(json!({"input": "hello"})), 200, ""),
        ("instructions", set(json!({"instructions": "be brief"})), 200, ""),
        ("nothing", set(json!({"input": null})), 400, "Missing required parameter: 'input'."),
        ("unknown", set(json!({"messages": []})), 400, "Unknown parameter: 'messages'."),
        ("limit", set(json!({"max_output_tokens": 16})), 200, ""),
        ("small", set(json!({"max_output_tokens": 15})), 400, "Expected a value >= 16, but got 15"),
        ("large", set(json!({"max_output_tokens": 99_999})), 400, "above maximum value"),
        ("cold", set(json!({"temperature": -1})), 400, "Expected a value >= 0, but got -1"),
        ("effort", set(json!({"reasoning": {"effort": "low"}})), 400, "'reasoning.effort'"),
        ("none", set(json!({"tool_choice": "none"})), 200, ""),
        ("named", set(json!({"tool_choice": API.named("grep")})), 200, ""),
        ("allowed", set(json!({"tool_choice": allowed})), 200, ""),
        ("hosted", set(json!({"tool_choice": {"type": "web_search"}})), 200, ""),
        ("in Chat's form", set(json!({"tool_choice": named})), 400, "'tool_choice.name'"),
        (
            "unknown tool",
            set(json!({"tool_choice": API.named("nope")})),
            400,
            "Tool choice 'nope' not found",
        ),
        (
            "required of nothing",
            set(json!({"tools": [], "tool_choice": "required"})),
            400,
            "must be specified with 'tools' parameter.",
        ),
        ("no tools", set(json!({"tools": []})), 200, ""),
        ("tools in Chat's form", set(json!({"tools": nested})), 400, "'tools[0].name'"),
        ("a hosted tool", set(json!({"tools": [{"type": "web_search"}]})), 200, ""),
        ("a strange item", item(json!({"type": "thought"})), 400, "Invalid value: 'thought'."),
        ("no type", item(json!({"text": "x"})), 400, "'input[1].type'"),
        (
            "a tool message",
            item(json!({"role": "tool", "content": "x"})),
            400,
            "Invalid value: 'tool'.",
        ),
        ("no content", item(json!({"role": "user"})), 400, "'input[1].content'"),
        (
            "an input as output",
            item(json!({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]})),
            400,
            "Supported values are: 'output_text' and 'refusal'.",
        ),
        (
            "an output as input",
            item(json!({"role": "user", "content": [{"type": "output_text", "text": "x"}]})),
            400,
            "Invalid value: 'output_text'.",
        ),
        (
            "no arguments",
            item(json!({"type": "function_call", "call_id": "a", "name": "x"})),
            400,
            "input[1].arguments",
        ),
        (
            "a reference",
            item(json!({"type": "item_reference", "id": "msg_1"})),
            404,
            "Item with id 'msg_1' not found.",
        ),
        (
            "both memories",
            set(json!({"previous_response_id": "r", "conversation": "c"})),
            400,
            "Mutually exclusive parameters",
        ),
        (
            "in the background, kept by nobody",
            set(json!({"background": true, "store": false})),
            400,
            "store",
        ),
    ] {
        check(API, name, &body, status, said);
    }
    let same = json!({"type": "message", "id": "msg_1", "role": "user", "content": "x"});
    check(
        API,
        "twice",
        &body(vec![same.clone(), same]),
        400,
        "Duplicate item found with id msg_1.",
    );
}

#[test]
fn the_server_keeps_histories_by_id() {
    let sim = sim("reader");
    let (_, first) = API.json(&sim, &with(hello(), json!({"instructions": "be brief"})));
    assert_eq!(first["store"], true);
    let go_on =
        |id: &Value, input: Vec<Value>| with(body(input), json!({"previous_response_id": id}));
    let results = |reply: &Value| {
        let calls = API.read(reply).calls;
        API.results(calls.into_iter().map(|(id, ..)| (id, "a.md:1:hello".to_owned())).collect())
    };
    let id = &first["id"];
    check_with(
        &sim,
        API,
        "open calls",
        &go_on(id, vec![user("and?")]),
        400,
        "No tool output found",
    );
    let (status, second) = API.json(&sim, &go_on(id, results(&first)));
    assert_eq!(status, 200, "{second}");
    assert_eq!(second["instructions"], Value::Null, "they are not carried over");
    assert_eq!(second["previous_response_id"], *id);
    let input = |reply: &Value| reply["usage"]["input_tokens"].as_u64().unwrap();
    assert!(input(&second) > input(&first), "what is chained is billed");
    // Two answers to one response: a fork.
    assert_eq!(API.json(&sim, &go_on(id, results(&first))).0, 200);
    let (status, third) = API.json(&sim, &go_on(&second["id"], results(&second)));
    assert_eq!(status, 200, "{third}");
    let missing = "Previous response with id 'resp_nope' not found.";
    check_with(&sim, API, "unknown", &go_on(&"resp_nope".into(), vec![]), 400, missing);
    // Items by reference, the response by its id, and nothing once it is deleted.
    let item = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    assert_eq!(first["output"][0]["type"], "message", "{first}");
    check_with(&sim, API, "reference", &body(vec![user("x"), item]), 200, "");
    let path = format!("/v1/responses/{}", id.as_str().unwrap());
    assert_eq!(get(&sim, 0, "GET", &path), (200, first.clone()));
    assert_eq!(get(&sim, 0, "DELETE", &path).1["deleted"], true);
    assert_eq!(get(&sim, 0, "GET", &path).0, 404);
    assert_eq!(get(&sim, 0, "DELETE", &path).0, 404);
    check_with(&sim, API, "gone", &go_on(&third["id"], vec![]), 400, "not found");
}

#[test]
fn what_is_not_stored_is_not_kept() {
    let sim = sim("reader");
    let (_, first) = API.json(&sim, &with(hello(), json!({"store": false})));
    assert_eq!(first["store"], false);
    let more = with(hello(), json!({"previous_response_id": first["id"]}));
    let (status, reply) = API.json(&sim, &more);
    assert_eq!(status, 400);
    assert_eq!(reply["error"]["code"], "previous_response_not_found");
    assert_eq!(reply["error"]["param"], "previous_response_id");
    // DeepSeek stores nothing, whatever the request asks.
    let (_, first) = API.json(&sim, &with(hello(), json!({"model": "deepseek-v4-flash"})));
    assert_eq!(first["store"], false);
}

#[test]
fn background_responses_are_fetched_later() {
    let sim = sim("slow:5000");
    let body = with(hello(), json!({"background": true}));
    let (status, queued) = API.json(&sim, &body);
    assert_eq!((status, &queued["status"], &queued["output"]), (200, &json!("queued"), &json!([])));
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert_eq!(get(&sim, 100, "GET", &path).1["status"], "in_progress");
    let (_, done) = get(&sim, 5000, "GET", &path);
    assert_eq!(done["status"], "completed");
    assert!(!done["output"].as_array().unwrap().is_empty());
    let (_, other) = API.json(&sim, &body);
    let path = format!("/v1/responses/{}", other["id"].as_str().unwrap());
    assert_eq!(get(&sim, 10, "POST", &format!("{path}/cancel")).1["status"], "cancelled");
    assert_eq!(get(&sim, 9000, "GET", &path).1["status"], "cancelled");
    let (_, plain) = API.json(&sim, &hello());
    let path = format!("/v1/responses/{}/cancel", plain["id"].as_str().unwrap());
    assert_eq!(get(&sim, 0, "POST", &path).0, 400);
    let failing = crate::protocols::apis::sim("midstream-error");
    let (_, queued) = API.json(&failing, &body);
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert_eq!(get(&failing, 0, "GET", &path).1["status"], "failed");
}

fn stream(sim: &Sim, changes: Value) -> Vec<Value> {
    let response = API.post(sim, 0, &with(with(hello(), json!({"stream": true})), changes));
    assert_eq!(response.status, 200);
    let bytes = response.collect_bytes().0;
    let text = std::str::from_utf8(&bytes).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("event: ")).collect();
    let events = events(&bytes);
    let types: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(names, types, "the event's name is its type");
    events
}

#[test]
fn events_are_numbered_and_end_once() {
    for (name, last) in [
        ("reader", "response.completed"),
        ("thinker", "response.completed"),
        ("pause", "response.completed"),
        ("truncator", "response.incomplete"),
        ("refuser", "response.incomplete"),
        ("refuser:text", "response.completed"),
        ("empty:never", "response.completed"),
        ("midstream-error", "response.failed"),
    ] {
        for background in [false, true] {
            let changes = json!({"model": "gpt-5.2", "background": background,
                "reasoning": {"summary": "auto"}});
            let events = stream(&sim(name), changes);
            let numbers: Vec<u64> =
                events.iter().map(|e| e["sequence_number"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>(), "{name}");
            let kind = |e: &Value| e["type"].as_str().unwrap().to_owned();
            assert_eq!(kind(&events[0]), "response.created");
            let terminal = ["response.completed", "response.incomplete", "response.failed"];
            let ends: Vec<String> =
                events.iter().map(kind).filter(|k| terminal.contains(&k.as_str())).collect();
            assert_eq!(ends, [last], "{name}");
            assert_eq!(kind(events.last().unwrap()), last);
            assert_eq!(events.iter().any(|e| kind(e) == "response.queued"), background);
            let usage = |e: &&Value| e["response"]["usage"].is_object();
            let with_usage = events.iter().filter(usage).count();
            assert_eq!(with_usage, usize::from(last != "response.failed"), "{name}");
        }
    }
    let events = stream(&sim("midstream-error"), json!({}));
    let error = &events[events.len() - 2];
    assert_eq!(
        (&error["type"], &error["error"]["code"]),
        (&json!("error"), &json!("server_error"))
    );
}

#[test]
fn a_cut_call_is_told_to_its_broken_end() {
    let events = stream(&sim("truncator"), json!({}));
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"response.function_call_arguments.done"));
    let whole = &events.last().unwrap()["response"];
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(whole["output"][0]["status"], "incomplete");
}

#[test]
fn item_ids_rotate_where_a_proxy_rotates_them() {
    let sim = |rotate_item_ids| {
        Sim::new(Config { rotate_item_ids, ..Config::new(Scenario::from_name("reader").unwrap()) })
    };
    let ids = |events: &[Value]| -> Vec<String> {
        let mut ids: Vec<String> = events
            .iter()
            .filter(|e| e["output_index"] == 0)
            .filter_map(|e| e["item_id"].as_str().or_else(|| e["item"]["id"].as_str()))
            .map(str::to_owned)
            .collect();
        ids.sort();
        ids.dedup();
        ids
    };
    assert_eq!(ids(&stream(&sim(false), json!({}))).len(), 1);
    let rotating = sim(true);
    let events = stream(&rotating, json!({"model": "gpt-5.2", "store": false}));
    let seen = events.iter().filter(|e| e["output_index"] == 0).count();
    assert_eq!(ids(&events).len(), seen, "another id in each event");
    // Items under any of these ids are accepted again.
    let reply = API.read(&events.last().unwrap()["response"]);
    let mut next = with(hello(), json!({"model": "gpt-5.2", "store": false}));
    API.push(&mut next, reply.said.clone());
    let results = reply.calls.iter().map(|(id, ..)| (id.clone(), "x".to_owned())).collect();
    API.push(&mut next, API.results(results));
    check_with(&rotating, API, "rotated", &next, 200, "");
}

#[test]
fn custom_tools_take_texts() {
    let sim =
        Sim::new(Config::new(Scenario::Scripted(vec![Turn::from_call("patch", "*** Begin\nx")])));
    let tools = json!({"tools": [{"type": "custom", "name": "patch"}]});
    let (_, reply) = API.json(&sim, &with(hello(), tools.clone()));
    let call = &reply["output"][0];
    assert_eq!(
        (&call["type"], &call["input"]),
        (&json!("custom_tool_call"), &json!("*** Begin\nx"))
    );
    let answer =
        json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"});
    let mut next = with(hello(), tools);
    API.push(&mut next, vec![call.clone(), answer]);
    check_with(&sim, API, "answered", &next, 200, "");
    let refused = Sim::new(Config::new(Scenario::Scripted(vec![
        Turn::from_text("no").with_stop(Stop::Refusal),
    ])));
    let (_, reply) = API.json(&refused, &hello());
    assert_eq!(reply["output"][0]["content"][0], json!({"type": "refusal", "refusal": "no"}));
}

#[test]
fn tools_in_an_item_and_in_namespaces_are_tools() {
    let text = "[[turn]]\n[[turn.call]]\ntool = \"exec\"\nraw = \"text(1)\"\n\
                [[turn.call]]\ntool = \"wait\"\n";
    let script = Scenario::Script(Script::parse_toml("exec.toml", text).unwrap());
    let sim = Sim::new(Config::new(script));
    let exec = json!({"type": "custom", "name": "exec", "description": "Runs JavaScript."});
    let wait = json!({"type": "function", "name": "wait", "parameters": {"type": "object"}});
    let space = json!({"type": "namespace", "name": "functions", "tools": [exec, wait]});
    let item = json!({"type": "additional_tools", "role": "developer", "tools": [space]});
    let mut added = body(vec![item, user("go")]);
    added.as_object_mut().unwrap().remove("tools");
    let field = with(body(vec![user("go")]), json!({"tools": [space]}));
    for (name, body) in [("in an item", added), ("in the field", field)] {
        let (status, said) = API.json(&sim, &body);
        assert_eq!(status, 200, "{name}: {said}");
        let kinds: Vec<_> = said["output"].as_array().unwrap().iter().map(|i| &i["type"]).collect();
        assert_eq!(kinds, ["custom_tool_call", "function_call"], "{name}");
        assert_eq!(said["output"][0]["input"], "text(1)", "{name}");
    }
}

#[test]
fn sampling_is_taken_where_reasoning_is_switched_off() {
    let ask = |model: &str, effort: &str| {
        let cool = json!({"temperature": 0.5, "reasoning": {"effort": effort}});
        with(API.body(model, vec![user("hello")]), cool)
    };
    let refused = "'temperature' does not support 0.5 with this model.";
    for (model, effort, status, said) in [
        ("gpt-5.4-nano", "none", 200, ""),
        ("gpt-5.4-nano", "low", 400, refused),
        ("gpt-5-nano", "none", 400, refused),
        ("o3", "none", 400, refused),
    ] {
        check(API, &format!("{model} {effort}"), &ask(model, effort), status, said);
    }
}
