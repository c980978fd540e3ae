//! The state that all requests of a gateway share: settings that a reload replaces, upstreams and
//! counters.
//!
//! This module decides nothing about a request.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use softland_govern::{
    Conversations, GovernSettings, HeldLeases, KnownModels, LocalState, NameGenerator, RequestIds,
    RunningRequests, Services, SharedState, TokenCounts, UnbookedSpend,
};
use softland_ledger::{Clock, Ledger, OpenError, Options};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::secret::Secret;
use crate::serve::guard::Guard;
use crate::serve::request_body::BodyBudget;
use crate::serve::upstream::{Origin, Upstreams};
use crate::settings::{Settings, UpstreamProblem};
use crate::stored_keys::StoredKeyRing;
use crate::token;
use crate::watch::Watch;

/// The state that all requests of a gateway share.
pub(crate) struct GatewayState {
    live: ArcSwap<LiveConfig>,
    /// The state of governing.
    pub(crate) services: Arc<Services>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) upstreams: Upstreams,
    /// The keys of the shared store.
    pub(crate) stored_keys: Arc<StoredKeyRing>,
    pub(crate) serving: Serving,
    pub(crate) pages: PagesState,
}

/// The state of what is being served.
pub(crate) struct Serving {
    pub(crate) requests: RequestIds,
    /// The metrics label of requests that are not sent to an upstream.
    pub(crate) no_upstream: Arc<str>,
    /// The memory that the bodies of all requests may use together.
    pub(crate) bodies: BodyBudget,
    /// The number of open client connections.
    pub(crate) connections: AtomicUsize,
    /// Cancelled to cut off everything that is still being served.
    pub(crate) cut: CancellationToken,
    draining: AtomicBool,
}

/// The state of the pages.
pub(crate) struct PagesState {
    /// The number of open streams to pages.
    pub(crate) open_streams: Arc<AtomicUsize>,
    /// A permit to make an audit report; only one is made at a time.
    pub(crate) audit: Arc<Semaphore>,
    /// Short texts of what runs were asked, by run, where the ledger keeps contents.
    pub(crate) questions: Mutex<BTreeMap<String, String>>,
    /// The address at which the pages are served.
    address: SocketAddr,
    /// The token of the pages, for a configuration that names none.
    pub(crate) token: Secret,
    /// Distinguishes this process from another one on the same address.
    pub(crate) stamp: String,
    /// Cancelled when the pages are no longer served.
    pub(crate) leaving: CancellationToken,
}

impl Serving {
    fn new(bodies: BodyBudget) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Self {
            requests: RequestIds::new(start),
            no_upstream: Arc::from(""),
            bodies,
            connections: AtomicUsize::new(0),
            cut: CancellationToken::new(),
            draining: AtomicBool::new(false),
        }
    }
}

impl PagesState {
    fn new(address: SocketAddr) -> Self {
        let (token, stamp) = token::make_secrets();
        Self {
            open_streams: Arc::default(),
            audit: Arc::new(Semaphore::new(1)),
            questions: Mutex::default(),
            address,
            token,
            stamp,
            leaving: CancellationToken::new(),
        }
    }
}

/// Creates the state of governing. Without a shared state, it is in memory.
fn make_services(
    shared: Option<Arc<dyn SharedState>>,
    clock: &Clock,
    watch: &Arc<Watch>,
) -> Services {
    Services {
        held: HeldLeases::default(),
        unbooked: UnbookedSpend::default(),
        state: shared.unwrap_or_else(|| Arc::new(LocalState::default())),
        models: KnownModels::default(),
        counts: TokenCounts::default(),
        names: NameGenerator::new(clock(), std::process::id()),
        conversations: Conversations::default(),
        running: RunningRequests::default(),
        tasks: TaskTracker::new(),
        meter: Arc::clone(&watch.metrics) as _,
        watcher: Arc::clone(watch) as _,
        clock: Arc::clone(clock),
    }
}

/// The settings in force, and the values that are derived from them once.
pub(crate) struct LiveConfig {
    pub(crate) settings: Settings,
    /// The part of them that governing reads.
    pub(crate) govern: Arc<GovernSettings>,
    pub(crate) origins: BTreeMap<String, Arc<Origin>>,
    pub(crate) guard: Guard,
}

impl GatewayState {
    pub(crate) fn new(
        settings: Settings,
        clock: Clock,
        pages: SocketAddr,
    ) -> Result<Self, StartError> {
        let upstreams = Upstreams::new(&settings.limits);
        let bodies = BodyBudget::from_limit(settings.limits.bodies);
        let shared = settings.shared.clone();
        let ledger = open_ledger(&settings, &clock).map_err(StartError::Ledger)?;
        let watch = Arc::new(Watch::new(ledger, settings.recap));
        let stored_keys = Arc::new(StoredKeyRing::new(settings.key_store.clone()));
        let live = LiveConfig::new(settings, &upstreams, &stored_keys);
        let live = live.map_err(StartError::Upstream)?;
        let services = Arc::new(make_services(shared, &clock, &watch));
        Ok(Self {
            live: ArcSwap::from_pointee(live),
            services,
            watch,
            upstreams,
            stored_keys,
            serving: Serving::new(bodies),
            pages: PagesState::new(pages),
        })
    }

