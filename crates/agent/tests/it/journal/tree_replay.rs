//! Replaying a tree of runs: the same decisions, events and reports, nothing sent and nothing run.

use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::Value;
use softland_agent::core::{Outcome, Reason};
use softland_agent::{Event, EventKind};

use crate::journal::errand::{self, Came, lines, path, ran};
use crate::journal::tree::{self, ENOUGH, Model, told, well_told};

/// A folder with the first lines of another one's journal.
fn cut(from: &Path, whole: usize) -> tempfile::TempDir {
    let text = std::fs::read_to_string(path(from)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let to = tempfile::tempdir().unwrap();
    std::fs::write(path(to.path()), lines[..whole].concat()).unwrap();
    to
}

/// Checks that both emitted the same events, run by run.
#[track_caller]
fn same(came: &Came, whole: &Came, what: &str) {
    let (came, whole) = (told(came), told(whole));
    assert_eq!(came.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "{what}");
    for (run, events) in &came {
        for (event, other) in events.iter().zip(&whole[run]) {
            assert_eq!(event, other, "{what}: run {run}");
        }
        assert_eq!(events.len(), whole[run].len(), "{what}: run {run}");
    }
}

fn nano(came: &Came) -> u64 {
    (came.report.cost_usd.unwrap() * 1e9).round() as u64
}

/// Money that suffices for all runs, for some, or for hardly any: runs that wait for each other,
/// land each other and are refused.
const CAPS: [f64; 8] = [ENOUGH, 0.6, 0.45, 0.35, 0.3, 0.2, 0.1, 0.07];

#[tokio::test]
async fn a_whole_tree_comes_to_the_same_without_the_world() {
    let mut landed = 0;
    for cap in CAPS {
        let first = tempfile::tempdir().unwrap();
        let whole = tree::run(first.path(), &Model::new(), cap).await;
        let what = format!("under ${cap}");
        well_told(&whole, &what);
        assert!(whole.report.cost_usd.unwrap() <= cap, "{what}: {:?}", whole.report);
        let records = lines(first.path());
        let second = cut(first.path(), records.len());
        let model = Model::new();
        let came = tree::run(second.path(), &model, cap).await;
        assert_eq!(model.requests.load(Ordering::SeqCst), 0, "{what}");
        assert!(ran(second.path()).is_empty(), "{what}: a finished tool was run");
        same(&came, &whole, &what);
        assert_eq!(came.messages(), whole.messages(), "{what}");
        assert_eq!(lines(second.path()), records, "{what}: a tree that has ended is not written");
        let short = |event: &&Event| match &event.kind {
            EventKind::Done { report } => report.ended.outcome != Outcome::Answered,
            EventKind::ToolResult { content, .. } => content.contains("too little is left"),
            _ => false,
        };
        landed += u32::from(whole.events.iter().any(|event| short(&event)));
    }
    assert!(landed >= 2, "{landed} trees were short of money");
}

#[tokio::test]
async fn a_tree_cut_anywhere_goes_on_and_never_overspends() {
    for cap in [ENOUGH, 0.45, 0.3] {
        let first = tempfile::tempdir().unwrap();
        let whole = tree::run(first.path(), &Model::new(), cap).await;
        let records = lines(first.path());
        for kept in 1..records.len() {
            let second = cut(first.path(), kept);
            let second = second.path();
            let what = format!("under ${cap}, cut behind record {kept} of {}", records.len());
            let came = tree::run(second, &Model::new(), cap).await;
            assert_ne!(came.report.ended.reason, Reason::Journal, "{what}: {:?}", came.report);
            assert!(came.report.cost_usd.unwrap() <= cap, "{what}: {:?}", came.report);
            well_told(&came, &what);
            let after = lines(second);
            assert_eq!(after[..kept], records[..kept], "{what}: what was recorded stays");
            assert_eq!(after[kept]["kind"], "resume", "{what}");
            // Requests in flight are charged with their worst case.
            let lost: u64 =
                lost(&after).iter().map(|r| r["reserve"]["nano"].as_u64().unwrap()).sum();
            if cap == ENOUGH && !came.messages().concat().contains("interrupted") {
                assert_eq!(nano(&came), nano(&whole) + lost, "{what}");
                assert_eq!(came.messages(), whole.messages(), "{what}");
            }
            // The result of the resumed tree can be replayed, too.
            let again = tree::run(cut(second, after.len()).path(), &Model::new(), cap).await;
            same(&again, &came, &format!("{what}, and again"));
        }
    }
}

/// Requests without a response.
fn lost(records: &[Value]) -> Vec<&Value> {
    let place = |r: &Value| (r["run"].clone(), r["turn"].clone(), r["nth"].clone());
    let came: Vec<_> = records.iter().filter(|r| r["kind"] == "response").map(place).collect();
    records.iter().filter(|r| r["kind"] == "request" && !came.contains(&place(r))).collect()
}

#[tokio::test]
async fn a_journal_from_which_a_record_was_taken_is_refused() {
    let first = tempfile::tempdir().unwrap();
    tree::run(first.path(), &Model::new(), ENOUGH).await;
    let text = std::fs::read_to_string(path(first.path())).unwrap();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    // The end is cut off, so that the tree is resumed.
    let all = &all[..all.len() - 1];
    let mut refused = 0;
    for (at, line) in all.iter().enumerate() {
        let record: Value = serde_json::from_str(line).unwrap();
        let kind = record["kind"].as_str().unwrap();
        if !["turn", "took", "round"].contains(&kind) || at + 12 > all.len() {
            continue;
        }
        let second = tempfile::tempdir().unwrap();
        let mut left = all.to_vec();
        left.remove(at);
        std::fs::write(path(second.path()), left.concat()).unwrap();
        let opened = softland_agent::Journal::open(&path(second.path()));
        let error = opened.err().map(|error| error.to_string());
        // A run that only has its answer left does not block the others.
        let error = error.unwrap_or_else(|| panic!("`{kind}` in line {} was not missed", at + 1));
        assert!(error.contains("without what stands before it"), "{error}");
        refused += 1;
    }
    assert!(refused > 40, "{refused}");
}

#[tokio::test]
async fn a_tree_that_comes_out_otherwise_is_not_gone_on_with() {
    let first = tempfile::tempdir().unwrap();
    tree::run(first.path(), &Model::new(), ENOUGH).await;
    let text = std::fs::read_to_string(path(first.path())).unwrap();
    let count = text.lines().count();
    // In a sub-agent's run, while others have come to their ends.
    let of = |line: &str, kind: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["kind"] == kind && tree::suffix(record["run"].as_str().unwrap()) == "2.1"
    };
    for (kind, from, to) in [("call", "nd1", "nx1"), ("took", "Round 1.", "Round 2.")] {
        let changed: Vec<String> = text
            .lines()
            .take(count - 1)
            .map(|line| if of(line, kind) { line.replace(from, to) } else { line.to_owned() })
            .collect();
        let changed = changed.join("\n") + "\n";
        assert!(!text.starts_with(&changed), "{kind}");
        let second = tempfile::tempdir().unwrap();
        std::fs::write(path(second.path()), changed).unwrap();
        let model = Model::new();
        let came = tree::run(second.path(), &model, ENOUGH).await;
        assert_eq!(model.requests.load(Ordering::SeqCst), 0, "{kind}");
        assert_eq!(came.report.ended.reason, Reason::Journal, "{kind}");
        assert!(ran(second.path()).is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn a_tree_that_was_cancelled_goes_on_with_its_agents() {
    use softland_agent::Conversation;
    use softland_agent::journal::new_run_id;
    let all = tempfile::tempdir().unwrap();
    let whole = tree::run(all.path(), &Model::new(), ENOUGH).await;
    for after in [20, 45, 70, 95, 120, 160, 200, 260] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let cancel = tokio_util::sync::CancellationToken::new();
        let (mut heard, token) = (0, cancel.clone());
        let mut hear = |_: &Event| {
            heard += 1;
            if heard == after {
                token.cancel();
            }
        };
        let (lead, mut conversation) =
            (tree::lead(folder, &Model::new(), ENOUGH), Conversation::new());
        let journal = errand::journal(folder).root_run(&new_run_id());
        let report = lead
            .run_in_journal(&journal, &mut conversation, "Go.", &mut hear, &cancel)
            .await
            .unwrap();
        drop(journal);
        assert_eq!(report.ended.outcome, Outcome::Cancelled, "after {after}");
        let came = tree::run(folder, &Model::new(), ENOUGH).await;
        let what = format!("cancelled after {after} events");
        assert_eq!(came.report.ended.outcome, Outcome::Answered, "{what}: {:?}", came.report);
        well_told(&came, &what);
        let answer = came.report.answer.unwrap();
        assert!(!answer.contains("was cancelled"), "{what}: an agent's work was lost: {answer}");
        if !answer.contains("cancelled") {
            assert_eq!(Some(answer), whole.report.answer, "{what}");
        }
    }
}
