//! The adversary against the loop: an arbitrary hostile model under arbitrary policies. Whatever
//! it does, the run ends within a stated number of requests, with one true account of how.
//!
//! `SOFTLAND_CASES` sets the number of cases. A seed that once failed stays in `SEEDS`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

mod common;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../session/tests/common/hostile.rs"]
mod hostile;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Counting, SimTransport, agent};
use hostile::{Dice, MODELS, THOUGHT, TOOLS};
use serde_json::Value;
use softland_agent::core::policy::{Batch, Landing, Policy};
use softland_agent::core::{Ladder, Outcome, models};
use softland_agent::{Agent, AnsweredBy, Conversation, Event, EventKind, Report, ToolOutput};
use softland_session::wire::anthropic::Request;
use softland_sim::{Config, Scenario};

/// Seeds that failed once.
const SEEDS: &[u64] = &[7, 41, 58, 87, 334, 535, 586, 973, 1702, 4128, 10370];

#[test]
fn every_run_lands() {
    let cases = std::env::var("SOFTLAND_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    std::panic::set_hook(Box::new(|info| {
        // A tool that panics is part of the test; a failed check is reported by its own text.
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            eprintln!("{info}");
        }
    }));
    let mut met: BTreeMap<String, u64> = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in SEEDS.iter().copied().chain(0..cases) {
        if std::env::var("SOFTLAND_SEED").is_ok_and(|only| only != seed.to_string()) {
            continue;
        }
        match std::panic::catch_unwind(|| case(seed)) {
            Ok(seen) => {
                for what in seen {
                    *met.entry(what).or_insert(0) += 1;
                }
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                failures.push(format!("seed {seed}: {}", text.unwrap_or_default()));
            }
        }
    }
    println!("met, of {cases} cases: {met:#?}");
    let shown: Vec<_> = failures.iter().take(8).collect();
    assert!(failures.is_empty(), "{} of {cases} cases failed: {shown:#?}", failures.len());
    if cases >= 500 {
        for what in MUST_MEET {
            let times = met.get(*what).copied().unwrap_or(0);
            assert!(times * 100 >= cases, "{what} met in {times} of {cases} cases only");
        }
    }
}

/// A model that no table lists.
const UNLISTED: &str = "mystery-7-large";

/// What at least 1 % of the cases meet.
const MUST_MEET: &[&str] = &[
    "rung ask",
    "rung refuse",
    "rung none",
    "rung respond",
    "rung local_answer",
    "reason time",
    "signal empty",
    "signal repeat",
    "signal cycle",
    "signal errors",
    "signal sweep",
    "signal truncated",
    "outcome answered",
    "outcome landed",
    "outcome stopped",
    "outcome failed",
    "intervention nudge",
    "intervention countdown",
    "intervention warn",
    "intervention note",
    "intervention stop",
];

