//! A run that this process is working on, seen as a sequence of steps.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use softland_session::core::RunEnding;
use tokio::task::JoinHandle;

use super::event_reader::RecordedSteps;
use super::handler::DurableRun;
use super::step::{RunEnd, Step};
use super::step_log::StepLog;
use crate::event::{Event, Report};
use crate::journal::{Journal, RecordLog};
use crate::run::{Agent, Conversation, SetupError};

/// Provides what a process needs to begin a run or to take it over.
#[async_trait]
pub trait RunSource: Send + Sync {
    /// Prepares the run.
    ///
    /// # Errors
    /// Returns a text for a person if there is no such agent or it cannot run here.
    async fn prepare_run(&self) -> Result<PreparedRun, String>;
}

/// An agent and its prompt. A run that is taken over has begun with a prompt and keeps that one.
#[derive(Clone)]
pub struct PreparedRun {
    /// The agent, with its tools and its transport.
    pub agent: Agent,
    /// The prompt of a new run.
    pub prompt: String,
    /// Settings of the program, for the start record.
    pub setup: Value,
    /// Held for as long as the run is active in this process, for example running servers.
    pub resources: Arc<dyn std::any::Any + Send + Sync>,
}

/// The reason why a process cannot go on with a run. Another process may be able to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    message: String,
}

impl StepError {
    /// Creates an error with a text for a person.
    pub(super) fn from_text(message: String) -> Self {
        Self { message }
    }

    /// Creates the error of a process that leaves its runs to others.
    pub(super) fn leaving() -> Self {
        Self::from_text("this process is being stopped".to_owned())
    }
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StepError {}

/// A run in progress. It works between two steps as well, as far as it needs nothing stored.
/// Dropped, it ends at once, like the process of a run that is killed.
#[derive(Debug)]
pub(super) struct LiveRun {
    run: String,
    log: Arc<StepLog>,
    running: Running,
    is_first: bool,
}

/// A run's task, and its end once it has ended.
#[derive(Debug)]
enum Running {
    Task(JoinHandle<Result<Report, SetupError>>),
    Ended(RunEnd),
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        if let Running::Task(task) = &self.running {
            task.abort();
        }
    }
}

impl LiveRun {
    /// Begins a run, or takes it over behind its recorded steps.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub(super) fn begin(
        prepared: PreparedRun,
        recorded: RecordedSteps,
        DurableRun { run, cancel, leave, .. }: DurableRun,
    ) -> Result<Self, StepError> {
        let RecordedSteps { records, published, .. } = recorded;
        let log = Arc::new(StepLog::new(published, leave));
        let records_log: Arc<dyn RecordLog> = Arc::<StepLog>::clone(&log);
        let journal = Journal::from_log(&run, records_log, &records);
        let journal = journal.map_err(|error| StepError::from_text(error.to_string()))?;
        drop(records);
        let PreparedRun { agent, prompt, setup, resources } = prepared;
        let journal = journal.root_run(&run).with_setup(setup);
        let events = Arc::clone(&log);
        let running = tokio::spawn(async move {
            let mut conversation = Conversation::new();
            let mut hear = |event: &Event| events.push_event(event);
            let report = Box::pin(agent.run_in_journal(
                &journal,
                &mut conversation,
                &prompt,
                &mut hear,
                &cancel,
            ))
            .await;
            drop(resources);
            report
        });
        Ok(Self { run, log, running: Running::Task(running), is_first: true })
    }

    /// Waits for the next step. A step that was returned counts as lost until `confirm_step`. A run
    /// of which nothing `is_recorded` can still be refused.
    ///
    /// # Errors
    /// Returns an error if this process cannot go on with the run.
    pub(super) async fn next_step(&mut self, is_recorded: bool) -> Result<Step, StepError> {
        if let Running::Task(task) = &mut self.running {
            tokio::select! {
                biased;
                () = self.log.wait_until_due() => {}
                ended = task => self.running = Running::Ended(end_of_task(ended)?),
                () = self.log.wait_until_idle() => return Err(StepError::leaving()),
            }
        }
        let end = match &self.running {
            Running::Task(_) => None,
            Running::Ended(RunEnd::Refused(why)) if is_recorded => {
                return Err(StepError::from_text(why.clone()));
            }
            Running::Ended(RunEnd::Refused(why)) => {
                return Ok(Step::refusal(&self.run, why.clone()));
            }
            Running::Ended(end) => {
                // Events that are held come with the last step.
                self.log.is_drained();
                Some(end.clone())
            }
        };
        let step = self.log.cut_step();
        let end = end.filter(|_| self.log.is_drained());
        Ok(Step { first: std::mem::take(&mut self.is_first), end, ..step })
    }

    /// Notes that the engine has stored the steps so far.
    pub(super) fn confirm_step(&self) {
        self.log.mark_stored();
    }
}

/// Returns how a run has ended.
fn end_of_task(
    ended: Result<Result<Report, SetupError>, tokio::task::JoinError>,
) -> Result<RunEnd, StepError> {
    match ended {
        Ok(Ok(Report { ended: RunEnding { outcome, reason, .. }, .. })) => {
            Ok(RunEnd::Ended { outcome, reason })
        }
        Ok(Err(unfit)) => Ok(RunEnd::Refused(unfit.to_string())),
        Err(failed) => Err(StepError::from_text(format!("the run stopped: {failed}"))),
    }
}
