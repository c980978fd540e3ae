//! What OpenAI's protocols say in members and items of their own: it passes as it came, and counts
//! for what it is.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a failed step is a failed test; a recording is read at run time"
)]

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Outcome, RequestFailure, Role};
use softland_session::wire::Api;
use softland_session::{Context, Done, Exchange, Output, Step, UnfinishedResponse};

/// One client request: what went upstream for it, and what came of it.
struct Relayed {
    got: String,
    bodies: Vec<Value>,
    done: Done,
}

/// Relays these responses for one request, each cut into pieces; the last one stands for all that
/// are asked for beyond them.
fn relayed(api: Api, limit: u64, responses: &[String], streams: bool, piece: usize) -> Relayed {
    let history = if api == Api::Responses { "input" } else { "messages" };
    let tool = match api {
        Api::Chat => json!({"type": "function", "function": {"name": "grep"}}),
        Api::Responses => json!({"type": "function", "name": "grep"}),
        Api::Anthropic => json!({"name": "grep", "input_schema": {"type": "object"}}),
    };
    let mut body = json!({"model": "gpt-4.1", "stream": streams, "tools": [tool]});
    body[history] = json!([{"role": "user", "content": "go"}]);
    let policy = Policy { tool_calls_limit: Some(limit), ..Policy::default() };
    let mut context = Context::new(Role::Gateway, policy, None, "gpt-4.1");
    context.api = api;
    let (mut out, mut bodies) = (Output::default(), Vec::new());
    let mut exchange =
        Exchange::from_request(body.to_string().into_bytes(), context, &mut out).unwrap();
    loop {
        match exchange.next_step().unwrap() {
            Step::Send(body) => bodies.push(serde_json::from_slice(&body).unwrap()),
            Step::Done(done) => {
                let got = String::from_utf8(out.bytes).unwrap();
                return Relayed { got, bodies, done: *done };
            }
        }
        let response = responses.get(bodies.len() - 1).or_else(|| responses.last()).unwrap();
        if !streams {
            exchange.push_whole(response.as_bytes(), &mut out).unwrap();
            continue;
        }
        for bytes in response.as_bytes().chunks(piece) {
            exchange.push_bytes(bytes, &mut out).unwrap();
        }
        match exchange.finish_response(&mut out) {
            Ok(()) => {}
            Err(UnfinishedResponse::Error { .. }) => {
                exchange.fail_request(RequestFailure::Provider, &mut out)
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// These pass as they are, however they are cut.
fn unchanged(api: Api, response: &str, streams: bool) -> Done {
    let mut done = None;
    for piece in [1, 9, 4096] {
        let relayed = relayed(api, 9, &[response.to_owned()], streams, piece);
        assert_eq!(relayed.got, response, "{api:?} streams: {streams}");
        assert_eq!(relayed.bodies.len(), 1, "{response}");
        done = Some(relayed.done);
    }
    done.unwrap()
}

/// A chunk of a stream of Chat Completions.
fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5,
        "model": "gpt-4.1", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

const DONE: &str = "data: [DONE]\n\n";

/// A stream of these deltas.
fn chunks(deltas: &[Value], finish: &str) -> String {
    let chunks = deltas.iter().map(|delta| chunk(delta, None));
    chunks.chain([chunk(&json!({}), Some(finish)), DONE.to_owned()]).collect()
}

/// A whole response of Chat Completions.
fn completion(message: &Value, finish: &str) -> String {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "gpt-4.1",
        "choices": [choice]})
    .to_string()
}

/// A response of these items, whole or streamed.
fn response(items: &[Value], streams: bool) -> String {
    let whole = |status: &str, items: &[Value]| {
        json!({"id": "resp_1", "object": "response", "created_at": 5, "status": status,
            "model": "gpt-4.1", "output": items})
    };
    if !streams {
        return whole("completed", items).to_string();
    }
    let mut events =
        vec![json!({"type": "response.created", "response": whole("in_progress", &[])})];
    for (n, item) in items.iter().enumerate() {
        let event = |kind: &str| json!({"type": kind, "output_index": n, "item_id": item["id"]});
        let mut begun = event("response.output_item.added");
        begun["item"] = item.clone();
        if item["type"] == "message" {
            begun["item"]["content"] = json!([]);
        }
        events.push(begun);
        if item["type"] == "message" {
            let text = &item["content"][0]["text"];
            let mut part = event("response.content_part.added");
            part["content_index"] = 0.into();
            part["part"] = json!({"type": "output_text", "text": "", "annotations": []});
            events.push(part);
            for (kind, member) in [("delta", "delta"), ("done", "text")] {
                let mut more = event(&format!("response.output_text.{kind}"));
                more["content_index"] = 0.into();
                more[member] = text.clone();
                events.push(more);
            }
        }
        if item["type"] == "reasoning" {
            let mut more = event("response.reasoning_summary_text.delta");
            more["summary_index"] = 0.into();
            more["delta"] = item["summary"][0]["text"].clone();
            events.push(more);
        }
        let mut ended = event("response.output_item.done");
        ended["item"] = item.clone();
        events.push(ended);
    }
    events.push(json!({"type": "response.completed", "response": whole("completed", items)}));
    let event = |(n, mut event): (usize, Value)| {
        event["sequence_number"] = n.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    };
    events.into_iter().enumerate().map(event).collect()
}

fn says(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [part]})
}

