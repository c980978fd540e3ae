//! Agents served over streamable HTTP, on this machine's loopback only: there are no users, and
//! whoever reaches the port can spend.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::serve::{Last, SESSION, Served, Specialist};

/// Where it is.
const PATH: &str = "/mcp";

/// How long a session is kept in which nothing happens, a run that says nothing included.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);

/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(30);

/// Connections at a time.
const CONNECTIONS: usize = 256;

/// The largest request, in bytes.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// Why nothing is served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not of the loopback.
    NotLoopback(SocketAddr),
    /// The system refuses.
    Io(SocketAddr, std::io::Error),
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "{address} is not of the loopback: whoever reaches it could spend; use \
                 127.0.0.1:PORT or [::1]:PORT"
            ),
            Self::Io(address, error) => write!(f, "{address} cannot be listened on: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

/// Agents that are about to be served.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    served: Served,
    last: Last,
    stop: CancellationToken,
}

/// Listens on an address of the loopback; port 0 takes a free one.
///
/// # Errors
/// [`ListenError`].
pub async fn listen(
    specialists: Vec<Arc<dyn Specialist>>,
    address: SocketAddr,
    stop: CancellationToken,
) -> Result<Listening, ListenError> {
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let failed = |error| ListenError::Io(address, error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (served, last) = Served::new(specialists, stop.clone());
    Ok(Listening { listener, address, served, last, stop })
}

type Service = StreamableHttpService<Served, LocalSessionManager>;

impl Listening {
    /// Where a client finds the agents.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until the token is cancelled; then every run is stopped.
    pub async fn run(self) {
        let Self { listener, address, served, last, stop } = self;
        let service = service(&served, address, &stop);
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                // Such as too many open files: others may be closed meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(held) = Arc::clone(&room).acquire_owned().await else { break };
            let (service, served, stop) = (service.clone(), served.clone(), stop.clone());
            tokio::spawn(async move {
                let _held = held;
                tokio::select! {
                    () = connection(stream, service, served) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        drop((service, served));
        last.wait().await;
    }
}

fn service(served: &Served, address: SocketAddr, stop: &CancellationToken) -> Service {
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

async fn connection(stream: TcpStream, service: Service, served: Served) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, served) = (service.clone(), served.clone());
        async move { Ok::<_, Infallible>(answer(request, &service, &served).await) }
    });
    // A connection that breaks is the client's matter.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

fn unreadable() -> Response<Body> {
    const ERROR: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    let body = http_body_util::Full::new(bytes::Bytes::from_static(ERROR.as_bytes()));
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

type Body = http_body_util::combinators::BoxBody<bytes::Bytes, Infallible>;

async fn answer(request: Request<Incoming>, service: &Service, served: &Served) -> Response<Body> {
    if request.uri().path() != PATH {
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let ends = (request.method() == Method::DELETE)
        .then(|| request.headers().get(SESSION)?.to_str().ok().map(str::to_owned))
        .flatten();
    let json = request.headers().get(CONTENT_TYPE).and_then(|of| of.to_str().ok());
    let json = json.is_some_and(|of| of.trim_start().starts_with("application/json"));
    let response = service.handle(request).await;
    if json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // Said of what is no JSON, or no message, in a body that is called JSON.
        return unreadable();
    }
    if let Some(session) = ends.filter(|_| response.status().is_success()) {
        served.end_session(&session);
    }
    response
}
