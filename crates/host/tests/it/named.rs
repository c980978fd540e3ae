//! Runs that a program names, and runs within them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use softland_host::core::policy::PolicyValue;
use softland_host::govern::GovernSettings;
use softland_host::{PolicySource, RunAround, RunName, RunReport, Step, make_settings};

use crate::support::{Answer, Program, add_round, question, settings_with};

const LOCAL: &str = "[This answer is softland's, not the model's.]";

/// A run, and the runs around it with their settings, the innermost first.
fn named(name: &str, around: &[(&str, &Arc<GovernSettings>)]) -> RunName {
    let around = around.iter().map(|(name, settings)| RunAround {
        name: (*name).into(),
        settings: Some(Arc::clone(settings)),
    });
    RunName { name: name.into(), around: around.collect() }
}

fn ask(program: &mut Program, name: RunName, asked: &Value) -> Answer {
    let call = program.begin_named(asked, Some(name));
    program.carry_out(call, false, true)
}

fn report(program: &Program, name: &str) -> RunReport {
    program.governor.report_run(name).unwrap()
}

/// A question that nobody else asks.
fn question_about(what: &str) -> Value {
    let mut asked = question(false);
    asked["messages"][0]["content"] = json!(format!("How are the notes on {what}?"));
    asked
}

fn is_local(answer: &Answer) -> bool {
    String::from_utf8_lossy(&answer.body).contains(LOCAL)
}

#[test]
fn p01_a_run_within_a_run_spends_its_money_too() {
    let mut program = Program::new("reader", &[]);
    let rich = settings_with(&[("cost_limit_usd", 1)]);
    program.governor.open_run(&named("outer", &[]));
    let answer = ask(&mut program, named("inner", &[("outer", &rich)]), &question(false));
    assert_eq!(answer.status, 200);
    let cost = report(&program, "inner").cost.unwrap();
    assert_eq!(Some(cost), report(&program, "outer").cost);
    assert!(cost.0 > 0);
    // The innermost run is not the only one that may have no money.
    let poor = PolicyValue::Float(0.000_001);
    let poor =
        PolicySource { keys: vec![("cost_limit_usd".to_owned(), poor)], ..PolicySource::default() };
    let poor = Arc::new(make_settings(&poor).unwrap());
    program.governor.open_run(&named("poor", &[]));
    program.governor.open_run(&named("middle", &[("poor", &poor)]));
    let name = named("innermost", &[("middle", &rich), ("poor", &poor)]);
    assert!(is_local(&ask(&mut program, name, &question_about("money"))));
    let costs = ["innermost", "middle", "poor"].map(|name| report(&program, name).cost.unwrap().0);
    assert_eq!(costs, [0, 0, 0]);
}

#[test]
fn p02_runs_within_a_run_share_its_tokens() {
    let mut program = Program::new("looper", &[]);
    let limits = settings_with(&[("tokens_limit", 5000), ("reserve_tokens", 50)]);
    program.settings = Arc::clone(&limits);
    program.governor.open_run(&named("outer", &[]));
    let plain = settings_with(&[("reserve_tokens", 50)]);
    let mut landed = Vec::new();
    for number in 0..100 {
        // Each of them alone is far below the limit.
        program.settings = Arc::clone(&plain);
        let name = format!("inner-{number}");
        let inner = named(&name, &[("outer", &limits)]);
        let answer = ask(&mut program, inner, &question_about(&format!("part {number}")));
        assert_eq!(answer.status, 200);
        if let Some(reason) = report(&program, &name).reason {
            landed.push((number, reason));
            break;
        }
    }
    let [(number, reason)] = &landed[..] else { panic!("no run within has landed") };
    assert_eq!(reason, "tokens");
    assert!(*number > 1, "{number}: the first one has all that the run around it has");
    // The run around them has what they have left.
    program.settings = limits;
    let long = question_about(&"the whole ".repeat(20));
    ask(&mut program, named("outer", &[]), &long);
    assert_eq!(report(&program, "outer").reason.as_deref(), Some("tokens"));
    // Another one is not concerned.
    ask(&mut program, named("other", &[]), &long);
    assert_eq!(report(&program, "other").reason, None);
}

#[test]
fn p03_a_run_within_a_run_has_no_more_time_than_that() {
    let mut program = Program::new("looper", &[]);
    let over = settings_with_time("0s");
    program.governor.open_run(&named("outer", &[]));
    let answer = ask(&mut program, named("inner", &[("outer", &over)]), &question(false));
    assert!(String::from_utf8_lossy(&answer.body).contains("(time_limit: no time was left)"));
    assert_eq!(report(&program, "inner").reason.as_deref(), Some("time"));
    let open = settings_with_time("1h");
    ask(&mut program, named("other", &[("outer", &open)]), &question_about("time"));
    assert_eq!(report(&program, "other").reason, None);
}

