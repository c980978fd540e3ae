//! Behaviours of the provider: truncation, pauses, refusals, failures, thinking, a client that
//! goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use softland_agent::core::policy::Policy;
use softland_agent::{Conversation, Event, EventKind};
use softland_sim::{Fault, Part, Stop, Turn};
use tokio_util::sync::CancellationToken;

use crate::behaviours::canned::{self, Canned, Reply};
use crate::behaviours::support::{
    Case, agent_on, ask, call, executed, grep, messages_of, play, streamed,
};
use crate::common::signals;

fn cut(text: &str) -> Turn {
    Turn::from_text(text).with_stop(Stop::MaxTokens)
}

#[tokio::test]
async fn b22_a_truncated_text_goes_on_where_it_stopped() {
    let turns = vec![cut("It was twelve, "), cut("of which nine "), Turn::from_text("in June.")];
    let ran = play(Policy::default(), turns).await;
    assert_eq!(ran.answer(), "It was twelve, of which nine in June.");
    assert_eq!(streamed(&ran.events), ran.answer(), "shown twice, or not at all");
    assert_eq!(ran.end(), ("answered", "final".into(), None));
    let last = &ran.requests[2]["messages"];
    assert_eq!(last[1]["content"][0]["text"], "It was twelve, ");
    assert_eq!(last[2]["content"], "Continue exactly where you stopped.");
    assert_eq!(
        last.to_string().matches("It was twelve").count(),
        1,
        "the partial text is kept once"
    );
    assert_eq!(ran.report.turns, 1);
    ran.nothing_refused();
    // Three continuations at most, with max_tokens doubled up to the model's maximum.
    let ran = play(Policy::default(), (0..9).map(|n| cut(&format!("part {n} "))).collect()).await;
    assert_eq!(ran.requests.len(), 4);
    let asked: Vec<_> = ran.requests.iter().map(|r| r["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(asked, [16_000, 32_000, 64_000, 128_000]);
    assert_eq!(ran.end(), ("landed", "truncated".into(), None));
    assert_eq!(ran.answer(), "part 0 part 1 part 2 part 3 ");
    assert_eq!(signals(&ran.events), ["truncated"]);
}

#[tokio::test]
async fn b22_a_half_written_call_is_never_run() {
    let half =
        || Turn::from_parts(vec![Part::text("I look. "), call(7)]).with_stop(Stop::MaxTokens);
    let ran = play(Policy::default(), vec![half(), grep(0), Turn::from_text("Twelve.")]).await;
    assert_eq!(ran.executed, 1);
    assert_eq!(executed(&ran.events).len(), 1);
    let sent = ran.requests[1]["messages"].to_string();
    assert!(!sent.contains("tool_use"), "the cut call went back: {sent}");
    assert_eq!(ran.answer(), "Twelve.");
    // Whole calls before it are run, the cut one is not.
    let turn = Turn::from_parts(vec![call(1), call(2)]).with_stop(Stop::MaxTokens);
    let ran = play(Policy::default(), vec![turn, Turn::from_text("Twelve.")]).await;
    assert_eq!((ran.executed, ran.results(1).len()), (1, 1));
    // Limits are obeyed: landing, nothing is continued.
    let policy = Policy { tool_calls_limit: Some(1), ..Policy::default() };
    let ran = play(policy, vec![grep(0), half(), Turn::from_text("Twelve.")]).await;
    assert_eq!((ran.executed, ran.requests.len(), ran.answer()), (1, 3, "Twelve."));
    ran.nothing_refused();
}

#[tokio::test]
async fn b22_pauses_refusals_and_a_full_window_are_handled_as_documented() {
    let pause = || {
        let tool = Part::ServerTool { name: "web_search".into(), input: r#"{"query":"x"}"#.into() };
        Turn::from_parts(vec![Part::text("I search. "), tool]).with_stop(Stop::PauseTurn)
    };
    let run = async |pauses: usize| {
        let turns = (0..pauses).map(|_| pause()).chain([Turn::from_text("Twelve.")]).collect();
        play(Policy::default(), turns).await
    };
    // Sent back as it is, with nothing behind it.
    let ran = run(2).await;
    let last = ran.requests[2]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (last["role"].as_str(), last["content"][1]["type"].as_str()),
        (Some("assistant"), Some("server_tool_use"))
    );
    assert_eq!(ran.requests[2]["messages"].as_array().unwrap().len(), 3);
    assert_eq!((ran.requests.len(), ran.report.ended.outcome.word()), (3, "answered"));
    // Five times at most.
    assert_eq!(run(9).await.requests.len(), 6);
    // A refusal with words is the answer; without, softland says so; nothing is tried again.
    let words = Turn::from_text("I will not.").with_stop(Stop::Refusal);
    let ran = play(Policy::default(), vec![words]).await;
    assert_eq!(
        (ran.end().1.as_str(), ran.answer(), ran.requests.len()),
        ("refusal", "I will not.", 1)
    );
    let call = Turn::from_parts(vec![call(0)]).with_stop(Stop::Refusal);
    let ran = play(Policy::default(), vec![call]).await;
    assert_eq!((ran.end().0, ran.executed, ran.requests.len()), ("stopped", 0, 1));
    assert!(ran.answer().contains("The model refused"), "{}", ran.answer());
    // A full context window is not continued.
    let ran = play(
        Policy::default(),
        vec![grep(0), Turn::from_text("So far: ten").with_stop(Stop::ContextWindow)],
    )
    .await;
    assert_eq!((ran.end(), ran.requests.len()), (("landed", "truncated".into(), None), 2));
    assert_eq!(ran.answer(), "So far: ten");
}

#[tokio::test(start_paused = true)]
async fn b29_a_failure_is_retried_within_limits_and_as_the_provider_asks() {
    let answer = || canned::reply(&[canned::text("Twelve.")], "end_turn");
    // `retry-after` is waited for, in full.
    let began = tokio::time::Instant::now();
    let transport = Canned::new([Reply::Fails(529, Some(7)), Reply::Fails(429, Some(4)), answer()]);
    let (agent, _) = agent_on(transport.clone());
    let (report, _) = crate::common::run(&agent, "What?").await;
    assert_eq!(report.answer.as_deref(), Some("Twelve."));
    assert!((11..13).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    // No more retries than allowed, and none of what will fail again.
    for (status, requests) in [(500, 3), (400, 1), (401, 1)] {
        let transport = Canned::new((0..9).map(|_| Reply::Fails(status, None)));
        let (agent, _) = agent_on(transport.clone());
        let (report, events) = crate::common::run(&agent, "What?").await;
        assert_eq!(report.ended.outcome.word(), "failed");
        assert!(report.answer.is_none() && report.answered_by.is_none());
        assert!(matches!(events.last().unwrap().kind, EventKind::Error { .. }));
        assert_eq!(transport.requests().len(), requests, "{status}");
    }
    // A stream that breaks before a word is shown is tried again, behind a thought, too.
    let thought = canned::events(&[canned::thinking("hm", "c2ln")], "end_turn");
    for before in [&thought[..1], &thought[..4]] {
        let transport = Canned::new([Reply::Breaks(canned::stream(before)), answer()]);
        let (agent, _) = agent_on(transport.clone());
        let (report, _) = crate::common::run(&agent, "What?").await;
        assert_eq!((report.answer.as_deref(), transport.requests().len()), (Some("Twelve."), 2));
    }
}

#[tokio::test]
async fn b29_partial_text_is_not_an_answer_and_is_not_tried_again_once_shown() {
    for fault in [Fault::ErrorEvent { after: 5 }, Fault::Cut { after: 5 }] {
        let broken = Turn::from_text("It was twelve").with_fault(fault.clone());
        let turns = vec![grep(0), broken, Turn::from_text("Twelve.")];
        let (agent, transport, _) = Case::new(Policy::default(), turns).agent();
        let mut conversation = Conversation::new();
        let (report, events) = ask(&agent, &mut conversation, "What is it?").await;
        assert!(!streamed(&events).is_empty(), "nothing was tested");
        assert_eq!(report.ended.outcome.word(), "failed", "{fault:?}");
        assert!(report.answer.is_none());
        assert_eq!(transport.requests().len(), 2, "a retry after text was shown");
        let stored = messages_of(&conversation);
        assert!(!json!(stored).to_string().contains("It was"), "stored as a turn: {stored:?}");
        let (report, _) = ask(&agent, &mut conversation, "And now?").await;
        assert_eq!(report.answer.as_deref(), Some("Twelve."));
        assert_eq!(transport.sim.refused_requests(), 0, "{:?}", transport.sim.stats().refusals);
    }
}

#[tokio::test]
async fn b30_thinking_goes_back_unchanged_in_order_and_signed() {
    let redacted = (json!({"type": "redacted_thinking", "data": "EsB/+zz=="}), vec![]);
    let blocks = [
        canned::thinking("First \"this\"\n東京", "c2ln+/1=="),
        redacted,
        canned::text("I look."),
        canned::thinking("", "c2lnMg=="),
        canned::tool("t1", "grep", &[r#"{"pattern": "x"}"#]),
    ];
    let replies =
        [canned::reply(&blocks, "tool_use"), canned::reply(&[canned::text("So.")], "end_turn")];
    let transport = Canned::new(replies);
    let (agent, _) = agent_on(transport.clone());
    crate::common::run(&agent, "What?").await;
    let sent: Value = transport.requests()[1]["messages"][1]["content"].clone();
    assert_eq!(
        sent,
        json!([
            {"type": "thinking", "thinking": "First \"this\"\n東京", "signature": "c2ln+/1=="},
            {"type": "redacted_thinking", "data": "EsB/+zz=="},
            {"type": "text", "text": "I look."},
            {"type": "thinking", "thinking": "", "signature": "c2lnMg=="},
            {"type": "tool_use", "id": "t1", "name": "grep", "input": {"pattern": "x"}},
        ])
    );
    // Signatures that are bound to the prefix hold through rounds, nudges, landing and questions.
    for model in
        ["anthropic/claude-opus-5-5", "anthropic/claude-sonnet-5-5", "anthropic/claude-fable-5-1"]
    {
        let think = |part: Part| {
            Turn::from_parts(vec![Part::Thinking("hm".into()), Part::RedactedThinking, part])
        };
        let mut turns: Vec<_> = (0..4).map(|n| think(call(n))).collect();
        turns[2] = Turn::from_parts(vec![Part::Thinking("nothing to say".into())]);
        turns.push(think(Part::text("Twelve.")));
        let policy = Policy { tool_calls_limit: Some(3), ..Policy::default() };
        let mut case = Case::new(policy, turns);
        (case.model, case.thinking) = (model, true);
        let (agent, transport, _) = case.agent();
        let mut conversation = Conversation::new();
        ask(&agent, &mut conversation, "What is it?").await;
        ask(&agent, &mut conversation, "And then?").await;
        let sent = transport.requests().pop().unwrap().to_string();
        assert!(sent.contains("redacted_thinking"), "{model}: nothing was tested");
        assert_eq!(
            transport.sim.refused_requests(),
            0,
            "{model}: {:?}",
            transport.sim.stats().refusals
        );
    }
}

#[tokio::test(start_paused = true)]
async fn b31_when_the_user_goes_the_stream_is_let_go_and_nothing_more_is_sent() {
    let half = canned::stream(&canned::events(&[canned::text("I am")], "end_turn")[..3]);
    let transport = Canned::new([
        canned::reply(&[canned::tool("t", "grep", &["{}"])], "tool_use"),
        Reply::Hangs(half),
    ]);
    let (agent, _) = agent_on(transport.clone());
    let (mut conversation, cancel) = (Conversation::new(), CancellationToken::new());
    let mut events = Vec::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let user = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(transport.dropped.load(Ordering::SeqCst), 1);
        cancel.cancel();
    };
    let asked = agent.run_in_conversation(&mut conversation, "What is it?", &mut sink, &cancel);
    let both = async { tokio::join!(asked, user).0 };
    let report = tokio::time::timeout(Duration::from_secs(60), both).await;
    let report = report.expect("it waits on for the provider");
    assert_eq!(report.unwrap().ended.outcome.word(), "cancelled");
    assert_eq!(transport.dropped.load(Ordering::SeqCst), 2, "the provider goes on writing");
    assert_eq!(transport.requests().len(), 2);
    // A run that is dropped as a whole lets go, too.
    let half = canned::stream(&canned::events(&[canned::text("I am")], "end_turn")[..3]);
    let transport = Canned::new([Reply::Hangs(half)]);
    let (agent, _) = agent_on(transport.clone());
    let run = crate::common::run(&agent, "What?");
    assert!(tokio::time::timeout(Duration::from_secs(5), run).await.is_err());
    assert_eq!(transport.dropped.load(Ordering::SeqCst), 1);
}
