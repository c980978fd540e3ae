//! Runs made by hand, replayed: what is listed, what is waste, and what a policy would have done.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use crate::support::{Script, policy};
use softland_import::report::{ListedSignal, RunReport, WhatIf};
use softland_import::{ConversationStart, ReplaySettings, is_good_run};
use softland_session::core::{NanoUsd, SignalKind};

const DOLLAR: u64 = 1_000_000_000;

fn settings(keys: &[(&str, &str)]) -> ReplaySettings {
    ReplaySettings { policy: policy(keys), ..ReplaySettings::default() }
}

/// A run of `rounds` that make progress, and an answer.
fn honest<'s>(settings: &'s ReplaySettings, rounds: u64) -> Script<'s> {
    rounds_of(Script::new(settings).says("do it"), 1..=rounds).text("All of it is done now.")
}

fn rounds_of(script: Script<'_>, rounds: std::ops::RangeInclusive<u64>) -> Script<'_> {
    rounds.fold(script, |script, n| {
        script.round("run_it", &format!("{{\"n\":{n}}}"), &format!("result {n}"))
    })
}

#[track_caller]
fn one(run: &RunReport, kind: SignalKind) -> &ListedSignal {
    assert_eq!(run.signals.len(), 1, "{:?}", run.signals);
    assert_eq!(run.signals[0].signal, kind);
    &run.signals[0]
}

#[track_caller]
fn ended(run: &RunReport) -> (u64, String) {
    let judged = run.what_if.clone().unwrap();
    (judged.ended_at_turn.unwrap(), judged.reason)
}

#[test]
fn a_repeat_is_listed_with_its_first_occurrence_and_that_is_no_waste() {
    let settings = settings(&[]);
    let script = Script::new(&settings).says("look");
    let script = (0..5).fold(script, |s, _| s.round("read_file", "{\"path\":\"a\"}", "same"));
    let run = script.text("There it is.").run();
    let listed = one(&run, SignalKind::Repeat);
    assert_eq!((listed.from_turn, listed.to_turn, listed.turns), (1, 5, 5));
    assert_eq!(listed.evidence.turns, [1, 2, 3, 4, 5]);
    assert_eq!(listed.evidence.call.as_deref(), Some("read_file {\"path\":\"a\"}"));
    assert_eq!(listed.wasted_usd, Some(NanoUsd(4_000_000)));
    assert_eq!((run.wasted_tokens, run.beside.wasted_turns), (Some(4400), 4));
    // Noted after the third, landed after the fourth: the fifth request carries the note.
    let judged = run.what_if.unwrap();
    assert_eq!((judged.warned_at_turn, judged.ended_at_turn), (Some(4), Some(5)));
    assert_eq!((judged.saved_turns, judged.reason.as_str()), (1, "repeat"));
}

#[test]
fn a_signal_below_its_limit_is_not_listed() {
    let settings = settings(&[]);
    let script = Script::new(&settings).says("look");
    let script = (0..2).fold(script, |s, _| s.round("read_file", "{\"path\":\"a\"}", "same"));
    let run = script.text("There it is.").run();
    assert!(run.signals.is_empty() && run.what_if.is_none() && is_good_run(&run), "{run:?}");
}

#[test]
fn cycles_of_two_to_four_are_found_and_their_first_time_through_is_no_waste() {
    let settings = settings(&[]);
    for period in 2..=4_u64 {
        let script = (0..period * 4).fold(Script::new(&settings).says("go"), |s, n| {
            let which = n % period;
            s.round("fetch_it", &format!("{{\"n\":{which}}}"), &format!("result {which}"))
        });
        let run = script.text("That is all of it.").run();
        let cycle = run.signals.iter().find(|s| s.signal == SignalKind::Cycle);
        let cycle = cycle.unwrap_or_else(|| panic!("a cycle of {period}: {:?}", run.signals));
        assert_eq!((cycle.from_turn, cycle.to_turn), (1, period * 4));
        let wasted = cycle.wasted_usd.unwrap().0 / 1_000_000;
        assert_eq!(wasted, period * 3, "a cycle of {period}");
        // Each turn counts once, however many signals hold it.
        assert_eq!(run.beside.wasted_turns, period * 3);
    }
}

#[test]
fn failures_in_parallel_batches_count_once_a_round() {
    let settings = settings(&[]);
    let fails = |script: Script<'static>| {
        script
            .calls(&[("shell", "{\"command\":\"a\"}"), ("shell", "{\"command\":\"b\"}")])
            .results(&["!no such file", "!no such file"])
    };
    let leaked: &'static ReplaySettings = Box::leak(Box::new(settings));
    let script = (0..3).fold(Script::new(leaked).says("go"), |s, _| fails(s));
    // Three failed rounds of two calls each are six failures, and not yet four rounds.
    let run = script.text("It cannot be done.").run();
    assert!(run.signals.iter().all(|s| s.signal != SignalKind::Errors), "{:?}", run.signals);
    let failing =
        |n: u64| (format!("{{\"command\":\"{n}\"}}"), format!("{{\"command\":\"x{n}\"}}"));
    let script = (0..5).fold(Script::new(leaked).says("go"), |s, n| {
        let (a, b) = failing(n);
        s.calls(&[("shell", &a), ("shell", &b)]).results(&["!no such file", "!no such file"])
    });
    let run = script.text("It cannot be done.").run();
    let listed = one(&run, SignalKind::Errors);
    assert_eq!((listed.turns, run.tool_calls), (5, 10));
    assert_eq!(listed.wasted_usd, Some(NanoUsd(4_000_000)));
    // One call of the batch that succeeds makes it no failed round.
    let script = (0..5).fold(Script::new(leaked).says("go"), |s, n| {
        let (a, b) = failing(n);
        s.calls(&[("shell", &a), ("shell", &b)]).results(&["!no such file", &format!("ok {n}")])
    });
    let run = script.text("Half of it is done.").run();
    assert!(run.signals.is_empty(), "{:?}", run.signals);
}

