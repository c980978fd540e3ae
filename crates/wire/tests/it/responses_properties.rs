//! Properties of the Responses codec over generated input, with `serde_json` as the judge where
//! there is something to judge.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a failed step is a failed test")]

use proptest::prelude::*;
use serde_json::{Value, json};
use softland_wire::{
    Api, Splice,
    request::{BlockKind, Content, Request, Role},
    responses::{
        Assembler, Event, OutputKind, Response, Status, StreamEnd, Usage,
        respond::{self, Head, ResponseEnd},
    },
    sse::Decoder,
};

use crate::fuzz_bodies::{request_splice, responses_stream};
use crate::support::bytes::{mixed, spoiled};
use crate::support::cases;

const STREAM: &[&str] = &[
    "event: response.created\n",
    "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"model\":\"m\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"a\",\"content\":[]}}\n\n",
    "data: {\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"},\"output_index\":1,\"type\":\"response.output_item.added\"}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":2,\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"x\",\"summary\":[]}}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":3,\"item\":{\"type\":\"custom_tool_call\",\"call_id\":\"d\"}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"\\ud83d\\ude00 \\n\",\"sequence_number\":4}\n\n",
    "data: {\"type\":\"response.refusal.delta\",\"output_index\":0,\"content_index\":1,\"delta\":\"no\"}\n\n",
    "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"delta\":\"{\\\"a\\\":\"}\n\n",
    "data: {\"type\":\"response.function_call_arguments.done\",\"output_index\":1,\"arguments\":\"{}\"}\n\n",
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":2,\"summary_index\":1,\"delta\":\"hm\"}\n\n",
    "data: {\"type\":\"response.reasoning_text.done\",\"output_index\":2,\"text\":\"hm\"}\n\n",
    "data: {\"type\":\"response.custom_tool_call_input.delta\",\"output_index\":3,\"delta\":\"x\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\",\"status\":\"completed\"}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"all\"}]}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\ndata: \"output_index\":4,\"item\":{\"type\":\"web_search_call\"}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"t\"}]},3],\"usage\":{\"input_tokens\":9,\"output_tokens\":2,\"input_tokens_details\":{\"cached_tokens\":99}}}}\n\n",
    "data: {\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":{\"reason\":\"content_filter\"}}}\n\n",
    "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n",
    "data: {\"type\":\"error\",\"code\":\"c\",\"message\":\"m\"}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":99999999999,\"delta\":\"x\"}\n\n",
    "data: {\"output_index\":1,\"output_index\":\"x\",\"sequence_number\":1.0,\"item\":{\"id\":\"a\",\"id\":3}}\n\n",
    // Found by libFuzzer: announced again without a model, which is spoken of all the same.
    "data: {\"type\":\"response.in_progress\",\"response\":{\"status\":\"in_progress\",\"tools\":[\"model\"]}}\n\n",
    ": comment\r\n\r\n",
    "data: [DONE]\n\n",
    "data: \r\r",
    "\u{feff}",
];

const ITEMS: &[&str] = &[
    "{\"role\":\"user\",\"content\":\"hi\"}",
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}",
    "{\"type\":\"message\",\"content\":{}}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_image\"}]}",
    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}",
    "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"found\\n\"}",
    "{\"output\":[{\"type\":\"input_text\",\"text\":\"\"},{\"type\":\"input_image\"}],\"type\":\"function_call_output\"}",
    "{\"type\":\"function_call_output\",\"output\":null}",
    "{\"type\":\"custom_tool_call_output\"}",
    "{\"type\":\"custom_tool_call_output\",\"output\":[ 1 ]}",
    "{\"type\":\"function_call_output\",\"output\":3}",
    "{\"type\":\"reasoning\",\"encrypted_content\":\"x\",\"summary\":[]}",
    "{\"id\":\"x\"}",
    "{\"type\":\"shell_call_output\",\"output\":[]}",
    "{\"role\":\"user\",\"role\":1,\"type\":\"message\",\"content\":null,\"content\":[]}",
];

const TAIL: &[&str] = &[
    "",
    ",\"max_output_tokens\":9",
    ",\"max_output_tokens\":null",
    ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\"}",
    ",\"tool_choice\":\"x\"",
    ",\"tools\":[{\"name\":\"n\",\"type\":\"namespace\",\"tools\":[{}]},1]",
    ",\"previous_response_id\":\"r\",\"previous_response_id\":null ",
    ",\"input\":\"text\"",
    ",\"input\":null",
    ",\"input\":\"\"",
    ",\"reasoning\":{\"effort\":\"low\"}",
];