fn case(seed: u64) -> BTreeSet<String> {
    let mut dice = Dice::new(seed);
    let (mood, turns) = hostile::script(&mut dice);
    let length = turns.len() as u64;
    let model = dice.pick(MODELS);
    // A model that no table lists has the rules of one that it does not know.
    let unlisted = dice.chance(15);
    let mut config = Config::new(Scenario::Scripted(turns));
    config.aliases = vec![(UNLISTED.to_owned(), model.to_owned())];
    let transport = SimTransport::new(config);
    let model = if unlisted { UNLISTED } else { model };
    let policy = hostile::policy(&mut dice);
    if std::env::var_os("SOFTLAND_SEED").is_some() {
        println!("{model} {policy:#?} {mood:?}");
        println!("{:#?}", hostile::script(&mut Dice::new(seed)).1);
    }
    let ran: Arc<AtomicU64> = Arc::default();
    let mut under_test = agent(&transport, &format!("anthropic/{model}"));
    // Without a table's price a money limit is refused before anything is sent.
    under_test.options.price = Some(models::all()[0].price);
    under_test.options.show_thinking = dice.chance(50);
    under_test.policy = policy.clone();
    let tools: Vec<_> = TOOLS.iter().map(|tool| (*tool, Arc::<AtomicU64>::default())).collect();
    for (tool, calls) in &tools {
        under_test.tools.add(Arc::new(counted(tool, calls, &ran))).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut seen = BTreeSet::from([format!("mood {mood:?}")]);
    let mut conversation = Conversation::new();
    let first = runtime.block_on(ask(&under_test, &mut conversation, "What is it?"));
    check_run(&first, &policy, &tools, length, &transport, &mut seen);
    check_conversation(&conversation);
    let requests = transport.requests().len();
    // A further question, under another policy, in the same conversation.
    under_test.policy = hostile::policy(&mut dice);
    let second = runtime.block_on(ask(&under_test, &mut conversation, "And what then?"));
    check_events(&second.1);
    check_report(&second.0);
    check_conversation(&conversation);
    if std::env::var_os("SOFTLAND_SEED").is_some() {
        println!(
            "{:#?}\n{:#?}",
            first.0,
            first.1.iter().map(|e| serde_json::to_string(e).unwrap()).collect::<Vec<_>>()
        );
    }
    // A failed request's tail is dropped; another tool list is another prefix.
    let apart =
        !first.0.ended.outcome.is_done() || answer_tool(&policy) != answer_tool(&under_test.policy);
    check_prefixes(&transport, apart.then_some(requests));
    // One 400 per rung at most where nobody lists the model, none where somebody does.
    let most = if unlisted { 2 } else { 0 };
    let refused = transport.sim.refused();
    assert!(refused <= most, "refused: {:?}", transport.sim.stats().refusals);
    seen
}

async fn ask(agent: &Agent, conversation: &mut Conversation, prompt: &str) -> (Report, Vec<Event>) {
    let mut events = Vec::new();
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let report = agent.ask(conversation, prompt, &mut sink, &cancel).await.unwrap();
    (report, events)
}

fn counted(tool: &'static str, calls: &Arc<AtomicU64>, ran: &Arc<AtomicU64>) -> Counting {
    let ran = Arc::clone(ran);
    let answer = Box::new(move |_, input: &Value| {
        let n = ran.fetch_add(1, Ordering::Relaxed);
        if tool == "custom" && n % 7 == 3 {
            panic!("a tool that panics");
        }
        let (content, is_error) = hostile::tool_result(tool, &input.to_string(), n);
        ToolOutput { content, is_error }
    });
    Counting { name: tool, calls: Arc::clone(calls), answer }
}

fn check_run(
    (report, events): &(Report, Vec<Event>),
    policy: &Policy,
    tools: &[(&str, Arc<AtomicU64>)],
    script: u64,
    transport: &SimTransport,
    seen: &mut BTreeSet<String>,
) {
    check_events(events);
    check_report(report);
    let executed =
        events.iter().filter(|e| matches!(e.kind, EventKind::ToolExecute { .. })).count();
    let run: u64 = tools.iter().map(|(_, calls)| calls.load(Ordering::Relaxed)).sum();
    assert!(run <= executed as u64, "{run} calls ran, {executed} were told");
    assert_eq!(report.tool_calls, executed as u64, "the count of calls is true");
    if let Some(limit) = policy.tool_calls_limit {
        // With `all`, the one batch that passes the limit runs whole.
        let most = if policy.batch == Batch::All && limit > 0 { limit + 4 } else { limit };
        assert!(executed as u64 <= most, "{executed} calls of {limit}");
    }
    for (tool, limit) in &policy.tool_limits {
        let of =
            |e: &&Event| matches!(&e.kind, EventKind::ToolExecute { name, .. } if name == tool);
        let calls = events.iter().filter(of).count() as u64;
        assert!(calls <= *limit, "{calls} calls of {tool}, limit {limit}");
    }
    let requests = transport.requests().len() as u64;
    let most = (script + 2) * (Ladder::most_requests(policy)) * 3;
    assert!(requests <= most, "{requests} requests");
    if let Some(limit) = policy.turns_limit {
        assert!(report.turns <= limit.max(1), "{} turns of {limit}", report.turns);
    }
    check_truth(report, transport);
    note(report, events, seen);
}

/// A landed run's last request carried the note; an answered run's did not.
fn check_truth(report: &Report, transport: &SimTransport) {
    let last = transport.requests().pop().unwrap_or_default();
    let text = last.to_string();
    let noted = text.contains("Answer now with what you have");
    match report.ended.outcome {
        Outcome::Answered => assert!(!noted, "answered, but the note was there: {text}"),
        Outcome::Landed if report.ended.limit.is_some() => {
            assert!(noted, "landed without a note: {:?} {text}", report.ended)
        }
        _ => {}
    }
}

fn check_events(events: &[Event]) {
    let terminal = events.iter().filter(|event| event.kind.is_terminal()).count();
    assert_eq!(terminal, 1, "one terminal event");
    assert!(events.last().is_some_and(|event| event.kind.is_terminal()), "it is the last");
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event.seq, n as u64, "no gaps");
        serde_json::to_string(event).unwrap();
    }
    let mut open: Vec<&str> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ToolExecute { id, .. } => open.push(id),
            EventKind::ToolResult { id, .. } => {
                let at = open.iter().position(|o| o == id).expect("a result without a call");
                open.remove(at);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}

