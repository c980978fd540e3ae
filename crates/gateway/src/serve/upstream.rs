//! The HTTP client for the providers. It sends a request to a configured origin and returns the
//! head and the pieces of the response.
//!
//! It follows no redirect, decompresses nothing, retries only requests that were never sent, and
//! knows no protocol but HTTP. Dropping a [`UpstreamResponse`], or the future that waits for one, cancels
//! the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use softland_govern::UpstreamResponse;
use tokio::time::{Instant, timeout_at};

use crate::serve::credential::Credential;
use crate::serve::request_body::{OutgoingBody, UploadProgress};
use crate::settings::{Limits, Upstream, UpstreamProblem};

mod connect;
mod error;
mod relay;

use connect::Connector;
pub(crate) use error::{TimeoutPhase, UpstreamError};
use relay::UpstreamRelay;

/// The time for which an unused connection is kept. The client closes it within twice this time;
/// vendors' load balancers close theirs after a minute or more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest number of unused connections to one origin.
const MAX_IDLE: usize = 1024;

/// A configured provider, ready to use.
#[derive(Debug)]
pub(crate) struct Origin {
    name: Arc<str>,
    upstream: Upstream,
    scheme: Scheme,
    authority: Authority,
    /// The login for a proxy that reads the requests.
    proxy_login: Option<HeaderValue>,
    /// The path in front of `/v1/…`; usually empty.
    base_path: String,
    key: Option<Credential>,
}

impl Origin {
    pub(crate) fn new(
        name: &str,
        upstream: Upstream,
        upstreams: &Upstreams,
    ) -> Result<Self, UpstreamProblem> {
        let problem = |what| UpstreamProblem { name: name.to_owned(), what };
        let base: Uri = upstream
            .base_url
            .to_string()
            .parse()
            .map_err(|_| problem("base_url cannot be used as an HTTP address"))?;
        let parts = base.clone().into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(problem("base_url needs a scheme and a host"));
        };
        let path = parts.path_and_query.as_ref().map_or("", PathAndQuery::path);
        let key = match &upstream.key {
            None => None,
            Some(key) => Some(
                Credential::new(key.expose())
                    .ok_or_else(|| problem("its key has characters that no header may have"))?,
            ),
        };
        let base_path = path.trim_end_matches('/').to_owned();
        let proxy = upstreams.connector.reading_proxy(&base);
        let proxy_login = proxy.and_then(|proxy| proxy.basic_auth().cloned());
        let name = Arc::from(name);
        Ok(Self { name, upstream, scheme, authority, proxy_login, base_path, key })
    }

    /// Returns its name in the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same name, for a value that keeps it.
    pub(crate) fn label(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn key(&self) -> Option<&Credential> {
        self.key.as_ref()
    }

    fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Returns the address of a request. Only path and query come from a client.
    fn address_for(&self, path: &PathAndQuery) -> Result<Uri, UpstreamError> {
        let path = if self.base_path.is_empty() {
            path.clone()
        } else {
            let whole = [&self.base_path, path.as_str()].concat();
            PathAndQuery::try_from(whole).map_err(|_| UpstreamError::unusable_path(self))?
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| UpstreamError::unusable_path(self))
    }
}

/// The client for all upstreams.
#[derive(Debug)]
pub(crate) struct Upstreams {
    connector: Connector,
    /// Keeps connections for further requests, also across reloads.
    client: Client<Connector, OutgoingBody>,
    first_byte: AtomicMillis,
    idle: AtomicMillis,
}

/// A duration that a reload changes.
#[derive(Debug)]
struct AtomicMillis(AtomicU64);

impl AtomicMillis {
    fn new(time: Duration) -> Self {
        let millis = Self(AtomicU64::new(0));
        millis.set(time);
        millis
    }

    fn set(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Upstreams {
    pub(crate) fn new(limits: &Limits) -> Self {
        let connector = Connector::new(limits.connect);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            // A request that was not sent, because its kept connection was closed, uses another
            // one.
            .retry_canceled_requests(true)
            .build(connector.clone());
        Self {
            connector,
            client,
            first_byte: AtomicMillis::new(limits.first_byte),
            idle: AtomicMillis::new(limits.idle),
        }
    }

    /// Applies the time limits of new settings.
    pub(crate) fn adjust_timeouts(&self, limits: &Limits) {
        self.connector.set_timeout(limits.connect);
        self.first_byte.set(limits.first_byte);
        self.idle.set(limits.idle);
    }

    /// Reads the system's root certificates, for which a first request would otherwise wait.
    pub(crate) fn load_roots(&self, origins: impl IntoIterator<Item = Arc<Origin>>) {
        if origins.into_iter().any(|origin| origin.is_secure()) {
            let connector = self.connector.clone();
            tokio::task::spawn_blocking(move || connector.load_roots());
        }
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// # Errors
    /// Returns an error if there is no response. It names the upstream, never a credential.
    pub(crate) async fn send_request(
        &self,
        to: &Origin,
        method: Method,
        path: &PathAndQuery,
        headers: HeaderMap,
        body: impl Into<OutgoingBody>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let body = body.into();
        let progress = body.upload_progress();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        *request.uri_mut() = to.address_for(path)?;
        if let Some(login) = &to.proxy_login {
            request.headers_mut().insert(PROXY_AUTHORIZATION, login.clone());
        }
        let mut sent = self.client.request(request);
        let limit = to.upstream.silence.unwrap_or(Duration::MAX);
        let limit = limit.min(self.first_byte.get());
        let mut before = count_pieces(progress.as_ref());
        let mut since = Instant::now();
        let answer = loop {
            let answer = timeout_at(since + limit, &mut sent).await;
            // A long upload does not count as a silent upstream.
            let uploaded = count_pieces(progress.as_ref()) != before;
            if uploaded {
                (before, since) = (count_pieces(progress.as_ref()), Instant::now());
            }
            match answer {
                Ok(answer) => break answer,
                Err(_) if uploaded => {}
                Err(_) => {
                    return Err(UpstreamError::from_timeout(to, TimeoutPhase::FirstByte, limit));
                }
            }
        };
        let answer = answer.map_err(|error| UpstreamError::from_client_error(to, &error))?;
        let (head, incoming) = answer.into_parts();
        if head.status.is_informational() {
            return Err(UpstreamError::from_status(to, head.status));
        }
        let relay = UpstreamRelay::new(incoming, self.idle.get());
        let name = Arc::clone(&to.name);
        let mut response = UpstreamResponse::new(name, head.status, head.headers, relay);
        response.silence = to.upstream.silence;
        response.silent_since = since.into_std();
        Ok(response)
    }
}

fn count_pieces(progress: Option<&UploadProgress>) -> u64 {
    progress.map_or(0, UploadProgress::piece_count)
}
