//! The page of a notebook over HTTP, and its requests over a WebSocket.
//!
//! Loopback is not authentication: every request must have a `Host` and, if a browser sends one, an
//! `Origin` of this server, and a page must send the token before its socket receives anything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::chat::{Chat, StoppedBy};
use crate::notebook::SharedNotebook;

mod assets;
mod guard;
mod socket;

/// The most bytes of a page's message.
const MESSAGE: usize = 4 << 20;
/// The most pages that may be open at a time.
const PAGES: usize = 32;
/// The time without a page after which a run is stopped.
const GRACE: Duration = Duration::from_secs(60);
/// The interval at which a page is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The time that pages get to receive the end.
const LEAVE: Duration = Duration::from_secs(2);

/// The options of a notebook's server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The time without a page after which a run of the assistant is stopped. Default: 60 s.
    pub grace: Duration,
    /// The interval at which a page is pinged. A page without a sign of life for four intervals is
    /// gone: its machine sleeps, or it has lost its network. Default: 20 s.
    pub beat: Duration,
    /// Names of a proxy before the server, as `Host` and `Origin` may show them. A name without a
    /// port holds at any port. Default: none.
    pub hosts: Vec<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { grace: GRACE, beat: PING_INTERVAL, hosts: Vec::new() }
    }
}

/// A notebook and its assistant, with an address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<ServerState>,
    options: ServerOptions,
}

/// The state that all connections share.
#[derive(Debug)]
struct ServerState {
    notebook: Arc<SharedNotebook>,
    chat: Arc<Chat>,
    token: String,
    names: guard::ServedNames,
    page_permits: Arc<Semaphore>,
    beat: Duration,
    /// The number of open pages that have sent the token.
    pages: watch::Sender<usize>,
    leaving: CancellationToken,
}

impl Server {
    /// Binds an address of the loopback; port 0 chooses a free port.
    ///
    /// # Errors
    /// The address is not on the loopback, or cannot be bound.
    pub async fn bind_loopback(address: SocketAddr) -> Result<TcpListener, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} is not a loopback address: anybody who reaches the page can run programs \
                 on this machine; to reach it from elsewhere, forward a port"
            ));
        }
        let listener = TcpListener::bind(address).await;
        listener.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("another program uses this port ({address}); port 0 takes a free one")
            }
            _ => format!("cannot listen on {address}: {error}"),
        })
    }

    /// Creates a server for a notebook and its assistant, at an address that
    /// [`Self::bind_loopback`] has bound.
    ///
    /// # Errors
    /// The system provides no address or no randomness.
    pub fn new(
        notebook: Arc<SharedNotebook>,
        chat: Arc<Chat>,
        listener: TcpListener,
        options: ServerOptions,
    ) -> Result<Self, String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let shared = Arc::new(ServerState {
            notebook,
            chat,
            token: new_token()?,
            names: guard::ServedNames { listen: address, hosts: options.hosts.clone() },
            page_permits: Arc::new(Semaphore::new(PAGES)),
            beat: options.beat,
            pages: watch::Sender::new(0),
            leaving: CancellationToken::new(),
        });
        Ok(Self { listener, address, shared, options })
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the page's address, with its token.
    #[must_use]
    pub fn page_url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.shared.token)
    }

    /// Serves until `stop`. Then the assistant's run is stopped, and the notebook is saved and
    /// closed.
    ///
    /// # Errors
    /// Connections can no longer be accepted.
    pub async fn serve_until(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let Self { listener, shared, options, .. } = self;
        let watching = tokio::spawn(stop_when_left(Arc::clone(&shared), options.grace));
        let router = Router::new()
            .route("/api/ws", get(open_socket))
            .fallback(get(serve_file))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), admit_request))
            .with_state(Arc::clone(&shared));
        let leaving = shared.leaving.clone();
        let served =
            axum::serve(listener, router).with_graceful_shutdown(leaving.clone().cancelled_owned());
        let mut serving = tokio::spawn(served.into_future());
        let ended = tokio::select! {
            ended = &mut serving => Some(ended),
            () = stop => None,
        };
        watching.abort();
        shared.stop_assistant(StoppedBy::Closed).await;
        shared.notebook.close().await;
        leaving.cancel();
        let ended = match ended {
            Some(ended) => Some(ended),
            None => tokio::time::timeout(LEAVE, serving).await.ok(),
        };
        match ended {
            Some(Ok(served)) => served,
            Some(Err(failed)) => Err(std::io::Error::other(failed)),
            None => Ok(()),
        }
    }
}

/// Stops the run when no page is open any more, after a grace time in which a page may be reloaded.
async fn stop_when_left(shared: Arc<ServerState>, grace: Duration) {
    let mut pages = shared.pages.subscribe();
    loop {
        if pages.wait_for(|pages| *pages == 0).await.is_err() {
            return;
        }
        let back = tokio::time::timeout(grace, pages.wait_for(|pages| *pages > 0)).await.is_ok();
        if !back {
            shared.stop_assistant(StoppedBy::Left).await;
            let _ = pages.wait_for(|pages| *pages > 0).await;
        }
    }
}

impl ServerState {
    /// Stops the assistant's run with all its work: the model, its tools, and its cells in the
    /// kernel.
    async fn stop_assistant(&self, by: StoppedBy) -> bool {
        let stopped = self.chat.stop_run(by).await;
        if stopped {
            // This comes after the run's end, so that its cells are interrupted and no new ones
            // follow.
            self.notebook.interrupt_cells().await;
        }
        stopped
    }
}

/// Refuses requests that another web page may have caused, and adds the security headers.
async fn admit_request(
    State(shared): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match guard::check_request(request.headers(), request.uri(), &shared.names) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => (status, why).into_response(),
    };
    assets::set_security_headers(response.headers_mut());
    response
}

async fn serve_file(uri: Uri) -> Response {
    assets::find_response(uri.path()).unwrap_or_else(|| {
        (StatusCode::NOT_FOUND, "there is nothing at this path\n").into_response()
    })
}

async fn open_socket(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return (StatusCode::FORBIDDEN, guard::FOREIGN).into_response();
    }
    let permit = Arc::clone(&shared.page_permits).try_acquire_owned();
    upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE).on_upgrade(async move |socket| {
        let Ok(permit) = permit else { return socket::refuse_excess_page(socket).await };
        socket::serve_page(shared, socket).await;
        drop(permit);
    })
}

/// Creates a token that nobody can guess.
fn new_token() -> Result<String, String> {
    let mut token = [0_u8; 24];
    let filled = SystemRandom::new().fill(&mut token);
    filled.map_err(|_| "the system provides no random numbers for a token".to_owned())?;
    Ok(token.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns true if two addresses belong to the same machine.
fn is_same_machine(named: IpAddr, listen: IpAddr) -> bool {
    named.to_canonical() == listen.to_canonical()
}
