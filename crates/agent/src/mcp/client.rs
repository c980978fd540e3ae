//! Running servers: started together, asked for their tools, asked again when the tools have
//! changed, and ended together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::ClientHandler;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientNotification, ProtocolVersion, RequestId, Tool as ListedTool,
};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService, ServiceError};
use softland_session::core::policy::{LoopKey, LoopKind, Policy};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use super::errors::describe_error;
use super::file::ServersFile;
use super::lines::CloseReason;
use super::process::{ServerProcess, StderrTail};
use super::this_program;
use super::tool::McpTool;
use crate::tool::Tool;

mod answers;
mod start;

use start::{list_all_tools, start_server};

/// The default time for a server to start, and to list its tools.
const START_TIME: Duration = Duration::from_secs(30);

/// The default time limit of a call.
const CALL_TIME: Duration = Duration::from_secs(120);

/// The time in which an answer may still arrive from the pipe of a program that has ended.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// The time to wait for the end of a connection.
const END_TIME: Duration = Duration::from_secs(3);

/// Receives each line of a server's standard error: the server's name and the line.
pub type StderrHandler = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// The reasons why the servers cannot be used, one message for each mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// The messages; each names file and server.
    pub messages: Vec<String>,
}

/// Running servers. On drop they are ended at once.
#[derive(Default)]
pub struct Servers {
    /// The name of their file in errors.
    label: String,
    running: Vec<RunningServer>,
    offered: Mutex<OfferedTools>,
    /// Locked while changed lists of tools are requested.
    following: tokio::sync::Mutex<()>,
    start_time: Duration,
    /// Warnings that do not prevent a run.
    pub warnings: Vec<String>,
}

/// The tools of all servers.
#[derive(Default)]
struct OfferedTools {
    tools: Vec<Arc<dyn Tool>>,
    hints: Vec<(String, LoopKind)>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.running.iter().map(|running| &running.name)).finish()
    }
}

/// The part of a server that its tools need.
pub(super) struct ServerConnection {
    pub(super) name: String,
    pub(super) peer: Peer<RoleClient>,
    pub(super) call_time: Duration,
    /// Read-locked by each running call, so that shutting down waits until all calls have sent
    /// their cancellations.
    pub(super) calls: Arc<RwLock<()>>,
    ended: CancellationToken,
    /// Cancelled when the program has ended. A child of the program may still hold its output open.
    exited: CancellationToken,
    why: CloseReason,
    words: StderrTail,
}

impl ServerConnection {
    /// Returns the reason why the server takes no more calls; `None` while it does.
    pub(super) async fn gone_reason(&self) -> Option<String> {
        let closed = self.ended.is_cancelled() || self.peer.is_transport_closed();
        if !closed && !self.exited.is_cancelled() {
            return None;
        }
        // The last lines may still be in the pipe.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let why = self.why.reason().map(|why| format!(" ({why})")).unwrap_or_default();
        let words = self.words.to_suffix();
        Some(format!(
            "server `{}` has ended{why}; its tools cannot be called any more in this run{words}",
            self.name
        ))
    }

    /// Returns once the program has ended and none of its answers can still arrive.
    pub(super) async fn wait_until_dead(&self) {
        self.exited.cancelled().await;
        tokio::time::sleep(LAST_ANSWER).await;
    }

    /// Describes the failure of a request.
    pub(super) async fn failure_message(&self, error: &ServiceError) -> String {
        match self.gone_reason().await {
            Some(why) => why,
            None => format!("server `{}` cannot be asked: {}", self.name, describe_error(error)),
        }
    }

    /// Tells the server that nobody waits for an answer any more.
    pub(super) async fn cancel_request(&self, id: RequestId) {
        let params =
            CancelledNotificationParam::new(Some(id), Some("the call was given up".into()));
        let notification = CancelledNotification::new(params);
        let sent = self.peer.send_notification(ClientNotification::from(notification));
        let _ = tokio::time::timeout(END_TIME, sent).await;
    }
}

struct RunningServer {
    name: String,
    service: RunningService<RoleClient, NotificationHandler>,
    process: Option<ServerProcess>,
    connection: Arc<ServerConnection>,
    /// The tools that the server listed last.
    listed: Mutex<Vec<ListedTool>>,
    /// True if the tools have changed since.
    changed: Arc<AtomicBool>,
}

/// Handles the notifications of a server. The server may request nothing: roots, sampling and
/// elicitation are not offered.
struct NotificationHandler {
    name: String,
    heard: StderrHandler,
    changed: Arc<AtomicBool>,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), this_program())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::SeqCst);
        // The tools of a request are part of the provider's cache, and the model knows them
        // already.
        (self.heard)(&self.name, "its list of tools has changed; the next run will use it");
    }
}

