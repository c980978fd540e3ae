//! Each scenario does the same in every protocol: the expectations here are written once.

use crate::protocols::apis::{ALL, Api, Run, assistant, sim, user};
use serde_json::{Value, json};
use softland_sim::{Config, Fault, Part, Piece, Scenario, Sim, Stop, Turn};
use std::collections::BTreeSet;

const ASK: &str = "Tool call limit reached (3 of 3). Answer now with what you have; further tool calls will not be run.";

fn run(api: Api, name: &str, most: usize) -> Run {
    api.drive(&sim(name), &mut api.question(), most, |_, _| "nothing new".into())
}

/// Runs until the ask, which is in the results of round `told` and later.
fn run_told(api: Api, name: &str, told: usize, most: usize) -> Run {
    let mut n = 0;
    api.drive(&sim(name), &mut api.question(), most, |_, _| {
        n += 1;
        if n >= told { format!("nothing new\n{ASK}") } else { "nothing new".into() }
    })
}

#[test]
fn the_reader_finds_its_answer() {
    for api in ALL {
        let mut body = api.question();
        let run = api.drive(&sim("reader"), &mut body, 20, |name, _| match name {
            "grep" => "notes/ops.md:3:we deploy on Fridays".into(),
            "read_file" => "# Ops\n\nwe deploy on Fridays".into(),
            _ => "notes/".into(),
        });
        assert!(run.requests > 2 && run.requests < 12, "{api:?}: {}", run.requests);
        assert!(run.last.text.contains("Fridays"), "{api:?}: {}", run.last.text);
    }
}

#[test]
fn endless_ones_end_when_told() {
    for api in ALL {
        for (name, wanted) in [("looper", 1), ("alternator", 2), ("sweeper", 20), ("poller", 1)] {
            let endless = run(api, name, 20);
            assert_eq!(endless.calls.len(), 20, "{api:?} {name}");
            let distinct: BTreeSet<&(String, String)> = endless.calls.iter().collect();
            assert_eq!(distinct.len(), wanted, "{api:?} {name}");
            let told = run_told(api, name, 4, 20);
            assert_eq!(told.calls.len(), 4, "{api:?} {name}");
            assert!(told.last.text.len() > 20, "{api:?} {name}: {}", told.last.text);
        }
    }
}

#[test]
fn the_stubborn_call_on_and_only_the_missing_tools_stop_them() {
    for api in ALL {
        for name in ["stubborn", "mute"] {
            assert_eq!(run_told(api, name, 1, 12).calls.len(), 12, "{api:?} {name}");
            let mut body = api.question();
            body["tool_choice"] = api.none();
            let reply = api.ask(&sim(name), &body);
            assert_eq!((reply.stop, reply.calls.len()), ("end", 0), "{api:?} {name}");
            assert_eq!(reply.text.is_empty(), name == "mute", "{api:?} {name}");
        }
    }
}

#[test]
fn no_scenario_calls_where_it_may_not_and_forced_ones_call_what_they_must() {
    let excused = [
        "overloaded",
        "refuser",
        "midstream-error",
        "cut",
        "pause",
        "truncator",
        "unknown-tool",
        "empty",
    ];
    for api in ALL {
        for (name, _) in Scenario::builtin_names() {
            let mut body = api.question();
            body["tool_choice"] = api.none();
            let (_, json) = api.json(&sim(name), &body);
            let called = ["\"tool_use\"", "\"tool_calls\":", "\"function_call\""];
            assert!(!called.iter().any(|c| json.to_string().contains(c)), "{name}: {json}");
            if excused.contains(&name) {
                continue;
            }
            for (choice, wanted) in [(api.any(), None), (api.named("read_file"), Some("read_file"))]
            {
                body["tool_choice"] = choice;
                let reply = api.ask(&sim(name), &body);
                let (_, first, _) = &reply.calls[0];
                assert!(wanted.is_none_or(|w| first == w), "{api:?} {name}: {first}");
                assert_eq!(reply.text, "", "{api:?} {name}: no text before a forced call");
            }
        }
    }
}

