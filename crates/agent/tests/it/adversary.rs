//! The adversary against the loop: an arbitrary hostile model under arbitrary policies. Every run
//! ends within a stated number of requests, with one true account of its end.
//!
//! `seeds.rs`, which the session's adversary shares, explains how to choose cases. A case that has
//! failed once is kept under `regressions`, as data.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../../session/tests/it/common/case.rs"]
pub(crate) mod case;
pub(crate) mod cases;
pub(crate) mod checks;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../../session/tests/it/common/hostile.rs"]
pub(crate) mod hostile;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../../session/tests/it/common/reading.rs"]
mod reading;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../../session/tests/it/common/seeds.rs"]
pub(crate) mod seeds;
pub(crate) mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::common::agent;
use case::{Ask, Case};
use cases::{api_of, counted, generate, names};
use hostile::TOOLS;
use seeds::{Adversary, Met, regressions, tells};
use softland_agent::core::models;
use softland_agent::core::policy::{Landing, Policy};
use softland_agent::http::Api;
use softland_agent::{Agent, Conversation, Event, Report};
use softland_session::wire;
use softland_sim::{Config, Scenario};
use watch::Watching;

const ADVERSARY: Adversary =
    Adversary { generate, drive, must_meet: &[OF_EVERY_API, OF_ANTHROPIC] };

/// The same hostile model behind Chat Completions, in all its dialects.
const CHAT: Adversary = Adversary {
    generate: |seed| hostile::posing(wire::Api::Chat, generate(seed), seed),
    drive,
    must_meet: &[OF_EVERY_API],
};

/// The same behind Responses.
const RESPONSES: Adversary = Adversary {
    generate: |seed| hostile::posing(wire::Api::Responses, generate(seed), seed),
    drive,
    must_meet: &[OF_EVERY_API],
};

/// The situations that at least 1 % of the cases of every API meet.
const OF_EVERY_API: &[&str] = &[
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
    "model unlisted",
];

/// The situations that at least 1 % of the cases of Anthropic's API meet in addition.
const OF_ANTHROPIC: &[&str] = &["way no block", "way blank", "way thinking"];

regressions! {
    ADVERSARY,
    calls_without_an_id,
    continued_turn_counts_once,
    cut_after_the_end_of_an_answer,
    cut_after_the_end_of_an_empty_turn,
    error_of_a_tool_counts_behind_a_full_context,
    error_of_a_tool_that_panics_counts_with_its_result,
    error_told_in_a_result_counts_with_it,
    note_beside_a_refusal_of_a_tool,
    nudged_turn_counts_once,
    output_grown_past_an_unknown_maximum,
    pause_with_calls,
    pause_with_thinking_alone,
    pause_without_a_server_tool,
    resumed_turn_counts_once,
    tools_changed_between_runs,
}

#[test]
fn every_run_lands() {
    ADVERSARY.run();
}

#[test]
fn every_run_lands_on_chat_completions() {
    CHAT.run();
}

#[test]
fn every_run_lands_on_responses() {
    RESPONSES.run();
}

fn drive(case: &Case) -> Met {
    let api = api_of(case);
    let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
    let (model, listed) = names(api, case);
    config.aliases = case.rules_of.iter().map(|_| (case.model.clone(), listed.clone())).collect();
    config.piece_bytes = case.manner.piece_bytes;
    let watching = Watching::new(config);
    let transport = &watching.transport;
    let mut under_test = agent(transport, &model);
    under_test.options.api = api;
    under_test.transport = Arc::<Watching>::clone(&watching);
    // Without a table's price a money limit is refused before anything is sent.
    under_test.options.price = Some(models::all_models()[0].price);
    under_test.options.show_thinking = case.manner.thinking;
    let ran: Arc<AtomicU64> = Arc::default();
    let tools: Vec<_> = TOOLS.iter().map(|tool| (*tool, Arc::<AtomicU64>::default())).collect();
    for (tool, calls) in &tools {
        under_test.tools.add_tool(Arc::new(counted(tool, calls, &ran))).unwrap();
    }
    let mut seen = Met::new();
    let mut conversation = Conversation::new();
    let mut apart = Vec::new();
    let mut before: Option<(Policy, bool)> = None;
    for ask in &case.asks {
        let Ask::Say(prompt, policy) = ask else { panic!("nobody reminds the loop") };
        under_test.policy = Policy::clone(policy);
        let asked = transport.requests().len();
        let run = run(&under_test, &mut conversation, prompt);
        if tells() {
            tell(&run);
        }
        checks::events(&run.1);
        checks::report(&run.0);
        checks::conversation(api, &conversation);
        checks::refused(case, &watching, asked);
        match &before {
            None => checks::first_run(&run, policy, &tools, case.turns.len() as u64, transport),
            // A failed request's tail is dropped; another tool list is another prefix.
            Some((before, done)) if !done || answer_tool(before) != answer_tool(policy) => {
                apart.push(asked);
            }
            Some(_) => {}
        }
        if before.is_none() {
            checks::note(&run, &mut seen);
        }
        before = Some((Policy::clone(policy), run.0.ended.outcome.is_done()));
    }
    checks::prefixes(api, transport, &apart);
    if api == Api::Anthropic {
        seen.extend(watching.ways());
    }
    if case.rules_of.is_some() {
        seen.insert("model unlisted".to_owned());
    }
    seen
}

fn run(agent: &Agent, conversation: &mut Conversation, prompt: &str) -> (Report, Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut events = Vec::new();
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let report = runtime
        .block_on(agent.run_in_conversation(conversation, prompt, &mut sink, &cancel))
        .unwrap();
    (report, events)
}

fn tell((report, events): &(Report, Vec<Event>)) {
    println!("{report:#?}");
    for event in events {
        println!("{}", serde_json::to_string(event).unwrap());
    }
}

/// The answer tool that a policy declares.
fn answer_tool(policy: &Policy) -> Option<&str> {
    let responds = policy.landing == Landing::Respond;
    policy.answer_tool.first().map(String::as_str).or_else(|| responds.then_some("respond"))
}
