//! Requests step by step, against the simulator as a function.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use softland_host::{Endpoint, Governor, Step, find_endpoint};

use crate::support::{Program, add_round, question};

#[test]
fn a_run_lands_at_its_limit_whether_its_program_waits_or_not() {
    for waits in [true, false] {
        let mut program = Program::new("looper", &[("tool_calls_limit", 4), ("repeat_limit", 50)]);
        let mut asked = question(false);
        let mut calls = 0;
        let answer = loop {
            let call = program.begin(&asked, Some("job"));
            let answer = program.carry_out(call, false, waits);
            assert_eq!(answer.status, 200);
            let message: Value = serde_json::from_slice(&answer.body).unwrap();
            if !add_round(&mut asked, &message) {
                break message;
            }
            calls += 1;
        };
        assert_eq!((calls, program.sent.len()), (4, 5));
        assert!(!answer["content"][0]["text"].as_str().unwrap().is_empty());
        let last = program.sent.last().unwrap().to_string();
        assert!(last.contains("Tool call limit reached (4 of 4). Answer now"), "{last}");
        let report = program.governor.report_run("job").unwrap();
        assert_eq!(report.outcome.as_deref(), Some("landed"));
        assert_eq!(report.reason.as_deref(), Some("tool_calls"));
        assert_eq!((report.answered_by, report.tool_calls, report.turns), (Some("model"), 4, 5));
        assert!(report.cost.unwrap().0 > 0);
        let events = program.governor.take_events();
        assert!(events[0].contains("\"seq\":0,") && events[0].contains("\"event\":\"run_start\""));
        assert!(events.last().unwrap().contains("\"event\":\"done\""), "{events:?}");
        program.governor.close_run("job");
        assert_eq!(program.governor.report_run("job"), None);
    }
}

#[test]
fn a_stream_is_passed_on_piece_by_piece() {
    for waits in [true, false] {
        let mut program = Program::new("reader", &[]);
        let call = program.begin(&question(true), None);
        let (_, _, pieces) = program.respond(&Bytes::from(question(true).to_string()));
        let answer = program.carry_out(call, true, waits);
        assert_eq!((answer.status, answer.broken), (200, false));
        // Nothing is to be done: what the provider says is what the client gets, but for its ids.
        assert_eq!(answer.body.len(), pieces.concat().len());
    }
}

#[test]
fn a_request_that_fails_is_told_from_an_answer() {
    let mut program = Program::new("reader", &[]);
    let mut call = program.begin(&question(false), None);
    assert!(matches!(call.advance(true), Step::Send(_)));
    let Step::Answer { status, failed, .. } = call.fail("no route", false, true) else {
        panic!("it is answered");
    };
    assert_eq!((status, failed), (StatusCode::BAD_GATEWAY, true));

    let mut call = program.begin(&question(true), None);
    let Step::Send(sent) = call.advance(true) else { panic!("it is sent") };
    let (status, headers, pieces) = program.respond(&sent.body);
    assert!(matches!(call.respond(status, headers, None, true), Step::Head(..)));
    assert!(matches!(call.advance(true), Step::Read(_)));
    assert!(matches!(call.push(pieces[0].clone(), true), Step::Read(_)));
    let Step::End { broken, .. } = call.fail("reset", false, true) else { panic!("it ends") };
    assert!(broken, "what broke the stream off is raised, not written into it");
}

#[test]
fn a_request_that_is_given_up_is_booked() {
    let mut program = Program::new("reader", &[]);
    let mut call = program.begin(&question(true), Some("left"));
    let Step::Send(sent) = call.advance(false) else { panic!("it is sent") };
    let (status, headers, pieces) = program.respond(&sent.body);
    call.respond(status, headers, None, false);
    call.advance(false);
    call.push(pieces[0].clone(), false);
    drop(call);
    let report = program.governor.report_run("left").unwrap();
    assert!(report.cost.unwrap().0 > 0, "its input was read");
    let events = program.governor.take_events().join("\n");
    assert!(events.contains("the client left"), "{events}");
}

#[test]
fn what_is_not_metered_is_refused_under_a_limit_of_money() {
    let refuse = |program: &Program, path: &str| {
        let at = ("api.openai.com".into(), path);
        program.governor.refuse_unmetered(&program.settings, at, HeaderMap::new()).unwrap()
    };
    let limited = Program::new("reader", &[("cost_limit_usd", 1)]);
    let (status, ..) = refuse(&limited, "/v1/batches").expect("a refusal");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(refuse(&limited, "/v1/files").is_none());
    assert!(refuse(&Program::new("reader", &[]), "/v1/batches").is_none());
    assert!(Governor::limits_money(&limited.settings));
    assert_eq!(find_endpoint("/v1/batches"), None::<Endpoint>);
}
