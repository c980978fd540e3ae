//! The adversary against the loop: an arbitrary hostile model under arbitrary policies. Whatever
//! it does, the run ends within a stated number of requests, with one true account of how.
//!
//! `seeds.rs`, which is the session's adversary's too, says how to choose cases. A case that failed
//! once is kept under `regressions`, as data.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../session/tests/common/case.rs"]
mod case;
#[path = "adversary/checks.rs"]
mod checks;
mod common;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../session/tests/common/hostile.rs"]
mod hostile;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../session/tests/common/reading.rs"]
mod reading;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the session's adversary")]
#[path = "../../session/tests/common/seeds.rs"]
mod seeds;
#[path = "adversary/watch.rs"]
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use case::{Ask, Case};
use common::{Counting, agent};
use hostile::{Dice, TOOLS};
use seeds::{Adversary, Met, regressions, tells};
use serde_json::Value;
use softland_agent::core::models;
use softland_agent::core::policy::{Landing, Policy};
use softland_agent::http::provider::Api;
use softland_agent::{Agent, Conversation, Event, Report, ToolOutput};
use softland_sim::{Config, Part, Scenario};
use watch::Watching;

const ADVERSARY: Adversary =
    Adversary { generate, drive: |case| drive(Api::Anthropic, case), must_meet: MUST_MEET };

/// The same hostile model behind Chat Completions, in all its dialects.
const CHAT: Adversary = Adversary {
    generate: |seed| posing(CHAT_MODELS, seed),
    drive: |case| drive(Api::OpenAiChat, case),
    must_meet: OF_EVERY_API,
};

/// The same behind Responses.
const RESPONSES: Adversary = Adversary {
    generate: |seed| posing(RESPONSES_MODELS, seed),
    drive: |case| drive(Api::OpenAiResponses, case),
    must_meet: OF_EVERY_API,
};

/// With reasoning and without.
const RESPONSES_MODELS: &[&str] = &[
    "openai/gpt-4o",
    "openai/gpt-5.3-codex",
    "openai/gpt-5.6-sol",
    "openai/gpt-6-astra",
    "openai/o3",
];

/// Every dialect that the simulator speaks.
const CHAT_MODELS: &[&str] = &[
    "openai/gpt-4o",
    "openai/gpt-5.6-sol",
    "openai/o3",
    "azure/model-router",
    "deepseek/deepseek-v4-flash",
    "openrouter/anthropic/claude-haiku-4.5",
    "openrouter/anthropic/claude-opus-5.5",
    "openrouter/openai/o4-mini",
    "openrouter/minimax/minimax-m2",
    "zai/glm-4.7",
    "xai/grok-4.3",
    "groq/llama-3.3-70b-versatile",
    "anthropic/claude-sonnet-4-5",
];

/// What at least 1 % of the cases of every API meet.
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

/// What at least 1 % of the cases of Anthropic's API meet.
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
    "way no block",
    "way blank",
    "way thinking",
    "model unlisted",
];

regressions! {
    ADVERSARY,
    continued_turn_counts_once,
    cut_after_the_end_of_an_answer,
    cut_after_the_end_of_an_empty_turn,
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

/// The same cases with other models.
fn posing(models: &[&str], seed: u64) -> Case {
    let mut case = generate(seed);
    // Of these vendors OpenRouter alone has thinking that is not to be read.
    for turn in &mut case.turns {
        turn.parts.retain(|part| *part != Part::RedactedThinking);
    }
    // An unlisted name does not say that its model wants OpenAI's newer name for the output limit.
    let strict = |model: &str| model.contains("gpt-5") || model.contains("/o");
    let models: Vec<_> =
        models.iter().filter(|model| case.rules_of.is_none() || !strict(model)).collect();
    let model = (*models[(seed % models.len() as u64) as usize]).to_owned();
    match case.rules_of {
        Some(_) => Case { rules_of: Some(model), ..case },
        None => Case { model, ..case },
    }
}

/// The model as an agent names it, and as the simulator knows the one whose rules hold.
fn names(api: Api, case: &Case) -> (String, String) {
    if api == Api::Anthropic {
        return (format!("anthropic/{}", case.model), case.rules().to_owned());
    }
    let listed = case.rules().split_once('/').map(|(_, id)| id.to_owned());
    let agents =
        if case.rules_of.is_some() { format!("mine/{}", case.model) } else { case.model.clone() };
    (agents, listed.unwrap())
}

fn generate(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let turns = hostile::script(&mut dice);
    let (model, rules_of) = hostile::model(&mut dice);
    let manner = hostile::manner(&mut dice, 0);
    // A further question, under another policy, in the same conversation.
    let asks = ["What is it?", "And what then?"]
        .map(|text| Ask::Say(text.to_owned(), Box::new(hostile::policy(&mut dice))));
    let (about, meets) = (String::new(), Vec::new());
    Case { about, meets, model, rules_of, manner, asks: asks.into(), turns }
}

fn drive(api: Api, case: &Case) -> Met {
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
    under_test.options.price = Some(models::all()[0].price);
    under_test.options.show_thinking = case.manner.thinking;
    let ran: Arc<AtomicU64> = Arc::default();
    let tools: Vec<_> = TOOLS.iter().map(|tool| (*tool, Arc::<AtomicU64>::default())).collect();
    for (tool, calls) in &tools {
        under_test.tools.add(Arc::new(counted(tool, calls, &ran))).unwrap();
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
    let report = runtime.block_on(agent.ask(conversation, prompt, &mut sink, &cancel)).unwrap();
    (report, events)
}

fn tell((report, events): &(Report, Vec<Event>)) {
    println!("{report:#?}");
    for event in events {
        println!("{}", serde_json::to_string(event).unwrap());
    }
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

/// The answer tool that a policy declares.
fn answer_tool(policy: &Policy) -> Option<&str> {
    let responds = policy.landing == Landing::Respond;
    policy.answer_tool.as_deref().or_else(|| responds.then_some("respond"))
}
