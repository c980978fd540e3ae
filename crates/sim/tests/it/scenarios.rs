//! Each scenario does what its name says, obeys the constraints of a real model, and is never
//! refused by the simulator's own rules.

use crate::support::{Run, ask, assemble, body, drive, events, post, sim};
use serde_json::{Value, json};
use softland_sim::{Config, DEFAULT_MODEL, Fault, Part, Piece, Scenario, Sim, Stop, Turn};

const ASK: &str = "Tool call limit reached (3 of 3). Answer now with what you have; further tool calls will not be run.";

fn question(model: &str) -> Value {
    body(
        model,
        json!([{"role": "user", "content": "What do my notes say about deploying and rollbacks?"}]),
    )
}

fn run(name: &str, most: usize) -> Run {
    drive(&sim(name), question(DEFAULT_MODEL), most, |_, _| "nothing new".into())
}

/// Runs until the ask, which is in the results of round `told` and later.
fn run_told(name: &str, told: usize, most: usize) -> Run {
    let mut n = 0;
    drive(&sim(name), question(DEFAULT_MODEL), most, |_, _| {
        n += 1;
        if n >= told { format!("nothing new\n{ASK}").into() } else { "nothing new".into() }
    })
}

#[test]
fn endless_ones_end_when_told() {
    for name in ["looper", "alternator", "sweeper", "poller"] {
        let endless = run(name, 30);
        assert_eq!(endless.calls.len(), 30, "{name}");
        let told = run_told(name, 4, 30);
        assert_eq!(told.calls.len(), 4, "{name}");
        assert!(told.text().len() > 20, "{name}: {}", told.text());
        let distinct: std::collections::BTreeSet<String> =
            endless.calls.iter().map(|(name, input)| format!("{name}{input}")).collect();
        let wanted = match name {
            "alternator" => 2,
            "sweeper" => 30,
            _ => 1,
        };
        assert_eq!(distinct.len(), wanted, "{name}");
    }
}

#[test]
fn the_stubborn_call_on_and_only_the_missing_tools_stop_them() {
    for name in ["stubborn", "mute"] {
        assert_eq!(run_told(name, 1, 12).calls.len(), 12, "{name}");
        let mut body = question(DEFAULT_MODEL);
        body["tool_choice"] = json!({"type": "none"});
        let (_, reply) = ask(&sim(name), &body);
        assert_eq!(reply["stop_reason"], "end_turn");
        assert_eq!(reply["content"].as_array().unwrap().is_empty(), name == "mute");
    }
}

#[test]
fn no_scenario_calls_where_it_may_not_and_forced_ones_call_what_they_must() {
    for (name, _) in Scenario::builtin_names() {
        let mut body = question("claude-opus-4-6");
        body["tool_choice"] = json!({"type": "none"});
        let reply = ask(&sim(name), &body).1.to_string();
        assert!(!reply.contains("\"tool_use\""), "{name}: {reply}");
        if [
            "overloaded",
            "refuser",
            "midstream-error",
            "cut",
            "pause",
            "truncator",
            "unknown-tool",
            "empty",
        ]
        .contains(&name)
        {
            continue;
        }
        for (choice, wanted) in [
            (json!({"type": "any"}), None),
            (json!({"type": "tool", "name": "read_file"}), Some("read_file")),
        ] {
            body["tool_choice"] = choice;
            let (_, reply) = ask(&sim(name), &body);
            let first = &reply["content"][0];
            assert_eq!(first["type"], "tool_use", "{name}: {reply}");
            assert!(wanted.is_none_or(|w| first["name"] == w), "{name}: {reply}");
        }
    }
}

#[test]
fn one_call_at_a_time_is_obeyed() {
    for (name, _) in Scenario::builtin_names() {
        let mut body = question(DEFAULT_MODEL);
        body["tool_choice"] = json!({"type": "auto", "disable_parallel_tool_use": true});
        let (_, reply) = ask(&sim(name), &body);
        let calls = reply["content"].as_array().into_iter().flatten();
        assert!(calls.filter(|b| b["type"] == "tool_use").count() <= 1, "{name}: {reply}");
    }
}

