//! The adversary against the gateway, through real sockets: hostile models, policies of any kind,
//! and clients that resend, fork, rewind, compact, walk away in the middle and come back, while
//! the gateway behind their base URL may be replaced by one that knows nothing.
//!
//! `session/tests/it/common` has the models, the policies and the shrinking; `seeds` there says how
//! to choose cases. What a client does beside asking is drawn from its `plan`, so that a shrunk
//! case still does it. A case that failed once is kept under `regressions`, as data.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::allow_attributes,
    reason = "what the session's tests share is used in part"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

#[path = "../../../session/tests/it/common/case.rs"]
mod case;
mod checks;
#[path = "../../../session/tests/it/common/hostile.rs"]
mod hostile;
mod observed;
mod play;
#[path = "../../../session/tests/it/common/seeds.rs"]
mod seeds;
mod talk;

use case::{Ask, Case};
use hostile::Dice;
use play::Play;
use seeds::{Adversary, Met, regressions};
use softland_session::core::policy::{Mode, Policy};
use softland_session::wire::Api;
use softland_sim::{Fault, Part, Stop, Turn};

/// Questions and reminders of a case at most.
const ASKS: usize = 3;

const ADVERSARY: Adversary = Adversary { generate, drive, must_meet: &[MUST_MEET] };

/// The same models and clients on Chat Completions, in all its dialects.
const CHAT: Adversary = Adversary {
    generate: |seed| posing(Api::Chat, CHAT_MODELS, seed),
    drive,
    must_meet: &[MUST_MEET],
};

/// The same on Responses.
const RESPONSES: Adversary = Adversary {
    generate: |seed| posing(Api::Responses, RESPONSES_MODELS, seed),
    drive,
    must_meet: &[MUST_MEET],
};

/// Cases of each of these two where nobody says how many.
const OF_THESE: u64 = 500;

/// Every dialect that the simulator speaks.
const CHAT_MODELS: &[&str] = &[
    "gpt-4o",
    "gpt-5.6-sol",
    "o3",
    "model-router",
    "deepseek-v4-flash",
    "anthropic/claude-haiku-4.5",
    "anthropic/claude-opus-5.5",
    "openai/o4-mini",
    "minimax/minimax-m2",
    "glm-4.7",
    "grok-4.3",
    "llama-3.3-70b-versatile",
    "claude-sonnet-4-5",
];

/// With reasoning and without.
const RESPONSES_MODELS: &[&str] = &["gpt-4o", "gpt-5.3-codex", "gpt-5.6-sol", "gpt-6-astra", "o3"];

/// The situations that at least 1 % of the cases meet.
const MUST_MEET: &[&str] = &[
    "answer",
    "calls",
    "landing",
    "hidden requests",
    "a tail kept",
    "upstream error",
    "broken stream",
    "softland's answer",
    "cut off",
    "resent",
    "forked",
    "rewound",
    "compacted",
    "replaced",
    "went on",
    "thinking",
    "unpriced",
];

#[test]
fn every_request_lands() {
    ADVERSARY.run();
}

#[test]
fn every_request_lands_on_chat_completions() {
    CHAT.run_of(OF_THESE);
}

#[test]
fn every_request_lands_on_responses() {
    RESPONSES.run_of(OF_THESE);
}

regressions! {
    ADVERSARY,
    blank_refusal_of_chat_completions,
    blank_refusal_of_responses,
    blank_text_of_a_claude_beside_a_call,
    first_chunk_with_a_call_behind_an_empty_turn,
    output_limit_beyond_an_unknown_maximum,
    output_limit_of_an_unlisted_model_of_responses,
    output_limit_of_an_unlisted_reasoner,
    pieces_of_a_call_that_is_refused_again,
    reasoning_before_and_behind_a_nudge,
    refusal_before_a_new_question,
}

/// A case whose client speaks another protocol, to one of these models.
fn posing(api: Api, models: &[&str], seed: u64) -> Case {
    let mut case = generate(seed);
    case.api = api;
    for turn in &mut case.turns {
        // What the provider's own tools take is none of the client's turns.
        turn.stop = turn.stop.take().filter(|stop| *stop != Stop::PauseTurn);
        // Reasoning has something behind it, or stands alone.
        let thinks = |part: &Part| matches!(part, Part::Thinking(_) | Part::RedactedThinking);
        if api == Api::Responses && !turn.parts.iter().all(thinks) {
            let last = turn.parts.iter().rposition(|part| !thinks(part));
            turn.parts.truncate(last.map_or(0, |last| last + 1));
        }
    }
    // What fails behind its end is whole for whoever reads it, and not kept by the provider.
    let fails = |turn: &Turn| matches!(turn.fault, Some(Fault::ErrorEvent { .. }));
    if api == Api::Responses && case.turns.iter().any(fails) {
        case.manner.cache = false;
    }
    let model = models[(seed % models.len() as u64) as usize].to_owned();
    match case.rules_of {
        Some(_) => Case { rules_of: Some(model), ..case },
        None => Case { model, ..case },
    }
}

fn generate(seed: u64) -> Case {
    let mut dice = Dice::new(seed ^ 0x6a7e_3a41);
    let mut turns = hostile::script(&mut dice);
    for turn in &mut turns {
        // Sockets wait for real.
        turn.first_delay_ms %= 3;
    }
    let (model, rules_of) = hostile::model(&mut dice);
    let mut manner = hostile::manner(&mut dice, 0);
    manner.vain.clear();
    let ask = |text: &str, dice: &mut Dice| {
        Ask::Say(text.to_owned(), Box::new(Policy { mode: Mode::Enforce, ..hostile::policy(dice) }))
    };
    let mut asks = vec![ask("What is it?", &mut dice)];
    while asks.len() < ASKS {
        asks.push(match dice.roll(4) {
            0 => break,
            1 => Ask::Remind("go on".to_owned()),
            _ => {
                let text = dice.pick(&["And then?", "Why?", "What else?"]);
                ask(text, &mut dice)
            }
        });
    }
    manner.plan = dice.roll(1 << 40);
    let api = Default::default();
    Case { about: String::new(), meets: Vec::new(), api, model, rules_of, manner, asks, turns }
        .with_own_ids()
}

fn drive(case: &Case) -> Met {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut play = Play::new(case).await;
        play.all().await;
        play.met
    })
}

/// A policy that only observes changes no byte in either direction, whatever the model does.
#[test]
fn who_only_observes_changes_no_byte() {
    let adversaries = [(&ADVERSARY, 150), (&CHAT, 75), (&RESPONSES, 75)];
    for (adversary, cases) in adversaries {
        for seed in 0..cases {
            let case = (adversary.generate)(seed);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(observed::observed(&case, seed));
        }
    }
}
