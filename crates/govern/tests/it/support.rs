//! A host without sockets: a scripted transport, a meter that remembers, and clients that are calls.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use softland_govern::budget::BudgetRule;
use softland_govern::money::accounts::{
    Balance, Claim, ReservationAmounts, ReservationId, WaitLimits,
};
use softland_govern::records::Record;
use softland_govern::shared::ReserveQuery;
use softland_govern::{
    ActiveRequest, Body, ClientKey, ClientRequest, Conversations, CutReason, GovernSettings,
    HeldLeases, KnownModels, LocalState, Meter, NameGenerator, Protocol, RequestIds,
    RunningRequests, Services, SharedState, Target, TokenCounts, Transport, TransportError,
    UnbookedSpend, UpstreamRequest, UpstreamResponse, Watcher,
};
use softland_session::core::policy::Policy;
use softland_session::core::{LossCause, NanoUsd};
use softland_session::wire::Api;
use tokio_util::task::TaskTracker;

/// The reply to one upstream request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A whole message.
    Whole(Value),
    /// These events, and then the end that is told.
    Stream(String, End),
    /// This beginning of a whole message, and then the end that is told.
    Slow(&'static str, End),
    /// The head of this one comes after this time.
    Late(Duration, Box<Self>),
    /// This body, with this status and content type.
    Typed(u16, Option<&'static str>, String),
    /// No response.
    Fails(&'static str),
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It ends.
    Ends,
    /// The connection breaks.
    Breaks,
    /// Nothing more comes.
    Hangs,
    /// These bytes come again, so many times and after this time each, and then it ends.
    Repeats(&'static str, u32, Duration),
}

/// The `silence` of the upstream.
pub(crate) const SILENCE: Duration = Duration::from_secs(600);

/// The way to a provider that gives these replies in turn, and then repeats the last one.
#[derive(Debug)]
pub(crate) struct Script {
    replies: Vec<Reply>,
    /// The bodies that were sent.
    pub(crate) sent: Mutex<Vec<Value>>,
    /// The number of streams that were dropped before their end.
    pub(crate) dropped: Arc<AtomicUsize>,
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, request: UpstreamRequest<'_>) -> Result<UpstreamResponse, TransportError> {
        let body = serde_json::from_slice(&request.body).expect("JSON");
        let n = {
            let mut sent = self.sent.lock().expect("no panic");
            sent.push(body);
            sent.len() - 1
        };
        let since = tokio::time::Instant::now();
        let mut reply =
            self.replies.get(n).or_else(|| self.replies.last()).expect("a reply").clone();
        if let Reply::Late(after, late) = reply {
            tokio::time::sleep(after).await;
            reply = *late;
        }
        let mut status = 200;
        let (kind, text, end) = match reply {
            Reply::Typed(code, kind, body) => {
                status = code;
                (kind.unwrap_or_default(), body, End::Ends)
            }
            Reply::Whole(message) => ("application/json", message.to_string(), End::Ends),
            Reply::Slow(begun, end) => ("application/json", begun.to_owned(), end),
            Reply::Late(..) => unreachable!("a reply is late once"),
            Reply::Stream(events, end) => ("text/event-stream", events, end),
            Reply::Fails(message) => {
                let message = message.to_owned();
                let status = StatusCode::BAD_GATEWAY;
                return Err(TransportError { message, status, is_late: false });
            }
        };
        let headers = HeaderMap::from_iter([(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static(kind),
        )]);
        let headers = if kind.is_empty() { HeaderMap::new() } else { headers };
        let status = StatusCode::from_u16(status).expect("a status");
        let dropped = Arc::clone(&self.dropped);
        let stream = ScriptedStream { text: Some(text), end, timer: None, ended: false, dropped };
        let name = Arc::clone(request.upstream);
        let mut response = UpstreamResponse::new(name, status, headers, stream);
        (response.silence, response.silent_since) = (Some(SILENCE), since.into_std());
        Ok(response)
    }
}

struct ScriptedStream {
    text: Option<String>,
    end: End,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    ended: bool,
    dropped: Arc<AtomicUsize>,
}

impl HttpBody for ScriptedStream {
    type Data = Bytes;
    type Error = CutReason;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutReason>>> {
        if let Some(text) = self.text.take() {
            return Poll::Ready(Some(Ok(Frame::data(text.into()))));
        }
        match self.end {
            End::Hangs => return Poll::Pending,
            End::Breaks if !self.ended => {
                self.ended = true;
                return Poll::Ready(Some(Err(CutReason::Upstream("reset".to_owned()))));
            }
            End::Repeats(bytes, times @ 1.., every) => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
                ready!(timer.as_mut().poll(cx));
                (self.timer, self.end) = (None, End::Repeats(bytes, times - 1, every));
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
            End::Ends | End::Breaks | End::Repeats(..) => {}
        }
        self.ended = true;
        Poll::Ready(None)
    }
}

impl Drop for ScriptedStream {
    fn drop(&mut self) {
        if !self.ended {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Remembers the events that were counted, and the remarks of the records.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    events: Mutex<Vec<&'static str>>,
    /// The remarks on requests that have ended.
    pub(crate) remarks: Mutex<Vec<String>>,
    /// What was lost to the cache: as it was counted, and the records of it.
    pub(crate) lost: Mutex<Vec<(LossCause, u64, NanoUsd)>>,
    pub(crate) losses: Mutex<Vec<Value>>,
}

impl Meter for Notes {
    fn count_event(&self, event: &'static str) {
        self.events.lock().expect("no panic").push(event);
    }

    fn count_cache_loss(&self, cause: LossCause, tokens: u64, lost: NanoUsd) {
        self.lost.lock().expect("no panic").push((cause, tokens, lost));
    }
}

impl Watcher for Notes {
    fn wants_records(&self) -> bool {
        true
    }

    fn write_record(&self, record: Record<'_>) {
        match record {
            Record::Request(row) => {
                self.remarks.lock().expect("no panic").extend(row.remark);
            }
            Record::Event(event) if event.event == "cache_loss" => {
                let fields = serde_json::to_value(&event.fields).expect("JSON");
                self.losses.lock().expect("no panic").push(fields);
            }
            _ => {}
        }
    }
}

/// A host.
pub(crate) struct Host {
    pub(crate) services: Arc<Services>,
    pub(crate) script: Arc<Script>,
    pub(crate) notes: Arc<Notes>,
    settings: Arc<GovernSettings>,
    key: Option<Arc<ClientKey>>,
    ids: RequestIds,
}

impl Host {
    /// A host that remembers in memory.
    pub(crate) fn new(policy: Policy, replies: Vec<Reply>) -> Self {
        Self::with(policy, replies, Arc::new(LocalState::default()))
    }

    pub(crate) fn with(policy: Policy, replies: Vec<Reply>, state: Arc<dyn SharedState>) -> Self {
        let (sent, dropped) = (Mutex::default(), Arc::default());
        let script = Arc::new(Script { replies, sent, dropped });
        let notes = Arc::new(Notes::default());
        let services = Services {
            held: HeldLeases::default(),
            unbooked: UnbookedSpend::default(),
            state,
            models: KnownModels::default(),
            counts: TokenCounts::default(),
            names: NameGenerator::new(1, 1),
            conversations: Conversations::default(),
            running: RunningRequests::default(),
            tasks: TaskTracker::new(),
            meter: Arc::clone(&notes) as _,
            watcher: Arc::clone(&notes) as _,
            clock: Arc::new(|| 1_764_000_000_000),
        };
        let settings = GovernSettings {
            policies: BTreeMap::from([("default".to_owned(), policy)]),
            ..GovernSettings::default()
        };
        let (services, settings) = (Arc::new(services), Arc::new(settings));
        Self { services, script, notes, settings, key: None, ids: RequestIds::new(1) }
    }

    /// The same host with a budget, and a key of this account that asks from now on.
    pub(crate) fn with_budget(mut self, rule: BudgetRule, account: &str) -> Self {
        Arc::make_mut(&mut self.settings).budgets.push(Arc::new(rule));
        self.asks_with(account);
        self
    }

    /// Lets a key of this account, and of the same name, ask from now on.
    pub(crate) fn asks_with(&mut self, account: &str) {
        let (name, account) = (account.into(), Some(account.into()));
        self.key = Some(Arc::new(ClientKey { name, account, ..ClientKey::default() }));
    }

    /// Sends a message of a client with these headers.
    pub(crate) async fn send(&self, body: &Value, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::post("/v1/messages").header("anthropic-version", "2023-06-01");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let target = Target {
            upstream: "anthropic".into(),
            protocol: Protocol::Anthropic,
            path: http::uri::PathAndQuery::from_static("/v1/messages"),
            direct: false,
            key: self.key.clone(),
            settings: Arc::clone(&self.settings),
            id: self.ids.next(),
            began: Instant::now(),
        };
        let body = Bytes::from(body.to_string());
        softland_govern::govern_turn(ClientRequest {
            services: Arc::clone(&self.services),
            transport: Arc::clone(&self.script) as _,
            target,
            parts,
            around: Vec::new(),
            nested_tokens: 0,
            held: None,
            active: Arc::new(ActiveRequest::new(Api::Anthropic, body)),
        })
        .await
    }

    /// Sends a message and reads the whole answer.
    pub(crate) async fn ask(&self, body: &Value) -> (u16, Value) {
        read_json(self.send(body, &[]).await).await
    }

    /// The number of requests sent upstream.
    pub(crate) fn sent(&self) -> usize {
        self.script.sent.lock().expect("no panic").len()
    }

    pub(crate) fn counts(&self, event: &str) -> bool {
        self.notes.events.lock().expect("no panic").contains(&event)
    }

    pub(crate) fn remarks(&self) -> String {
        self.notes.remarks.lock().expect("no panic").join("; ")
    }
}

/// Reads the balance of an account.
pub(crate) async fn read_balance(state: &dyn SharedState, account: &str) -> Balance {
    let wanted = ReserveQuery {
        id: ReservationId("balance".into()),
        at: 0,
        lease: 60_000,
        claims: vec![Claim::new(account.into(), None)],
        ask: ReservationAmounts::from_exact(NanoUsd::ZERO),
        patience: WaitLimits::NONE,
        spent_before: NanoUsd::ZERO,
        opens: None,
    };
    let reserved = state.reserve(wanted).await.expect("the state answers");
    let grant = reserved.grant.expect("nothing is free");
    state.settle_lease(&grant, NanoUsd::ZERO.into());
    reserved.balances[0]
}

/// Reads a response that is one JSON value.
pub(crate) async fn read_json(response: Response<Body>) -> (u16, Value) {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&bytes).expect("JSON"))
}

/// Reads a stream to its end. The flag is true if it ended cleanly.
pub(crate) async fn read_stream(response: Response<Body>) -> (String, bool) {
    let mut body = response.into_body();
    let mut text = String::new();
    loop {
        match body.frame().await {
            None => return (text, true),
            Some(Err(_)) => return (text, false),
            Some(Ok(frame)) => {
                let bytes = frame.into_data().expect("data");
                text.push_str(std::str::from_utf8(&bytes).expect("UTF-8"));
            }
        }
    }
}

/// A message of the model.
pub(crate) fn says(content: &Value, stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 50}})
}