#[test]
fn only_one_calls_what_is_not_declared() {
    for (name, _) in Scenario::builtin_names() {
        let run_of = |sim: Sim| {
            let (status, reply) = ask(&sim, &question(DEFAULT_MODEL));
            if status == 200 { reply } else { json!({"content": []}) }
        };
        let reply = run_of(sim(name));
        for call in
            reply["content"].as_array().into_iter().flatten().filter(|b| b["type"] == "tool_use")
        {
            let known = ["list_dir", "grep", "read_file"].contains(&call["name"].as_str().unwrap());
            assert_eq!(known, name != "unknown-tool", "{name}: {call}");
        }
    }
    assert!(run("unknown-tool", 9).text().contains("second one worked"));
}

#[test]
fn silent_ones_recover_by_the_right_nudge_only() {
    for name in ["empty", "whitespace"] {
        for (parameter, recovers) in [("", true), (":never", false)] {
            let sim = sim(&format!("{name}{parameter}"));
            let silent = drive(&sim, question(DEFAULT_MODEL), 9, |_, _| "found".into());
            assert_eq!(silent.requests, 2);
            assert_eq!(silent.text().trim(), "");
            assert!(silent.last["usage"]["output_tokens"].as_u64().unwrap() <= 3);
            let mut messages = silent.messages.clone();
            if messages.last().unwrap()["role"] == "assistant" {
                messages.pop();
            }
            let after = |more: &[Value]| {
                let body = body(DEFAULT_MODEL, Value::Array([&messages[..], more].concat()));
                let (status, reply) = ask(&sim, &body);
                assert_eq!(status, 200, "{reply}");
                reply["content"][0]["text"].as_str().unwrap_or("").trim().len() > 20
            };
            let nudge = json!({"role": "user", "content": "Please continue."});
            let placeholder = json!({"role": "assistant", "content": "[no answer]"});
            let system = json!({"role": "system", "content": "Please continue."});
            assert!(!after(std::slice::from_ref(&nudge)), "{name}: text after results is silence");
            assert_eq!(after(&[placeholder, nudge]), recovers, "{name}{parameter}");
            assert_eq!(after(&[system]), recovers, "{name}{parameter} by system message");
        }
    }
}

#[test]
fn text_after_results_is_answered_with_nothing_by_every_scenario() {
    for (name, _) in Scenario::builtin_names() {
        let messages = json!([
            {"role": "user", "content": "find it"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "grep", "input": {"pattern": "x"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.md:1:x"},
                {"type": "text", "text": "Two calls left."}]}]);
        let (status, reply) = ask(&sim(name), &body(DEFAULT_MODEL, messages));
        assert_eq!(
            (status, &reply["content"], &reply["stop_reason"]),
            (200, &json!([]), &json!("end_turn")),
            "{name}"
        );
        assert_eq!(reply["usage"]["output_tokens"], 2);
    }
}

#[test]
fn short_and_false_answers() {
    let trivial = run("trivial", 9);
    assert_eq!((trivial.calls.len(), trivial.text()), (1, "OK.".to_owned()));
    assert_eq!(trivial.last["usage"]["output_tokens"], 3);
    let echo = run("echo", 9);
    assert!(echo.calls.is_empty());
    assert!(echo.text().contains("<use_tool>") && echo.text().contains("[Tool Result]"));
}

#[test]
fn truncated_in_a_call_then_in_the_answer() {
    let sim = sim("truncator");
    let mut body = question(DEFAULT_MODEL);
    let (_, cut) = ask(&sim, &body);
    assert_eq!(
        (&cut["stop_reason"], &cut["content"][0]["type"]),
        (&json!("max_tokens"), &json!("tool_use"))
    );
    assert_eq!(cut["content"][0]["input"], json!({}));
    let (_, call) = ask(&sim, &body);
    assert_eq!(call["stop_reason"], "tool_use");
    let id = &call["content"][0]["id"];
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": "found"});
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": call["content"]}));
    messages.push(json!({"role": "user", "content": [result]}));
    let (_, half) = ask(&sim, &body);
    assert_eq!(half["stop_reason"], "max_tokens");
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": half["content"]}));
    messages.push(json!({"role": "user", "content": "Continue exactly where you stopped."}));
    let (_, rest) = ask(&sim, &body);
    assert_eq!(rest["stop_reason"], "end_turn");
    assert!(rest["content"][0]["text"].as_str().unwrap().starts_with(" sentence"));
}

