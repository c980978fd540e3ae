//! Running it: health, readiness, numbers, the log, a stop that lets requests end, and reloads.
//!
//! A binary of its own: it keeps what its whole process logs.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use softland_gateway::{BaseUrl, Gateway, KeyEntry, ReloadProblem, Secret, StartError};
use support::{Provider, Running, response, settings};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[path = "it/support/mod.rs"]
mod support;

#[tokio::test]
async fn it_says_how_it_is() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    for (path, text) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let got = gateway.ask(gateway.request(&format!("GET {path}"), &[], "")).await;
        assert_eq!((got.status(), got.text()), (200, text));
        let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], "")).await;
        assert_eq!((got.status(), got.header("allow")), (405, Some("GET, HEAD")));
    }
    gateway.ask(gateway.request("POST /v1/messages", &[], "{}")).await;
    gateway.ask(gateway.request("POST /v1/nothing/here", &[], "{}")).await;
    gateway.ask(gateway.request("POST /nowhere", &[], "{}")).await;
    let requests =
        r#"softland_requests_total{route="messages",upstream="anthropic",status="200"} 1"#;
    gateway.until_metrics(requests).await;
    let text = gateway.metrics().await;
    for line in [
        r#"softland_requests_total{route="other",upstream="openai",status="200"} 1"#,
        r#"softland_requests_total{route="none",upstream="",status="404"} 1"#,
        r#"softland_request_duration_seconds_count{route="messages"} 1"#,
        "softland_active_streams 0",
        "softland_spend_usd_total 0.0",
        "softland_tool_calls_total 0",
    ] {
        assert!(text.lines().any(|had| had == line), "{line}\nis not in\n{text}");
    }
    assert!(text.contains("softland_added_latency_seconds_count 2"), "{text}");
    assert!(gateway.handle.summary().requests >= 7);
}

/// A provider that says when it was asked, and answers when it is told to.
async fn patient() -> (Provider, mpsc::Receiver<()>, Arc<Notify>) {
    let (asked, was_asked) = mpsc::channel(8);
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let provider = Provider::does(move |_, wire| {
        let (asked, wait) = (asked.clone(), Arc::clone(&wait));
        async move {
            asked.send(()).await.expect("the test waits");
            let mut wire = wire.lock().await;
            tokio::select! {
                () = wait.notified() => {
                    wire.send(response("200 OK", &[], "at last")).await;
                    true
                }
                _ = wire.more() => false,
            }
        }
    })
    .await;
    (provider, was_asked, go)
}

#[tokio::test]
async fn a_stop_lets_requests_end_and_takes_no_new_ones() {
    let (provider, mut asked, go) = patient().await;
    let mut gateway = Running::before(&provider).await;
    let mut idle = gateway.client().await;
    assert_eq!(idle.ask(gateway.request("GET /healthz", &[], "")).await.status(), 200);
    let mut busy = gateway.client().await;
    busy.send(gateway.request("POST /v1/messages", &[], "{}")).await;
    asked.recv().await.expect("asked");
    gateway.tell_to_stop();
    assert_eq!(idle.rest().await, b"", "an idle connection is closed at once");
    assert!(TcpStream::connect(gateway.address).await.is_err(), "nothing listens any more");
    go.notify_one();
    let got = busy.message().await.expect("its answer");
    assert_eq!((got.text(), got.header("connection")), ("at last", Some("close")));
    assert_eq!(busy.rest().await, b"");
    assert_eq!(gateway.stopped().await.requests, 2);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let (provider, mut asked, _go) = patient().await;
    let mut settings = settings(&provider.url());
    settings.limits.drain = Duration::from_millis(50);
    let mut gateway = Running::with(settings).await;
    let mut busy = gateway.client().await;
    busy.send(gateway.request("POST /v1/messages", &[], "{}")).await;
    asked.recv().await.expect("asked");
    let summary = gateway.stopped().await;
    assert_eq!(busy.rest().await, b"", "it was cut");
    assert_eq!(summary.requests, 1);
}

