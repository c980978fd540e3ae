//! The ends of runs that nobody continues: by silence, by a stop, by a process that dies.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::client::{Client, all};
use crate::support::script::{INPUT, Reply, Scripted, calls, says};
use crate::support::sim::governed;
use crate::support::{LONG, Running};
use softland_gateway::{ClientKey, Clock, KeyEntry, Settings, digest_token};
use softland_ledger::{DeleteTarget, Ledger, Options, Query, Reader, Run, delete_runs};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::core::{Outcome, Quantity, Reason};
use tempfile::TempDir;

const MINUTE: u64 = 60_000;

/// A clock that the test sets.
#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_790_000_000_000)))
    }

    fn passes(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Arc::new(move || time.load(Ordering::SeqCst))
    }
}

/// A gateway that looks for idle runs all the time, or never, with a ledger in that folder.
async fn gateway(upstream: &Scripted, time: &Time, folder: &TempDir, looks: bool) -> Running {
    let mut settings = settings_of(upstream, folder);
    settings.limits.sweep = Duration::from_millis(if looks { 50 } else { 1_000_000 });
    Running::with_clock(settings, time.clock()).await
}

/// Settings with a ledger in that folder.
fn settings_of(upstream: &Scripted, folder: &TempDir) -> Settings {
    let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(9))]);
    settings.ledger = Some(folder.path().join("ledger.db").into());
    settings
}

/// The runs of the ledger, the oldest first.
fn runs(folder: &Path) -> Vec<Run> {
    let reader = Reader::open(folder.join("ledger.db")).expect("a ledger");
    let mut runs = reader.list_runs(&Query::default()).expect("runs");
    runs.reverse();
    runs
}

fn is_cancelled(run: &Run) -> bool {
    let end = run.end.as_ref();
    end.is_some_and(|end| end.outcome == Outcome::Cancelled && end.reason == Reason::User)
}

#[tokio::test]
async fn ten_minutes_without_a_request_end_a_run_and_whoever_comes_back_names_it() {
    for looks in [true, false] {
        let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
        let upstream =
            Scripted::plays(vec![calls(1), calls(2), calls(3), says("all"), says("more")]).await;
        let mut gateway = gateway(&upstream, &time, &folder, looks).await;
        let mut client = Client::new(true).with("x-softland-session: s");
        let (first, _) = client.turn(&gateway).await;
        time.passes(9 * MINUTE);
        let (second, _) = client.turn(&gateway).await;
        assert_eq!(second.header("x-softland-run"), first.header("x-softland-run"));
        time.passes(10 * MINUTE + 1);
        if looks {
            gateway.until_cancelled(1).await;
        }
        let (third, _) = client.turn(&gateway).await;
        assert_ne!(third.header("x-softland-run"), first.header("x-softland-run"));
        assert_eq!(third.header("x-softland-tool-calls"), Some("2/9"), "its counts go on");
        let (_, _, last) = client.run(&gateway).await;
        assert!(last.calls().is_empty());
        gateway.stopped().await;
        let runs = runs(folder.path());
        let [old, new] = runs.as_slice() else { panic!("looks {looks}: {runs:?}") };
        assert!(is_cancelled(old), "looks {looks}: {old:?}");
        assert_eq!((old.requests, old.tool_calls), (2, Some(2)));
        let left = old.end.as_ref().and_then(|end| end.remaining.get("tool_calls_limit").copied());
        assert_eq!(left, Some(Quantity::Count(7)), "what the limits left is kept: {old:?}");
        assert!(old.cost.is_some_and(|cost| cost.0 > 0), "what it spent is kept: {old:?}");
        assert_eq!(new.continues.as_deref(), Some(&*old.run));
        let end = new.end.as_ref().expect("it ended");
        assert_eq!(end.outcome, Outcome::Answered);
    }
}

