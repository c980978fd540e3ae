//! Keys of the shared store: when a change is in force, which keys are in force while the store is
//! away, and which rows of the store are refused.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use softland_gateway::govern::key_store::{add_key, revoke_key, rotate_key};
use softland_gateway::govern::store::StoreError;
use softland_gateway::govern::{LocalKeyStore, StoredKey, StoredKeys};
use softland_gateway::{ClientKey, KeyEntry, KeyStore, Settings, TokenDigest, digest_token};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;
use tokio::sync::Notify;

use crate::support::client::Client;
use crate::support::script::{Scripted, calls, says};
use crate::support::sim::{governed, policy};
use crate::support::{LONG, Message, Provider, Running};

/// The time within which a change is in force.
const IN_FORCE: Duration = Duration::from_secs(5);

/// A store of keys that can be away, or lose everything.
#[derive(Debug, Default)]
struct TestStore {
    keys: LocalKeyStore,
    is_away: AtomicBool,
    has_lost: AtomicBool,
}

#[async_trait]
impl KeyStore for TestStore {
    async fn read_keys(&self, known: Option<u64>) -> Result<Option<StoredKeys>, StoreError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreError("it is away".to_owned()));
        }
        if self.has_lost.load(Ordering::Relaxed) {
            return Ok(Some(StoredKeys::default()));
        }
        self.keys.read_keys(known).await
    }

    async fn write_key(&self, known: u64, key: &StoredKey) -> Result<bool, StoreError> {
        self.keys.write_key(known, key).await
    }
}

fn digest(token: &str) -> TokenDigest {
    digest_token(token.as_bytes())
}

/// A key whose token is `NAME-token`, with an account `acme/NAME`.
fn row(name: &str) -> StoredKey {
    let key = StoredKey::new(name, digest(&format!("{name}-token")), 1);
    StoredKey { account: Some(format!("acme/{name}").into()), ..key }
}

/// A store with these keys.
async fn store_with(names: &[&str]) -> Arc<TestStore> {
    let store = Arc::new(TestStore::default());
    for name in names {
        add_key(&*store, row(name)).await.expect("added");
    }
    store
}

async fn upstream() -> Scripted {
    Scripted::plays((0..40).map(|_| says("Done.")).collect()).await
}

fn with_store(upstream: &Scripted, store: &Arc<TestStore>) -> Settings {
    let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(30))]);
    settings.key_store = Some(Arc::clone(store) as _);
    settings
}

/// A client that shows this token beside a provider's credentials.
fn client(token: &str) -> Client {
    Client::new(false).with(&format!("x-softland-key: {token}"))
}

async fn status(gateway: &Running, token: &str) -> u16 {
    client(token).post(gateway).await.status()
}

