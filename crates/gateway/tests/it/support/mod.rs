//! A gateway, upstreams and clients in one process, all over loopback sockets.
//!
//! Upstream and client speak raw bytes: what goes over the wire is what a test says or sees.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part")]
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use softland_gateway::{
    Admin, BaseUrl, Clock, Gateway, Handle, Limits, LogSettings, Prices, Settings, Summary,
    Upstream,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod reading;
pub(crate) mod script;
pub(crate) mod sim;

/// Longer than anything here takes; a test that waits so long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A message as it was on the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) line: String,
    /// Names in lower case, values as sent, in order.
    pub(crate) headers: Vec<(String, String)>,
    /// Without its framing.
    pub(crate) body: Vec<u8>,
    /// True if the connection broke within the body.
    pub(crate) is_cut: bool,
}

impl Message {
    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(had, _)| had == name);
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} is there more than once: {self:?}");
        Some(&value.1)
    }

    /// The status of a response.
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).expect("a status").parse().expect("a number")
    }

    /// The body as text, without the comment on the run's end, of which there is at most one.
    pub(crate) fn without_end(&self) -> String {
        let (text, mark) = (self.text(), ": softland {");
        let Some((before, rest)) = text.split_once(mark) else { return text.to_owned() };
        let (_, after) = rest.split_once("\n\n").expect("the comment's end");
        assert!(!after.contains(mark), "{text}");
        format!("{before}{after}")
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }
}

/// One end of a connection, with what has been read and not used.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) read: Vec<u8>,
}

impl Wire {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("a connection"), read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("written");
    }

    /// Reads more; `false` at the end, and when the other side broke off.
    pub(crate) async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(LONG, self.stream.read_buf(&mut self.read)).await;
        matches!(read.expect("something comes, or the end"), Ok(1..))
    }

    /// Everything to the end.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.read)
    }

    /// Reads until what was read contains `text`, and takes it to there.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            let found = self.read.windows(text.len()).position(|had| had == text.as_bytes());
            if let Some(at) = found {
                let taken = self.read.drain(..at + text.len()).collect();
                return String::from_utf8(taken).expect("UTF-8");
            }
            let had = String::from_utf8_lossy(&self.read).into_owned();
            assert!(self.more().await, "the end came before {text:?}, after {had:?}");
        }
    }

    /// The head of a message; `None` when the connection ends before.
    pub(crate) async fn head(&mut self) -> Option<Message> {
        while !self.read.windows(4).any(|end| end == b"\r\n\r\n") {
            if !self.more().await {
                assert!(self.read.is_empty(), "half a head: {:?}", self.read);
                return None;
            }
        }
        let text = self.until("\r\n\r\n").await;
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().expect("a line").to_owned();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Some(Message { line, headers: headers.collect(), body: Vec::new(), is_cut: false })
    }

    /// A whole message. A response without a length goes to the end of the connection.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        let message = self.message_or_part().await?;
        assert!(!message.is_cut, "the body broke off: {message:?}");
        Some(message)
    }

    /// A message, also one whose body breaks off.
    pub(crate) async fn message_or_part(&mut self) -> Option<Message> {
        let mut message = self.head().await?;
        let is_response = message.line.starts_with("HTTP/");
        if message.header("transfer-encoding").is_some() {
            message.is_cut = true;
            while let Some(chunk) = self.chunk().await {
                message.is_cut &= !chunk.is_empty();
                if !message.is_cut {
                    break;
                }
                message.body.extend(chunk);
            }
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().expect("a length");
            while self.read.len() < length {
                assert!(self.more().await, "the body broke off: {message:?}");
            }
            message.body = self.read.drain(..length).collect();
        } else if is_response && !matches!(message.status(), 204 | 304) {
            message.body = self.rest().await;
        }
        Some(message)
    }

    /// A chunked body; `None` when it breaks off.
    pub(crate) async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            match self.chunk().await {
                None => return None,
                Some(chunk) if chunk.is_empty() => return Some(body),
                Some(chunk) => body.extend(chunk),
            }
        }
    }

    /// One chunk; empty the last, `None` when the connection ends.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        while !self.read.windows(2).any(|end| end == b"\r\n") {
            if !self.more().await {
                return None;
            }
        }
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        while self.read.len() < size + 2 {
            if !self.more().await {
                return None;
            }
        }
        let chunk = self.read.drain(..size).collect();
        self.read.drain(..2);
        Some(chunk)
    }

    /// Sends a request and reads its response.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request).await;
        self.message().await.expect("a response")
    }

    /// The same for a response that may break off.
    pub(crate) async fn ask_for_part(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request).await;
        self.message_or_part().await.expect("a response")
    }
}

type Served = Pin<Box<dyn Future<Output = bool> + Send>>;
type Serve = dyn Fn(Message, Arc<tokio::sync::Mutex<Wire>>) -> Served + Send + Sync;

