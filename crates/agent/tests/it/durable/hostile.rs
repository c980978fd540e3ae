//! The adversary against runs that an engine keeps: the hostile model of `adversary.rs`, and a
//! process that crashes at any step, up to four times in a run.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use softland_agent::core::{Digest, models};
use softland_agent::durable::RunEnd;
use softland_agent::http::Api;
use softland_agent::{Event, EventKind, Report, Tool, ToolContext, ToolDef, ToolOutput};
use softland_session::wire;
use softland_sim::{Config, Scenario};

use crate::adversary::case::{Ask, Case};
use crate::adversary::hostile::{self, Dice, TOOLS};
use crate::adversary::seeds::{Adversary, Met};
use crate::adversary::watch::Watching;
use crate::adversary::{api_of, checks, counted, generate, names};
use crate::common::{Counting, agent};
use crate::durable::mock::{MockEngine, When, durable};

/// Cases of a usual test run. `SOFTLAND_CASES=10000` runs many more.
const CASES: u64 = 40;

const CRASHING: Adversary = Adversary { generate, drive, must_meet: &[MEETS] };

const CHAT: Adversary = Adversary {
    generate: |seed| hostile::posing(wire::Api::Chat, generate(seed), seed),
    drive,
    must_meet: &[MEETS],
};

const RESPONSES: Adversary = Adversary {
    generate: |seed| hostile::posing(wire::Api::Responses, generate(seed), seed),
    drive,
    must_meet: &[MEETS],
};

const MEETS: &[&str] = &[
    "outcome answered",
    "outcome landed",
    "outcome stopped",
    "crash before",
    "crash during",
    "crash after",
    "crash recorded",
    "attempts 3",
    "interrupted",
];

#[test]
fn e11_every_run_lands_whatever_the_model_does_and_wherever_the_process_crashes() {
    CRASHING.run_of(CASES);
}

#[test]
fn e11_every_run_lands_on_chat_completions_wherever_the_process_crashes() {
    CHAT.run_of(CASES);
}

#[test]
fn e11_every_run_lands_on_responses_wherever_the_process_crashes() {
    RESPONSES.run_of(CASES);
}

/// A tool that may not run twice.
struct Unrepeatable(Counting);

#[async_trait]
impl Tool for Unrepeatable {
    fn def(&self) -> ToolDef {
        ToolDef { repeatable: false, ..self.0.def() }
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        // Other calls of the round get their turn, and so does a crash.
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.call(input, cx).await
    }
}

/// The crashes of a case, which follow from the case alone.
fn crashes(case: &Case, dice: &mut Dice) -> Vec<(u64, When)> {
    let reach = 3 + 4 * case.turns.len() as u64;
    let mut crash = |_| {
        let when = match dice.roll(4) {
            0 => When::Before,
            1 => When::During(1 + u32::try_from(dice.roll(6)).unwrap()),
            2 => When::After,
            _ => When::Recorded,
        };
        (dice.roll(reach.min(24)), when)
    };
    let mut all: Vec<_> = (0..4).map(&mut crash).collect();
    all.sort_by_key(|(step, _)| *step);
    all
}

fn drive(case: &Case) -> Met {
    let api = api_of(case);
    let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
    let (model, listed) = names(api, case);
    config.aliases = case.rules_of.iter().map(|_| (case.model.clone(), listed.clone())).collect();
    config.piece_bytes = case.manner.piece_bytes;
    let watching = Watching::new(config);
    let mut under_test = agent(&watching.transport, &model);
    under_test.options.api = api;
    under_test.transport = Arc::<Watching>::clone(&watching);
    under_test.options.price = Some(models::all_models()[0].price);
    under_test.options.show_thinking = case.manner.thinking;
    let ran: Arc<AtomicU64> = Arc::default();
    let seed = Digest::from_bytes(case.to_text().as_bytes()).to_string();
    let mut dice = Dice::new(u64::from_str_radix(&seed[..15], 16).unwrap());
    let mut once = Vec::new();
    for &tool in TOOLS {
        let calls = Arc::<AtomicU64>::default();
        let counted = counted(tool, &calls, &ran);
        let added = if dice.chance(70) {
            once.push((tool, calls));
            under_test.tools.add_tool(Arc::new(Unrepeatable(counted)))
        } else {
            under_test.tools.add_tool(Arc::new(counted))
        };
        added.unwrap();
    }
    let Some(Ask::Say(prompt, policy)) = case.asks.first() else { return Met::new() };
    under_test.policy = (**policy).clone();
    let planned = crashes(case, &mut dice);
    let engine = MockEngine::with_crashes(planned.iter().copied());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (end, attempts) = runtime.block_on(engine.run(&durable(under_test, prompt)));
    assert_eq!(end, RunEnd::Ended);
    let events = engine.events();
    let came = (report(&events), events);
    checks::events(&came.1);
    checks::report(&came.0);
    checks::refused(case, &watching, 0);
    let script = case.turns.len() as u64;
    checks::first_run(&came, policy, &once, script, &watching.transport);
    if api != Api::OpenAiResponses {
        checks::prefixes(api, &watching.transport, &[]);
    }
    let mut seen = Met::new();
    checks::note(&came, &mut seen);
    for (_, when) in planned.iter().take(usize::try_from(attempts - 1).unwrap()) {
        let word = format!("{when:?}").to_lowercase();
        seen.insert(format!("crash {}", word.split('(').next().unwrap()));
    }
    seen.insert(format!("attempts {attempts}"));
    let interrupted = |event: &Event| match &event.kind {
        EventKind::ToolResult { content, .. } => content.contains("interrupted. The process"),
        _ => false,
    };
    if came.1.iter().any(interrupted) {
        seen.insert("interrupted".to_owned());
    }
    seen
}

fn report(events: &[Event]) -> Report {
    match &events.last().unwrap().kind {
        EventKind::Done { report } | EventKind::Error { report, .. } => report.as_ref().clone(),
        other => panic!("no end: {other:?}"),
    }
}
