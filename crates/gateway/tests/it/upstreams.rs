//! The way to upstreams that are not on loopback without TLS: certificates, HTTP/2, and proxies.
//!
//! Root certificates and proxies come from the environment, which a test cannot change for itself:
//! each gateway here is a process of its own, this test binary with [`a_gateway`] alone.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use crate::support::client::Client;
use crate::support::script::Form;
use crate::support::{LONG, Message, Running, Wire, reading, script, settings};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use softland_session::wire::Api;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// Names the upstream of [`a_gateway`].
const UPSTREAM: &str = "SOFTLAND_TEST_UPSTREAM";
/// A host that only a proxy finds.
const HOST: &str = "provider.invalid";
const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Not a test but the gateway of those below, which start it.
#[tokio::test]
#[ignore = "started by the other tests, with an environment"]
async fn a_gateway() {
    let Ok(url) = std::env::var(UPSTREAM) else { return };
    let gateway = Running::with(settings(&url)).await;
    writeln!(std::io::stdout(), "listening on {} .", gateway.address).expect("written");
    // Until whoever started it is gone.
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await.expect("read");
}

/// A gateway with an environment.
struct Alone {
    address: SocketAddr,
    _child: Child,
    /// The folder for its files. The process is killed, and cleans nothing up itself.
    _folder: TempDir,
}

impl Alone {
    async fn before(upstream: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "upstreams::a_gateway", "--ignored", "--nocapture"]);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.env_remove("SSL_CERT_DIR").env_remove("REQUEST_METHOD");
        let folder = TempDir::new().expect("a folder");
        command.env("TMPDIR", folder.path());
        command.env(UPSTREAM, upstream).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    return rest.trim_end_matches(" .").parse().expect("an address");
                }
            }
            panic!("it does not listen");
        };
        let address = tokio::time::timeout(LONG, address).await.expect("it starts");
        // Its further output is read, so that it never waits for somebody to.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { address, _child: child, _folder: folder }
    }

    async fn ask(&self, client: &Client) -> Message {
        let body = client.body.to_string();
        let mut text =
            format!("POST /v1/messages?beta=true HTTP/1.1\r\nhost: {}\r\n", self.address);
        for header in &client.headers {
            write!(text, "{header}\r\n").expect("written");
        }
        write!(text, "content-length: {}\r\n\r\n{body}", body.len()).expect("written");
        Wire::to(self.address).await.ask(text).await
    }
}

/// A request as the upstream saw it: version, host, path, key, and whether a proxy's login came
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    version: http::Version,
    host: String,
    path: String,
    key: String,
    login: bool,
}

/// A provider behind TLS, with a certificate for some names.
struct Secure {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    /// The certificate of whoever signed its own, in a file.
    ca: PathBuf,
    _folder: TempDir,
}

impl Secure {
    async fn named(names: &[&str], protocols: &[&[u8]]) -> Self {
        let (acceptor, ca) = certified(names, protocols);
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, ca).expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let connections = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = tokio::spawn(serve(acceptor.clone(), stream, Arc::clone(&kept)));
                taken.lock().expect("no panic").push(served.abort_handle());
            }
        });
        Self { address, asked, connections, ca: file, _folder: folder }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Returns the environment in which a gateway trusts it.
    fn trust(&self) -> (&'static str, &str) {
        ("SSL_CERT_FILE", self.ca.to_str().expect("UTF-8"))
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// Returns the number of connections.
    fn connections(&self) -> usize {
        self.connections.lock().expect("no panic").len()
    }

    /// Breaks all connections.
    fn breaks(&self) {
        self.connections.lock().expect("no panic").iter().for_each(AbortHandle::abort);
    }
}

fn certified(names: &[&str], protocols: &[&[u8]]) -> (TlsAcceptor, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (ca_key, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&ca_key).expect("signed").pem();
    let own = CertificateParams::new(names).expect("names");
    let own = own.signed_by(&key, &Issuer::new(ca, ca_key)).expect("signed");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let mut config = config.with_single_cert(vec![own.der().clone()], key).expect("a config");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, kept: Arc<Mutex<Vec<Asked>>>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let service = service_fn(move |request| answer(request, Arc::clone(&kept)));
    let stream = TokioIo::new(stream);
    // How a connection ends is of no interest here.
    if h2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(stream, service).await;
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(stream, service).await;
    }
}

async fn answer(
    request: http::Request<Incoming>,
    kept: Arc<Mutex<Vec<Asked>>>,
) -> Result<http::Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let text = |name| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let authority = request.uri().authority().map(ToString::to_string);
    kept.lock().expect("no panic").push(Asked {
        version: request.version(),
        host: authority.unwrap_or_else(|| text("host")),
        path: request.uri().path_and_query().expect("a path").to_string(),
        key: text("x-api-key"),
        login: request.headers().contains_key("proxy-authorization"),
    });
    if request.headers().contains_key("x-fails") {
        return Err("as asked".into());
    }
    let body = request.into_body().collect().await?.to_bytes();
    let streams = body.windows(13).any(|part| part == b"\"stream\":true");
    let whole = script::whole(Form::new(Api::Anthropic, streams), &said(), "end_turn");
    let (_, body) = whole.split_once("\r\n\r\n").expect("a body");
    let kind = if streams { "text/event-stream" } else { "application/json" };
    let response = http::Response::builder().header("content-type", kind);
    Ok(response.body(Full::from(body.to_owned())).expect("a response"))
}

