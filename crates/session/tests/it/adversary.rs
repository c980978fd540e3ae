//! The adversary against the session: a client that keeps its own history sends requests through
//! [`Exchange`], a hostile model answers them. Whatever it does, every client request ends within
//! a stated number of upstream requests, with one valid message.
//!
//! `common::seeds` says how to choose cases. A case that failed once is kept under `regressions`,
//! as data.
//!
//! [`Exchange`]: softland_session::Exchange

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in test helpers to panic is to fail the test"
)]

use crate::common::case::{Ask, Case};
use crate::common::client::{Client, Reply};
use crate::common::hostile::{self, Dice};
use crate::common::seeds::{Adversary, Met, regressions, tells};
use softland_core::policy::{Batch, Mode, Policy};
use softland_core::{Ladder, Outcome};
use softland_session::wire::Api;

/// Client requests of a case at most.
const REQUESTS: u64 = 40;
/// Questions and reminders of a case at most.
const ASKS: usize = 3;

const ADVERSARY: Adversary =
    Adversary { generate, drive, must_meet: &[OF_EVERY_API, OF_ANTHROPIC] };

/// The same hostile model behind Chat Completions, in all its dialects.
const CHAT: Adversary = Adversary {
    generate: |seed| hostile::posing(Api::Chat, generate(seed), seed),
    drive,
    must_meet: &[OF_EVERY_API],
};

/// The same behind Responses.
const RESPONSES: Adversary = Adversary {
    generate: |seed| hostile::posing(Api::Responses, generate(seed), seed),
    drive,
    must_meet: &[OF_EVERY_API],
};

/// What at least 1 % of the cases of every API meet.
const OF_EVERY_API: &[&str] = &[
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
    "outcome answered",
    "outcome landed",
    "outcome stopped",
    "outcome failed",
    "resent",
    "went on",
    "forked",
    "rewound",
    "compacted",
    "cleared",
    "expired",
    "emptied",
    "prefix kept",
    "prefix kept but for its writing",
    "tail kept",
    "behind a tail",
    "model unlisted",
];

/// What at least 1 % of the cases of Anthropic's API meet, too.
const OF_ANTHROPIC: &[&str] = &["way no block", "way blank", "way thinking", "reordered"];

regressions! {
    ADVERSARY,
    answer_behind_a_call_behind_a_nudge,
    answer_tool_behind_a_nudge,
    batch_none_behind_a_nudge,
    blank_text_of_a_claude,
    call_between_reasoning_and_its_text,
    call_shown_before_a_nudged_request_is_cut,
    chunks_behind_a_nudge_that_leads_to_calls,
    cut_answer_tool_behind_a_nudge,
    cut_call_before_a_compaction,
    details_of_two_responses,
    error_before_the_end,
    error_behind_the_end,
    failure_behind_a_nudge,
    failure_behind_a_nudged_end,
    failure_that_was_cleared,
    half_a_frame_before_a_local_answer,
    half_a_frame_before_the_next_rung,
    half_an_end_behind_a_held_answer,
    ids_without_their_reasoning,
    money_gone_behind_signed_thinking,
    money_gone_when_a_request_is_resent,
    note_at_the_end_of_a_text_that_becomes_a_string,
    nudged_answer_tool_with_thinking,
    nudged_answer_with_thinking,
    open_call_when_a_nudged_request_fails,
    open_thinking_when_a_rung_fails,
    pieces_of_a_refused_call,
    refusal_beside_calls,
    refusal_that_is_blank,
    results_cleared_that_were_never_the_newest,
    time_over_behind_a_call,
    time_over_behind_a_shown_item,
    time_over_when_a_request_is_resent,
    tokens_gone_when_a_request_is_resent,
}

#[test]
fn every_request_lands() {
    ADVERSARY.run();
}

#[test]
fn every_request_lands_on_chat_completions() {
    CHAT.run();
}

#[test]
fn every_request_lands_on_responses() {
    RESPONSES.run();
}

fn generate(seed: u64) -> Case {
    let mut dice = Dice::new(seed ^ 0xc11e_4700);
    let turns = hostile::script(&mut dice);
    let (model, rules_of) = hostile::model(&mut dice);
    let mut manner = hostile::manner(&mut dice, REQUESTS);
    let mode = if dice.chance(5) { Mode::Observe } else { Mode::Enforce };
    let ask = |text: &str, dice: &mut Dice| {
        Ask::Say(text.to_owned(), Box::new(Policy { mode, ..hostile::policy(dice) }))
    };
    let mut asks = vec![ask("What is it?", &mut dice)];
    while asks.len() < ASKS {
        asks.push(match dice.roll(5) {
            0 => break,
            1 => Ask::Remind("go on".to_owned()),
            2 => match ask("Or this?", &mut dice) {
                Ask::Say(text, policy) => Ask::Fork(dice.roll(2), text, policy),
                other => other,
            },
            _ => {
                let text = dice.pick(&["And then?", "Why?", "What else?"]);
                ask(text, &mut dice)
            }
        });
    }
    hostile::ways(&mut dice, &mut manner, REQUESTS);
    let (about, meets, api) = (String::new(), Vec::new(), Api::Anthropic);
    Case { about, meets, api, model, rules_of, manner, asks, turns }.with_own_ids()
}

