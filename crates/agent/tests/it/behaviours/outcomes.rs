//! Every run says how and why it ended; runs of sub-agents are runs of their own; money.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::core::policy::{Landing, OnLoop, Policy, PolicyValue as Set};
use softland_agent::{Agent, Conversation, Event, Report, Tool, ToolContext, ToolDef, ToolOutput};
use softland_sim::{Fault, Part, Stop, Turn};

use crate::behaviours::canned::{self, Block, Canned, whole};
use crate::behaviours::support::{
    Case, agent_on, ask, calls_then, executed, grep, one_end, play, streamed,
};
use crate::common::interventions;

fn calls(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

// --- sub-agents

/// A tool that asks another agent.
struct Ask {
    agent: Agent,
    reports: Arc<Mutex<Vec<Report>>>,
}

#[async_trait]
impl Tool for Ask {
    fn def(&self) -> ToolDef {
        let input_schema = json!({"type": "object", "properties": {}});
        let (name, description) = ("ask".to_owned(), "asks another agent".to_owned());
        ToolDef { name, description, input_schema, reads: true, repeatable: true }
    }

    async fn call(&self, input: Value, _cx: &ToolContext) -> ToolOutput {
        let report = self.agent.run(&input.to_string(), &mut |_: &Event| {}).await.unwrap();
        let answer = report.answer.clone().unwrap_or_default();
        self.reports.lock().unwrap().push(report);
        ToolOutput::ok(answer)
    }
}

/// An agent that searches until it is told to stop, then tells.
fn searcher(limit: u64) -> (Agent, Arc<Mutex<Vec<Report>>>) {
    let turns = (0..20).map(grep).collect();
    let (agent, ..) = Case::new(Policy { landing: Landing::Stop, ..calls(limit) }, turns).agent();
    (agent, Arc::default())
}

#[tokio::test]
async fn b12_each_run_of_a_sub_agent_counts_for_itself() {
    let (agent, reports) = searcher(3);
    let child = Ask { agent, reports: Arc::clone(&reports) };
    let ask = |n: u64| Part::tool_call("ask", format!(r#"{{"n":{n}}}"#));
    // Two siblings at once, then a new request to the same sub-agent, then calls of its own.
    let turns = vec![
        Turn::from_parts(vec![ask(1), ask(2)]),
        Turn::from_parts(vec![ask(3)]),
        grep(0),
        grep(1),
    ];
    let (mut parent, transport, ran) = Case::new(calls(4), turns).agent();
    parent.tools.add_tool(Arc::new(child)).unwrap();
    let (report, events) = crate::common::run(&parent, "What is it?").await;
    let children: Vec<_> = reports.lock().unwrap().iter().map(|r| r.tool_calls).collect();
    assert_eq!(children, [3, 3, 3]);
    assert_eq!(report.tool_calls, 4, "the children's calls are not the parent's");
    assert_eq!(executed(&events).len(), 4);
    assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(report.ended.reason.to_string(), "tool_calls");
    assert_eq!(transport.sim.refused_requests(), 0);
    // Limits reach every depth: an agent that asks an agent that asks an agent.
    let (agent, deepest) = searcher(2);
    let middle_turns = (0..9).map(|n| Turn::from_parts(vec![ask(n)])).collect();
    let (mut middle, ..) =
        Case::new(Policy { landing: Landing::Stop, ..calls(3) }, middle_turns).agent();
    middle.tools.add_tool(Arc::new(Ask { agent, reports: Arc::clone(&deepest) })).unwrap();
    let (mut top, ..) =
        Case::new(calls(1), vec![Turn::from_parts(vec![ask(0)]), Turn::from_text("So.")]).agent();
    let middles: Arc<Mutex<Vec<Report>>> = Arc::default();
    top.tools.add_tool(Arc::new(Ask { agent: middle, reports: Arc::clone(&middles) })).unwrap();
    let (report, _) = crate::common::run(&top, "What is it?").await;
    let of = |reports: &Mutex<Vec<Report>>| -> Vec<u64> {
        reports.lock().unwrap().iter().map(|r| r.tool_calls).collect()
    };
    assert_eq!((report.tool_calls, of(&middles), of(&deepest)), (1, vec![3], vec![2, 2, 2]));
}

// --- ends

#[tokio::test]
async fn b19_a_natural_end_is_answered_and_one_under_the_note_is_landed() {
    for (used, wanted) in [(1, "answered"), (2, "answered"), (3, "landed")] {
        let ran = play(calls(3), calls_then(used, "Twelve.")).await;
        assert_eq!(ran.report.ended.outcome.word(), wanted, "after {used} of 3 calls");
        let noted = ran.raw.last().unwrap().contains("Answer now");
        assert_eq!(noted, wanted == "landed");
    }
    // The turn before the asked one, and the asked one.
    for (calls, wanted) in [(1, "answered"), (2, "landed")] {
        let policy = Policy { turns_limit: Some(3), ..Policy::default() };
        let ran = play(policy, calls_then(calls, "Twelve.")).await;
        assert_eq!(ran.report.ended.outcome.word(), wanted, "turn {} of 3", calls + 1);
    }
}

#[tokio::test]
async fn b20_every_run_says_why_it_ended_and_says_it_truly() {
    let repeat = || (0..9).map(|_| grep(0)).collect::<Vec<_>>();
    let stop = |policy: Policy| Policy { landing: Landing::Stop, ..policy };
    let tool =
        |limit| Policy { tool_limits: [("grep".to_owned(), limit)].into(), ..Policy::default() };
    let refusal = |turn: Turn| vec![grep(0), turn.with_stop(Stop::Refusal)];
    let cut = |text: &str| vec![Turn::from_text(text).with_stop(Stop::MaxTokens); 6];
    let failing = || vec![Turn::from_status(500, None); 4];
    for (policy, turns, outcome, reason) in [
        (calls(9), calls_then(2, "Twelve."), "answered", "final"),
        (calls(2), calls_then(2, "Twelve."), "landed", "tool_calls"),
        (stop(calls(2)), calls_then(2, ""), "stopped", "tool_calls"),
        (
            tool(1),
            (0..6).map(grep).chain([Turn::from_text("So.")]).collect(),
            "landed",
            "tool:grep",
        ),
        (
            Policy { turns_limit: Some(2), ..Policy::default() },
            calls_then(1, "So."),
            "landed",
            "turns",
        ),
        (
            Policy { result_chars_limit: Some(5), ..Policy::default() },
            calls_then(1, "So."),
            "landed",
            "result_chars",
        ),
        (
            stop(Policy { tokens_limit: Some(900), ..Policy::default() }),
            calls_then(9, ""),
            "stopped",
            "tokens",
        ),
        (Policy::default(), vec![Turn::default(); 4], "stopped", "empty"),
        (
            Policy { on_loop: OnLoop::Land, ..Policy::default() },
            {
                let mut t = repeat();
                t[3] = Turn::from_text("So.");
                t
            },
            "landed",
            "repeat",
        ),
        (Policy { on_loop: OnLoop::Stop, ..Policy::default() }, repeat(), "stopped", "repeat"),
        (Policy::default(), refusal(Turn::from_text("I will not.")), "answered", "refusal"),
        (Policy::default(), refusal(Turn::default()), "stopped", "refusal"),
        (Policy::default(), cut("and on and on"), "landed", "truncated"),
        (Policy::default(), cut(""), "stopped", "truncated"),
        (Policy::default(), failing(), "failed", "provider"),
    ] {
        let mut case = Case::new(policy, turns);
        case.answer = |_, _| ToolOutput::ok("found");
        let ran = case.run().await;
        let told = serde_json::to_value(ran.events.last().unwrap()).unwrap();
        assert_eq!(
            (told["outcome"].as_str(), told["reason"].as_str()),
            (Some(outcome), Some(reason))
        );
        assert_eq!(told["event"], if outcome == "failed" { "error" } else { "done" });
        let by = match outcome {
            "failed" => None,
            "stopped" => Some("local"),
            _ => Some("model"),
        };
        assert_eq!(told["answered_by"].as_str(), by, "{outcome}/{reason}");
        assert_eq!(told.get("answer").is_some(), by.is_some());
        one_end(&ran.events);
    }
}

// --- money

#[tokio::test]
async fn b41_the_cap_holds_with_every_attempt_counted() {
    let cap = |dollars: f64| {
        let mut policy = Policy { reserve_tokens: 500, ..Policy::default() };
        policy.set_key("cost_limit_usd", &Set::Float(dollars)).unwrap();
        policy
    };
    for dollars in [0.02, 0.05, 0.2] {
        let mut case = Case::new(cap(dollars), (0..200).map(grep).collect());
        case.answer = |n, _| ToolOutput::ok(format!("finding {n} {}", "word ".repeat(300)));
        let ran = case.run().await;
        let billed = ran.transport.sim.stats().cost_nano as f64 / 1e9;
        assert!(billed <= dollars, "{billed} of {dollars}");
        assert!(billed > dollars / 10.0, "{billed} of {dollars}: nothing was tested");
        assert_eq!(ran.report.ended.reason.to_string(), "cost");
        assert!(
            (ran.report.cost_usd.unwrap() - billed).abs() < 1e-9,
            "{:?} {billed}",
            ran.report.cost_usd
        );
    }
    // The usage of a failed attempt counts too: tokens in the sum of the events and in the report.
    let broken = || Turn::from_text("Twelve or so").with_fault(Fault::ErrorEvent { after: 1 });
    let turns = vec![grep(0), broken(), broken(), Turn::from_text("Twelve.")];
    let ran = play(cap(1.0), turns).await;
    let charges = ran.transport.sim.stats().charges;
    assert_eq!((ran.requests.len(), charges.len()), (4, 4));
    let usages =
        ran.events.iter().filter(|e| matches!(e.kind, softland_agent::EventKind::Usage { .. }));
    assert_eq!(usages.count(), 4, "an attempt that was billed is not in the events");
    let billed: u64 = charges.iter().map(|c| c.usage.input).sum();
    assert_eq!(ran.report.usage.input, billed);
}

// --- one classifier

#[tokio::test]
async fn b42_one_classifier_serves_streams_and_whole_responses() {
    let cases: [(Vec<Block>, &str); 8] = [
        (vec![canned::text("Twelve.")], "end_turn"),
        (vec![canned::text("<b>x</b> [Tool Result]")], "end_turn"),
        (vec![], "end_turn"),
        (vec![canned::text(" \n\u{200b}")], "end_turn"),
        (vec![canned::text("[no answer]")], "end_turn"),
        (vec![canned::thinking("hm", "c2ln")], "end_turn"),
        (vec![], "refusal"),
        (vec![canned::text("I will not.")], "refusal"),
    ];
    for (blocks, stop) in &cases {
        let mut ends = Vec::new();
        for streams in [true, false] {
            let complete = || blocks.iter().map(complete).collect::<Vec<_>>();
            let replies = (0..4).map(|_| match streams {
                true => canned::reply(blocks, stop),
                false => whole(&complete(), stop),
            });
            let transport = Canned::new(replies);
            let (agent, _) = agent_on(transport.clone());
            let (report, events) = ask(&agent, &mut Conversation::new(), "What?").await;
            let said = report.answer.clone().unwrap_or_default();
            assert!(said.trim() != "[no answer]" && !said.trim().is_empty(), "{blocks:?}");
            let requests: Vec<_> =
                transport.requests().iter().map(|r| r["messages"].clone()).collect();
            ends.push((
                report.ended.outcome,
                report.ended.reason.to_string(),
                said,
                // A stream has shown the placeholder before it was known for one.
                streamed(&events).replace("[no answer]", ""),
                interventions(&events),
                requests,
            ));
        }
        assert_eq!(ends[0], ends[1], "{blocks:?} {stop}");
    }
}

/// A block's start with its deltas in it.
fn complete((start, deltas): &Block) -> Value {
    let mut block = start.clone();
    for delta in deltas {
        for key in ["text", "thinking", "signature"] {
            if let Some(piece) = delta[key].as_str() {
                block[key] = (block[key].as_str().unwrap().to_owned() + piece).into();
            }
        }
    }
    block
}
