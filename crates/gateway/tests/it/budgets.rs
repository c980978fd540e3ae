//! Budgets of accounts: what they hold, how runs end at them, and that no name is a way past them.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use softland_gateway::govern::LocalState;
use softland_gateway::{
    BudgetRule, BudgetWindow, ClientKey, KeyEntry, OnExhausted, Settings, WindowLength,
    digest_token,
};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::support::Running;
use crate::support::client::{APIS, Client};
use crate::support::reading::read;
use crate::support::sim::{Simulated, governed};

const LIMIT: u64 = 20_000_000;
/// Noon of the 27th of November 2026, in milliseconds since 1970.
const NOON: u64 = 1_795_780_800_000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
/// The window of five hours that begins at noon.
const FIRST: &str = "2026-11-27T12:00:00+00:00";
const LAST: &str = "2026-11-27T17:00:00+00:00";
const NULL: Value = Value::Null;

/// A key whose token is `NAME-token`.
fn key(name: &str, account: &str) -> KeyEntry {
    let account = Some(account.into());
    let key = ClientKey { name: name.into(), account, ..ClientKey::default() };
    KeyEntry { digest: digest_token(format!("{name}-token").as_bytes()), key }
}

/// A budget of $0.02 a day.
fn budget(account: &str, each_child: bool, on_exhausted: OnExhausted) -> Arc<BudgetRule> {
    Arc::new(BudgetRule {
        account: account.to_owned(),
        each_child,
        limit: Some(softland_session::core::NanoUsd(LIMIT)),
        tokens_limit: None,
        window: BudgetWindow::new(WindowLength::Day, "Europe/Berlin").expect("a zone"),
        notify_at: vec![0.25, 0.5],
        on_exhausted,
    })
}

fn client(api: Api, name: &str) -> Client {
    Client::on(api, false).limited(200).with(&format!("x-softland-key: {name}-token"))
}

/// A simulated provider whose model searches for ever, behind a gateway with a clock.
struct Place {
    sim: Simulated,
    gateway: Running,
    clock: Arc<AtomicU64>,
}

impl Place {
    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let sim = Simulated::playing("sweeper").await;
        let mut settings = governed(&sim.url, &[("reserve_tokens", Key::Int(100))]);
        settings.keys = vec![key("ana", "acme/ana"), key("bo", "acme/bo"), key("al", "acmes/al")];
        change(&mut settings);
        let clock = Arc::new(AtomicU64::new(NOON));
        let now = Arc::clone(&clock);
        let now = Arc::new(move || now.load(Ordering::SeqCst));
        Self { sim, gateway: Running::with_clock(settings, now).await, clock }
    }

    /// Ends the gateway, and begins another one with the same settings.
    async fn restart(&mut self, settings: Settings) {
        self.gateway.stopped().await;
        let now = Arc::clone(&self.clock);
        let now = Arc::new(move || now.load(Ordering::SeqCst));
        self.gateway = Running::with_clock(settings, now).await;
    }

    /// Asks on the key of `ana` until it is refused, and returns what is said then.
    async fn ask_to_refusal(&self, api: Api) -> String {
        for asked in 0..200 {
            let asks = client(api, "ana").asking(&format!("Question {asked}: what is there?"));
            let got = asks.post(&self.gateway).await;
            if got.status() == 402 {
                return got.text().to_owned();
            }
            assert_eq!(got.status(), 200, "{}", got.text());
        }
        unreachable!("{api:?}: the budget is reached");
    }

    async fn run_of(&self, run: &str) -> Value {
        self.read_api(&format!("/api/runs/{run}")).await
    }

    async fn read_api(&self, path: &str) -> Value {
        let got = self.gateway.ask(self.gateway.request(&format!("GET {path}"), &[], "")).await;
        serde_json::from_str(got.text()).expect("JSON")
    }
}

/// An open run lands with an answer, a new one gets one message and sends nothing, and the next
/// window serves again.
#[tokio::test]
async fn k10_a_budget_holds_and_brings_runs_to_an_answer() {
    for api in APIS {
        let place = Place::with(|settings| {
            settings.budgets = vec![budget("acme", false, OnExhausted::Land)];
        })
        .await;
        let (mut lands, mut asked) = (false, 0);
        while !lands {
            let (turns, message, _) = client(api, "ana")
                .asking(&format!("Question {asked}: what is in the notes?"))
                .run(&place.gateway)
                .await;
            let run = message.header("x-softland-run").expect("a run").to_owned();
            let row = place.run_of(&run).await;
            lands = row["reason"] == "budget";
            asked += 1;
            assert!(asked < 40, "{api:?}: the budget is reached, after {turns} turns: {row}");
        }
        let billed = place.sim.billed();
        assert!(billed <= LIMIT, "{api:?}: {billed}");
        assert!(billed > LIMIT / 2, "{api:?}: {billed}");
        // The account is shared: a new run of another key is answered without the provider.
        let got = client(api, "bo").asking("And what else?").post(&place.gateway).await;
        assert_eq!(got.status(), 200, "{}", got.text());
        let said = read(&got).text();
        for part in ["budget", "acme", "$0.02 a day", "2026-11-28T00:00:00+01:00"] {
            assert!(said.contains(part), "{api:?}: {part} in {said}");
        }
        assert_eq!(place.sim.billed(), billed, "{api:?}");
        // An account whose name begins alike is another one.
        client(api, "al").asking("Who are you?").post(&place.gateway).await;
        let others = place.sim.billed();
        assert!(others > billed, "{api:?}");
        place.clock.fetch_add(DAY, Ordering::SeqCst);
        client(api, "bo").asking("And what else?").post(&place.gateway).await;
        assert!(place.sim.billed() > others, "{api:?}: a new window");
    }
}

