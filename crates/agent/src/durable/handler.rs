//! The handler that an engine calls for a run, and calls again after a crash.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::event_reader::{RecordedSteps, events_piece};
use super::live_run::{LiveRun, RunSource, StepError};
use super::step::{RunEnd, Step};

/// Makes one step, if the engine has not recorded it.
pub type StepMaker = Box<dyn FnOnce() -> BoxFuture<'static, Result<Bytes, StepError>> + Send>;

/// A durable execution engine, as one handler sees it.
pub trait StepEngine: Sync {
    /// The reason why the engine ends this attempt at the handler.
    type Error;

    /// Returns the recorded bytes of a step, or calls `make`, records what it returns, and returns
    /// it when it is stored. Steps come one after another, with numbers from 0.
    fn journal_step(
        &self,
        number: u64,
        make: StepMaker,
    ) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// Publishes a piece of the run's events for everybody who follows it
    /// ([`EventReader`](super::EventReader)). Pieces have numbers from 0.
    fn publish_events(
        &self,
        number: u64,
        piece: Bytes,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A run that an engine keeps.
#[derive(Clone)]
pub struct DurableRun {
    /// The id of the run.
    pub run: String,
    /// Where a process gets the agent from.
    pub source: Arc<dyn RunSource>,
    /// Cancels the run. It reaches steps that are being made, and the whole tree.
    pub cancel: CancellationToken,
    /// Has this process leave the run to another one: requests and calls that are under way come
    /// to their end, none begins, and then the attempt ends with an error.
    pub leave: CancellationToken,
}

/// The end of an attempt at a handler.
#[derive(Debug, PartialEq, Eq)]
pub enum EngineError<E> {
    /// The engine ends the attempt.
    Engine(E),
    /// A recorded step is not one of this softland.
    Unreadable {
        /// The number of the step, from 0.
        number: u64,
    },
}

impl<E> From<E> for EngineError<E> {
    fn from(error: E) -> Self {
        Self::Engine(error)
    }
}

/// The run in this process: recorded steps until the first new one, then a run in progress.
#[derive(Debug, Default)]
struct Progress {
    recorded: RecordedSteps,
    is_recorded: bool,
    live: Option<LiveRun>,
}

/// Runs a tree of agents to its end, step by step. What it asks of the engine follows from the
/// recorded steps alone.
///
/// # Errors
/// Returns an error if this attempt ends before the run does. The run goes on with the next one.
pub async fn run_with_engine<E: StepEngine>(
    engine: &E,
    run: DurableRun,
) -> Result<RunEnd, EngineError<E::Error>> {
    let progress: Arc<Mutex<Progress>> = Arc::default();
    let (mut number, mut pieces) = (0, 0);
    loop {
        let unreadable = || EngineError::Unreadable { number };
        let bytes = engine.journal_step(number, step_maker(&run, &progress)).await?;
        let step = Step::from_bytes(bytes).ok_or_else(unreadable)?;
        {
            let mut progress = progress.lock().await;
            progress.is_recorded = true;
            match &progress.live {
                Some(live) => live.confirm_step(),
                None => progress.recorded.push_step(&step).map_err(|_| unreadable())?,
            }
        }
        // A piece without events still says that an incomplete event before it is void.
        if !step.events.is_empty() || (step.first && pieces > 0) {
            engine.publish_events(pieces, events_piece(&step)).await?;
            pieces += 1;
        }
        if let Some(end) = step.end {
            return Ok(end);
        }
        number += 1;
    }
}

fn step_maker(run: &DurableRun, progress: &Arc<Mutex<Progress>>) -> StepMaker {
    let (run, progress) = (run.clone(), Arc::clone(progress));
    Box::new(move || {
        Box::pin(async move {
            let mut progress = progress.lock().await;
            Ok(progress.make_step(&run).await?.to_bytes())
        })
    })
}

impl Progress {
    async fn make_step(&mut self, run: &DurableRun) -> Result<Step, StepError> {
        let live = match &mut self.live {
            Some(live) => live,
            _ if run.leave.is_cancelled() => return Err(StepError::leaving()),
            none => {
                let prepared = match run.source.prepare_run().await {
                    Ok(prepared) => prepared,
                    // A run that has begun waits for a process that can go on with it.
                    Err(why) if self.is_recorded => return Err(StepError::from_text(why)),
                    Err(why) => return Ok(Step::refusal(&run.run, why)),
                };
                let recorded = std::mem::take(&mut self.recorded);
                none.insert(LiveRun::begin(prepared, recorded, run.clone())?)
            }
        };
        live.next_step(self.is_recorded).await
    }
}