/// Waits until the ledger has a run with this number of requests, and deletes it.
async fn delete_run_of(folder: &Path, requests: u64) {
    let since = Instant::now();
    loop {
        if let Some(run) = runs(folder).iter().find(|run| run.requests == requests) {
            let target = DeleteTarget::Run(&run.run);
            assert_eq!(delete_runs(folder.join("ledger.db"), target).expect("it is deleted"), 1);
            return;
        }
        assert!(since.elapsed() < LONG, "the ledger has its requests");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_that_is_deleted_while_it_is_open_is_there_again_with_whose_it_is() {
    let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
    let upstream = Scripted::plays(vec![calls(1), calls(2), says("all"), calls(3)]).await;
    let mut settings = settings_of(&upstream, &folder);
    let key =
        ClientKey { name: "ana".into(), account: Some("acme/ana".into()), ..ClientKey::default() };
    settings.keys = [KeyEntry { digest: digest_token(b"ana-token"), key }].into();
    let mut gateway = Running::with_clock(settings, time.clock()).await;
    let client = |session: &str| {
        let session = format!("x-softland-session: {session}");
        Client::new(true).with("x-softland-key: ana-token").with(&session)
    };
    let mut going_on = client("one");
    going_on.turn(&gateway).await;
    delete_run_of(folder.path(), 1).await;
    going_on.turn(&gateway).await;
    let there = |runs: &[Run]| {
        runs.iter().map(|run| (run.session.clone(), run.key.clone(), run.account.clone())).collect()
    };
    let whose = |session: &str| {
        (Some(session.to_owned()), Some("ana".to_owned()), Some("acme/ana".to_owned()))
    };
    going_on.turn(&gateway).await;
    client("two").asking("another").turn(&gateway).await;
    // Its end is all that is written of it, when the gateway stops.
    delete_run_of(folder.path(), 1).await;
    gateway.stopped().await;
    let runs = runs(folder.path());
    let found: Vec<_> = there(&runs);
    assert_eq!(found, [whose("one"), whose("two")], "{runs:?}");
    assert!(runs.iter().all(|run| run.model.as_deref() == Some("claude-sonnet-4-5")), "{runs:?}");
    assert!(is_cancelled(&runs[1]) && runs[1].requests == 0, "{runs:?}");
}

#[tokio::test]
async fn a_request_that_takes_longer_than_that_is_no_silence() {
    let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
    let replies = vec![calls(1), Reply::Hangs("a long thought"), calls(2)];
    let upstream = Scripted::plays(replies).await;
    let mut gateway = gateway(&upstream, &time, &folder, true).await;
    let mut silent = Client::new(true).with("x-softland-session: silent");
    silent.turn(&gateway).await;
    let client = Client::new(true);
    let mut wire = gateway.client().await;
    wire.send(client.request(&gateway)).await;
    wire.until("message_start").await;
    time.passes(60 * MINUTE);
    gateway.until_cancelled(1).await;
    Client::new(true).with("x-softland-session: other").turn(&gateway).await;
    assert_eq!(gateway.handle.summary().cancelled, 1, "it is still under way");
    drop(wire);
    upstream.until_left(1).await;
    gateway.until_cancelled(2).await;
    gateway.stopped().await;
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(is_cancelled), "{runs:?}");
}

#[tokio::test]
async fn a_stop_ends_what_is_open_and_books_what_is_cut_off() {
    let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
    let upstream = Scripted::plays(vec![calls(1), Reply::Hangs("half an answer")]).await;
    let mut gateway = gateway(&upstream, &time, &folder, false).await;
    let mut between = Client::new(true).with("x-softland-session: between");
    between.turn(&gateway).await;
    let under_way = Client::new(true).with("x-softland-session: under-way");
    let mut wire = gateway.client().await;
    wire.send(under_way.request(&gateway)).await;
    wire.until("message_start").await;
    upstream.stands.notified().await;
    gateway.tell_to_stop();
    gateway.until_closed().await;
    gateway.handle.cut_off();
    let summary = gateway.stopped().await;
    assert_eq!(summary.cancelled, 2, "{summary:?}");
    assert!(!String::from_utf8_lossy(&wire.rest().await).contains("message_stop"));
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in &runs {
        assert!(is_cancelled(run), "{run:?}");
        assert_eq!((run.requests, run.unpriced), (1, 0));
        assert!(run.usage.input > 0 && run.cost.is_some_and(|cost| cost.0 > 0), "{run:?}");
    }
}

/// A copy of the ledger's files is what a process leaves that is killed.
#[tokio::test]
async fn what_was_under_way_at_a_kill_is_booked_as_the_most_that_it_can_have_cost() {
    let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
    let upstream = Scripted::plays(vec![calls(1), Reply::Hangs("half an answer")]).await;
    let mut gateway = gateway(&upstream, &time, &folder, false).await;
    let mut client = Client::new(true);
    client.turn(&gateway).await;
    let mut wire = gateway.client().await;
    wire.send(client.request(&gateway)).await;
    wire.until("message_start").await;
    upstream.stands.notified().await;
    let killed = tempfile::tempdir().expect("a folder");
    let is_open = |path: &Path| {
        let db = rusqlite::Connection::open(path).expect("a ledger");
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        db.query_row("SELECT count(*) FROM open_requests", [], count).expect("a count")
    };
    let copied = tokio::time::timeout(LONG, async {
        loop {
            for file in ["ledger.db", "ledger.db-wal"] {
                std::fs::copy(folder.path().join(file), killed.path().join(file)).expect("a copy");
            }
            if is_open(&killed.path().join("ledger.db")) == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    copied.await.expect("a request is under way");
    drop(wire);
    upstream.until_left(1).await;
    gateway.stopped().await;
    assert_eq!(is_open(&folder.path().join("ledger.db")), 0, "it has ended");

    let before = runs(folder.path());
    let options =
        Options { end_left_open: true, ..Options::with_path(killed.path().join("ledger.db")) };
    for _ in 0..2 {
        let ledger = Ledger::open(options.clone(), time.clock()).expect("a ledger");
        ledger.close(LONG).expect("all is written");
    }
    let after = runs(killed.path());
    let ([left], [killed_run]) = (&*before, &*after) else { panic!("{before:?} {after:?}") };
    assert!(is_cancelled(killed_run), "{killed_run:?}");
    assert_eq!((killed_run.requests, killed_run.unpriced), (2, 0), "booked once");
    assert!(killed_run.cost > left.cost, "{:?} {:?}", killed_run.cost, left.cost);
    let reader = Reader::open(killed.path().join("ledger.db")).expect("a ledger");
    let steps = reader.read_steps(&killed_run.run).expect("steps");
    let usage: Vec<_> = steps.iter().filter(|step| step.event == "usage").collect();
    assert!(usage[1].fields.contains("estimated: under way when the gateway was killed"));
}

#[tokio::test]
async fn a_run_of_which_nothing_is_known_is_counted_once() {
    let upstream = Scripted::plays(vec![calls(1), calls(2), calls(3), says("all")]).await;
    let settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(9))]);
    let mut client = Client::new(true);
    let old = Running::with(settings.clone()).await;
    for turn in 1..=2 {
        let (message, response) = client.turn(&old).await;
        // Whose call does not come brings no result, and is missing in the count below.
        assert_eq!(response.calls().len(), 1, "turn {turn}: {}", message.text());
    }
    assert!(!old.metrics().await.contains("repinned"), "it knows its own");
    let new = Running::with(settings).await;
    let (third, _) = client.turn(&new).await;
    let (calls, sent) = (third.header("x-softland-tool-calls"), upstream.asked(2));
    assert_eq!(calls, Some("2/9"), "the transcript is the state: {sent}");
    let (fourth, _) = client.turn(&new).await;
    assert_eq!(fourth.header("x-softland-tool-calls"), Some("3/9"));
    new.until_metrics("softland_events_total{event=\"repinned\"} 1").await;
}

/// Requests of one client, and what its upstream says to them.
struct Work {
    upstream: Scripted,
    gateway: Running,
    folder: TempDir,
}

impl Work {
    async fn new(replies: Vec<Reply>) -> Self {
        let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
        let upstream = Scripted::plays(replies).await;
        let gateway = gateway(&upstream, &time, &folder, false).await;
        Self { upstream, gateway, folder }
    }

    /// The runs, once the gateway is stopped.
    async fn runs(mut self) -> Vec<Run> {
        self.gateway.stopped().await;
        runs(self.folder.path())
    }
}

fn outcome(run: &Run) -> Option<(Outcome, Reason)> {
    run.end.as_ref().map(|end| (end.outcome, end.reason.clone()))
}

const ANSWERED: Option<(Outcome, Reason)> = Some((Outcome::Answered, Reason::Final));

/// The first request of a conversation without a name is known by what it asks.
#[tokio::test]
async fn c35_retries_of_a_first_request_are_its_run() {
    let busy = || Reply::Error("503 Service Unavailable", Vec::new(), "{}");
    for ((api, stream), named) in all().flat_map(|on| [(on, true), (on, false)]) {
        let work = Work::new(vec![busy(), busy(), calls(1), busy(), says("all")]).await;
        let mut client = Client::on(api, stream);
        if named {
            client = client.with("x-softland-session: s");
        }
        for _ in 0..2 {
            assert_eq!(client.post(&work.gateway).await.status(), 503);
        }
        client.turn(&work.gateway).await;
        assert_eq!(client.post(&work.gateway).await.status(), 503);
        client.turn(&work.gateway).await;
        assert_eq!(work.upstream.provider.count(), 5);
        let runs = work.runs().await;
        let [run] = runs.as_slice() else { panic!("{api:?} {stream} {named}: {runs:?}") };
        assert_eq!((outcome(run), run.requests, run.tool_calls), (ANSWERED, 5, Some(1)));
    }
    // Who gives up has failed; others who ask the same are others.
    let work = Work::new(vec![busy()]).await;
    Client::new(true).post(&work.gateway).await;
    let runs = work.runs().await;
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(outcome(run), Some((Outcome::Failed, Reason::Provider)));
    let work = Work::new(vec![says("one")]).await;
    for _ in 0..3 {
        Client::new(true).post(&work.gateway).await;
    }
    assert_eq!(work.runs().await.len(), 3, "samples of one prompt");
}

/// A hook, or an agent in the background, lets a client go on behind an answer. That was told, so
/// what follows is a run that names it, and no turn, call or token is in both.
#[tokio::test]
async fn c36_what_goes_on_behind_an_answer_is_counted_once() {
    for (api, stream) in all() {
        let replies = vec![calls(1), says("It is done."), calls(2), says("It really is.")];
        let work = Work::new(replies).await;
        let mut client = Client::on(api, stream).told_usage().with("x-softland-session: s");
        client.run(&work.gateway).await;
        client.says("<system-reminder>Not yet: look at the marker once more.</system-reminder>");
        client.run(&work.gateway).await;
        let runs = work.runs().await;
        let [first, second] = runs.as_slice() else { panic!("{api:?} {stream}: {runs:?}") };
        assert_eq!(second.continues.as_deref(), Some(&*first.run));
        for run in [first, second] {
            assert_eq!((outcome(run), run.turns, run.tool_calls), (ANSWERED, 2, Some(1)));
            assert_eq!((run.requests, run.usage.input), (2, 2 * INPUT), "{api:?} {stream}");
        }
    }
}

/// A person who asks for a summary beside the results of open calls has an answer with it, and the
/// run has ended.
#[tokio::test]
async fn a_summary_that_a_person_asks_for_ends_the_run() {
    for (api, stream) in all() {
        let (time, folder) = (Time::new(), tempfile::tempdir().expect("a folder"));
        let upstream = Scripted::plays(vec![calls(1), says("Two notes were read.")]).await;
        let mut gateway = gateway(&upstream, &time, &folder, false).await;
        let mut client = Client::on(api, stream);
        client.turn(&gateway).await;
        client.says("Please summarize what you have so far.");
        client.turn(&gateway).await;
        gateway.stopped().await;
        let [run] = &runs(folder.path())[..] else { panic!("one run") };
        let end = run.end.as_ref().map(|end| end.outcome);
        assert_eq!(end, Some(Outcome::Answered), "{api:?} {stream}");
    }
}