fn request_bytes() -> impl Strategy<Value = Vec<u8>> {
    (mixed(ITEMS, ","), mixed(TAIL, "")).prop_map(|(items, tail)| {
        let head = b"{\"model\":\"m\",\"input\":[".as_slice();
        [head, &items, b"]", &tail, b"}"].concat()
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_content(kind: &'static str) -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        any::<String>().prop_map(move |text| json!({"text": text, "type": kind})),
        any_json().prop_map(|source| json!({"type": "input_image", "image_url": source})),
    ];
    prop_oneof![
        any::<String>().prop_map(Value::from),
        prop::collection::vec(part, 0..4).prop_map(Value::from),
    ]
}

fn any_item() -> impl Strategy<Value = Value> {
    let output = prop::sample::select(vec!["function_call_output", "custom_tool_call_output"]);
    prop_oneof![
        2 => any_content("input_text").prop_map(|c| json!({"role": "user", "content": c})),
        1 => any_content("output_text").prop_map(|c| {
            json!({"type": "message", "role": "assistant", "content": c, "phase": "commentary"})
        }),
        1 => any::<String>().prop_map(|a| {
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": a})
        }),
        3 => (output, any_content("input_text"), any_json()).prop_map(|(kind, content, extra)| {
            json!({"type": kind, "call_id": "c", "output": content, "x": extra})
        }),
        1 => any_json().prop_map(|x| json!({"type": "reasoning", "encrypted_content": "e", "x": x})),
        1 => any_json().prop_map(|x| json!({"type": "new_kind", "content": x})),
    ]
}

fn any_request() -> impl Strategy<Value = Value> {
    let input = prop_oneof![
        1 => Just(None),
        1 => any::<String>().prop_map(|text| Some(Value::from(text))),
        6 => prop::collection::vec(any_item(), 0..6).prop_map(|items| Some(Value::from(items))),
    ];
    (input, any::<Option<u32>>(), any::<bool>(), any_json()).prop_map(
        |(input, limit, chained, extra)| {
            let mut request = json!({"model": "m", "extra": extra});
            if let Some(input) = input {
                request["input"] = input;
            }
            if let Some(limit) = limit {
                request["max_output_tokens"] = limit.into();
            }
            if chained {
                request["previous_response_id"] = "resp_0".into();
            }
            request
        },
    )
}

/// Adds `line` to every result, and to every message of the user's; the last ones first.
fn add_lines(splice: &mut Splice, view: &Request<'_>, line: &str) {
    for message in view.messages.list.iter().rev() {
        if message.role == Role::User {
            splice.append_to_message(Api::Responses, message, line);
        }
        if let Content::Blocks { blocks, .. } = &message.content {
            for block in blocks {
                let added = splice.append_to_result(Api::Responses, block, line);
                assert_eq!(added, matches!(block.kind, BlockKind::ToolResult(_)));
            }
        }
    }
}

/// Returns a text after `line` is appended.
fn with_line(old: &str, line: &str) -> Value {
    if old.is_empty() { line.into() } else { format!("{old}\n\n{line}").into() }
}

/// The edits of `splices_say_what_they_should`, made on the tree.
fn edited(mut request: Value, line: &str) -> Value {
    request["max_output_tokens"] = 77.into();
    request["tool_choice"] = "none".into();
    let last = json!({"type": "function_call_output", "call_id": "z", "output": "on"});
    let mut items = match request["input"].take() {
        Value::Null => Vec::new(),
        Value::String(text) => {
            let content = with_line(&text, line);
            vec![json!({"role": "user", "content": content})]
        }
        Value::Array(mut items) => {
            for item in &mut items {
                edit_item(item, line);
            }
            items
        }
        other => panic!("{other}"),
    };
    items.push(last);
    request["input"] = items.into();
    request
}

fn edit_item(item: &mut Value, line: &str) {
    let kind = item["type"].as_str().unwrap_or("message").to_owned();
    let member = match kind.as_str() {
        "message" if item["role"] == "user" => "content",
        "function_call_output" | "custom_tool_call_output" => "output",
        _ => return,
    };
    match &mut item[member] {
        Value::String(text) => *text = with_line(text, line).as_str().unwrap().to_owned(),
        Value::Array(parts) => {
            let at = match member {
                "content" => parts.len().checked_sub(1).filter(|at| parts[*at]["text"].is_string()),
                _ => parts.iter().rposition(|part| part["text"].is_string()),
            };
            match at {
                Some(at) => {
                    parts[at]["text"] = with_line(parts[at]["text"].as_str().unwrap(), line);
                }
                None => parts.push(json!({"type": "input_text", "text": line})),
            }
        }
        other => panic!("{other}"),
    }
}

/// Assembles a stream that arrives in two pieces.
fn fold(stream: &[u8], cut: usize) -> (Response, StreamEnd) {
    let (head, tail) = stream.split_at(cut);
    let (mut decoder, mut assembler) = (Decoder::new(1 << 20), Assembler::new(1 << 22));
    for (piece, last) in [(head, false), (tail, true)] {
        decoder.push(piece);
        if last {
            decoder.finish();
        }
        while let Some(frame) = decoder.next() {
            let frame = frame.unwrap();
            assembler.push(&Event::from_data(frame.event, &frame.data).unwrap()).unwrap();
        }
    }
    let finished = assembler.finish();
    assert_eq!((finished.strays, finished.restarts), (0, 0));
    (finished.response, finished.end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        responses_stream::run(&bytes);
        request_splice::run(Api::Responses, &bytes);
    }

    #[test]
    fn any_json_is_read_without_panic(value in any_json()) {
        responses_stream::run(value.to_string().as_bytes());
        responses_stream::run(format!("data: {value}\n\n").as_bytes());
        request_splice::run(Api::Responses, value.to_string().as_bytes());
    }

    #[test]
    fn any_stream_is_folded(stream in spoiled(mixed(STREAM, ""))) {
        responses_stream::run(&stream);
    }

    #[test]
    fn any_request_is_spliced(body in spoiled(request_bytes())) {
        request_splice::run(Api::Responses, &body);
    }

    #[test]
    fn splices_say_what_they_should(
        request in any_request(),
        pretty in any::<bool>(),
        line in "[a-zA-Z0-9 \"\\\\\n\u{e9}]{1,20}",
    ) {
        let body = if pretty { format!("{request:#}") } else { request.to_string() };
        let view = Request::from_body(Api::Responses, body.as_bytes()).unwrap();
        let mut splice = Splice::new();
        // The order in which edits are made does not matter.
        splice.append_messages(&view, &[respond::function_call_output("z", "on")]);
        add_lines(&mut splice, &view, &line);
        splice.set_max_tokens(&view, 77);
        splice.set_tool_choice(&view, r#""none""#);
        let spliced = splice.apply(body.as_bytes()).unwrap();
        let read: Value = serde_json::from_slice(&spliced).unwrap();
        prop_assert_eq!(read, edited(serde_json::from_str(&body).unwrap(), &line));
    }

    #[test]
    fn what_only_adds_keeps_every_byte_in_order(
        items in prop::collection::vec(any_item(), 0..6),
        line in "[a-z\"\n]{1,9}",
    ) {
        let body = json!({"model": "m", "input": items}).to_string();
        let view = Request::from_body(Api::Responses, body.as_bytes()).unwrap();
        let mut splice = Splice::new();
        splice.append_messages(&view, &["{}"]);
        splice.set_tool_choice(&view, "1");
        add_lines(&mut splice, &view, &line);
        let spliced = splice.apply(body.as_bytes()).unwrap();
        let mut rest = spliced.iter();
        prop_assert!(body.bytes().all(|byte| rest.any(|other| *other == byte)));
    }

    #[test]
    fn written_streams_read_as_written_however_they_are_cut(
        texts in prop::collection::vec((any::<String>(), any::<bool>()), 0..4),
        counts in prop::array::uniform5(0_u64..1_000_000),
        at in any::<prop::sample::Index>(),
    ) {
        let [input, cached, written, output, reasoning] = counts;
        let usage: Usage = {
            let body = json!({"status": "completed", "usage": {
                "input_tokens": input + cached + written, "output_tokens": output,
                "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
                "output_tokens_details": {"reasoning_tokens": reasoning},
            }});
            Response::from_json(body.to_string().as_bytes()).unwrap().usage
        };
        prop_assert_eq!((usage.tokens.input, usage.reasoning), (input, reasoning));
        let head = Head { id: "r", model: "m", created_at: 1, previous_response_id: Some("p") };
        let (mut out, mut sequence, mut items) = (Vec::new(), 0, Vec::new());
        let empty = respond::format_response(&head, ResponseEnd::InProgress, &[], None);
        respond::write_head(&mut out, &mut sequence, &empty);
        for ((text, is_call), index) in texts.iter().zip(0..) {
            if *is_call {
                let call = ("c", "f", text.as_str());
                respond::write_call_item(&mut out, &mut sequence, index, "i", call);
                items.push(respond::call_item("i", "c", "f", text));
            } else {
                respond::write_text_item(&mut out, &mut sequence, index, "i", text);
                items.push(respond::text_item("i", text));
            }
        }
        let shown: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        let whole = respond::format_response(&head, ResponseEnd::Completed, &shown, Some(&usage));
        respond::write_end(&mut out, &mut sequence, &Status::Completed, &whole);
        let (response, end) = fold(&out, at.index(out.len() + 1));
        prop_assert_eq!(end, StreamEnd::Stop);
        prop_assert_eq!(&response, &Response::from_json(whole.as_bytes()).unwrap());
        prop_assert_eq!(response.usage, usage);
        prop_assert_eq!(response.items.len(), texts.len());
        for (item, (text, is_call)) in response.items.iter().zip(&texts) {
            match &item.kind {
                OutputKind::Call { arguments, complete, .. } => {
                    prop_assert!(*is_call && arguments == text);
                    let object = serde_json::from_str::<Value>(text).is_ok_and(|v| v.is_object());
                    prop_assert_eq!(*complete, object);
                }
                OutputKind::Message { text: said, .. } => prop_assert!(!is_call && said == text),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