/// Waits until a token is answered with this status. Returns the time that it took.
async fn until(gateway: &Running, token: &str, wanted: u16) -> Duration {
    let since = Instant::now();
    while status(gateway, token).await != wanted {
        assert!(since.elapsed() < LONG, "{token} is never answered with {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    since.elapsed()
}

/// The number of times that the keys could not be read.
async fn unread(gateway: &Running) -> u64 {
    let metrics = gateway.metrics().await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("softland_events_total{event=\"keys_unread\"} "));
    line.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn k30_a_change_of_a_key_is_in_force_on_every_gateway() {
    let (upstream, store) = (upstream().await, store_with(&["ana"]).await);
    let [one, other] = [with_store(&upstream, &store), with_store(&upstream, &store)];
    let gateways = [Running::with(one).await, Running::with(other).await];
    let everywhere = async |token: &str, wanted| {
        for gateway in &gateways {
            let took = until(gateway, token, wanted).await;
            assert!(took < IN_FORCE, "{token}: {wanted} after {took:?}");
        }
    };
    for gateway in &gateways {
        assert_eq!(status(gateway, "ana-token").await, 200, "what is there at the start is read");
        assert_eq!(status(gateway, "bo-token").await, 401);
    }
    add_key(&*store, row("bo")).await.expect("added");
    everywhere("bo-token", 200).await;
    rotate_key(&*store, "bo", digest("new"), (5, 0)).await.expect("rotated");
    everywhere("new", 200).await;
    everywhere("bo-token", 401).await;
    revoke_key(&*store, "bo", 6).await.expect("revoked");
    everywhere("new", 401).await;
    assert_eq!(status(&gateways[0], "ana-token").await, 200, "others are not concerned");
}

/// A token that was replaced is accepted for the time that it is given, by the gateway's clock.
#[tokio::test]
async fn k31_a_token_that_was_replaced_ends_when_its_time_is_over() {
    let (upstream, store) = (upstream().await, store_with(&["ana"]).await);
    rotate_key(&*store, "ana", digest("new"), (1000, 500)).await.expect("rotated");
    let now = Arc::new(AtomicU64::new(1000));
    let clock = Arc::clone(&now);
    let clock = Arc::new(move || clock.load(Ordering::Relaxed));
    let gateway = Running::with_clock(with_store(&upstream, &store), clock).await;
    for (at, before) in [(1000, 200), (1499, 200), (1500, 401)] {
        now.store(at, Ordering::Relaxed);
        assert_eq!(status(&gateway, "ana-token").await, before, "at {at}");
        assert_eq!(status(&gateway, "new").await, 200, "at {at}");
    }
    now.store(1000, Ordering::Relaxed);
    revoke_key(&*store, "ana", 1000).await.expect("revoked");
    until(&gateway, "new", 401).await;
    assert_eq!(status(&gateway, "ana-token").await, 401, "no time is left to a revoked key");
}

/// A revoked token is refused as one that never was, in each protocol, and goes nowhere.
#[tokio::test]
async fn k32_a_revoked_token_is_refused_and_opens_nothing() {
    let (upstream, store) = (upstream().await, store_with(&["ana", "bo"]).await);
    for name in ["ana", "bo"] {
        revoke_key(&*store, name, 2).await.expect("revoked");
    }
    let gateway = Running::with(with_store(&upstream, &store)).await;
    for api in [Api::Anthropic, Api::Chat, Api::Responses] {
        let ask = async |token: &str| {
            let asked = Client::on(api, false).with(&format!("x-softland-key: {token}"));
            let got = asked.post(&gateway).await;
            (got.status(), got.text().to_owned())
        };
        let (refused, text) = ask("ana-token").await;
        assert_eq!(refused, 401, "{text}");
        assert!(text.contains("authentication_error") && text.contains("x-softland-key"), "{text}");
        assert_eq!(ask("nobodys").await, (refused, text));
        // That all keys are revoked does not let everybody in.
        assert_eq!(Client::on(api, false).post(&gateway).await.status(), 401);
    }
    assert_eq!(upstream.provider.count(), 0);
    // Beside another key it does not pass for a provider's credential.
    add_key(&*store, row("carl")).await.expect("added");
    until(&gateway, "carl-token", 200).await;
    let mut asked = client("carl-token");
    asked.headers[0] = "x-api-key: ana-token".to_owned();
    assert_eq!(asked.post(&gateway).await.status(), 200);
    let seen = upstream.provider.asked.lock().expect("no panic").pop().expect("asked");
    assert!(!format!("{seen:?}").contains("-token"), "{seen:?}");
}

#[tokio::test]
async fn k33_keys_stay_in_force_while_the_store_is_away() {
    let (upstream, store) = (upstream().await, store_with(&["ana"]).await);
    let gateway = Running::with(with_store(&upstream, &store)).await;
    for (loss, what) in [(&store.is_away, "away"), (&store.has_lost, "empty")] {
        loss.store(true, Ordering::Relaxed);
        let (before, since) = (unread(&gateway).await, Instant::now());
        while unread(&gateway).await < before + 2 {
            assert!(since.elapsed() < LONG, "{what}: it is not counted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(status(&gateway, "ana-token").await, 200, "{what}");
        assert_eq!(status(&gateway, "bo-token").await, 401, "{what}");
        let anybody = Client::new(false).post(&gateway).await.status();
        assert_eq!(anybody, 401, "{what}: nobody gets in without a key");
        loss.store(false, Ordering::Relaxed);
    }
    revoke_key(&*store, "ana", 2).await.expect("revoked");
    until(&gateway, "ana-token", 401).await;
}

/// A gateway that has never read the keys does not know whether it needs one, and lets nobody in but
/// the config's own.
#[tokio::test]
async fn k33_a_gateway_that_has_never_read_the_keys_asks_to_come_again() {
    let (upstream, store) = (upstream().await, store_with(&["ana"]).await);
    store.is_away.store(true, Ordering::Relaxed);
    let mut settings = with_store(&upstream, &store);
    let alone = Running::with(settings.clone()).await;
    settings.keys = vec![KeyEntry::from_token("own-token")];
    let gateway = Running::with(settings).await;
    for gateway in [&alone, &gateway] {
        for token in ["ana-token", "nobodys"] {
            let got = client(token).post(gateway).await;
            assert_eq!(got.status(), 503, "{}", got.text());
            assert!(got.text().contains("cannot be read"), "{}", got.text());
            assert_eq!(got.header("x-should-retry"), None);
        }
    }
    assert_eq!(status(&gateway, "own-token").await, 200);
    store.is_away.store(false, Ordering::Relaxed);
    for gateway in [&alone, &gateway] {
        until(gateway, "ana-token", 200).await;
        assert_eq!(status(gateway, "nobodys").await, 401);
    }
}

#[tokio::test]
async fn k34_a_store_without_keys_needs_none_unless_the_config_says_so() {
    let (upstream, store) = (upstream().await, store_with(&[]).await);
    let mut settings = with_store(&upstream, &store);
    let open = Running::with(settings.clone()).await;
    settings.needs_key = true;
    let closed = Running::with(settings).await;
    assert_eq!(Client::new(false).post(&open).await.status(), 200);
    assert_eq!(Client::new(false).post(&closed).await.status(), 401);
    add_key(&*store, row("ana")).await.expect("added");
    for gateway in [&open, &closed] {
        until(gateway, "nobodys", 401).await;
        until(gateway, "ana-token", 200).await;
        assert_eq!(Client::new(false).post(gateway).await.status(), 401);
    }
}

/// The config's key is in force where the store has one of its name, before and after a reload, and
/// a name that a config would refuse is refused in the store, too.
#[tokio::test]
async fn k35_no_row_takes_the_name_of_a_key_or_another_form() {
    let (upstream, store) = (upstream().await, store_with(&["ana", "bo"]).await);
    for name in ["a/b", "a:b", "key:3:ana", "a b", "ana\n", ""] {
        let version = store.read_keys(None).await.expect("it answers").expect("keys").version;
        let forged = StoredKey { token_sha256: digest(&format!("forged {name}")), ..row(name) };
        assert!(store.write_key(version, &forged).await.expect("it answers"));
    }
    let mut settings = with_store(&upstream, &store);
    let account = Some("config/ana".into());
    let key = ClientKey { name: "ana".into(), account, policy: None, policies: None };
    settings.keys = vec![KeyEntry { digest: digest("config-token"), key }];
    let gateway = Running::with(settings.clone()).await;
    assert_eq!(status(&gateway, "config-token").await, 200);
    assert_eq!(status(&gateway, "ana-token").await, 401);
    assert_eq!(status(&gateway, "bo-token").await, 200);
    for name in ["a/b", "a:b", "key:3:ana", "a b"] {
        assert_eq!(status(&gateway, &format!("forged {name}")).await, 401, "{name}");
    }
    settings.keys[0].key.name = "bo".into();
    gateway.handle.reload(settings).expect("accepted");
    assert_eq!(status(&gateway, "ana-token").await, 200, "its name is free");
    assert_eq!(status(&gateway, "bo-token").await, 401, "and this is not");
}

#[tokio::test]
async fn k36_a_policy_that_the_config_lacks_refuses_by_its_name() {
    let (upstream, store) = (upstream().await, store_with(&["ana"]).await);
    let with = |name: &str, policy: Option<&str>, policies: &[&str]| StoredKey {
        policy: policy.map(str::to_owned),
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        ..row(name)
    };
    for key in [
        with("bo", Some("gone"), &["gone", "strict", "lax"]),
        with("carl", Some("strict"), &["strict"]),
        // A built-in one, which the config does not define.
        with("dora", Some("coding"), &["coding", "specialist"]),
    ] {
        add_key(&*store, key).await.expect("added");
    }
    let mut settings = with_store(&upstream, &store);
    settings.policies.insert("strict".into(), policy(&[("tool_calls_limit", Key::Int(12))]));
    settings.policies.insert("lax".into(), policy(&[("tool_calls_limit", Key::Int(13))]));
    let gateway = Running::with(settings).await;
    for (name, header, wanted) in [
        ("bo", None, Err("`gone`, which the configuration")),
        ("bo", Some("gone"), Err("`gone`, which the configuration")),
        ("bo", Some("lax"), Ok("0/13")),
        ("carl", None, Ok("0/12")),
        ("carl", Some("lax"), Err("they may choose strict")),
        ("dora", None, Ok("0/150")),
        ("dora", Some("coding"), Ok("0/150")),
        ("dora", Some("specialist"), Err("`specialist`, which the configuration")),
        ("ana", None, Ok("0/30")),
        ("ana", Some("strict"), Err("no policy may be chosen")),
    ] {
        let mut asked = client(&format!("{name}-token")).asking(&format!("{name} {header:?}"));
        if let Some(header) = header {
            asked = asked.with(&format!("x-softland-policy: {header}"));
        }
        let got = asked.post(&gateway).await;
        match wanted {
            Ok(calls) => assert_eq!(got.header("x-softland-tool-calls"), Some(calls), "{name}"),
            Err(says) => {
                assert_eq!(got.status(), 403, "{name} {header:?}: {}", got.text());
                assert!(got.text().contains(says), "{}", got.text());
            }
        }
    }
}

/// No name of a run or session and no copied history joins a run of another key.
#[tokio::test]
async fn k37_a_stored_key_joins_no_run_of_another() {
    let run_of = |message: &Message| {
        assert_eq!(message.status(), 200, "{}", message.text());
        message.header("x-softland-run").expect("a run").to_owned()
    };
    for header in [None, Some("x-softland-run: nightly"), Some("x-softland-session: s")] {
        let replies = vec![calls(1), says("Done."), says("Mine."), says("Mine."), says("Both.")];
        let upstream = Scripted::plays(replies).await;
        let store = store_with(&["ana", "ana.run", "bo"]).await;
        let gateway = Running::with(with_store(&upstream, &store)).await;
        let with =
            |name: &str| header.into_iter().fold(client(name), |client, name| client.with(name));
        let mut ana = with("ana-token");
        let (first, _) = ana.turn(&gateway).await;
        let run = run_of(&first);
        for other in ["bo-token", "ana.run-token"] {
            let mut forged = with(other);
            forged.body = ana.body.clone();
            assert_ne!(run_of(&forged.post(&gateway).await), run, "{header:?} {other}");
        }
        // A new token is the same key, and goes on with its runs.
        rotate_key(&*store, "ana", digest("new"), (5, 0)).await.expect("rotated");
        until_refused(&gateway, "ana-token").await;
        let mut renewed = with("new");
        renewed.body = ana.body.clone();
        assert_eq!(run_of(&renewed.post(&gateway).await), run, "{header:?}: one's own");
    }
}

/// Waits until a token is refused, without a request that the provider sees.
async fn until_refused(gateway: &Running, token: &str) {
    let since = Instant::now();
    // A key that is in force gets a 403 for this, and nothing is sent.
    let asked = client(token).with("x-softland-policy: nobodys");
    loop {
        if asked.post(gateway).await.status() == 401 {
            return;
        }
        assert!(since.elapsed() < LONG, "{token} is never refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn k32_a_stream_that_runs_ends_although_its_key_was_revoked() {
    let store = store_with(&["ana"]).await;
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let provider = Provider::does(move |_, wire| {
        let waits = Arc::clone(&waits);
        async move {
            let mut wire = wire.lock().await;
            wire.send(format!("{HEAD}{BEGIN}")).await;
            waits.notified().await;
            wire.send(END).await;
            false
        }
    })
    .await;
    let mut settings = governed(&provider.url(), &[("tool_calls_limit", Key::Int(30))]);
    settings.key_store = Some(Arc::clone(&store) as _);
    let gateway = Running::with(settings).await;
    let mut stream = gateway.client().await;
    let asked = Client::new(true).with("x-softland-key: ana-token");
    stream.send(asked.request(&gateway)).await;
    stream.until("Half").await;
    revoke_key(&*store, "ana", 2).await.expect("revoked");
    until_refused(&gateway, "ana-token").await;
    go_on.notify_one();
    stream.until(" and whole.").await;
    stream.until("message_stop").await;
}

/// The head of a streamed response that goes to the connection's end.
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
/// The beginning of a stream.
const BEGIN: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Half"}}

"#;
/// The rest of that stream.
const END: &str = r#"event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and whole."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;
