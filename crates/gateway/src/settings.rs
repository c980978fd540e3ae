//! The settings of a gateway: typed, checked and complete. The program that reads files, flags and
//! variables fills them in; a reload passes new ones.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use softland_govern::budget::BudgetRule;
use softland_govern::{GovernSettings, KeyStore, Prices, Route, Shaping, SharedState};
use softland_ledger::LedgerPlace;
use softland_session::core::policy::Policy;

use crate::audit::Audit;
use crate::keys::KeyEntry;
use crate::secret::Secret;
use crate::serve::tls::ServerTls;

/// All settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on; port 0 picks a free port.
    pub listen: SocketAddr,
    /// `Host` values that are served besides the listen address and loopback names.
    pub allowed_hosts: Vec<String>,
    /// Access to the gateway's own pages and metrics.
    pub admin: Admin,
    /// The keys of which a client must show one, as `x-api-key`, bearer token or `x-softland-key`.
    /// Without any, clients are not told apart.
    pub keys: Vec<KeyEntry>,
    /// True if clients must show a key although these settings have none: the shared store has them.
    pub needs_key: bool,
    /// Providers by name: `anthropic` serves `/v1/messages`, `openai` the two others,
    /// `/to/NAME/…` reaches any.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Prices of the configuration, before the built-in table.
    pub prices: Prices,
    /// Policies of the configuration by name.
    pub policies: BTreeMap<String, Policy>,
    /// Policy, upstream and shape by model; the first route that matches wins.
    pub routes: Vec<Route>,
    /// Shapes by name, for routes.
    pub shapes: BTreeMap<String, Shaping>,
    /// The policy of every request, whatever a route or a header says (`--policy`); one of
    /// [`policies`](Self::policies).
    pub forced_policy: Option<String>,
    /// The names that a client's `x-softland-policy` may select; each is one of
    /// [`policies`](Self::policies).
    pub header_policies: Vec<String>,
    /// The budgets of the accounts of keys.
    pub budgets: Vec<Arc<BudgetRule>>,
    /// True if requests that cannot be metered pass under a cost limit.
    pub allow_unmetered: bool,
    /// The certificate with which all addresses are served; `None`: without TLS.
    pub tls: Option<ServerTls>,
    /// True if streams get no comments of softland's.
    pub no_comments: bool,
    /// The ledger's file or database; `None`: off.
    pub ledger: Option<LedgerPlace>,
    /// True if the ledger is only read, for pages that show what other processes write.
    pub ledger_read_only: bool,
    /// True if the runs are recapped in the [`Summary`](crate::Summary).
    pub recap: bool,
    /// True if the ledger keeps whole contents, false if it keeps digests of them.
    pub ledger_full: bool,
    /// The time for which the ledger keeps a run; `None`: for ever.
    pub retention: Option<Duration>,
    /// The maker of the reports of the page `/audit`; `None`: there are no reports.
    pub audit: Option<Arc<dyn Audit>>,
    /// The state that requests share, also with those of other gateways; `None`: this process's
    /// memory. A reload does not change it.
    pub shared: Option<Arc<dyn SharedState>>,
    /// Further keys, which change while the gateway runs; `None`: there are none. A reload does not
    /// change the store.
    pub key_store: Option<Arc<dyn KeyStore>>,
    /// The event log.
    pub log: LogSettings,
    /// Bounds on what clients send and how long things take.
    pub limits: Limits,
}

impl Settings {
    /// Returns the part of the settings that governing reads.
    pub(crate) fn to_govern(&self) -> GovernSettings {
        GovernSettings {
            prices: self.prices.clone(),
            policies: self.policies.clone(),
            routes: self.routes.clone(),
            shapes: self.shapes.clone(),
            upstreams: self.upstreams.keys().map(|name| name.as_str().into()).collect(),
            forced_policy: self.forced_policy.clone(),
            header_policies: self.header_policies.clone(),
            budgets: self.budgets.clone(),
            allow_unmetered: self.allow_unmetered,
            no_comments: self.no_comments,
            full_contents: self.ledger_full,
        }
    }
}

/// Access to `/metrics`, the pages and their API: the address, and the token.
#[derive(Clone, Debug, Default)]
pub struct Admin {
    /// An address of its own, which is served until a drain ends and reaches no provider.
    pub listen: Option<SocketAddr>,
    /// The bearer token that is needed at an address that is not loopback. `None`: access is
    /// refused there.
    pub token: Option<Secret>,
}

