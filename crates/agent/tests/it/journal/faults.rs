//! Ends that do not count as ends, and a journal that cannot be written.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use softland_agent::core::{Outcome, Reason};
use softland_agent::http::{Request, Response, ResponseHead, Transport, TransportError};
use softland_agent::journal::{JournalSummary, new_run_id};
use softland_agent::{Agent, Conversation, Event, EventKind, RunJournal};
use tokio_util::sync::CancellationToken;

use crate::journal::errand::{self, Model, journal, lines, path, ran};

/// A disk that is full from the middle of a record on.
struct Full {
    file: Box<dyn Write + Send>,
    left: u64,
}

impl Write for Full {
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        match self.left {
            0 => Err(std::io::Error::other("no space left")),
            1 => {
                self.left = 0;
                self.file.write(&record[..record.len() / 3])
            }
            _ => {
                self.left -= 1;
                self.file.write(record)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_written_stops_the_run_and_the_next_goes_on() {
    let all = tempfile::tempdir().unwrap();
    errand::whole(all.path()).await;
    let records = lines(all.path()).len() as u64;
    for left in 2..=records {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let full = journal(folder).with_writer(|file| Box::new(Full { file, left }));
        let (model, run) = (Model::new(), full.root_run(&new_run_id()));
        let came = errand::run(&errand::agent(folder, &model), &run).await;
        let what = format!("full in record {left}");
        assert_eq!(came.report.ended.outcome, Outcome::Failed, "{what}");
        assert_eq!(came.report.ended.reason, Reason::Journal, "{what}");
        assert_eq!(came.report.answer, None, "{what}");
        let failure = came.report.failure.clone().unwrap();
        assert!(failure.contains("cannot be written: no space left"), "{failure}");
        assert_eq!(came.report.resume.as_deref(), Some(run.run_id()), "{what}");
        let ends = |event: &&Event| event.kind.is_terminal();
        assert_eq!(came.events.iter().filter(ends).count(), 1, "{what}");
        drop((run, full));
        // No request was sent and no call was run without its record.
        let text = std::fs::read_to_string(path(folder)).unwrap();
        let count = |kind: &str| text.matches(&format!(r#""kind":"{kind}""#)).count();
        let requests = model.requests.load(Ordering::SeqCst);
        assert!(requests <= count("request") as u64, "{what}");
        assert!(ran(folder).values().sum::<usize>() <= count("call"), "{what}");
        let (agent, run) =
            (errand::agent(folder, &Model::new()), journal(folder).root_run(&new_run_id()));
        let again = errand::run(&agent, &run).await;
        assert_eq!(again.report.ended.outcome, Outcome::Answered, "{what}");
    }
}

/// A model that answers a number of requests and is then unreachable.
struct Away {
    model: Arc<Model>,
    left: AtomicU64,
}

#[async_trait]
impl Transport for Away {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return self.model.send(request).await;
        }
        self.left.store(0, Ordering::SeqCst);
        let body = bytes::Bytes::from_static(b"{\"type\":\"error\"}");
        let body = Box::pin(futures_util::stream::iter([Ok(body)]));
        Ok(Response { status: 529, head: ResponseHead::default(), body })
    }
}

fn away(folder: &Path, left: u64) -> Agent {
    let mut agent = errand::agent(folder, &Model::new());
    agent.transport = Arc::new(Away { model: Model::new(), left: AtomicU64::new(left) });
    agent.options.retry.base = std::time::Duration::ZERO;
    agent
}

#[tokio::test]
async fn a_run_whose_provider_failed_goes_on_when_it_is_back() {
    let all = tempfile::tempdir().unwrap();
    let whole = errand::whole(all.path()).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = |agent: Agent| async move {
        let journal = journal(folder).root_run(&new_run_id());
        errand::run(&agent, &journal).await
    };
    let failed = run(away(folder, 3)).await;
    assert_eq!(failed.report.ended.outcome, Outcome::Failed);
    assert!(failed.report.resume.is_some());
    let still = run(away(folder, 0)).await;
    assert_eq!(still.report.ended.outcome, Outcome::Failed);
    let came = run(errand::agent(folder, &Model::new())).await;
    assert_eq!(came.report.answer, whole.report.answer);
    assert_eq!(came.report.usage, whole.report.usage, "what was refused costs nothing");
    assert_eq!(came.messages(), whole.messages());
    assert!(ran(folder).values().all(|times| *times == 1));
    let numbers: Vec<u64> = came.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
}

/// Runs until an event of that kind and cancels the run there.
async fn cancelled(agent: &Agent, journal: &RunJournal, at: u64) -> (Outcome, u64) {
    let cancel = CancellationToken::new();
    let mut left = at;
    let mut hear = |_: &Event| {
        left = left.saturating_sub(1);
        if left == 0 {
            cancel.cancel();
        }
    };
    let mut conversation = Conversation::new();
    let report =
        agent.run_in_journal(journal, &mut conversation, "Go.", &mut hear, &cancel).await.unwrap();
    (report.ended.outcome, report.turns)
}

#[tokio::test]
async fn a_run_that_was_cancelled_anywhere_goes_on() {
    let all = tempfile::tempdir().unwrap();
    let whole = errand::whole(all.path()).await;
    let events = whole.events.len() as u64;
    let mut stopped = 0;
    for at in (1..events).step_by(7) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let agent = errand::agent(folder, &Model::new());
        let (outcome, _) = cancelled(&agent, &journal(folder).root_run(&new_run_id()), at).await;
        stopped += u64::from(outcome == Outcome::Cancelled);
        let came = errand::run(&agent, &journal(folder).root_run(&new_run_id())).await;
        assert_eq!(came.report.ended.outcome, Outcome::Answered, "at event {at}");
        let nano = |report: &softland_agent::Report| report.cost_usd.unwrap();
        assert!(nano(&came.report) >= nano(&whole.report), "at event {at}");
        assert!(ran(folder).values().all(|times| *times == 1), "at event {at}");
        let numbers: Vec<u64> = came.events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "at event {at}");
    }
    assert!(stopped > events / 14, "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn time_goes_on_from_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    errand::whole(folder).await;
    // As if the first four turns had taken nine minutes.
    let text = std::fs::read_to_string(path(folder)).unwrap();
    let mut kept = Vec::new();
    for line in text.lines() {
        if line.contains(r#""kind":"turn","turn":5"#) {
            break;
        }
        kept.push(line.replacen(r#""time_limit":null"#, r#""time_limit":"9m""#, 1));
    }
    let last = kept.last_mut().unwrap();
    let at = last.find(r#""ms":"#).unwrap() + 5;
    let end = at + last[at..].find(',').unwrap();
    last.replace_range(at..end, "539000");
    std::fs::write(path(folder), kept.join("\n") + "\n").unwrap();
    let journal = journal(folder).root_run(&new_run_id());
    let came = errand::run(&errand::agent(folder, &Model::new()), &journal).await;
    assert_eq!(came.report.ended.reason, Reason::Time);
    let facts =
        lines(folder).into_iter().find(|line| line["kind"] == "turn" && line["turn"] == 5).unwrap();
    assert_eq!(facts["facts"]["elapsed"], "8m59s");
}

#[tokio::test]
async fn a_further_question_finds_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = errand::whole(folder).await;
    let was = JournalSummary::from_path(&path(folder)).unwrap();
    let mut conversation = was.rebuild_conversation().unwrap();
    let left: Vec<Vec<u8>> = conversation.messages().map(<[u8]>::to_vec).collect();
    let had: Vec<Vec<u8>> = whole.conversation.messages().map(<[u8]>::to_vec).collect();
    assert_eq!(left, had);
    let second = tempfile::tempdir().unwrap();
    let run = journal(second.path()).root_run(&new_run_id()).with_continued_run(&was.run);
    let agent = errand::agent(folder, &Model::new());
    let (mut events, cancel) = (Vec::new(), CancellationToken::new());
    let mut hear = |event: &Event| events.push(event.clone());
    let report =
        agent.run_in_journal(&run, &mut conversation, "And?", &mut hear, &cancel).await.unwrap();
    assert_eq!(report.ended.outcome, Outcome::Answered);
    assert!(matches!(events[0].kind, EventKind::RunStart { .. }));
    let start = &lines(second.path())[0];
    assert_eq!(start["continues"], was.run);
    assert_eq!(start["messages"].as_array().unwrap().len(), had.len() + 1);
}

#[tokio::test]
async fn what_was_said_meanwhile_is_said_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let agent = errand::agent(folder, &Model::new());
    let mut conversation = Conversation::new();
    let (inbox, cancel) = (conversation.inbox(), CancellationToken::new());
    let mut hear = |event: &Event| {
        if matches!(event.kind, EventKind::ToolExecute { .. }) && event.turn == 2 {
            inbox.send_text("Mind the gap.");
        }
    };
    let run = journal(folder).root_run(&new_run_id());
    agent.run_in_journal(&run, &mut conversation, "Go.", &mut hear, &cancel).await.unwrap();
    drop(run);
    let had: Vec<Vec<u8>> = conversation.messages().map(<[u8]>::to_vec).collect();
    // The answer tells of all results.
    let told = |message: &&Vec<u8>| {
        let message: serde_json::Value = serde_json::from_slice(message).unwrap();
        message["role"] == "user" && message.to_string().contains("Mind the gap.")
    };
    assert_eq!(had.iter().filter(told).count(), 1);
    let again = errand::run(&agent, &journal(folder).root_run(&new_run_id())).await;
    assert_eq!(again.report.failure, None);
    let has: Vec<Vec<u8>> = again.conversation.messages().map(<[u8]>::to_vec).collect();
    assert_eq!(has, had);
}