#[test]
fn empty_turns_of_every_kind_are_waste_and_end_the_run() {
    let settings = settings(&[]);
    for empty in ["", " \n\t", "\u{200b}\u{feff}", "[no answer]"] {
        let script = rounds_of(Script::new(&settings).says("go"), 1..=2);
        let script = (0..4).fold(script, |s, _| s.text(empty).machine());
        let run = script.text("Here is the answer, at last.").run();
        let listed = one(&run, SignalKind::Empty);
        assert_eq!((listed.from_turn, listed.to_turn, listed.turns), (3, 6, 4), "{empty:?}");
        assert_eq!(run.beside.wasted_turns, 4);
        assert_eq!(ended(&run), (5, "empty".to_owned()), "the third is the last before a stop");
        assert_eq!(run.what_if.unwrap().saved_turns, 2);
    }
}

#[test]
fn two_empty_turns_or_a_silence_behind_the_answer_are_nothing() {
    let settings = settings(&[]);
    let script = rounds_of(Script::new(&settings).says("go"), 1..=2);
    let run = script.text("").machine().text(" ").machine().text("Here is the answer.").run();
    assert!(run.signals.is_empty(), "{:?}", run.signals);
    let script = Script::new(&settings).says("go").text("Here is the whole answer.");
    let script = (0..4).fold(script, |s, _| s.machine().text(""));
    assert!(script.run().signals.is_empty());
}

#[test]
fn trivial_turns_count_only_where_the_run_goes_on_without_a_person() {
    let settings = settings(&[]);
    let script = rounds_of(Script::new(&settings).says("go"), 1..=1);
    let script = (0..4).fold(script, |s, _| s.text("OK.").machine());
    let run = script.text("Here is the answer, at last.").run();
    let listed = one(&run, SignalKind::Trivial);
    assert_eq!((listed.from_turn, listed.to_turn), (2, 5));
    assert_eq!(ended(&run).0, 4);
    let script = (0..6).fold(Script::new(&settings), |s, n| s.says(&format!("{n}?")).text("OK."));
    let runs = script.runs();
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|run| run.signals.is_empty() && run.turns == 1));
}

