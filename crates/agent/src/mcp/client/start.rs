//! Starts one server: its process or its address, the first request, and the list of its tools.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{PaginatedRequestParams, ProtocolVersion, Tool as ListedTool};
use rmcp::serve_client;
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::sync::CancellationToken;

use super::answers::AddressClient;
use super::{NotificationHandler, RunningServer, ServerConnection, StderrHandler};
use crate::mcp::errors::{describe_error, error_chain, known_versions, start_error};
use crate::mcp::file::{DeclaredServer, ServerLocation};
use crate::mcp::lines::{CloseReason, LineTransport, MAX_MESSAGE};
use crate::mcp::process::{ServerProcess, StderrTail};
use crate::tool::cut_line;

/// The most tools of one server, and the most pages of their list.
const MOST_TOOLS: usize = 1000;

const MOST_PAGES: usize = 100;

/// The number of reconnections after the stream of a server breaks, after 1, 2 and 4 seconds.
const RECONNECTIONS: usize = 3;

/// Starts one server and asks for its tools.
pub(super) async fn start_server(
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
            open_program(started, handler, &ended, start_time).await?
        }
        ServerLocation::Http { url, headers } => {
            let transport = http_transport(url, headers)?;
            open_address((url, transport), handler, start_time).await?
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
async fn open_program(
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

/// Opens a session with a server at an address.
async fn open_address(
    (url, transport): (&str, StreamableHttpClientTransport<AddressClient>),
    handler: NotificationHandler,
    start_time: Duration,
) -> Result<StartedService, String> {
    let served = tokio::time::timeout(start_time, serve_client(handler, transport)).await;
    let service = match served {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => {
            let told = start_error(&error, None);
            let hint = if told.contains("SSE") { "" } else { sse_hint(url) };
            return Err(told + hint);
        }
        Err(_) => return Err(format!("{}{}", start_timeout(start_time), sse_hint(url))),
    };
    let (why, words) = (CloseReason::default(), StderrTail::default());
    Ok(StartedService { why, words, process: None, service })
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
pub(super) async fn list_all_tools(peer: &Peer<RoleClient>) -> Result<Vec<ListedTool>, String> {
    let mut tools: Vec<ListedTool> = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(params)).await.map_err(|error| match error {
            ServiceError::UnexpectedResponse => {
                "the answer is not a list of tools, each with a `name` and an object `inputSchema`"
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
) -> Result<StreamableHttpClientTransport<AddressClient>, String> {
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
        let wrong =
            || format!("headers: `{}` is not a header that can be sent", cut_line(name, 80));
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
    Ok(StreamableHttpClientTransport::with_client(AddressClient(client), config))
}

/// Returns a hint for an address that looks like one of the older transport.
fn sse_hint(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.trim_end_matches('/').ends_with("/sse") {
        true => "; the older transport, HTTP with SSE, is not supported",
        false => "",
    }
}

fn start_timeout(time: Duration) -> String {
    format!(
        "did not start within {} s (MCP_TIMEOUT gives it more, in milliseconds)",
        time.as_secs_f64()
    )
}