    /// Returns the address of the pages, as it is shown to a person.
    pub(crate) fn pages_url(&self) -> String {
        let mut at = self.pages.address;
        // A browser cannot open the address that stands for all of a machine.
        if at.ip().is_unspecified() {
            at.set_ip(if at.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            });
        }
        let live = self.live_config();
        let scheme = if live.settings.tls.is_some() { "https" } else { "http" };
        match &live.settings.admin.token {
            Some(_) => format!("{scheme}://{at}/"),
            None => format!("{scheme}://{at}/#token={}", self.pages.token.expose()),
        }
    }

    /// Returns the settings in force now. A request reads them once and keeps them to its end.
    pub(crate) fn live_config(&self) -> Arc<LiveConfig> {
        self.live.load_full()
    }

    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.services.now()
    }

    /// Ends the runs that have had no request for too long.
    pub(crate) async fn end_idle(&self) {
        self.watch.tapes.sweep_unread();
        self.services.end_idle().await;
    }

    /// Returns true if new requests are accepted.
    pub(crate) fn is_ready(&self) -> bool {
        !self.serving.draining.load(Ordering::Acquire)
    }

    /// Stops accepting new requests and ends the streams to pages.
    pub(crate) fn start_draining(&self) {
        self.serving.draining.store(true, Ordering::Release);
        self.pages.leaving.cancel();
    }

    /// Puts new settings in force.
    ///
    /// # Errors
    /// Returns what cannot change while the gateway runs, or an upstream that cannot be used.
    pub(crate) fn replace_settings(&self, settings: Settings) -> Result<(), ReloadProblem> {
        let old = self.live_config();
        if old.settings.listen != settings.listen {
            return Err(ReloadProblem::Listen);
        }
        if old.settings.admin.listen != settings.admin.listen {
            return Err(ReloadProblem::AdminListen);
        }
        if old.settings.tls.is_some() != settings.tls.is_some() {
            return Err(ReloadProblem::Tls);
        }
        if ledger_settings(&old.settings) != ledger_settings(&settings) {
            return Err(ReloadProblem::Ledger);
        }
        let live = LiveConfig::new(settings, &self.upstreams, &self.stored_keys);
        let live = live.map_err(ReloadProblem::Upstream)?;
        self.upstreams.adjust_timeouts(&live.settings.limits);
        self.live.store(Arc::new(live));
        self.note_key_faults();
        Ok(())
    }

    /// Tells the operator of keys of the shared store that cannot be used with the settings in force.
    pub(crate) fn note_key_faults(&self) {
        let live = self.live_config();
        self.stored_keys.note_faults(&live.govern, |name| live.guard.has_key_name(name));
    }
}

/// Returns the settings that the ledger was opened with, which a reload may not change.
fn ledger_settings(settings: &Settings) -> impl PartialEq + '_ {
    let Settings { ledger, ledger_full, retention, log, .. } = settings;
    (ledger, ledger_full, retention, &log.events)
}

/// Opens the one writer for the ledger and the event log, if either is configured.
fn open_ledger(settings: &Settings, clock: &Clock) -> Result<Option<Ledger>, OpenError> {
    let (place, events_path) = (settings.ledger.clone(), settings.log.events.clone());
    if settings.ledger_read_only || place.is_none() && events_path.is_none() {
        return Ok(None);
    }
    let options = Options {
        place,
        events_path,
        full_contents: settings.ledger_full,
        retention: settings.retention,
        end_left_open: true,
        queue_records: settings.limits.ledger_records,
        ..Options::default()
    };
    Ledger::open(options, Arc::clone(clock)).map(Some)
}

/// Returns the system's time in milliseconds since 1970.
pub(crate) fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().saturating_mul(1000).saturating_add(u64::from(since.subsec_millis()))
}

impl LiveConfig {
    fn new(
        settings: Settings,
        upstreams: &Upstreams,
        stored_keys: &Arc<StoredKeyRing>,
    ) -> Result<Self, UpstreamProblem> {
        let mut origins = BTreeMap::new();
        for (name, upstream) in &settings.upstreams {
            let origin = Origin::new(name, upstream.clone(), upstreams)?;
            origins.insert(name.clone(), Arc::new(origin));
        }
        let guard = Guard::new(&settings, Arc::clone(stored_keys));
        let govern = Arc::new(settings.to_govern());
        Ok(Self { settings, govern, origins, guard })
    }
}

/// The reason why a gateway does not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be bound.
    Listen {
        /// The address.
        at: SocketAddr,
        /// The error of the system.
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

/// The reason why new settings were not accepted. The old ones stay in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadProblem {
    /// `listen` differs.
    Listen,
    /// `[admin] listen` differs.
    AdminListen,
    /// `[tls]` is new, or gone.
    Tls,
    /// The event log or something in `[ledger]` differs.
    Ledger,
    /// An upstream cannot be used.
    Upstream(UpstreamProblem),
}

impl fmt::Display for ReloadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Listen => "listen",
            Self::AdminListen => "[admin] listen",
            Self::Tls => "whether there is a [tls]",
            Self::Ledger => "[ledger] and [log] events",
            Self::Upstream(problem) => return write!(f, "{problem}; the old settings stay"),
        };
        write!(f, "{what} cannot change while the gateway runs (restart it); the old settings stay")
    }
}

impl std::error::Error for ReloadProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Upstream(problem) = self { Some(problem) } else { None }
    }
}
