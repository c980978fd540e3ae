//! The listening side: connections, requests, and the way to a stop.
//!
//! Each connection is one task, and a request is handled in its connection's task: when the client
//! goes away, all that was done for it is dropped, the upstream's request included.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use softland_ledger::{Clock, OpenError};

use crate::gate::{self, Gate, ReloadProblem, UpstreamProblem};
use crate::metrics::Summary;
use crate::settings::Settings;

pub(crate) mod connection;
mod request;

/// Connections that the system keeps for us before they are accepted.
const BACKLOG: u32 = 4096;
/// After an error of the listener itself, such as too many open files; and the least between two
/// looks for idle runs.
const PAUSE: Duration = Duration::from_millis(50);
/// How long streams that were cut off may take to close their accounts.
const ACCOUNTS_CLOSE: Duration = Duration::from_secs(1);
/// How long those may take who ask how it is, once there is nothing more to say.
const LAST_LOOKS: Duration = Duration::from_millis(250);
/// How long the ledger may take to write what waits.
const LEDGER_CLOSES: Duration = Duration::from_secs(5);

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Where clients ask for models.
    Clients,
    /// Where it is only said how the gateway is.
    Admin,
}

/// A gateway that listens.
pub struct Gateway {
    gate: Arc<Gate>,
    clients: Listener,
    admin: Option<Listener>,
}

struct Listener {
    listener: TcpListener,
    local: SocketAddr,
    door: Door,
}

/// A way to a running gateway. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    gate: Arc<Gate>,
}

impl Gateway {
    /// Takes the addresses and prepares the upstreams. Nothing is served before
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// When an address cannot be had or an upstream cannot be used.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        Self::bind_with_clock(settings, Arc::new(gate::system_clock)).await
    }

    /// The same with another clock: it says which runs nobody goes on with, how much of a time
    /// limit is used, and what stands in the ledger. Pauses on the wire have the system's.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_with_clock(settings: Settings, clock: Clock) -> Result<Self, StartError> {
        // First, so that an address that is taken leaves no file behind.
        let clients = Listener::at(settings.listen, Door::Clients)?;
        let admin = settings.admin.listen.map(|at| Listener::at(at, Door::Admin)).transpose()?;
        let pages = admin.as_ref().unwrap_or(&clients).local;
        let gate = Arc::new(Gate::new(settings, clock, pages)?);
        Ok(Self { gate, clients, admin })
    }

    /// Where it listens, with the port it got.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.clients.local
    }

    /// Where it says how it is, if that is an address of its own.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.local)
    }

    /// The address of its pages, for a person: with the token in its fragment, unless the
    /// configuration names one.
    #[must_use]
    pub fn pages_url(&self) -> String {
        self.gate.pages_url()
    }

    /// A way to it while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { gate: Arc::clone(&self.gate) }
    }

    /// Serves until `shutdown` is done, then lets requests under way end, for the drain time at
    /// most. The admin address is served to the end of that.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Summary {
        let Self { gate, clients, admin } = self;
        gate.upstreams.warm(gate.live().origins.values().cloned());
        let (ends, looks) = (Ends::until(&gate.cut), Ends::until(&CancellationToken::new()));
        let mut shutdown = pin!(shutdown);
        let mut sweep = tokio::time::interval(gate.live().settings.limits.sweep.max(PAUSE));
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = clients.accept() => clients.take(&gate, &ends, accepted).await,
                accepted = accept(admin.as_ref()) => look(&gate, &looks, accepted).await,
                _ = sweep.tick() => gate.end_idle(),
            }
        }
        gate.drain();
        drop(clients);
        let limit = gate.live().settings.limits.drain;
        let mut drained = pin!(ends.drain(limit));
        loop {
            tokio::select! {
                biased;
                () = &mut drained => break,
                accepted = accept(admin.as_ref()) => look(&gate, &looks, accepted).await,
            }
        }
        drop(admin);
        looks.drain(LAST_LOOKS).await;
        close_accounts(&gate).await;
        gate.metrics.summary()
    }
}

impl Handle {
    /// Puts new settings in force for requests that come from now on.
    ///
    /// # Errors
    /// When they would need a restart or cannot be used; then the old ones stay.
    pub fn reload(&self, settings: Settings) -> Result<(), ReloadProblem> {
        self.gate.reload(settings)
    }

