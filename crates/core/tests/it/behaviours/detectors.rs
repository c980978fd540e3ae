//! The results of the classifier and the detectors, above all where they must stay silent.

use softland_core::policy::{OnLoop, Policy};
use softland_core::{
    AdditionKind, Call, FinishedTurn, Phase, Role, SignalKind, Stop, TurnClass, VisibleText,
    classify_turn,
};

use crate::behaviours::support::{Done, Talk, batch, input, kinds, lines, silent};

#[test]
fn b42_the_fold_counts_what_the_classifier_says() {
    let policy = Policy { answer_tool: vec!["respond".into()], ..Policy::default() };
    let call = |name: &'static str| vec![Call { id: "c", name, input: "{}", server: false }];
    for text in ["", " \n", "\u{200b}", "[no answer]", "ok", "It is twelve.", "<use_tool>"] {
        for calls in [vec![], call("grep"), call("respond")] {
            for stop in [Stop::Natural, Stop::Unknown, Stop::Sequence, Stop::Length, Stop::Refusal]
            {
                let turn = FinishedTurn {
                    text: VisibleText::from_text(text),
                    calls: calls.clone(),
                    cut_call: false,
                    hidden: false,
                    gives: false,
                    stop,
                    output_tokens: None,
                };
                let class = classify_turn(&turn, |call| call.name == "respond");
                for role in [Role::Engine, Role::Gateway] {
                    let mut talk = Talk::new(role, policy.clone());
                    talk.model("", vec![], Stop::Natural);
                    talk.transcript.add_turn(&turn);
                    let empty = talk.transcript.current_run().unwrap().empty_in_row();
                    let wanted = if class == TurnClass::Empty { 2 } else { 0 };
                    assert_eq!(empty, wanted, "{text:?} {stop:?} {class:?}");
                    let starts = talk.say("Another question.").starts_run;
                    let open = matches!(class, TurnClass::Calls)
                        || (class == TurnClass::Truncated && turn.text.is_blank());
                    assert_eq!(starts, !open, "{text:?} {stop:?} {class:?}");
                }
            }
        }
    }
}

/// A turn counts as trivial only when the run goes on behind it. Empty turns between them count,
/// too.
#[test]
fn b32_trivial_turns_in_a_row_end_the_run() {
    let trivial = |talk: &mut Talk, text: &str| {
        talk.transcript.add_turn(&FinishedTurn {
            text: VisibleText::from_text(text),
            calls: vec![],
            cut_call: false,
            hidden: false,
            gives: false,
            stop: Stop::Natural,
            output_tokens: Some(2),
        });
        talk.say("<system-reminder>Go on.</system-reminder>")
    };
    for texts in [["ok", "ok.", "hm"], ["ok", "", "ok"]] {
        let mut talk = Talk::new(Role::Gateway, Policy::default());
        talk.one("grep", "{}", "a line");
        for (n, text) in texts.into_iter().enumerate() {
            let step = trivial(&mut talk, text);
            assert_eq!(kinds(&step).contains(&SignalKind::Trivial), !text.is_empty(), "{text}");
            let stops =
                matches!(talk.transcript.current_run().unwrap().phase(), Phase::Stopping { .. });
            assert_eq!(stops, n == 2, "{texts:?} {n}");
        }
    }
    // Work between them starts the count afresh, and an engine's words are its model's own.
    for (role, works) in [(Role::Gateway, true), (Role::Engine, false)] {
        let mut talk = Talk::new(role, Policy::default());
        for n in 0..9 {
            trivial(&mut talk, "ok");
            if works && n % 2 == 1 {
                talk.one("grep", input(n), "a line");
            }
            assert_eq!(
                talk.transcript.current_run().unwrap().phase(),
                &Phase::Open,
                "{role:?} {n}"
            );
        }
    }
}

