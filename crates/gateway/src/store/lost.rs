//! Tests of requests while the store or the accounts do not respond (contract §4, `on_store_loss`):
//! whole requests, through a gateway whose store fails, to an upstream on loopback.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use softland_session::core::policy::{OnStoreLoss, Policy};
use softland_session::core::{Digest, NanoUsd};
use softland_session::wire::Api;
use softland_session::{ChainLink, ShownResponse};

use super::{
    FoundConversation, MemoryStore, Namesake, Store, StoreChanges, StoreError, StoredScope,
};
use crate::accounts::{
    Accounts, AccountsUnavailable, Balance, Claim, Lease, MemoryAccounts, ReservationAmounts,
    ReservationError, WaitLimits,
};
use crate::active::ActiveRequest;
use crate::body::Body;
use crate::govern::{self, ClientRequest};
use crate::route::{self, Destination, Target};
use crate::settings::{Admin, BaseUrl, Limits, LogSettings, Prices, Settings, Upstream};
use crate::state::{GatewayState, system_clock};

/// A store that can fail on demand.
#[derive(Debug, Default)]
struct Shaky {
    store: MemoryStore,
    accounts: MemoryAccounts,
    store_away: AtomicBool,
    accounts_away: AtomicBool,
}

impl Shaky {
    fn up(&self) -> Result<(), StoreError> {
        let away = self.store_away.load(Ordering::SeqCst);
        if away { Err(StoreError("connection refused".to_owned())) } else { Ok(()) }
    }

    fn open(&self) -> Result<(), AccountsUnavailable> {
        let away = self.accounts_away.load(Ordering::SeqCst);
        if away {
            Err(AccountsUnavailable { because: "connection refused".to_owned() })
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Store for Shaky {
    async fn find_conversation(
        &self,
        clues: &[Digest],
        here: Digest,
    ) -> Result<Option<FoundConversation>, StoreError> {
        self.up()?;
        self.store.find_conversation(clues, here).await
    }

    async fn count_known(&self, clues: &[Digest]) -> Result<usize, StoreError> {
        self.up()?;
        self.store.count_known(clues).await
    }

    async fn take_unanswered(&self, here: Digest) -> Result<Option<Arc<str>>, StoreError> {
        self.up()?;
        self.store.take_unanswered(here).await
    }

    async fn find_named(&self, name: Digest) -> Result<Vec<Namesake>, StoreError> {
        self.up()?;
        self.store.find_named(name).await
    }

    async fn load_scope(&self, scope: &str) -> Result<Arc<StoredScope>, StoreError> {
        self.up()?;
        self.store.load_scope(scope).await
    }

    async fn apply_changes(&self, scope: &str, changes: StoreChanges) -> Result<(), StoreError> {
        self.up()?;
        self.store.apply_changes(scope, changes).await
    }

    async fn find_link(&self, id: &str) -> Result<Option<Arc<ChainLink>>, StoreError> {
        self.up()?;
        self.store.find_link(id).await
    }

    async fn store_shown(&self, shown: ShownResponse) -> Result<(), StoreError> {
        self.up()?;
        self.store.store_shown(shown).await
    }
}

#[async_trait]
impl Accounts for Shaky {
    async fn reserve_money(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
    ) -> Result<Lease, ReservationError> {
        self.open().map_err(ReservationError::Away)?;
        self.accounts.reserve_money(claims, ask, patience).await
    }

    async fn read_balances(&self, accounts: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable> {
        self.open()?;
        self.accounts.read_balances(accounts).await
    }
}

/// A gateway with a failing store, and an upstream that counts requests.
struct Stand {
    gate: Arc<GatewayState>,
    shaky: Arc<Shaky>,
    asked: Arc<AtomicUsize>,
}

impl Stand {
    fn with(policy: Policy, replies: Vec<Value>, ledger: Option<&Path>) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let upstream = provider(replies, Arc::clone(&asked));
        let settings = settings(upstream, policy, ledger);
        let mut gate =
            GatewayState::new(settings, Arc::new(system_clock), ([127, 0, 0, 1], 0).into())
                .expect("a gate");
        let shaky = Arc::new(Shaky::default());
        gate.store = Arc::clone(&shaky) as _;
        gate.accounts = Arc::clone(&shaky) as _;
        Self { gate: Arc::new(gate), shaky, asked }
    }

    /// Makes the store, the accounts, or both fail.
    fn lose(&self, store: bool, accounts: bool) {
        self.shaky.store_away.store(store, Ordering::SeqCst);
        self.shaky.accounts_away.store(accounts, Ordering::SeqCst);
    }

    async fn ask(&self, body: &Value) -> (u16, Value) {
        let uri = "/v1/messages";
        let request = Request::post(uri).header("anthropic-version", "2023-06-01");
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let live = self.gate.live_config();
        let way = route::find_destination(&live, &parts.method, &parts.uri, &parts.headers);
        let Ok(Destination::Provider { origin, protocol, route, path }) = way else {
            panic!("no way")
        };
        let (id, began) = (self.gate.requests.next(), Instant::now());
        let target = Target { origin, protocol, route, path, live, id, began };
        let (gate, body) = (Arc::clone(&self.gate), Bytes::from(body.to_string()));
        let share = gate.bodies.new_share();
        let asked = ClientRequest {
            gate,
            target,
            parts,
            share,
            active: Arc::new(ActiveRequest::new(Api::Anthropic, body)),
        };
        read(govern::govern_turn(asked).await).await
    }

    fn sent(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn counts(&self, event: &str) -> bool {
        self.gate.metrics.to_text().contains(&format!("event=\"{event}\""))
    }
}

async fn read(response: Response<Body>) -> (u16, Value) {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&bytes).expect("JSON"))
}

/// Starts a provider that gives these replies in turn, and then repeats the last one.
fn provider(replies: Vec<Value>, asked: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
            while !is_whole(&read) {
                let Ok(more @ 1..) = stream.read(&mut buffer) else { break };
                read.extend_from_slice(&buffer[..more]);
            }
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let body = replies.get(n).or_else(|| replies.last()).expect("a reply").to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    body.len() >= length.unwrap_or(0)
}

fn settings(upstream: SocketAddr, policy: Policy, ledger: Option<&Path>) -> Settings {
    let base_url = BaseUrl::parse(&format!("http://{upstream}")).expect("a URL");
    let upstream = Upstream { base_url, key: None };
    Settings {
        listen: "127.0.0.1:0".parse().expect("an address"),
        allowed_hosts: Vec::new(),
        admin: Admin::default(),
        client_tokens: None,
        upstreams: [("anthropic".to_owned(), upstream)].into(),
        prices: Prices::default(),
        policies: BTreeMap::from([("default".to_owned(), policy)]),
        routes: Vec::new(),
        shapes: BTreeMap::new(),
        forced_policy: None,
        header_policies: Vec::new(),
        allow_unmetered: false,
        ledger: ledger.map(Path::to_owned),
        ledger_full: false,
        retention: None,
        audit: None,
        log: LogSettings::default(),
        limits: Limits::default(),
    }
}

fn says(content: &Value, stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 50}})
}

