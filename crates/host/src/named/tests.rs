use softland_govern::records::RunOwner;
use softland_govern::runs::RunInfo;
use softland_session::core::{Reason, RunEnding};
use softland_session::wire::Tokens;

use super::*;

fn start(run: &str, before: (u64, u64)) -> Record<'static> {
    Record::RunStart(RunStart {
        at: 0,
        run: run.into(),
        session: "job".into(),
        name: Some("job".into()),
        agent: None,
        continues: None,
        model: "m".into(),
        policy: "default".to_owned(),
        client: None,
        key: None,
        account: None,
        observed: false,
        before,
    })
}

fn end(run: &str, (turns, tool_calls): (u64, u64)) -> Record<'static> {
    Record::RunEnd(RunEnd {
        at: 0,
        run: run.into(),
        owner: RunOwner::default(),
        ended: RunEnding::without_limit(Outcome::Answered, Reason::Final),
        local: false,
        answer: None,
        turns,
        tool_calls,
        input: 0,
        output: 0,
        cache_read: 0,
        cache_write: 0,
        cost: None,
    })
}

fn snapshot(run: &str, turns: u64, calls: u64) -> RunSnapshot {
    RunSnapshot {
        run: run.into(),
        info: Arc::new(RunInfo::default()),
        last: 0,
        phase: Default::default(),
        is_busy: false,
        turns,
        calls,
        tokens: Tokens::default(),
        cost: None,
        end: None,
    }
}

#[test]
fn a_run_that_goes_on_has_only_counts_of_its_own() {
    let mut runs = NamedRuns::default();
    runs.add_name(&RunName { name: "job".into(), around: Vec::new() });
    runs.note_record(&start("first", (0, 0)));
    let report = |runs: &NamedRuns, known: &[RunSnapshot]| {
        let told = runs.find_name("job").unwrap().to_report(known);
        (told.turns, told.tool_calls, told.outcome)
    };
    assert_eq!(report(&runs, &[snapshot("first", 3, 2)]), (3, 2, None));
    runs.note_record(&end("first", (3, 2)));
    let answered = Some("answered".to_owned());
    assert_eq!(report(&runs, &[]), (3, 2, answered));
    // The state counts the turns of the run before as the new run's, too.
    runs.note_record(&start("second", (3, 2)));
    assert_eq!(report(&runs, &[snapshot("second", 5, 4)]), (5, 4, None));
    runs.note_record(&end("another", (9, 9)));
    runs.forget_name("job");
    assert!(runs.find_name("job").is_none() && runs.names.is_empty());
}

#[test]
fn time_without_requests_counts_up_to_ten_minutes() {
    let mut usage = NamedUsage::default();
    usage.continue_at(1_000_000);
    assert_eq!(usage.active_at(1_005_000), 5000);
    usage.continue_at(1_005_000);
    let later = 1_005_000 + IDLE_MS + 1;
    assert_eq!(usage.active_at(later), 5000);
    usage.continue_at(later);
    assert_eq!(usage.active_at(later + 1000), 6000);
}

#[test]
fn a_run_within_has_what_the_run_around_it_leaves() {
    let policy = softland_session::core::policy::Policy {
        tokens_limit: Some(10_000),
        time_limit: Some(Millis(100_000)),
        ..Default::default()
    };
    let settings = GovernSettings {
        policies: [("default".to_owned(), policy)].into(),
        ..GovernSettings::default()
    };
    let around = RunAround { name: "outer".into(), settings: Some(Arc::new(settings)) };
    let usage = NamedUsage { tokens: 3000, context: 700, ..NamedUsage::default() };
    let budget = around.to_budget(NamedUsage { active: 20_000, ..usage }, 0).unwrap();
    // Of 10,000 tokens an eighth is held back, and of the time half a minute.
    assert_eq!(budget.tokens, Some(AccountAbove { used: 3000 + 700 + 1250, limit: 10_000 }));
    assert_eq!(budget.time_left, Some(Millis(50_000)));
    assert_eq!(RunAround { settings: None, ..around }.to_budget(usage, 0), None);
}
