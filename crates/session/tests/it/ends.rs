//! The ends of responses that providers document nowhere, or new ones: neither natural nor cut.
//! What came is passed on as it came, and nothing is asked for once more.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::Role;
use softland_core::policy::Policy;
use softland_session::wire::Api;
use softland_session::{Context, Exchange, Output, Step, UnfinishedResponse};

/// Begins an exchange of a client that streams, with a history that ends in a result.
pub(crate) fn begin_with(api: Api, streams: bool, policy: Policy) -> Exchange {
    let call = "call_000000000001";
    let body = match api {
        Api::Anthropic => {
            json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "stream": streams,
            "tools": [{"name": "t", "input_schema": {"type": "object"}}], "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": call, "name": "t", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": call, "content": "x"}]}]})
        }
        Api::Chat => json!({"model": "gpt-5.1", "stream": streams,
            "tools": [{"type": "function", "function": {"name": "t"}}], "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": call,
                    "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": call, "content": "x"}]}),
        Api::Responses => json!({"model": "gpt-5.1", "stream": streams, "store": false,
            "tools": [{"type": "function", "name": "t"}], "input": [
                {"role": "user", "content": "go"},
                {"type": "function_call", "call_id": call, "name": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": call, "output": "x"}]}),
    };
    let mut context = Context::new(Role::Gateway, policy, None, "m");
    context.api = api;
    let mut exchange =
        Exchange::from_request(body.to_string().into_bytes(), context, &mut Output::default())
            .unwrap();
    let Step::Send(_) = exchange.next_step().unwrap() else { panic!("nothing was sent") };
    exchange
}

fn events(list: &[Value]) -> String {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    list.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect()
}

/// A streamed message of these blocks, each whole in its start or with a delta, and its reason.
fn anthropic(block: &Value, delta: Option<Value>, reason: &Value) -> String {
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 5, "output_tokens": 1}});
    let mut list = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    list.extend(
        delta.map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})),
    );
    list.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]);
    events(&list)
}