#[test]
fn rows_of_one_prompt_answered_in_vain_are_stale_and_all_of_them_are_waste() {
    let settings = settings(&[]);
    let begin = ConversationStart { inferred: true, ..ConversationStart::default() };
    let script = Script::begun(&settings, &begin).row(50_000, 900, DOLLAR / 4);
    let script = (0..22).fold(script, |s, _| s.row(56_065, 3, DOLLAR * 28 / 100));
    let run = script.row(57_000, 800, DOLLAR / 4).run();
    let listed = one(&run, SignalKind::Stale);
    assert_eq!((listed.from_turn, listed.to_turn, listed.turns), (2, 23, 22));
    assert_eq!(listed.wasted_usd, Some(NanoUsd(DOLLAR * 616 / 100)));
    assert_eq!((run.turns, run.beside.wasted_turns, run.inferred), (24, 22, true));
    assert_eq!(ended(&run), (4, "stale".to_owned()));
    // The same under another limit of silence, where the same context decides.
    let patient = self::settings(&[("empty_limit", "100"), ("stale_limit", "5")]);
    let script = Script::begun(&patient, &begin).row(50_000, 900, DOLLAR / 4);
    let script = (0..22).fold(script, |s, _| s.row(56_065, 3, DOLLAR * 28 / 100));
    assert_eq!(ended(&script.run()), (6, "stale".to_owned()));
}

#[test]
fn trivial_rows_of_growing_prompts_are_trivial_and_healthy_rows_nothing() {
    let settings = settings(&[]);
    let begin = ConversationStart { inferred: true, ..ConversationStart::default() };
    let script = Script::begun(&settings, &begin);
    let script = (0..4).fold(script, |s, n| s.row(1000 + n, 3, 10));
    let run = script.row(2000, 500, 10).run();
    assert_eq!(one(&run, SignalKind::Trivial).turns, 4);
    let script = Script::begun(&settings, &begin);
    let script = (0..30).fold(script, |s, n| s.row(1000, if n % 3 == 2 { 400 } else { 3 }, 10));
    let run = script.run();
    assert!(run.signals.is_empty(), "{:?}", run.signals);
    assert!(!is_good_run(&run), "rows say nothing of calls");
}

#[test]
fn the_same_words_again_without_a_call_are_a_repeat_of_the_run() {
    let settings = settings(&[]);
    let said = "Could you rephrase that, please?";
    let script = Script::new(&settings).says("go");
    let script = (0..4).fold(script, |s, _| s.text(said).machine());
    let run = script.text("Here is the answer.").run();
    assert_eq!(one(&run, SignalKind::Repeat).turns, 4);
    assert_eq!(run.beside.wasted_turns, 3);
}

#[test]
fn the_same_words_to_every_question_are_a_repeat_from_the_third_on() {
    let settings = settings(&[]);
    let same = "I am not able to look into that.";
    let ask = |script: Script<'static>, n: u64| script.says(&format!("question {n}"));
    let leaked: &'static ReplaySettings = Box::leak(Box::new(settings));
    let script = (0..4).fold(Script::new(leaked), |s, n| ask(s, n).text(same));
    let runs = script.runs();
    assert!(runs[..2].iter().all(|run| run.signals.is_empty()), "{runs:?}");
    for run in &runs[2..] {
        let listed = one(run, SignalKind::Repeat);
        assert_eq!((listed.from_turn, listed.turns, run.beside.wasted_turns), (1, 1, 1));
        assert!(!is_good_run(run));
    }
    // Work between two of them, or another answer, begins anew.
    let script = (0..6).fold(Script::new(leaked), |s, n| {
        let s = ask(s, n);
        let s = if n == 2 { s.round("run_it", "{}", "result") } else { s };
        s.text(if n == 4 { "That has changed." } else { same })
    });
    assert!(script.runs().iter().all(|run| run.signals.is_empty()));
}