#[tokio::test]
async fn a_reload_takes_effect_with_the_next_request() {
    let old = Provider::says(response("200 OK", &[], "old")).await;
    let new = Provider::says(response("200 OK", &[], "new")).await;
    let gateway = Running::before(&old).await;
    let mut client = gateway.client().await;
    let request = gateway.request("POST /v1/messages", &[], "{}");
    assert_eq!(client.ask(&request).await.text(), "old");
    let mut other = settings(&new.url());
    other.limits.body = 1;
    gateway.handle.reload(other).expect("new settings");
    assert_eq!(client.ask(&request).await.status(), 413, "on the same connection");
    gateway.handle.reload(settings(&new.url())).expect("new settings");
    assert_eq!(gateway.ask(&request).await.text(), "new");
}

#[tokio::test]
async fn what_a_reload_cannot_change_stays() {
    let old = Provider::says(response("200 OK", &[], "old")).await;
    let gateway = Running::before(&old).await;
    let mut other = settings("http://127.0.0.1:9");
    other.listen = "127.0.0.1:4141".parse().expect("an address");
    let problem = gateway.handle.reload(other).expect_err("another address");
    assert_eq!(problem, ReloadProblem::Listen);
    assert!(problem.to_string().contains("restart"), "{problem}");
    let mut other = settings("http://127.0.0.1:9");
    other.upstreams.get_mut("anthropic").expect("there").key = Some(Secret::new("sk-\nodd"));
    let problem = gateway.handle.reload(other).expect_err("no header may have such a key");
    assert!(problem.to_string().contains("[upstream.anthropic]"), "{problem}");
    assert!(!problem.to_string().contains("odd"), "{problem}");
    let got = gateway.ask(gateway.request("POST /v1/messages", &[], "{}")).await;
    assert_eq!(got.text(), "old");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    let mut same = settings(&provider.url());
    same.listen = gateway.address;
    let error = Gateway::bind(same).await.expect_err("in use");
    assert!(matches!(error, StartError::Listen { .. }));
    assert!(error.to_string().contains(&gateway.address.to_string()), "{error}");
}

#[tokio::test]
async fn one_line_tells_of_a_request_and_nothing_of_its_secrets() {
    let lines = Lines::global();
    let provider = Provider::says(response("200 OK", &["set-cookie: sk-c"], "sk-answer")).await;
    let mut settings = settings(&provider.url());
    settings.upstreams.get_mut("anthropic").expect("there").key = Some(Secret::new("sk-own"));
    let dead = BaseUrl::parse("http://127.0.0.1:9").expect("a URL");
    settings.upstreams.get_mut("openai").expect("there").base_url = dead;
    settings.keys = vec![KeyEntry::from_token("sk-token")];
    let gateway = Running::with(settings).await;
    let secrets = ["x-api-key: sk-token", "authorization: Bearer sk-client", "cookie: sk-cookie"];
    let line = "POST /v1/messages?key=sk-query&once=operations";
    gateway.ask(gateway.request(line, &secrets, "sk-body")).await;
    gateway.ask(gateway.request("POST /v1/responses", &secrets, "sk-body")).await;
    gateway.ask(gateway.request("POST /v1/messages", &["x-api-key: sk-wrong"], "sk-body")).await;
    gateway.until_metrics("status=\"502\"} 1").await;
    gateway.until_metrics("status=\"401\"} 1").await;
    let lines = lines.lock().expect("no panic").clone();
    let found = lines.iter().filter(|line| {
        [
            "INFO",
            "method=POST",
            "path=\"/v1/messages\"",
            "upstream=\"anthropic\"",
            "status=200",
            "ms=",
        ]
        .iter()
        .all(|part| line.contains(part))
    });
    assert!(found.count() >= 1, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("status=502")), "{lines:#?}");
    let told = lines.iter().find(|line| line.contains("sk-"));
    assert_eq!(told, None);
}

/// Keeps every event of the process as text, of all levels.
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn global() -> Arc<Mutex<Vec<String>>> {
        static LINES: OnceLock<Arc<Mutex<Vec<String>>>> = OnceLock::new();
        Arc::clone(LINES.get_or_init(|| {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let subscriber = Self(Arc::clone(&lines));
            tracing::subscriber::set_global_default(subscriber).expect("the only one");
            lines
        }))
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("span {}", span.metadata().name()));
        span.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line("record".to_owned());
        values.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}