fn chunk(delta: &Value, finish: &Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn chat(deltas: &[Value], finish: &Value) -> String {
    let said: String = deltas.iter().map(|delta| chunk(delta, &Value::Null)).collect();
    said + &chunk(&json!({}), finish) + "data: [DONE]\n\n"
}

#[derive(Debug, PartialEq)]
enum After {
    /// The client has the bytes as they came, and nothing more is sent.
    AsItCame,
    /// The model is asked once more.
    Asked,
}

#[test]
fn an_unknown_end_is_passed_on_and_not_asked_again() {
    let compaction = json!({"type": "compaction", "content": null});
    let summary = json!({"type": "compaction_delta", "content": "x was done"});
    let call = json!({"tool_calls": [{"index": 0, "id": "call_000000000002", "type": "function",
        "function": {"name": "t", "arguments": "{}"}}]});
    let text = |text: &str| json!({"type": "text", "text": text});
    for (api, stream, after) in [
        (
            Api::Anthropic,
            anthropic(&compaction, Some(summary), &json!("compaction")),
            After::AsItCame,
        ),
        (Api::Anthropic, anthropic(&text(""), None, &json!("of_tomorrow")), After::AsItCame),
        (Api::Anthropic, anthropic(&text("yes"), None, &json!("of_tomorrow")), After::AsItCame),
        (Api::Anthropic, anthropic(&text(""), None, &json!("end_turn")), After::Asked),
        (Api::Chat, chat(&[], &json!("of_tomorrow")), After::AsItCame),
        (Api::Chat, chat(&[json!({"content": "yes"})], &Value::Null), After::AsItCame),
        (Api::Chat, chat(std::slice::from_ref(&call), &Value::Null), After::AsItCame),
        (Api::Chat, chat(&[call], &json!("eos")), After::AsItCame),
        (Api::Chat, chat(&[], &json!("stop")), After::Asked),
        (
            Api::Chat,
            chat(&[json!({"content": "<think>Let me see.</think>"})], &json!("stop")),
            After::Asked,
        ),
        (
            Api::Chat,
            chat(&[json!({"content": "<think>Hm.</think>Yes."})], &json!("stop")),
            After::AsItCame,
        ),
    ] {
        let mut exchange = begin_with(api, true, Policy::default());
        let mut out = Output::default();
        exchange.push_bytes(stream.as_bytes(), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
        let step = exchange.next_step().unwrap();
        match step {
            Step::Send(_) => assert_eq!(after, After::Asked, "{stream}"),
            Step::Done(_) => {
                assert_eq!(after, After::AsItCame, "{stream}");
                // A block that shows nothing is left out: clients echo it, and are refused.
                if !stream.contains(r#""text":"","#) && !stream.contains(r#""text":"""#) {
                    assert_eq!(String::from_utf8(out.bytes.clone()).unwrap(), stream);
                }
            }
        }
    }
}

/// Some servers report usage in a `message_delta` before the one that ends the message, or behind
/// it.
#[test]
fn c93_a_second_report_of_usage_stays_in_its_place() {
    let text = json!({"type": "text", "text": ""});
    let delta = Some(json!({"type": "text_delta", "text": "yes"}));
    let stream = anthropic(&text, delta, &json!("end_turn"));
    let whole: Vec<&str> = stream.split_inclusive("\n\n").collect();
    let usage = json!({"output_tokens": 1});
    for report in [
        json!({"type": "message_delta", "delta": {}, "usage": usage}),
        json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": usage}),
    ] {
        for at in 1..whole.len() {
            let mut list: Vec<String> = whole.iter().map(|event| (*event).to_owned()).collect();
            list.insert(at, events(std::slice::from_ref(&report)));
            let sent = list.concat();
            let mut exchange = begin_with(Api::Anthropic, true, Policy::default());
            let mut out = Output::default();
            exchange.push_bytes(sent.as_bytes(), &mut out).unwrap();
            exchange.finish_response(&mut out).unwrap();
            let Step::Done(_) = exchange.next_step().unwrap() else { panic!("asked again") };
            assert_eq!(String::from_utf8(out.bytes).unwrap(), sent, "at {at}");
        }
    }
}

/// A response that is not streamed is passed on whole.
#[test]
fn a_whole_response_with_an_unknown_end_stays() {
    let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "compaction", "content": "x was done"}], "stop_reason": "compaction",
        "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1}})
    .to_string();
    let mut exchange = begin_with(Api::Anthropic, false, Policy::default());
    let mut out = Output::default();
    exchange.push_whole(body.as_bytes(), &mut out).unwrap();
    assert!(matches!(exchange.next_step().unwrap(), Step::Done(_)));
    assert_eq!(String::from_utf8(out.bytes.clone()).unwrap(), body);
}

/// An error in another protocol's form, or in none, is an error, and its words are told.
#[test]
fn an_error_in_another_form_keeps_its_words() {
    let nested = r#"{"error":{"code":400,"message":"the context is full","type":"x"}}"#;
    let flat = r#"{"code":400,"message":"the context is full"}"#;
    let forms = [
        format!("error: {flat}\n\ndata: [DONE]\n\n"),
        format!("error: {nested}\n\n"),
        format!("data: {nested}\n\n"),
        format!("event: error\ndata: {flat}\n\n"),
        format!("event: error\ndata: {nested}\n\n"),
        "data: {\"error\":\"the context is full\"}\n\n".to_owned(),
        "data: the context is full\n\n".to_owned(),
        // A body that is called a stream, and is none.
        nested.to_owned(),
        nested.replace(',', ",\r\n ") + "\n",
    ];
    for api in [Api::Anthropic, Api::Chat, Api::Responses] {
        for form in &forms {
            let mut exchange = begin_with(api, true, Policy::default());
            let mut out = Output::default();
            let pushed = exchange.push_bytes(form.as_bytes(), &mut out).map_err(|e| e.to_string());
            let ended = exchange.finish_response(&mut out);
            let why = match (pushed, ended) {
                (Err(why), _) => why,
                (Ok(()), Err(why @ UnfinishedResponse::Error { .. })) => why.to_string(),
                other => panic!("{api:?} {form}: {other:?}"),
            };
            assert!(why.contains("the context is full"), "{api:?} {form}: {why}");
        }
    }
    let only_words = "data: {\"detail\":\"the context is full\"}\n\n";
    let mut exchange = begin_with(Api::Chat, true, Policy::default());
    exchange.push_bytes(only_words.as_bytes(), &mut Output::default()).unwrap();
    let ended = exchange.finish_response(&mut Output::default()).unwrap_err().to_string();
    assert!(ended.contains("the context is full"), "{ended}");
}

