//! Limits of money.

use softland_govern::money::accounts::Balance;
use softland_session::core::NanoUsd;
use softland_session::core::policy::Policy;

use crate::support::{Host, Reply, question, read_balance, read_json, text};

fn limited(nano: u64) -> Policy {
    Policy { cost_limit_usd: Some(NanoUsd(nano)), ..Policy::default() }
}

async fn balance(host: &Host) -> Balance {
    read_balance(&*host.services.state, "run:given:r").await
}

#[tokio::test]
async fn what_the_money_does_not_pay_for_is_not_sent() {
    let host = Host::new(limited(1_000), vec![Reply::Whole(text())]);
    let response = host.send(&question(), &[("x-softland-run", "r")]).await;
    let interventions = response.headers().get("x-softland-interventions").cloned();
    let (status, answer) = read_json(response).await;
    assert_eq!(status, 200, "a limit is no error: {answer}");
    let said = answer["content"][0]["text"].as_str().unwrap_or_default();
    assert!(said.contains("not the model's"), "{answer}");
    assert!(interventions.is_some());
    let turns = host
        .script
        .sent
        .lock()
        .map(|sent| sent.iter().filter(|body| !body["max_tokens"].is_null()).count());
    assert_eq!(turns.ok(), Some(0), "at most its tokens are counted");
    assert_eq!(balance(&host).await, Balance::default());
}

#[tokio::test]
async fn what_was_used_is_booked() {
    let host = Host::new(limited(5_000_000_000), vec![Reply::Whole(text())]);
    let (status, _) = read_json(host.send(&question(), &[("x-softland-run", "r")]).await).await;
    assert_eq!(status, 200);
    // 1,000 tokens at $3 and 50 at $15 a million.
    let spent = NanoUsd(1_000 * 3_000 + 50 * 15_000);
    assert_eq!(balance(&host).await, Balance { spent, ..balance(&host).await });
}
