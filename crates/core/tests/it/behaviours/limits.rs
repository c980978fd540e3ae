//! Countdowns, batches and warnings as numbers of the fold.

use std::collections::BTreeMap;

use proptest::prelude::*;
use softland_core::policy::{Batch, Countdown, Policy, RunBoundary, Share};
use softland_core::{
    AdditionKind, Admission, Because, Call, Digest, Facts, Millis, NanoUsd, Phase, PinnedRecord,
    Reason, Role, Stop, Transcript,
};

use crate::behaviours::support::{Talk, batch, input, limited, lines};

proptest! {
    /// For any batches: N = limit − calls so far, from half the limit on, and the note at the
    /// limit.
    #[test]
    fn b08_the_countdown_falls_by_one_per_call(limit in 1_u64..40, batches in prop::collection::vec(1_u64..7, 1..20)) {
        for role in [Role::Engine, Role::Gateway] {
            let mut talk = Talk::new(role, limited(limit));
            let mut used = 0;
            for calls in &batches {
                let ran = if role == Role::Engine { (*calls).min(limit - used) } else { *calls };
                let said = lines(&talk.round(&batch(used, *calls)));
                for n in 0..*calls {
                    let after = used + n + 1;
                    let wanted = if n >= ran {
                        None
                    } else if n + 1 == ran && used + ran >= limit {
                        Some(format!("Tool call limit reached ({} of {limit}). Answer now with what you have; further tool calls will not be run.", used + ran))
                    } else if after < limit && 2 * after >= limit {
                        let left = limit - after;
                        Some(format!("{left} tool call{} remaining", if left == 1 { "" } else { "s" }))
                    } else {
                        None
                    };
                    let line = said.get(&usize::try_from(n).unwrap()).map(|(_, line)| line.clone());
                    prop_assert_eq!(line, wanted, "call {} of {}", after, limit);
                }
                used += ran;
                prop_assert_eq!(talk.calls(), used);
                prop_assert_eq!(talk.lands(), used >= limit);
                if used >= limit {
                    break;
                }
            }
        }
    }

    /// No batch, however cut, runs more calls than allowed.
    #[test]
    fn b04_no_more_calls_are_admitted_than_policy_says(
        limit in 0_u64..12,
        batches in prop::collection::vec(1_u64..6, 1..8),
        how in prop::sample::select(vec![Batch::First, Batch::All, Batch::None]),
    ) {
        let mut talk = Talk::new(Role::Engine, Policy { batch: how, ..limited(limit) });
        let mut used = 0;
        for calls in batches {
            let names: Vec<_> = (0..calls).map(|n| (format!("a{n}"), input(n))).collect();
            let asked: Vec<_> = names.iter().map(|(id, input)| Call { id, name: "grep", input, server: false }).collect();
            let admissions = talk.transcript.current_run().unwrap().admit_calls(&asked);
            let room = limit.saturating_sub(used);
            let runs = match how {
                _ if room == 0 => 0,
                Batch::First => calls.min(room),
                Batch::All => calls,
                Batch::None => if calls <= room { calls } else { 0 },
            };
            let admitted: Vec<_> = admissions.iter().map(Admission::is_run).collect();
            let wanted: Vec<_> = (0..calls).map(|n| n < runs).collect();
            prop_assert_eq!(admitted, wanted, "{:?}: {} calls, room for {}", how, calls, room);
            talk.round(&batch(used, calls));
            used += runs;
            prop_assert_eq!(talk.calls(), used);
            if talk.lands() {
                break;
            }
        }
        prop_assert!(how == Batch::All || used <= limit);
    }
}

#[test]
fn b08_a_tools_own_countdown_names_it_and_the_fewest_left_is_shown() {
    let tool_limits = BTreeMap::from([("grep".to_owned(), 4)]);
    let mut talk = Talk::new(Role::Engine, Policy { tool_limits, ..limited(8) });
    let mut said = Vec::new();
    for (n, tool) in ["grep", "grep", "read_file", "grep", "read_file", "grep"].iter().enumerate() {
        let step = talk.one(tool, input(n as u64), &format!("{n}"));
        said.push(lines(&step).remove(&0).map(|(_, line)| line));
    }
    let said: Vec<_> = said.iter().map(Option::as_deref).collect();
    assert_eq!(
        said,
        [
            None,
            Some("2 grep calls remaining"),
            None,
            Some("1 grep call remaining"),
            Some("3 tool calls remaining"),
            Some("grep: limit of 4 reached; other tools remain"),
        ]
    );
}

