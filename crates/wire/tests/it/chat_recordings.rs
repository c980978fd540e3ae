//! Every Chat Completions recording of the shared folder, in every dialect: the same message
//! however the stream is cut, and the same text, reasoning, calls, end and usage as an independent
//! reading of its JSON. The folder is not part of the repository; where it is absent these tests
//! say so and pass.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a failed step is a failed test; the recordings are read at run time"
)]

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value, json};
use softland_wire::{
    Splice,
    chat::{
        ApiError, Assembler, Event, Finished, RequestBody, RequestContent, RequestRole,
        ResponseMessage, StreamEnd,
        respond::{self, CallEdit},
    },
    sse::Decoder,
};

const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
const FOLDERS: [&str; 7] =
    ["openai-chat", "openrouter", "deepseek", "zai", "groq", "xai", "mistral"];

/// Returns name and bytes of every recording whose name contains `wanted`.
fn recordings(wanted: fn(&str) -> bool, at_least: usize) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let path = format!("{SHARED}/recordings/{folder}");
        // Not every provider has been recorded; `at_least` says how many recordings there must be.
        if !Path::new(&path).is_dir() {
            continue;
        }
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if wanted(&name) {
                found.push((format!("{folder}/{name}"), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.is_empty() || found.len() >= at_least, "only {} recordings", found.len());
    found
}

fn streams() -> Vec<(String, Vec<u8>)> {
    recordings(|name| name.ends_with(".sse"), 20)
}

fn is_body(name: &str) -> bool {
    name.ends_with(".json") && !name.ends_with(".req.json")
}

fn each_frame(chunks: &[&[u8]], mut each: impl FnMut(&str, &str, &[u8])) {
    let mut decoder = Decoder::new(1 << 24);
    let mut drain = |decoder: &mut Decoder| {
        while let Some(frame) = decoder.next() {
            let frame = frame.unwrap();
            each(frame.event, &frame.data, frame.raw);
        }
    };
    for chunk in chunks {
        decoder.push(chunk);
        drain(&mut decoder);
    }
    decoder.finish();
    drain(&mut decoder);
}

fn folded(chunks: &[&[u8]]) -> Finished {
    let mut assembler = Assembler::new(1 << 26);
    each_frame(chunks, |event, data, _| {
        if !data.is_empty() {
            assembler.push(&Event::from_data(event, data).unwrap()).unwrap();
        }
    });
    assembler.finish()
}

/// The content of a response, read without any code of the crate under test.
#[derive(Debug, Default)]
struct Reading {
    head: Map<String, Value>,
    /// The strings of the deltas, joined, by member.
    texts: BTreeMap<String, String>,
    details: Vec<Value>,
    calls: BTreeMap<u64, [String; 3]>,
    finish: Value,
    native: Value,
    usage: Value,
    error: Value,
    done: bool,
}

fn read_stream(stream: &str) -> Reading {
    let mut reading = Reading::default();
    for line in stream.lines() {
        match line.strip_prefix("data: ") {
            Some("[DONE]") => reading.done = true,
            Some(data) => reading.chunk(&serde_json::from_str(data).unwrap(), "delta"),
            None => assert!(line.is_empty() || line.starts_with(':'), "{line}"),
        }
    }
    reading
}

impl Reading {
    fn chunk(&mut self, chunk: &Value, member: &str) {
        for name in ["id", "model", "created"] {
            let known = self.head.get(name).is_some_and(|known| *known != "" && *known != 0);
            if !known {
                self.head.insert(name.to_owned(), chunk[name].clone());
            }
        }
        if !chunk["usage"].is_null() {
            self.usage = chunk["usage"].clone();
        }
        if !chunk["error"].is_null() {
            self.error = chunk["error"].clone();
        }
        if let Some(choice) = chunk["choices"].get(0) {
            self.delta(&choice[member]);
            for (target, name) in
                [(&mut self.finish, "finish_reason"), (&mut self.native, "native_finish_reason")]
            {
                if !choice[name].is_null() {
                    *target = choice[name].clone();
                }
            }
        }
    }

    fn delta(&mut self, delta: &Value) {
        for name in ["content", "refusal", "reasoning", "reasoning_content"] {
            if let Some(text) = delta[name].as_str() {
                self.texts.entry(name.to_owned()).or_default().push_str(text);
            }
        }
        for detail in delta["reasoning_details"].as_array().into_iter().flatten() {
            self.detail(detail);
        }
        let calls = delta["tool_calls"].as_array().into_iter().flatten();
        for (at, call) in (0..).zip(calls) {
            let known = self.calls.entry(call["index"].as_u64().unwrap_or(at)).or_default();
            let function = &call["function"];
            let parts = [&call["id"], &function["name"], &function["arguments"]];
            for (known, part) in known.iter_mut().zip(parts) {
                known.push_str(part.as_str().unwrap_or(""));
            }
        }
    }

    fn detail(&mut self, detail: &Value) {
        let same = |known: &&mut Value| {
            known["index"] == detail["index"] && known["type"] == detail["type"]
        };
        let Some(known) = self.details.iter_mut().find(same) else {
            self.details.push(detail.clone());
            return;
        };
        for (name, value) in detail.as_object().unwrap() {
            if name == "text" {
                let text = known["text"].as_str().unwrap_or("").to_owned();
                known["text"] = json!(text + value.as_str().unwrap());
            } else if (!value.is_null() && value != "") || known.get(name).is_none() {
                known[name] = value.clone();
            }
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }
}

/// Compares the crate's reading of a response with the independent one.
fn check_message(name: &str, message: &ResponseMessage, reading: &Reading) {
    let head = json!({"id": message.id, "model": message.model, "created": message.created});
    assert_eq!(head, Value::Object(reading.head.clone()), "{name}");
    assert_eq!(message.text, reading.text("content").unwrap_or(""), "{name}");
    let refusal = reading.text("refusal").filter(|text| !text.is_empty());
    assert_eq!(message.refusal.as_deref(), refusal, "{name}");
    assert_eq!(message.reasoning, reading.text("reasoning").unwrap_or(""), "{name}");
    assert_eq!(message.reasoning_content.as_deref(), reading.text("reasoning_content"), "{name}");
    let details: Vec<Value> = message
        .reasoning_details
        .iter()
        .map(|detail| serde_json::from_str(detail).unwrap())
        .collect();
    assert_eq!(details, reading.details, "{name}");
    assert_eq!(message.finish.as_ref().map(|finish| finish.name()), reading.finish.as_str());
    assert_eq!(message.native_finish.as_deref(), reading.native.as_str(), "{name}");
    check_calls(name, message, reading);
    check_usage(name, message, &reading.usage);
}

fn check_calls(name: &str, message: &ResponseMessage, reading: &Reading) {
    assert_eq!(message.calls.len(), reading.calls.len(), "{name}");
    let last = reading.calls.len().saturating_sub(1);
    for (at, (call, (index, [id, tool, arguments]))) in
        message.calls.iter().zip(&reading.calls).enumerate()
    {
        assert_eq!((&call.id, &call.name, &call.arguments), (id, tool, arguments), "{name}");
        assert_eq!(u64::from(call.index), *index, "{name}");
        let parses = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
        let cut = reading.finish == "length" && at == last;
        assert_eq!(call.complete, parses && !cut, "{name}: {call:?}");
    }
}

fn check_usage(name: &str, message: &ResponseMessage, usage: &Value) {
    assert_eq!(message.usage.present, !usage.is_null(), "{name}");
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let details = &usage["prompt_tokens_details"];
    let (read, written) = (count(&details["cached_tokens"]), count(&details["cache_write_tokens"]));
    let tokens = message.usage.tokens;
    assert_eq!(tokens.input, count(&usage["prompt_tokens"]) - read - written, "{name}");
    assert_eq!((tokens.cache_read, tokens.cache_write_5m), (read, written), "{name}");
    assert_eq!(tokens.output, count(&usage["completion_tokens"]), "{name}");
    if let Some(misses) = usage["prompt_cache_miss_tokens"].as_u64() {
        assert_eq!(tokens.input, misses, "{name}");
    }
    let reasoning = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    assert_eq!(message.usage.reasoning, reasoning, "{name}");
    // Exact enough for the test: no recording costs as much as a dollar.
    let cost = usage["cost"].as_f64().map(|dollars| (dollars * 1e9).round() as u64);
    assert_eq!(message.usage.cost_nano_usd, cost, "{name}");
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn streams_fold_alike_however_they_are_cut() {
    for (name, bytes) in streams() {
        let whole = folded(&[&bytes]);
        let cuts: Vec<usize> = if bytes.len() <= 6000 {
            (0..=bytes.len()).collect()
        } else {
            let mut seed = 0x5eed_u64;
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as usize % bytes.len()
            };
            (0..600).map(|_| next()).collect()
        };
        for &cut in &cuts {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(folded(&[head, tail]), whole, "{name} cut at {cut}");
        }
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(folded(&pieces), whole, "{name} byte by byte");
        println!("{name}: {} bytes, {} cuts", bytes.len(), cuts.len());
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn streams_say_what_their_json_says() {
    for (name, bytes) in streams() {
        let reading = read_stream(std::str::from_utf8(&bytes).unwrap());
        let finished = folded(&[&bytes]);
        check_message(&name, &finished.message, &reading);
        assert_eq!((finished.strays, finished.others), (0, 0), "{name}");
        match &finished.end {
            StreamEnd::Stop => assert!(reading.done && reading.error.is_null(), "{name}"),
            StreamEnd::Cut => panic!("{name} is whole"),
            StreamEnd::Error(error) => {
                assert_eq!(error.message, reading.error["message"].as_str().unwrap(), "{name}");
                assert_eq!(Some(u64::from(error.status)), reading.error["code"].as_u64(), "{name}");
            }
        }
    }
}

/// A stream that breaks off is not finished, and a call that was being written is not run.
#[test]
#[ignore = "reads recordings from ../shared"]
fn cut_streams_end_as_cut_and_their_last_call_is_incomplete() {
    for (name, bytes) in streams() {
        let mut ends = Vec::new();
        each_frame(&[&bytes], |_, _, raw| {
            ends.push(ends.last().copied().unwrap_or(0) + raw.len());
        });
        for end in ends {
            let head = &bytes[..end];
            let reading = read_stream(std::str::from_utf8(head).unwrap());
            let finished = folded(&[head]);
            let said = !reading.finish.is_null() || reading.done;
            match &finished.end {
                StreamEnd::Error(_) => assert!(!reading.error.is_null(), "{name} at {end}"),
                StreamEnd::Stop => assert!(said, "{name} at {end}"),
                StreamEnd::Cut => {
                    assert!(!said, "{name} at {end}");
                    assert!(finished.message.calls.last().is_none_or(|call| !call.complete));
                }
            }
        }
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn whole_responses_say_what_their_json_says() {
    for (name, bytes) in recordings(is_body, 5) {
        if name.contains("/error_") {
            continue;
        }
        let mut reading = Reading::default();
        reading.chunk(&serde_json::from_slice(&bytes).unwrap(), "message");
        check_message(&name, &ResponseMessage::from_json(&bytes).unwrap(), &reading);
        check_back(&name, &ResponseMessage::from_json(&bytes).unwrap(), &reading);
    }
}

/// The content that goes back in the next request is the content received.
fn check_back(name: &str, message: &ResponseMessage, reading: &Reading) {
    let mut out = Vec::new();
    message.write_back(&mut out);
    let back: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(back["role"], "assistant", "{name}");
    assert_eq!(back["content"].as_str().unwrap_or(""), reading.text("content").unwrap_or(""));
    assert_eq!(back["reasoning_content"].as_str(), reading.text("reasoning_content"), "{name}");
    let details = reading.details.as_slice();
    assert_eq!(back["reasoning_details"].as_array().map_or(&[][..], |list| list), details);
    let calls = back["tool_calls"].as_array().map_or(&[][..], |list| list);
    assert_eq!(calls.len(), reading.calls.len(), "{name}");
    for (call, [id, tool, arguments]) in calls.iter().zip(reading.calls.values()) {
        let function =
            json!({"name": tool, "arguments": if arguments.is_empty() { "{}" } else { arguments }});
        assert_eq!(*call, json!({"id": id, "type": "function", "function": function}), "{name}");
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn messages_go_back_and_are_written_as_they_came() {
    for (name, bytes) in streams() {
        let reading = read_stream(std::str::from_utf8(&bytes).unwrap());
        let mut message = folded(&[&bytes]).message;
        check_back(&name, &message, &reading);
        let mut out = Vec::new();
        respond::write_completion(&mut out, &message);
        let again = Finished::from_json(&out).unwrap().message;
        for (at, call) in (0..).zip(&mut message.calls) {
            call.arguments = call.input().to_owned();
            call.index = at;
        }
        // The service tier is beside the usage, and is not written.
        message.usage.tokens.beside = again.usage.tokens.beside;
        assert_eq!(again, message, "{name}");
    }
}

/// The request after a recorded turn contains what its client sent back of the turn.
#[test]
#[ignore = "reads recordings from ../shared"]
fn what_clients_sent_back_is_what_we_send_back() {
    for (turn, next) in [
        (
            "deepseek/reasoning_tool_loop_stream.0.sse",
            "deepseek/reasoning_tool_loop_stream.1.req.json",
        ),
        (
            "openrouter/signed_reasoning_loop_stream.0.sse",
            "openrouter/signed_reasoning_loop_stream.1.req.json",
        ),
        (
            "openrouter/encrypted_reasoning_loop_stream.0.sse",
            "openrouter/encrypted_reasoning_loop_stream.1.req.json",
        ),
    ] {
        let read = |name: &str| fs::read(format!("{SHARED}/recordings/{name}"));
        let (turn, next) = (read(turn).unwrap(), read(next).unwrap());
        let mut out = Vec::new();
        folded(&[&turn]).message.write_back(&mut out);
        let ours: Value = serde_json::from_slice(&out).unwrap();
        let request: Value = serde_json::from_slice(&next).unwrap();
        let messages = request["messages"].as_array().unwrap();
        let theirs = messages.iter().find(|message| message["role"] == "assistant").unwrap();
        assert_eq!(ours["reasoning_content"], theirs["reasoning_content"]);
        for (ours, theirs) in ours["reasoning_details"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(theirs["reasoning_details"].as_array().into_iter().flatten())
        {
            // Their client lost the format.
            for member in ["type", "index", "text", "signature", "data"] {
                assert_eq!(ours[member], theirs[member], "{member}");
            }
        }
        // Their client rewrites the arguments.
        let call = |message: &Value| {
            let call = &message["tool_calls"][0];
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            (call["id"].clone(), call["function"]["name"].clone(), arguments)
        };
        assert_eq!(call(&ours), call(theirs));
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn frames_are_rewritten_and_back_without_a_trace() {
    for (name, bytes) in streams() {
        each_frame(&[&bytes], |event, data, raw| {
            let rewritten = |raw: &[u8], by: fn(u32) -> u32, id: Option<&str>| {
                let mut out = Vec::new();
                let rewrite = respond::Rewrite { id, ..Default::default() };
                respond::write_rewritten(&mut out, raw, &rewrite, |call| {
                    call.index.map_or(CallEdit::Keep, |index| CallEdit::At(by(index)))
                })
                .unwrap();
                out
            };
            assert_eq!(rewritten(raw, |index| index, None), raw, "{name}");
            if data.is_empty() {
                return;
            }
            let Event::Chunk(chunk) = Event::from_data(event, data).unwrap() else { return };
            let there = rewritten(raw, |index| index + 70, Some("other"));
            let id = chunk.id.unescape().into_owned();
            each_frame(&[&there], |event, data, _| {
                let Event::Chunk(moved) = Event::from_data(event, data).unwrap() else {
                    panic!("{name}: {data}")
                };
                assert_eq!(moved.id, "other", "{name}");
                let indexes = |chunk: &softland_wire::chat::Chunk<'_>| -> Vec<Option<u32>> {
                    let calls = chunk.choices.iter().flat_map(|c| c.delta.tool_calls.iter());
                    calls.map(|call| call.index).collect()
                };
                let expected = indexes(&chunk).into_iter().map(|index| index.map(|i| i + 70));
                assert!(indexes(&moved).into_iter().eq(expected), "{name}");
            });
            assert_eq!(rewritten(&there, |index| index - 70, Some(&id)), raw, "{name}");
        });
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn error_answers_say_what_their_json_says() {
    for (name, bytes) in recordings(|name| name.starts_with("error_") && is_body(name), 3) {
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let error = ApiError::from_response(400, &bytes);
        assert_eq!(error.message, value["error"]["message"].as_str().unwrap(), "{name}");
        let code = &value["error"]["code"];
        let code = code.as_str().map_or_else(|| code.to_string(), str::to_owned);
        assert_eq!(error.code.as_deref(), Some(code.as_str()), "{name}");
        assert_eq!(error.status, 400, "{name}");
    }
}

/// The bodies of recorded requests, and of real clients' requests to this path.
fn requests() -> Vec<(String, Vec<u8>)> {
    let mut found = recordings(|name| name.ends_with(".req.json"), 20);
    let clients = fs::read_dir(format!("{SHARED}/clients")).unwrap();
    for client in clients {
        let Ok(files) = fs::read_dir(client.unwrap().path()) else { continue };
        for file in files {
            let path = file.unwrap().path();
            let value: Value =
                serde_json::from_slice(&fs::read(&path).unwrap()).unwrap_or_default();
            if value["path"] == "/v1/chat/completions" && value["body"].is_object() {
                found.push((path.display().to_string(), value["body"].to_string().into_bytes()));
            }
        }
    }
    found
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn requests_scan_and_stay_as_they_are() {
    for (name, bytes) in requests() {
        let request =
            RequestBody::from_body(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Splice::new().apply(&bytes).unwrap(), bytes, "{name}");
        check_request(&name, &request, &serde_json::from_slice(&bytes).unwrap());
    }
}

fn check_request(name: &str, request: &RequestBody<'_>, expected: &Value) {
    let under = |span: softland_wire::json::Span| -> Value {
        serde_json::from_str(span.slice_of(request.text)).unwrap()
    };
    assert_eq!(request.model, *expected["model"].as_str().unwrap(), "{name}");
    assert_eq!(request.stream, expected["stream"] == true, "{name}");
    assert_eq!(request.includes_usage(), expected["stream_options"]["include_usage"] == true);
    let limit = |limit: Option<softland_wire::chat::MaxTokens>| limit.map(|limit| limit.value);
    assert_eq!(limit(request.max_tokens), expected["max_tokens"].as_u64(), "{name}");
    let completion = expected["max_completion_tokens"].as_u64();
    assert_eq!(limit(request.max_completion_tokens), completion, "{name}");
    let choice = request.tool_choice.map_or(Value::Null, |choice| under(choice.span));
    assert_eq!(choice, expected["tool_choice"], "{name}");
    let tools: Vec<String> = request
        .tools
        .iter()
        .flat_map(|tools| tools.list.iter().map(|tool| tool.name.to_string()))
        .collect();
    let names = expected["tools"].as_array().into_iter().flatten();
    let names: Vec<&str> =
        names.map(|tool| tool["function"]["name"].as_str().unwrap_or("")).collect();
    assert_eq!(tools, names, "{name}");
    let messages = expected["messages"].as_array().unwrap();
    assert_eq!(under(request.messages.span), expected["messages"], "{name}");
    assert_eq!(request.messages.list.len(), messages.len(), "{name}");
    for (message, expected) in request.messages.list.iter().zip(messages) {
        assert_eq!(under(message.span), *expected, "{name}");
        assert_ne!(message.role, RequestRole::Other, "{name}");
        let content = match &message.content {
            RequestContent::Absent => Value::Null,
            RequestContent::Null(span) | RequestContent::Text(_, span) => under(*span),
            RequestContent::Parts { span, .. } => under(*span),
        };
        assert_eq!(content, expected["content"], "{name}");
        let calls: Vec<(String, String)> = message
            .tool_calls
            .iter()
            .map(|call| (call.id.to_string(), call.arguments.to_string()))
            .collect();
        let theirs = expected["tool_calls"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let theirs: Vec<(String, String)> =
            theirs.map(|call| (text(&call["id"]), text(&call["function"]["arguments"]))).collect();
        assert_eq!(calls, theirs, "{name}");
        let id = message.tool_call_id.map(|id| id.to_string());
        assert_eq!(id.as_deref(), expected["tool_call_id"].as_str(), "{name}");
        let reasoning = message.reasoning_content.map(|found| under(found.value));
        assert_eq!(reasoning.unwrap_or_default(), expected["reasoning_content"], "{name}");
    }
}
