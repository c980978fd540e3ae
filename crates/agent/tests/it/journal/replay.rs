//! Replaying: the same decisions, the same numbers, nothing sent and nothing run.

use std::path::Path;
use std::sync::atomic::Ordering;

use softland_agent::journal::{JournalErrorKind, new_run_id};
use softland_agent::{Event, EventKind, Journal, JournalError};

use crate::journal::errand::{self, Came, Model, journal, lines, path, ran};

/// Keeps the first lines of a journal, and some bytes of the next.
fn cut(from: &Path, to: &Path, whole: usize, bytes: usize) {
    let text = std::fs::read_to_string(path(from)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut kept = lines[..whole].concat();
    kept.push_str(lines.get(whole).map_or("", |line| &line[..bytes.min(line.len() - 1)]));
    std::fs::write(path(to), kept).unwrap();
}

async fn again(folder: &Path) -> (Came, u64) {
    let model = Model::new();
    let journal = journal(folder).root_run(&new_run_id());
    let came = errand::run(&errand::agent(folder, &model), &journal).await;
    (came, model.requests.load(Ordering::SeqCst))
}

/// The report's numbers.
fn numbers(came: &Came) -> (u64, u64, softland_agent::UsageTotal, Option<f64>) {
    let report = &came.report;
    (report.turns, report.tool_calls, report.usage, report.cost_usd)
}

#[tokio::test]
async fn a_whole_journal_comes_to_the_same_without_the_world() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (first.path(), second.path());
    let whole = errand::whole(first).await;
    let records = lines(first).len();
    cut(first, second, records, 0);
    let (came, requests) = again(second).await;
    assert_eq!(requests, 0);
    assert!(ran(second).is_empty(), "a finished tool was run");
    assert_eq!(came.told(), whole.told());
    assert_eq!(came.messages(), whole.messages());
    assert_eq!(numbers(&came), numbers(&whole));
    let told: Vec<bool> = came.events.iter().map(|event| event.replayed).collect();
    assert_eq!(told.iter().filter(|replayed| !**replayed).count(), 1, "the end alone is new");
    assert!(matches!(came.events.last().unwrap().kind, EventKind::Done { .. }));
    assert_eq!(lines(second).len(), records, "a run that has ended is not written to");
}

#[tokio::test]
async fn a_journal_cut_anywhere_comes_to_the_same() {
    let first = tempfile::tempdir().unwrap();
    let first = first.path();
    let whole = errand::whole(first).await;
    let records = lines(first);
    for kept in 1..records.len() {
        // Complete lines, and an incomplete one.
        for bytes in [0, 40] {
            let second = tempfile::tempdir().unwrap();
            let second = second.path();
            cut(first, second, kept, bytes);
            let before = lines_kept(&records, kept);
            let (came, _) = again(second).await;
            let what = format!("cut behind record {kept}");
            assert_eq!(came.report.turns, whole.report.turns, "{what}");
            let after = lines(second);
            assert_eq!(after[..kept], records[..kept], "{what}: what was recorded stays");
            assert_eq!(after[kept]["kind"], "resume", "{what}");
            // A request without its response is charged with its worst case and sent again.
            let lost = before.0.map_or(0, |reserve| reserve);
            let nano = |came: &Came| (came.report.cost_usd.unwrap() * 1e9).round() as u64;
            if before.1 {
                // An interrupted call makes the rest of the conversation longer.
                assert!(nano(&came) >= nano(&whole), "{what}");
                continue;
            }
            assert_eq!(nano(&came), nano(&whole) + lost, "{what}");
            assert_eq!(came.messages(), whole.messages(), "{what}");
            if lost == 0 {
                assert_eq!(came.told(), whole.told(), "{what}");
            } else {
                assert_eq!(came.told().len(), whole.told().len() + 1, "{what}");
            }
        }
    }
}

/// Returns the open ends of the last kept record: the reserve of a request, and whether a call may
/// not be run again.
fn lines_kept(records: &[serde_json::Value], kept: usize) -> (Option<u64>, bool) {
    let last = &records[kept - 1];
    let reserve = (last["kind"] == "request").then(|| last["reserve"]["nano"].as_u64().unwrap());
    let place = |record: &serde_json::Value| (record["turn"].clone(), record["call"].clone());
    let results: Vec<_> =
        records[..kept].iter().filter(|r| r["kind"] == "result").map(place).collect();
    let open = records[..kept]
        .iter()
        .filter(|record| record["kind"] == "call" && record["name"] == "note")
        .any(|record| !results.contains(&place(record)));
    (reserve, open)
}

