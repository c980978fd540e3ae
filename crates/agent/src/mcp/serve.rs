//! Agents as tools of MCP clients: every call is a run of its own and gets an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
    ServerConfig, Tool as ListedTool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lines::LineTransport;
use super::open_requests::OpenRequests;
use super::this_program;
use crate::event::{Event, EventKind, Report};
use crate::tool::{ToolOutput, cut_line};

/// The header that names a client's session.
pub(super) const SESSION: &str = "mcp-session-id";

/// The time for ended runs to end the work that they have started.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time for a client to read the rest of its output.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The most progress messages that wait for a slow client. Further ones are left out.
const WAITING: usize = 64;

/// An agent that is served. Each call of [`Self::run`] is a run of its own.
#[async_trait]
pub trait Specialist: Send + Sync {
    /// Returns the tool's name: 1 to 64 of `a-z A-Z 0-9 _ -`.
    fn name(&self) -> &str;

    /// Returns the agent's purpose, for the model that calls it.
    fn description(&self) -> &str;

    /// Runs one prompt to its end; `cancel` ends it early.
    ///
    /// # Errors
    /// Returns the reason why it was not run.
    async fn run(
        &self,
        prompt: &str,
        events: &mut (dyn for<'e> FnMut(&'e Event) + Send),
        cancel: &CancellationToken,
    ) -> Result<Report, String>;
}

/// The served agents, and the tokens that end their runs.
#[derive(Clone)]
pub(super) struct ServedAgents {
    specialists: Arc<[Arc<dyn Specialist>]>,
    stop: CancellationToken,
    /// Over HTTP: the tokens that end the runs of a session.
    sessions: Arc<Mutex<HashMap<String, CancellationToken>>>,
    /// Over HTTP: the open calls.
    pub(super) open: OpenRequests,
    /// A sender that each run holds. The channel closes when no run is left.
    alive: mpsc::Sender<()>,
}

/// Signals the end of the last run.
pub(super) struct AllRunsEnded(mpsc::Receiver<()>);

impl AllRunsEnded {
    /// Waits for the end of all runs, which must have been stopped.
    pub(super) async fn wait_for_runs(mut self) {
        let _ = tokio::time::timeout(PATIENCE, self.0.recv()).await;
    }
}

/// Serves the agents over a pair of pipes until the input ends or `stop` is cancelled. Then every
/// run is stopped, and ends the work that it has started.
///
/// # Errors
/// Returns the reason why a client could not be served.
pub async fn serve_stdio(
    specialists: Vec<Arc<dyn Specialist>>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), String> {
    let (served, last) = ServedAgents::new(specialists, stop.clone());
    let lines = LineTransport::new(input, output, stop.clone(), true);
    let begun = tokio::select! {
        begun = served.serve(lines) => begun,
        () = stop.cancelled() => return Ok(()),
    };
    match begun {
        Ok(mut service) => {
            stop.cancelled().await;
            let _ = service.close_with_timeout(LAST_WORDS).await;
            drop(service);
        }
        // A client that goes before its first message does not count.
        Err(_) if stop.is_cancelled() => {}
        Err(error) => return Err(format!("the client cannot be served: {error}")),
    }
    last.wait_for_runs().await;
    Ok(())
}

impl ServedAgents {
    pub(super) fn new(
        specialists: Vec<Arc<dyn Specialist>>,
        stop: CancellationToken,
    ) -> (Self, AllRunsEnded) {
        let (alive, last) = mpsc::channel(1);
        let (specialists, sessions) = (specialists.into(), Arc::default());
        (
            Self { specialists, stop, sessions, open: OpenRequests::default(), alive },
            AllRunsEnded(last),
        )
    }

    /// Ends the runs of a session at once.
    pub(super) fn end_session(&self, session: &str) {
        if let Ok(mut sessions) = self.sessions.lock()
            && let Some(token) = sessions.remove(session)
        {
            token.cancel();
        }
    }

    /// Returns the token that ends the run of a request, besides the request's own cancellation.
    fn cancel_token(&self, context: &RequestContext<RoleServer>) -> CancellationToken {
        match (session_id(context), self.sessions.lock()) {
            (Some(session), Ok(mut sessions)) => {
                let token = sessions.entry(session.to_owned());
                token.or_insert_with(|| self.stop.child_token()).child_token()
            }
            _ => self.stop.child_token(),
        }
    }