/// The data of a stream's events.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

// --- answers that are no text

fn image() -> Value {
    json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"})
}

/// An image, a tool's output and a compaction are what the client asked for: such a turn is not
/// empty, and nothing is asked again.
#[test]
fn an_item_that_gives_something_is_an_answer() {
    let called = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "x", "name": "t",
        "arguments": "{}", "output": "done"});
    let compacted = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"});
    for item in [image(), called, compacted] {
        for streams in [false, true] {
            let items = [item.clone()];
            let done = unchanged(Api::Responses, &response(&items, streams), streams);
            assert_eq!(done.ended.unwrap().outcome, Outcome::Answered, "{item}");
            // A text of nothing beside it is left out, as everywhere.
            let items = [item.clone(), says("")];
            let relayed = relayed(Api::Responses, 9, &[response(&items, streams)], streams, 64);
            assert_eq!(relayed.bodies.len(), 1, "{item}");
            let whole = match streams {
                true => events(&relayed.got).pop().unwrap()["response"].clone(),
                false => serde_json::from_str(&relayed.got).unwrap(),
            };
            assert_eq!(whole["output"][0], item);
        }
    }
}

/// What only the model reads is no answer: neither a search nor a call that gave nothing.
#[test]
fn an_item_that_gives_nothing_is_none() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let failed = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "x", "name": "t",
        "arguments": "{}", "output": null, "error": "gone"});
    let listed =
        json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "x", "tools": []});
    for item in [search, failed, listed] {
        for streams in [false, true] {
            let items = [
                response(std::slice::from_ref(&item), streams),
                response(&[says("Here.")], streams),
            ];
            let relayed = relayed(Api::Responses, 9, &items, streams, 64);
            assert_eq!(relayed.bodies.len(), 2, "{item}");
            assert!(relayed.got.contains("Here."), "{}", relayed.got);
        }
    }
}

fn audio() -> Value {
    json!({"id": "audio_1", "data": "QUJD", "transcript": "Hello", "expires_at": 9})
}

fn images() -> Value {
    json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}])
}