fn said() -> Vec<serde_json::Value> {
    vec![serde_json::json!({"type": "text", "text": "From behind TLS."})]
}

fn assert_answered(message: &Message) {
    assert_eq!(message.status(), 200, "{}", message.text());
    assert_eq!(reading::read(message).text(), "From behind TLS.");
}

#[tokio::test]
async fn a_certificate_of_an_own_authority_is_trusted_where_the_environment_names_it() {
    let upstream = Secure::named(&["localhost"], &[HTTP1]).await;
    let gateway = Alone::before(&upstream.url(), &[upstream.trust()]).await;
    for stream in [false, true] {
        assert_answered(&gateway.ask(&Client::new(stream)).await);
    }
    let port = upstream.address.port();
    let expected = Asked {
        version: http::Version::HTTP_11,
        host: format!("localhost:{port}"),
        path: "/v1/messages?beta=true".to_owned(),
        key: "any".to_owned(),
        login: false,
    };
    assert_eq!(upstream.asked(), [expected.clone(), expected]);
}

#[tokio::test]
async fn an_upstream_that_speaks_http_2_is_spoken_to_so() {
    let upstream = Secure::named(&["localhost"], &[H2, HTTP1]).await;
    let gateway = Alone::before(&upstream.url(), &[upstream.trust()]).await;
    for stream in [false, true] {
        assert_answered(&gateway.ask(&Client::new(stream)).await);
    }
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    for one in asked {
        assert_eq!(one.version, http::Version::HTTP_2);
        assert_eq!(one.host, format!("localhost:{}", upstream.address.port()));
        assert_eq!((one.path.as_str(), one.key.as_str()), ("/v1/messages?beta=true", "any"));
    }
}

#[tokio::test]
async fn one_connection_of_http_2_serves_all_and_a_broken_one_is_replaced() {
    let upstream = Secure::named(&["localhost"], &[H2, HTTP1]).await;
    let gateway = Alone::before(&upstream.url(), &[upstream.trust()]).await;
    let clients: Vec<_> = (0..8).map(|n| Client::new(n % 2 == 0)).collect();
    // Those that are made at the same time, before one is known to serve all, are given up.
    for answered in join_all(clients.iter().map(|client| gateway.ask(client))).await {
        assert_answered(&answered);
    }
    let had = upstream.connections();
    for answered in join_all(clients.iter().map(|client| gateway.ask(client))).await {
        assert_answered(&answered);
    }
    // What ends one request ends no other.
    let failed = gateway.ask(&Client::new(false).with("x-fails: 1")).await;
    assert_eq!(failed.status(), 502, "{}", failed.text());
    assert_answered(&gateway.ask(&Client::new(true)).await);
    assert_eq!(upstream.connections(), had, "none is made where one serves");
    upstream.breaks();
    // The break may meet a request on its way: then nobody knows what became of it.
    let answered = async {
        loop {
            let answered = gateway.ask(&Client::new(false)).await;
            if answered.status() == 200 {
                return answered;
            }
            assert_eq!(answered.status(), 502, "{}", answered.text());
        }
    };
    assert_answered(&tokio::time::timeout(LONG, answered).await.expect("a new connection"));
    assert_eq!(upstream.connections(), had + 1);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_not_its_own_is_an_error_that_names_the_upstream() {
    let other = Secure::named(&["localhost"], &[HTTP1]).await;
    let unknown = Secure::named(&["localhost"], &[HTTP1]).await;
    let misnamed = Secure::named(&["another.example"], &[HTTP1]).await;
    let cases = [
        (&unknown, other.trust(), "invalid peer certificate"),
        (&misnamed, misnamed.trust(), "not valid for name"),
    ];
    for (upstream, trust, why) in cases {
        let gateway = Alone::before(&upstream.url(), &[trust]).await;
        let mut client = Client::new(true);
        client.headers = vec!["x-api-key: sk-ant-hidden".to_owned()];
        let answer = gateway.ask(&client).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        let error: serde_json::Value = serde_json::from_str(answer.text()).expect("an error");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("upstream anthropic (https://localhost:"), "{message}");
        assert!(message.contains("cannot be reached") && message.contains(why), "{message}");
        assert!(!message.contains("sk-ant"), "a credential: {message}");
        assert!(upstream.asked().is_empty(), "nothing was sent");
    }
}