/// A provider.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its base URL.
    pub base_url: BaseUrl,
    /// Its key; `None`: the client's own credentials pass through.
    pub key: Option<Secret>,
    /// The time after which a request whose response has not begun, or that brings nothing but
    /// signs of life, has failed; `None`: signs of life may go on for ever.
    pub silence: Option<Duration>,
}

impl Upstream {
    /// The `silence` where nothing else is said. Models that think for long are silent, too.
    pub const SILENCE: Duration = Duration::from_secs(30 * 60);
}

/// An upstream that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProblem {
    /// The name of the upstream.
    pub name: String,
    /// The problem, for a person.
    pub what: &'static str,
}

impl fmt::Display for UpstreamProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[upstream.{}]: {}", self.name, self.what)
    }
}

impl std::error::Error for UpstreamProblem {}

/// The event log.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    /// Its file; `None`: no event log.
    pub events: Option<PathBuf>,
}

/// Bounds on what clients send and how long things take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a governed request body, unpacked.
    pub body: usize,
    /// Bytes of all such bodies together that are in memory at once.
    pub bodies: usize,
    /// Bytes of a recording that a browser uploads for the audit.
    pub recording: u64,
    /// Connections at once.
    pub connections: usize,
    /// Time for a request's head.
    pub head_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
    /// Time for a connection to an upstream, TLS included.
    pub connect: Duration,
    /// Time from a request to the head of its response.
    pub first_byte: Duration,
    /// Time between two pieces of a response.
    pub idle: Duration,
    /// Time that running requests have when the gateway is stopped.
    pub drain: Duration,
    /// The interval between two sweeps for idle runs.
    pub sweep: Duration,
    /// Records that may queue for a ledger that cannot be written at the moment; further records
    /// are lost, and counted.
    pub ledger_records: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Anthropic takes 32 MB, and base64 in other encodings less.
            body: 64 << 20,
            bodies: 1 << 30,
            recording: 256 << 20,
            connections: 10_000,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            // A response that is not streamed comes when it is whole; vendors' SDKs wait 10 min.
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            drain: Duration::from_secs(30),
            sweep: Duration::from_secs(30),
            ledger_records: 8192,
        }
    }
}

/// The base URL of a provider: an origin and perhaps a path, joined once with a request's path.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Scheme, host, port and path, without a slash or `/v1` at its end.
    base: String,
}

impl BaseUrl {
    /// Parses a base URL with or without `/v1` or a slash at its end.
    ///
    /// # Errors
    /// Returns an error if the text is no `http` or `https` URL with a host, or has credentials, a
    /// query or a fragment.
    pub fn parse(text: &str) -> Result<Self, BaseUrlProblem> {
        let url = url::Url::parse(text.trim()).map_err(|_| BaseUrlProblem::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(BaseUrlProblem::NotAUrl);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlProblem::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlProblem::Query);
        }
        let text = url.as_str().trim_end_matches('/');
        let base = text.strip_suffix("/v1").unwrap_or(text).trim_end_matches('/').to_owned();
        Ok(Self { base })
    }

    /// Returns the URL for a path that begins with `/v1/`, and its query.
    #[must_use]
    pub fn join(&self, path_and_query: &str) -> String {
        [&self.base, path_and_query].concat()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseUrl({})", self.base)
    }
}

/// The reason why a text is no base URL. It does not repeat the text: people paste keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseUrlProblem {
    /// The text is no `http://` or `https://` URL with a host.
    NotAUrl,
    /// The URL has a user or a password.
    Credentials,
    /// The URL has a query or a fragment.
    Query,
}

impl fmt::Display for BaseUrlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUrl => "must be an http:// or https:// URL with a host",
            Self::Credentials => "may not carry a user or a password; use api_key_env",
            Self::Query => "may not have a query or a fragment",
        })
    }
}

impl std::error::Error for BaseUrlProblem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_joined_once() {
        for (base, joined) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            ("http://127.0.0.1:9/a/b", "http://127.0.0.1:9/a/b/v1/messages"),
        ] {
            let base = BaseUrl::parse(base).expect("a URL");
            assert_eq!(base.join("/v1/messages"), joined);
        }
        assert_eq!(BaseUrl::parse("ftp://x"), Err(BaseUrlProblem::NotAUrl));
        assert_eq!(BaseUrl::parse("sk-ant-key"), Err(BaseUrlProblem::NotAUrl));
        assert_eq!(BaseUrl::parse("http://a:b@x"), Err(BaseUrlProblem::Credentials));
        assert_eq!(BaseUrl::parse("http://x/?a=b"), Err(BaseUrlProblem::Query));
    }
}
