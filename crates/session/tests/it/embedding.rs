//! What an embedder without a store needs: one value that is kept, one entry, and errors for
//! misuse.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use softland_session::core::policy::Policy;
use softland_session::core::{Millis, RequestFailure, Role};
use softland_session::wire::Api;
use softland_session::{BeginError, Context, Done, Exchange, Kept, KnownFacts, Output, Step};

const CALL: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"toolu_0123456789","name":"f","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}}"#;

fn context(policy: Policy) -> Context {
    Context {
        api: Api::Anthropic,
        ..Context::new(Role::Gateway, policy, None, "claude-sonnet-4-5")
    }
}

fn body(stream: bool) -> String {
    format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":100,"stream":{stream},"messages":[{{"role":"user","content":"Count."}}]}}"#
    )
}

fn begin(kept: &Kept, policy: Policy, facts: &KnownFacts) -> Result<Exchange, BeginError> {
    Exchange::begin(body(false), kept, facts, context(policy), &mut Output::bytes_only())
}

fn take_call(kept: &Kept) -> Done {
    let mut exchange = begin(kept, Policy::default(), &KnownFacts::default()).unwrap();
    assert!(matches!(exchange.next_step(), Ok(Step::Send(_))));
    exchange.push_whole(CALL.as_bytes(), &mut Output::default()).unwrap();
    match exchange.next_step() {
        Ok(Step::Done(done)) => *done,
        other => panic!("the turn is the client's: {other:?}"),
    }
}

#[test]
fn nothing_is_repeated_behind_the_end() {
    let mut exchange = begin(&Kept::default(), Policy::default(), &KnownFacts::default()).unwrap();
    assert!(matches!(exchange.next_step(), Ok(Step::Send(_))));
    let mut out = Output::default();
    exchange.push_whole(CALL.as_bytes(), &mut out).unwrap();
    let written = out.bytes.len();
    assert!(exchange.push_whole(CALL.as_bytes(), &mut out).is_err());
    assert!(exchange.push_bytes(b"data: {}\n\n", &mut out).is_err());
    assert!(matches!(exchange.next_step(), Ok(Step::Done(_))));
    assert!(exchange.next_step().is_err() && exchange.next_step().is_err());
    assert!(exchange.push_whole(CALL.as_bytes(), &mut out).is_err());
    assert_eq!(out.bytes.len(), written);
}

#[test]
fn what_is_kept_outlives_the_process() {
    let mut kept = Kept::default();
    let done = take_call(&kept);
    kept.merge(&done);
    let run = done.run.expect("a run");
    assert_eq!(kept.runs[&run].tokens, 15);
    assert!(kept.records.contains_key(&run));
    let text = serde_json::to_string(&kept).unwrap();
    assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), kept);
    // Two exchanges beside each other: neither loses the other's record, in any order.
    let (one, other) = (take_call(&Kept::default()), take_call(&kept));
    let (mut here, mut there) = (Kept::default(), Kept::default());
    [&one, &other].into_iter().for_each(|done| here.merge(done));
    [&other, &one].into_iter().for_each(|done| there.merge(done));
    assert_eq!(here.records, there.records);
}

#[test]
fn a_limit_that_cannot_be_held_is_an_error() {
    let policy = |time| Policy { time_limit: time, ..Policy::default() };
    let limited = policy(Some(Millis(60_000)));
    let begun = begin(&Kept::default(), limited.clone(), &KnownFacts::default());
    let error = begun.expect_err("no time is known");
    assert_eq!(error, BeginError::Unheld("time_limit"));
    let wanted = "time_limit cannot be enforced without `elapsed` in `KnownFacts`";
    assert_eq!(error.to_string(), wanted);
    let facts = KnownFacts { elapsed: Some(Millis(1)), ..KnownFacts::default() };
    assert!(begin(&Kept::default(), limited, &facts).is_ok());
    let costly = Policy { cost_limit_usd: Some("1".parse().unwrap()), ..Policy::default() };
    let error = begin(&Kept::default(), costly, &facts).expect_err("no money is known");
    let wanted = "cost_limit_usd cannot be enforced without `money` in `KnownFacts`";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_stream_that_is_given_up_says_what_it_has_used() {
    let (kept, facts) = (Kept::default(), KnownFacts::default());
    let mut out = Output::bytes_only();
    let mut exchange =
        Exchange::begin(body(true), &kept, &facts, context(Policy::default()), &mut out).unwrap();
    assert!(matches!(exchange.next_step(), Ok(Step::Send(_))));
    let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}"#;
    let frame = format!("event: message_start\ndata: {start}\n\n");
    exchange.push_bytes(frame.as_bytes(), &mut out).unwrap();
    exchange.fail_request(RequestFailure::Cancelled, &mut out);
    let Ok(Step::Done(done)) = exchange.next_step() else { panic!("it is over") };
    assert_eq!((done.spent.input, done.abandoned.input), (0, 10));
}

#[test]
fn events_and_results_are_json() {
    let done = take_call(&Kept::default());
    let json = serde_json::to_value(&done).unwrap();
    assert_eq!(json["calls"][0]["admission"], "run");
    assert_eq!(json["context"], done.context.to_string());
    let event = softland_session::Event::TextDelta("a".to_owned());
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(text, r#"{"event":"text_delta","data":"a"}"#);
    assert_eq!(serde_json::from_str::<softland_session::Event>(&text).unwrap(), event);
}
