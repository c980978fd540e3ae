//! The adversary against runs that an engine keeps: the hostile model of `adversary.rs`, and a
//! process that crashes at any step, up to four times in a run.

use softland_agent::durable::RunEnd;
use softland_session::wire;

use crate::adversary::case::Case;
use crate::adversary::cases::generate;
use crate::adversary::hostile::{self, Dice};
use crate::adversary::seeds::{Adversary, Met};
use crate::durable::hostile_run::HostileRun;
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
    let Some(mut run) = HostileRun::of_case(case) else { return Met::new() };
    let planned = crashes(case, &mut run.dice);
    let engine = MockEngine::with_crashes(planned.iter().copied());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let kept = durable(run.agent.clone(), &run.prompt);
    let (end, attempts) = runtime.block_on(engine.run(&kept));
    assert!(matches!(end, RunEnd::Ended { .. }), "{end:?}");
    let mut seen = run.check(case, engine.events());
    for (_, when) in planned.iter().take(usize::try_from(attempts - 1).unwrap()) {
        let word = format!("{when:?}").to_lowercase();
        seen.insert(format!("crash {}", word.split('(').next().unwrap()));
    }
    seen.insert(format!("attempts {attempts}"));
    seen
}
