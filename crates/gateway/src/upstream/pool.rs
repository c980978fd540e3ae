//! Connections to one origin, kept for the requests to come: of HTTP/1.1 each for one request at a
//! time, of HTTP/2 one for all of them.
//!
//! The connections are hyper's. Keeping them is done here and not by its utilities, whose pool
//! looks for the origin by its name with each request and leaves a task behind with most, a
//! twentieth of what a governed request costs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioExecutor;

use super::connect::{ConnectError, Connector};
use crate::body::Outgoing;

/// Between two looks at the unused connections. The second that finds one unused closes it, so
/// that it is kept for 25 to 50 s; vendors' load balancers close after a minute or more.
const SWEEP: Duration = Duration::from_secs(25);
/// Unused connections kept to one origin.
const SIZE: usize = 1024;

/// The connections to one origin.
#[derive(Debug)]
pub(crate) struct Pool {
    connector: Connector,
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// Whether a proxy reads the requests, which it wants to see with the whole address.
    proxied: bool,
    /// What it wants to see besides.
    login: Option<HeaderValue>,
    kept: Mutex<Kept>,
    swept: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of HTTP/1.1, the newest last.
    single: Vec<Unused<Single>>,
    /// Of HTTP/2.
    shared: Option<Unused<Shared>>,
}

type Single = http1::SendRequest<Outgoing>;
type Shared = http2::SendRequest<Outgoing>;

#[derive(Debug)]
struct Unused<T> {
    sender: T,
    /// A look has found it unused already.
    found: bool,
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// There is no connection for it.
    Connect(ConnectError),
    /// The connection broke, or what came is no HTTP.
    Broken(hyper::Error),
}

type Sent = (Response<Incoming>, Option<Lease>);
type Unsent = TrySendError<Request<Outgoing>>;

impl Pool {
    /// `None` for an authority that no header may have.
    pub(super) fn new(connector: Connector, scheme: Scheme, authority: Authority) -> Option<Self> {
        let to = address(&scheme, &authority, PathAndQuery::from_static("/"));
        let host = HeaderValue::from_str(authority.as_str()).ok()?;
        let proxy = connector.reader(&to);
        let proxied = proxy.is_some();
        let login = proxy.and_then(|proxy| proxy.basic_auth().cloned());
        let (kept, swept) = Default::default();
        Some(Self { connector, scheme, authority, host, proxied, login, kept, swept })
    }

    /// Sends a request over a connection that is there, or over a new one. What an old connection
    /// turns out not to have sent at all, as it was closed meanwhile, goes over the next.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Outgoing>,
        path: &PathAndQuery,
    ) -> Result<Sent, SendError> {
        loop {
            let sent = if let Some(sender) = self.single() {
                self.send_single(sender, request, path).await
            } else if let Some(sender) = self.shared() {
                self.send_shared(sender, request, path).await
            } else {
                break;
            };
            request = match sent {
                Ok(sent) => return Ok(sent),
                Err(mut unsent) => match unsent.take_message() {
                    Some(request) => request,
                    None => return Err(SendError::Broken(unsent.into_error())),
                },
            };
        }
        // Connecting is much to hold, and rare.
        let sent = match Box::pin(self.connect()).await? {
            Connected::Single(sender) => self.send_single(sender, request, path).await,
            Connected::Shared(sender) => self.send_shared(sender, request, path).await,
        };
        sent.map_err(|unsent| SendError::Broken(unsent.into_error()))
    }

    async fn send_single(
        self: &Arc<Self>,
        mut sender: Single,
        mut request: Request<Outgoing>,
        path: &PathAndQuery,
    ) -> Result<Sent, Unsent> {
        *request.uri_mut() =
            if self.proxied { self.address(path) } else { Uri::from(path.clone()) };
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some(login) = &self.login {
            headers.insert(PROXY_AUTHORIZATION, login.clone());
        }
        let response = sender.try_send_request(request).await?;
        Ok((response, Some(Lease { sender: Some(sender), pool: Arc::clone(self) })))
    }

    async fn send_shared(
        &self,
        mut sender: Shared,
        mut request: Request<Outgoing>,
        path: &PathAndQuery,
    ) -> Result<Sent, Unsent> {
        *request.uri_mut() = self.address(path);
        // Of a connection of HTTP/1.1 that did not send it.
        request.headers_mut().remove(HOST);
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, None)),
            Err(unsent) => {
                // It may say for long that it is ready, and sends nothing more.
                self.kept().shared = None;
                Err(unsent)
            }
        }
    }

    fn address(&self, path: &PathAndQuery) -> Uri {
        address(&self.scheme, &self.authority, path.clone())
    }
}