impl Servers {
    /// Starts the named servers of the file, all at once, and asks for their tools. `env` reads
    /// this process's environment: `MCP_TIMEOUT` and `MCP_TOOL_TIMEOUT` are the time limits of a
    /// start and a call in milliseconds, unless the file sets them.
    ///
    /// # Errors
    /// Returns the reason why a server cannot be used. Then none of the servers runs.
    pub async fn start_named(
        file: &ServersFile,
        named: &BTreeSet<String>,
        env: &(dyn Fn(&str) -> Option<String> + Sync),
        heard: &StderrHandler,
    ) -> Result<Self, StartError> {
        let millis = |name: &str, or: Duration| {
            let given = env(name).and_then(|text| text.parse().ok()).filter(|time| *time > 0);
            given.map_or(or, Duration::from_millis)
        };
        let (start_time, call_time) =
            (millis("MCP_TIMEOUT", START_TIME), millis("MCP_TOOL_TIMEOUT", CALL_TIME));
        let declared = file.servers.iter().filter(|server| named.contains(&server.name));
        let begun = declared.map(|server| async move {
            let call_time = server.timeout_ms.map_or(call_time, Duration::from_millis);
            let begun = start_server(server, (start_time, call_time), env, heard).await;
            begun.map_err(|why| format!("{}: server `{}`: {why}", file.label, server.name))
        });
        let label = file.label.clone();
        let (mut servers, mut messages) =
            (Self { label, start_time, ..Self::default() }, Vec::new());
        for begun in join_all(begun).await {
            match begun {
                Ok(running) => servers.running.push(running),
                Err(message) => messages.push(message),
            }
        }
        if messages.is_empty() {
            servers.warnings = servers.update_tools();
            return Ok(servers);
        }
        servers.shut_down().await;
        Err(StartError { messages })
    }

    /// Updates the tools from the servers' lists. Returns warnings about tools that cannot be used.
    fn update_tools(&self) -> Vec<String> {
        let (mut offered, mut warnings) = (OfferedTools::default(), Vec::new());
        for RunningServer { connection, listed, .. } in &self.running {
            for tool in lock_unpoisoned(listed).iter() {
                if let Err(why) = offered.add_tool(tool, connection) {
                    let server = &connection.name;
                    warnings.push(format!("{}: server `{server}`: {why}", self.label));
                }
            }
        }
        *lock_unpoisoned(&self.offered) = offered;
        warnings
    }

    /// Requests the tools of servers whose tools have changed, before another run begins. If a
    /// server does not answer, its last list stays in force.
    pub async fn refresh_tools(&self) {
        let _alone = self.following.lock().await;
        let changed = |running: &&RunningServer| {
            !running.connection.exited.is_cancelled()
                && running.changed.swap(false, Ordering::SeqCst)
        };
        let changed: Vec<&RunningServer> = self.running.iter().filter(changed).collect();
        if changed.is_empty() {
            return;
        }
        join_all(changed.into_iter().map(|running| async {
            let asked = list_all_tools(&running.connection.peer);
            match tokio::time::timeout(self.start_time, asked).await {
                Ok(Ok(listed)) => *lock_unpoisoned(&running.listed) = listed,
                Ok(Err(_)) | Err(_) => running.changed.store(true, Ordering::SeqCst),
            }
        }))
        .await;
        // The agent file that names a tool which is left out reports that it is missing.
        let _ = self.update_tools();
    }

    /// Returns the tools of all servers.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        lock_unpoisoned(&self.offered).tools.clone()
    }

    /// Sets the loop keys of tools in a policy by the servers' hints, unless the policy sets them.
    pub fn apply_hints(&self, policy: &mut Policy, used: &dyn Fn(&str) -> bool) {
        let offered = lock_unpoisoned(&self.offered);
        for (name, kind) in offered.hints.iter().filter(|(name, _)| used(name)) {
            policy.loop_keys.entry(name.clone()).or_insert(LoopKey::Kind(*kind));
        }
    }

    /// Ends the servers: closes their input, then asks them to end, then kills them.
    pub async fn shut_down(mut self) {
        let running = std::mem::take(&mut self.running);
        join_all(running.into_iter().map(|mut running| async move {
            // Calls in progress first send their cancellations.
            let _ = tokio::time::timeout(END_TIME, running.connection.calls.write()).await;
            let _ = running.service.close_with_timeout(END_TIME).await;
            if let Some(process) = running.process {
                process.shut_down().await;
            }
        }))
        .await;
    }
}

impl OfferedTools {
    /// Adds a tool of a server. The error says why it is left out.
    fn add_tool(
        &mut self,
        listed: &ListedTool,
        connection: &Arc<ServerConnection>,
    ) -> Result<(), String> {
        let made = McpTool::new(listed, connection)?;
        let name = made.def().name;
        if self.tools.iter().any(|other| other.def().name == name) {
            return Err(format!("a second tool `{name}` is left out"));
        }
        if let Some(reads) = McpTool::read_only_hint(listed) {
            self.hints.push((name, if reads { LoopKind::Reads } else { LoopKind::Writes }));
        }
        self.tools.push(Arc::new(made));
        Ok(())
    }
}

/// Code under the locks here does not panic. The data behind a poisoned lock would be intact.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