#[tokio::test]
async fn what_comes_out_otherwise_is_said_and_not_gone_on_with() {
    let first = tempfile::tempdir().unwrap();
    let first = first.path();
    errand::whole(first).await;
    let text = std::fs::read_to_string(path(first)).unwrap();
    let count = text.lines().count();
    for (record, from, to) in [
        ("request", r#""digest":""#, r#""digest":"0000"#),
        ("took", r#""nano":"#, r#""nano":1"#),
        ("response", "message_stop", "message_stay"),
        ("call", "note", "nose"),
    ] {
        let second = tempfile::tempdir().unwrap();
        let second = second.path();
        let mut done = false;
        let edited: Vec<String> = text
            .lines()
            .take(count - 1)
            .map(|line| {
                let hit = !done && line.contains(&format!(r#""kind":"{record}""#));
                done |= hit && line.contains(from);
                let digits = |line: &str| match record {
                    // As long as before.
                    "request" => {
                        let at = line.find(from).unwrap() + from.len();
                        format!("{}0000{}", &line[..at], &line[at + 4..])
                    }
                    "response" => line.replace(from, to),
                    _ => line.replacen(from, to, 1),
                };
                if hit && line.contains(from) { digits(line) } else { line.to_owned() }
            })
            .collect();
        assert!(done, "{record}");
        std::fs::write(path(second), edited.join("\n") + "\n").unwrap();
        let (came, requests) = again(second).await;
        assert_eq!(requests, 0, "{record}");
        let failure = came.report.failure.clone().expect(record);
        assert!(failure.contains("differs from the recorded one"), "{failure}");
        assert_eq!(serde_json::to_value(&came.report).unwrap()["reason"], "journal");
        assert_eq!(came.report.resume, None);
        assert!(ran(second).is_empty(), "{record}");
    }
}

fn kind(error: Result<Journal, JournalError>) -> JournalErrorKind {
    error.err().unwrap().kind().clone()
}

#[tokio::test]
async fn a_journal_is_one_process_es_at_a_time_and_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let open = Journal::create(&path(folder)).unwrap();
    assert_eq!(kind(Journal::open(&path(folder))), JournalErrorKind::InUse);
    drop(open);
    assert_eq!(kind(Journal::open(&path(folder))), JournalErrorKind::Empty);
    errand::whole(folder).await;
    assert_eq!(kind(Journal::create(&path(folder))), JournalErrorKind::Exists);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    std::fs::write(path(folder), "{\"v\":1}\nno record\n").unwrap();
    assert!(matches!(
        kind(Journal::open(&path(folder))),
        JournalErrorKind::Damaged { line: 1, .. }
    ));
    std::fs::write(path(folder), "{\"v\":2,\"kind\":\"new\"}\n").unwrap();
    let other = JournalErrorKind::OtherVersion { line: 1, version: 2 };
    assert_eq!(kind(Journal::open(&path(folder))), other);
}

#[cfg(unix)]
#[test]
fn what_keeps_nothing_is_no_journal_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/null"), folder.path()] {
        for error in [Journal::create(path).err().unwrap(), Journal::open(path).err().unwrap()] {
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_child_is_found_again_by_its_parents_call() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let parent = journal(folder).root_run("run-parent");
    let whole = errand::run(&errand::agent(folder, &Model::new()), &parent).await;
    let child = parent.child_run(2, 0);
    let other = parent.child_run(2, 1);
    let of_child = errand::run(&errand::agent(folder, &Model::new()), &child).await;
    assert_ne!(child.run_id(), other.run_id());
    assert_eq!(of_child.messages(), whole.messages());
    let ids = (child.run_id().to_owned(), other.run_id().to_owned());
    drop((parent, child, other));

    // A child that has ended gives its recorded result; a child that never began is begun.
    let parent = journal(folder).root_run("run-other");
    assert_eq!(parent.run_id(), "run-parent");
    let child = parent.child_run(2, 0);
    assert_eq!(child.run_id(), ids.0);
    assert!(child.start_record().is_some() && parent.child_run(2, 1).start_record().is_none());
    let model = Model::new();
    let again = errand::run(&errand::agent(folder, &model), &child).await;
    assert_eq!(model.requests.load(Ordering::SeqCst), 0);
    assert_eq!(again.report.answer, of_child.report.answer);
    assert_ne!(parent.child_run(2, 1).run_id(), ids.1);
    drop((parent, child));

    // An interrupted child is resumed.
    let text = std::fs::read_to_string(path(folder)).unwrap();
    let kept: Vec<&str> = text.lines().collect();
    std::fs::write(path(folder), kept[..kept.len() - 9].join("\n") + "\n").unwrap();
    let child = journal(folder).root_run("run-other").child_run(2, 0);
    let gone_on = errand::run(&errand::agent(folder, &Model::new()), &child).await;
    assert_eq!(gone_on.report.ended.outcome, of_child.report.ended.outcome);
    let told = |came: &Came| -> Vec<u64> { came.events.iter().map(|e: &Event| e.seq).collect() };
    assert_eq!(told(&gone_on)[..], (0..told(&gone_on).len() as u64).collect::<Vec<_>>()[..]);
}
