//! Budgets of accounts: what they hold, how runs end at them, and that no name is a way past them.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;

use serde_json::{Value, json};
use softland_govern::budget::{AccountBudget, BudgetRule, OnExhausted};
use softland_govern::money::accounts::WindowState;
use softland_govern::money::window::{BudgetWindow, WindowLength};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;
use softland_session::core::policy::Policy;

use crate::support::{Host, Reply, add_round, call, question, read_json, says, text};

const LIMIT: NanoUsd = NanoUsd(80_000_000);
const TOKENS: u64 = 30_000;

fn policy() -> Policy {
    Policy { reserve_tokens: 100, ..Policy::default() }
}

/// A budget of $0.08 a day.
fn budget(account: &str, each_child: bool, on_exhausted: OnExhausted) -> BudgetRule {
    BudgetRule {
        account: account.to_owned(),
        each_child,
        limit: Some(LIMIT),
        tokens_limit: None,
        window: BudgetWindow::new(WindowLength::Day, "Europe/Berlin").expect("a zone"),
        notify_at: Vec::new(),
        on_exhausted,
    }
}

/// A question that asks for little output.
fn asking(text: &str) -> Value {
    let mut body = question();
    body["max_tokens"] = json!(100);
    body["messages"][0]["content"] = json!(text);
    body
}

/// A model that calls a tool in each of so many turns.
fn calling(turns: usize) -> Vec<Reply> {
    (1..=turns).map(|n| Reply::Whole(says(&json!([call(n)]), "tool_use"))).collect()
}

/// The number of requests for a turn that were sent; token counts are free.
fn turns(host: &Host) -> usize {
    let sent = host.script.sent.lock().expect("no panic");
    sent.iter().filter(|body| !body["max_tokens"].is_null()).count()
}

/// The window of an account now.
async fn window(host: &Host, rule: &BudgetRule, account: &str) -> WindowState {
    let budget = AccountBudget::from_rule(&Arc::new(rule.clone()), account).expect("a budget");
    let now = host.services.now();
    let read = host.services.state.read_windows(vec![budget.claim_at(now, None)], now).await;
    read.expect("it answers").remove(0).expect("a window")
}

/// Goes on with one run until it lands.
async fn run_to_landing(host: &Host) {
    let mut body = asking("What is in the notes?");
    for n in 1..60 {
        let response = host.send(&body, &[]).await;
        let lands = response.headers()["x-softland-phase"] == "landing";
        let (status, answer) = read_json(response).await;
        assert_eq!(status, 200, "{answer}");
        if lands {
            let sent = host.script.sent.lock().expect("no panic");
            let told = sent.iter().any(|body| body.to_string().contains("Budget limit reached"));
            assert!(told, "the model is told");
            return;
        }
        add_round(&mut body, n);
    }
    unreachable!("the budget is reached");
}

