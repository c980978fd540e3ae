//! A line stands only where it fits: the forms of tool results, each with its place for a line or
//! without one, at a countdown and at a limit.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::Role;
use softland_core::policy::{Policy, PolicyValue as Key};
use softland_session::wire::Api;
use softland_session::{Context, Event, Exchange, Intervention, Output, Step};

/// The place of a line in a result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// At the end of the text at this pointer.
    At(&'static str),
    /// Nowhere: the form has no text, or code waits for it.
    Closed,
}
use Place::{At, Closed};

/// A result as the client sends it: its call, the result, and the place of a line.
type Row = (Value, Value, Place);

fn anthropic(content: Value, place: Place) -> Row {
    let call = json!({"type": "tool_use", "id": "toolu_000000000001", "name": "t", "input": {}});
    (
        call,
        json!({"type": "tool_result", "tool_use_id": "toolu_000000000001", "content": content}),
        place,
    )
}

fn called_by(kind: &str, place: Place) -> Row {
    let (mut call, result, _) = anthropic(json!("{\"a\":1}"), place);
    call["caller"] = json!({"type": kind, "tool_id": "srvtoolu_1"});
    (call, result, place)
}

fn responses(call: &str, output: &str, value: Value, place: Place) -> Row {
    let id = "call_000000000001";
    let mut result = json!({"type": output, "call_id": id});
    result.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    let call = json!({"type": call, "call_id": id, "name": "t", "arguments": "{}", "input": "",
        "action": {"commands": ["ls"]}});
    (call, result, place)
}

fn by_program(mut row: Row) -> Row {
    row.0["caller"] = json!({"type": "program", "caller_id": "p"});
    row.1["caller"] = row.0["caller"].clone();
    (row.0, row.1, Closed)
}

