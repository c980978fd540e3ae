//! The worker: serves agents to Restate over HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use restate_sdk::endpoint::{Endpoint, HandleOptions, ProtocolMode};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::build_id::build_id;
use crate::client::{EngineClient, EngineFailure, parse_address};
use crate::query::Admin;
use crate::registration::{LOOK_EVERY, Registration};
use crate::service::{ActiveRuns, AgentLoader, ListService, RunService};

/// The delay after a connection that could not be accepted.
const AGAIN: Duration = Duration::from_millis(50);

/// The settings of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// The address of the engine's administration, such as `http://127.0.0.1:9070`.
    pub restate: String,
    /// The address on which the worker listens.
    pub listen: SocketAddr,
    /// The address at which the engine reaches the worker or the balancer before it; `None` for
    /// the address on which the worker listens.
    pub advertise: Option<String>,
}

/// The reason why a worker cannot serve.
#[derive(Debug)]
pub enum WorkerError {
    /// The address cannot be listened on.
    Listen(std::io::Error),
    /// The program's own file cannot be read, so that the build has no identity.
    Build(std::io::Error),
    /// The address at which the engine is to reach the worker is none.
    Advertise(EngineFailure),
    /// The engine does not answer, or refuses the worker.
    Engine(EngineFailure),
}

impl std::fmt::Display for WorkerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listen(error) => write!(f, "--listen: {error}"),
            Self::Build(error) => write!(f, "the program's file cannot be read: {error}"),
            Self::Advertise(failure) => write!(f, "--advertise: {failure}"),
            Self::Engine(failure) => write!(f, "--restate: {failure}"),
        }
    }
}

impl std::error::Error for WorkerError {}

impl From<EngineFailure> for WorkerError {
    fn from(failure: EngineFailure) -> Self {
        Self::Engine(failure)
    }
}

/// A worker that listens.
pub struct Worker {
    listener: TcpListener,
    admin: Admin,
    endpoint: Endpoint,
    /// The path of this build. Requests for other builds are refused, so that their runs wait.
    path: Arc<str>,
    url: String,
    active: ActiveRuns,
}

impl Worker {
    /// Listens on the worker's address. The engine must answer.
    ///
    /// # Errors
    /// Returns an error if the address is in use or the engine does not answer.
    pub async fn bind(
        settings: &WorkerSettings,
        loader: Arc<dyn AgentLoader>,
    ) -> Result<Self, WorkerError> {
        if let Some(advertise) = &settings.advertise {
            parse_address(advertise, "a worker").map_err(WorkerError::Advertise)?;
        }
        let admin = Admin::new(EngineClient::new(&settings.restate)?);
        let ingress = EngineClient::new(&admin.find_ingress().await?)?;
        let listener = TcpListener::bind(settings.listen).await.map_err(WorkerError::Listen)?;
        let here = listener.local_addr().map_err(WorkerError::Listen)?;
        let build = tokio::task::spawn_blocking(build_id).await;
        let build = build.map_err(std::io::Error::other).and_then(|build| build);
        let path: Arc<str> = format!("/v/{}", build.map_err(WorkerError::Build)?).into();
        let place = settings.advertise.clone().unwrap_or_else(|| format!("http://{here}"));
        let url = format!("{}{path}", place.trim_end_matches('/'));
        let active = ActiveRuns::default();
        let run = RunService { loader, ingress, admin: admin.clone(), active: active.clone() };
        let list = ListService { admin: admin.clone() };
        let endpoint = Endpoint::builder().bind(run).bind(list).build();
        Ok(Self { listener, admin, endpoint, path, url, active })
    }

    /// Returns the address under which the worker registers: that of this build.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Registers with the engine and serves until `stop`. Requests and calls that are under way then
    /// come to their end; their runs go on with the next worker. Dropped, it ends at once.
    ///
    /// `registered` is called when the engine knows the worker, and again each time that the worker
    /// has registered anew: the engine had lost its data, or did not reach the newest worker.
    ///
    /// # Errors
    /// Returns an error if the engine refuses the worker.
    pub async fn serve(
        self,
        mut registered: impl FnMut(),
        stop: CancellationToken,
    ) -> Result<(), WorkerError> {
        let Self { listener, admin, endpoint, path, url, active } = self;
        let over = CancellationToken::new();
        let _over = over.clone().drop_guard();
        let serving = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (endpoint, path) = (endpoint.clone(), Arc::clone(&path));
                        let serving = serve_connection(stream, endpoint, path, stop.clone());
                        let until = over.clone();
                        tokio::spawn(async move { until.run_until_cancelled(serving).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        };
        // The engine asks the worker for its services before it answers.
        let registering = async {
            let registration = Registration::begin(admin, url).await?;
            registered();
            Ok::<Infallible, EngineFailure>(registration.keep(LOOK_EVERY, registered).await)
        };
        tokio::select! {
            () = stop.cancelled() => {}
            never = registering => match never {
                Ok(never) => match never {},
                Err(failure) => return Err(failure.into()),
            },
            () = serving => {}
        }
        // The engine is to find nobody here, and not to wait.
        drop(listener);
        active.leave_runs().await;
        Ok(())
    }
}

/// Serves a connection of the engine. From `stop` on each new request is refused. The engine is not
/// told to leave the connection: it would give up the requests that are under way on it.
async fn serve_connection(
    stream: TcpStream,
    endpoint: Endpoint,
    path: Arc<str>,
    stop: CancellationToken,
) {
    // Without it, each small message of the protocol waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let response = match stop.is_cancelled() {
            true => plain(StatusCode::SERVICE_UNAVAILABLE, "this worker is being stopped\n"),
            false => respond(&endpoint, &path, request),
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of the engine ended");
    }
}

type Body =
    http_body_util::combinators::UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

fn respond(endpoint: &Endpoint, path: &str, request: Request<Incoming>) -> Response<Body> {
    let asked = request.uri().path();
    if asked == "/health" {
        return plain(StatusCode::OK, "ok\n");
    }
    if !asked.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) {
        return plain(StatusCode::NOT_FOUND, "this worker is of another build\n");
    }
    let options = HandleOptions { protocol_mode: ProtocolMode::BidiStream };
    endpoint
        .handle_with_options(request, options)
        .map(|body| body.map_err(Into::into).boxed_unsync())
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}
