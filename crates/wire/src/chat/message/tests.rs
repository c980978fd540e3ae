//! Streams and responses of every dialect, synthetic: written for these tests after recordings,
//! the vendors' documentation and bug reports.

use super::*;
use crate::{bound::AssembleError, sse::Decoder};

/// A stream of chunks, each given by its choice's `delta` and any members after it.
fn stream(deltas: &[&str]) -> String {
    deltas
        .iter()
        .map(|delta| {
            format!("data: {{\"id\":\"i\",\"created\":7,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
        })
        .collect()
}

fn folded(stream: &str) -> Finished {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream.as_bytes());
    decoder.finish();
    let mut assembler = Assembler::new(1 << 20);
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        if !frame.data.is_empty() {
            assembler.push(&Event::from_data(frame.event, &frame.data).unwrap()).unwrap();
        }
    }
    assembler.finish()
}

/// The stream of `deltas`, then a finish reason and `[DONE]`.
fn ended(deltas: &[&str], finish: &str) -> Finished {
    let end = format!("{{}},\"finish_reason\":\"{finish}\"");
    let all: Vec<&str> = deltas.iter().copied().chain([end.as_str()]).collect();
    folded(&(stream(&all) + "data: [DONE]\n\n"))
}

/// Returns id, name, arguments and completeness of every call.
fn calls(finished: &Finished) -> Vec<(&str, &str, &str, bool)> {
    let calls = finished.message.calls.iter();
    calls.map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str(), c.complete)).collect()
}