#[tokio::test]
async fn roots_that_cannot_be_read_are_named() {
    let upstream = Secure::named(&["localhost"], &[HTTP1]).await;
    let missing = [("SSL_CERT_FILE", "/nowhere/ca.pem"), ("SSL_CERT_DIR", "/nowhere")];
    let gateway = Alone::before(&upstream.url(), &missing).await;
    let answer = gateway.ask(&Client::new(false)).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
    assert!(answer.text().contains("upstream anthropic"), "{}", answer.text());
    assert!(answer.text().contains("certificates"), "{}", answer.text());
}

/// A proxy that sends everything to one address, whatever it is asked for. Remembers the first
/// line and the login of what it was asked.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Line>>>,
}

type Line = (String, Option<String>);

impl Proxy {
    /// To an upstream without TLS it hands on the request's head and body as they are.
    async fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, upstream, Arc::clone(&kept)));
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://user:secret@{}", self.address)
    }

    fn asked(&self) -> Vec<Line> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn carry(stream: TcpStream, upstream: SocketAddr, kept: Arc<Mutex<Vec<Line>>>) {
    let mut client = Wire { stream, read: Vec::new() };
    let Some(head) = client.head().await else { return };
    let login = head.header("proxy-authorization").map(str::to_owned);
    kept.lock().expect("no panic").push((head.line.clone(), login));
    if head.line.starts_with("CONNECT ") {
        client.send("HTTP/1.1 200 OK\r\n\r\n").await;
        let mut upstream = TcpStream::connect(upstream).await.expect("a connection");
        // It ends when either side does.
        let _ = tokio::io::copy_bidirectional(&mut client.stream, &mut upstream).await;
        return;
    }
    let body = script::whole(Form::new(Api::Anthropic, false), &said(), "end_turn");
    let _ = client.stream.write_all(body.as_bytes()).await;
}

/// `user:secret` in the scheme's base64.
const LOGIN: &str = "Basic dXNlcjpzZWNyZXQ=";

#[tokio::test]
async fn a_proxy_tunnels_to_an_upstream_with_tls() {
    let upstream = Secure::named(&[HOST], &[H2, HTTP1]).await;
    let proxy = Proxy::to(upstream.address).await;
    let environment = [upstream.trust(), ("HTTPS_PROXY", &proxy.url())];
    let gateway = Alone::before(&format!("https://{HOST}"), &environment).await;
    for stream in [false, true] {
        assert_answered(&gateway.ask(&Client::new(stream)).await);
    }
    let tunnel = (format!("CONNECT {HOST}:443 HTTP/1.1"), Some(LOGIN.to_owned()));
    assert_eq!(proxy.asked(), [tunnel], "one connection serves both");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    for one in asked {
        assert_eq!((one.host.as_str(), one.key.as_str()), (HOST, "any"));
        assert!(!one.login, "the proxy's login went to the upstream");
    }
}

#[tokio::test]
async fn a_proxy_reads_what_goes_to_an_upstream_without_tls() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let proxy = Proxy::to(nobody).await;
    let gateway =
        Alone::before(&format!("http://{HOST}:8000"), &[("HTTP_PROXY", &proxy.url())]).await;
    assert_answered(&gateway.ask(&Client::new(false)).await);
    let line = format!("POST http://{HOST}:8000/v1/messages?beta=true HTTP/1.1");
    assert_eq!(proxy.asked(), [(line, Some(LOGIN.to_owned()))]);
}

#[tokio::test]
async fn what_no_proxy_names_and_what_is_on_loopback_goes_past_the_proxy() {
    let upstream = Secure::named(&["localhost"], &[HTTP1]).await;
    let proxy = Proxy::to(upstream.address).await;
    let url = proxy.url();
    let proxies = [("HTTP_PROXY", url.as_str()), ("HTTPS_PROXY", &url), ("ALL_PROXY", &url)];
    let mut environment = proxies.to_vec();
    environment.push(upstream.trust());
    let gateway = Alone::before(&upstream.url(), &environment).await;
    assert_answered(&gateway.ask(&Client::new(false)).await);
    environment.push(("NO_PROXY", HOST));
    let gateway = Alone::before(&format!("https://{HOST}"), &environment).await;
    let answer = gateway.ask(&Client::new(false)).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
    let named = format!("upstream anthropic (https://{HOST}) cannot be reached");
    assert!(answer.text().contains(&named), "{}", answer.text());
    assert_eq!(proxy.asked(), []);
}

#[tokio::test]
async fn a_proxy_of_a_kind_that_is_not_supported_is_named_and_nothing_goes_past_it() {
    let environment = [("HTTPS_PROXY", "socks5://user:secret@127.0.0.1:9")];
    let gateway = Alone::before(&format!("https://{HOST}"), &environment).await;
    let answer = gateway.ask(&Client::new(false)).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
    assert!(answer.text().contains("only http:// proxies are supported"), "{}", answer.text());
    assert!(!answer.text().contains("secret"), "{}", answer.text());
}