#[test]
fn one_call_at_a_time_is_obeyed() {
    for api in ALL {
        for name in ["parallel", "reader", "thinker"] {
            let mut body = api.question();
            assert!(api.ask(&sim(name), &body).calls.len() > 1, "{api:?} {name}");
            api.one_call(&mut body);
            assert_eq!(api.ask(&sim(name), &body).calls.len(), 1, "{api:?} {name}");
        }
    }
}

#[test]
fn silent_ones_recover_by_the_right_nudge_only() {
    for api in ALL {
        for name in ["empty", "whitespace"] {
            for (parameter, recovers) in [("", true), (":never", false)] {
                let sim = sim(&format!("{name}{parameter}"));
                let mut body = api.question();
                let silent = api.drive(&sim, &mut body, 9, |_, _| "found".into());
                assert_eq!((silent.requests, silent.last.text.trim()), (2, ""), "{api:?} {name}");
                assert!(silent.last.output_tokens <= 3, "{api:?} {name}");
                let history = body[api.history_key()].as_array_mut().unwrap();
                if history.last().unwrap()["role"] == "assistant" {
                    history.pop();
                }
                let after = |more: &[Value]| {
                    let mut body = body.clone();
                    api.push(&mut body, more.to_vec());
                    api.ask(&sim, &body).text.trim().len() > 20
                };
                let nudge = user("Please continue.");
                assert!(!after(std::slice::from_ref(&nudge)), "{api:?} {name}: the bare nudge");
                let pair = [assistant("[no answer]"), nudge];
                assert_eq!(after(&pair), recovers, "{api:?} {name}{parameter}");
            }
        }
    }
}

#[test]
fn short_and_false_answers() {
    for api in ALL {
        let trivial = run(api, "trivial", 9);
        assert_eq!((trivial.calls.len(), trivial.last.text.as_str()), (1, "OK."), "{api:?}");
        assert_eq!(trivial.last.output_tokens, 3, "{api:?}");
        let echo = run(api, "echo", 9);
        assert!(echo.calls.is_empty());
        assert!(echo.last.text.contains("[Tool Result]"), "{api:?}: {}", echo.last.text);
    }
}

#[test]
fn text_tags_come_with_a_tail_or_in_part_and_then_an_answer() {
    for api in ALL {
        let ask = |name: &str, said: &[&str]| {
            let mut body = api.question();
            for text in said {
                api.push(&mut body, vec![assistant(text), user("[Tool Result]\nnothing")]);
            }
            api.ask(&sim(name), &body).text
        };
        let tail = ask("tail", &[]);
        let (block, after) = tail.split_once("</use_tool>").unwrap();
        assert!(block.contains("<use_tool>\n{\"name\": \"grep\"") && after.len() > 20, "{tail}");
        let answer = ask("tail", &[&tail]);
        assert!(!answer.contains("use_tool"), "{answer}");
        assert!(ask("tail", &[&tail, &answer]).contains("use_tool"), "a further question");
        let half = ask("partial-tag", &[]);
        assert!(half.contains("<use_tool>") && !half.contains("</use_tool>"), "{half}");
        let whole = ask("partial-tag", &[&half]);
        assert!(whole.starts_with("<use_tool>") && whole.ends_with("</use_tool>"), "{whole}");
        assert!(!ask("partial-tag", &[&half, &whole]).contains("use_tool"));
        // A gateway has dropped the broken half.
        assert!(!ask("partial-tag", &["Let me look at the notes."]).contains("use_tool"));
    }
}