/// All three are valid, and so is what they make.
fn address(scheme: &Scheme, authority: &Authority, path: PathAndQuery) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme.clone());
    parts.authority = Some(authority.clone());
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).unwrap_or_default()
}

/// A new connection.
enum Connected {
    Single(Single),
    Shared(Shared),
}

impl Pool {
    async fn connect(self: &Arc<Self>) -> Result<Connected, SendError> {
        let to = self.address(&PathAndQuery::from_static("/"));
        let link = self.connector.connect(to).await.map_err(SendError::Connect)?;
        self.sweep_from_now_on();
        if link.speaks_http_2() {
            let handshake = http2::handshake(TokioExecutor::new(), link).await;
            let (mut sender, connection) = handshake.map_err(SendError::Broken)?;
            tokio::spawn(carry(connection));
            sender.ready().await.map_err(SendError::Broken)?;
            return Ok(Connected::Shared(self.share(sender)));
        }
        let handshake = http1::handshake(link).await;
        let (mut sender, connection) = handshake.map_err(SendError::Broken)?;
        tokio::spawn(carry(connection));
        sender.ready().await.map_err(SendError::Broken)?;
        Ok(Connected::Single(sender))
    }

    /// Of connections that are made at the same time, one serves all.
    fn share(&self, sender: Shared) -> Shared {
        let mut kept = self.kept();
        match &kept.shared {
            Some(first) if first.sender.is_ready() => first.sender.clone(),
            _ => kept.shared.insert(Unused { sender, found: false }).sender.clone(),
        }
    }

    /// A connection of HTTP/1.1 that is free, the one that was used last.
    fn single(&self) -> Option<Single> {
        let mut kept = self.kept();
        let free = kept.single.iter().rposition(|unused| unused.sender.is_ready())?;
        Some(kept.single.remove(free).sender)
    }

    /// The connection of HTTP/2.
    fn shared(&self) -> Option<Shared> {
        let mut kept = self.kept();
        let unused = kept.shared.as_mut().filter(|unused| unused.sender.is_ready())?;
        unused.found = false;
        Some(unused.sender.clone())
    }

    fn keep(&self, sender: Single) {
        let mut kept = self.kept();
        if kept.single.len() < SIZE && !sender.is_closed() {
            kept.single.push(Unused { sender, found: false });
        }
    }

    fn sweep_from_now_on(self: &Arc<Self>) {
        if self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let Some(pool) = pool.upgrade() else { return };
                pool.sweep();
            }
        });
    }

    fn sweep(&self) {
        let mut kept = self.kept();
        kept.single.retain_mut(|unused| !unused.sender.is_closed() && !unused.is_old());
        if kept.shared.as_mut().is_some_and(|unused| unused.sender.is_closed() || unused.is_old()) {
            kept.shared = None;
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Unused<T> {
    fn is_old(&mut self) -> bool {
        std::mem::replace(&mut self.found, true)
    }
}

/// Works for a connection until it is closed. Who has a request on it is told what went wrong.
async fn carry(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection to an upstream");
    }
}

/// A connection of HTTP/1.1 while a response comes over it; behind that it is there for others.
///
/// Dropped early it goes back, too, but is not free until hyper has read what is left, or closed.
pub(crate) struct Lease {
    sender: Option<Single>,
    pool: Arc<Pool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.pool.keep(sender);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}