/// A provider that does as told, and remembers what it was asked.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Message>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Provider {
    /// Answers each request with the same bytes.
    pub(crate) async fn says(response: impl Into<Vec<u8>>) -> Self {
        let response: Vec<u8> = response.into();
        Self::does(move |_, wire| {
            let response = response.clone();
            async move {
                wire.lock().await.send(response).await;
                true
            }
        })
        .await
    }

    /// Handles each request as told; the connection is kept while that says `true`.
    pub(crate) async fn does<F>(
        serve: impl Fn(Message, Arc<tokio::sync::Mutex<Wire>>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let serve: Arc<Serve> = Arc::new(move |asked, wire| Box::pin(serve(asked, wire)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let connections = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                taken.fetch_add(1, Ordering::SeqCst);
                let wire = Wire { stream, read: Vec::new() };
                tokio::spawn(converse(wire, Arc::clone(&kept), Arc::clone(&serve)));
            }
        });
        Self { address, asked, connections, task }
    }

    /// The only request so far.
    pub(crate) fn only(&self) -> Message {
        let asked = self.asked.lock().expect("no panic");
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.first().expect("one").clone()
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until_asked(&self, requests: usize) {
        let waited = tokio::time::timeout(LONG, async {
            while self.count() < requests {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        waited.await.expect("requests come");
    }

    /// Returns the number of requests for a turn, without those for a token count.
    pub(crate) fn turns(&self) -> usize {
        let counts = |asked: &&Message| {
            asked.line.contains("/count_tokens") || asked.line.contains("/input_tokens")
        };
        let asked = self.asked.lock().expect("no panic");
        asked.len() - asked.iter().filter(counts).count()
    }

    /// Returns the number of connections that it was asked over.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(wire: Wire, kept: Arc<Mutex<Vec<Message>>>, serve: Arc<Serve>) {
    let wire = Arc::new(tokio::sync::Mutex::new(wire));
    loop {
        let asked = wire.lock().await.message().await;
        let Some(asked) = asked else { return };
        kept.lock().expect("no panic").push(asked.clone());
        if !serve(asked, Arc::clone(&wire)).await {
            return;
        }
    }
}

/// A gateway that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Summary>>,
}

impl Running {
    pub(crate) async fn with(settings: Settings) -> Self {
        Self::of(Gateway::bind(settings).await.expect("a gateway"))
    }

    /// With a clock of the test's.
    pub(crate) async fn with_clock(settings: Settings, clock: Clock) -> Self {
        Self::of(Gateway::bind_with_clock(settings, clock).await.expect("a gateway"))
    }

    fn of(gateway: Gateway) -> Self {
        let (address, handle) = (gateway.local_addr(), gateway.handle());
        let admin = gateway.admin_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(gateway.run(async {
            let _ = stopped.await;
        }));
        Self { address, admin, handle, stop: Some(stop), task: Some(task) }
    }

    /// In front of one provider, for both protocols and as `/to/other`.
    pub(crate) async fn before(provider: &Provider) -> Self {
        Self::with(settings(&provider.url())).await
    }

    pub(crate) async fn client(&self) -> Wire {
        Wire::to(self.address).await
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Message {
        self.client().await.ask(request).await
    }

    /// The same for a response that may break off.
    pub(crate) async fn ask_for_part(&self, request: impl AsRef<[u8]>) -> Message {
        self.client().await.ask_for_part(request).await
    }

    /// A request with the right host.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &str) -> String {
        let mut text = format!("{line} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for header in headers {
            text += &format!("{header}\r\n");
        }
        if !body.is_empty() {
            text += &format!("content-length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }

    /// The counters now.
    pub(crate) async fn metrics(&self) -> String {
        self.ask(self.request("GET /metrics", &[], "")).await.text().to_owned()
    }

    /// Waits until the counters say so: what ends a request may be counted after its last byte.
    pub(crate) async fn until_metrics(&self, line: &str) {
        let waited = tokio::time::timeout(LONG, async {
            while !self.metrics().await.contains(line) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        if waited.await.is_err() {
            panic!("{line:?} does not come:\n{}", self.metrics().await);
        }
    }

    /// Waits until so many runs were cancelled, and no more.
    pub(crate) async fn until_cancelled(&self, runs: u64) {
        let waited = tokio::time::timeout(LONG, async {
            while self.handle.summary().cancelled < runs {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        waited.await.expect("runs are cancelled");
        assert_eq!(self.handle.summary().cancelled, runs);
    }

    /// Waits until nothing listens for clients any more.
    pub(crate) async fn until_closed(&self) {
        let waited = tokio::time::timeout(LONG, async {
            while TcpStream::connect(self.address).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        waited.await.expect("nothing listens for clients any more");
    }

    /// Tells it to stop, and does not wait.
    pub(crate) fn tell_to_stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(&mut self) -> Summary {
        self.tell_to_stop();
        let task = self.task.take().expect("not stopped twice");
        tokio::time::timeout(LONG, task).await.expect("it stops").expect("no panic")
    }
}

/// Settings with one provider under all names.
pub(crate) fn settings(url: &str) -> Settings {
    let base_url = BaseUrl::parse(url).expect("a URL");
    let upstream = || Upstream { base_url: base_url.clone(), key: None, silence: None };
    let names = ["anthropic", "openai", "other"];
    Settings {
        listen: "127.0.0.1:0".parse().expect("an address"),
        allowed_hosts: Vec::new(),
        admin: Admin::default(),
        keys: Vec::new(),
        needs_key: false,
        upstreams: names.map(|name| (name.to_owned(), upstream())).into_iter().collect(),
        prices: Prices::default(),
        policies: BTreeMap::new(),
        routes: Vec::new(),
        shapes: BTreeMap::new(),
        forced_policy: None,
        header_policies: Vec::new(),
        budgets: Vec::new(),
        allow_unmetered: false,
        tls: None,
        no_comments: false,
        ledger: None,
        ledger_read_only: false,
        recap: false,
        ledger_full: false,
        retention: None,
        audit: None,
        shared: None,
        key_store: None,
        log: LogSettings::default(),
        limits: Limits::default(),
    }
}

/// A response with a body and a length.
pub(crate) fn response(status: &str, headers: &[&str], body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\n");
    for header in headers {
        text += &format!("{header}\r\n");
    }
    text + &format!("content-length: {}\r\n\r\n{body}", body.len())
}
