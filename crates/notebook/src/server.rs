//! The page of a notebook over HTTP, and what it asks over a WebSocket.
//!
//! Loopback is not authentication: every request shows a `Host` and, where a browser sends one, an
//! `Origin` of this server, and a socket shows the token before it is told anything.

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
use crate::room::Room;

mod assets;
mod guard;
mod socket;

/// Bytes of a message of a page.
const MESSAGE: usize = 4 << 20;
/// Pages that may be open at a time.
const PAGES: usize = 32;
/// How long the last page may be gone before a run is stopped.
const GRACE: Duration = Duration::from_secs(60);
/// How often a page is asked for a sign of life.
const BEAT: Duration = Duration::from_secs(20);
/// How long pages get to hear of the end.
const LEAVE: Duration = Duration::from_secs(2);

/// How a notebook is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// How long the last page may be gone before a run of the assistant is stopped. Default: 60 s.
    pub grace: Duration,
    /// How often a page is asked for a sign of life. One that gives none for four times as long is
    /// gone: its machine sleeps, or its network has left it. Default: 20 s.
    pub beat: Duration,
    /// Names of a proxy before the server, as `Host` and `Origin` may show them; without a port at
    /// any port. Default: none.
    pub hosts: Vec<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { grace: GRACE, beat: BEAT, hosts: Vec::new() }
    }
}

/// A notebook and its assistant, with an address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    options: ServerOptions,
}

/// What every connection has.
#[derive(Debug)]
struct Shared {
    room: Arc<Room>,
    chat: Arc<Chat>,
    token: String,
    names: guard::Names,
    seats: Arc<Semaphore>,
    beat: Duration,
    /// How many pages have shown the token and are there.
    pages: watch::Sender<usize>,
    leaving: CancellationToken,
}

impl Server {
    /// Takes an address of the loopback; port 0 is a free one.
    ///
    /// # Errors
    /// An address that is no loopback's or cannot be had.
    pub async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} is not on the loopback: whoever reaches the page runs programs on this \
                 machine; forward a port to reach it from elsewhere"
            ));
        }
        let listener = TcpListener::bind(address).await;
        listener.map_err(|error| format!("cannot listen on {address}: {error}"))
    }

    /// A notebook and its assistant, at an address that [`Self::listen`] has taken.
    ///
    /// # Errors
    /// The system has no address or no randomness to give.
    pub fn new(
        room: Arc<Room>,
        chat: Arc<Chat>,
        listener: TcpListener,
        options: ServerOptions,
    ) -> Result<Self, String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            room,
            chat,
            token: token()?,
            names: guard::Names { listen: address, hosts: options.hosts.clone() },
            seats: Arc::new(Semaphore::new(PAGES)),
            beat: options.beat,
            pages: watch::Sender::new(0),
            leaving: CancellationToken::new(),
        });
        Ok(Self { listener, address, shared, options })
    }

    /// Where it listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The page's address, with its token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.shared.token)
    }

    /// Serves until `stop`; then the assistant's run is stopped, the notebook saved and closed.
    ///
    /// # Errors
    /// Where connections can no longer be taken.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let Self { listener, shared, options, .. } = self;
        let watching = tokio::spawn(stop_when_left(Arc::clone(&shared), options.grace));
        let router = Router::new()
            .route("/api/ws", get(open))
            .fallback(get(file))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), admit))
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
        shared.stop(StoppedBy::Closed).await;
        shared.room.close().await;
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

/// Nobody looks any more: the spending ends, after a grace time in which a page may be loaded anew.
async fn stop_when_left(shared: Arc<Shared>, grace: Duration) {
    let mut pages = shared.pages.subscribe();
    loop {
        if pages.wait_for(|pages| *pages == 0).await.is_err() {
            return;
        }
        let back = tokio::time::timeout(grace, pages.wait_for(|pages| *pages > 0)).await.is_ok();
        if !back {
            shared.stop(StoppedBy::Left).await;
            let _ = pages.wait_for(|pages| *pages > 0).await;
        }
    }
}

impl Shared {
    /// Ends the assistant's run with all it does: model, tools, and what it has the kernel do.
    async fn stop(&self, by: StoppedBy) -> bool {
        let stopped = self.chat.stop(by).await;
        if stopped {
            // Behind its end: what it has the kernel do is broken off, and nothing new comes.
            self.room.interrupt().await;
        }
        stopped
    }
}

/// Refuses requests that another web page may have caused, and says to browsers what pages may do.
async fn admit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match guard::admit(request.headers(), request.uri(), &shared.names) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => (status, why).into_response(),
    };
    assets::protect(response.headers_mut());
    response
}

async fn file(uri: Uri) -> Response {
    assets::find(uri.path()).unwrap_or_else(|| {
        (StatusCode::NOT_FOUND, "there is nothing at this path\n").into_response()
    })
}

async fn open(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return (StatusCode::FORBIDDEN, guard::FOREIGN).into_response();
    }
    let seat = Arc::clone(&shared.seats).try_acquire_owned();
    upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE).on_upgrade(async move |socket| {
        let Ok(seat) = seat else { return socket::refuse(socket).await };
        socket::talk(shared, socket).await;
        drop(seat);
    })
}

/// A token that nobody can guess.
fn token() -> Result<String, String> {
    let mut token = [0_u8; 24];
    let filled = SystemRandom::new().fill(&mut token);
    filled.map_err(|_| "there is no randomness to make a token of".to_owned())?;
    Ok(token.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two addresses are the same machine's.
fn is_here(named: IpAddr, listen: IpAddr) -> bool {
    named.to_canonical() == listen.to_canonical()
}