    /// As [`Gateway::pages_url`].
    #[must_use]
    pub fn pages_url(&self) -> String {
        self.gate.pages_url()
    }

    /// What the gateway has done so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.gate.metrics.summary()
    }

    /// Cuts off what is under way once the gateway is told to stop, rather than let it end. What
    /// it came to is booked, and the ledger is written to its end all the same.
    pub fn cut_off(&self) {
        self.gate.cut.cancel();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("local", &self.clients.local).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

/// Why a gateway does not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be had.
    Listen {
        /// Which.
        at: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// An upstream cannot be used.
    Upstream(UpstreamProblem),
    /// The ledger or the event log cannot be written.
    Ledger(OpenError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { at, error } => write!(f, "cannot listen on {at}: {error}"),
            Self::Upstream(problem) => write!(f, "{problem}"),
            Self::Ledger(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { error, .. } => Some(error),
            Self::Upstream(problem) => Some(problem),
            Self::Ledger(error) => Some(error),
        }
    }
}

fn listen_at(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows it would let two programs share the port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Streams are booked, runs are ended, and the ledger is written: for as long as each may take.
async fn close_accounts(gate: &Gate) {
    gate.flows.close();
    if tokio::time::timeout(ACCOUNTS_CLOSE, gate.flows.wait()).await.is_err() {
        tracing::error!(streams = gate.flows.len(), "streams that were cut off are not booked");
    }
    gate.end_all();
    let Some(ledger) = gate.ledger.clone() else { return };
    let written = tokio::task::spawn_blocking(move || ledger.close(LEDGER_CLOSES)).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::error!("the ledger could not be written to its end");
    }
}

/// How connections learn of the end.
#[derive(Clone, Debug)]
struct Ends {
    tasks: TaskTracker,
    /// No new request; the one under way may end.
    soon: CancellationToken,
    /// At once.
    now: CancellationToken,
}

impl Ends {
    fn until(now: &CancellationToken) -> Self {
        let (tasks, soon) = (TaskTracker::new(), CancellationToken::new());
        Self { tasks, soon, now: now.clone() }
    }

    async fn drain(&self, limit: Duration) {
        self.tasks.close();
        self.soon.cancel();
        let in_time = tokio::select! {
            () = self.tasks.wait() => true,
            () = self.now.cancelled() => false,
            () = tokio::time::sleep(limit) => false,
        };
        if !in_time {
            tracing::warn!(connections = self.tasks.len(), "cut off");
            self.now.cancel();
            self.tasks.wait().await;
        }
    }
}

type Accepted = io::Result<(TcpStream, SocketAddr)>;

impl Listener {
    fn at(at: SocketAddr, door: Door) -> Result<Self, StartError> {
        let listen = |error| StartError::Listen { at, error };
        let listener = listen_at(at).map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        Ok(Self { listener, local, door })
    }

    async fn accept(&self) -> Accepted {
        self.listener.accept().await
    }

    async fn take(&self, gate: &Arc<Gate>, ends: &Ends, accepted: Accepted) {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(PAUSE).await;
                return;
            }
        };
        let limit = gate.live().settings.limits.connections;
        if gate.connections.fetch_add(1, Ordering::Relaxed) >= limit {
            gate.connections.fetch_sub(1, Ordering::Relaxed);
            gate.metrics.event("connection_refused");
            connection::refuse(stream);
            return;
        }
        let place = Place(Arc::clone(gate));
        let (soon, now) = (ends.soon.clone(), ends.now.clone());
        let (local, door) = (self.local, self.door);
        ends.tasks.spawn(async move {
            connection::serve(&place.0, stream, (local, door), soon, now).await;
        });
    }
}

/// Somebody at the admin address, if there is one.
async fn accept(admin: Option<&Listener>) -> (&Listener, Accepted) {
    match admin {
        Some(admin) => (admin, admin.accept().await),
        None => std::future::pending().await,
    }
}

async fn look(gate: &Arc<Gate>, looks: &Ends, (admin, accepted): (&Listener, Accepted)) {
    admin.take(gate, looks, accepted).await;
}

/// One of the connections that there may be; free again however its task ends.
struct Place(Arc<Gate>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
