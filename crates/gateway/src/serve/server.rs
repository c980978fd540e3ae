//! The listening side: accepts connections and requests, and shuts down in order.
//!
//! Each connection is one task, which also handles the connection's requests. When the client
//! disconnects, all work for it is dropped, including the upstream request.

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

use softland_ledger::Clock;

use crate::budgets;
use crate::metrics::Summary;
use crate::serve::guard::EntryPoint;
use crate::settings::Settings;
use crate::state::{self, GatewayState, ReloadProblem, StartError};
use crate::stored_keys;

mod connection;
mod request;

/// The number of connections that the system queues before they are accepted.
const BACKLOG: u32 = 4096;
/// The pause after an error of the listener itself, such as too many open files, and the shortest
/// interval between two sweeps for idle runs.
const PAUSE: Duration = Duration::from_millis(50);
/// The interval between two looks for runs that another gateway has cancelled.
const CANCELS: Duration = Duration::from_secs(1);
/// The interval in which the leases of reservations are extended: a quarter of their length.
const LEASES: Duration = Duration::from_secs(15);
/// The interval between two looks at what the windows of budgets have spent.
const BUDGETS: Duration = Duration::from_secs(15);
/// The time that streams that were cut off have to book their spend.
const ACCOUNTS_CLOSE: Duration = Duration::from_secs(1);
/// The time that requests to the admin address have after the last client request has ended.
const LAST_LOOKS: Duration = Duration::from_millis(250);
/// The time that the ledger has to write the queued records.
const LEDGER_CLOSES: Duration = Duration::from_secs(5);

/// A gateway that listens.
pub struct Gateway {
    gate: Arc<GatewayState>,
    clients: Listener,
    admin: Option<Listener>,
}

struct Listener {
    listener: TcpListener,
    local: SocketAddr,
    entry: EntryPoint,
}

/// A handle to a running gateway. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    gate: Arc<GatewayState>,
}

impl Gateway {
    /// Binds the addresses and prepares the upstreams. Nothing is served before
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// Returns an error if an address cannot be bound or an upstream cannot be used.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        Self::bind_with_clock(settings, Arc::new(state::system_clock)).await
    }

    /// Binds like [`bind`](Self::bind), with another clock. The clock decides which runs are idle
    /// and how much of a time limit is used, and it dates the ledger's records. Pauses on the wire
    /// use the system's clock.
    ///
    /// # Errors
    /// The same as those of [`bind`](Self::bind).
    pub async fn bind_with_clock(settings: Settings, clock: Clock) -> Result<Self, StartError> {
        // Bound first, so that an occupied address leaves no file behind.
        let clients = Listener::bind_entry(settings.listen, EntryPoint::Clients)?;
        let admin = settings
            .admin
            .listen
            .map(|at| Listener::bind_entry(at, EntryPoint::Admin))
            .transpose()?;
        let pages = admin.as_ref().unwrap_or(&clients).local;
        let gate = Arc::new(GatewayState::new(settings, clock, pages)?);
        budgets::book_recorded_spend(&gate).await;
        stored_keys::read_first(&gate).await;
        Ok(Self { gate, clients, admin })
    }

    /// Returns the address on which the gateway listens, with its actual port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.clients.local
    }

    /// Returns the admin address, if it is an address of its own.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.local)
    }

    /// Returns the address of the gateway's pages, as it is shown to a person: with the token in
    /// its fragment, unless the configuration names one.
    #[must_use]
    pub fn pages_url(&self) -> String {
        self.gate.pages_url()
    }

    /// Returns a handle that works while the gateway runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { gate: Arc::clone(&self.gate) }
    }

    /// Serves until `shutdown` resolves, then lets running requests end within the drain time. The
    /// admin address is served until all of them have ended. Returns a summary of everything the
    /// gateway has done.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Summary {
        let Self { gate, clients, admin } = self;
        gate.upstreams.load_roots(gate.live_config().origins.values().cloned());
        let (ends, looks) = (
            Shutdown::with_cutoff(&gate.serving.cut),
            Shutdown::with_cutoff(&CancellationToken::new()),
        );
        let mut shutdown = pin!(shutdown);
        let mut sweeping = pin!(sweep_runs(&gate));
        let mut following = pin!(stored_keys::follow_keys(&gate));
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = clients.accept() => clients.serve_accepted(&gate, &ends, accepted).await,
                accepted = accept_admin(admin.as_ref()) => serve_admin(&gate, &looks, accepted).await,
                () = &mut sweeping => {}
                () = &mut following => {}
            }
        }
        gate.start_draining();
        drop(clients);
        let limit = gate.live_config().settings.limits.drain;
        let mut drained = pin!(ends.drain_tasks(limit));
        loop {
            tokio::select! {
                biased;
                () = &mut drained => break,
                accepted = accept_admin(admin.as_ref()) => serve_admin(&gate, &looks, accepted).await,
                () = &mut sweeping => {}
                () = &mut following => {}
            }
        }
        drop(admin);
        looks.drain_tasks(LAST_LOOKS).await;
        close_accounts(&gate).await;
        gate.watch.to_summary()
    }
}

