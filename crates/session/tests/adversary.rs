//! The adversary against the session: a client that keeps its own history sends requests through
//! [`Exchange`], a hostile model answers them. Whatever it does, every client request ends within
//! a stated number of upstream requests, with one valid message.
//!
//! `SOFTLAND_CASES` sets the number of cases. A seed that once failed stays in `SEEDS`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "in test helpers to panic is to fail the test"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::client::{Client, Reply};
use common::hostile::{self, Dice, MODELS};
use softland_core::policy::{Batch, Mode};
use softland_core::{Ladder, Outcome};

/// Seeds that failed once.
const SEEDS: &[u64] = &[138, 371, 424, 824, 1243, 2226, 2810, 4885, 5425, 8904, 1484, 5359];

/// What at least 1 % of the cases meet.
const MUST_MEET: &[&str] = &[
    "rung ask",
    "rung refuse",
    "rung none",
    "rung respond",
    "rung local_answer",
    "signal empty",
    "signal trivial",
    "signal stale",
    "signal repeat",
    "signal cycle",
    "signal errors",
    "signal sweep",
    "reason time",
    "reason tokens",
    "reason cost",
    "way no block",
    "way blank",
    "way thinking",
    "outcome answered",
    "outcome landed",
    "outcome stopped",
    "outcome failed",
    "resent",
    "went on",
];

#[test]
fn every_request_lands() {
    let cases = std::env::var("SOFTLAND_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let only = only_seed();
    let mut met: BTreeMap<String, u64> = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in SEEDS.iter().copied().chain(0..cases) {
        if only.is_some_and(|only| only != seed) {
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

/// `SOFTLAND_SEED`: the one case to run, told step by step.
fn only_seed() -> Option<u64> {
    std::env::var("SOFTLAND_SEED").ok().and_then(|n| n.parse().ok())
}

fn case(seed: u64) -> BTreeSet<String> {
    let mut dice = Dice::new(seed ^ 0xc11e_4700);
    let (_, turns) = hostile::script(&mut dice);
    let model = dice.pick(MODELS);
    let mut client = Client::new(&mut dice, model, hostile::with_own_ids(turns));
    client.policy = hostile::policy(&mut dice);
    if dice.chance(5) {
        client.policy.mode = Mode::Observe;
    }
    client.say("What is it?");
    let mut executed = 0;
    let mut answered = 0;
    for _ in 0..40 {
        let policy = client.pinned_policy();
        if dice.chance(2) {
            client.vain = 1 + dice.roll(5);
        }
        let reply = client.turn();
        if only_seed().is_some() {
            println!("{policy:?}\n{reply:?}");
        }
        check_reply(&client, &reply);
        let most = Ladder::most_requests(&policy) as usize;
        assert!(reply.upstream.len() <= most, "{} requests", reply.upstream.len());
        match reply.outcome {
            Some(Outcome::Failed) => break,
            Some(_) if reply.stop == "refusal" => break,
            Some(_) => {
                client.adopt(&reply);
                executed = 0;
                answered += 1;
                if answered == 3 || client.tainted || !client.next_message(&mut dice) {
                    break;
                }
            }
            None if reply.calls.is_empty() => {
                // Passed on as it was: cut, paused, silent. The client ends.
                break;
            }
            None => {
                executed += reply.counted_calls();
                check_limits(&policy, executed, &reply);
                if client.tainted {
                    break;
                }
                if dice.chance(5) {
                    // The response is lost on the way, and the request is sent again.
                    executed -= reply.counted_calls();
                    client.resent();
                    continue;
                }
                client.adopt(&reply);
                client.run_tools(&reply);
            }
        }
    }
    client.check_prefixes();
    let stats = client.sim.stats();
    assert_eq!(stats.refused, 0, "{model}: {:?}", stats.refusals);
    client.seen
}

fn check_limits(policy: &softland_core::policy::Policy, executed: u64, reply: &Reply) {
    if policy.mode == Mode::Observe {
        return;
    }
    if let Some(limit) = policy.tool_calls_limit {
        let most = if policy.batch == Batch::All && limit > 0 { limit + 5 } else { limit };
        assert!(executed <= most, "{executed} calls of {limit}: {reply:#?}");
    }
}

/// One valid message: blocks in order, each closed, nothing blank, the stop reason true.
fn check_reply(client: &Client, reply: &Reply) {
    if client.policy.mode == Mode::Observe {
        for body in &reply.upstream {
            assert_eq!(*body, reply.sent, "what only observes leaves the bytes alone");
        }
        return;
    }
    if reply.outcome == Some(Outcome::Failed) {
        return;
    }
    assert!(reply.whole, "the message came to its end: {reply:#?}");
    let calls = reply.content.iter().filter(|b| b["type"] == "tool_use").count();
    // What the provider says of itself passes as it is, where it is all there is.
    if reply.stop == "tool_use" && reply.upstream.len() > 1 {
        assert!(calls > 0, "tool_use without a call: {reply:#?}");
    }
    for block in &reply.content {
        if block["type"] == "text" {
            let text = block["text"].as_str().unwrap();
            assert!(!text.trim().is_empty(), "a blank text: {reply:#?}");
        }
    }
    if matches!(reply.outcome, Some(Outcome::Landed | Outcome::Stopped)) && reply.stop != "refusal"
    {
        let says = reply.content.iter().any(|b| b["type"] == "text" || b["name"] == "respond");
        let passed_on = reply.stop == "max_tokens" || reply.stop == "stop_sequence";
        let full = reply.stop == "model_context_window_exceeded";
        assert!(says || passed_on || full, "no answer: {reply:#?}");
    }
    for id in reply.calls.iter().map(|(id, ..)| id) {
        let same = reply.calls.iter().filter(|(other, ..)| other == id).count();
        assert!(same == 1, "an id twice: {reply:#?}");
    }
}