fn rows(api: Api) -> Vec<Row> {
    let text = json!({"type": "text", "text": "x"});
    let image = json!({"type": "image", "source": {"type": "base64", "data": "AA"}});
    match api {
        Api::Anthropic => vec![
            anthropic(json!("x"), At("/content")),
            anthropic(json!([text]), At("/content/0/text")),
            anthropic(json!([image]), At("/content/1/text")),
            anthropic(json!([text, image]), At("/content/0/text")),
            anthropic(
                json!([{"type": "document"}, {"type": "search_result"}]),
                At("/content/2/text"),
            ),
            anthropic(json!([{"type": "tool_reference", "tool_name": "u"}]), Closed),
            anthropic(json!([text, {"type": "of_tomorrow"}]), Closed),
            called_by("direct", At("/content")),
            called_by("code_execution_20250825", Closed),
            called_by("code_execution_20270101", Closed),
        ],
        Api::Chat => vec![
            (
                chat_call(),
                json!({"role": "tool", "tool_call_id": "call_000000000001", "content": "x"}),
                At("/content"),
            ),
            (
                chat_call(),
                json!({"role": "tool", "tool_call_id": "call_000000000001", "content": [text]}),
                At("/content/0/text"),
            ),
            (
                chat_call(),
                json!({"role": "tool", "tool_call_id": "call_000000000001", "content": [{"type": "of_tomorrow"}]}),
                Closed,
            ),
        ],
        Api::Responses => {
            let function =
                |value| responses("function_call", "function_call_output", value, At("/output"));
            vec![
                function(json!({"output": "x"})),
                responses(
                    "function_call",
                    "function_call_output",
                    json!({"output": [{"type": "input_text", "text": "x"}]}),
                    At("/output/0/text"),
                ),
                responses(
                    "function_call",
                    "function_call_output",
                    json!({"output": [{"type": "input_image", "image_url": "u"}]}),
                    At("/output/1/text"),
                ),
                responses(
                    "custom_tool_call",
                    "custom_tool_call_output",
                    json!({"output": "x"}),
                    At("/output"),
                ),
                responses(
                    "apply_patch_call",
                    "apply_patch_call_output",
                    json!({"status": "completed", "output": "x"}),
                    At("/output"),
                ),
                responses(
                    "apply_patch_call",
                    "apply_patch_call_output",
                    json!({"status": "completed"}),
                    At("/output"),
                ),
                responses(
                    "shell_call",
                    "shell_call_output",
                    json!({"output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
                    At("/output/0/stdout"),
                ),
                responses("shell_call", "shell_call_output", json!({"output": []}), Closed),
                responses(
                    "local_shell_call",
                    "local_shell_call_output",
                    json!({"output": "{\"stdout\":\"x\"}"}),
                    Closed,
                ),
                responses(
                    "computer_call",
                    "computer_call_output",
                    json!({"output": {"type": "computer_screenshot", "image_url": "data:,"}}),
                    Closed,
                ),
                responses(
                    "tool_search_call",
                    "tool_search_output",
                    json!({"status": "completed", "tools": []}),
                    Closed,
                ),
                responses(
                    "of_tomorrow_call",
                    "of_tomorrow_call_output",
                    json!({"output": "x"}),
                    Closed,
                ),
                by_program(function(json!({"output": "{}"}))),
                by_program(responses(
                    "custom_tool_call",
                    "custom_tool_call_output",
                    json!({"output": "x"}),
                    Closed,
                )),
            ]
        }
    }
}

fn chat_call() -> Value {
    json!({"id": "call_000000000001", "type": "function", "function": {"name": "t", "arguments": "{}"}})
}

/// Returns a conversation in which the results of these rows came back one after the other, with
/// ids of their own.
fn conversation(api: Api, rows: &[&Row]) -> Value {
    let mut list = vec![json!({"role": "user", "content": "go"})];
    for (n, (call, result, _)) in rows.iter().enumerate() {
        let own = |value: &Value| -> Value {
            let text = value.to_string().replace("00000001\"", &format!("0000000{}\"", n + 1));
            serde_json::from_str(&text).unwrap()
        };
        match api {
            Api::Anthropic => {
                list.push(json!({"role": "assistant", "content": [own(call)]}));
                list.push(json!({"role": "user", "content": [own(result)]}));
            }
            Api::Chat => {
                list.push(json!({"role": "assistant", "content": null, "tool_calls": [own(call)]}));
                list.push(own(result));
            }
            Api::Responses => list.extend([own(call), own(result)]),
        }
    }
    let tool = match api {
        Api::Anthropic => json!({"name": "t", "input_schema": {"type": "object"}}),
        Api::Chat => json!({"type": "function", "function": {"name": "t"}}),
        Api::Responses => json!({"type": "function", "name": "t"}),
    };
    match api {
        Api::Responses => {
            json!({"model": "gpt-5.1", "input": list, "tools": [tool], "store": false})
        }
        Api::Chat => json!({"model": "gpt-5.1", "messages": list, "tools": [tool]}),
        Api::Anthropic => json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": list,
            "tools": [tool]}),
    }
}

/// Returns what is sent first for a body under a limit of calls, with the interventions on it.
fn govern(api: Api, body: &Value, limit: i128) -> (Value, Vec<Intervention>) {
    let mut policy = Policy::default();
    policy.set_key("tool_calls_limit", &Key::Int(limit)).unwrap();
    let mut context = Context::new(Role::Gateway, policy, None, "m");
    context.api = api;
    let mut out = Output::default();
    let bytes = body.to_string().into_bytes();
    let mut exchange = Exchange::from_request(bytes, context, &mut out).unwrap();
    let Step::Send(sent) = exchange.next_step().unwrap() else { panic!("nothing was sent") };
    let interventions = out.events.into_iter().filter_map(|event| match event {
        Event::Intervention { intervention, .. } => Some(intervention),
        _ => None,
    });
    (serde_json::from_slice(&sent).unwrap(), interventions.collect())
}