/// Asks in one named run after another question until it has a reason to end. Returns the number of
/// questions.
fn ask_until_it_ends(program: &mut Program, name: &str) -> (u64, Option<String>) {
    for number in 1..1000 {
        let asked = question_about(&format!("{name} {number}"));
        assert_eq!(ask(program, named(name, &[]), &asked).status, 200);
        if let Some(reason) = report(program, name).reason {
            return (number, Some(reason));
        }
    }
    (1000, None)
}

#[test]
fn p09_conversations_of_a_run_share_its_tokens_and_its_time() {
    let mut program = Program::new("looper", &[]);
    program.settings = settings_with(&[("tokens_limit", 3000), ("reserve_tokens", 50)]);
    let (number, reason) = ask_until_it_ends(&mut program, "tokens");
    assert_eq!(reason.as_deref(), Some("tokens"));
    assert!(number > 1, "the first one has all of it");
    let (again, _) = ask_until_it_ends(&mut program, "other");
    assert_eq!(again, number, "another run is not concerned");
    program.settings = settings_with_time("400ms");
    let (number, reason) = ask_until_it_ends(&mut program, "time");
    assert_eq!(reason.as_deref(), Some("time"));
    assert!(number > 1, "the first one has all of it");
}

#[test]
fn p08_a_provider_that_is_slower_than_the_limit_is_no_failure() {
    let keys = [("time_limit", "120ms"), ("reserve_time", "40ms")]
        .map(|(key, value)| (key.to_owned(), PolicyValue::Text(value.to_owned())));
    let source = PolicySource { keys: keys.to_vec(), ..PolicySource::default() };
    let mut program = Program::new("reader", &[]);
    program.settings = Arc::new(make_settings(&source).unwrap());
    let mut call = program.begin_named(&question(false), Some(named("job", &[])));
    let mut step = call.advance(true);
    // The request, and the one that asks for the answer in the time that was kept.
    for sent in 0..2 {
        let Step::Send(outgoing) = step else { panic!("{sent} requests were sent: {step:?}") };
        assert!(outgoing.time_left.is_some());
        while call.time_left() != Some(Duration::ZERO) {
            std::thread::yield_now();
        }
        step = call.fail("ReadTimeout", true, true);
    }
    let Step::Answer { status, body, failed, .. } = step else { panic!("no answer: {step:?}") };
    assert!(status == 200 && !failed && String::from_utf8_lossy(&body).contains(LOCAL));
    let told = report(&program, "job");
    assert_eq!((told.reason.as_deref(), told.answered_by), (Some("time"), Some("local")));
}

fn settings_with_time(limit: &str) -> Arc<GovernSettings> {
    let limit = PolicyValue::Text(limit.to_owned());
    let keys = vec![("time_limit".to_owned(), limit)];
    Arc::new(make_settings(&PolicySource { keys, ..PolicySource::default() }).unwrap())
}

#[test]
fn p04_runs_that_continue_one_another_are_counted_once() {
    // A client that takes no text for an answer asks on, and softland answers each time.
    let limits = [("tool_calls_limit", 3), ("repeat_limit", 50)];
    let mut program = Program::new("mute", &limits);
    let mut asked = question(false);
    let mut requests = 0;
    let mut calls = 0;
    for _ in 0..12 {
        let answer = ask(&mut program, named("job", &[]), &asked);
        requests += 1;
        let message: Value = serde_json::from_slice(&answer.body).unwrap();
        if add_round(&mut asked, &message) {
            calls += 1;
            continue;
        }
        let last = asked["messages"].as_array_mut().unwrap().last_mut().unwrap();
        *last = json!({"role": "user", "content": "Error: no tool was called. Call final_answer."});
    }
    let told = report(&program, "job");
    assert!(told.runs.len() > 2, "each answer of softland's ends a run: {told:?}");
    assert_eq!((told.turns, told.tool_calls), (requests, calls), "{told:?}");
    assert_eq!(told.answered_by, Some("local"));
}

#[test]
fn p05_a_request_without_tools_counts_for_its_own_run_and_those_around_it() {
    let mut program = Program::new("reader", &[]);
    let plain = settings_with(&[]);
    for name in ["outer", "beside"] {
        program.governor.open_run(&named(name, &[]));
    }
    let mut title = question(false);
    title.as_object_mut().unwrap().remove("tools");
    ask(&mut program, named("inner", &[("outer", &plain)]), &title);
    let costs = ["inner", "outer", "beside"].map(|name| report(&program, name).cost.unwrap().0);
    assert!(costs[0] > 0 && costs[0] == costs[1] && costs[2] == 0, "{costs:?}");
    assert!(report(&program, "inner").runs.is_empty());
}