/// A budget that refuses does so in the protocol's shape, and says that trying again is of no use.
#[tokio::test]
async fn k11_a_budget_may_refuse() {
    for api in APIS {
        let place = Place::with(|settings| {
            settings.budgets = vec![budget("acme", true, OnExhausted::Refuse)];
        })
        .await;
        let mut asked = 0;
        let refused = loop {
            let asks = client(api, "ana").asking(&format!("Question {asked}: what is there?"));
            let got = asks.post(&place.gateway).await;
            if got.status() != 200 {
                break got;
            }
            asked += 1;
            assert!(asked < 200, "{api:?}: the budget is reached");
        };
        assert_eq!(refused.status(), 402, "{}", refused.text());
        assert_eq!(refused.header("x-should-retry"), Some("false"));
        let error: Value = serde_json::from_str(refused.text()).expect("JSON");
        let said = error["error"]["message"].as_str().expect("a message");
        for part in ["acme/ana", "$0.02 a day", "2026-11-28T00:00:00+01:00"] {
            assert!(said.contains(part), "{api:?}: {part} in {said}");
        }
        let billed = place.sim.billed();
        assert!(billed <= LIMIT, "{billed}");
        // Each child has its own.
        let other = client(api, "bo").asking("What is there?").post(&place.gateway).await;
        assert_eq!(other.status(), 200, "{}", other.text());
        assert!(place.sim.billed() > billed);
    }
}

/// New names for runs and sessions, at once and one after another, are no way past a budget.
#[tokio::test]
async fn k12_no_name_is_a_way_past_a_budget() {
    let place = Place::with(|settings| {
        settings.budgets = vec![budget("acme", false, OnExhausted::Land)];
    })
    .await;
    for round in 0..4 {
        let asking = (0..30).map(|n| {
            let run = format!("x-softland-run: {round}/{n}");
            let session = format!("x-softland-session: key:3:bo:{round}:{n}");
            let client = client(Api::Anthropic, if n % 2 == 0 { "ana" } else { "bo" });
            let client = client.with(&run).with(&session).asking(&format!("{round} {n}"));
            let gateway = &place.gateway;
            async move { client.post(gateway).await.status() }
        });
        let statuses = futures_util::future::join_all(asking).await;
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        assert!(place.sim.billed() <= LIMIT, "{}", place.sim.billed());
    }
    assert!(place.sim.billed() > LIMIT / 2, "{}", place.sim.billed());
}

/// A gateway that begins again on its ledger goes on in the windows of the one before.
#[tokio::test]
async fn k13_a_restart_does_not_refill_a_budget() {
    for (window, ends) in
        [(WindowLength::Day, 11 * HOUR), (WindowLength::Rolling(5 * HOUR), 5 * HOUR)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let rule = budget("acme", true, OnExhausted::Refuse);
        let window = BudgetWindow::new(window, "Europe/Berlin").expect("a zone");
        let rule = Arc::new(BudgetRule { window, ..Arc::unwrap_or_clone(rule) });
        let mut kept = None;
        let mut place = Place::with(|settings| {
            settings.budgets = vec![rule];
            settings.ledger = Some(folder.path().join("softland.db").into());
            kept = Some(settings.clone());
        })
        .await;
        client(Api::Anthropic, "ana").asking("What is there at noon?").post(&place.gateway).await;
        place.clock.fetch_add(HOUR, Ordering::SeqCst);
        let (refused, billed) = (place.ask_to_refusal(Api::Anthropic).await, place.sim.billed());
        place.restart(kept.expect("settings")).await;
        for at in [HOUR, ends - 1] {
            place.clock.store(NOON + at, Ordering::SeqCst);
            let asks = client(Api::Anthropic, "ana").asking("And what else?");
            let got = asks.post(&place.gateway).await;
            assert_eq!((got.status(), got.text()), (402, &*refused));
        }
        assert_eq!(place.sim.billed(), billed);
        place.clock.store(NOON + ends, Ordering::SeqCst);
        let got = client(Api::Anthropic, "ana").asking("And now?").post(&place.gateway).await;
        assert_eq!(got.status(), 200, "{}", got.text());
    }
}