/// The same in Chat Completions, where they are members of the message.
#[test]
fn a_message_of_sound_or_images_is_an_answer() {
    let message = |name: &str, value: Value, content: Value| {
        let mut message = json!({"role": "assistant", "content": content});
        message[name] = value;
        message
    };
    for message in [
        message("audio", audio(), Value::Null),
        message("images", images(), json!("")),
        message("images", images(), Value::Null),
    ] {
        let done = unchanged(Api::Chat, &completion(&message, "stop"), false);
        assert_eq!(done.ended.unwrap().outcome, Outcome::Answered, "{message}");
    }
    let role = json!({"role": "assistant", "content": ""});
    let pieces = [
        json!({"audio": {"id": "audio_1", "transcript": "Hel"}}),
        json!({"audio": {"data": "QUJD"}}),
        json!({"audio": {"transcript": "lo"}}),
        json!({"audio": {"expires_at": 9}}),
    ];
    let stream = [&[role][..], &pieces[..]].concat();
    unchanged(Api::Chat, &chunks(&stream, "stop"), true);
    let image = [json!({"role": "assistant", "content": "", "images": images()})];
    unchanged(Api::Chat, &chunks(&image, "stop"), true);
    // An empty list is none, nor is what says something of a text.
    for nothing in [json!({"images": []}), json!({"audio": null}), json!({"channel": "final"})] {
        let turns = [chunks(&[nothing], "stop"), chunks(&[json!({"content": "Here."})], "stop")];
        assert_eq!(relayed(Api::Chat, 9, &turns, true, 64).bodies.len(), 2);
    }
}

/// What stands beside a text or calls stays, too, where the message is written anew.
#[test]
fn members_of_a_message_survive() {
    let call = |n: u32| {
        json!({"index": n, "id": format!("call_{n}"), "type": "function",
            "function": {"name": "grep", "arguments": "{}"}})
    };
    let calls = json!([call(0), call(1)]);
    let message = json!({"role": "assistant", "content": "So.", "tool_calls": calls,
        "audio": audio(), "annotations": [{"n": 1}]});
    let whole = relayed(Api::Chat, 1, &[completion(&message, "tool_calls")], false, 64);
    let got: Value = serde_json::from_str(&whole.got).unwrap();
    let got = &got["choices"][0]["message"];
    assert_eq!(got["tool_calls"].as_array().unwrap().len(), 1, "{got}");
    assert_eq!((&got["audio"], &got["annotations"]), (&audio(), &json!([{"n": 1}])), "{got}");
    // Behind a nudge nothing is shown before the verdict: the pieces come put together.
    let empty = chunks(&[json!({"role": "assistant", "content": ""})], "stop");
    let pieces = [
        json!({"role": "assistant", "audio": {"id": "audio_1", "transcript": "Hel"}}),
        json!({"audio": {"data": "QUJD"}}),
        json!({"audio": {"transcript": "lo", "expires_at": 9}, "images": images()}),
    ];
    let hidden = relayed(Api::Chat, 9, &[empty, chunks(&pieces, "stop")], true, 64);
    assert_eq!(hidden.bodies.len(), 2);
    let all = events(&hidden.got);
    let deltas: Vec<_> = all.iter().map(|event| &event["choices"][0]["delta"]).collect();
    let heard: Vec<_> = deltas.iter().filter(|delta| !delta["audio"].is_null()).collect();
    assert_eq!(heard.len(), 1, "{}", hidden.got);
    assert_eq!((&heard[0]["audio"], &heard[0]["images"]), (&audio(), &images()));
}

// --- beginnings

