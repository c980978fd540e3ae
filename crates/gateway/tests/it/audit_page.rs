//! The audit among the pages: who may ask for it, what is handed over and removed, one at a time,
//! and given up when nobody waits.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::support::{Message, Running, settings};
use serde_json::{Value, json};
use softland_gateway::{Audit, AuditFormat, AuditRequest, Settings};
use tempfile::TempDir;

/// Longer than anything here takes on a machine that has much to do.
const LONG: Duration = Duration::from_secs(120);
const MOST: u64 = 100_000;

/// Says what it was asked; of a file `slow` when it was asked and when it was given up.
#[derive(Debug)]
struct Scribe {
    folder: PathBuf,
    began: mpsc::SyncSender<()>,
    given_up: AtomicUsize,
}

impl Audit for Scribe {
    fn write_report(&self, asked: &AuditRequest<'_>) -> String {
        match asked.name {
            Some("slow") => {
                let _ = self.began.send(());
                while !asked.stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                self.given_up.fetch_add(1, Ordering::Relaxed);
            }
            Some("panic") => panic!("as a test wants it"),
            _ => {}
        }
        let bytes = std::fs::read(asked.path).expect("the file is there");
        let form = asked.form == AuditFormat::Page;
        json!({"bytes": bytes.len(), "name": asked.name, "page": form}).to_string()
    }

    fn find_file(&self, path: &str) -> Option<(&'static str, &'static [u8])> {
        (path == "report.css").then_some(("text/css", b"p {}"))
    }

    fn upload_folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

struct Here {
    gateway: Running,
    folder: TempDir,
    scribe: Arc<Scribe>,
    began: mpsc::Receiver<()>,
}

impl Here {
    async fn with(change: impl FnOnce(&mut Settings, &Path)) -> Self {
        let folder = TempDir::new().expect("a folder");
        let (sender, began) = mpsc::sync_channel(8);
        let spool = folder.path().join("spool");
        std::fs::create_dir(&spool).expect("made");
        let scribe = Scribe { folder: spool, began: sender, given_up: AtomicUsize::new(0) };
        let scribe = Arc::new(scribe);
        // No provider is asked.
        let mut settings = settings("http://127.0.0.1:9");
        let audit: Arc<dyn Audit> = Arc::<Scribe>::clone(&scribe);
        settings.audit = Some(audit);
        settings.limits.recording = MOST;
        change(&mut settings, folder.path());
        Self { gateway: Running::with(settings).await, folder, scribe, began }
    }

    fn bearer(&self) -> String {
        let url = self.gateway.handle.pages_url();
        let (_, token) = url.split_once("#token=").expect("a token in the fragment");
        format!("authorization: Bearer {token}")
    }

    async fn hand(&self, query: &str, headers: &[&str], body: &str) -> Message {
        let line = format!("POST /api/audit{query}");
        self.gateway.ask(self.gateway.request(&line, headers, body)).await
    }

    fn kept(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path().join("spool")).expect("a folder");
        files.count()
    }

    /// Waits for what a connection that was lost leaves behind.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(LONG, async {
            while !holds(self) {
                tokio::task::yield_now().await;
            }
        });
        assert!(waited.await.is_ok(), "{what}");
    }
}

