//! Connections to upstreams: TCP without Nagle's delay, TLS with the system's root certificates,
//! through the proxy that the environment names. Loopback addresses never go through a proxy.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{
    ConfigBuilderExt as _, DefaultServerNameResolver, HttpsConnector, MaybeHttpsStream,
};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use tokio::net::TcpStream;
use tower_service::Service;

use super::AtomicMillis;

/// The time without a byte after which the system checks that the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

type UpstreamStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens connections to upstreams.
#[derive(Clone, Debug)]
pub(super) struct Connector(Arc<ConnectorShared>);

#[derive(Debug)]
struct ConnectorShared {
    http: HttpConnector,
    proxies: Matcher,
    connect: AtomicMillis,
    /// Created on first use: reading root certificates takes longer than starting.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The connection was not made in time.
    Timeout(Duration),
    /// The system's root certificates cannot be read.
    Roots(String),
    /// The environment names a proxy of a kind that is not supported.
    Proxy,
    /// Anything else.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Connector {
    pub(super) fn new(connect: Duration) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        let tls = OnceLock::new();
        let proxies = Matcher::from_env();
        Self(Arc::new(ConnectorShared { http, proxies, connect: AtomicMillis::new(connect), tls }))
    }

    pub(super) fn set_timeout(&self, connect: Duration) {
        self.0.connect.set(connect);
    }

    /// Returns the proxy that reads each request, which is the case without TLS. Through a TLS
    /// tunnel a proxy sees only the address.
    pub(super) fn reading_proxy(&self, to: &Uri) -> Option<Intercept> {
        let secure = to.scheme_str() == Some("https");
        if secure { None } else { self.0.find_proxy(to) }
    }

    /// Reads the root certificates now. Blocks.
    pub(super) fn load_roots(&self) {
        // An error is reported to the request that needs the certificates.
        let _ = self.0.tls_config();
    }
}

impl Service<Uri> for Connector {
    type Response = UpstreamConnection;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamConnection, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    /// Connects within the time limit.
    fn call(&mut self, to: Uri) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let limit = shared.connect.get();
            let connected = tokio::time::timeout(limit, shared.connect(to)).await;
            connected.unwrap_or(Err(ConnectError::Timeout(limit)))
        })
    }
}

impl ConnectorShared {
    fn tls_config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        self.tls.get_or_init(make_tls_config).clone().map_err(ConnectError::Roots)
    }

    fn find_proxy(&self, to: &Uri) -> Option<Intercept> {
        if is_loopback(to) { None } else { self.proxies.intercept(to) }
    }

    async fn connect(&self, to: Uri) -> Result<UpstreamConnection, ConnectError> {
        let mut http = self.http.clone();
        let proxy = self.find_proxy(&to);
        let secure = to.scheme_str() == Some("https");
        match (proxy, secure) {
            (None, false) => connect_plain(&mut http, to, false).await,
            (None, true) => connect_tls(http, self.tls_config()?, to).await,
            (Some(proxy), _) if proxy.uri().scheme_str() != Some("http") => {
                Err(ConnectError::Proxy)
            }
            (Some(proxy), false) => connect_plain(&mut http, proxy.uri().clone(), true).await,
            (Some(proxy), true) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), http);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                connect_tls(tunnel, self.tls_config()?, to).await
            }
        }
    }
}

async fn connect_plain(
    http: &mut HttpConnector,
    to: Uri,
    proxied: bool,
) -> Result<UpstreamConnection, ConnectError> {
    let stream = http.call(to).await.map_err(ConnectError::other)?;
    Ok(UpstreamConnection { stream: MaybeHttpsStream::Http(stream), proxied })
}

async fn connect_tls<C>(
    inner: C,
    tls: Arc<ClientConfig>,
    to: Uri,
) -> Result<UpstreamConnection, ConnectError>
where
    C: Service<Uri, Response = TokioIo<TcpStream>>,
    C::Future: Send + 'static,
    C::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let names = Arc::new(DefaultServerNameResolver::default());
    let mut https = HttpsConnector::new(inner, tls, true, names);
    let stream = https.call(to).await.map_err(ConnectError::Other)?;
    Ok(UpstreamConnection { stream, proxied: false })
}

fn make_tls_config() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.try_with_platform_verifier().map_err(|error| error.to_string())?;
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn is_loopback(to: &Uri) -> bool {
    let host = to.host().unwrap_or_default();
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct UpstreamConnection {
    stream: UpstreamStream,
    /// True if it leads to a proxy that reads each request.
    proxied: bool,
}

impl Connection for UpstreamConnection {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.proxied)
    }
}

impl hyper::rt::Read for UpstreamConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for UpstreamConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}

impl ConnectError {
    fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(after) => write!(f, "no connection in {after:?}"),
            Self::Roots(cause) => write!(f, "the root certificates cannot be used: {cause}"),
            Self::Proxy => f.write_str("only http:// proxies are supported"),
            Self::Other(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Other(error) = self { error.source() } else { None }
    }
}