#[test]
fn pauses_are_continued_as_they_are() {
    let sim = sim("pause:3");
    let mut body = question(DEFAULT_MODEL);
    for _ in 0..3 {
        let (status, reply) = ask(&sim, &body);
        assert_eq!((status, &reply["stop_reason"]), (200, &json!("pause_turn")), "{reply}");
        body["messages"]
            .as_array_mut()
            .unwrap()
            .push(json!({"role": "assistant", "content": reply["content"]}));
    }
    let (_, reply) = ask(&sim, &body);
    assert_eq!(reply["stop_reason"], "end_turn");
    assert_eq!(reply["content"][0]["type"], "web_search_tool_result");
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "assistant", "content": reply["content"]}));
    body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "thanks"}));
    assert_eq!(ask(&sim, &body).0, 200);
}

#[test]
fn refusals_batches_and_slips() {
    let bare = run("refuser", 3);
    assert_eq!((&bare.last["stop_reason"], &bare.last["content"]), (&json!("refusal"), &json!([])));
    assert_eq!(bare.last["stop_details"]["type"], "refusal");
    assert!(!run("refuser:text", 3).text().is_empty());
    let parallel = run("parallel", 9);
    assert_eq!((parallel.calls.len(), parallel.requests), (18, 4));
    let (_, reply) = ask(&sim("bad-json"), &question(DEFAULT_MODEL));
    assert!(reply["content"][0]["input"].is_string(), "{reply}");
}

#[test]
fn thinkers_think_before_calls_where_thinking_is_on() {
    let (_, reply) = ask(&sim("thinker"), &question(DEFAULT_MODEL));
    let kinds: Vec<&str> =
        reply["content"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "thinking", "tool_use", "thinking", "tool_use"]);
    assert_eq!(reply["content"][0]["thinking"], "", "omitted by default");
    let whole =
        drive(&sim("thinker"), question("claude-opus-5-5"), 20, |_, _| "a.md:1:deploy".into());
    assert!(!whole.text().is_empty());
    let (_, reply) = ask(&sim("thinker"), &question("claude-sonnet-4-6"));
    assert!(!reply.to_string().contains("\"thinking\""), "{reply}");
}

#[test]
fn failures_pass_when_they_are_said_to() {
    let sim_of = sim("overloaded");
    for _ in 0..2 {
        let response = post(&sim_of, 0, "/v1/messages", "", &question(DEFAULT_MODEL));
        assert_eq!((response.status, response.header("retry-after")), (529, Some("1")));
    }
    assert_eq!(ask(&sim_of, &question(DEFAULT_MODEL)).0, 200);
    assert_eq!((sim_of.refused_requests(), sim_of.stats().faults), (0, 2));
    let stream = |name: &str| {
        let mut body = question(DEFAULT_MODEL);
        body["stream"] = true.into();
        post(&sim(name), 0, "/v1/messages", "", &body).collect_bytes()
    };
    let (bytes, cut) = stream("midstream-error");
    let last = events(&bytes).pop().unwrap();
    assert_eq!(
        (cut, &last["type"], &last["error"]["type"]),
        (false, &json!("error"), &json!("overloaded_error"))
    );
    let (bytes, cut) = stream("cut");
    assert!(cut && !bytes.ends_with(b"\n\n"));
    assert!(!stream("cut:0").1);
}

#[test]
fn slow_ones_say_how_long_they_wait() {
    let mut body = question(DEFAULT_MODEL);
    body["stream"] = true.into();
    let response = post(&sim("slow:200"), 0, "/v1/messages", "", &body);
    let softland_sim::Body::Stream(chunks) = response.body else { panic!("a stream") };
    assert_eq!(chunks[0].delay_ms, 200);
    assert!(chunks.iter().filter(|c| c.delay_ms == 20).count() > 3);
}

#[test]
fn streamed_and_whole_are_the_same_however_it_is_cut() {
    for (name, _) in Scenario::builtin_names()
        .filter(|(n, _)| !["midstream-error", "cut", "bad-json"].contains(n))
    {
        for piece_bytes in [None, Some(1), Some(7)] {
            let config = Config { piece_bytes, ..Config::new(Scenario::from_name(name).unwrap()) };
            let (whole, stream) = (Sim::new(config.clone()), Sim::new(config));
            let mut body = question("claude-opus-5-5");
            let (status, wanted) = ask(&whole, &body);
            body["stream"] = true.into();
            let response = post(&stream, 0, "/v1/messages", "", &body);
            assert_eq!(response.status, status, "{name}");
            if status != 200 {
                continue;
            }
            let events = events(&response.collect_bytes().0);
            assert_eq!(assemble(&events), wanted, "{name}");
            assert_eq!(events.last().unwrap()["type"], "message_stop");
        }
    }
}