#[test]
fn truncated_in_a_call_then_in_the_answer() {
    for api in ALL {
        let sim = sim("truncator");
        let mut body = api.question();
        let cut = api.ask(&sim, &body);
        assert_eq!((cut.stop, cut.calls.len()), ("length", 1), "{api:?}");
        if api != Api::Anthropic {
            assert!(serde_json::from_str::<Value>(&cut.calls[0].2).is_err(), "{api:?}: {cut:?}");
        }
        let whole = api.ask(&sim, &body);
        assert_eq!(whole.stop, "calls", "{api:?}");
        api.push(&mut body, whole.said);
        api.push(&mut body, api.results(vec![(whole.calls[0].0.clone(), "found".into())]));
        let half = api.ask(&sim, &body);
        assert_eq!(half.stop, "length", "{api:?}");
        api.push(&mut body, half.said);
        api.push(&mut body, vec![user("Continue exactly where you stopped.")]);
        let rest = api.ask(&sim, &body);
        assert_eq!(rest.stop, "end", "{api:?}");
        assert!(rest.text.starts_with(" sentence"), "{api:?}: {}", rest.text);
    }
}

#[test]
fn a_search_of_the_providers_ends_in_an_answer_pauses_or_not() {
    for api in [Api::Chat, Api::Responses] {
        for (name, searches) in [("pause", 2), ("pause:always", 10)] {
            let (_, json) = api.json(&sim(name), &api.question());
            let reply = api.read(&json);
            assert_eq!(reply.stop, "end", "{api:?}");
            assert!(reply.text.contains("Let me search for that."), "{api:?}: {}", reply.text);
            let seen = json.to_string().matches("web_search_call").count();
            assert_eq!(seen, if api == Api::Chat { 0 } else { searches }, "{json}");
        }
    }
}

#[test]
fn refusals_batches_and_slips() {
    for api in ALL {
        let bare = run(api, "refuser", 3).last;
        assert_eq!((bare.stop, bare.text.as_str()), ("refused", ""), "{api:?}");
        let said = run(api, "refuser:text", 3).last;
        assert_eq!((said.stop, said.text.as_str()), ("refused", "I can not help with that."));
        let parallel = run(api, "parallel", 9);
        assert_eq!((parallel.calls.len(), parallel.requests), (18, 4), "{api:?}");
        let slip = api.ask(&sim("bad-json"), &api.question());
        assert!(slip.calls[0].2.contains("notes.md"), "{api:?}: {slip:?}");
        let unknown = run(api, "unknown-tool", 9);
        assert_eq!(unknown.calls[0].0, "consult_oracle", "{api:?}");
        assert!(unknown.last.text.contains("second one worked"), "{api:?}");
    }
}

#[test]
fn failures_pass_when_they_are_said_to() {
    for api in ALL {
        let busy = sim("overloaded");
        let status = if api == Api::Anthropic { 529 } else { 503 };
        for _ in 0..2 {
            let response = api.post(&busy, 0, &api.question());
            assert_eq!((response.status, response.header("retry-after")), (status, Some("1")));
            let error: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
            assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        }
        api.ask(&busy, &api.question());
        assert_eq!((busy.refused_requests(), busy.stats().faults), (0, 2), "{api:?}");
        let stream = |name: &str| {
            let mut body = api.question();
            body["stream"] = true.into();
            api.post(&sim(name), 0, &body).collect_bytes()
        };
        let (bytes, cut) = stream("midstream-error");
        let text = String::from_utf8(bytes).unwrap();
        assert!(!cut && text.contains("\"error\":{") && !text.contains("[DONE]"), "{text}");
        let (bytes, cut) = stream("cut");
        assert!(cut && !bytes.ends_with(b"\n\n"), "{api:?}");
        assert!(!stream("cut:0").1, "{api:?}");
        // Without streaming, the failure is the whole answer, and a cut body is broken.
        let error = api.post(&sim("midstream-error"), 0, &api.question()).status;
        assert!(error >= 500, "{api:?}: {error}");
        assert!(api.post(&sim("cut"), 0, &api.question()).collect_bytes().1, "{api:?}");
    }
}

#[test]
fn slow_ones_say_how_long_they_wait() {
    for api in ALL {
        let mut body = api.question();
        body["stream"] = true.into();
        let response = api.post(&sim("slow:200"), 0, &body);
        let softland_sim::Body::Stream(chunks) = response.body else { panic!("a stream") };
        assert_eq!(chunks[0].delay_ms, 200, "{api:?}");
        assert!(chunks.iter().filter(|c| c.delay_ms == 20).count() > 3, "{api:?}");
    }
}

