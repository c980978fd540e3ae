//! Running servers: started together, asked for their tools, asked again when the tools have
//! changed, and ended together.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientNotification, PaginatedRequestParams, ProtocolVersion, RequestId, Tool as ListedTool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, serve_client};
use softland_session::core::policy::{LoopKey, LoopKind, Policy};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use super::file::{DeclaredServer, ServerLocation, ServersFile};
use super::lines::{CloseReason, LineTransport, MAX_MESSAGE};
use super::process::{ServerProcess, StderrTail};
use super::this_program;
use super::tool::McpTool;
use crate::tool::{Tool, cut_line};

/// The default time for a server to start, and to list its tools.
const START_TIME: Duration = Duration::from_secs(30);

/// The default time limit of a call.
const CALL_TIME: Duration = Duration::from_secs(120);

/// The most tools of one server, and the most pages of their list.
const MOST_TOOLS: usize = 1000;
const MOST_PAGES: usize = 100;
/// The number of reconnections after the stream of a server breaks, after 1, 2 and 4 seconds.
const RECONNECTIONS: usize = 3;

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
        (self.heard)(&self.name, "its list of tools has changed: that holds from the next run on");
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

/// Starts one server and asks for its tools.
async fn start_server(
    server: &DeclaredServer,
    (start_time, call_time): (Duration, Duration),
    env: &(dyn Fn(&str) -> Option<String> + Sync),
    heard: &StderrHandler,
) -> Result<RunningServer, String> {
    let changed = Arc::new(AtomicBool::new(false));
    let (name, heard_of) = (server.name.clone(), Arc::clone(&changed));
    let handler =
        NotificationHandler { name: name.clone(), heard: Arc::clone(heard), changed: heard_of };
    let ended = CancellationToken::new();
    let StartedService { why, words, mut process, service } = match &server.place {
        ServerLocation::Program(program) => {
            let started = ServerProcess::start(&server.name, program, env, heard)?;
            start_program(started, handler, &ended, start_time).await?
        }
        ServerLocation::Http { url, headers } => {
            let transport = http_transport(url, headers)?;
            let served = tokio::time::timeout(start_time, serve_client(handler, transport)).await;
            let service = match served {
                Ok(Ok(service)) => service,
                Ok(Err(error)) => return Err(start_error(&error, None)),
                Err(_) => return Err(start_timeout(start_time)),
            };
            let (why, words) = (CloseReason::default(), StderrTail::default());
            StartedService { why, words, process: None, service }
        }
    };
    let peer = service.peer().clone();
    check_version(&peer)?;
    let listed = tokio::time::timeout(start_time, list_all_tools(&peer)).await;
    let listed = match listed {
        Ok(Ok(listed)) => listed,
        Ok(Err(problem)) => {
            let problem = why.reason().unwrap_or(problem);
            if let Some(process) = process.as_mut() {
                process.exit_status().await;
            }
            return Err(format!("tools/list: {problem}{}", words.to_suffix()));
        }
        Err(_) => return Err(format!("tools/list: {}", start_timeout(start_time))),
    };
    let (calls, listed) = (Arc::default(), Mutex::new(listed));
    // A program that has ended but has answered only launched the process that serves.
    let exited = process.as_ref().map(|process| process.exited.clone());
    let exited = exited.filter(|exited| !exited.is_cancelled()).unwrap_or_default();
    let connection = Arc::new(ServerConnection {
        name: name.clone(),
        peer,
        call_time,
        calls,
        ended,
        exited,
        why,
        words,
    });
    Ok(RunningServer { name, service, process, connection, listed, changed })
}

/// A server that has answered the first request.
struct StartedService {
    /// The reason why its output has ended, once it has.
    why: CloseReason,
    /// The end of its standard error.
    words: StderrTail,
    process: Option<ServerProcess>,
    service: RunningService<RoleClient, NotificationHandler>,
}

/// Opens a session with a program that was started.
async fn start_program(
    (mut process, output, input): (ServerProcess, ChildStdout, ChildStdin),
    handler: NotificationHandler,
    ended: &CancellationToken,
    start_time: Duration,
) -> Result<StartedService, String> {
    let lines = LineTransport::new(output, input, ended.clone(), false);
    let (why, words) = (lines.close_reason(), process.words.clone());
    let served = tokio::time::timeout(start_time, serve_client(handler, lines)).await;
    let service = match served {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => {
            let how = match why.reason() {
                Some(why) => why,
                None => start_error(&error, process.exit_status().await),
            };
            return Err(format!("{how}{}", process.words.to_suffix()));
        }
        Err(_) => return Err(format!("{}{}", start_timeout(start_time), words.to_suffix())),
    };
    Ok(StartedService { why, words, process: Some(process), service })
}