#[test]
fn b08_milestones_and_off_say_less() {
    let shown = |countdown, limit: u64| -> Vec<u64> {
        let mut talk = Talk::new(Role::Engine, Policy { countdown, ..limited(limit) });
        let said = |n: u64| {
            let step = talk.one("grep", input(n), &format!("{n}"));
            lines(&step).remove(&0).filter(|(kind, _)| *kind != AdditionKind::Ask).map(|_| n + 1)
        };
        (0..limit).filter_map(said).collect()
    };
    assert_eq!(shown(Countdown::Milestones, 20), [10, 15, 18, 19]);
    assert_eq!(shown(Countdown::Every, 20), (10..20).collect::<Vec<_>>());
    assert_eq!(shown(Countdown::Off, 20), [19]);
    assert_eq!(shown(Countdown::Off, 1), [0; 0]);
    assert_eq!(shown(Countdown::Milestones, 1), [0; 0]);
}

#[test]
fn b02_limits_that_the_transcript_does_not_show_warn_once() {
    let tokens = Policy { tokens_limit: Some(100_000), ..Policy::default() };
    let cost = Policy { cost_limit_usd: Some(NanoUsd(1_000_000_000)), ..Policy::default() };
    let time = Policy { time_limit: Some(Millis::from_secs(1000)), ..Policy::default() };
    let used = |share: u64| Facts {
        tokens: share * 1000,
        cost: NanoUsd(share * 10_000_000),
        elapsed: Millis::from_secs(share * 10),
        ..Facts::default()
    };
    for (policy, name) in [(tokens, "token"), (cost, "cost"), (time, "time")] {
        let mut talk = Talk::new(Role::Engine, policy);
        for (n, share) in [10, 89, 90, 91].into_iter().enumerate() {
            talk.facts = used(share);
            let step = talk.one("grep", input(n as u64), &format!("{n}"));
            let wanted = format!(
                "About 10% of the {name} limit remains. Finish your research and prepare the final answer."
            );
            let said = lines(&step).remove(&0);
            assert_eq!(
                said,
                (share == 90).then_some((AdditionKind::Warn, wanted)),
                "{name} {share}"
            );
        }
        // A line that was added once on facts is added again at the same place, whatever the facts
        // are now.
        let records = talk.transcript.into_parts().2;
        let mut again = Talk::new(Role::Engine, Policy::default());
        again.transcript = Transcript::new(Role::Engine, Policy::default(), records);
        again.say("What is it?");
        let warned: Vec<_> = (0..4)
            .filter(|n| !again.one("grep", input(*n), &format!("{n}")).additions.is_empty())
            .collect();
        assert_eq!(warned, [2], "{name}");
    }
}

/// A message that neither begins a run nor ends a round has no place for a line. The limit is seen
/// there all the same, and the note comes behind the history.
#[test]
fn c43_a_limit_reached_behind_a_second_message_is_seen() {
    let tokens = Policy { tokens_limit: Some(100_000), ..Policy::default() };
    let cost = Policy { cost_limit_usd: Some(NanoUsd(1_000_000_000)), ..Policy::default() };
    let time = Policy { time_limit: Some(Millis::from_secs(1000)), ..Policy::default() };
    let used = |share: u64| Facts {
        tokens: share * 1000,
        cost: NanoUsd(share * 10_000_000),
        elapsed: Millis::from_secs(share * 10),
        next_input_cost: NanoUsd(1),
        ..Facts::default()
    };
    let nudge = "[ERROR] You did not use a tool in your previous response! Please retry.";
    for (policy, reason) in [(tokens, Reason::Tokens), (cost, Reason::Cost), (time, Reason::Time)] {
        for (answer, message) in [(None, "Look in the other file."), (Some("I will."), nudge)] {
            let mut talk = Talk::new(Role::Gateway, policy.clone());
            talk.one("grep", input(0), "found");
            if let Some(text) = answer {
                talk.model(text, vec![], Stop::Natural);
            }
            for (share, wanted) in [(10, None), (100, Some(&reason))] {
                talk.facts = used(share);
                let step = talk.say(message);
                assert!(!step.starts_run && step.additions.is_empty(), "{message}");
                let late = match talk.transcript.current_run().unwrap().phase() {
                    Phase::Open => None,
                    Phase::Late { because } => Some(&because.reason),
                    other => panic!("{reason:?} behind {message}: {other:?}"),
                };
                assert_eq!(late, wanted, "{message} at {share} %");
            }
        }
    }
}

#[test]
fn b12_each_request_of_a_parent_starts_a_count_of_its_own() {
    for role in [Role::Engine, Role::Gateway] {
        let mut talk = Talk::new(role, limited(5));
        for n in 0..3 {
            talk.one("grep", input(n), &format!("{n}"));
        }
        assert_eq!(talk.calls(), 3);
        talk.model("It is twelve.", vec![], Stop::Natural);
        assert!(talk.say("And in July?").starts_run);
        assert_eq!((talk.calls(), talk.transcript.run_count()), (0, 2));
        talk.one("grep", input(9), "9");
        assert_eq!((talk.calls(), talk.lands(), talk.role), (1, false, role));
    }
}