fn value(message: &Message) -> Value {
    assert_eq!(message.status(), 200, "{}", message.text());
    serde_json::from_str(message.text()).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_read_and_without_one_it_says_so() {
    let here =
        Here::with(|settings, folder| settings.ledger = Some(folder.join("l.db").into())).await;
    let gateway = &here.gateway;
    let plain = gateway.ask(gateway.request("GET /api/audit", &[], "")).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    assert_eq!(plain.header("x-softland-content"), Some("digests"));
    assert!(plain.header("content-security-policy").is_some());
    let said = value(&plain);
    assert_eq!((&said["page"], &said["name"]), (&json!(false), &Value::Null));
    assert!(said["bytes"].as_u64() > Some(0), "it is the ledger: {said}");
    let page = gateway.ask(gateway.request("GET /api/audit", &["accept: text/html"], "")).await;
    assert_eq!(value(&page)["page"], true);
    let style = gateway.ask(gateway.request("GET /audit/report.css", &[], "")).await;
    assert_eq!((style.status(), style.text()), (200, "p {}"));
    let other = gateway.ask(gateway.request("GET /audit/other", &[], "")).await;
    assert_eq!(other.status(), 404);
    let put = gateway.ask(gateway.request("PUT /api/audit", &[], "x")).await;
    assert_eq!((put.status(), put.header("allow")), (405, Some("GET, POST")));

    let none = Here::with(|_, _| {}).await;
    let asked = none.gateway.request("GET /api/audit", &[], "");
    let said = none.gateway.ask(asked).await;
    assert!(said.status() == 404 && said.text().contains("no ledger is kept"), "{}", said.text());
    let without = Here::with(|settings, _| settings.audit = None).await;
    let asked = without.gateway.request("GET /api/audit", &[], "");
    assert_eq!(without.gateway.ask(asked).await.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_taken_with_the_token_only_within_its_bound_and_removed() {
    let here = Here::with(|_, _| {}).await;
    let bearer = here.bearer();
    for headers in [&[][..], &["authorization: Bearer x"], &["content-type: text/plain"]] {
        assert_eq!(here.hand("", headers, "{}").await.status(), 401, "{headers:?}");
    }
    let foreign = [&*bearer, "origin: https://evil.example"];
    assert_eq!(here.hand("", &foreign, "{}").await.status(), 403);
    let cross = [&*bearer, "sec-fetch-site: cross-site"];
    assert_eq!(here.hand("", &cross, "{}").await.status(), 403);

    let said = value(&here.hand("?name=..%2Fa%20%3Cb%3E.json", &[&bearer], "0123456789").await);
    assert_eq!(said, json!({"bytes": 10, "name": "a <b>.json", "page": false}));
    let nameless = value(&here.hand("?name=%2F", &[&bearer], "").await);
    assert_eq!(nameless["name"], "the chosen file");

    let large = format!("content-length: {}", MOST + 1);
    let declared = here.gateway.request("POST /api/audit", &[&bearer, &large], "");
    assert_eq!(here.gateway.ask(declared).await.status(), 413);
    // Of one that says no length, what is too much is found as it comes.
    let chunk = format!("{:x}\r\n{}\r\n", MOST / 2, "x".repeat((MOST / 2) as usize));
    let chunked =
        here.gateway.request("POST /api/audit", &[&bearer, "transfer-encoding: chunked"], "");
    let chunked = format!("{chunked}{chunk}{chunk}{chunk}0\r\n\r\n");
    let said = here.gateway.ask(chunked).await;
    assert!(said.status() == 413 && said.text().contains("100000"), "{}", said.text());
    // A report that fails is said, and leaves nothing behind.
    assert_eq!(here.hand("?name=panic", &[&bearer], "{}").await.status(), 500);
    here.until("nothing is left", |here| here.kept() == 0).await;
    assert_eq!(value(&here.hand("", &[&bearer], "12").await)["bytes"], 2);
    assert_eq!(here.kept(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_report_at_a_time_and_none_that_nobody_waits_for() {
    let here = Here::with(|_, _| {}).await;
    let bearer = here.bearer();
    // A recording that breaks off is removed, and does not keep others waiting.
    let mut cut = here.gateway.client().await;
    let head = here.gateway.request("POST /api/audit", &[&bearer, "content-length: 1000"], "");
    cut.send(format!("{head}half of it")).await;
    here.until("it is taken", |here| here.kept() == 1).await;
    assert_eq!(here.hand("", &[&bearer], "{}").await.status(), 503);
    drop(cut);
    here.until("it is removed", |here| here.kept() == 0).await;

    let mut slow = here.gateway.client().await;
    let asked = here.gateway.request("POST /api/audit?name=slow", &[&bearer], "{}");
    let began = tokio::time::timeout(LONG, async {
        // The seat of the one that broke off is free at last.
        loop {
            slow.send(&asked).await;
            if here.began.recv_timeout(Duration::from_millis(200)).is_ok() {
                return;
            }
            slow = here.gateway.client().await;
        }
    });
    began.await.expect("it begins");
    assert_eq!(here.hand("", &[&bearer], "{}").await.status(), 503);
    drop(slow);
    here.until("it is given up", |here| here.scribe.given_up.load(Ordering::Relaxed) == 1).await;
    here.until("its recording is removed", |here| here.kept() == 0).await;
    let again = tokio::time::timeout(LONG, async {
        while here.hand("", &[&bearer], "{}").await.status() != 200 {}
    });
    again.await.expect("the next one is served");
}