/// A text of the model.
pub(crate) fn text() -> Value {
    says(&json!([{"type": "text", "text": "All is well with the notes."}]), "end_turn")
}

/// A call of the model; its id tells whose it is.
pub(crate) fn call(n: usize) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_0123456789{n:02}"), "name": "read_file",
        "input": {"path": format!("notes/{n}")}})
}

/// The result of a call.
pub(crate) fn result(n: usize) -> Value {
    json!({"type": "tool_result", "tool_use_id": format!("toolu_0123456789{n:02}"),
        "content": format!("note {n}")})
}

/// A first request.
pub(crate) fn question() -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 1000,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "How are the notes?"}]})
}

/// Adds an answered call to a history.
pub(crate) fn add_round(body: &mut Value, n: usize) {
    let messages = body["messages"].as_array_mut().expect("messages");
    messages.push(json!({"role": "assistant", "content": [call(n)]}));
    messages.push(json!({"role": "user", "content": [result(n)]}));
}

/// The head of a message's events, and a text that goes on.
pub(crate) fn begun() -> String {
    let event = |value: &Value| {
        let kind = value["type"].as_str().unwrap_or_else(|| panic!("{value}"));
        format!("event: {kind}\ndata: {value}\n\n")
    };
    [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
            "role": "assistant", "content": [], "model": "claude-sonnet-4-5",
            "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 1000, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "All is "}}),
    ]
    .iter()
    .map(event)
    .collect()
}