#[test]
fn b07_countdown_from_is_inclusive_and_nothing_is_said_before_it() {
    for (percent, first) in [(0, 1), (50, 5), (75, 8), (90, 9)] {
        let countdown_from = Share::from_percent(percent);
        let mut talk = Talk::new(Role::Engine, Policy { countdown_from, ..limited(10) });
        let said = |n: &u64| !talk.one("grep", input(*n), &format!("{n}")).additions.is_empty();
        let heard: Vec<_> = (1..=10).filter(said).collect();
        assert_eq!(heard, (first..=10).collect::<Vec<_>>(), "from {percent} %");
    }
}

/// The history does not show calls that were taken out of a turn by a tool's own limit. The record
/// shows them at the last result of that round, in every reading. Without the record nothing does.
#[test]
fn the_last_result_tells_of_calls_that_were_taken_out() {
    let policy = Policy { tool_limits: [("list".to_owned(), 1)].into(), ..Policy::default() };
    let mut record = PinnedRecord::new(policy.clone());
    record.looked = Some(1);
    let refused = |tool: &str| Because::from_counts(Reason::Tool(tool.to_owned()), 1, 1);
    record.record_removed_calls(1, [refused("late")].iter());
    assert_eq!(record.decided, [], "the request of that round is made already");
    record.record_removed_calls(
        2,
        [refused("list"), Because::from_counts(Reason::ToolCalls, 3, 3)].iter(),
    );
    record.record_removed_calls(2, [refused("list"), refused("glob")].iter());
    assert_eq!(record.decided.len(), 2, "each tool once, and only tools");
    let key = Talk::new(Role::Gateway, Policy::default()).transcript.run_key().expect("a run");
    for (records, wanted) in [
        (
            BTreeMap::from([(key, Box::new(record))]),
            Some("list: limit of 1 reached; glob: limit of 1 reached; other tools remain"),
        ),
        (BTreeMap::new(), None),
    ] {
        let mut talk = Talk::new(Role::Gateway, policy.clone());
        talk.transcript = Transcript::new(Role::Gateway, policy.clone(), records);
        talk.say("What is it?");
        let said: Vec<_> = (0..4)
            .map(|n| {
                let calls = [("grep", input(n), "a", false), ("read", input(n), "b", false)];
                lines(&talk.round(&calls))
            })
            .collect();
        for (n, said) in said.into_iter().enumerate() {
            let here = wanted.filter(|_| n == 1);
            let line = here.map(|text| (1, (AdditionKind::Countdown, text.to_owned())));
            assert_eq!(said, line.into_iter().collect(), "round {n}");
        }
    }
}

#[test]
fn where_only_names_begin_runs_a_new_one_begins_at_the_newest_question() {
    let policy = Policy { run_boundary: RunBoundary::Header, ..limited(9) };
    let talk = |named: Option<Vec<Digest>>| {
        let mut talk = Talk::new(Role::Gateway, policy.clone());
        talk.transcript = Transcript::new(Role::Gateway, policy.clone(), BTreeMap::new());
        if let Some(begun) = named {
            talk.transcript.set_named_runs(begun);
        }
        let mut began = Vec::new();
        for n in 0..3 {
            began.push(talk.say(&format!("Question {n}?")).starts_run);
            talk.one("grep", input(n), "found");
            talk.model("That is the whole answer to it.", vec![], Stop::Natural);
        }
        (began, talk.calls(), talk.transcript.run_key().expect("a run"))
    };
    assert_eq!(talk(None).0, [true, false, false], "no name: one run");
    let (began, calls, newest) = talk(Some(Vec::new()));
    assert_eq!((began, calls), (vec![true, true, true], 1), "a new name");
    let (began, calls, _) = talk(Some(vec![newest]));
    assert_eq!((began, calls), (vec![true, false, true], 1), "a known one goes on from there");
    let (began, calls, _) = talk(Some(vec![Digest::from_bytes(b"elsewhere")]));
    assert_eq!((began, calls), (vec![true, false, false], 3), "it began in no place of this one");
}

/// A search of all calls for each result would take minutes.
#[test]
fn a_round_of_any_size_is_folded() {
    let policy = Policy {
        tool_calls_limit: Some(150_000),
        tool_limits: [("grep".into(), 150_000)].into(),
        ..Policy::default()
    };
    for role in [Role::Engine, Role::Gateway] {
        let mut talk = Talk::new(role, policy.clone());
        let step = talk.round(&batch(0, 100_000));
        assert_eq!(talk.calls(), 100_000);
        assert!(lines(&step).contains_key(&99_999), "the last result has its line");
    }
}