#[test]
fn limits_and_stop_sequences_cut_the_answer() {
    let said = || {
        Sim::new(Config::new(Scenario::Scripted(vec![Turn::from_text(
            "one two three, ünd so weiter",
        )])))
    };
    let mut body = question("claude-sonnet-4-5");
    body["max_tokens"] = 3.into();
    let (_, reply) = ask(&said(), &body);
    assert_eq!(
        (&reply["stop_reason"], &reply["content"][0]["text"]),
        (&json!("max_tokens"), &json!("one two thre"))
    );
    body["max_tokens"] = 100.into();
    body["stop_sequences"] = json!(["ünd", " three"]);
    let (_, reply) = ask(&said(), &body);
    assert_eq!(
        (&reply["stop_reason"], &reply["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" three"))
    );
    assert_eq!(reply["content"][0]["text"], "one two");
    body["stop_sequences"] = json!(["one"]);
    assert_eq!(ask(&said(), &body).1["content"], json!([]));
    body["max_tokens"] = 0.into();
    let (_, reply) = ask(&said(), &body);
    assert_eq!((&reply["stop_reason"], &reply["content"]), (&json!("max_tokens"), &json!([])));
}

#[test]
fn scripted_turns_are_played_in_order_whatever_is_asked() {
    let sim = Sim::new(Config::new(Scenario::Scripted(vec![
        Turn { lawless: true, ..Turn::from_call("grep", "{\"pattern\":\"x\"}") },
        Turn::from_status(500, None),
        Turn::from_text("half").with_fault(Fault::Cut { after: 3 }),
        Turn::default().with_stop(Stop::Refusal),
        Turn::from_parts(vec![Part::Tool {
            id: Some("same".into()),
            name: "grep".into(),
            input: "{".into(),
        }]),
    ])));
    let mut body = question(DEFAULT_MODEL);
    body["tool_choice"] = json!({"type": "none"});
    body["stream"] = true.into();
    let send = || post(&sim, 0, "/v1/messages", "", &body);
    let first = assemble(&events(&send().collect_bytes().0));
    assert_eq!(first["content"][0]["name"], "grep", "lawless: calls under none");
    assert_eq!(send().status, 500);
    let softland_sim::Body::Stream(chunks) = send().body else { panic!("a stream") };
    assert_eq!(chunks.last().unwrap().piece, Piece::Cut);
    assert_eq!(assemble(&events(&send().collect_bytes().0))["stop_reason"], "refusal");
    let lawful = assemble(&events(&send().collect_bytes().0));
    assert_eq!(lawful["content"], json!([]), "a lawful model does not call under none");
    assert_eq!(assemble(&events(&send().collect_bytes().0))["content"][0]["text"], "That is all.");
    assert_eq!(sim.refused_requests(), 0);
}

#[test]
fn a_wrong_name_says_what_there_is() {
    let error = Scenario::from_name("lopper").unwrap_err();
    assert!(error.contains("unknown scenario `lopper`; there are: reader, looper"), "{error}");
    let error = Scenario::from_name("overloaded:lots").unwrap_err();
    assert!(error.contains("`lots` is not a parameter; allowed are a whole number"), "{error}");
}

#[test]
fn a_harness_line_is_no_changed_state() {
    for line in [
        "3 tool calls remaining",
        "1 list_dir call remaining",
        "list_dir: limit of 5 reached; other tools remain",
        "About 10% of the cost limit remains. Finish your research and prepare the final answer.",
    ] {
        for gap in ["\n", "\n\n"] {
            let mut round = 0;
            let polled = drive(&sim("poller"), question(DEFAULT_MODEL), 6, |_, _| {
                round += 1;
                if round < 3 { "pending".into() } else { format!("pending{gap}{line}").into() }
            });
            assert_eq!(polled.requests, 6, "{line}: {}", polled.text());
        }
    }
}
