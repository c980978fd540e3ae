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

use softland_ledger::OpenError;
use softland_session::core::{Ended, Outcome, Reason};

use crate::gate::{Gate, ReloadProblem, UpstreamProblem};
use crate::govern;
use crate::metrics::Summary;
use crate::settings::Settings;

pub(crate) mod connection;
mod request;

/// Connections that the system keeps for us before they are accepted.
const BACKLOG: u32 = 4096;
/// After an error of the listener itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked for runs that nobody goes on with.
const SWEEP: Duration = Duration::from_secs(30);
/// How long the ledger may take to write what waits.
const LEDGER_CLOSES: Duration = Duration::from_secs(5);

/// A gateway that listens.
pub struct Gateway {
    gate: Arc<Gate>,
    listener: TcpListener,
    local: SocketAddr,
}

/// A way to a running gateway. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    gate: Arc<Gate>,
}

impl Gateway {
    /// Takes the address and prepares the upstreams. Nothing is served before [`run`](Self::run).
    ///
    /// # Errors
    /// When the address cannot be had or an upstream cannot be used.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        let at = settings.listen;
        let listen = |error| StartError::Listen { at, error };
        // First, so that an address that is taken leaves no file behind.
        let listener = listen_at(at).map_err(listen)?;
        let gate = Arc::new(Gate::new(settings)?);
        let local = listener.local_addr().map_err(listen)?;
        Ok(Self { gate, listener, local })
    }

    /// Where it listens, with the port it got.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// A way to it while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { gate: Arc::clone(&self.gate) }
    }

    /// Serves until `shutdown` is done, then lets requests under way end, for the drain time at
    /// most.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Summary {
        let Self { gate, listener, local } = self;
        gate.upstreams.warm(gate.live().origins.values().cloned());
        let ends = Ends::default();
        let mut shutdown = pin!(shutdown);
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = listener.accept() => take(&gate, &ends, local, accepted).await,
                _ = sweep.tick() => end_idle(&gate),
            }
        }
        gate.drain();
        drop(listener);
        ends.drain(gate.live().settings.limits.drain).await;
        close_ledger(&gate).await;
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

    /// What the gateway has done so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.gate.metrics.summary()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("local", &self.local).finish_non_exhaustive()
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

/// Runs that nobody goes on with are over (contract §7).
fn end_idle(gate: &Gate) {
    let now = gate.now();
    for (run, open) in gate.runs.idle(now) {
        let ended = Ended::plain(Outcome::Cancelled, Reason::User);
        gate.metrics.run_ended(ended.outcome);
        gate.tell(|| govern::ends(now, &run, ended, false, None, &open));
    }
}

/// What is still to be written is written, for as long as that may take.
async fn close_ledger(gate: &Gate) {
    let Some(ledger) = gate.ledger.clone() else { return };
    let written = tokio::task::spawn_blocking(move || ledger.close(LEDGER_CLOSES)).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::error!("the ledger could not be written to its end");
    }
}

/// How connections learn of the end.
#[derive(Clone, Debug, Default)]
struct Ends {
    tasks: TaskTracker,
    /// No new request; the one under way may end.
    soon: CancellationToken,
    /// At once.
    now: CancellationToken,
}

impl Ends {
    async fn drain(&self, limit: Duration) {
        self.tasks.close();
        self.soon.cancel();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "cut off after the drain time");
            self.now.cancel();
            self.tasks.wait().await;
        }
    }
}

async fn take(
    gate: &Arc<Gate>,
    ends: &Ends,
    local: SocketAddr,
    accepted: io::Result<(TcpStream, SocketAddr)>,
) {
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
    ends.tasks.spawn(async move {
        connection::serve(&place.0, stream, local, soon, now).await;
    });
}

/// One of the connections that there may be; free again however its task ends.
struct Place(Arc<Gate>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
