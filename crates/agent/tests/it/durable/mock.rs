//! A mock of a durable execution engine. Like the real one it records steps, calls the handler
//! again after a crash, and hands it the recorded steps.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use softland_agent::durable::{
    DurableRun, EngineError, EventReader, PreparedRun, RunEnd, RunSource, StepEngine, StepError,
    StepMaker, run_with_engine,
};
use softland_agent::{Agent, Event, EventKind};
use tokio_util::sync::CancellationToken;

/// The moment of a crash, relative to the recording of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the step is made.
    Before,
    /// While the step is made, after it was polled so often.
    During(u32),
    /// After the step was made, before it is recorded.
    After,
    /// After the step was recorded, before the handler goes on.
    Recorded,
}

/// The mock: recorded steps, published events, and the crashes that are still to come.
#[derive(Default)]
pub(crate) struct MockEngine {
    state: Mutex<MockState>,
}

#[derive(Default)]
struct MockState {
    steps: Vec<Bytes>,
    pieces: BTreeMap<u64, Bytes>,
    /// The steps at which the process crashes, in the order of the attempts.
    crashes: VecDeque<(u64, When)>,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The process has crashed.
    Crashed,
    /// The process cannot make the step.
    Failed(StepError),
}

impl MockEngine {
    pub(crate) fn with_crashes(crashes: impl IntoIterator<Item = (u64, When)>) -> Self {
        let crashes = crashes.into_iter().collect();
        Self { state: Mutex::new(MockState { crashes, ..MockState::default() }) }
    }

    /// Returns the sizes of the recorded steps.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.state.lock().unwrap().steps.iter().map(Bytes::len).collect()
    }

    /// Returns all steps as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        let steps = self.state.lock().unwrap().steps.clone();
        steps.iter().map(|step| String::from_utf8_lossy(step).into_owned()).collect()
    }

    /// Returns the number of the first step that holds this text.
    pub(crate) fn step_with(&self, text: &str) -> u64 {
        self.texts().iter().position(|step| step.contains(text)).unwrap() as u64
    }

    /// Returns all events, as somebody who follows the run from the beginning reads them.
    pub(crate) fn events(&self) -> Vec<Event> {
        let state = self.state.lock().unwrap();
        let mut reader = EventReader::default();
        let numbers: Vec<u64> = state.pieces.keys().copied().collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "no piece is missing");
        let pieces = state.pieces.values();
        pieces.flat_map(|piece| reader.push_piece(piece).unwrap()).collect()
    }

    /// Calls the handler until it ends. Returns the end, which is that of the run's terminal event, and
    /// how often it was called.
    pub(crate) async fn run(&self, run: &DurableRun) -> (RunEnd, u64) {
        for attempt in 1.. {
            match run_with_engine(self, run.clone()).await {
                Ok(end) => {
                    self.check_end(&run.run, &end);
                    return (end, attempt);
                }
                Err(EngineError::Engine(Attempt::Crashed)) => {}
                Err(other) => panic!("attempt {attempt}: {other:?}"),
            }
        }
        unreachable!("attempts have no end")
    }

    fn check_end(&self, run: &str, end: &RunEnd) {
        let events = self.events();
        let last = events.iter().rev().find(|event| event.run == run).unwrap();
        let (EventKind::Done { report } | EventKind::Error { report, .. }) = &last.kind else {
            panic!("no end: {last:?}")
        };
        assert_eq!(end.outcome(), (report.ended.outcome, report.ended.reason.clone()));
    }

    fn recorded_step(&self, number: u64) -> Option<Bytes> {
        self.state.lock().unwrap().steps.get(usize::try_from(number).unwrap()).cloned()
    }

    fn record_step(&self, step: &Bytes) {
        self.state.lock().unwrap().steps.push(step.clone());
    }

    /// Returns the moment of the crash at this step, if this process crashes there.
    fn next_crash(&self, number: u64) -> Option<When> {
        let mut state = self.state.lock().unwrap();
        let (at, when) = *state.crashes.front()?;
        (number >= at).then(|| state.crashes.pop_front().map(|_| when))?
    }
}

/// Polls a future at most so often, then drops it.
async fn poll_often<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>, most: u32) {
    let mut left = most;
    poll_fn(|cx| {
        if left == 0 || future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl StepEngine for MockEngine {
    type Error = Attempt;

    async fn journal_step(&self, number: u64, make: StepMaker) -> Result<Bytes, Attempt> {
        if let Some(step) = self.recorded_step(number) {
            return Ok(step);
        }
        match self.next_crash(number) {
            None => {}
            Some(When::Before) => return Err(Attempt::Crashed),
            Some(When::During(polls)) => {
                poll_often(make(), polls).await;
                return Err(Attempt::Crashed);
            }
            Some(When::After) => {
                make().await.map_err(Attempt::Failed)?;
                return Err(Attempt::Crashed);
            }
            Some(When::Recorded) => {
                self.record_step(&make().await.map_err(Attempt::Failed)?);
                return Err(Attempt::Crashed);
            }
        }
        let step = make().await.map_err(Attempt::Failed)?;
        self.record_step(&step);
        Ok(step)
    }

    async fn publish_events(&self, number: u64, piece: Bytes) -> Result<(), Attempt> {
        let known = self.state.lock().unwrap().pieces.insert(number, piece.clone());
        assert!(known.is_none_or(|known| known == piece), "piece {number} changed");
        Ok(())
    }
}

/// A source of one agent and its prompt.
pub(crate) struct Source {
    pub(crate) agent: Agent,
    pub(crate) prompt: String,
}

#[async_trait]
impl RunSource for Source {
    async fn prepare_run(&self) -> Result<PreparedRun, String> {
        let (agent, prompt) = (self.agent.clone(), self.prompt.clone());
        let (setup, resources) = (serde_json::Value::Null, Arc::new(()));
        Ok(PreparedRun { agent, prompt, setup, resources })
    }
}

/// Returns a durable run of an agent.
pub(crate) fn durable(agent: Agent, prompt: &str) -> DurableRun {
    let source = Arc::new(Source { agent, prompt: prompt.to_owned() });
    let (cancel, leave) = (CancellationToken::new(), CancellationToken::new());
    DurableRun { run: "run-1".to_owned(), source, cancel, leave }
}
