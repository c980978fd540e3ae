//! The effect of a limit on the round that reaches it, and everything that stays unchanged.

use softland_agent::core::policy::{Batch, Landing, Policy};
use softland_agent::{Conversation, EventKind, ToolOutput};
use softland_sim::{Part, Turn};

use crate::behaviours::support::{
    Case, FORCEABLE, MODEL, all_answered, ask, batch, between, call, calls_then, executed, grep,
    messages_of, play,
};
use crate::common::interventions;

fn calls(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

#[tokio::test]
async fn b04_a_batch_past_the_limit_runs_as_policy_says() {
    const ASK: &str = "Answer now with what you have; further tool calls will not be run.";
    const NOT_RUN: &str = "Tool call limit reached: not run.";
    let first = [
        "finding 1\n\n1 tool call remaining".to_owned(),
        format!("finding 2\n\nTool call limit reached (3 of 3). {ASK}"),
        NOT_RUN.to_owned(),
        NOT_RUN.to_owned(),
    ];
    let all = [
        "finding 1\n\n1 tool call remaining".to_owned(),
        "finding 2".to_owned(),
        "finding 3".to_owned(),
        format!("finding 4\n\nTool call limit reached (5 of 3). {ASK}"),
    ];
    let none = [
        NOT_RUN.to_owned(),
        NOT_RUN.to_owned(),
        NOT_RUN.to_owned(),
        format!("Not run. Tool call limit reached (1 of 3). {ASK}"),
    ];
    for (how, ran_in_all, shown) in
        [(Batch::First, 3, first), (Batch::All, 5, all), (Batch::None, 1, none)]
    {
        let policy = Policy { batch: how, ..calls(3) };
        let ran = play(policy, vec![grep(0), batch(1..5), Turn::from_text("Twelve.")]).await;
        assert_eq!(ran.executed, ran_in_all, "{how:?}");
        assert_eq!(executed(&ran.events).len() as u64, ran_in_all);
        assert_eq!(ran.results(2), shown, "{how:?}");
        all_answered(ran.requests[2]["messages"].as_array().unwrap());
        assert_eq!(ran.requests.len(), 3, "landing happens on the next request");
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("ask")), "{how:?}");
        assert_eq!(ran.report.tool_calls, ran_in_all);
        ran.nothing_refused();
    }
}

#[tokio::test]
async fn b05_the_crossing_result_is_cut_to_the_room_and_the_rest_is_not_run() {
    // The room left, in characters, and what stands in the result.
    for (room, wanted) in [
        (60, "é".repeat(34) + "\n[cut: result_chars_limit]"),
        (27, "é\n[cut: result_chars_limit]".to_owned()),
        (10, "[cut: result_chars_limit]".to_owned()),
    ] {
        let policy = Policy { result_chars_limit: Some(9 + room), ..Policy::default() };
        let mut case = Case::new(policy, vec![batch(0..4), Turn::from_text("Twelve.")]);
        case.answer =
            |n, _| ToolOutput::ok(if n == 0 { "123456789".into() } else { "é".repeat(100) });
        let ran = case.run().await;
        assert_eq!(ran.executed, 2, "room {room}");
        let results = ran.results(1);
        assert_eq!(results[0], "123456789");
        let (text, ask) = results[1].split_once("\n\n").unwrap();
        assert_eq!(text, wanted, "room {room}");
        assert!(ask.starts_with("Limit of tool results reached ("), "{ask}");
        assert_eq!(
            results[2..],
            ["Tool result limit reached: not run.", "Tool result limit reached: not run."]
        );
        assert_eq!(ran.end(), ("landed", "result_chars".into(), Some("ask")));
        assert_eq!(ran.report.tool_calls, 2);
    }
}

#[tokio::test]
async fn b06_the_model_has_seen_every_result_when_it_lands() {
    for landing in [Landing::Auto, Landing::Ask, Landing::None] {
        let policy = Policy { landing, ..calls(4) };
        let ran = play(policy, vec![grep(0), batch(1..4), Turn::from_text("Twelve.")]).await;
        assert_eq!(ran.report.ended.outcome.word(), "landed", "{landing:?}");
        let last = ran.raw.last().unwrap();
        for n in 0..4 {
            assert_eq!(last.matches(&format!("finding {n}")).count(), 1, "{landing:?}: {n}");
        }
    }
}