impl Handle {
    /// Puts new settings in force for requests that arrive from now on.
    ///
    /// # Errors
    /// Returns an error if the settings would need a restart or cannot be used. The old ones stay
    /// then.
    pub fn reload(&self, settings: Settings) -> Result<(), ReloadProblem> {
        self.gate.replace_settings(settings)
    }

    /// Returns the same address as [`Gateway::pages_url`].
    #[must_use]
    pub fn pages_url(&self) -> String {
        self.gate.pages_url()
    }

    /// Returns a summary of what the gateway has done so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.gate.watch.to_summary()
    }

    /// Cuts off running requests once the gateway is told to stop, instead of letting them end.
    /// Their spend so far is booked, and the ledger is still written to its end.
    pub fn cut_off(&self) {
        self.gate.serving.cut.cancel();
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

fn listen_at(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows this option would let two programs share the port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Ends runs that have been idle for too long, gives up the requests of runs that were cancelled
/// elsewhere, extends the leases of reservations, and books what was spent while the accounts did
/// not respond. Never resolves.
async fn sweep_runs(gate: &GatewayState) {
    let mut sweep = tokio::time::interval(gate.live_config().settings.limits.sweep.max(PAUSE));
    let mut cancels = tokio::time::interval(CANCELS);
    let mut leases = tokio::time::interval(LEASES);
    let mut budgets = tokio::time::interval(BUDGETS);
    loop {
        tokio::select! {
            _ = sweep.tick() => gate.end_idle().await,
            _ = cancels.tick() => gate.services.stop_cancelled().await,
            _ = leases.tick() => {
                gate.services.renew_leases().await;
                gate.services.book_unheld_spend().await;
            }
            _ = budgets.tick() => note_budgets(gate).await,
        }
    }
}

/// Tells the operator of budgets that have reached a share.
async fn note_budgets(gate: &GatewayState) {
    if let Err(error) = budgets::windows::read_windows(gate).await {
        tracing::debug!(%error, "the windows of budgets are not known");
    }
}

/// Books the spend of streams, ends the open runs and writes the ledger, each within its time
/// limit.
async fn close_accounts(gate: &GatewayState) {
    gate.services.tasks.close();
    if tokio::time::timeout(ACCOUNTS_CLOSE, gate.services.tasks.wait()).await.is_err() {
        tracing::error!(
            streams = gate.services.tasks.len(),
            "streams that were cut off are not booked"
        );
    }
    gate.services.end_runs_without_state().await;
    let Some(ledger) = gate.watch.ledger.clone() else { return };
    let written = tokio::task::spawn_blocking(move || ledger.close(LEDGER_CLOSES)).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::error!("the ledger could not be written to its end");
    }
}

/// The signals that tell connections to end.
#[derive(Clone, Debug)]
struct Shutdown {
    tasks: TaskTracker,
    /// Cancelled when no new request may begin; the running one may end.
    soon: CancellationToken,
    /// Cancelled when connections must end at once.
    now: CancellationToken,
}

impl Shutdown {
    fn with_cutoff(now: &CancellationToken) -> Self {
        let (tasks, soon) = (TaskTracker::new(), CancellationToken::new());
        Self { tasks, soon, now: now.clone() }
    }

    async fn drain_tasks(&self, limit: Duration) {
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
    fn bind_entry(at: SocketAddr, entry: EntryPoint) -> Result<Self, StartError> {
        let listen = |error| StartError::Listen { at, error };
        let listener = listen_at(at).map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        Ok(Self { listener, local, entry })
    }

    async fn accept(&self) -> Accepted {
        self.listener.accept().await
    }

    async fn serve_accepted(&self, gate: &Arc<GatewayState>, ends: &Shutdown, accepted: Accepted) {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(PAUSE).await;
                return;
            }
        };
        let limit = gate.live_config().settings.limits.connections;
        if gate.serving.connections.fetch_add(1, Ordering::Relaxed) >= limit {
            gate.serving.connections.fetch_sub(1, Ordering::Relaxed);
            gate.watch.metrics.count_event("connection_refused");
            // Without a handshake, a client of TLS could not read a reason.
            if gate.live_config().settings.tls.is_none() {
                connection::refuse_connection(stream);
            }
            return;
        }
        let place = ConnectionSlot(Arc::clone(gate));
        let (soon, now) = (ends.soon.clone(), ends.now.clone());
        let (local, entry) = (self.local, self.entry);
        ends.tasks.spawn(async move {
            connection::serve_connection(&place.0, stream, (local, entry), soon, now).await;
        });
    }
}

/// Accepts a connection at the admin address; never resolves if there is none.
async fn accept_admin(admin: Option<&Listener>) -> (&Listener, Accepted) {
    match admin {
        Some(admin) => (admin, admin.accept().await),
        None => std::future::pending().await,
    }
}

async fn serve_admin(
    gate: &Arc<GatewayState>,
    looks: &Shutdown,
    (admin, accepted): (&Listener, Accepted),
) {
    admin.serve_accepted(gate, looks, accepted).await;
}

/// One of the limited number of connections. It is released however the connection's task ends.
struct ConnectionSlot(Arc<GatewayState>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.serving.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
