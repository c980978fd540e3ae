//! A notebook with its page and its assistant, on the simulator, without a kernel; and a browser's
//! side of the socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{SinkExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use softland_agent::Agent;
use softland_agent::core::policy::PolicyValue as Limit;
use softland_agent::http::{
    Api, Request, Response, ResponseHead, ServedModel, Transport, TransportError,
};
use softland_notebook::{
    Chat, ChatOptions, NotebookOptions, Server, ServerOptions, SharedNotebook, notebook_tools,
};
use softland_sim::{Config, Scenario, Sim, parse_posed_model};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

/// The longest time that anything may take on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A simulator in this process that answers as many requests as it has leave to.
struct Simulated {
    sim: Sim,
    answers: Arc<Semaphore>,
}

#[async_trait]
impl Transport for Simulated {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.answers.acquire().await.unwrap().forget();
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (path, body) = (request.path, &request.body);
        let asked = softland_sim::Request { method: "POST", path, headers: &headers, body };
        let answer = self.sim.respond(0, &asked);
        let content_type = answer.header("content-type").map(str::to_owned);
        let bytes = answer.collect_bytes().0.into();
        Ok(Response {
            status: answer.status,
            head: ResponseHead { content_type, ..ResponseHead::default() },
            body: stream::iter([Ok(bytes)]).boxed(),
        })
    }

    fn served_model(&self, api: Api, model: &str) -> Option<ServedModel> {
        let name = model.strip_prefix("sim/")?;
        let (vendor, id) = parse_posed_model(api.path(), name);
        Some(ServedModel::new(vendor, id).with_request_name(name))
    }
}

/// The settings of an assistant.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) scenario: &'static str,
    /// Requests that are answered.
    pub(crate) answers: usize,
    pub(crate) limits: &'static [(&'static str, i64)],
    pub(crate) grace: Duration,
    pub(crate) beat: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        let answers = Semaphore::MAX_PERMITS;
        Self { scenario: "notebook", answers, limits: &[], grace: LONG, beat: LONG }
    }
}

/// The folder of a notebook, kept between servers.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("a.ipynb")
    }

    pub(crate) async fn serve(&self, setup: Setup) -> Served {
        let state = self.0.path().join("state");
        let room =
            SharedNotebook::open(&self.file(), NotebookOptions::new(&state, None)).await.unwrap();
        let sim = Sim::new(Config::new(Scenario::Scripted(Vec::new())));
        let answers = Arc::new(Semaphore::new(setup.answers));
        let transport = Simulated { sim, answers: Arc::clone(&answers) };
        let model = format!("sim/{}", setup.scenario);
        let mut agent = Agent::new("notebook", model, Arc::new(transport));
        agent.tools = notebook_tools(&room);
        for (key, value) in setup.limits {
            agent.policy.set_key(key, &Limit::Text(value.to_string())).unwrap();
        }
        let options = ChatOptions {
            journals: Some(state.join("runs")),
            lists: Some(state.join("notebooks")),
            made: room.was_created(),
        };
        let explain = Box::new(|_: &_| None);
        let (chat, warnings) = Chat::open(agent, room.path(), options, explain).await;
        assert_eq!(warnings, Vec::<String>::new());
        let mut options = ServerOptions::default();
        (options.grace, options.beat) = (setup.grace, setup.beat);
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Server::bind_loopback(free).await.unwrap();
        let server = Server::new(room.clone(), chat.clone(), listener, options).unwrap();
        let (url, stop) = (server.page_url(), CancellationToken::new());
        let serving = tokio::spawn(server.serve_until(stop.clone().cancelled_owned()));
        Served { room, chat, answers, url, stop, serving }
    }
}

pub(crate) struct Served {
    pub(crate) room: Arc<SharedNotebook>,
    pub(crate) chat: Arc<Chat>,
    /// The leave that the model has to answer.
    pub(crate) answers: Arc<Semaphore>,
    url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) fn host(&self) -> &str {
        self.url.split('/').nth(2).unwrap()
    }

    pub(crate) fn token(&self) -> &str {
        self.url.split_once("#token=").unwrap().1
    }

    /// A page that has shown the token, and what it was told first.
    pub(crate) async fn page(&self) -> (Page, Value) {
        let mut page = self.stranger(&[]).await.unwrap();
        page.send(&json!({"token": self.token()})).await;
        let first = page.next().await.unwrap();
        assert!(first["state"].is_object(), "{first}");
        (page, first)
    }

    /// A socket that has shown nothing.
    pub(crate) async fn stranger(
        &self,
        headers: &[(&'static str, &str)],
    ) -> Result<Page, tokio_tungstenite::tungstenite::Error> {
        let mut request = format!("ws://{}/api/ws", self.host()).into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        Ok(Page { socket, n: 0, closed: None })
    }

    /// Returns once the model has no leave left to answer.
    pub(crate) async fn answers_are_taken(&self) {
        while self.answers.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap().unwrap();
    }
}

/// A browser's side.
pub(crate) struct Page {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    n: u64,
    pub(crate) closed: Option<CloseFrame>,
}

impl Page {
    pub(crate) async fn send(&mut self, message: &Value) {
        // A page that is being closed may be gone before everything is sent.
        let _ = self.socket.send(Message::text(message.to_string())).await;
    }

    /// The next message; `None` once it is closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(LONG, self.socket.next()).await.unwrap()?;
            match message.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => self.closed = frame,
                _ => {}
            }
        }
    }

    /// Answers that many pings; false where it is closed before.
    pub(crate) async fn hears_pings(&mut self, pings: usize) -> bool {
        let mut heard = 0;
        while heard < pings {
            match tokio::time::timeout(LONG, self.socket.next()).await.unwrap() {
                Some(Ok(Message::Ping(_))) => heard += 1,
                Some(Ok(Message::Text(_))) => {}
                Some(Ok(Message::Close(frame))) => self.closed = frame,
                _ => return false,
            }
        }
        true
    }

    /// Asks for something, and takes what comes until the reply, which is last.
    pub(crate) async fn wish(&mut self, mut wish: Value) -> Vec<Value> {
        self.n += 1;
        wish["n"] = self.n.into();
        self.send(&wish).await;
        let n = self.n;
        self.until(|message| message["reply"] == n).await
    }

    /// Returns the messages up to and including the first one for which `is` holds.
    pub(crate) async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("closed after {all:#?}"));
            let last = is(&message);
            all.push(message);
            if last {
                return all;
            }
        }
    }

    /// Returns the messages up to the end of a run of the assistant.
    pub(crate) async fn run(&mut self) -> Vec<Value> {
        self.until(|message| matches!(kind(message), "done" | "error")).await
    }
}

/// The word of an event; empty for what is none.
pub(crate) fn kind(message: &Value) -> &str {
    message["event"]["event"].as_str().unwrap_or_default()
}

/// The events among messages.
pub(crate) fn events(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|m| m["event"].is_object()).map(|m| m["event"].clone()).collect()
}

/// The changes among messages.
pub(crate) fn changes(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|m| m["change"].is_object()).map(|m| m["change"].clone()).collect()
}

/// The tools that were run, each with whether it succeeded.
pub(crate) fn calls(events: &[Value]) -> Vec<(String, bool)> {
    let of = |word: &'static str| {
        events.iter().filter(move |event| event["event"] == word).map(|e| e["id"].clone())
    };
    assert_eq!(of("tool_execute").collect::<Vec<_>>(), of("tool_result").collect::<Vec<_>>());
    let results = events.iter().filter(|event| event["event"] == "tool_result");
    results.map(|e| (e["name"].as_str().unwrap().to_owned(), e["ok"] == true)).collect()
}