const TWO: [(&str, &str, &str, bool); 2] =
    [("c1", "f", r#"{"a":1}"#, true), ("c2", "g", "{}", true)];

#[test]
fn pieces_go_to_the_call_of_their_index() {
    let finished = ended(
        &[
            r#"{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}},{"index":1,"function":{"arguments":"}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(calls(&finished), TWO);
    assert_eq!((finished.end, finished.strays), (StreamEnd::Stop, 0));
    assert_eq!(finished.message.calls[1].index, 1);
}

#[test]
fn whole_calls_come_in_one_chunk_or_one_each() {
    // xAI, synthetic: the whole call, and its finish reason, in one chunk.
    let call = |index: &str, id: &str, name: &str, arguments: &str| {
        let arguments = arguments.replace('"', "\\\"");
        format!(
            r#"{{{index}"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{arguments}"}}}}"#
        )
    };
    let list = |calls: &[String]| format!(r#"{{"tool_calls":[{}]}}"#, calls.join(","));
    for (first, second) in [
        (r#""index":0,"#, r#""index":1,"#),
        (r#""index":1,"#, r#""index":2,"#),
        // The same index for all, or none: Ollama and Gemini's layer.
        (r#""index":0,"#, r#""index":0,"#),
        ("", ""),
    ] {
        let (one, two) = (call(first, "c1", "f", r#"{"a":1}"#), call(second, "c2", "g", "{}"));
        let together = ended(&[&list(&[one.clone(), two.clone()])], "tool_calls");
        assert_eq!(calls(&together), TWO, "{first} {second}");
        let apart = ended(&[&list(&[one]), &list(&[two])], "stop");
        assert_eq!(calls(&apart), TWO, "{first} {second}");
    }
    // Without ids, calls are separated by their names, or by text after closed arguments.
    for index in ["", r#""index":0,"#] {
        let calls_of = |second: &str| {
            let (one, two) = (call(index, "", "f", r#"{"a":1}"#), call(index, "", second, "{}"));
            ended(&[&list(&[one]), &list(&[two])], "stop").message.calls.len()
        };
        assert_eq!((calls_of("f"), calls_of("g")), (2, 2), "{index}");
    }
    // Another id or another name, after a call that has no arguments so far.
    for (id, name) in [("c2", "f"), ("", "g")] {
        let first = call(r#""index":0,"#, if id.is_empty() { "" } else { "c1" }, "f", "");
        let second = call(r#""index":0,"#, id, name, "{}");
        let finished = ended(&[&list(&[first]), &list(&[second])], "tool_calls");
        let inputs: Vec<&str> = finished.message.calls.iter().map(Call::input).collect();
        assert_eq!(inputs, ["{}", "{}"], "{id} {name}");
    }
    let twins = [call("", "", "f", ""), call("", "", "f", "")];
    let finished = ended(&[&list(&twins)], "tool_calls");
    assert_eq!(calls(&finished), [("", "f", "", true), ("", "f", "", true)]);
    assert_eq!(finished.message.calls[1].index, 1);
}

#[test]
fn ids_may_be_reused_and_names_repeated() {
    // The same id with two indexes is two calls. A repeated name is the same name.
    let finished = ended(
        &[
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(calls(&finished), [("c", "f", "{}", true), ("c", "f", "{}", true)]);
    // The same without any index: closed arguments separate the calls.
    let finished = ended(
        &[
            r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"}"}}]}"#,
            r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"}"}}]}"#,
            r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
        ],
        "tool_calls",
    );
    let expected = [("c", "f", r#"{"a":"}{"}"#, true), ("c", "f", "{}", true)];
    assert_eq!(calls(&finished), expected);
}

#[test]
fn pieces_without_an_index_go_on_with_the_last_call() {
    // Gemini's layer, synthetic: arguments split without an index, the signature in a separate
    // piece.
    let finished = ended(
        &[
            r#"{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":":1}"}}]}"#,
            r#"{"tool_calls":[{"extra_content":{"google":{"thought_signature":"s"}}}]}"#,
        ],
        "stop",
    );
    assert_eq!(calls(&finished), [("c1", "f", r#"{"a":1}"#, true)]);
    let signature = r#"{"google":{"thought_signature":"s"}}"#;
    assert_eq!(finished.message.calls[0].extra["extra_content"], signature);
    let mut back = Vec::new();
    finished.message.write_back(&mut back);
    assert!(String::from_utf8(back).unwrap().contains(signature));
}

#[test]
fn pieces_that_fit_nowhere_are_counted() {
    let finished = ended(
        &[
            r#"{"tool_calls":[{"index":4,"function":{"arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"{}"}},{}]}"#,
            r#"{"tool_calls":[]}"#,
        ],
        "stop",
    );
    assert_eq!((calls(&finished).len(), finished.strays), (0, 3));
}

#[test]
fn a_cut_output_spoils_its_last_call() {
    let whole = [
        r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"c2","function":{"name":"g","arguments":"{}"}}]}"#,
    ];
    let complete = |finished: &Finished| -> Vec<bool> {
        finished.message.calls.iter().map(|call| call.complete).collect()
    };
    assert_eq!(complete(&ended(&whole, "tool_calls")), [true, true]);
    assert_eq!(complete(&ended(&whole, "stop")), [true, true]);
    for finish in ["length", "content_filter", "model_length", "error"] {
        assert_eq!(complete(&ended(&whole, finish)), [true, false], "{finish}");
    }
    let cut = folded(&stream(&whole));
    assert_eq!((complete(&cut), cut.end), (vec![true, false], StreamEnd::Cut));
    let done = folded(&(stream(&whole) + "data: [DONE]\n\n"));
    assert_eq!((complete(&done), done.end), (vec![true, true], StreamEnd::Stop));
    // The last call, and the call that was incomplete.
    let back = [whole[0], whole[1], r#"{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}"#];
    assert_eq!(complete(&ended(&back, "length")), [false, false]);
}

#[test]
fn arguments_are_an_object_or_the_call_is_incomplete() {
    let complete = |arguments: &str| {
        let delta = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        );
        let finished = ended(&[&delta], "tool_calls");
        (finished.message.calls[0].complete, finished.message.calls[0].input().to_owned())
    };
    assert_eq!(complete(r#""""#), (true, "{}".to_owned()));
    assert_eq!(complete(r#"" \n""#), (true, "{}".to_owned()));
    assert_eq!(complete("null"), (true, "{}".to_owned()));
    assert_eq!(complete(r#"{"a": 1}"#), (true, r#"{"a": 1}"#.to_owned()));
    assert_eq!(complete(r#""{\"a\":""#), (false, r#"{"a":"#.to_owned()));
    assert_eq!(complete(r#""[1]""#), (false, "[1]".to_owned()));
    // A control character: this crate's reader accepts it, a strict reader does not.
    assert_eq!(
        complete("\"{\\\"a\\\":\\\"\\u0001\\\"}\""),
        (false, "{\"a\":\"\u{1}\"}".to_owned())
    );
    let nameless = r#"{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"{}"}}]}"#;
    assert!(!ended(&[nameless], "tool_calls").message.calls[0].complete);
}

#[test]
fn custom_and_deprecated_calls_go_back_as_they_came() {
    let finished = ended(
        &[
            r#"{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"n","input":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"custom":{"input":"any \"text\""}}]}"#,
            r#"{"function_call":{"name":"old","arguments":""}}"#,
            r#"{"function_call":{"arguments":"{}"}}"#,
        ],
        "function_call",
    );
    let expected = [("c", "n", "any \"text\"", true), ("", "old", "{}", true)];
    assert_eq!(calls(&finished), expected);
    let mut back = Vec::new();
    finished.message.write_back(&mut back);
    let expected = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"n","input":"any \"text\""}}],"function_call":{"name":"old","arguments":"{}"}}"#;
    assert_eq!(String::from_utf8(back).unwrap(), expected);
}

#[test]
fn details_are_put_together_by_index() {
    let finished = ended(
        &[
            r#"{"reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm \ud83d","index":0,"format":"v1"}]}"#,
            r#"{"reasoning":"m","reasoning_details":[{"type":"reasoning.text","text":"\ude00","index":0,"format":null}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"e","id":"r1","index":0}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"e2","id":"r2","index":0},{"type":"reasoning.summary","summary":"x","index":1}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.text","signature":"sig","index":0}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.text","signature":null,"index":0},{"type":"reasoning.summary","summary":"y","index":1}]}"#,
            r#"{"reasoning_details":[]}"#,
        ],
        "stop",
    );
    let expected = [
        r#"{"type":"reasoning.text","text":"Hm \ud83d\ude00","index":0,"format":"v1","signature":"sig"}"#,
        r#"{"type":"reasoning.encrypted","data":"e","id":"r1","index":0}"#,
        r#"{"type":"reasoning.encrypted","data":"e2","id":"r2","index":0}"#,
        r#"{"type":"reasoning.summary","summary":"xy","index":1}"#,
    ];
    assert_eq!(finished.message.reasoning_details, expected);
    assert_eq!(finished.message.thinking(), "Hmm");
    let mut back = Vec::new();
    finished.message.write_back(&mut back);
    let back = String::from_utf8(back).unwrap();
    assert!(back.contains(&format!("\"reasoning_details\":[{}]", expected.join(","))), "{back}");
    assert!(!back.contains("\"reasoning\":"), "{back}");
}

#[test]
fn details_that_differ_stay_apart() {
    let pieces = [
        r#"{"index":0,"type":"reasoning.encrypted","data":"a"}"#,
        r#"{"index":0,"type":"reasoning.encrypted","data":"b"}"#,
        r#"{"index":0,"type":"reasoning.summary","id":"r1","summary":"a"}"#,
        r#"{"index":0,"type":"reasoning.summary","id":"r2","summary":"b"}"#,
        r#"{"index":1,"type":"reasoning.summary","id":"r2","summary":"c"}"#,
    ];
    let deltas = pieces.map(|piece| format!(r#"{{"reasoning_details":[{piece}]}}"#));
    let deltas = deltas.each_ref().map(String::as_str);
    assert_eq!(ended(&deltas, "stop").message.reasoning_details, pieces);
}

#[test]
fn details_of_a_whole_response_stay_byte_for_byte() {
    let details = r#"{"index":0,  "type":"reasoning.text","text":"a"},{"type":"reasoning.text","index":0,"text":"b"}"#;
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"x","reasoning_details":[{details}]}},"finish_reason":"stop"}}]}}"#
    );
    let message = ResponseMessage::from_json(body.as_bytes()).unwrap();
    assert_eq!(message.reasoning_details.join(","), details);
}

#[test]
fn reasoning_content_goes_back_even_if_empty() {
    // DeepSeek, synthetic.
    let deltas = [
        r#"{"role":"assistant","content":null,"reasoning_content":""}"#,
        r#"{"content":null,"reasoning_content":null}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
    ];
    let mut back = Vec::new();
    ended(&deltas, "tool_calls").message.write_back(&mut back);
    let expected = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"reasoning_content":""}"#;
    assert_eq!(String::from_utf8(back).unwrap(), expected);
    let without = ended(&[r#"{"content":"x"}"#], "stop");
    assert_eq!(without.message.reasoning_content, None);
}

#[test]
fn mistrals_parts_are_text_and_thinking() {
    let finished = ended(
        &[
            r#"{"role":"assistant","content":""}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Let "}]}]}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"me"}]},{"type":"text","text":"Hel"}]}"#,
            r#"{"content":"lo"}"#,
            r#"{"content":[{"type":"reference","reference_ids":[1]}]}"#,
        ],
        "stop",
    );
    let message = &finished.message;
    assert_eq!((message.text.as_str(), message.thinking()), ("Hello", "Let me"));
    let mut back = Vec::new();
    message.write_back(&mut back);
    let expected = r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Let me"}]},{"type":"text","text":"Hello"},{"type":"reference","reference_ids":[1]}]}"#;
    assert_eq!(String::from_utf8(back).unwrap(), expected);
    let plain =
        ended(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"text","text":"b"}]}"#], "stop");
    assert_eq!(plain.message.text, "ab");
    let mut back = Vec::new();
    plain.message.write_back(&mut back);
    assert_eq!(String::from_utf8(back).unwrap(), r#"{"role":"assistant","content":"ab"}"#);
}

#[test]
fn azures_first_chunk_says_nothing() {
    let first = "data: {\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"prompt_filter_results\":[{}]}\n\n";
    let finished =
        folded(&(first.to_owned() + &stream(&[r#"{"content":"a"},"finish_reason":"stop""#])));
    let message = &finished.message;
    let head = (message.id.as_str(), message.created, message.model.as_str());
    assert_eq!((head, finished.end), (("i", 7, "m"), StreamEnd::Stop));
}

#[test]
fn the_last_finish_reason_holds_and_content_behind_one_counts() {
    let finished = folded(&stream(&[
        r#"{"content":"a"},"finish_reason":"length""#,
        r#"{"content":"b"},"finish_reason":"stop","native_finish_reason":"end""#,
        r#"{"content":""},"finish_reason":null"#,
    ]));
    assert_eq!(finished.message.finish, Some(Finish::Stop));
    assert_eq!(finished.message.native_finish.as_deref(), Some("end"));
    assert_eq!(finished.message.text, "ab");
}

#[test]
fn groqs_error_event_ends_the_stream_without_done() {
    // Groq, synthetic.
    let error = "event: error\ndata: {\"error\":{\"message\":\"bad call\",\"type\":\"invalid_request_error\",\"code\":\"tool_use_failed\",\"failed_generation\":\"{\",\"status_code\":400}}\n\n";
    let finished =
        folded(&(stream(&[r#"{"content":"a"}"#]) + error + &stream(&[r#"{"content":"b"}"#])));
    let StreamEnd::Error(error) = &finished.end else { panic!("{finished:?}") };
    assert_eq!(error.code.as_deref(), Some("tool_use_failed"));
    assert_eq!((finished.message.text.as_str(), finished.strays), ("a", 1));
}

#[test]
fn an_error_holds_against_what_follows_and_usage_counts() {
    let stream = stream(&[r#"{"content":"a"},"finish_reason":"stop""#])
        + "data: {\"error\":{\"code\":502,\"message\":\"gone\"},\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"
        + "data: {\"created\":9,\"error\":{\"code\":400,\"message\":\"again\"},\"usage\":{\"prompt_tokens\":4}}\n\n"
        + "data: [DONE]\n\n: comment\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n";
    let finished = folded(&stream);
    assert!(
        matches!(&finished.end, StreamEnd::Error(error) if error.status == 502),
        "{finished:?}"
    );
    assert_eq!(finished.message.created, 7);
    assert_eq!((finished.message.usage.tokens.input, finished.strays), (4, 1));
    let bare = ended(&[r#"{"content":"a"}"#], "error");
    assert!(
        matches!(&bare.end, StreamEnd::Error(error) if error.kind == "server_error"),
        "{bare:?}"
    );
}

#[test]
fn other_choices_are_counted_and_left_out() {
    let finished = folded(concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}},{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    ));
    assert_eq!((finished.message.text.as_str(), finished.others), ("a", 2));
    assert_eq!((finished.message.finish, finished.end), (None, StreamEnd::Cut));
}

#[test]
fn further_members_are_kept() {
    let finished = ended(
        &[
            r#"{"annotations":[1],"images":[],"audio":{"id":"a"}}"#,
            r#"{"annotations":[],"images":[{"x":1}],"audio":{"id":"b"}}"#,
            r#"{"annotations":[2, 3]}"#,
        ],
        "stop",
    );
    let extra = &finished.message.extra;
    assert_eq!(extra["annotations"], "[1,2, 3]");
    assert_eq!(
        (extra["images"].as_str(), extra["audio"].as_str()),
        (r#"[{"x":1}]"#, r#"{"id":"a"}"#)
    );
}

/// Audio arrives as pieces of one object.
#[test]
fn members_that_are_objects_are_put_together() {
    let finished = ended(
        &[
            r#"{"audio":{"id":"a","transcript":"H\""}}"#,
            r#"{"audio":{"data":"QUJD","n":1,"expires_at":null}}"#,
            r#"{"audio":{"id":"a","data":"REVG","transcript":"i","n":2}}"#,
            r#"{"audio":{"expires_at":9,"transcript":null}}"#,
        ],
        "stop",
    );
    let audio = r#"{"id":"a","transcript":"H\"i","data":"QUJDREVG","n":2,"expires_at":9}"#;
    assert_eq!(finished.message.extra["audio"], audio);
}

#[test]
fn whole_bodies_hold_messages_or_errors() {
    let refused = br#"{"id":"i","choices":[{"message":{"content":null,"refusal":"no","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":2}}"#;
    let message = ResponseMessage::from_json(refused).unwrap();
    assert_eq!((message.refusal.as_deref(), message.text.as_str()), (Some("no"), ""));
    assert_eq!(ResponseMessage::from_json(b"{}"), Err(MessageError::NoChoices));
    assert_eq!(ResponseMessage::from_json(br#"{"choices":[]}"#), Err(MessageError::NoChoices));
    assert!(matches!(ResponseMessage::from_json(b"x"), Err(MessageError::Json(_))));
    // OpenRouter, synthetic: bodies with status 200 and an error, alone or in place of the choice.
    for body in [
        r#"{"error":{"code":502,"message":"m"},"usage":{"prompt_tokens":2}}"#,
        r#"{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":502,"message":"m"}}],"usage":{"prompt_tokens":2}}"#,
    ] {
        let finished = Finished::from_json(body.as_bytes()).unwrap();
        assert_eq!(finished.message.usage.tokens.input, 2, "{body}");
        let Err(MessageError::Api(error)) = ResponseMessage::from_json(body.as_bytes()) else {
            panic!("{body}")
        };
        assert_eq!((error.status, error.message.as_str()), (502, "m"));
        assert_eq!(finished.end, StreamEnd::Error(error));
    }
}

#[test]
fn memory_is_bounded_and_the_bound_stays() {
    let mut assembler = Assembler::new(100);
    let text = |text: &str| format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#);
    let small = text("abcd");
    let small = Event::from_data("", &small).unwrap();
    assembler.push(&small).unwrap();
    assert_eq!(assembler.tokens_so_far().output, 1);
    assert!(!assembler.is_ended());
    let large = text(&"x".repeat(97));
    let error = assembler.push(&Event::from_data("", &large).unwrap()).unwrap_err();
    assert_eq!(error, AssembleError::TooLarge { limit: 100 });
    assert_eq!(assembler.push(&small), Err(error));
    assert_eq!(assembler.finish().message.text, "abcd");
    // Calls take more memory than their text.
    let mut assembler = Assembler::new(10_000);
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f"}}]}}]}"#;
    let mut pushed = 0;
    while assembler.push(&Event::from_data("", call).unwrap()).is_ok() {
        pushed += 1;
    }
    assert!(pushed < 40, "{pushed}");
}