/// The (tool, arguments, result) of each call of the nth round.
type Work = fn(u64) -> Vec<(&'static str, String, String)>;

#[test]
fn b36_honest_work_is_left_alone() {
    let work: [(&str, Work); 8] = [
        ("polling with changing output", |n| {
            vec![("get_job_status", r#"{"job":7}"#.into(), format!("{n} of 60 done"))]
        }),
        ("files read by range", |n| {
            vec![("read_file", format!(r#"{{"path":"a","offset":{}}}"#, n * 100), "…".into())]
        }),
        ("other files with the same text", |n| {
            vec![("read_file", format!(r#"{{"path":"{n}"}}"#), "(empty)".into())]
        }),
        ("edits, each checked by the same command", |n| match n % 2 {
            0 => vec![(
                "edit_file",
                format!(r#"{{"path":"a","old":"{n}","new":"x"}}"#),
                "edited".into(),
            )],
            _ => vec![("shell", r#"{"command":"cargo test"}"#.into(), "3 tests failed".into())],
        }),
        ("writing and reading back the same", |n| match n % 2 {
            0 => {
                vec![("write_file", format!(r#"{{"path":"a","content":"{n}"}}"#), "written".into())]
            }
            _ => vec![("read_file", r#"{"path":"a"}"#.into(), "the first page".into())],
        }),
        ("A, B, A, B with other results", |n| {
            vec![("grep", format!(r#"{{"n":{}}}"#, n % 2), format!("found {n}"))]
        }),
        ("batches of new things", |n| {
            (0..5).map(|k| ("grep", format!(r#"{{"n":{n},"k":{k}}}"#), "none".into())).collect()
        }),
        ("other errors each time", |n| {
            vec![("grep", format!(r#"{{"n":{n}}}"#), format!("Error: no file {n}"))]
        }),
    ];
    for (what, rounds) in work {
        for role in [Role::Engine, Role::Gateway] {
            let mut talk = Talk::new(role, Policy::default());
            for n in 0..60 {
                let round = rounds(n);
                let failed = what.contains("errors");
                let done: Vec<Done<'_>> = round
                    .iter()
                    .map(|(tool, input, text)| (*tool, input.clone(), &**text, failed))
                    .collect();
                silent(&talk.round(&done), what, n);
            }
            assert!(!talk.lands(), "{what}");
        }
    }
}

#[test]
fn b36_a_repeat_is_noted_at_its_limit_and_landed_when_it_comes_again() {
    for (tool, limit) in [("grep", 3), ("get_job_status", 10), ("never_heard_of", 3)] {
        let mut talk = Talk::new(Role::Engine, Policy::default());
        for n in 1..=limit + 1 {
            let step = talk.one(tool, r#"{"a":1}"#, "the same");
            let said = lines(&step).remove(&0).map(|(kind, _)| kind);
            let wanted = match n {
                _ if n == limit => Some(AdditionKind::Note),
                _ if n > limit => Some(AdditionKind::Ask),
                _ => None,
            };
            assert_eq!(said, wanted, "{tool}, {n} times");
            assert_eq!(kinds(&step).contains(&SignalKind::Repeat), n >= limit, "{tool} {n}");
        }
        assert!(talk.lands());
    }
    // Copies in one round count once. A failed change is no change. A person's message clears
    // everything.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    let same: Vec<Done<'_>> = (0..6).map(|_| ("grep", input(1), "the same", false)).collect();
    silent(&talk.round(&same), "copies", 0);
    talk.round(&[("write_file", input(2), "Error: no", true)]);
    silent(&talk.one("grep", input(1), "the same"), "twice", 1);
    let said = [("grep", input(1), "the same", false)];
    let step = talk.round_with(&said, "Look again, please.");
    assert_eq!(kinds(&step), [SignalKind::Repeat]);
    silent(&talk.one("grep", input(1), "the same"), "after steering", 2);
    silent(&talk.one("grep", input(1), "the same"), "after steering", 3);
    // So does a person's message at the end of a result.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    silent(&talk.one("grep", input(1), "the same"), "once", 1);
    silent(&talk.one("grep", input(1), "the same"), "twice", 2);
    let remarked =
        format!("other\n\n{}", softland_core::lines::format_remark("Look again, please."));
    talk.one("grep", input(2), &remarked);
    silent(&talk.one("grep", input(1), "the same"), "after a remark", 1);
    // Calls that are further apart than 24 calls are no loop.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    for n in 0..6 {
        silent(&talk.one("grep", input(0), "the same"), "far apart", n);
        silent(&talk.round(&batch(100 * (n + 1), 24)), "between", n);
    }
}

#[test]
fn b36_the_same_error_from_the_same_tools_is_a_loop_of_its_own() {
    let mut talk = Talk::new(Role::Engine, Policy::default());
    for n in 1..=4 {
        let step = talk.round(&[("grep", input(n), "Error: broken", true)]);
        assert_eq!(kinds(&step) == [SignalKind::Errors], n == 4, "{n}");
    }
    // A call that works in the same round, or between, is progress.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    for n in 0..20 {
        let works = n % 4 == 3;
        let step = talk.round(&[(
            "grep",
            input(n),
            if works { "found" } else { "Error: broken" },
            !works,
        )]);
        silent(&step, "with a success between", n);
    }
}

#[test]
fn b36_a_few_errors_that_keep_coming_are_one_loop() {
    // Two and four errors in turns, for any call.
    for different in [2, 4] {
        let mut talk = Talk::new(Role::Engine, Policy::default());
        for n in 1..=8 {
            let text = format!("Error: no table {}", n % different);
            let step = talk.round(&[("sql", input(n), text.as_str(), true)]);
            assert_eq!(kinds(&step) == [SignalKind::Errors], n == 8, "{different}, {n}");
            let note = "The same errors keep coming (8 times in a row).";
            let told = lines(&step).values().any(|(_, line)| line.starts_with(note));
            assert_eq!(told, n == 8, "{different}, {n}");
            if let Some(signal) = step.signals.first() {
                assert_eq!(signal.evidence.turns, (1..=8).collect::<Vec<_>>());
                assert!(signal.evidence.text.is_some());
            }
        }
        assert!(!talk.lands());
        talk.round(&[("sql", input(9), "Error: no table 1", true)]);
        assert!(talk.lands(), "again within five turns");
    }
}

#[test]
fn b36_errors_that_move_on_are_left_alone() {
    // One error in three comes again; the other two are progress.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    for n in 0..40 {
        let text = format!("Error: no table {}", if n % 3 == 0 { 0 } else { n });
        silent(&talk.round(&[("sql", input(n), text.as_str(), true)]), "new errors", n);
    }
    // A call works in between, by the same tool or by another.
    for tool in ["sql", "edit_file"] {
        let mut talk = Talk::new(Role::Engine, Policy::default());
        for n in 0..40 {
            let (text, works) = (format!("Error: no table {}", n % 2), n % 7 == 6);
            let (tool, text) = if works { (tool, "done") } else { ("sql", text.as_str()) };
            silent(&talk.round(&[(tool, input(n), text, !works)]), "works between", n);
        }
    }
    // Always other tools, and a batch in which one call works.
    let mut tools = Talk::new(Role::Engine, Policy::default());
    let mut batch = Talk::new(Role::Engine, Policy::default());
    for n in 0..40 {
        let text = format!("Error: no table {}", n % 2);
        let tool = if n % 3 == 0 { "sql" } else { "query" };
        silent(&tools.round(&[(tool, input(n), text.as_str(), true)]), "other tools", n);
        let found = format!("found {n}");
        let both = [
            ("sql", input(n), text.as_str(), true),
            ("sql", input(100 + n), found.as_str(), false),
        ];
        silent(&batch.round(&both), "one works", n);
    }
    // A person steers.
    let mut talk = Talk::new(Role::Engine, Policy::default());
    for n in 0..40 {
        let text = format!("Error: no table {}", n % 2);
        let done = [("sql", input(n), text.as_str(), true)];
        let step = match n % 7 {
            6 => talk.round_with(&done, "Look for another table."),
            _ => talk.round(&done),
        };
        silent(&step, "steered", n);
    }
}

#[test]
fn b36_a_limit_of_errors_holds_for_one_error_and_twice_for_a_few() {
    for (limit, first) in [(0, None), (1, Some(1)), (2, Some(4)), (3, Some(6)), (5, Some(10))] {
        let policy = Policy { error_limit: limit, on_loop: OnLoop::Observe, ..Policy::default() };
        let mut talk = Talk::new(Role::Gateway, policy);
        let seen = (1..=12).find(|n| {
            let text = format!("Error: no table {}", n % 2);
            !talk.round(&[("sql", input(*n), text.as_str(), true)]).signals.is_empty()
        });
        assert_eq!(seen, first, "limit {limit}");
    }
}

#[test]
fn b37_a_cycle_stops_with_the_same_results_only() {
    for period in 2..=4_u64 {
        let policy = |on_loop| Policy { repeat_limit: 0, on_loop, ..Policy::default() };
        let mut same = Talk::new(Role::Gateway, policy(OnLoop::Observe));
        let mut landing = Talk::new(Role::Gateway, policy(OnLoop::Ladder));
        let mut moving = Talk::new(Role::Gateway, policy(OnLoop::Ladder));
        for n in 0..12 * period {
            let at = n % period;
            let step = same.one("grep", input(at), &format!("result {at}"));
            landing.one("grep", input(at), &format!("result {at}"));
            assert_eq!(landing.lands(), n + 1 > 3 * period, "period {period}, {n}");
            let wanted = n + 1 >= 3 * period;
            assert_eq!(kinds(&step).contains(&SignalKind::Cycle), wanted, "period {period}, {n}");
            // One of the results changes each time.
            let text = if at == 0 { format!("result {n}") } else { format!("result {at}") };
            silent(&moving.one("grep", input(at), &text), "a moving cycle", n);
        }
        assert!(!same.lands() && !moving.lands());
    }
}

#[test]
fn b35_the_row_of_empty_turns_is_of_this_run_and_ends_with_a_real_turn() {
    let mut talk = Talk::new(Role::Gateway, Policy::default());
    let row = |talk: &Talk| talk.transcript.current_run().unwrap().empty_in_row();
    talk.model("", vec![], Stop::Natural);
    talk.say("Please continue.");
    talk.model("[no answer]", vec![], Stop::Unknown);
    assert_eq!((row(&talk), talk.transcript.run_count()), (2, 1));
    talk.say("Please continue.");
    talk.one("grep", input(1), "found");
    assert_eq!(row(&talk), 0, "a call with empty text is a real turn");
    talk.model(" ", vec![], Stop::Natural);
    assert_eq!(row(&talk), 1);
    talk.say("Another question.");
    assert_eq!((row(&talk), talk.transcript.run_count()), (0, 2));
}