/// An open run lands, a new one of another key gets one message and sends nothing, and an account
/// whose name begins alike is another one.
#[tokio::test]
async fn k10_a_budget_holds_and_brings_runs_to_an_answer() {
    let rule = budget("acme", false, OnExhausted::Land);
    let mut host = Host::new(policy(), calling(60)).with_budget(rule.clone(), "acme/ana");
    run_to_landing(&host).await;
    let now = window(&host, &rule, "acme/ana").await;
    assert!(now.balance.spent <= LIMIT && now.balance.spent > NanoUsd(LIMIT.0 / 2), "{now:?}");
    assert_eq!((now.balance.reserved, now.kept), (NanoUsd::ZERO, Amount::default()));
    let before = turns(&host);
    host.asks_with("acme/bo");
    let (status, answer) = host.ask(&asking("And what else?")).await;
    assert_eq!((status, turns(&host)), (200, before), "{answer}");
    let said = answer["content"][0]["text"].as_str().expect("a text");
    for part in ["The budget of acme ", "$0.08 a day", "2025-11-25T00:00:00+01:00"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    host.asks_with("acmes/al");
    host.ask(&asking("Who are you?")).await;
    assert_eq!(turns(&host), before + 1);
}

/// Tokens are counted as the provider reports them.
#[tokio::test]
async fn k10_a_budget_of_tokens_holds() {
    let rule = BudgetRule {
        limit: None,
        tokens_limit: Some(TOKENS),
        ..budget("*", false, OnExhausted::Land)
    };
    let rule = BudgetRule { account: "acme".to_owned(), ..rule };
    let host = Host::new(policy(), calling(60)).with_budget(rule.clone(), "acme/ana");
    run_to_landing(&host).await;
    let now = window(&host, &rule, "acme").await.balance;
    assert_eq!(now.tokens_spent % 1050, 0, "1,000 and 50 a turn: {now:?}");
    assert!(now.tokens_spent <= TOKENS && now.tokens_spent > TOKENS / 2, "{now:?}");
}

#[tokio::test]
async fn k11_a_budget_may_refuse() {
    let rule = budget("acme", true, OnExhausted::Refuse);
    let replies = (0..60).map(|_| Reply::Whole(text())).collect();
    let mut host = Host::new(policy(), replies).with_budget(rule.clone(), "acme/ana/laptop");
    let mut asked = 0;
    let refused = loop {
        let response = host.send(&asking(&format!("Question {asked}")), &[]).await;
        if response.status() != 200 {
            break response;
        }
        read_json(response).await;
        asked += 1;
        assert!(asked < 60, "the budget is reached");
    };
    let before = turns(&host);
    assert_eq!(before, asked);
    assert_eq!(refused.headers()["x-should-retry"], "false");
    let (status, error) = read_json(refused).await;
    assert_eq!((status, &error["type"]), (402, &json!("error")));
    let said = error["error"]["message"].as_str().expect("a message");
    for part in ["the budget of acme/ana ", "$0.08 a day", "2025-11-25T00:00:00+01:00"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(window(&host, &rule, "acme/ana").await.balance.spent <= LIMIT);
    host.asks_with("acme/bo");
    let (status, _) = host.ask(&asking("What is there?")).await;
    assert_eq!((status, turns(&host)), (200, before + 1), "each child has its own");
}

/// A budget that refuses lands no run, so it keeps nothing back for the answers of open runs.
#[tokio::test]
async fn k11_only_a_budget_that_lands_keeps_something_back() {
    for (on_exhausted, keeps) in [(OnExhausted::Land, true), (OnExhausted::Refuse, false)] {
        let rule = budget("acme", false, on_exhausted);
        let host = Host::new(policy(), calling(1)).with_budget(rule.clone(), "acme/ana");
        let (status, answer) = host.ask(&asking("What is in the notes?")).await;
        assert_eq!(status, 200, "{answer}");
        let kept = window(&host, &rule, "acme").await.kept;
        assert_eq!(kept != Amount::default(), keeps, "{on_exhausted:?}: {kept:?}");
    }
}

/// New names of runs and sessions with each request are no way past a budget.
#[tokio::test]
async fn k12_no_name_is_a_way_past_a_budget() {
    let rule = budget("acme", false, OnExhausted::Land);
    let replies = (0..100).map(|_| Reply::Whole(text())).collect();
    let mut host = Host::new(policy(), replies).with_budget(rule.clone(), "acme/ana");
    for n in 0..80 {
        host.asks_with(if n % 2 == 0 { "acme/ana" } else { "acme/bo" });
        let (run, session) = (format!("run {n}"), format!("key:8:acme/bo:{n}"));
        let headers = [("x-softland-run", &*run), ("x-softland-session", &*session)];
        let (status, _) = read_json(host.send(&asking(&format!("{n}")), &headers).await).await;
        assert_eq!(status, 200);
    }
    let now = window(&host, &rule, "acme").await.balance;
    assert!(now.spent <= LIMIT && now.spent > NanoUsd(LIMIT.0 / 2), "{now:?}");
    assert_eq!(now.spent, NanoUsd(turns(&host) as u64 * (1_000 * 3_000 + 50 * 15_000)));
}

/// A run that is landing for another limit keeps its reason when its request gets no money.
#[tokio::test]
async fn k64_the_first_limit_of_a_run_remains_its_reason() {
    let rule = budget("acme", false, OnExhausted::Land);
    let policy = Policy { tool_calls_limit: Some(1), ..policy() };
    let host = Host::new(policy, calling(1)).with_budget(rule, "acme/ana");
    let mut body = asking("What is in the notes?");
    host.ask(&body).await;
    add_round(&mut body, 1);
    // More than the budget has room for.
    body["messages"][2]["content"][0]["content"] = json!("a note ".repeat(40_000));
    let before = turns(&host);
    let response = host.send(&body, &[]).await;
    let header = |name: &str| response.headers()[name].to_str().expect("a text").to_owned();
    assert_eq!(
        (header("x-softland-outcome"), header("x-softland-reason")),
        ("stopped".to_owned(), "tool_calls".to_owned())
    );
    assert_eq!(header("x-softland-limit"), "tool_calls_limit 1");
    let (status, answer) = read_json(response).await;
    assert_eq!((status, turns(&host)), (200, before), "{answer}");
    assert!(
        answer["content"][0]["text"]
            .as_str()
            .is_some_and(|said| said.contains("tool_calls_limit: 1 of 1")),
        "{answer}"
    );
}

/// Where the limit is an account's, nothing is said of a limit of the run or of money.
#[tokio::test]
async fn what_a_budget_has_no_room_for_is_told_as_its_own() {
    let rule = BudgetRule {
        limit: None,
        tokens_limit: Some(50),
        ..budget("acme", false, OnExhausted::Land)
    };
    let host = Host::new(policy(), calling(1)).with_budget(rule, "acme/ana");
    let (status, answer) = host.ask(&asking("What is in the notes?")).await;
    let said = answer["content"][0]["text"].as_str().expect("a text");
    assert_eq!((status, turns(&host)), (200, 0), "{answer}");
    for part in ["did not fit into the account's limit (budget: 0 of ", "0 tool calls in 0 turns."]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let mut unpriced = asking("And what else?");
    unpriced["model"] = json!("a-model-without-a-price");
    let (status, error) = host.ask(&unpriced).await;
    let told = error["error"]["message"].as_str().expect("a message");
    assert!(status == 400 && told.contains("so the budget of its account cannot be"), "{told}");
}