/// Every request is handled by a gateway that is made anew and has its store; and in a second run
/// of the case the store is lost on the way, too.
fn drive(case: &Case) -> Met {
    let mut met = drive_one(case, None);
    if case.manner.emptied.is_some() {
        met.extend(drive_one(case, case.manner.emptied));
    }
    met
}

fn drive_one(case: &Case, emptied: Option<u64>) -> Met {
    let mut client = Client::new(case);
    let mut asks = case.asks.iter();
    client.ask(asks.next().unwrap());
    for request in 0..REQUESTS {
        if emptied == Some(request) {
            client.empty_store();
        }
        let policy = client.history.run().policy.clone();
        let (calls, chars) = client.history.used(false);
        let reply = client.turn();
        if tells() {
            println!("{policy:?}\n{reply:?}");
        }
        check_reply(&client, &reply);
        check_limits(&policy, calls, &reply);
        check_refused(case, &mut client, &reply);
        // How long a cleared result was is known to the store alone.
        let chars = if client.blind { reply.used.1 } else { chars };
        assert_eq!(reply.used, (calls, chars), "calls and characters are counted: {reply:#?}");
        let most = Ladder::max_requests(&policy) as usize;
        assert!(reply.upstream.len() <= most, "{} requests", reply.upstream.len());
        match reply.outcome {
            Some(Outcome::Failed) => break,
            Some(_) if reply.stop == "refusal" => break,
            Some(_) => {
                client.adopt(&reply);
                let Some(ask) = asks.next() else { break };
                client.ask(ask);
            }
            // Passed on as it was: cut, paused, silent. The client ends.
            None if reply.calls.is_empty() => break,
            // The response is lost on the way, and the request is sent again.
            None if case.manner.lost.contains(&request) => client.resent(),
            None => {
                client.adopt(&reply);
                client.run_tools(&reply);
                if let Some(made) = case.manner.moves.get(&(request + 1)) {
                    client.make(*made);
                }
            }
        }
    }
    if case.rules_of.is_some() {
        client.seen.insert("model unlisted".to_owned());
    }
    client.seen
}

/// Where the tables list the model, the provider refuses nothing; where they do not, no rung is
/// refused twice, and what is no rung is not refused either. Where the store was lost, thinking
/// that cannot be verified may be refused, and nothing else.
fn check_refused(case: &Case, client: &mut Client, reply: &Reply) {
    let mut refused = reply.refused.clone();
    if client.emptied && !case.manner.unbound {
        refused.retain(|(_, why)| !why.contains("bound to a different conversation"));
        if refused.len() < reply.refused.len() {
            client.seen.insert("refused for a lost store".to_owned());
        }
    }
    if refused.is_empty() {
        return;
    }
    assert!(case.rules_of.is_some(), "refused: {refused:?}");
    for (rung, why) in &refused {
        assert!(rung.is_some(), "refused, and no rung: {why:?}");
        let same = refused.iter().filter(|(other, _)| other == rung).count();
        assert!(same == 1, "{rung:?} refused twice: {why:?}");
    }
}

/// No more calls reach the client than are allowed, and none of a run that its limit ended.
fn check_limits(policy: &Policy, before: u64, reply: &Reply) {
    // A run that failed behind a call broke off.
    if policy.mode == Mode::Observe || reply.outcome == Some(Outcome::Failed) {
        return;
    }
    let calls = reply.counted_calls(policy);
    assert!(calls == 0 || !reply.at_limit, "calls of a run that is over: {reply:#?}");
    let executed = before + calls;
    if let Some(limit) = policy.tool_calls_limit.filter(|_| calls > 0) {
        let most = if policy.batch == Batch::All && limit > 0 { limit + 5 } else { limit };
        assert!(executed <= most, "{executed} calls of {limit}: {reply:#?}");
    }
}

/// One valid message: blocks in order, each closed, nothing blank, the stop reason true.
fn check_reply(client: &Client, reply: &Reply) {
    if client.history.runs.last().unwrap().policy.mode == Mode::Observe {
        // What was done to earlier runs of the conversation stays.
        let alone = client.history.runs.iter().all(|run| run.policy.mode == Mode::Observe);
        let bytes = if alone { &reply.sent } else { &reply.governed };
        assert!(
            reply.upstream.iter().all(|body| body == bytes),
            "what only observes changes nothing"
        );
        return;
    }
    if reply.outcome == Some(Outcome::Failed) {
        // Unless the limit came behind the end.
        assert!(!reply.whole || reply.at_limit, "what failed does not end: {reply:#?}");
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
        let signed = block["signature"].as_str().is_some_and(|signature| !signature.is_empty());
        assert!(block["type"] != "thinking" || signed, "half of a thinking: {reply:#?}");
    }
    if matches!(reply.outcome, Some(Outcome::Landed | Outcome::Stopped)) && reply.stop != "refusal"
    {
        let says = reply.content.iter().any(|b| b["type"] == "text" || b["name"] == "hand_in");
        let passed_on = reply.stop == "max_tokens" || reply.stop == "stop_sequence";
        let full = reply.stop == "model_context_window_exceeded";
        assert!(says || passed_on || full, "no answer: {reply:#?}");
    }
    for id in reply.calls.iter().map(|(id, ..)| id) {
        let same = reply.calls.iter().filter(|(other, ..)| other == id).count();
        assert!(same == 1, "an id twice: {reply:#?}");
    }
}
