//! The transport over HTTP: one provider, one origin, bounded waits, no redirects.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Url};
use tokio::time::{Instant, timeout_at};

use super::classify::classify_error;
use super::provider::{Endpoint, origin_of};
use super::retry::parse_retry_after;
use super::{
    Request, Response, ResponseHead, TimeoutPhase, Transport, TransportError, TransportErrorKind,
};

const USER_AGENT: &str = concat!("softland/", env!("CARGO_PKG_VERSION"));

/// The time limits of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The limit for a connection, TLS included. Default 10 s.
    pub connect: Duration,
    /// The limit from sending a request to the first byte of the response body. Default 120 s.
    /// Requests are streamed, so even a long prompt gets its first event long before its answer is
    /// complete.
    pub first_byte: Duration,
    /// The limit between two pieces of the body. Default 60 s; providers send pings meanwhile.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

/// Sends requests to one [`Endpoint`].
///
/// Proxies come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), except
/// for loopback addresses, which no proxy can reach. Redirects are errors. Certificates are checked
/// against the system's trust store.
#[derive(Clone)]
pub struct HttpTransport {
    client: Client,
    endpoint: Endpoint,
    origin: String,
    timeouts: Timeouts,
    /// The proxy that errors name.
    proxy: Option<String>,
}

impl std::fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTransport")
            .field("endpoint", &self.endpoint)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Creates a transport to `endpoint`.
    ///
    /// # Errors
    /// Returns [`TransportErrorKind::Unusable`] if no client can be created, for example on a
    /// system without root certificates.
    pub fn new(endpoint: Endpoint, timeouts: Timeouts) -> Result<Self, TransportError> {
        let proxies = !is_loopback(endpoint.base_url());
        Self::build_client(endpoint, timeouts, proxies)
    }

    /// Creates a transport without proxies, whatever the environment of the tests says.
    #[cfg(test)]
    pub(super) fn without_proxy(
        endpoint: Endpoint,
        timeouts: Timeouts,
    ) -> Result<Self, TransportError> {
        Self::build_client(endpoint, timeouts, false)
    }

    fn build_client(
        endpoint: Endpoint,
        timeouts: Timeouts,
        proxies: bool,
    ) -> Result<Self, TransportError> {
        // An embedding program may have installed a crypto provider already, which is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let origin = origin_of(endpoint.base_url());
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(timeouts.connect);
        if !proxies {
            builder = builder.no_proxy();
        }
        if endpoint.base_url().scheme() == "http" {
            // A plain address must work on systems without root certificates.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            TransportError::new(&origin, classify_error(&error, timeouts.connect))
        })?;
        let env = |name: &str| std::env::var(name).ok();
        let proxy = if proxies { proxy_for(endpoint.base_url().scheme(), &env) } else { None };
        Ok(Self { client, endpoint, origin, timeouts, proxy })
    }

    fn build_headers(&self, request: &Request) -> Result<HeaderMap, TransportErrorKind> {
        let unusable = |detail: String| TransportErrorKind::Unusable { detail };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.endpoint.fixed_headers() {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        for (name, value) in &request.headers {
            let bad = || unusable(format!("the header `{name}` is not valid"));
            let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            headers.insert(name, HeaderValue::try_from(value.as_str()).map_err(|_| bad())?);
        }
        // The credential comes last, so that no header of the caller can replace it.
        if let Some((name, value)) = self.endpoint.credential_header() {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| unusable("the credential has characters no header may have".into()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }

    fn make_error(&self, kind: TransportErrorKind) -> TransportError {
        let error = TransportError::new(&self.origin, self.endpoint.redact_error(kind));
        TransportError { proxy: self.proxy.clone(), ..error }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let headers = self.build_headers(&request).map_err(|kind| self.make_error(kind))?;
        let url = self.endpoint.url_for(request.path);
        let first_byte = Instant::now() + self.timeouts.first_byte;
        let sending = Box::pin(self.client.post(url).headers(headers).body(request.body).send());
        let response = match timeout_at(first_byte, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                return Err(self.make_error(classify_error(&error, self.timeouts.connect)));
            }
            Err(_) => {
                return Err(self.make_error(timeout_error(TimeoutPhase::FirstByte, &self.timeouts)));
            }
        };
        let status = response.status();
        if status.is_redirection() {
            let to = redirect_target(&response);
            return Err(
                self.make_error(TransportErrorKind::Redirect { status: status.as_u16(), to })
            );
        }
        let head = read_head(response.headers(), Timestamp::now());
        let body = StreamedBody {
            chunks: response.bytes_stream().boxed(),
            transport: self.clone(),
            deadline: first_byte,
            phase: TimeoutPhase::FirstByte,
        };
        Ok(Response {
            status: status.as_u16(),
            head,
            body: stream::unfold(Some(body), next_chunk).boxed(),
        })
    }
}

struct StreamedBody {
    chunks: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    transport: HttpTransport,
    deadline: Instant,
    phase: TimeoutPhase,
}

/// Returns the next piece. After an error the stream is over.
async fn next_chunk(
    body: Option<StreamedBody>,
) -> Option<(Result<Bytes, TransportError>, Option<StreamedBody>)> {
    let mut body = body?;
    let timeouts = body.transport.timeouts;
    match timeout_at(body.deadline, body.chunks.next()).await {
        Ok(Some(Ok(chunk))) => {
            body.deadline = Instant::now() + timeouts.idle;
            body.phase = TimeoutPhase::Idle;
            Some((Ok(chunk), Some(body)))
        }
        Ok(Some(Err(error))) => {
            Some((Err(body.transport.make_error(classify_error(&error, timeouts.connect))), None))
        }
        Ok(None) => None,
        Err(_) => {
            Some((Err(body.transport.make_error(timeout_error(body.phase, &timeouts))), None))
        }
    }
}

fn timeout_error(phase: TimeoutPhase, timeouts: &Timeouts) -> TransportErrorKind {
    let after = match phase {
        TimeoutPhase::Connect => timeouts.connect,
        TimeoutPhase::FirstByte => timeouts.first_byte,
        TimeoutPhase::Idle => timeouts.idle,
    };
    TransportErrorKind::Timeout { phase, after }
}

/// Returns the proxy that the environment names for requests of a scheme: its origin and the
/// variable, for messages. The HTTP client itself reads the same variables and `NO_PROXY`.
pub(super) fn proxy_for(scheme: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let own = if scheme == "https" { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let names = [own, "ALL_PROXY"].map(|name| [name.to_owned(), name.to_ascii_lowercase()]);
    let (variable, url) = names.into_iter().flatten().find_map(|name| {
        let url = env(&name).filter(|url| !url.trim().is_empty())?;
        Some((name, url))
    })?;
    let url = if url.contains("://") { url } else { format!("http://{url}") };
    Some(match Url::parse(url.trim()).ok().and_then(|url| proxy_origin(&url)) {
        Some(place) => format!("{place} ({variable})"),
        None => format!("the one of {variable}, which is not a URL"),
    })
}

/// Returns scheme, host and port, also for schemes outside the web (`socks5://host:1080`).
fn proxy_origin(url: &Url) -> Option<String> {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
}

/// Returns true if the address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the origin that a redirect points to.
fn redirect_target(response: &reqwest::Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    response.url().join(location).ok().map(|url| origin_of(&url))
}

fn read_head(headers: &HeaderMap, now: Timestamp) -> ResponseHead {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms").and_then(|value| value.trim().parse().ok());
    ResponseHead {
        content_type: text("content-type").map(str::to_owned),
        request_id: text("request-id").or_else(|| text("x-request-id")).map(str::to_owned),
        retry_after: millis
            .map(Duration::from_millis)
            .or_else(|| parse_retry_after(text("retry-after")?, now)),
        should_retry: match text("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        },
    }
}