/// The API shows what each window has left, and the operator is told once of each share.
#[tokio::test]
async fn k14_windows_are_shown_and_shares_told() {
    let place = Place::with(|settings| {
        let rolling = BudgetWindow::new(WindowLength::Rolling(5 * HOUR), "UTC").expect("a zone");
        let tokens = BudgetRule {
            limit: None,
            tokens_limit: Some(10_000_000),
            window: rolling,
            ..Arc::unwrap_or_clone(budget("acme", false, OnExhausted::Land))
        };
        settings.budgets = vec![budget("acme", true, OnExhausted::Refuse), Arc::new(tokens)];
    })
    .await;
    let unused = place.read_api("/api/budgets").await;
    let [ana, bo, acme] = &unused["budgets"].as_array().expect("rows")[..] else {
        unreachable!("{unused}")
    };
    assert_eq!([&ana["account"], &bo["account"]], ["acme/ana", "acme/bo"]);
    assert_eq!(ana["begins"], "2026-11-27T00:00:00+01:00");
    assert_eq!((&acme["begins"], &acme["ends"], &acme["limit_usd"]), (&NULL, &NULL, &NULL));
    assert_eq!((&acme["window"], &acme["left_tokens"]), (&json!("5h"), &json!(10_000_000)));
    place.ask_to_refusal(Api::Anthropic).await;
    let told = |share: &str| {
        let labels = format!("account=\"acme/ana\",window=\"day\",share=\"{share}\"");
        format!("softland_budget_notices_total{{{labels}}} 1")
    };
    for _ in 0..2 {
        let used = place.read_api("/api/budgets").await;
        let (ana, bo, acme) = (&used["budgets"][0], &used["budgets"][1], &used["budgets"][2]);
        let spent = place.sim.billed();
        let dollars = |nano: u64| json!(nano as f64 / 1e9);
        assert_eq!(
            ana,
            &json!({"account": "acme/ana", "rule": "acme/*", "window": "day",
                "timezone": "Europe/Berlin", "on_exhausted": "refuse",
                "begins": "2026-11-27T00:00:00+01:00", "ends": "2026-11-28T00:00:00+01:00",
                "limit_usd": 0.02, "spent_usd": dollars(spent), "reserved_usd": 0.0,
                "left_usd": dollars(LIMIT - spent), "limit_tokens": null,
                "spent_tokens": acme["spent_tokens"], "reserved_tokens": 0, "left_tokens": null,
                "notify_at": [0.25, 0.5], "reached": 0.5})
        );
        assert_eq!((&bo["spent_usd"], &bo["reached"]), (&json!(0.0), &NULL));
        assert_eq!((&acme["begins"], &acme["ends"]), (&json!(FIRST), &json!(LAST)));
        let metrics = place.gateway.metrics().await;
        assert!(metrics.contains(&told("0.25")) && metrics.contains(&told("0.5")), "{metrics}");
        assert!(!metrics.contains("account=\"acme/bo\",window"), "{metrics}");
    }
    place.clock.fetch_add(DAY, Ordering::SeqCst);
    let next = place.read_api("/api/budgets").await;
    assert_eq!(
        (&next["budgets"][0]["spent_usd"], &next["budgets"][2]["begins"]),
        (&json!(0.0), &NULL)
    );
}

/// Gateways that share their state share budgets, and none books what its ledger says again.
#[tokio::test]
async fn k16_gateways_with_one_state_have_one_budget() {
    let (folder, mut kept) = (tempfile::tempdir().expect("a folder"), None);
    let place = Place::with(|settings| {
        settings.budgets = vec![budget("acme", true, OnExhausted::Refuse)];
        settings.ledger = Some(folder.path().join("softland.db").into());
        settings.shared = Some(Arc::new(LocalState::with_expiring_leases()));
        kept = Some(settings.clone());
    })
    .await;
    client(Api::Anthropic, "ana").asking("What is there?").post(&place.gateway).await;
    let mut place = place;
    place.restart(kept.clone().expect("settings")).await;
    let spent = place.read_api("/api/budgets").await["budgets"][0]["spent_usd"].clone();
    assert_eq!(spent, json!(place.sim.billed() as f64 / 1e9), "once");
    let now = Arc::clone(&place.clock);
    let now = Arc::new(move || now.load(Ordering::SeqCst));
    let settings = Settings { ledger: None, ..kept.expect("settings") };
    let other = Running::with_clock(settings, now).await;
    place.ask_to_refusal(Api::Anthropic).await;
    let billed = place.sim.billed();
    let got = client(Api::Anthropic, "ana").asking("And what else?").post(&other).await;
    assert_eq!((got.status(), place.sim.billed()), (402, billed));
}
