use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::fake::FakeEngine;

/// What an engine knows of workers' addresses, and which of them it reaches.
#[derive(Default)]
struct Known {
    newest: Option<String>,
    /// The metadata of each address. An id is `dp_` and the address.
    addresses: BTreeMap<String, Value>,
    reached: BTreeSet<String>,
    registered: usize,
}

impl Known {
    fn answer(&mut self, request: &str, body: &str) -> (u16, Value) {
        match request {
            "POST /deployments" => self.register(&serde_json::from_str(body).unwrap()),
            "GET /services/SoftlandRun" => match &self.newest {
                Some(url) => (200, json!({ "deployment_id": id_of(url) })),
                None => (404, json!({ "message": "The requested service does not exist" })),
            },
            other => {
                let url = self.newest.clone().unwrap();
                assert_eq!(other, format!("GET /deployments/{}", id_of(&url)));
                (200, json!({ "uri": url, "metadata": self.addresses[&url] }))
            }
        }
    }

    fn register(&mut self, asked: &Value) -> (u16, Value) {
        let (url, force) = (asked["uri"].as_str().unwrap(), asked["force"] == true);
        let new = !self.addresses.contains_key(url);
        if (force || new) && !self.reached.contains(url) {
            return (500, json!({ "message": "[META0003] connection refused" }));
        }
        if (force || new) && asked["dry_run"] != true {
            self.addresses.insert(url.to_owned(), asked["metadata"].clone());
            self.newest = Some(url.to_owned());
            self.registered += 1;
        }
        (200, json!({ "id": id_of(url) }))
    }
}

fn id_of(url: &str) -> String {
    format!("dp_{}", url.replace(['/', ':'], "_"))
}

/// An engine, and what it knows.
struct Engine {
    known: Arc<Mutex<Known>>,
    fake: FakeEngine,
}

impl Engine {
    async fn start() -> Self {
        let known = Arc::<Mutex<Known>>::default();
        let of_fake = Arc::clone(&known);
        let answer = move |request: &str, body: &str| {
            let (status, answer) = of_fake.lock().unwrap().answer(request, body);
            (status, answer.to_string().into_bytes())
        };
        Self { known, fake: FakeEngine::start_with_status(answer).await }
    }

    /// Starts a worker at an address.
    async fn begin(&self, url: &str) -> Registration {
        self.reach(url, true);
        let admin = Admin::new(self.fake.client.clone());
        Registration::begin(admin, url.to_owned()).await.unwrap()
    }

    fn reach(&self, url: &str, reached: bool) {
        let mut known = self.known.lock().unwrap();
        if reached {
            known.reached.insert(url.to_owned())
        } else {
            known.reached.remove(url)
        };
    }

    fn lose_data(&self) {
        let mut known = self.known.lock().unwrap();
        (known.newest, known.addresses) = (None, BTreeMap::new());
    }

    fn newest(&self) -> String {
        self.known.lock().unwrap().newest.clone().unwrap_or_default()
    }

    fn registered(&self) -> usize {
        self.known.lock().unwrap().registered
    }
}

const OLD: &str = "http://10.0.0.1:9080/v/a";
const NEW: &str = "http://10.0.0.2:9080/v/b";
const OTHER: &str = "http://10.0.0.3:9080/v/c";

#[tokio::test]
async fn e15_a_worker_that_comes_back_gets_new_runs_unless_another_build_serves_them() {
    let engine = Engine::start().await;
    engine.begin(OLD).await;
    engine.begin(NEW).await;
    engine.begin(OLD).await;
    assert_eq!(engine.newest(), NEW, "another build that serves");
    let same = "http://10.0.0.9:9080/v/a";
    engine.begin(same).await;
    engine.begin(OLD).await;
    assert_eq!(engine.newest(), OLD, "the same build");
    engine.begin(NEW).await;
    engine.reach(OLD, false);
    engine.begin(NEW).await;
    assert_eq!(engine.newest(), NEW, "another build that is gone");
}

#[tokio::test]
async fn e18_a_worker_stands_in_for_the_newest_while_that_is_not_reached() {
    let engine = Engine::start().await;
    let mut old = engine.begin(OLD).await;
    let mut new = engine.begin(NEW).await;
    for worker in [&mut old, &mut new] {
        assert!(!worker.look_once().await.unwrap(), "both are there");
    }
    engine.reach(NEW, false);
    assert!(!old.look_once().await.unwrap(), "it may only be started again");
    engine.reach(NEW, true);
    assert!(!old.look_once().await.unwrap());
    engine.reach(NEW, false);
    assert!(!old.look_once().await.unwrap(), "looks in a row count");
    assert!(old.look_once().await.unwrap());
    assert_eq!(engine.newest(), OLD);
    // Another stands in for the one that stands in.
    let mut other = engine.begin(OTHER).await;
    engine.known.lock().unwrap().newest = Some(OLD.to_owned());
    engine.reach(OLD, false);
    assert!(!other.look_once().await.unwrap() && other.look_once().await.unwrap());
    assert_eq!(engine.newest(), OTHER);
    engine.reach(OLD, true);
    assert!(!old.look_once().await.unwrap(), "it only stood in itself");
    engine.reach(NEW, true);
    assert!(new.look_once().await.unwrap(), "the worker that was replaced gets its place back");
    assert_eq!(engine.newest(), NEW);
    let before = engine.registered();
    for _ in 0..5 {
        for worker in [&mut old, &mut new, &mut other] {
            assert!(!worker.look_once().await.unwrap());
        }
    }
    assert_eq!(engine.registered(), before, "workers that are reached do not change places");
}

#[tokio::test]
async fn e18_a_worker_that_is_started_again_gets_its_place_back_at_once() {
    let engine = Engine::start().await;
    let mut old = engine.begin(OLD).await;
    engine.begin(NEW).await;
    engine.reach(NEW, false);
    assert!(!old.look_once().await.unwrap() && old.look_once().await.unwrap());
    engine.begin(NEW).await;
    assert_eq!(engine.newest(), NEW);
}

#[tokio::test]
async fn e19_an_engine_that_has_lost_its_data_is_registered_with_again_by_the_newest_worker() {
    let engine = Engine::start().await;
    let mut old = engine.begin(OLD).await;
    let mut new = engine.begin(NEW).await;
    for worker in [&mut old, &mut new] {
        worker.look_once().await.unwrap();
    }
    engine.lose_data();
    assert!(!old.look_once().await.unwrap(), "the newest worker comes first");
    assert!(new.look_once().await.unwrap());
    assert!(!old.look_once().await.unwrap());
    assert_eq!(engine.newest(), NEW);
    engine.lose_data();
    engine.reach(NEW, false);
    assert!(!old.look_once().await.unwrap() && old.look_once().await.unwrap());
    assert_eq!(engine.newest(), OLD, "no other is there");
}

#[tokio::test]
async fn e19_a_look_at_an_engine_that_is_away_forgets_nothing() {
    let engine = Engine::start().await;
    let mut new = engine.begin(NEW).await;
    let here = std::mem::replace(
        &mut new.admin,
        Admin::new(crate::EngineClient::new("http://127.0.0.1:9").unwrap()),
    );
    new.look_once().await.unwrap_err();
    engine.lose_data();
    new.admin = here;
    assert!(new.look_once().await.unwrap(), "it was the newest");
}
