//! The words to the model while a limit comes near.

use softland_agent::core::policy::{Countdown, Policy};
use softland_agent::{EventKind, ToolOutput};
use softland_sim::Turn;

use crate::behaviours::support::{Case, batch, call, calls_then, executed, grep, last_line, play};
use crate::common::interventions;

fn calls(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

#[tokio::test]
async fn b01_at_the_limit_no_round_starts_and_the_run_ends_with_an_answer() {
    // The model would go on for ever; each limit of the run ends it.
    let stubborn = || (0..12).map(grep).collect::<Vec<_>>();
    let turns = Policy { turns_limit: Some(3), ..Policy::default() };
    let chars = Policy { result_chars_limit: Some(20), ..Policy::default() };
    for (policy, most) in [(calls(3), 3), (turns, 2), (chars, 3)] {
        let ran = play(policy, stubborn()).await;
        assert_eq!(ran.executed, most, "{:?}", ran.end());
        assert_eq!(executed(&ran.events).len() as u64, most);
        // The note, its refusal, and a request without tools: no other.
        assert!(ran.requests.len() as u64 <= most + 3, "{} requests", ran.requests.len());
        assert!(ran.report.ended.outcome.is_done(), "{:?}", ran.end());
        assert!(!ran.answer().trim().is_empty());
        ran.nothing_refused();
    }
    // A tool's own limit refuses that tool only.
    let policy = Policy { tool_limits: [("grep".to_owned(), 1)].into(), ..Policy::default() };
    let read = Turn::from_call("read_file", r#"{"path":"a"}"#);
    let ran = play(policy, vec![grep(0), grep(1), read, Turn::from_text("Twelve.")]).await;
    let names: Vec<_> = executed(&ran.events).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["grep", "read_file"]);
    assert_eq!(ran.results(2), ["grep: limit of 1 reached; other tools remain"]);
    assert_eq!(ran.end(), ("answered", "final".into(), None));
}

#[tokio::test]
async fn b02_one_warning_in_the_last_result_once_per_limit() {
    // 90 characters of 100 are used after the ninth call: ten a call.
    let policy = Policy { result_chars_limit: Some(100), ..Policy::default() };
    let mut case = Case::new(policy, calls_then(9, "Twelve."));
    case.answer = |_, _| ToolOutput::ok("0123456789");
    let ran = case.run().await;
    let warning = "About 10% of the tool result limit remains. Finish your research and prepare \
                   the final answer.";
    for request in 1..9 {
        assert_eq!(ran.results(request), ["0123456789"], "request {request}");
    }
    assert_eq!(ran.lines(9), [warning]);
    // In the last result of a batch, and once, however long the run stays there.
    let policy = Policy { result_chars_limit: Some(100), ..Policy::default() };
    let turns = vec![batch(0..2), grep(3), grep(4), Turn::from_text("Twelve.")];
    let mut case = Case::new(policy, turns);
    case.answer = |n, _| ToolOutput::ok("x".repeat(if n < 2 { 46 } else { 1 }));
    let ran = case.run().await;
    let text = ran.raw.last().unwrap();
    assert_eq!(text.matches("About 10% of").count(), 1, "{text}");
    assert_eq!(ran.lines(1), ["x".repeat(46), warning.to_owned()]);
    assert_eq!(interventions(&ran.events), ["warn"]);
    // The limit of calls says it by its countdown, or, where that is off, by a warning.
    let ran = play(Policy { countdown: Countdown::Off, ..calls(4) }, calls_then(3, "Done.")).await;
    assert_eq!(ran.results(2), ["finding 1"]);
    assert!(ran.lines(3)[0].starts_with("One tool call remains."), "{:?}", ran.lines(3));
    let ran = play(calls(4), calls_then(3, "Done.")).await;
    assert_eq!(ran.lines(3), ["1 tool call remaining"]);
}

#[tokio::test]
async fn b02_a_warning_whose_place_is_taken_moves_to_the_next_result() {
    // The turn that crosses 90 % of the turns is refused by its tool's own limit.
    let policy = Policy {
        turns_limit: Some(5),
        warn_at: softland_agent::core::policy::Share::from_percent(40),
        tool_limits: [("grep".to_owned(), 1)].into(),
        ..Policy::default()
    };
    let read = |n: u64| Turn::from_call("read_file", format!(r#"{{"path":"{n}"}}"#));
    let turns = vec![grep(0), grep(1), read(0), Turn::from_text("Done.")];
    let ran = play(policy, turns).await;
    assert_eq!(ran.results(2), ["grep: limit of 1 reached; other tools remain"]);
    assert!(ran.lines(3)[0].starts_with("About 60% of the turn limit"), "{:?}", ran.lines(3));
}

#[tokio::test]
async fn b03_limit_one_does_not_warn_and_limit_zero_begins_with_rung_three() {
    for countdown in [Countdown::Every, Countdown::Milestones, Countdown::Off] {
        let ran = play(Policy { countdown, ..calls(1) }, calls_then(1, "Twelve.")).await;
        let told = interventions(&ran.events);
        assert_eq!(told, ["ask"], "{countdown:?}");
        assert!(!ran.raw.last().unwrap().contains("remain"), "{:?}", ran.raw.last());
    }
    let ran = play(calls(0), vec![Turn::from_text("From memory: twelve.")]).await;
    assert_eq!(ran.requests.len(), 1);
    let request = &ran.requests[0];
    assert_eq!(request["tool_choice"]["type"], "none");
    let human = request["messages"][0]["content"].as_array().unwrap();
    let last = human.last().unwrap()["text"].as_str().unwrap();
    assert!(last.contains("\n\nTool call limit reached (0 of 0). Answer now"), "{last}");
    assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("none")));
    assert_eq!((ran.executed, ran.answer()), (0, "From memory: twelve."));
    ran.nothing_refused();
}

#[tokio::test]
async fn b07_below_countdown_from_all_is_as_without_limits() {
    let limited = play(calls(10), calls_then(4, "Twelve.")).await;
    let free = play(Policy::default(), calls_then(4, "Twelve.")).await;
    assert_eq!(limited.raw.len(), 5);
    assert_eq!(limited.raw, free.raw);
    // The fifth of ten is half of it: the line is there, and only there.
    let limited = play(calls(10), calls_then(5, "Twelve.")).await;
    let free = play(Policy::default(), calls_then(5, "Twelve.")).await;
    assert_eq!(limited.raw[..5], free.raw[..5]);
    let (with, without) = (&limited.raw[5], &free.raw[5]);
    assert_eq!(&with.replace(r"\n\n5 tool calls remaining", ""), without);
    assert_ne!(with, without);
}

#[tokio::test]
async fn b08_each_result_ends_with_what_remains() {
    // One by one, in a batch, on an error, and with an answer tool that does not count.
    let mut case = Case::new(
        Policy { answer_tool: vec!["respond".into()], ..calls(8) },
        vec![batch(0..5), grep(5), grep(6), Turn::from_call("respond", r#"{"answer":"Twelve."}"#)],
    );
    case.answer = |n, _| match n {
        5 => ToolOutput::error("no such folder"),
        _ => ToolOutput::ok(format!("finding {n}")),
    };
    let ran = case.run().await;
    let batch =
        ["finding 0", "finding 1", "finding 2", "4 tool calls remaining", "3 tool calls remaining"];
    assert_eq!(ran.lines(1), batch);
    assert_eq!(ran.results(2), ["no such folder\n\n2 tool calls remaining"]);
    assert_eq!(ran.requests[2]["messages"][4]["content"][0]["is_error"], true);
    assert_eq!(ran.lines(3), ["1 tool call remaining"]);
    assert_eq!((ran.report.tool_calls, ran.answer()), (7, "Twelve."));
    assert_eq!(ran.end(), ("answered", "final".into(), None));
}

#[tokio::test]
async fn b15_a_limit_that_is_named_is_the_one_that_holds() {
    for limit in [1, 2, 5, 8] {
        let ran = play(calls(limit), (0..20).map(grep).collect()).await;
        let asked = ran.requests.iter().position(|r| r.to_string().contains("Answer now")).unwrap();
        let named = format!("Tool call limit reached ({limit} of {limit}). Answer now");
        assert!(ran.lines(asked)[0].starts_with(&named), "{:?}", ran.lines(asked));
        assert_eq!(ran.executed, limit);
        for (request, before) in (0..asked).enumerate().skip(1) {
            let line = &ran.lines(request)[0];
            if let Some(left) =
                line.split_once(" tool call").and_then(|(n, _)| n.parse::<u64>().ok())
            {
                assert_eq!(left, limit - before as u64, "request {request}");
            }
        }
    }
    for limit in [2, 4] {
        let policy = Policy { turns_limit: Some(limit), ..Policy::default() };
        let ran = play(policy, calls_then(limit - 1, "Twelve.")).await;
        let named = format!("Turn limit reached (this is the last of {limit}).");
        assert!(ran.lines(limit as usize - 1)[0].starts_with(&named));
        assert_eq!((ran.report.turns, ran.requests.len() as u64), (limit, limit));
    }
    let policy = Policy { tool_limits: [("grep".to_owned(), 3)].into(), ..Policy::default() };
    let ran = play(policy, (0..8).map(grep).collect()).await;
    assert_eq!(ran.executed, 3);
    assert!(ran.raw.last().unwrap().contains("grep: limit of 3 reached"));
}

#[tokio::test]
async fn b16_five_calls_in_one_turn_are_five_calls_and_one_turn() {
    let policy = Policy { turns_limit: Some(9), tool_calls_limit: Some(8), ..Policy::default() };
    let ran = play(
        policy,
        vec![batch(0..5), Turn::from_parts(vec![call(9)]), Turn::from_text("Twelve.")],
    )
    .await;
    assert_eq!((ran.report.turns, ran.report.tool_calls), (3, 6));
    let remaining = serde_json::to_value(&ran.report.ended.remaining).unwrap();
    assert_eq!(remaining["tool_calls_limit"], 2);
    let turns = ran.events.iter().filter(|e| matches!(e.kind, EventKind::TurnStart { .. })).count();
    assert_eq!(turns, 3);
    // Wherever a number is shown to the model, its unit stands beside it.
    for result in ran.results(1).iter().chain(&ran.results(2)).skip(3) {
        assert!(last_line(result).ends_with(" tool calls remaining"), "{result}");
    }
    let turns = Policy { turns_limit: Some(1), ..Policy::default() };
    let ran = play(turns, vec![Turn::from_text("Twelve.")]).await;
    assert!(ran.raw[0].contains("Turn limit reached (this is the last of 1)"), "{}", ran.raw[0]);
}