/// Forms of errors that no protocol has, each with these words.
const FOREIGN: [&str; 9] = [
    r#"[{"error":{"code":400,"message":"the context is full","status":"INVALID_ARGUMENT"}}]"#,
    r#"{"result":null,"success":false,"errors":[{"code":7009,"message":"the context is full"}]}"#,
    r#"{"id":"x","choices":null,"base_resp":{"status_code":1004,"status_msg":"the context is full"}}"#,
    r#"{"error_code":336003,"error_msg":"the context is full","id":"as-1"}"#,
    r#"{"detail":"the context is full"}"#,
    r#"{"detail":[{"loc":["body"],"msg":"the context is full","type":"value_error"}]}"#,
    r#"{"message":"the context is full"}"#,
    r#"{"code":"InvalidParameter","message":"the context is full","request_id":"r"}"#,
    r#"{"title":"Bad Request","status":400,"detail":"the context is full"}"#,
];

/// What a stream of these bytes ends with, in words.
fn end_of(api: Api, bytes: &str) -> Result<(), String> {
    let mut exchange = begin_with(api, true, Policy::default());
    let mut out = Output::default();
    exchange.push_bytes(bytes.as_bytes(), &mut out).map_err(|error| error.to_string())?;
    exchange.finish_response(&mut out).map_err(|error| error.to_string())
}

#[test]
fn c152_an_error_in_a_form_of_no_protocol_keeps_its_words() {
    for api in [Api::Anthropic, Api::Chat, Api::Responses] {
        for form in FOREIGN {
            let mut exchange = begin_with(api, false, Policy::default());
            let whole = exchange.push_whole(form.as_bytes(), &mut Output::default()).unwrap_err();
            assert!(whole.to_string().contains("the context is full"), "{api:?} {form}: {whole}");
            assert!(whole.is_told_by_provider(), "{api:?} {form}");
            for frame in [format!("data: {form}\n\n"), format!(": alive\n\ndata: {form}\n\n")] {
                let why = end_of(api, &frame).unwrap_err();
                assert!(why.contains("the context is full"), "{api:?} {frame}: {why}");
            }
        }
    }
    // Within a stream, too.
    let begun = chunk(&json!({"content": "Here"}), &Value::Null);
    for form in FOREIGN {
        let why = end_of(Api::Chat, &format!("{begun}data: {form}\n\n")).unwrap_err();
        assert!(why.contains("the context is full"), "{form}: {why}");
    }
}