fn messages(body: &Value) -> &Vec<Value> {
    body.get("messages").or_else(|| body.get("input")).unwrap().as_array().unwrap()
}

/// Returns the result that stands in a message or item.
fn result_in(api: Api, message: &Value) -> &Value {
    if api == Api::Anthropic { &message["content"][0] } else { message }
}

const APIS: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

#[test]
fn a_line_stands_in_its_place_or_the_result_is_as_it_came() {
    for api in APIS {
        for row in &rows(api) {
            let body = conversation(api, &[row]);
            let came = result_in(api, messages(&body).last().unwrap()).clone();
            for (limit, line) in [(2, "1 tool call remaining"), (1, "Answer now")] {
                let (sent, done) = govern(api, &body, limit);
                let at = messages(&body).len() - 1;
                let result = result_in(api, &messages(&sent)[at]);
                let behind = &messages(&sent)[at + 1..];
                let whole = Value::from(behind.to_vec()).to_string();
                match row.2 {
                    At(pointer) => {
                        let text = result.pointer(pointer).and_then(Value::as_str).unwrap_or("");
                        assert!(text.contains(line), "{limit}: {result}");
                    }
                    Closed => {
                        assert_eq!(*result, came, "limit {limit}");
                        assert_eq!(done, [], "nothing is done to {came}");
                        assert_eq!(sent, body);
                    }
                }
                assert!(behind.is_empty(), "{whole}");
                let said = sent.to_string().contains("Answer now");
                assert_eq!(done.contains(&Intervention::Ask), said, "{done:?}: {sent}");
            }
        }
    }
}

/// The next result with room carries what found none: it counts anew.
#[test]
fn the_next_result_carries_the_line() {
    for api in APIS {
        let rows = rows(api);
        let open = rows.iter().find(|row| matches!(row.2, At("/content" | "/output"))).unwrap();
        for closed in rows.iter().filter(|row| !matches!(row.2, At(_))) {
            let body = conversation(api, &[closed, closed, open]);
            // Milestones are shown at half of the calls, which the first two results cross.
            let (sent, done) = govern(api, &body, 4);
            let last = result_in(api, messages(&sent).last().unwrap()).to_string();
            assert!(last.contains("1 tool call remaining"), "{last}");
            assert_eq!(done, [Intervention::Countdown]);
            let first = result_in(api, &messages(&sent)[2]);
            assert_eq!(first, result_in(api, &messages(&body)[2]));
        }
    }
}

/// What the model has seen of a history stays, however the history goes on.
#[test]
fn a_longer_history_begins_with_the_shorter_one() {
    for api in APIS {
        let rows = rows(api);
        for first in &rows {
            for second in &rows {
                let short = govern(api, &conversation(api, &[first]), 9).0;
                let long = govern(api, &conversation(api, &[first, second]), 9).0;
                let (short, long) = (messages(&short), messages(&long));
                assert_eq!(short[..], long[..short.len()]);
            }
        }
    }
}

/// Returns a whole response with one call, or with a text.
/// Returns a conversation of `rounds` equal rounds, with a message of the user behind each result.
fn conversation_with(api: Api, rounds: usize, behind: impl Fn(usize) -> Value) -> Value {
    let rows = rows(api);
    let mut body = conversation(api, &vec![&rows[0]; rounds]);
    let mut list = Vec::new();
    for message in messages(&body) {
        list.push(message.clone());
        let is_result = message["role"] == "tool"
            || message["type"] == "function_call_output"
            || message["content"][0]["type"] == "tool_result";
        if is_result {
            list.push(json!({"role": "user", "content": behind(list.len())}));
        }
    }
    let name = if api == Api::Responses { "input" } else { "messages" };
    body[name] = list.into();
    body
}