#[test]
fn a_run_that_hands_its_answer_in_is_good() {
    let settings = settings(&[]);
    let script = rounds_of(Script::new(&settings).says("go"), 1..=3);
    let left = script.round("bash", "{\"command\":\"ls\"}", "a.md");
    assert!(!is_good_run(&left.run()), "it was left in the middle");
    let script = rounds_of(Script::new(&settings).says("go"), 1..=3).submits();
    let run = script.round("bash", "{\"command\":\"submit\"}", "the diff").run();
    assert!(is_good_run(&run) && run.tool_calls == 4, "{run:?}");
}

#[test]
fn a_turn_cut_four_times_is_listed() {
    let settings = settings(&[]);
    let script = Script::new(&settings).says("go");
    let script = (0..3).fold(script, |s, n| s.cut(&format!("part {n} of it")).machine());
    assert!(script.text("The end of it.").run().signals.is_empty());
    let script = Script::new(&settings).says("go");
    let script = (0..4).fold(script, |s, n| s.cut(&format!("part {n} of it")).machine());
    assert_eq!(one(&script.text("The end of it.").run(), SignalKind::Truncated).turns, 4);
}

#[test]
fn a_sweep_is_listed_and_never_waste() {
    let settings = settings(&[]);
    let script = (0..40).fold(Script::new(&settings).says("read all"), |s, n| {
        s.round("read_file", &format!("{{\"path\":\"{n}\"}}"), &format!("text {n}"))
    });
    let run = script.text("I have read all of them.").run();
    assert_eq!(one(&run, SignalKind::Sweep).wasted_usd, Some(NanoUsd::ZERO));
    assert_eq!((run.wasted_tokens, run.beside.wasted_turns), (Some(0), 0));
}

/// Each limit ends the run at the turn whose request carries the note; `stop` at the one before.
#[test]
fn every_limit_ends_the_run_where_it_says() {
    let rounds = 20;
    for (keys, wanted, reason) in [
        (&[("tool_calls_limit", "5")][..], 6, "tool_calls"),
        (&[("tool_calls_limit", "0")], 1, "tool_calls"),
        (&[("turns_limit", "7")], 7, "turns"),
        (&[("turns_limit", "1")], 1, "turns"),
        (&[("result_chars_limit", "40")], 6, "result_chars"),
        // Two run, three are refused, and the note is behind the third.
        (&[("tool_limits", "run_it=2")], 6, "tool:run_it"),
        // Before request n, n - 1 turns of 1100 tokens are used; its own input, that of the
        // answer, and what is held back for both must still fit. So with money, where no price is
        // known: the request and the answer at what the recorded one cost.
        (&[("tokens_limit", "20000"), ("reserve_tokens", "500")], 17, "tokens"),
        (&[("cost_limit_usd", "0.0065"), ("reserve_tokens", "0")], 6, "cost"),
        (&[("session_cost_limit_usd", "0.0065"), ("reserve_tokens", "0")], 6, "session_cost"),
        // A request is sent when its message is there: request n after 10 (n - 2) seconds.
        (&[("time_limit", "100s"), ("reserve_time", "30s")], 9, "time"),
    ] {
        for landing in ["auto", "stop"] {
            let mut keys = keys.to_vec();
            keys.push(("landing", landing));
            let settings = settings(&keys);
            let script = Script::new(&settings).says("go");
            let script = (1..=rounds).fold(script, |s, n| {
                s.round("run_it", &format!("{{\"n\":{n}}}"), &format!("{n:08}")).wait(10)
            });
            let run = script.text("All of it is done.").run();
            let mut turn = wanted;
            if landing == "stop" {
                turn -= 1;
            }
            assert_eq!(ended(&run), (turn, reason.to_owned()), "{keys:?}");
            let judged = run.what_if.unwrap();
            assert_eq!(judged.saved_turns, run.turns - turn, "{keys:?}");
            assert_eq!(judged.saved_usd, Some(NanoUsd(1_000_000 * (run.turns - turn))));
            assert_eq!(judged.saved_tokens, Some(1100 * (run.turns - turn)));
        }
    }
}