#[test]
fn streamed_and_whole_are_the_same_however_it_is_cut() {
    for api in ALL {
        for (name, _) in Scenario::builtin_names()
            .filter(|(n, _)| !["midstream-error", "cut", "bad-json", "overloaded"].contains(n))
        {
            for piece_bytes in [None, Some(1), Some(7)] {
                let config =
                    Config { piece_bytes, ..Config::new(Scenario::from_name(name).unwrap()) };
                let (whole, stream) = (Sim::new(config.clone()), Sim::new(config));
                let body = api.question();
                let wanted = api.ask(&whole, &body);
                let got = api.ask_stream(&stream, &body);
                assert_eq!((&got.text, &got.calls), (&wanted.text, &wanted.calls), "{name}");
                assert_eq!(got.stop, wanted.stop, "{api:?} {name}");
                assert_eq!(got.output_tokens, wanted.output_tokens, "{api:?} {name}");
                assert_eq!(whole.stats().charges, stream.stats().charges, "{api:?} {name}");
            }
        }
    }
}

#[test]
fn limits_cut_the_answer() {
    for api in ALL {
        let text = "one two three, ünd so weiter, und weiter, und noch viel weiter als gedacht";
        let said = Sim::new(Config::new(Scenario::Scripted(vec![Turn::from_text(text)])));
        let mut body = api.question();
        let (key, limit) = match api {
            Api::Anthropic => ("max_tokens", 16),
            Api::Chat => ("max_completion_tokens", 16),
            Api::Responses => ("max_output_tokens", 16),
        };
        body[key] = limit.into();
        let reply = api.ask(&said, &body);
        assert_eq!(reply.stop, "length", "{api:?}");
        assert!(text.starts_with(&reply.text) && reply.text.len() >= 63, "{api:?}: {reply:?}");
        assert_eq!(
            said.stats().charges.back().map(|charge| charge.usage.output),
            Some(16),
            "{api:?}"
        );
    }
    // Chat has stop sequences too.
    let said = Sim::new(Config::new(Scenario::Scripted(vec![Turn::from_text("one two three")])));
    let mut body = Api::Chat.question();
    body["stop"] = json!(["three", " two"]);
    let reply = Api::Chat.ask(&said, &body);
    assert_eq!((reply.text.as_str(), reply.stop), ("one", "end"));
}

#[test]
fn scripted_turns_are_played_in_order_whatever_is_asked() {
    for api in ALL {
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
        let mut body = api.question();
        body["tool_choice"] = api.none();
        assert_eq!(api.ask_stream(&sim, &body).calls[0].1, "grep", "{api:?}: lawless");
        assert_eq!(api.post(&sim, 0, &body).status, 500);
        body["stream"] = true.into();
        let softland_sim::Body::Stream(chunks) = api.post(&sim, 0, &body).body else { panic!() };
        assert_eq!(chunks.last().unwrap().piece, Piece::Cut, "{api:?}");
        body["stream"] = false.into();
        assert_eq!(api.ask(&sim, &body).stop, "refused", "{api:?}");
        assert!(api.ask(&sim, &body).calls.is_empty(), "{api:?}: a lawful one does not call");
        assert_eq!(api.ask(&sim, &body).text, "That is all.", "{api:?}");
        assert_eq!(sim.refused_requests(), 0);
    }
}

#[test]
fn thinking_is_shown_where_it_is_shown_and_counted_everywhere() {
    for (api, model) in [
        (Api::Anthropic, "claude-opus-5-5"),
        (Api::Chat, "deepseek-v4-flash"),
        (Api::Responses, "gpt-5.2"),
    ] {
        let sim = sim("thinker");
        let mut body = api.question();
        body["model"] = model.into();
        let run = api.drive(&sim, &mut body, 20, |_, _| "a.md:1:deploy".into());
        assert!(!run.last.text.is_empty(), "{api:?}");
        assert!(sim.stats().charges.iter().all(|c| c.usage.thinking > 0), "{api:?}");
        assert_eq!(sim.refused_requests(), 0, "{api:?}");
    }
}
