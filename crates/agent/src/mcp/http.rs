//! Agents served over streamable HTTP, only on the loopback of this machine. There are no users, so
//! anybody who reaches the port can spend.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::lines::SAME_ID;
use super::odd;
use super::serve::{AllRunsEnded, SESSION, ServedAgents, Specialist};

/// The path of the endpoint.
const PATH: &str = "/mcp";

/// The lifetime of an idle session. A run that emits nothing counts as idle too.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);

/// The time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// The time limit for the rest of a request.
const BODY: Duration = Duration::from_secs(30);

/// The most concurrent connections.
const CONNECTIONS: usize = 256;

/// The largest request, in bytes.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// The reason why nothing is served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not on the loopback.
    NotLoopback(SocketAddr),
    /// The system refuses the address.
    Io(SocketAddr, std::io::Error),
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "{address} is not a loopback address: anybody who reaches it could spend your \
                 money; use 127.0.0.1:PORT or [::1]:PORT"
            ),
            Self::Io(address, error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                write!(f, "another program uses this port ({address}); port 0 takes a free one")
            }
            Self::Io(address, error) => write!(f, "{address} cannot be listened on: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

/// Agents that are ready to be served.
pub struct AgentListener {
    listener: TcpListener,
    address: SocketAddr,
    served: ServedAgents,
    last: AllRunsEnded,
    stop: CancellationToken,
}

/// Listens on a loopback address; port 0 picks a free port.
///
/// # Errors
/// Returns a [`ListenError`].
pub async fn listen_on_loopback(
    specialists: Vec<Arc<dyn Specialist>>,
    address: SocketAddr,
    stop: CancellationToken,
) -> Result<AgentListener, ListenError> {
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let failed = |error| ListenError::Io(address, error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (served, last) = ServedAgents::new(specialists, stop.clone());
    Ok(AgentListener { listener, address, served, last, stop })
}

type Service = StreamableHttpService<ServedAgents, LocalSessionManager>;

impl AgentListener {
    /// Returns the URL at which clients find the agents.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until the token is cancelled. Then every run is stopped.
    pub async fn serve_until_stopped(self) {
        let Self { listener, address, served, last, stop } = self;
        let service = build_service(&served, address, &stop);
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                // For example too many open files: others may be closed meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(held) = Arc::clone(&room).acquire_owned().await else { break };
            let (service, served, stop) = (service.clone(), served.clone(), stop.clone());
            tokio::spawn(async move {
                let _held = held;
                tokio::select! {
                    () = serve_connection(stream, service, served) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        drop((service, served));
        last.wait_for_runs().await;
    }
}

fn build_service(served: &ServedAgents, address: SocketAddr, stop: &CancellationToken) -> Service {
    let port = address.port();
    let hosts = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
    let own = address.to_string();
    let origins = hosts.iter().chain([&own]).map(|host| format!("http://{host}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_allowed_hosts(hosts.iter().chain([&own]).cloned())
        .with_max_request_body_bytes(MAX_REQUEST)
        .with_cancellation_token(stop.child_token());
    let mut manager = LocalSessionManager::default();
    let mut sessions = SessionConfig::default();
    sessions.keep_alive = Some(IDLE);
    manager.session_config = sessions;
    let served = served.clone();
    StreamableHttpService::new(move || Ok(served.clone()), Arc::new(manager), config)
}

async fn serve_connection(stream: TcpStream, service: Service, served: ServedAgents) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, served) = (service.clone(), served.clone());
        async move { Ok::<_, Infallible>(answer_request(request, &service, &served).await) }
    });
    // A broken connection is the client's concern.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

type ResponseBody = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// Returns a JSON-RPC error with the HTTP status that belongs to it.
fn error_response(
    status: StatusCode,
    code: i64,
    message: &str,
    id: Value,
) -> Response<ResponseBody> {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let mut response = Response::new(ResponseBody::new(Full::new(error.to_string().into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::REQUEST_TIMEOUT || status == StatusCode::PAYLOAD_TOO_LARGE {
        // The rest of the body is not read.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn answer_request(
    request: Request<Incoming>,
    service: &Service,
    served: &ServedAgents,
) -> Response<ResponseBody> {
    if request.uri().path() != PATH {
        let mut response = Response::new(ResponseBody::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let header = |name: &str| request.headers().get(name)?.to_str().ok().map(str::to_owned);
    let session = header(SESSION);
    let json = header("content-type").is_some_and(|of| of.starts_with("application/json"));
    let (method, (head, body)) = (request.method().clone(), request.into_parts());
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let open = match (method == Method::POST && json)
        .then(|| read_request_id(&body, session.as_deref()))
    {
        Some(Err(response)) => return *response,
        Some(Ok(Some(key))) => {
            let id = serde_json::to_value(&key.1).unwrap_or_default();
            let Some(open) = served.open.open_request(key) else {
                return error_response(StatusCode::BAD_REQUEST, -32600, SAME_ID, id);
            };
            Some(open)
        }
        Some(Ok(None)) | None => None,
    };
    let response = service.handle(Request::from_parts(head, Full::new(body.clone()))).await;
    if json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        if let Some(id) = odd::id_beside_half_a_character(&body) {
            return error_response(StatusCode::BAD_REQUEST, -32600, odd::HALF, id);
        }
        // `rmcp` answers so if the body is not a message although it is called JSON.
        return error_response(StatusCode::BAD_REQUEST, -32600, "Invalid request", Value::Null);
    }
    if let Some(session) = session.filter(|_| method == Method::DELETE)
        && response.status().is_success()
    {
        served.end_session(&session);
    }
    let Some(open) = open else { return response };
    // The request is open until its answer is written or given up.
    response.map(|body| {
        let held = body.map_frame(move |frame| {
            let _ = &open;
            frame
        });
        ResponseBody::new(held)
    })
}

/// Reads a whole body, with bounded size and time.
async fn read_body<B>(body: B) -> Result<Bytes, Box<Response<ResponseBody>>>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = || {
        let message = format!("a request has at most {} MiB", MAX_REQUEST >> 20);
        Box::new(error_response(StatusCode::PAYLOAD_TOO_LARGE, -32600, &message, Value::Null))
    };
    if body.size_hint().lower() > MAX_REQUEST as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY, Limited::new(body, MAX_REQUEST).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        // The client has gone, so nobody reads this.
        Ok(Err(_)) => {
            Err(Box::new(error_response(StatusCode::BAD_REQUEST, -32700, "cut off", Value::Null)))
        }
        Err(_) => {
            let message = format!("the request did not come within {} s", BODY.as_secs());
            Err(Box::new(error_response(
                StatusCode::REQUEST_TIMEOUT,
                -32600,
                &message,
                Value::Null,
            )))
        }
    }
}

/// Returns the session and the id of a request that waits for an answer; the error refuses the
/// message.
fn read_request_id(
    body: &[u8],
    session: Option<&str>,
) -> Result<Option<(String, RequestId)>, Box<Response<ResponseBody>>> {
    #[derive(Deserialize)]
    struct MessageHead {
        method: Option<IgnoredAny>,
        id: Option<RequestId>,
    }
    let bad = |code, message: &str| {
        Box::new(error_response(StatusCode::BAD_REQUEST, code, message, Value::Null))
    };
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(bad(-32600, "one message at a time: batches are not supported"));
    }
    match serde_json::from_slice::<MessageHead>(body) {
        Ok(MessageHead { method: Some(_), id: Some(id) }) => {
            Ok(session.map(|session| (session.to_owned(), id)))
        }
        Err(error) if !error.is_data() => Err(bad(-32700, &format!("Parse error: {error}"))),
        Ok(_) | Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = futures_util::stream::pending::<Result<_, Infallible>>();
        let response = read_body(http_body_util::StreamBody::new(never)).await.unwrap_err();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
        let huge = Full::new(Bytes::from(vec![b' '; MAX_REQUEST + 1]));
        assert_eq!(read_body(huge).await.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