#[test]
fn loops_stop_or_land_as_the_policy_says() {
    for (on_loop, wanted) in
        [("ladder", Some(5)), ("land", Some(4)), ("stop", Some(3)), ("observe", None)]
    {
        let settings = settings(&[("on_loop", on_loop)]);
        let script = Script::new(&settings).says("look");
        let script = (0..8).fold(script, |s, _| s.round("read_file", "{\"path\":\"a\"}", "same"));
        let run = script.text("There it is.").run();
        let at = run.what_if.as_ref().and_then(|judged| judged.ended_at_turn);
        assert_eq!(at, wanted, "{on_loop}");
        assert_eq!(run.signals.len(), 1, "what is seen does not depend on the policy");
    }
}

#[test]
fn a_warning_alone_is_told_and_saves_nothing() {
    let settings = settings(&[("turns_limit", "12"), ("warn_at", "0.5")]);
    let run = honest(&settings, 8).run();
    assert_eq!(
        run.what_if,
        Some(WhatIf {
            warned_at_turn: Some(7),
            ended_at_turn: None,
            saved_usd: Some(NanoUsd::ZERO),
            saved_turns: 0,
            saved_tokens: Some(0),
            reason: "turns".to_owned(),
        })
    );
}

#[test]
fn money_of_a_session_counts_over_its_runs_and_idle_time_in_none() {
    let limited = settings(&[("session_cost_limit_usd", "0.0105"), ("reserve_tokens", "0")]);
    let script = Script::new(&limited).says("one");
    let script = rounds_of(script, 1..=5).text("The first is done.").says("two");
    let runs = rounds_of(script, 11..=19).text("The second is done.").runs();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].what_if, None);
    assert_eq!(ended(&runs[1]), (4, "session_cost".to_owned()));
    let limited = settings(&[("time_limit", "100s"), ("reserve_time", "0s")]);
    let script = Script::new(&limited).says("go");
    let script = (0..8).fold(script, |s, n| {
        s.round("run_it", &format!("{{\"n\":{n}}}"), &format!("{n}")).wait(700)
    });
    assert_eq!(script.text("Done with all of it.").run().what_if, None, "idle gaps are left out");
}

#[test]
fn unknown_prices_are_null_and_counted() {
    let settings = settings(&[]);
    let script = Script::new(&settings).each(10, 10, None).says("look");
    let script = (0..4).fold(script, |s, _| s.round("read_file", "{\"path\":\"a\"}", "same"));
    let run = script.text("There it is.").run();
    assert_eq!((run.cost_usd, run.wasted_usd, run.beside.unpriced_turns), (None, None, 5));
    assert_eq!(run.wasted_tokens, Some(60));
    let script = Script::new(&settings).says("look").round("read_file", "{}", "same");
    let run = script.each(10, 10, None).text("There it is.").run();
    assert_eq!((run.cost_usd, run.beside.unpriced_turns), (Some(NanoUsd(1_000_000)), 1));
    assert_eq!(run.wasted_usd, Some(NanoUsd::ZERO));
}

#[test]
fn runs_are_numbered_within_their_session_and_named_by_their_recording() {
    let settings = settings(&[]);
    let runs =
        Script::new(&settings).says("a").text("first answer").says("b").text("second answer");
    let names: Vec<String> = runs.runs().into_iter().map(|run| run.run).collect();
    assert_eq!(names, ["s#1", "s#2"]);
    let begin = ConversationStart {
        session: Some("s"),
        run: Some("run-1"),
        ..ConversationStart::default()
    };
    let whole = Script::begun(&settings, &begin).says("a").text("an answer").says("b");
    let run = whole.text("another one").run();
    assert_eq!((run.run.as_str(), run.turns), ("s/run-1", 2), "it is not cut into several");
}