fn check_report(report: &Report) {
    match report.ended.outcome {
        Outcome::Answered | Outcome::Landed | Outcome::Stopped => {
            let answer = report.answer.as_deref().unwrap_or_default();
            assert!(!answer.trim().is_empty(), "an answer: {report:?}");
            assert_ne!(answer.trim(), "[no answer]");
            assert!(!answer.contains(THOUGHT), "thinking in the answer");
            let local = report.answered_by == Some(AnsweredBy::Local);
            assert_eq!(local, report.ended.outcome == Outcome::Stopped, "{report:?}");
            assert_eq!(local, answer.contains("softland's, not the model's"), "whose: {answer}");
        }
        Outcome::Failed | Outcome::Cancelled => {
            assert!(report.answer.is_none() && report.answered_by.is_none());
        }
    }
    if let Some(limit) = &report.ended.limit {
        assert!(report.ended.value.is_some(), "{limit} without its value");
    }
}

/// Every call is answered exactly once, in the next message.
fn check_conversation(conversation: &Conversation) {
    let messages: Vec<Value> =
        conversation.messages().map(|m| serde_json::from_slice(m).unwrap()).collect();
    let ids = |message: Option<&Value>, kind: &str, key: &str| -> Vec<String> {
        let blocks = message.and_then(|m| m["content"].as_array()).cloned().unwrap_or_default();
        let of = |b: &Value| (b["type"] == kind).then(|| b[key].as_str().unwrap().to_owned());
        blocks.iter().filter_map(of).collect()
    };
    for (n, message) in messages.iter().enumerate() {
        let calls = ids(Some(message), "tool_use", "id");
        let results = ids(messages.get(n + 1), "tool_result", "tool_use_id");
        if message["role"] == "assistant" {
            assert_eq!(calls, results, "message {n} of {messages:#?}");
        }
    }
}

/// Every request begins with the messages of the one before it.
fn check_prefixes(transport: &SimTransport, but_at: Option<usize>) {
    let bodies = transport.bodies.lock().unwrap();
    for (n, pair) in bodies.windows(2).enumerate() {
        if Some(n + 1) == but_at {
            continue;
        }
        let (before, after) = (messages(&pair[0]), messages(&pair[1]));
        let before = before.strip_suffix(b"]").unwrap();
        assert!(
            after.starts_with(before),
            "the prefix changed:\n{}\n---\n{}",
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(after)
        );
    }
}

/// The answer tool that a policy declares.
fn answer_tool(policy: &Policy) -> Option<&str> {
    let responds = policy.landing == Landing::Respond;
    policy.answer_tool.as_deref().or_else(|| responds.then_some("respond"))
}

fn messages(body: &[u8]) -> &[u8] {
    let span = Request::scan(body).unwrap().messages.span;
    &body[span.start..span.end]
}

fn note(report: &Report, events: &[Event], seen: &mut BTreeSet<String>) {
    seen.insert(format!("outcome {}", report.ended.outcome.word()));
    seen.insert(format!("reason {}", report.ended.reason.to_string().split(':').next().unwrap()));
    if let Some(rung) = report.ended.rung {
        seen.insert(format!("rung {}", rung.word()));
    }
    for event in events {
        match &event.kind {
            EventKind::Signal { signal, .. } => seen.insert(format!("signal {signal}")),
            EventKind::Intervention { intervention, .. } => {
                if ["refuse", "none", "respond"].contains(intervention) {
                    seen.insert(format!("rung {intervention}"));
                }
                seen.insert(format!("intervention {intervention}"))
            }
            _ => false,
        };
    }
}