/// White space that opens a message is left out before a call; the role that came with it is not.
#[test]
fn a_role_outlives_the_white_space_it_came_with() {
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "grep", "arguments": "{}"}}]});
    let blank = json!({"role": "assistant", "content": "\n\n"});
    let said = |stream: &str| -> Vec<(String, String)> {
        let all = events(stream);
        let deltas = all.iter().map(|event| &event["choices"][0]["delta"]);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        deltas.map(|delta| (word(&delta["role"]), word(&delta["content"]))).collect()
    };
    let role = || ("assistant".to_owned(), String::new());
    let none = || (String::new(), String::new());
    let turn = |deltas: &[Value], finish: &str| vec![chunks(deltas, finish)];
    for piece in [1, 9, 4096] {
        let called = turn(&[blank.clone(), call.clone()], "tool_calls");
        let relayed_once = relayed(Api::Chat, 9, &called, true, piece);
        assert_eq!(said(&relayed_once.got), [role(), none(), none()], "{}", relayed_once.got);
        // In one chunk with a call.
        let mut both = call.clone();
        both["role"] = "assistant".into();
        both["content"] = "\n".into();
        let relayed_once = relayed(Api::Chat, 9, &turn(&[both], "tool_calls"), true, piece);
        let all = said(&relayed_once.got);
        assert_eq!(all[0], role(), "{}", relayed_once.got);
        assert!(all[1..].iter().all(|said| *said == none()), "{}", relayed_once.got);
        // Before an end, and before the answer to a nudge.
        let cut = relayed(Api::Chat, 9, &turn(std::slice::from_ref(&blank), "length"), true, piece);
        assert_eq!(said(&cut.got), [role(), none()], "{}", cut.got);
        let empty = chunks(std::slice::from_ref(&blank), "stop");
        let answer = chunks(&[json!({"role": "assistant", "content": "Here."})], "stop");
        let nudged = relayed(Api::Chat, 9, &[empty, answer], true, piece);
        assert_eq!(said(&nudged.got)[0], role(), "{}", nudged.got);
        assert_eq!(said(&nudged.got)[1].1, "Here.", "{}", nudged.got);
    }
    // Text that follows shows it came.
    unchanged(Api::Chat, &chunks(&[blank.clone(), json!({"content": "b"})], "stop"), true);
    unchanged(
        Api::Chat,
        &chunk(&json!({"role": "assistant", "content": "Here."}), Some("stop")),
        true,
    );
    unchanged(Api::Chat, &chunk(&blank, Some("length")), true);
}

// --- dialects

/// Mistral thinks in parts of its content.
#[test]
fn thinking_in_parts_passes_once() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let think = |texts: &[&str]| {
        let texts: Vec<_> = texts.iter().map(|more| text(more)).collect();
        json!({"type": "thinking", "thinking": texts})
    };
    let opened = json!({"role": "assistant", "content": ""});
    let stream = [
        opened.clone(),
        json!({"content": [think(&["h"])]}),
        json!({"content": [think(&["m", "m"])]}),
        json!({"content": "hello"}),
        json!({"content": [text(" there")]}),
    ];
    let done = unchanged(Api::Chat, &chunks(&stream, "stop"), true);
    assert_eq!(done.answer.unwrap(), "hello there");
    let whole = json!({"role": "assistant", "content": [think(&["hm"]), text("hello")]});
    unchanged(Api::Chat, &completion(&whole, "stop"), false);
    // Both in one chunk, and thinking alone, which is no answer.
    let both = json!({"content": [think(&["hm"]), text("hello")]});
    unchanged(Api::Chat, &chunks(&[opened.clone(), both], "stop"), true);
    let alone = chunks(&[opened, json!({"content": [think(&["hm"])]})], "stop");
    let said = chunks(&[json!({"content": "Here."})], "stop");
    let relayed = relayed(Api::Chat, 9, &[alone, said], true, 64);
    assert_eq!((relayed.bodies.len(), relayed.got.matches("hm").count()), (2, 1));
}

// --- reasoning

fn thinks(n: u32) -> Value {
    json!({"type": "reasoning", "id": format!("rs_{n}"), "encrypted_content": "E",
        "summary": [{"type": "summary_text", "text": format!("So {n}.")}]})
}

fn calls(n: u32) -> Value {
    json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"),
        "name": "grep", "arguments": "{}", "status": "completed"})
}

/// What the client has at the end, and the types and items of the events before it.
fn output(got: &str, streams: bool) -> Vec<Value> {
    if !streams {
        let whole: Value = serde_json::from_str(got).unwrap();
        return whole["output"].as_array().unwrap().clone();
    }
    let all = events(got);
    for (n, event) in all.iter().enumerate() {
        assert_eq!(event["sequence_number"], n, "{got}");
    }
    let done = all.iter().filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<_> = done.map(|event| event["item"].clone()).collect();
    let output = all.last().unwrap()["response"]["output"].as_array().unwrap().clone();
    assert_eq!(output, done, "{got}");
    output
}