fn image(api: Api, data: usize) -> Value {
    match api {
        Api::Anthropic => json!([{"type": "image", "source": {"type": "base64",
            "media_type": "image/png", "data": format!("A{data:03}")}}]),
        Api::Chat => json!([{"type": "image_url",
            "image_url": {"url": format!("data:image/png;base64,A{data:03}")}}]),
        Api::Responses => json!([{"type": "input_image",
            "image_url": format!("data:image/png;base64,A{data:03}")}]),
    }
}

/// A line was sent and neither a header nor the ledger said so.
#[test]
fn c97_a_line_is_told_whatever_stands_behind_its_result() {
    for api in APIS {
        for (what, behind) in [("a text", json!("Try the left door.")), ("an image", image(api, 1))]
        {
            let (sent, told) = govern(api, &conversation_with(api, 2, |_| behind.clone()), 4);
            assert!(sent.to_string().contains("2 tool calls remaining"), "{api:?}, {what}: {sent}");
            assert_eq!(told, [Intervention::Countdown], "{api:?}, {what}");
            let (sent, told) = govern(api, &conversation_with(api, 4, |_| behind.clone()), 4);
            assert!(sent.to_string().contains("limit reached"), "{api:?}, {what}: {sent}");
            assert_eq!(told, [Intervention::Ask], "{api:?}, {what}");
        }
    }
}

/// Words behind results are steering, and a new image is progress. An image that comes again is none.
#[test]
fn c97_whoever_is_steered_or_shown_something_new_is_in_no_loop() {
    for api in APIS {
        for rounds in 1..12 {
            let said = conversation_with(api, rounds, |n| json!(format!("Take door {n}.")));
            assert_eq!(govern(api, &said, 100).1, [], "{api:?}, steered, {rounds}");
            let shown = conversation_with(api, rounds, |n| image(api, n));
            assert_eq!(govern(api, &shown, 100).1, [], "{api:?}, shown, {rounds}");
        }
        let same =
            (1..12).map(|n| govern(api, &conversation_with(api, n, |_| image(api, 1)), 100).1);
        let noted = same.into_iter().position(|told| told == [Intervention::Note]);
        assert_eq!(noted, Some(3), "{api:?}: the first image is new, and three more are a loop");
    }
}

