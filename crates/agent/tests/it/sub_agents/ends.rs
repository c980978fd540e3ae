//! Ends of sub-agents other than a plain answer, and the results that their parents get.

use std::sync::Arc;
use std::time::Duration;

use softland_agent::core::{Millis, NanoUsd, Outcome, Reason};
use softland_agent::{Conversation, Event, EventKind, SetupError};
use softland_sim::{Config, Part, Scenario, Turn};
use tokio_util::sync::CancellationToken;

use super::{calling, checked, handed_back, member, of, playing};
use crate::common::{SimTransport, run};

#[tokio::test(start_paused = true)]
async fn a_child_whose_provider_fails_is_a_failed_call() {
    let members = vec![member("broken", "overloaded:always"), member("tail", "tail")];
    let (report, events) = run(&calling("delegate", members, 3), "Is it there?").await;
    assert_eq!(report.ended.outcome, Outcome::Answered, "the parent goes on");
    let ended = checked(&events);
    let outcomes: Vec<Outcome> = ended.values().map(|report| report.ended.outcome).collect();
    assert_eq!(outcomes, [Outcome::Answered, Outcome::Failed, Outcome::Answered]);
    let back = handed_back(&events);
    assert!(!back[0].0 && back[0].1.starts_with("agent: `broken` failed: "), "{back:?}");
    assert!(back[1].0, "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_without_an_answer_of_its_own_says_so_in_its_last_line() {
    let mut mute = member("mute", "mute");
    mute.agent.policy.tool_calls_limit = Some(2);
    let (_, events) = run(&calling("delegate", vec![mute], 3), "Say something.").await;
    checked(&events);
    let back = handed_back(&events);
    let last = back[0].1.lines().last();
    assert_eq!(last, Some("[not the model's answer: tool_calls 2 of 2]"), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_is_landed_or_stopped_by_its_callers_money() {
    for limit in [300_000_000, 600_000_000] {
        let sweeper = member("sweeper", "sweeper");
        let mut parent = calling("delegate", vec![sweeper], 3);
        parent.policy.cost_limit_usd = Some(NanoUsd(limit));
        let (report, events) = run(&parent, "Everywhere.").await;
        let ended = checked(&events);
        assert!(super::spent(&events) <= limit, "{} of {limit}", super::spent(&events));
        let child = ended.iter().find(|(run, _)| run.contains('.')).unwrap().1;
        assert_eq!((child.ended.outcome, &child.ended.reason), (Outcome::Landed, &Reason::Cost));
        assert_eq!(child.ended.limit.as_deref(), Some("cost_limit_usd"));
        let back = handed_back(&events);
        assert!(back[0].0 && back[0].1.contains("\n\n[landed: cost, limit $"), "{back:?}");
        assert!(report.ended.outcome.is_done(), "{report:?}");
        assert!(report.answer.is_some());
    }
    // Its own cap is too low for any answer of the model's.
    let mut poor = member("poor", "sweeper");
    poor.agent.policy.cost_limit_usd = Some(NanoUsd(10_000));
    let (report, events) = run(&calling("delegate", vec![poor], 3), "Everywhere.").await;
    checked(&events);
    assert_eq!(report.ended.outcome, Outcome::Answered);
    let back = handed_back(&events);
    assert!(!back[0].0 && back[0].1.contains("too little is left for its answer"), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn what_children_use_counts_in_their_callers_tokens() {
    let mut parent = calling("delegate:always", vec![member("sweeper", "sweeper")], 3);
    parent.policy.tokens_limit = Some(60_000);
    parent.policy.on_loop = softland_agent::core::policy::OnLoop::Observe;
    let (report, events) = run(&parent, "Everywhere.").await;
    let ended = checked(&events);
    assert_eq!((report.ended.outcome, &report.ended.reason), (Outcome::Landed, &Reason::Tokens));
    let child = ended.iter().find(|(run, _)| run.contains('.')).unwrap().1;
    assert_eq!(&child.ended.reason, &Reason::Tokens);
    let usage = report.usage;
    let total = usage.input + usage.output + usage.cache_read + usage.cache_write;
    assert!((50_000..=60_000).contains(&total), "{total}");
}

/// A child that never stops by itself, and whose requests take a second.
fn slow() -> softland_agent::SubAgent {
    let call = |n: u64| Turn {
        first_delay_ms: 1000,
        ..Turn::from_call("grep", format!("{{\"pattern\": \"{n}\"}}"))
    };
    let transport =
        SimTransport::new(Config::new(Scenario::Scripted((0..200).map(call).collect())));
    let (mut agent, _) = playing("slow", "tail");
    agent.transport = transport;
    of(agent)
}

#[tokio::test(start_paused = true)]
async fn children_land_when_their_callers_time_for_exploring_is_over() {
    let mut answering = member("sweeper", "slow:4000");
    answering.agent.policy.reserve_time = Millis::from_secs(30);
    let mut parent = calling("delegate", vec![slow(), answering], 3);
    parent.policy.time_limit = Some(Millis::from_secs(120));
    parent.policy.reserve_time = Millis::from_secs(30);
    let began = tokio::time::Instant::now();
    let (report, events) = run(&parent, "Take your time.").await;
    assert!(began.elapsed() <= Duration::from_secs(121), "{:?}", began.elapsed());
    let ended = checked(&events);
    assert!(report.answer.is_some() && report.ended.outcome.is_done(), "{report:?}");
    let slow = &ended.iter().find(|(run, _)| run.ends_with(".1")).unwrap().1.ended;
    assert_eq!(slow.reason, Reason::Time);
    assert!(matches!(slow.outcome, Outcome::Landed | Outcome::Stopped), "{slow:?}");
    let back = handed_back(&events);
    assert!(back.iter().all(|(ok, _)| *ok), "each hands something back: {back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tools_timeout_does_not_cut_a_child() {
    let mut child = slow();
    child.agent.policy.tool_calls_limit = Some(100);
    let (_, events) = run(&calling("delegate", vec![child], 3), "Take your time.").await;
    let back = handed_back(&events);
    assert!(back[0].1.ends_with("[not the model's answer: tool_calls 100 of 100]"), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_cancels_its_children_at_every_depth() {
    for after in [0, 1, 7, 23, 60] {
        let nest = super::SubAgent { delegates: true, ..member("nest", "delegate") };
        let parent = calling("delegate", vec![slow(), nest, member("sweeper", "sweeper")], 2);
        let cancel = CancellationToken::new();
        let (mut events, mut begun) = (Vec::new(), None);
        let mut conversation = Conversation::new();
        let mut hear = |event: &Event| {
            if matches!(event.kind, EventKind::Child { .. }) && begun.is_none() {
                begun = Some(events.len());
            }
            events.push(event.clone());
            if begun.is_some_and(|begun| events.len() > begun + after) {
                cancel.cancel();
            }
        };
        let report =
            parent.run_in_conversation(&mut conversation, "Go.", &mut hear, &cancel).await.unwrap();
        assert_eq!(
            (report.ended.outcome, &report.ended.reason),
            (Outcome::Cancelled, &Reason::User)
        );
        let ended = checked(&events);
        let cancelled = |run: &str| ended[run].ended.outcome == Outcome::Cancelled;
        assert!(ended.keys().filter(|run| cancelled(run)).count() >= 2, "{after}: {ended:?}");
        for (run, report) in ended.iter().filter(|(run, _)| cancelled(run)) {
            assert_eq!(report.ended.reason, Reason::User, "{run}: the parent's reason");
        }
        // A later question finds every call answered.
        let mut again = |_: &Event| {};
        let token = CancellationToken::new();
        let mut parent = parent;
        parent.sub_agents = None;
        let later = parent
            .run_in_conversation(&mut conversation, "And now?", &mut again, &token)
            .await
            .unwrap();
        assert_eq!(later.ended.outcome, Outcome::Answered, "{later:?}");
    }
}

#[tokio::test]
async fn a_limit_on_money_needs_a_price_for_everybody() {
    let mut unknown = member("unknown", "tail");
    unknown.agent.model = "mine/model".to_owned();
    let mut parent = calling("delegate", vec![unknown], 3);
    parent.policy.session_cost_limit_usd = Some(NanoUsd(1_000_000_000));
    let refused = parent.run("Go.", &mut |_| panic!("nothing begins")).await.unwrap_err();
    assert_eq!(refused, SetupError::NoPrice { model: "mine/model".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn under_a_limit_of_characters_children_run_one_after_another_and_are_cut() {
    let members = vec![member("one", "parallel"), member("two", "parallel")];
    let mut parent = calling("delegate", members, 3);
    parent.policy.result_chars_limit = Some(30);
    let (report, events) = run(&parent, "How much?").await;
    let ended = checked(&events);
    assert_eq!((ended.len(), &report.ended.reason), (2, &Reason::ResultChars), "{report:?}");
    let back = handed_back(&events);
    assert!(back[0].1.ends_with("[cut: result_chars_limit]"), "{back:?}");
}

/// A model without tool calling calls agents by text, too.
#[tokio::test(start_paused = true)]
async fn calls_in_tags_call_agents() {
    let mut parent = calling("delegate", vec![member("tail", "tail")], 3);
    parent.options.tool_format = softland_agent::ToolFormat::Tags;
    let (report, events) = run(&parent, "Is it there?").await;
    assert_eq!(report.ended.outcome, Outcome::Answered);
    assert_eq!(checked(&events).len(), 2);
}

/// The answer of a child is bounded like any tool's result.
#[tokio::test(start_paused = true)]
async fn a_long_answer_is_cut_and_still_marked() {
    let long = "word ".repeat(40_000);
    let call = Turn::from_parts(vec![Part::tool_call("grep", "{}")]);
    let transport = SimTransport::scripted(vec![call, Turn::from_text(long)]);
    let (mut talker, _) = playing("talker", "tail");
    talker.transport = Arc::clone(&transport) as _;
    talker.options.max_tokens = Some(60_000);
    talker.policy.tool_calls_limit = Some(1);
    let (_, events) = run(&calling("delegate", vec![of(talker)], 3), "Tell all.").await;
    let back = handed_back(&events);
    assert!(back[0].1.len() < 70_000, "{}", back[0].1.len());
    assert!(back[0].1.ends_with("\n\n[landed: tool_calls 1 of 1]"));
}