#[tokio::test]
async fn b09_tools_and_system_stay_byte_identical() {
    // Through every rung, and past the limit into a further question.
    for (model, landing) in
        [(MODEL, Landing::Auto), (MODEL, Landing::None), (FORCEABLE, Landing::Respond)]
    {
        let mut turns: Vec<_> = (0..6).map(grep).collect();
        turns.iter_mut().skip(3).for_each(|turn| turn.lawless = true);
        let mut case = Case::new(Policy { landing, ..calls(2) }, turns);
        case.model = model;
        let (agent, transport, _) = case.agent();
        let mut conversation = Conversation::new();
        ask(&agent, &mut conversation, "What is it?").await;
        ask(&agent, &mut conversation, "And then?").await;
        let bodies = transport.bodies.lock().unwrap().clone();
        assert!(bodies.len() >= 5, "{} requests", bodies.len());
        let head = |body: &Vec<u8>| {
            let text = String::from_utf8(body.clone()).unwrap();
            between(&text, r#""system":"#, r#","messages":"#).to_owned()
        };
        let first = head(&bodies[0]);
        assert!(first.contains("You search notes.") && first.contains("read_file"), "{first}");
        for body in &bodies {
            assert_eq!(head(body), first, "{model} {landing:?}");
        }
        assert_eq!(transport.sim.refused_requests(), 0, "{:?}", transport.sim.stats().refusals);
    }
}

#[tokio::test]
async fn b10_the_answer_tools_input_is_the_answer_and_its_call_is_closed() {
    let respond = || Turn::from_parts(vec![Part::tool_call("respond", r#"{"answer":"Twelve."}"#)]);
    for policy in [
        Policy { landing: Landing::Respond, ..calls(9) },
        Policy { landing: Landing::Respond, ..calls(1) },
        Policy { answer_tool: vec!["respond".into()], ..Policy::default() },
    ] {
        let mut case =
            Case::new(policy.clone(), vec![grep(0), respond(), Turn::from_text("As I said.")]);
        case.model = FORCEABLE;
        let (agent, transport, ran) = case.agent();
        let mut conversation = Conversation::new();
        let (report, events) = ask(&agent, &mut conversation, "What is it?").await;
        assert_eq!(report.answer.as_deref(), Some("Twelve."), "{policy:?}");
        assert_eq!(transport.requests().len(), 2, "a request after the answer");
        let declared = transport.requests()[0]["tools"].to_string();
        assert!(declared.contains(r#""name":"respond""#), "not declared from the first request on");
        assert_eq!(executed(&events).len(), 1, "the answer is no call to run");
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(report.tool_calls, 1);
        let starts = |e: &&_| matches!(&softland_agent::Event::clone(e).kind, EventKind::ToolStart { name, .. } if name == "respond");
        assert_eq!(events.iter().filter(starts).count(), 1, "delivered once");
        all_answered(&messages_of(&conversation));
        let (report, _) = ask(&agent, &mut conversation, "Sure?").await;
        assert_eq!(report.answer.as_deref(), Some("As I said."));
        all_answered(transport.requests()[2]["messages"].as_array().unwrap());
        assert_eq!(transport.sim.refused_requests(), 0, "{:?}", transport.sim.stats().refusals);
    }
}

#[tokio::test]
async fn b14_landing_adds_no_cache_mark_and_there_are_never_more_than_four() {
    for landing in [Landing::Auto, Landing::None, Landing::Respond] {
        let mut case = Case::new(Policy { landing, ..calls(9) }, (0..20).map(grep).collect());
        case.model = FORCEABLE;
        let ran = case.run().await;
        assert!(ran.requests.len() >= 10);
        let marks: Vec<_> =
            ran.raw.iter().map(|body| body.matches(r#""cache_control":"#).count()).collect();
        assert!(marks[0] > 0 && marks[0] <= 4, "{marks:?}");
        assert!(marks.iter().all(|n| *n == marks[0]), "{landing:?}: {marks:?}");
        // None of them stays behind in the history, where the next one would pile upon it.
        for request in &ran.requests {
            assert!(!request["messages"].to_string().contains("cache_control"));
        }
    }
}

#[tokio::test]
async fn b17_a_limit_that_was_hit_is_shown_with_its_value_and_the_findings() {
    let money = |dollars: f64| {
        let mut policy = Policy::default();
        let value = softland_agent::core::policy::PolicyValue::Float(dollars);
        policy.set_key("cost_limit_usd", &value).unwrap();
        policy
    };
    for (policy, key, value) in [
        (calls(2), "tool_calls_limit", serde_json::json!(2)),
        (Policy { turns_limit: Some(3), ..Policy::default() }, "turns_limit", serde_json::json!(3)),
        (
            Policy { result_chars_limit: Some(18), ..Policy::default() },
            "result_chars_limit",
            serde_json::json!(18),
        ),
        (
            Policy { tool_limits: [("grep".to_owned(), 2)].into(), ..Policy::default() },
            "tool_limits",
            serde_json::json!(2),
        ),
        (
            Policy { tokens_limit: Some(1500), reserve_tokens: 100, ..Policy::default() },
            "tokens_limit",
            serde_json::json!(1500),
        ),
        (Policy { reserve_tokens: 100, ..money(0.01) }, "cost_limit_usd", serde_json::Value::Null),
    ] {
        let policy = Policy { landing: Landing::Stop, ..policy };
        let ran = play(policy, (0..30).map(grep).collect()).await;
        let told = serde_json::to_value(&ran.report).unwrap();
        assert_eq!(told["outcome"], "stopped", "{key}: {told}");
        assert_eq!(told["limit"], key);
        match value.is_null() {
            true => assert!(told["value"].to_string().contains("0.01"), "{told}"),
            false => assert_eq!(told["value"], value, "{told}"),
        }
        let answer = ran.answer();
        assert!(answer.contains(key), "{key}: {answer}");
        assert!(answer.contains("softland's, not the model's"), "{answer}");
        // The call and what came back, the newest twelve.
        for n in ran.report.tool_calls.saturating_sub(12)..ran.report.tool_calls {
            let found = format!("- grep {{\"pattern\":\"p{n}\"}}: finding {n}");
            assert!(answer.contains(&found), "{key}: {answer}");
        }
    }
}

#[tokio::test]
async fn b20a_every_end_carries_the_labels_it_is_counted_by() {
    // The counter itself is the gateway's; what it counts is in each terminal event.
    let limited = |landing| Policy { landing, ..calls(1) };
    for (policy, turns, limit, outcome) in [
        (limited(Landing::Auto), calls_then(1, "Twelve."), Some("tool_calls_limit"), "landed"),
        (limited(Landing::Stop), calls_then(1, ""), Some("tool_calls_limit"), "stopped"),
        (calls(5), calls_then(1, "Twelve."), None, "answered"),
    ] {
        let ran = play(policy, turns).await;
        let last = serde_json::to_value(ran.events.last().unwrap()).unwrap();
        assert_eq!(last["event"], "done");
        assert_eq!((last["outcome"].as_str(), last["limit"].as_str()), (Some(outcome), limit));
    }
}

#[tokio::test]
async fn the_last_result_that_ran_carries_the_note() {
    // Beside a call over its own tool's limit, the note goes to the one that ran.
    let policy = Policy { tool_limits: [("read_file".to_owned(), 0)].into(), ..calls(2) };
    let read = Part::tool_call("read_file", "{}");
    let turns = vec![Turn::from_parts(vec![call(0), call(1), read]), Turn::from_text("Twelve.")];
    let ran = play(policy, turns).await;
    assert!(ran.lines(1)[1].starts_with("Tool call limit reached (2 of 2)."), "{:?}", ran.lines(1));
    assert_eq!(ran.results(1)[2], "read_file: limit of 0 reached; other tools remain");
    assert_eq!(interventions(&ran.events), ["refuse", "countdown", "ask"]);
}
