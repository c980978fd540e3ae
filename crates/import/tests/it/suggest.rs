//! Limits made from runs never end the good runs that they were made from.

use crate::support::Script;
use softland_import::report::Report;
use softland_import::{
    ConversationStart, Kind, Recordings, ReplaySettings, Source, build_report, is_good_run,
};
use softland_session::core::policy::Policy;

/// So many runs with so many calls each, and one that loops.
fn audited(settings: &ReplaySettings, runs: &[u64]) -> Report {
    let mut sources = Vec::new();
    for (at, calls) in runs.iter().enumerate() {
        let session = format!("s{at}");
        let begin = ConversationStart { session: Some(&session), ..ConversationStart::default() };
        let script = Script::begun(settings, &begin).by("claude-sonnet-4-5").says("go");
        let script = (0..*calls).fold(script, |s, n| {
            let script = s.each_input(1000 + 500 * n);
            script.round("run_it", &format!("{{\"n\":{n}}}"), &format!("result {n}"))
        });
        let sink = Some(script.text("All of it is done now.").folder());
        let (path, kind) = (format!("{at}.jsonl").into(), Some(Kind::Messages));
        sources.push(Source { path, kind, bytes: 1, sink });
    }
    let looped = Script::new(settings).by("claude-sonnet-4-5").says("go");
    let looped = (0..500).fold(looped, |s, _| s.round("read_file", "{}", "same"));
    let sink = Some(looped.folder());
    sources.push(Source { path: "l.jsonl".into(), kind: Some(Kind::Messages), bytes: 1, sink });
    build_report(Recordings { sources, unreadable: Vec::new() })
}

#[test]
fn suggested_limits_end_no_good_run_and_the_bad_one() {
    let spread: Vec<u64> = (0..150).map(|n| (n * 37) % 41).collect();
    let with_one_long: Vec<u64> = spread.iter().copied().chain([130]).collect();
    for runs in [spread, with_one_long, vec![1; 20]] {
        let first = audited(&ReplaySettings::default(), &runs);
        let suggested = &first.suggested_policy;
        let most = *runs.iter().max().unwrap();
        assert!(suggested.tool_calls_limit.unwrap() > most, "{suggested:?}");
        assert!(suggested.turns_limit.unwrap() > most + 1 && suggested.cost_limit_usd.is_some());
        let again = audited(
            &ReplaySettings { policy: suggested.to_policy(), ..ReplaySettings::default() },
            &runs,
        );
        assert_eq!(again.runs.iter().filter(|run| is_good_run(run)).count(), runs.len());
        for run in &again.runs {
            let ended = run.what_if.as_ref().and_then(|judged| judged.ended_at_turn);
            assert_eq!(ended.is_some(), !is_good_run(run), "{}: {:?}", run.run, run.what_if);
        }
    }
}

#[test]
fn few_runs_suggest_nothing() {
    let few = audited(&ReplaySettings::default(), &[3; 19]).suggested_policy;
    assert_eq!(few.to_policy(), Policy::default());
    assert!(few.to_toml().contains("signal): 19."), "{}", few.to_toml());
}

#[test]
fn one_run_far_above_the_others_sets_no_limit() {
    let usual: Vec<u64> = (0..60).map(|n| 5 + n % 20).collect();
    let with_outlier: Vec<u64> = usual.iter().copied().chain([4000]).collect();
    let plain = audited(&ReplaySettings::default(), &usual).suggested_policy;
    let robust = audited(&ReplaySettings::default(), &with_outlier).suggested_policy;
    assert_eq!(robust.tool_calls_limit, plain.tool_calls_limit);
    assert!(robust.to_toml().contains("one run far above left out"), "{}", robust.to_toml());
    assert_eq!((plain.effect.cut, robust.effect.cut), (0, 1), "and it would have been cut");
    assert_eq!(plain.effect.landed, 1, "the loop");
}

#[test]
fn kinds_of_work_that_differ_have_limits_of_their_own() {
    let chats = [0; 30];
    let mixed: Vec<u64> = (0..30).map(|n| 20 + n).chain(chats).collect();
    let suggested = audited(&ReplaySettings::default(), &mixed).suggested_policy;
    let names: Vec<&str> = suggested.kinds.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["chat", "work"]);
    assert!(suggested.to_toml().contains("\n[policy.chat]\n"), "{}", suggested.to_toml());
    let alike = audited(&ReplaySettings::default(), &[10; 40]).suggested_policy;
    assert!(alike.kinds.is_empty(), "{alike:?}");
}
