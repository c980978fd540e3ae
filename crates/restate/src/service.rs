//! The services that a worker offers to Restate.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use softland_agent::Agent;
use softland_agent::durable::{
    DurableRun, EngineError, PreparedRun, RunEnd, RunSource, StepEngine, StepMaker, run_with_engine,
};
use tokio::sync::RwLock;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::EngineClient;
use crate::query::Admin;
use crate::status::{EngineState, RunDeletion, RunOutcome, RunRow};

/// The state of a run that its end is stored in.
const END: &str = "end";
/// The promise that a cancellation resolves with true, and the end of the run with false.
const CANCEL: &str = "cancel";
/// The promise that a run resolves with its outcome, for the list of runs. The engine lists promises
/// without reading the events that are stored beside them.
pub(crate) const OUTCOME: &str = "outcome";
/// The time for a cancelled run to end by itself, before the engine ends it.
pub const CANCEL_GRACE: Duration = Duration::from_secs(30);
/// The delay before a lost connection to the engine is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The order for a new run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The name of the agent.
    pub agent: String,
    /// The prompt.
    pub prompt: String,
}

/// An agent that a worker has loaded.
pub struct LoadedAgent {
    /// The agent, with its tools and its transport.
    pub agent: Agent,
    /// Held for as long as a run uses the agent.
    pub resources: Arc<dyn std::any::Any + Send + Sync>,
}

/// Loads the agents of a worker.
#[async_trait]
pub trait AgentLoader: Send + Sync {
    /// Loads an agent by its name, for one run.
    ///
    /// # Errors
    /// Returns a text for a person if there is no such agent or it cannot run here.
    async fn load_agent(&self, name: &str) -> Result<LoadedAgent, String>;
}

/// The workflow of a tree of runs.
pub(crate) struct RunService {
    pub(crate) loader: Arc<dyn AgentLoader>,
    pub(crate) ingress: EngineClient,
    pub(crate) admin: Admin,
    pub(crate) active: ActiveRuns,
}

/// The runs that this process is working on, and whether it is to leave them to others.
#[derive(Clone, Default)]
pub(crate) struct ActiveRuns {
    leave: CancellationToken,
    /// Read by each run, and written when there is none.
    runs: Arc<RwLock<()>>,
}

impl ActiveRuns {
    /// Leaves all runs. Returns when what was under way has come to its end.
    pub(crate) async fn leave_runs(&self) {
        self.leave.cancel();
        drop(self.runs.write().await);
    }
}

fn piece_key(number: u64) -> String {
    format!("piece-{number}")
}

// The timeouts are above the longest step: an engine that aborts a step throws its result away and
// makes the step again. Of the questions about a run nothing is kept: there are many, and their
// answers hold its events.
#[restate_sdk::workflow(
    name = "SoftlandRun",
    inactivity_timeout = "26h",
    abort_timeout = "26h",
    workflow_completion_retention = "7 days",
    journal_retention = "7 days",
    lazy_state = true,
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 1000,
        on_max_attempts = "pause",
    )
)]
impl RunService {
    /// Runs the tree to its end.
    #[handler]
    async fn run(
        &self,
        ctx: WorkflowContext<'_>,
        request: Json<RunRequest>,
    ) -> HandlerResult<Json<RunEnd>> {
        let _active = self.active.runs.read().await;
        let (run, cancel) = (ctx.key().to_owned(), CancellationToken::new());
        let leave = self.active.leave.clone();
        let source = Arc::new(RunLoader {
            loader: Arc::clone(&self.loader),
            ingress: self.ingress.clone(),
            run: run.clone(),
            request: request.into_inner(),
            cancel: cancel.clone(),
        });
        let steps = Steps { ctx: &ctx };
        let end = match run_with_engine(&steps, DurableRun { run, source, cancel, leave }).await {
            Ok(end) => end,
            Err(EngineError::Engine(terminal)) => return Err(terminal.into()),
            Err(EngineError::Unreadable { number }) => {
                let why = format!("step {number} is not one of this version of softland");
                return Err(HandlerError::from(why));
            }
        };
        let (outcome, reason) = end.outcome();
        ctx.set(END, Json(end.clone()));
        ctx.resolve_promise(OUTCOME, Json(RunOutcome { outcome, reason }));
        // Whoever waits for a cancellation need not wait any longer.
        ctx.resolve_promise(CANCEL, false);
        Ok(Json(end))
    }

    /// Returns a piece of the run's events; empty if it is not there yet.
    #[handler(journal_retention = "0s")]
    async fn piece(&self, ctx: SharedWorkflowContext<'_>, number: u64) -> HandlerResult<Vec<u8>> {
        Ok(ctx.get::<Vec<u8>>(&piece_key(number)).await?.unwrap_or_default())
    }

