//! The governor of one process: what its requests share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use softland_govern::{
    ActiveRequest, ClientRequest, Conversations, GovernSettings, HeldLeases, KnownModels,
    LocalState, NameGenerator, Protocol, RequestIds, RunningRequests, Services, SharedState,
    Target, TokenCounts, UnbookedSpend, check_unmetered,
};
use softland_ledger::{Ledger, OpenError, Options};
use softland_session::wire::Api;
use tokio_util::task::TaskTracker;

use crate::call::Call;
use crate::hosts::Endpoint;
use crate::link::{Link, LinkTransport};
use crate::named::{NamedUsage, RunName, RunReport, shared_limits};
use crate::runtimes::Runtimes;
use crate::settings::{limits_anything, limits_money};
use crate::shared::{SharedUrl, connect_through};
use crate::watch::RunWatch;
use crate::worker::Worker;

/// The headers that name a run and its session.
const RUN: HeaderName = HeaderName::from_static("x-softland-run");
const SESSION: HeaderName = HeaderName::from_static("x-softland-session");
/// The interval at which runs are ended that nobody continues, in milliseconds.
const SWEEP: u64 = 60_000;
/// The time that a shared store has to say how an open run stands.
const ASK: Duration = Duration::from_secs(1);
/// The time that a shared store has at the end, and the time that the ledger has.
const CLOSE: Duration = Duration::from_secs(2);

/// The governor of one process. Clones share everything.
#[derive(Clone)]
pub struct Governor(Arc<GovernorInner>);

pub(crate) struct GovernorInner {
    services: Arc<Services>,
    watch: Arc<RunWatch>,
    ids: RequestIds,
    pub(crate) runtimes: Runtimes,
    /// The time of the last sweep.
    swept: AtomicU64,
    /// The thread that works for a shared store; `None` if the state is in this process's memory.
    worker: Option<Worker>,
}

/// What a governor is to do beside governing.
#[derive(Clone, Debug, Default)]
pub struct GovernorOptions {
    /// True to keep lines of events for [`Governor::take_events`].
    pub events: bool,
    /// The SQLite file of a ledger.
    pub ledger: Option<PathBuf>,
    /// The place of the state; `None` for this process's memory.
    pub shared: Option<SharedUrl>,
}