/// Reasoning goes back with what followed it: where that is taken out of a batch, it is, too.
#[test]
fn reasoning_goes_with_the_call_behind_it() {
    let turn = [thinks(0), calls(1), thinks(2), calls(3), thinks(4), calls(5)];
    for streams in [false, true] {
        for (limit, kept) in [(1, 2), (2, 4), (3, 6), (9, 6)] {
            for piece in [1, 9, 4096] {
                let once = [response(&turn, streams)];
                let relayed = relayed(Api::Responses, limit, &once, streams, piece);
                assert_eq!(output(&relayed.got, streams), turn[..kept], "limit {limit}");
                assert!(!relayed.got.contains(&format!("So {kept}.")), "{}", relayed.got);
                if kept == turn.len() {
                    assert_eq!(relayed.got, once[0]);
                }
            }
        }
        // A text behind it is its following item as well, and reasoning at the end has none.
        let turn = [thinks(0), calls(1), thinks(2), says("Look."), calls(3), thinks(4)];
        let relayed = relayed(Api::Responses, 1, &[response(&turn, streams)], streams, 64);
        let kept = [0, 1, 2, 3, 5].map(|n| turn[n].clone());
        assert_eq!(output(&relayed.got, streams), kept, "{}", relayed.got);
        // Whatever of a thought passes, it passes before that.
        let turn = [thinks(0), calls(1), thinks(2), calls(3), says("Look.")];
        let relayed = self::relayed(Api::Responses, 1, &[response(&turn, streams)], streams, 64);
        let kept = [0, 1, 2, 4].map(|n| turn[n].clone());
        assert_eq!(output(&relayed.got, streams), kept, "{}", relayed.got);
    }
}

// --- ends

/// A stream that breaks off in an error is the provider's to its last byte, whatever came with its
/// end.
#[test]
fn an_error_behind_an_end_passes_as_it_came() {
    let error = r#"data: {"error":{"message":"boom","code":502}}

"#;
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "grep", "arguments": "{}"}});
    let first = chunk(&json!({"role": "assistant", "content": "a"}), None);
    for (last, finish) in [
        (json!({"content": "b"}), "length"),
        (json!({"content": "", "reasoning": "b"}), "length"),
        (json!({"tool_calls": [call]}), "tool_calls"),
    ] {
        for behind in ["", DONE] {
            let stream = [&first, &*chunk(&last, Some(finish)), error, behind].concat();
            let done = unchanged(Api::Chat, &stream, true);
            assert_eq!(done.ended.unwrap().outcome, Outcome::Failed, "{stream}");
        }
    }
    // A call that may not pass does not, but what was said beside it does, once.
    let limited = [
        &*chunk(&json!({"role": "assistant", "content": "a", "tool_calls": [call]}), None),
        &*chunk(
            &json!({"content": "b", "tool_calls": [{"index": 1, "id": "call_2",
                "type": "function", "function": {"name": "grep", "arguments": "{}"}}]}),
            Some("tool_calls"),
        ),
        error,
        DONE,
    ];
    let relayed = relayed(Api::Chat, 1, &[limited.concat()], true, 64);
    let all = events(&relayed.got);
    let text: String =
        all.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "ab", "{}", relayed.got);
    assert!(!relayed.got.contains("call_2"), "{}", relayed.got);
    assert!(relayed.got.ends_with(&[error, DONE].concat()), "{}", relayed.got);
}

/// The recorded one.
#[test]
#[ignore = "reads recordings from ../shared"]
fn a_recorded_error_passes_as_it_came() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/recordings/openrouter/error_mid_stream.sse"
    );
    let stream = std::fs::read_to_string(path).unwrap();
    unchanged(Api::Chat, &stream, true);
}