/// Checks that a server speaks a version of the protocol that is known.
fn check_version(peer: &Peer<RoleClient>) -> Result<(), String> {
    let version = peer.peer_info().map(|info| info.protocol_version.clone());
    if version.as_ref().is_some_and(|v| ProtocolVersion::KNOWN_VERSIONS.contains(v)) {
        return Ok(());
    }
    Err(format!(
        "speaks protocol version {}, which is not known; known are {}",
        cut_line(&version.map(|v| v.to_string()).unwrap_or_default(), 40),
        known_versions()
    ))
}

/// Returns all pages of a server's tools.
async fn list_all_tools(peer: &Peer<RoleClient>) -> Result<Vec<ListedTool>, String> {
    let mut tools: Vec<ListedTool> = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(params)).await.map_err(|error| match error {
            ServiceError::UnexpectedResponse => {
                "the answer is no list of tools, each with a `name` and an object `inputSchema`"
                    .to_owned()
            }
            ServiceError::McpError(error) => {
                format!("error {}: {}", error.code.0, cut_line(&error.message, 400))
            }
            error => describe_error(&error),
        })?;
        for tool in &page.tools {
            if tool.input_schema.get("type").is_some_and(|kind| kind != "object") {
                return Err(format!(
                    "tool `{}`: its inputSchema must have \"type\": \"object\"",
                    cut_line(&tool.name, 80)
                ));
            }
        }
        tools.extend(page.tools);
        if tools.len() > MOST_TOOLS {
            return Err(format!("more than {MOST_TOOLS} tools"));
        }
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(tools),
        }
    }
    Err(format!("more than {MOST_PAGES} pages"))
}

fn http_transport(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    // An embedding program may have installed a crypto provider already, which is used then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed = reqwest::Url::parse(url).map_err(|error| format!("url: {error}"))?;
    let loopback = parsed.host_str().is_some_and(|host| {
        let host = host.trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    // Redirects are not followed: headers may be credentials, and are meant for this address.
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10));
    if loopback {
        builder = builder.no_proxy();
    }
    if parsed.scheme() == "http" {
        // A plain address must work on systems without root certificates.
        builder = builder.tls_certs_only([]);
    }
    let client = builder.build().map_err(|error| format!("url: {}", error_chain(&error)))?;
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let wrong = || format!("headers: `{}` is no header that can be sent", cut_line(name, 80));
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        sent.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    // Without this limit, a call would wait for a dead server until its time is over.
    let mut again = ExponentialBackoff::default();
    again.max_times = Some(RECONNECTIONS);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(sent)
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    config.retry_config = Arc::new(again);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn start_error(error: &ClientInitializeError, ended: Option<std::process::ExitStatus>) -> String {
    match (error, ended) {
        (ClientInitializeError::JsonRpcError(error), _) => {
            format!("initialize: error {}: {}", error.code.0, cut_line(&error.message, 400))
        }
        (ClientInitializeError::ExpectedInitResult(_), _) => {
            "initialize: the answer has no protocolVersion, capabilities and serverInfo".to_owned()
        }
        (ClientInitializeError::NoCompatibleProtocolVersion { .. }, _) => {
            format!("speaks no protocol version that is known; known are {}", known_versions())
        }
        (_, Some(status)) => format!("ended before it was initialised ({status})"),
        (error, None) => format!("initialize: {}", cut_line(&error_chain(error), 600)),
    }
}

fn start_timeout(time: Duration) -> String {
    format!(
        "did not start within {} s (MCP_TIMEOUT gives it more, in milliseconds)",
        time.as_secs_f64()
    )
}

fn known_versions() -> String {
    let names: Vec<String> =
        ProtocolVersion::KNOWN_VERSIONS.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Describes the error of a request, without the names of the transport layers.
fn describe_error(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => error_chain(error.error.as_ref()),
        error => error_chain(error),
    }
}

/// Joins an error and its causes, each once.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
