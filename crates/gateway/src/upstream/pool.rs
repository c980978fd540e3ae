//! Connections to one origin, kept for the requests to come: of HTTP/1.1 each for one request at a
//! time, of HTTP/2 one for as many as the other side takes.
//!
//! The connections are hyper's. Keeping them is done here and not by its utilities, whose pool
//! looks for the origin by its name with each request and leaves a task behind with most, a
//! thirtieth of what a governed request costs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::connect::{ConnectError, Connector, Link};
use crate::body::Outgoing;

mod kept;

use kept::{Kept, Line, Shared, Single};

/// Between two looks at the connections. The second that finds one unused closes it, so that it is
/// kept for 25 to 50 s; vendors' load balancers close after a minute or more.
const SWEEP: Duration = Duration::from_secs(25);

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
    /// Told when there is one more, while somebody waits for that.
    freed: Notify,
    swept: AtomicBool,
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// There is no connection for it.
    Connect(ConnectError),
    /// The connection broke, or what came is no HTTP.
    Broken(hyper::Error),
}

type Sent = (Response<Incoming>, Lease);
type Unsent = TrySendError<Request<Outgoing>>;

impl Pool {
    /// `None` for an authority that no header may have.
    pub(super) fn new(connector: Connector, scheme: Scheme, authority: Authority) -> Option<Self> {
        let to = address(&scheme, &authority, PathAndQuery::from_static("/"));
        let proxy = connector.reader(&to);
        Some(Self {
            host: host(&scheme, &authority)?,
            connector,
            scheme,
            authority,
            proxied: proxy.is_some(),
            login: proxy.and_then(|proxy| proxy.basic_auth().cloned()),
            kept: Mutex::default(),
            freed: Notify::new(),
            swept: AtomicBool::new(false),
        })
    }

