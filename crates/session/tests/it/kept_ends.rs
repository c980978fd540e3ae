//! Ends that softland changes: where calls are taken out of a response, or several responses are
//! shown as one, all that the provider's own end says stays in it, byte for byte and in its order,
//! except for what is changed on purpose.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::policy::{Policy, PolicyValue};
use softland_session::wire::Api;
use softland_session::{Exchange, Output, Step};

use crate::ends::begin_with;

/// Begins an exchange whose history has one call, with room for so many more.
fn begin(api: Api, streams: bool, room: u64) -> Exchange {
    let mut policy = Policy::default();
    let limit = i128::from(room) + 1;
    policy.set_key("tool_calls_limit", &PolicyValue::Int(limit)).unwrap();
    begin_with(api, streams, policy)
}

/// Pushes a response. Returns what the client got, and true if another request follows.
fn push(exchange: &mut Exchange, streams: bool, response: &str) -> (String, bool) {
    let mut out = Output::default();
    if streams {
        exchange.push_bytes(response.as_bytes(), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
    } else {
        exchange.push_whole(response.as_bytes(), &mut out).unwrap();
    }
    let again = matches!(exchange.next_step().unwrap(), Step::Send(_));
    (String::from_utf8(out.bytes).unwrap(), again)
}

/// A streamed or whole response: everything before its end, and its end.
#[derive(Clone)]
struct Response {
    before: String,
    end: String,
}

/// A call of the response by its number, in the middle of 10.
fn id(n: u32) -> String {
    format!("call_00000000002{n}")
}

fn anthropic(calls: u32, text: &str, end: &str) -> Response {
    let event = |data: String| {
        let kind = serde_json::from_str::<Value>(&data).unwrap()["type"].clone();
        format!("event: {}\ndata: {data}\n\n", kind.as_str().unwrap())
    };
    let head = r#"{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#;
    let mut before = event(head.to_owned());
    let mut index = 0;
    let mut block = |start: &str, delta: &str| {
        before += &event(format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#
        ));
        before +=
            &event(format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#));
        before += &event(format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
        index += 1;
    };
    if !text.is_empty() {
        let delta = format!(r#"{{"type":"text_delta","text":"{text}"}}"#);
        block(r#"{"type":"text","text":""}"#, &delta);
    }
    for n in 0..calls {
        let start = format!(r#"{{"type":"tool_use","id":"{}","name":"t","input":{{}}}}"#, id(n));
        block(&start, r#"{"type":"input_json_delta","partial_json":"{\"p\":1}"}"#);
    }
    Response { before, end: end.to_owned() }
}

fn chat(calls: u32, text: &str, end: &str) -> Response {
    let chunk = |delta: String| {
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let mut before = chunk(r#"{"role":"assistant","content":""}"#.to_owned());
    if !text.is_empty() {
        before += &chunk(format!(r#"{{"content":"{text}"}}"#));
    }
    for n in 0..calls {
        before += &chunk(format!(
            r#"{{"tool_calls":[{{"index":{n},"id":"{}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}]}}"#,
            id(n)
        ));
    }
    Response { before, end: end.to_owned() }
}

/// The number behind the last `name` in a text.
fn last_number(text: &str, name: &str) -> u64 {
    let at = text.rfind(&format!("\"{name}\":")).unwrap() + name.len() + 3;
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// The ends of Anthropic's messages as they are recorded or announced, each with output of 90.
const ANTHROPIC_ENDS: [&str; 5] = [
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null,\"container\":{\"id\":\"cont_1\",\"expires_at\":\"x\"},\"of_tomorrow\":[1]},\"usage\":{\"output_tokens\":90,\"service_tier\":\"priority\",\"of_tomorrow\":{\"a\":1}},\"context_management\":{\"applied_edits\":[]}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    // Another order, other spaces, and Bedrock's numbers in the last event.
    "event: message_delta\ndata: {\"usage\": {\"output_tokens\":90, \"server_tool_use\": {\"of_tomorrow\": 2}}, \"delta\": {\"stop_reason\":\"tool_use\"}, \"type\": \"message_delta\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\",\"amazon-bedrock-invocationMetrics\":{\"inputTokenCount\":5}}\n\n",
    // A comment and an event that nobody knows.
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":90}}\n\n: comment\n\nevent: of_tomorrow\ndata: {\"type\":\"of_tomorrow\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    // A second report of usage.
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":90}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":90,\"x\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    // Data of one line without a name.
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"container\":null},\"usage\":{\"output_tokens\":90}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
];

const CHAT_ENDS: [&str; 5] = [
    // OpenRouter and OpenAI: usage beside the reason.
    "data: {\"id\":\"c1\",\"provider\":\"P\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":\"tool_calls\",\"native_finish_reason\":\"TOOL\",\"logprobs\":null}],\"system_fingerprint\":\"fp_1\",\"service_tier\":\"default\",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":90,\"total_tokens\":95,\"cost\":0.00012345678,\"of_tomorrow\":1}}\n\ndata: [DONE]\n\n",
    // Usage in a chunk of its own that the client did not ask for.
    "data: {\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"of_tomorrow\":{\"x\":[]}}\n\n: still here\n\ndata: {\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":90,\"total_tokens\":95}}\n\ndata: [DONE]\n\n",
    // Groq.
    "data: {\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}],\"x_groq\":{\"id\":\"req_1\",\"usage\":{\"queue_time\":0.1,\"prompt_tokens\":5,\"completion_tokens\":90,\"total_tokens\":95}}}\n\ndata: [DONE]\n\n",
    // Moonshot.
    "data: {\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":90,\"total_tokens\":95}}],\"system_fingerprint\":\"f\"}\n\ndata: [DONE]\n\n",
    "data: {\"choices\":[{\"finish_reason\":\"tool_calls\",\"index\":0,\"delta\":{\"content\":null}}],\"usage\": {\"total_tokens\":95,\"completion_tokens\":90,\"prompt_tokens\":5},\"model\":\"m\",\"created\":7,\"id\":\"c1\"}\n\ndata: [DONE]\n\n",
];

/// One of two calls is left: only the counts of output differ.
#[test]
fn c161_an_end_keeps_its_members_where_calls_are_taken_out() {
    for end in ANTHROPIC_ENDS {
        let sent = anthropic(2, "", end);
        let mut exchange = begin(Api::Anthropic, true, 1);
        let (shown, again) = push(&mut exchange, true, &(sent.before + &sent.end));
        assert!(!again && !shown.contains(&id(1)) && shown.contains(&id(0)), "{shown}");
        let output = last_number(&shown, "output_tokens");
        let at = shown.rfind("event: content_block_stop").unwrap();
        let shown_end = shown[at..].split_once("\n\n").unwrap().1;
        let counts = format!("\"output_tokens\":{output}");
        // The hidden part is listed behind what the provider counts.
        let (plain, _) = drop_member(shown_end, ",\"iterations\":");
        assert_eq!(plain, end.replace("\"output_tokens\":90", &counts), "{shown}");
    }
    for end in CHAT_ENDS {
        let sent = chat(2, "", end);
        let mut exchange = begin(Api::Chat, true, 1);
        let (shown, again) = push(&mut exchange, true, &(sent.before + &sent.end));
        assert!(!again && !shown.contains(&id(1)) && shown.contains(&id(0)), "{shown}");
        let output = last_number(&shown, "completion_tokens");
        let expected = end
            .replace("\"completion_tokens\":90", &format!("\"completion_tokens\":{output}"))
            .replace("\"total_tokens\":95", &format!("\"total_tokens\":{}", output + 5));
        assert!(shown.ends_with(&expected), "{shown}\n{expected}");
    }
}

/// Cuts a list out of a text, with what stands before it.
fn drop_member(text: &str, open: &str) -> (String, bool) {
    let mut rest = text.to_owned();
    let mut found = false;
    while let Some(at) = rest.find(open) {
        let to = at + rest[at..].find(']').unwrap() + 1;
        rest.replace_range(at..to, "");
        found = true;
    }
    (rest, found)
}

/// All calls are taken out, and the model is asked: the end is that of the answer.
#[test]
fn c161_the_end_of_an_answer_keeps_its_members_behind_another_response() {
    for end in ANTHROPIC_ENDS {
        let end = end.replace("\"tool_use\"", "\"end_turn\"");
        let mut exchange = begin(Api::Anthropic, true, 0);
        let first = anthropic(1, "", ANTHROPIC_ENDS[0]);
        let (mut shown, again) = push(&mut exchange, true, &(first.before + &first.end));
        assert!(again, "{shown}");
        let answer = anthropic(0, "Here.", &end);
        let (more, again) = push(&mut exchange, true, &(answer.before + &answer.end));
        assert!(!again, "{more}");
        shown += &more;
        for data in end.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let sent: Value = serde_json::from_str(data).unwrap();
            let kind = sent["type"].clone();
            if kind == "of_tomorrow" {
                // A response that is held shows no unknown event.
                continue;
            }
            let found = shown.lines().filter_map(|line| line.strip_prefix("data: ")).any(|line| {
                let got: Value = serde_json::from_str(line).unwrap();
                got["type"] == kind && contains(&got, &sent)
            });
            assert!(found, "{data}\n{shown}");
        }
    }
    for end in CHAT_ENDS {
        let end = end.replace("\"tool_calls\"", "\"stop\"");
        let mut exchange = begin(Api::Chat, true, 0);
        let first = chat(1, "", CHAT_ENDS[0]);
        let (shown, again) = push(&mut exchange, true, &(first.before + &first.end));
        assert!(again, "{shown}");
        let answer = chat(0, "Here.", &end.replace("\"c1\"", "\"c2\""));
        let (shown, again) = push(&mut exchange, true, &(answer.before + &answer.end));
        // The id is that of the message's beginning.
        assert!(!again && shown.ends_with(&end), "{shown}\n{end}");
    }
}

/// True if all of `part` is in `whole`; counts of output may differ.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(name, value)| {
            name == "output_tokens" || whole.get(name).is_some_and(|own| contains(own, value))
        }),
        _ => whole == part,
    }
}

/// A finish chunk with content of its own: the content is shown or taken out, the rest stays.
#[test]
fn c161_a_finish_chunk_with_calls_in_it_keeps_its_other_members() {
    let piece = |n: u32| {
        format!(
            r#"{{"index":{n},"id":"{}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#,
            id(n)
        )
    };
    let (first, second) = (piece(0), piece(1));
    let chunk = |delta: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[{{\"delta\":{delta},\"finish_reason\":\"tool_calls\",\"index\":0}}],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":90,\"total_tokens\":95}},\"of_tomorrow\":1}}\n\n"
        )
    };
    let sent = chunk(&format!(r#"{{"role":"assistant","tool_calls":[{first},{second}]}}"#));
    for done in ["data: [DONE]\n\n", ""] {
        let mut exchange = begin(Api::Chat, true, 1);
        let (shown, _) = push(&mut exchange, true, &(sent.clone() + done));
        let output = last_number(&shown, "completion_tokens");
        let end = chunk("{}")
            .replace("\"completion_tokens\":90", &format!("\"completion_tokens\":{output}"))
            .replace("\"total_tokens\":95", &format!("\"total_tokens\":{}", output + 5));
        assert!(shown.ends_with(&(end + "data: [DONE]\n\n")), "{shown}");
        assert_eq!(shown.matches(&id(0)).count(), 1, "{shown}");
        assert!(!shown.contains(&id(1)), "{shown}");
    }
}

#[test]
fn c161_a_whole_response_keeps_its_members() {
    let call =
        |n: u32| format!(r#"{{"type":"tool_use","id":"{}","name":"t","input":{{"p": 1}}}}"#, id(n));
    let body = |calls: &str| {
        format!(
            r#"{{ "id":"m1","container":{{"id":"c"}},"type":"message","role":"assistant","model":"c","content":[{calls}],"stop_reason":"tool_use","stop_sequence":null,"usage":{{"input_tokens":5,"output_tokens":90,"service_tier":"batch","of_tomorrow":1}},"context_management":null,"of_tomorrow":[ ]}}"#
        )
    };
    let (one, two) = (call(0), call(1));
    let mut exchange = begin(Api::Anthropic, false, 1);
    let (shown, _) = push(&mut exchange, false, &body(&format!("{one},{two}")));
    let output = last_number(&drop_member(&shown, ",\"iterations\":").0, "output_tokens");
    let expected = body(&one).replace(":90,", &format!(":{output},"));
    assert_eq!(drop_member(&shown, ",\"iterations\":").0, expected);

    let call = |n: u32| {
        format!(
            r#"{{"id":"{}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#,
            id(n)
        )
    };
    let body = |calls: &str| {
        format!(
            r#"{{"id":"c1","provider":"P","object":"chat.completion","created":7,"model":"m","choices":[{{"logprobs":null,"finish_reason":"tool_calls","native_finish_reason":"TOOL","index":0,"message":{{"role":"assistant","content":null,"refusal":null,"tool_calls":[{calls}],"annotations":[]}}}}],"system_fingerprint":"f","service_tier":"x","usage":{{"prompt_tokens":5,"completion_tokens":90,"total_tokens":95,"cost":0.00012345678}},"of_tomorrow":1}}"#
        )
    };
    let (one, two) = (call(0), call(1));
    let mut exchange = begin(Api::Chat, false, 1);
    let (shown, _) = push(&mut exchange, false, &body(&format!("{one},{two}")));
    let output = last_number(&shown, "completion_tokens");
    let expected = body(&one)
        .replace(":90,", &format!(":{output},"))
        .replace(":95,", &format!(":{},", output + 5));
    assert_eq!(shown, expected);
}

/// An answer behind a hidden response: the head is the first's, everything else the answer's.
#[test]
fn c161_a_whole_answer_keeps_its_members_behind_another_response() {
    let mut exchange = begin(Api::Chat, false, 0);
    let first = r#"{"id":"c1","created":7,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_000000000021","type":"function","function":{"name":"t","arguments":"{}"}}]}}]}"#;
    assert!(push(&mut exchange, false, first).1);
    let answer = r#"{"created":9,"id":"c2","model":"m","choices":[{"finish_reason":"stop","index":0,"message":{"content":"Here.","role":"assistant","reasoning":"hidden","audio":null}}],"service_tier":"x","of_tomorrow":1}"#;
    let (shown, again) = push(&mut exchange, false, answer);
    assert!(!again && !shown.contains("hidden"), "{shown}");
    assert!(
        shown.contains(r#""message":{"content":"Here.","role":"assistant","audio":null}"#),
        "{shown}"
    );
    assert!(shown.ends_with(r#""service_tier":"x","of_tomorrow":1}"#), "{shown}");
}

#[test]
fn c161_a_completed_response_keeps_its_members() {
    let item = |n: u32| {
        json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": id(n), "name": "t",
            "arguments": "{}", "status": "completed"})
    };
    let response = |status: &str, output: &[Value], more: Value| {
        let mut response = json!({"id": "resp_1", "object": "response", "created_at": 7,
            "status": status, "error": null, "incomplete_details": null, "model": "m",
            "output": output, "usage": null, "service_tier": "auto", "tool_choice": "auto"});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        response
    };
    let usage = json!({"input_tokens": 5, "input_tokens_details": {"of_tomorrow": 1},
        "output_tokens": 90, "total_tokens": 95, "of_tomorrow": [1]});
    let more = json!({"service_tier": "priority", "metadata": {"a": "b"}, "completed_at": 9,
        "safety_identifier": "s", "of_tomorrow": {"x": null}, "usage": usage});
    let whole = response("completed", &[item(0), item(1)], more.clone());
    let check = |shown: &Value| {
        assert_eq!(shown["output"], json!([item(0)]));
        let mut expected = response("completed", &[item(0)], more.clone());
        let output = shown["usage"]["output_tokens"].as_u64().unwrap();
        expected["usage"]["output_tokens"] = json!(output);
        expected["usage"]["total_tokens"] = json!(output + 5);
        assert_eq!(*shown, expected);
    };
    let mut exchange = begin(Api::Responses, false, 1);
    let (shown, _) = push(&mut exchange, false, &whole.to_string());
    check(&serde_json::from_str(&shown).unwrap());

    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", &[], json!({}))}),
    ];
    for n in 0..2 {
        events.extend([
            json!({"type": "response.output_item.added", "output_index": n, "item": item(n)}),
            json!({"type": "response.output_item.done", "output_index": n, "item": item(n)}),
        ]);
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    let stream: String = (0..)
        .zip(&mut events)
        .map(|(n, event)| {
            event["sequence_number"] = json!(n);
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
        })
        .collect();
    let mut exchange = begin(Api::Responses, true, 1);
    let (shown, _) = push(&mut exchange, true, &stream);
    let last = shown.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["type"], "response.completed");
    check(&last["response"]);
}

/// The head's words on the request are the client's; softland's own request had others.
#[test]
fn c161_a_response_behind_another_one_names_the_request_of_the_client() {
    let response = |id: &str, choice: &str, output: Value, more: Value| {
        let mut response = json!({"id": id, "object": "response", "created_at": 7, "model": "m",
            "status": "completed", "output": output, "tool_choice": choice,
            "usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        response
    };
    let call = json!([{"type": "function_call", "id": "fc_1", "call_id": id(1), "name": "t",
        "arguments": "{}", "status": "completed"}]);
    let said = json!([{"type": "message", "id": "msg_1", "role": "assistant",
        "status": "completed", "content": [{"type": "output_text", "text": "Here."}]}]);
    let mut exchange = begin(Api::Responses, false, 0);
    let first = response("resp_1", "auto", call, json!({"service_tier": "auto"}));
    assert!(push(&mut exchange, false, &first.to_string()).1);
    let more = json!({"service_tier": "flex", "of_tomorrow": 1, "max_output_tokens": 9});
    let (shown, again) =
        push(&mut exchange, false, &response("resp_2", "none", said, more).to_string());
    assert!(!again, "{shown}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["id"], &shown["tool_choice"]), (&json!("resp_1"), &json!("auto")));
    assert_eq!((&shown["service_tier"], &shown["of_tomorrow"]), (&json!("flex"), &json!(1)));
    assert_eq!(shown["output"][0]["content"][0]["text"], "Here.");
}