    fn tool_info(specialist: &dyn Specialist) -> ListedTool {
        let schema = json!({
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "description": "the task, with all that the agent has to know",
                },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        });
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => serde_json::Map::new(),
        };
        let (name, description) =
            (specialist.name().to_owned(), specialist.description().to_owned());
        ListedTool::new(name, description, Arc::new(schema))
    }

    async fn call_specialist(
        &self,
        specialist: &dyn Specialist,
        prompt: &str,
        context: &RequestContext<RoleServer>,
    ) -> ToolOutput {
        let cancel = self.cancel_token(context);
        let _alive = self.alive.clone();
        let session = session_id(context).map(str::to_owned);
        let _open =
            session.and_then(|session| self.open.join_request((session, context.id.clone())));
        let (told, mut progress) = mpsc::channel(WAITING);
        let mut steps = ProgressSteps::default();
        let mut events = |event: &Event| {
            if let Some(step) = steps.next_step(event) {
                // A client that does not read misses some steps.
                let _ = told.try_send(step);
            }
        };
        let name = specialist.name();
        let running = specialist.run(prompt, &mut events, &cancel);
        tokio::pin!(running);
        let mut given_up = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut running => {
                    // A run may advance far between two polls. Its last steps are sent before its
                    // end.
                    while let Ok(step) = progress.try_recv() {
                        notify_progress(context, step).await;
                    }
                    return match ended {
                        Ok(report) => crate::run::report_to_output(None, name, report),
                        Err(why) => ToolOutput::error(format!("`{name}` was not run: {why}")),
                    };
                }
                () = context.ct.cancelled(), if !given_up => {
                    // The run then ends by itself, with everything that it has started.
                    given_up = true;
                    cancel.cancel();
                }
                Some(step) = progress.recv() => notify_progress(context, step).await,
            }
        }
    }
}

/// Returns the session of a request over HTTP.
fn session_id(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.extensions.get::<Parts>()?.headers.get(SESSION)?.to_str().ok()
}

/// Sends a run's progress to a client that has asked for it.
async fn notify_progress(context: &RequestContext<RoleServer>, (number, message): (u32, String)) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let mut params = ProgressNotificationParam::new(token, f64::from(number));
    params.message = Some(message);
    let sent = context.peer.notify_progress(params);
    let _ = tokio::time::timeout(Duration::from_secs(5), sent).await;
}

/// The steps of a run that are sent as progress: turns and calls.
#[derive(Default)]
struct ProgressSteps(u32);

impl ProgressSteps {
    fn next_step(&mut self, event: &Event) -> Option<(u32, String)> {
        let message = match &event.kind {
            EventKind::TurnStart { .. } => format!("turn {}", event.turn),
            EventKind::ToolExecute { name, .. } => format!("calls {}", cut_line(name, 80)),
            EventKind::Child { agent, .. } => format!("asks {}", cut_line(agent, 80)),
            _ => return None,
        };
        self.0 += 1;
        Some((self.0, message))
    }
}

impl ServerHandler for ServedAgents {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(this_program()).with_instructions(
            "Each tool is an agent with its own limits that works on its own and answers once. It \
             knows nothing but the prompt.",
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.specialists.iter().map(|one| Self::tool_info(one.as_ref())).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(specialist) = self.specialists.iter().find(|one| one.name() == request.name)
        else {
            let names: Vec<&str> = self.specialists.iter().map(|one| one.name()).collect();
            let message = format!(
                "there is no tool `{}`; the tools are: {}",
                cut_line(&request.name, 80),
                names.join(", ")
            );
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let output = match arguments.get("prompt") {
            Some(Value::String(prompt)) if !prompt.trim().is_empty() => {
                Box::pin(self.call_specialist(specialist.as_ref(), prompt, &context)).await
            }
            _ => ToolOutput::error("`prompt` must be text that is not empty: the task"),
        };
        let content = vec![ContentBlock::text(output.content)];
        let result = match output.is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}