fn response(api: Api, call: Option<&Value>) -> Value {
    match (api, call) {
        (Api::Anthropic, call) => {
            let text = json!({"type": "text", "text": "It is one."});
            let stop = if call.is_some() { "tool_use" } else { "end_turn" };
            json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_sequence": null,
                "model": "claude-sonnet-4-5", "content": [call.unwrap_or(&text)],
                "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 10}})
        }
        (Api::Chat, call) => {
            let message = match call {
                Some(call) => json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                None => json!({"role": "assistant", "content": "It is one."}),
            };
            let finish = if call.is_some() { "tool_calls" } else { "stop" };
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.1",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}})
        }
        (Api::Responses, call) => {
            let text = json!({"type": "message", "id": "m", "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "It is one.", "annotations": []}]});
            json!({"id": "resp_1", "object": "response", "status": "completed",
                "model": "gpt-5.1", "output": [call.unwrap_or(&text)],
                "usage": {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}})
        }
    }
}

/// True if an item answers a call in a form that the API knows.
fn is_answer(item: &Value) -> bool {
    let output = &item["output"];
    match item["type"].as_str().unwrap_or_default() {
        "shell_call_output" => output.as_array().is_some_and(|parts| {
            let known = ["stdout", "stderr", "outcome"];
            let own =
                |part: &Value| part.as_object().unwrap().keys().all(|k| known.contains(&&**k));
            !parts.is_empty() && parts.iter().all(own)
        }),
        "local_shell_call_output" => {
            output.as_str().is_some_and(|text| serde_json::from_str::<Value>(text).is_ok())
        }
        "apply_patch_call_output" => item["status"] == "failed" && output.is_string(),
        "computer_call_output" => {
            output["type"] == "computer_screenshot" && output["image_url"].is_string()
        }
        "tool_search_output" => item["tools"].is_array() && item["status"] == "completed",
        _ => item["type"] == "tool_result" || item["role"] == "tool" || output.is_string(),
    }
}

/// Where no line fits, the run lands all the same: its next calls are refused, each in its own
/// form.
#[test]
fn c91_calls_beyond_a_limit_are_refused_in_their_form() {
    for api in APIS {
        for (call, result, place) in rows(api) {
            let row = (call, result, place);
            let body = conversation(api, &[&row]);
            let mut policy = Policy::default();
            policy.set_key("tool_calls_limit", &Key::Int(1)).unwrap();
            let mut context = Context::new(Role::Gateway, policy, None, "m");
            context.api = api;
            let mut out = Output::default();
            let bytes = body.to_string().into_bytes();
            let mut exchange = Exchange::from_request(bytes, context, &mut out).unwrap();
            let Step::Send(first) = exchange.next_step().unwrap() else { panic!("nothing sent") };
            let first: Value = serde_json::from_slice(&first).unwrap();
            let again = row.0.to_string().replace("00000001\"", "00000002\"");
            let again: Value = serde_json::from_str(&again).unwrap();
            let calls = response(api, Some(&again)).to_string();
            exchange.push_whole(calls.as_bytes(), &mut out).unwrap();
            let Step::Send(sent) = exchange.next_step().unwrap() else { panic!("no refusal") };
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            let before = messages(&first).len();
            assert_eq!(messages(&sent)[..before], messages(&first)[..], "{sent}");
            let tail = &messages(&sent)[before..];
            let told = Value::from(tail.to_vec()).to_string();
            assert!(told.contains("Answer now"), "{told}");
            let answers: Vec<&Value> = match api {
                Api::Anthropic => tail[1]["content"].as_array().unwrap().iter().collect(),
                _ => tail[1..].iter().take(1).collect(),
            };
            assert!(answers.iter().all(|answer| is_answer(answer)), "{told}");
            exchange.push_whole(response(api, None).to_string().as_bytes(), &mut out).unwrap();
            let Step::Done(done) = exchange.next_step().unwrap() else { panic!("not done") };
            assert_eq!(done.ended.unwrap().outcome, softland_core::Outcome::Landed);
            assert!(!String::from_utf8(out.bytes.clone()).unwrap().contains("00000002\""));
        }
    }
}

/// Where no line fits, the model is told nothing, and its answer is its own.
#[test]
fn c162_an_answer_that_no_note_asked_for_is_no_landing() {
    for api in APIS {
        for (call, result, place) in rows(api) {
            for (limit, at_limit) in [(1, true), (2, false)] {
                let body = conversation(api, &[&(call.clone(), result.clone(), place)]);
                let mut policy = Policy::default();
                policy.set_key("tool_calls_limit", &Key::Int(limit)).unwrap();
                let mut context = Context::new(Role::Gateway, policy, None, "m");
                context.api = api;
                let mut out = Output::default();
                let bytes = body.to_string().into_bytes();
                let mut exchange = Exchange::from_request(bytes, context, &mut out).unwrap();
                let Step::Send(sent) = exchange.next_step().unwrap() else { panic!("not sent") };
                let told = String::from_utf8(sent.to_vec()).unwrap().contains("Answer now");
                assert_eq!(told, at_limit && place != Closed, "{result}");
                assert_eq!(exchange.run().phase().is_told(), told, "{result}");
                exchange.push_whole(response(api, None).to_string().as_bytes(), &mut out).unwrap();
                let Step::Done(done) = exchange.next_step().unwrap() else { panic!("not done") };
                let ended = done.ended.unwrap();
                let (outcome, limit) = match told {
                    true => (softland_core::Outcome::Landed, Some("tool_calls_limit".into())),
                    false => (softland_core::Outcome::Answered, None),
                };
                assert_eq!((ended.outcome, ended.limit), (outcome, limit), "{result}");
                assert_eq!(ended.rung.is_some(), told, "{result}");
            }
        }
    }
}