fn text() -> Value {
    says(&json!([{"type": "text", "text": "All is well with the notes."}]), "end_turn")
}

fn question() -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 1000,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "How are the notes?"}]})
}

fn limited(on_store_loss: OnStoreLoss) -> Policy {
    Policy { cost_limit_usd: Some(NanoUsd(5_000_000_000)), on_store_loss, ..Policy::default() }
}

#[tokio::test]
async fn closed_refuses_what_has_a_limit_of_money_and_serves_again_when_the_store_is_back() {
    for (store, accounts) in [(false, true), (true, false), (true, true)] {
        let stand = Stand::with(limited(OnStoreLoss::Closed), vec![text()], None);
        stand.lose(store, accounts);
        let (status, answer) = stand.ask(&question()).await;
        assert_eq!((status, &answer["error"]["type"]), (503, &json!("api_error")), "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains("the cost limit cannot be held now"), "{message}");
        assert!(message.contains("connection refused"), "{message}");
        assert_eq!(stand.sent(), 0, "nothing goes out that is not held");
        stand.lose(false, false);
        assert_eq!(stand.ask(&question()).await.0, 200);
        assert!(stand.shaky.accounts.is_idle(), "nothing stays reserved");
    }
}

#[tokio::test]
async fn open_goes_on_and_says_so() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("softland.db");
    let stand = Stand::with(limited(OnStoreLoss::Open), vec![text()], Some(&file));
    stand.lose(true, true);
    let (status, answer) = stand.ask(&question()).await;
    assert_eq!((status, stand.sent()), (200, 1), "{answer}");
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.");
    assert!(stand.counts("accounts_lost") && stand.counts("store_lost"));
    let ledger = stand.gate.ledger.clone().expect("a ledger");
    ledger.close(std::time::Duration::from_secs(10)).expect("written");
    let remark = remark(&file);
    assert!(remark.contains("its cost limit was not held"), "{remark}");
    assert!(remark.contains("connection refused"), "{remark}");
}

/// Returns the ledger's steps of its only run, as text.
fn remark(file: &Path) -> String {
    let reader = softland_ledger::Reader::open(file).expect("a ledger");
    let runs = reader.list_runs(&softland_ledger::Query::default()).expect("runs");
    let run = runs.first().expect("a run");
    format!("{:?}", reader.read_steps(&run.run).expect("steps"))
}

#[tokio::test]
async fn without_a_limit_of_money_everything_goes_on() {
    let observes = Policy {
        mode: softland_session::core::policy::Mode::Observe,
        ..limited(OnStoreLoss::Closed)
    };
    for policy in [Policy::default(), observes] {
        let stand = Stand::with(policy, vec![text()], None);
        stand.lose(true, true);
        assert_eq!(stand.ask(&question()).await.0, 200);
        assert!(stand.counts("accounts_lost") && stand.counts("store_lost"));
    }
}

/// Returns a history of a run whose calls are used up, so that a landing follows.
fn used_up() -> Value {
    let mut body = question();
    let call = json!({"type": "tool_use", "id": "toolu_0123456789ab", "name": "read_file",
        "input": {"path": "a"}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_0123456789ab",
        "content": "notes"});
    let messages = body["messages"].as_array_mut().expect("messages");
    messages.push(json!({"role": "assistant", "content": [call]}));
    messages.push(json!({"role": "user", "content": [result]}));
    body
}

#[tokio::test]
async fn requests_behind_the_clients_own_go_on_too_where_they_may() {
    let call = json!([{"type": "tool_use", "id": "toolu_0123456789cd", "name": "read_file",
        "input": {"path": "b"}}]);
    let replies = vec![says(&call, "tool_use"), text()];
    let policy = Policy { tool_calls_limit: Some(1), ..limited(OnStoreLoss::Open) };
    let stand = Stand::with(policy, replies, None);
    stand.lose(true, true);
    let (status, answer) = stand.ask(&used_up()).await;
    assert_eq!((status, stand.sent()), (200, 2), "{answer}");
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.", "{answer}");
}