    /// Returns the state of the run.
    #[handler(journal_retention = "0s")]
    async fn state(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<EngineState>> {
        let end = ctx.get::<Json<serde_json::Value>>(END).await?.map(Json::into_inner);
        // An end that another build has stored in a form of its own is still an end.
        let end = end.and_then(|end| serde_json::from_value::<RunEnd>(end).ok());
        let (admin, run) = (self.admin.clone(), ctx.key().to_owned());
        let state = ctx.run(|| async move { Ok(Json(admin.find_state(&run).await?)) }).await?;
        Ok(Json(match (state.into_inner(), end) {
            (EngineState::Ended { failure, .. }, end) => EngineState::Ended { end, failure },
            (EngineState::Cancelled, _) => EngineState::Cancelled,
            (_, Some(end)) => EngineState::Ended { end: Some(end), failure: None },
            (state, None) => state,
        }))
    }

    /// Cancels the run. If it cannot end by itself, the engine ends it later.
    #[handler(journal_retention = "0s")]
    async fn cancel(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<()> {
        ctx.resolve_promise(CANCEL, true);
        ctx.workflow_client::<RunServiceClient<'_>>(ctx.key()).end_late().send_after(CANCEL_GRACE);
        Ok(())
    }

    /// Has the engine end the run, if it has not ended: nobody works on it who could.
    #[handler(journal_retention = "0s")]
    async fn end_late(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<()> {
        let (admin, run) = (self.admin.clone(), ctx.key().to_owned());
        Ok(ctx.run(|| async move { Ok(admin.kill_run(&run).await?) }).await?)
    }

    /// Lets those go who wait for the cancellation of a run that the engine has ended.
    #[handler(journal_retention = "0s")]
    async fn release(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<()> {
        ctx.resolve_promise(CANCEL, false);
        Ok(())
    }

    /// Waits until the run is cancelled or over.
    #[handler(journal_retention = "0s")]
    async fn wait_for_cancel(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<bool> {
        Ok(ctx.promise::<bool>(CANCEL).await?)
    }
}

/// The list of all runs, from which ended ones are deleted.
pub(crate) struct ListService {
    pub(crate) admin: Admin,
}

#[restate_sdk::service(
    name = "SoftlandRunList",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 100,
        on_max_attempts = "kill",
    )
)]
impl ListService {
    /// Returns the newest runs.
    #[handler]
    async fn list(&self, ctx: Context<'_>) -> HandlerResult<Json<Vec<RunRow>>> {
        let admin = self.admin.clone();
        Ok(ctx.run(|| async move { Ok(Json(admin.list_runs().await?)) }).await?)
    }

    /// Deletes what the engine keeps of a run that has ended.
    #[handler]
    async fn delete(
        &self,
        ctx: Context<'_>,
        run: Json<String>,
    ) -> HandlerResult<Json<RunDeletion>> {
        let (admin, run) = (self.admin.clone(), run.into_inner());
        let (asked, of) = (admin.clone(), run.clone());
        let state = ctx.run(|| async move { Ok(Json(asked.find_state(&of).await?)) }).await?;
        if matches!(state.into_inner(), EngineState::Ended { .. } | EngineState::Cancelled) {
            ctx.workflow_client::<RunServiceClient<'_>>(&run).release().call().await?;
        }
        Ok(ctx.run(|| async move { Ok(Json(admin.delete_run(&run).await?)) }).await?)
    }
}

/// The steps of a run, as Restate journals them.
struct Steps<'ctx> {
    ctx: &'ctx WorkflowContext<'ctx>,
}

impl StepEngine for Steps<'_> {
    type Error = TerminalError;

    async fn journal_step(&self, number: u64, make: StepMaker) -> Result<Bytes, TerminalError> {
        // Never two at once: Restate replays them in one order only.
        self.ctx.run(|| async move { Ok(make().await?) }).name(format!("step {number}")).await
    }

    async fn publish_events(&self, number: u64, piece: Bytes) -> Result<(), TerminalError> {
        self.ctx.set(&piece_key(number), piece);
        Ok(())
    }
}

/// Loads the agent of a run, and listens for its cancellation from then on.
struct RunLoader {
    loader: Arc<dyn AgentLoader>,
    ingress: EngineClient,
    run: String,
    request: RunRequest,
    cancel: CancellationToken,
}

#[async_trait]
impl RunSource for RunLoader {
    async fn prepare_run(&self) -> Result<PreparedRun, String> {
        let LoadedAgent { agent, resources } = self.loader.load_agent(&self.request.agent).await?;
        let (setup, prompt) = (serde_json::Value::Null, self.request.prompt.clone());
        let resources = Arc::new((resources, self.listen_for_cancel()));
        Ok(PreparedRun { agent, prompt, setup, resources })
    }
}

impl RunLoader {
    /// Listens until the run is cancelled or the guard is dropped. A step in flight cannot be told
    /// otherwise.
    fn listen_for_cancel(&self) -> DropGuard {
        let (ingress, run, cancel) = (self.ingress.clone(), self.run.clone(), self.cancel.clone());
        let over = CancellationToken::new();
        let until = over.clone();
        let listen = async move {
            loop {
                match ingress.wait_for_cancel(&run).await {
                    Ok(true) => return cancel.cancel(),
                    Ok(false) => return,
                    Err(failure) => {
                        tracing::debug!(%run, %failure, "cannot listen for a cancellation");
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        };
        tokio::spawn(async move { until.run_until_cancelled(listen).await });
        over.drop_guard()
    }
}
