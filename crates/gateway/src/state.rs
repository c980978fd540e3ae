//! The state that all requests of a gateway share: settings that a reload replaces, upstreams and
//! counters.
//!
//! This module decides nothing about a request.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use softland_ledger::{Clock, Ledger, OpenError, Options, Record};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accounts::{Accounts, MemoryAccounts};
use crate::body::BodyBudget;
use crate::conversations::Conversations;
use crate::guard::Guard;
use crate::learned::LearnedModels;
use crate::metrics::Metrics;
use crate::names::{self, NameGenerator};
use crate::records;
use crate::request_id::RequestIds;
use crate::runs::{OpenRun, Runs};
use crate::secret::Secret;
use crate::settings::{Settings, UpstreamProblem};
use crate::store::{MemoryStore, Store};
use crate::tape::Tapes;
use crate::token_counts::TokenCounts;
use crate::upstream::{Origin, Upstreams};

/// The state that all requests of a gateway share.
pub(crate) struct GatewayState {
    live: ArcSwap<LiveConfig>,
    pub(crate) upstreams: Upstreams,
    pub(crate) metrics: Metrics,
    pub(crate) requests: RequestIds,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) accounts: Arc<dyn Accounts>,
    pub(crate) learned: LearnedModels,
    /// Token counts that providers have returned.
    pub(crate) counts: TokenCounts,
    pub(crate) names: NameGenerator,
    pub(crate) conversations: Conversations,
    pub(crate) runs: Runs,
    pub(crate) ledger: Option<Ledger>,
    /// The metrics label of requests that are not sent to an upstream.
    pub(crate) no_upstream: Arc<str>,
    /// The memory that the bodies of all requests may use together.
    pub(crate) bodies: BodyBudget,
    /// The number of open client connections.
    pub(crate) connections: AtomicUsize,
    /// Running streams, whose spend is not booked yet.
    pub(crate) flows: TaskTracker,
    /// Cancelled to cut off everything that is still being served.
    pub(crate) cut: CancellationToken,
    /// The events of runs that somebody is watching.
    pub(crate) tapes: Tapes,
    /// The number of open streams to pages.
    pub(crate) pages_seats: Arc<AtomicUsize>,
    /// A permit to make an audit report; only one is made at a time.
    pub(crate) pages_audit: Arc<Semaphore>,
    /// Short texts of what runs were asked, by run, where the ledger keeps contents.
    pub(crate) pages_questions: Mutex<BTreeMap<String, String>>,
    /// The address at which the pages are served.
    pages: SocketAddr,
    /// The token of the pages, for a configuration that names none.
    pub(crate) pages_token: Secret,
    /// Distinguishes this process from another one on the same address.
    pub(crate) stamp: String,
    /// Cancelled when the pages are no longer served.
    pub(crate) leaving: CancellationToken,
    draining: AtomicBool,
    clock: Clock,
}