#[test]
fn c152_words_that_are_no_error_end_nothing() {
    let said = chunk(&json!({"content": "Here it is."}), &Value::Null);
    let end = chunk(&json!({}), &json!("stop")) + "data: [DONE]\n\n";
    let with = |more: &str| said.replacen('{', &format!("{{{more},"), 1);
    for begun in [
        with(r#""base_resp":{"status_code":0,"status_msg":"success"}"#),
        with(r#""error_msg":"""#),
        with(r#""errors":null"#),
        said.clone() + "data: {\"type\":\"note\",\"id\":\"n\",\"message\":\"well\"}\n\n",
    ] {
        assert_eq!(end_of(Api::Chat, &(begun.clone() + &end)), Ok(()), "{begun}");
    }
    let note = json!({"type": "of_tomorrow", "message": "well"});
    let started = json!({"type": "message_start", "message": {"id": "m", "type": "message",
        "role": "assistant", "model": "c", "content": [], "usage": {"input_tokens": 5,
        "output_tokens": 1}}});
    let cut = events(&[
        started.clone(),
        note.clone(),
        json!({"type": "message_delta",
        "delta": {"stop_reason": null}, "usage": {"output_tokens": 1}}),
    ]);
    let why = end_of(Api::Anthropic, &cut).unwrap_err();
    assert!(!why.contains("well"), "what came before the last event is not its reason: {why}");
    let why = end_of(Api::Anthropic, &events(&[started, note])).unwrap_err();
    assert!(why.contains("cut") && why.contains("well"), "{why}");
}

/// A stream that breaks behind the reason for its end, and before the end, is no whole message.
#[test]
fn a_stream_that_breaks_behind_its_reason_is_broken() {
    let said = chunk(&json!({"content": "Here it is."}), &Value::Null)
        + &chunk(&json!({}), &json!("stop"));
    let done = said.clone() + "data: [DONE]\n\n";
    for (bytes, breaks, whole) in [
        (said.clone() + "data: {\"id\": \"c\", \"object\": \"chat.comp", false, false),
        (said.clone(), true, false),
        // Some vendors end without `[DONE]`, and some close badly behind it.
        (said, false, true),
        (done.clone(), true, true),
        (done + ": by", false, true),
    ] {
        let mut exchange = begin_with(Api::Chat, true, Policy::default());
        let mut out = Output::default();
        exchange.push_bytes(bytes.as_bytes(), &mut out).unwrap();
        if breaks {
            exchange.note_broken_stream();
        }
        let ended = exchange.finish_response(&mut out);
        assert_eq!(ended.is_ok(), whole, "{bytes}: {ended:?}");
    }
}

/// A piece of a chunk that has to be divided keeps all members of its own.
#[test]
fn a_divided_chunk_keeps_the_members_of_its_calls() {
    let mut policy = Policy::default();
    // One call is left of the two.
    policy.set_key("tool_calls_limit", &softland_core::policy::PolicyValue::Int(2)).unwrap();
    let signature = json!({"google": {"thought_signature": "c2ln"}});
    let piece = |n: u32, more: Value| {
        let mut piece =
            json!({"index": n, "id": format!("call_00000000001{n}"), "type": "function"});
        piece.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        piece
    };
    let function = |arguments: Value| json!({"name": "t", "arguments": arguments});
    for more in [
        json!({"function": function(json!("{\"p\":\"a\"}")), "extra_content": signature}),
        json!({"function": function(json!({"p": "a"}))}),
        json!({"type": "custom", "custom": {"name": "t", "input": "*** Begin"}}),
        json!({"function": function(json!("{}")), "of_tomorrow": [1, {"a": null}]}),
    ] {
        let calls = json!({"tool_calls": [piece(0, more.clone()), piece(1, more.clone())]});
        let usage = json!({"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5});
        let mut beside: Value =
            serde_json::from_str(&chunk(&calls, &json!("tool_calls"))[6..]).unwrap();
        beside["usage"] = usage;
        for stream in [
            chat(std::slice::from_ref(&calls), &json!("tool_calls")),
            format!("data: {beside}\n\ndata: [DONE]\n\n"),
        ] {
            let mut exchange = begin_with(Api::Chat, true, policy.clone());
            let mut out = Output::default();
            exchange.push_bytes(stream.as_bytes(), &mut out).unwrap();
            exchange.finish_response(&mut out).unwrap();
            assert!(matches!(exchange.next_step().unwrap(), Step::Done(_)), "{stream}");
            let shown = String::from_utf8(out.bytes.clone()).unwrap();
            let pieces: Vec<Value> = shown
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
                .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().cloned())
                .flatten()
                .collect();
            assert_eq!(pieces, [piece(0, more.clone())], "{stream}\n{shown}");
        }
    }
}