/// The reason why there is no governor.
#[derive(Debug)]
pub enum StartError {
    /// The ledger cannot be written.
    Ledger(OpenError),
    /// The address of the shared state cannot be used.
    Shared(String),
    /// The system gives no thread.
    System(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(f),
            Self::Shared(error) => write!(f, "shared: {error}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// A request of the program, as it is about to be sent.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The endpoint that it asks.
    pub endpoint: Endpoint,
    /// The host that it asks, for the ledger and for errors.
    pub host: Arc<str>,
    /// The query of its URL.
    pub query: Option<String>,
    /// Its headers, without credentials.
    pub headers: HeaderMap,
    /// Its body, not compressed.
    pub body: Bytes,
    /// The run that the program has named.
    pub run: Option<RunName>,
}

impl Governor {
    /// Creates a governor. One whose state is in memory knows no conversation yet.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be written, or the shared state cannot be used.
    pub fn open(options: GovernorOptions) -> Result<Self, StartError> {
        let watch = Arc::new(RunWatch::default());
        watch.set_wants_events(options.events);
        watch.set_ledger(open_ledger(options.ledger).map_err(StartError::Ledger)?);
        let (state, worker) = open_state(options.shared.as_ref())?;
        let services = Services {
            held: HeldLeases::default(),
            unbooked: UnbookedSpend::default(),
            state,
            models: KnownModels::default(),
            counts: TokenCounts::default(),
            names: NameGenerator::new(read_clock(), std::process::id()),
            conversations: Conversations::default(),
            running: RunningRequests::default(),
            tasks: TaskTracker::new(),
            meter: Arc::clone(&watch) as _,
            watcher: Arc::clone(&watch) as _,
            clock: Arc::new(read_clock),
        };
        let ids = RequestIds::new(read_clock().saturating_mul(1000));
        let swept = AtomicU64::new(read_clock());
        let services = Arc::new(services);
        if let Some(worker) = &worker {
            worker.maintain(Arc::downgrade(&services));
        }
        let runtimes = Runtimes::new(worker.as_ref().map(|worker| worker.runtime().clone()));
        Ok(Self(Arc::new(GovernorInner { services, watch, ids, runtimes, swept, worker })))
    }

    /// Begins a request. Nothing is sent before [`Call::advance`] says so.
    ///
    /// # Errors
    /// Returns an error if the request has no valid path, or the system gives no memory for a timer.
    pub fn begin_call(
        &self,
        settings: &Arc<GovernSettings>,
        request: CallRequest,
    ) -> Result<Call, String> {
        self.sweep_idle();
        let CallRequest { endpoint, host, query, mut headers, body, run } = request;
        let (mut usage, mut around) = (NamedUsage::default(), Vec::new());
        if let Some(name) = &run {
            self.open_run(name);
            name_run(&mut headers, name)?;
            let (now, watch) = (self.0.services.now(), &self.0.watch);
            usage = watch.find_usage(&name.name);
            let budgets = name.around.iter();
            let budgets = budgets.map(|one| one.to_budget(watch.find_usage(&one.name), now));
            around.extend(budgets.flatten());
            around.extend(shared_limits(&name.name, settings, usage, now));
        }
        let path = match query {
            Some(query) => format!("{}?{query}", endpoint.path()),
            None => endpoint.path().to_owned(),
        };
        let link = Arc::new(Link::default());
        let asked = ClientRequest {
            services: Arc::clone(&self.0.services),
            transport: Arc::new(LinkTransport(Arc::clone(&link))),
            target: self.make_target(settings, host, endpoint.api(), &path)?,
            parts: make_parts(headers, &path)?,
            around,
            nested_tokens: usage.nested_tokens,
            held: None,
            active: Arc::new(ActiveRequest::new(endpoint.api(), body)),
        };
        let runtime = self.0.runtimes.take_idle().map_err(|error| error.to_string())?;
        Ok(match endpoint {
            Endpoint::Turn(_) => {
                Call::new(Arc::clone(&self.0), runtime, link, softland_govern::govern_turn(asked))
            }
            Endpoint::Count => {
                Call::new(Arc::clone(&self.0), runtime, link, softland_govern::count_tokens(asked))
            }
        })
    }

    /// Returns the refusal of a POST to a provider's path that is not governed, if it is refused: it
    /// may spend money which cannot be counted.
    ///
    /// # Errors
    /// Returns an error if the path is not valid.
    pub fn refuse_unmetered(
        &self,
        settings: &Arc<GovernSettings>,
        (host, path): (Arc<str>, &str),
        headers: HeaderMap,
    ) -> Result<Option<(StatusCode, HeaderMap, Bytes)>, String> {
        let target = self.make_target(settings, host, Api::Chat, path)?;
        let parts = make_parts(headers, path)?;
        let Err(refusal) = check_unmetered(&target, &parts) else { return Ok(None) };
        let (head, body) = refusal.to_response::<Bytes>().into_parts();
        Ok(Some((head.status, head.headers, body)))
    }

    /// Returns true if settings limit anything.
    #[must_use]
    pub fn limits_anything(settings: &GovernSettings) -> bool {
        limits_anything(settings)
    }

    /// Returns true if settings limit money.
    #[must_use]
    pub fn limits_money(settings: &GovernSettings) -> bool {
        limits_money(settings)
    }

    /// Returns the lines of events since the last time, each a JSON object
    /// (`docs/reference/events.md`).
    #[must_use]
    pub fn take_events(&self) -> Vec<String> {
        self.0.watch.take_lines().into()
    }

    /// Sets whether lines of events are kept for [`Governor::take_events`].
    pub fn set_events(&self, wanted: bool) {
        self.0.watch.set_wants_events(wanted);
    }

    /// Sets the SQLite file of the ledger; `None` keeps none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; the old ledger stays.
    pub fn set_ledger(&self, path: Option<PathBuf>) -> Result<(), OpenError> {
        self.0.watch.set_ledger(open_ledger(path)?);
        Ok(())
    }

    /// Begins to note what belongs to a named run.
    pub fn open_run(&self, name: &RunName) {
        self.0.watch.add_name(name);
    }

    /// Closes the files of the ledger until [`set_ledger`](Self::set_ledger) is called again, and
    /// keeps in memory what comes meanwhile. No file of SQLite may be open in a process that forks.
    pub fn pause_ledger(&self) {
        self.0.watch.pause_ledger(CLOSE);
    }

    /// Lets what this governor has live as long as the process. A process calls this that was forked
    /// from the governor's: threads that it lacks may have held locks, and connections are the
    /// parent's.
    pub fn abandon(&self) {
        std::mem::forget(self.clone());
    }

    /// Books what is not booked yet, ends the runs whose state ends with this process, and closes the
    /// ledger. Waits for a few seconds at most.
    pub fn close(&self) {
        let services = &self.0.services;
        if let Ok(runtime) = self.0.runtimes.take_idle() {
            let closed = runtime.block_on(async {
                tokio::time::timeout(CLOSE, async {
                    self.0.runtimes.wait_for_bookings().await;
                    services.end_runs_without_state().await;
                })
                .await
            });
            if closed.is_err() {
                tracing::error!("the shared state was not told of all that was done");
            }
        }
        self.0.watch.close_ledger(CLOSE);
    }

    /// Returns what is known of a named run; `None` if it was forgotten.
    #[must_use]
    pub fn report_run(&self, name: &str) -> Option<RunReport> {
        let noted = self.0.watch.find_name(name)?;
        let state = &self.0.services.state;
        let finding = async {
            let mut known = Vec::new();
            for run in noted.open_runs() {
                known.extend(state.find_run(run).await.ok().flatten());
            }
            known
        };
        let known = if self.0.worker.is_none() {
            // A state in memory never waits.
            finding.now_or_never()
        } else {
            self.0.runtimes.take_idle().ok().and_then(|runtime| {
                let found = runtime.block_on(async { tokio::time::timeout(ASK, finding).await });
                self.0.runtimes.give_back(runtime);
                found.ok()
            })
        };
        let known = known.unwrap_or_default();
        Some(noted.to_report(&known))
    }

    /// Forgets a named run.
    pub fn close_run(&self, name: &str) {
        self.0.watch.forget_name(name);
    }

    fn make_target(
        &self,
        settings: &Arc<GovernSettings>,
        host: Arc<str>,
        api: Api,
        path: &str,
    ) -> Result<Target, String> {
        let protocol = match api {
            Api::Anthropic => Protocol::Anthropic,
            Api::Chat | Api::Responses => Protocol::OpenAi,
        };
        let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
        let (settings, id, began) = (Arc::clone(settings), self.0.ids.next(), Instant::now());
        Ok(Target { upstream: host, protocol, path, direct: true, settings, key: None, id, began })
    }

    /// Ends the runs that nobody continues, now and then. A worker does it by itself.
    fn sweep_idle(&self) {
        let (now, swept) = (self.0.services.now(), self.0.swept.load(Ordering::Relaxed));
        let is_due = self.0.worker.is_none() && now.saturating_sub(swept) >= SWEEP;
        let claim = |swept| {
            let swap =
                self.0.swept.compare_exchange(swept, now, Ordering::AcqRel, Ordering::Relaxed);
            swap.is_ok()
        };
        if is_due && claim(swept) {
            // A state in memory never waits.
            let _ = self.0.services.end_idle().now_or_never();
        }
    }
}

/// The state of a governor, and the thread that works for it.
type OpenedState = (Arc<dyn SharedState>, Option<Worker>);

/// Opens the state at this address; in this process's memory if there is none.
fn open_state(shared: Option<&SharedUrl>) -> Result<OpenedState, StartError> {
    let local = || (Arc::new(LocalState::default()) as _, None);
    let Some(url) = shared.filter(|url| **url != SharedUrl::Memory) else { return Ok(local()) };
    let worker = Worker::start().map_err(StartError::System)?;
    let stores = connect_through(url, worker.runtime()).map_err(StartError::Shared)?;
    Ok(stores.map_or_else(local, |stores| (stores.state, Some(worker))))
}

fn open_ledger(path: Option<PathBuf>) -> Result<Option<Ledger>, OpenError> {
    path.map(|path| Ledger::open(Options::with_path(path), Arc::new(read_clock))).transpose()
}

/// Names the run in the headers of its request, and as its session the outermost run around it.
fn name_run(headers: &mut HeaderMap, name: &RunName) -> Result<(), String> {
    let to_value = |name: &str| {
        HeaderValue::from_str(name).map_err(|_| "a run's name is not visible ASCII".to_owned())
    };
    headers.insert(RUN, to_value(&name.name)?);
    if let Some(outermost) = name.around.last() {
        headers.entry(SESSION).or_insert(to_value(&outermost.name)?);
    }
    Ok(())
}

fn make_parts(headers: HeaderMap, path: &str) -> Result<http::request::Parts, String> {
    let request = Request::builder().method(Method::POST).uri(path).body(());
    let (mut parts, ()) = request.map_err(|error| error.to_string())?.into_parts();
    parts.headers = headers;
    Ok(parts)
}

/// Returns the system's time in milliseconds since 1970.
fn read_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor").finish_non_exhaustive()
    }
}