    /// Sends a request over a connection that is there, or over a new one. What an old connection
    /// turns out not to have sent at all, as it was closed meanwhile, goes over the next.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Outgoing>,
        path: &PathAndQuery,
    ) -> Result<Sent, SendError> {
        loop {
            let taken = self.kept().take();
            let (line, new) = match taken {
                Some(line) => (line, false),
                // It is much to hold, and rare.
                None => Box::pin(self.made_or_freed()).await?,
            };
            let mut unsent = match self.send_over(line, request, path).await {
                Ok(sent) => return Ok(sent),
                Err(unsent) => unsent,
            };
            request = match unsent.take_message() {
                Some(request) if !new => request,
                _ => return Err(SendError::Broken(unsent.into_error())),
            };
        }
    }

    async fn send_over(
        self: &Arc<Self>,
        mut line: Line,
        mut request: Request<Outgoing>,
        path: &PathAndQuery,
    ) -> Result<Sent, Unsent> {
        let response = match &mut line {
            Line::Single(sender) => {
                self.address_single(&mut request, path);
                sender.try_send_request(request).await?
            }
            Line::Shared(shared) => {
                *request.uri_mut() = self.address(path);
                // Of a connection of HTTP/1.1 that did not send it.
                request.headers_mut().remove(HOST);
                let sent = shared.sender.try_send_request(request).await;
                sent.inspect_err(|unsent| {
                    if unsent.message().is_some() {
                        self.kept().forget(shared);
                    }
                })?
            }
        };
        Ok((response, Lease { line: Some(line), pool: Arc::clone(self) }))
    }

    fn address_single(&self, request: &mut Request<Outgoing>, path: &PathAndQuery) {
        *request.uri_mut() =
            if self.proxied { self.address(path) } else { Uri::from(path.clone()) };
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some(login) = &self.login {
            headers.insert(PROXY_AUTHORIZATION, login.clone());
        }
    }

    fn address(&self, path: &PathAndQuery) -> Uri {
        address(&self.scheme, &self.authority, path.clone())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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

/// With the port where it is not the scheme's own.
fn host(scheme: &Scheme, authority: &Authority) -> Option<HeaderValue> {
    let own = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    let bare = authority.port_u16() == Some(own);
    let host = if bare { authority.host() } else { authority.as_str() };
    HeaderValue::from_str(host).ok()
}

/// Getting connections.
impl Pool {
    /// A new connection, and `true`, or one that becomes free before it is there; then the new one
    /// is for whoever comes next.
    async fn made_or_freed(self: &Arc<Self>) -> Result<(Line, bool), SendError> {
        let _waiting = Waiting::at(self);
        let mut made = None;
        loop {
            // Before the look: what is told in between is heard.
            let freed = self.freed.notified();
            let taken = self.kept().take();
            if let Some(line) = taken {
                if let Some(made) = made {
                    tokio::spawn(keep_made(made, Arc::clone(self)));
                }
                return Ok((line, false));
            }
            let made = made.get_or_insert_with(|| Box::pin(Arc::clone(self).connect()));
            tokio::select! {
                biased;
                made = made => return made,
                () = freed => {}
            }
        }
    }

    async fn connect(self: Arc<Self>) -> Result<(Line, bool), SendError> {
        let to = self.address(&PathAndQuery::from_static("/"));
        let link = self.connector.connect(to).await.map_err(SendError::Connect)?;
        self.sweep_from_now_on();
        let made =
            if link.speaks_http_2() { self.begin_shared(link).await } else { begin(link).await };
        made.map_err(SendError::Broken)
    }

    /// Of connections that are made at the same time, one serves all.
    async fn begin_shared(&self, link: Link) -> hyper::Result<(Line, bool)> {
        let (mut sender, mut connection) = http2::handshake(TokioExecutor::new(), link).await?;
        until(&mut connection, sender.ready()).await?;
        let most = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let own = Shared::new(sender, Arc::clone(&most));
        // What the other side says of it comes later, and may change.
        tokio::spawn(carry(poll_fn(move |cx| {
            let ended = Pin::new(&mut connection).poll(cx);
            most.store(connection.current_max_send_streams(), Ordering::Relaxed);
            ended
        })));
        let first = self.kept().share(&own);
        self.freed.notify_waiters();
        Ok(first.map_or((Line::Shared(own), true), |first| (Line::Shared(first), false)))
    }

    /// Takes one back: at once, or when hyper has read what is left of a response.
    fn keep(self: &Arc<Self>, mut sender: Single) {
        if sender.is_ready() {
            self.put(sender);
        } else if !sender.is_closed()
            // At the end of the process there is none, and nothing to keep.
            && let Ok(runtime) = Handle::try_current()
        {
            let pool = Arc::clone(self);
            runtime.spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.put(sender);
                }
            });
        }
    }

    fn put(&self, sender: Single) {
        let mut kept = self.kept();
        kept.put(sender);
        let waiting = kept.waiting > 0;
        drop(kept);
        if waiting {
            self.freed.notify_one();
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
                pool.kept().sweep();
            }
        });
    }
}

async fn begin(link: Link) -> hyper::Result<(Line, bool)> {
    let (mut sender, mut connection) = http1::handshake(link).await?;
    until(&mut connection, sender.ready()).await?;
    tokio::spawn(carry(connection));
    Ok((Line::Single(sender), true))
}

/// Works for a connection until it is ready. What goes wrong meanwhile only the connection knows.
async fn until(
    connection: &mut (impl Future<Output = hyper::Result<()>> + Unpin),
    ready: impl Future<Output = hyper::Result<()>>,
) -> hyper::Result<()> {
    tokio::select! {
        biased;
        ended = connection => ended,
        ready = ready => ready,
    }
}

/// Works for a connection until it is closed. Who has a request on it is told what went wrong.
async fn carry(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection to an upstream");
    }
}

/// One of HTTP/2 is kept as soon as it is made.
async fn keep_made(made: impl Future<Output = Result<(Line, bool), SendError>>, pool: Arc<Pool>) {
    if let Ok((Line::Single(sender), _)) = made.await {
        pool.keep(sender);
    }
}

/// Somebody waits for a connection.
struct Waiting<'p>(&'p Pool);

impl<'p> Waiting<'p> {
    fn at(pool: &'p Pool) -> Self {
        pool.kept().waiting += 1;
        Self(pool)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.kept().waiting -= 1;
    }
}

/// A connection while a response comes over it; behind that it is there for others.
#[derive(Debug)]
pub(crate) struct Lease {
    line: Option<Line>,
    pool: Arc<Pool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(Line::Single(sender)) = self.line.take() {
            self.pool.keep(sender);
        }
    }
}