/// The settings in force, and the values that are derived from them once.
pub(crate) struct LiveConfig {
    pub(crate) settings: Settings,
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
        let ledger = open_ledger(&settings, &clock).map_err(StartError::Ledger)?;
        let live = LiveConfig::new(settings, &upstreams).map_err(StartError::Upstream)?;
        let (pages_token, stamp) = names::make_secrets();
        Ok(Self {
            live: ArcSwap::from_pointee(live),
            upstreams,
            metrics: Metrics::new(),
            requests: RequestIds::new(),
            store: Arc::new(MemoryStore::default()),
            accounts: Arc::new(MemoryAccounts::new()),
            learned: LearnedModels::default(),
            counts: TokenCounts::default(),
            names: NameGenerator::new(clock(), std::process::id()),
            conversations: Conversations::default(),
            runs: Runs::default(),
            ledger,
            no_upstream: Arc::from(""),
            bodies,
            connections: AtomicUsize::new(0),
            flows: TaskTracker::new(),
            cut: CancellationToken::new(),
            tapes: Tapes::default(),
            pages_seats: Arc::default(),
            pages_audit: Arc::new(Semaphore::new(1)),
            pages_questions: Mutex::default(),
            pages,
            pages_token,
            stamp,
            leaving: CancellationToken::new(),
            draining: AtomicBool::new(false),
            clock,
        })
    }

    /// Returns the address of the pages, as it is shown to a person.
    pub(crate) fn pages_url(&self) -> String {
        let at = self.pages;
        match &self.live_config().settings.admin.token {
            Some(_) => format!("http://{at}/"),
            None => format!("http://{at}/#token={}", self.pages_token.expose()),
        }
    }

    /// Returns the settings in force now. A request reads them once and keeps them to its end.
    pub(crate) fn live_config(&self) -> Arc<LiveConfig> {
        self.live.load_full()
    }

    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Ends the runs that have had no request for too long.
    pub(crate) fn end_idle(&self) {
        self.tapes.sweep_unread();
        let now = self.now();
        for (run, open) in self.runs.take_idle(now) {
            self.record_abandoned(now, &run, &open);
        }
    }

    /// Ends all open runs. Their state is lost with this process, so a client that comes back later
    /// continues under another run name.
    pub(crate) fn end_all(&self) {
        let now = self.now();
        for (run, open) in self.runs.take_all() {
            self.record_abandoned(now, &run, &open);
        }
    }

    /// Ends a run that another run continues, unless it has ended already.
    pub(crate) fn end_superseded(&self, run: &str) {
        if let Some(open) = self.runs.remove_run(run) {
            self.record_abandoned(self.now(), run, &open);
        }
    }

    /// Records the end of a run that nobody continues.
    fn record_abandoned(&self, now: u64, run: &str, open: &OpenRun) {
        let ended = open.abandoned_end();
        self.metrics.count_ended_run(ended.outcome);
        self.runs.record_ended(run, open, &ended, false, now);
        self.write_record(|| records::run_end_record(now, run, ended, false, None, open));
    }

    /// Hands a record to the ledger, if there is one, and to the page that watches the run.
    pub(crate) fn write_record(&self, record: impl FnOnce() -> Record) {
        let watched = !self.tapes.is_idle();
        if self.ledger.is_none() && !watched {
            return;
        }
        let record = record();
        if watched {
            self.tapes.write_record(&record);
        }
        if let Some(ledger) = &self.ledger {
            ledger.record(record);
        }
    }

    /// Returns true if new requests are accepted.
    pub(crate) fn is_ready(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    /// Stops accepting new requests and ends the streams to pages.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
        self.leaving.cancel();
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
        if ledger_settings(&old.settings) != ledger_settings(&settings) {
            return Err(ReloadProblem::Ledger);
        }
        let live = LiveConfig::new(settings, &self.upstreams).map_err(ReloadProblem::Upstream)?;
        self.upstreams.adjust_timeouts(&live.settings.limits);
        self.live.store(Arc::new(live));
        Ok(())
    }
}

/// Returns the settings that the ledger was opened with, which a reload may not change.
fn ledger_settings(settings: &Settings) -> impl PartialEq + '_ {
    let Settings { ledger, ledger_full, retention, log, .. } = settings;
    (ledger, ledger_full, retention, &log.events)
}

/// Opens the one writer for the ledger and the event log, if either is configured.
fn open_ledger(settings: &Settings, clock: &Clock) -> Result<Option<Ledger>, OpenError> {
    let (path, events_path) = (settings.ledger.clone(), settings.log.events.clone());
    if path.is_none() && events_path.is_none() {
        return Ok(None);
    }
    let options = Options {
        path,
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
    fn new(settings: Settings, upstreams: &Upstreams) -> Result<Self, UpstreamProblem> {
        let mut origins = BTreeMap::new();
        for (name, upstream) in &settings.upstreams {
            let origin = Origin::new(name, upstream.clone(), upstreams)?;
            origins.insert(name.clone(), Arc::new(origin));
        }
        let guard = Guard::new(&settings);
        Ok(Self { settings, origins, guard })
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
