use super::*;
use std::time::Duration;

fn visit(state: &mut State, now: Instant, account: &str) -> Result<(), Refusal> {
    let claims = vec![Claim { account: account.to_owned(), limit: Some(NanoUsd(100)) }];
    let ask = Ask::exactly(NanoUsd(10));
    let ticket = state.enter(now, claims, ask, Patience::NONE, Arc::new(Notify::new()))?;
    assert!(matches!(state.look(now, ticket), Look::Granted(NanoUsd(10))));
    Ok(())
}

fn settle(state: &mut State, now: Instant, account: &str) {
    state.settle(now, &[account.to_owned()], NanoUsd(10), NanoUsd(7));
}

/// 100,000 accounts stay; one more, and those idle for two days go, others not.
#[tokio::test(start_paused = true)]
async fn idle_accounts_are_forgotten_when_there_are_many() {
    let mut state = State::new(MOST);
    let began = now();
    let hours = |hours: u64| began + Duration::from_secs(hours * 3600);
    visit(&mut state, began, "held").unwrap();
    for number in 0..99_999 {
        let account = format!("account:{number}");
        visit(&mut state, began, &account).unwrap();
        settle(&mut state, began, &account);
    }
    visit(&mut state, hours(20), "account:5").unwrap();
    settle(&mut state, hours(20), "account:5");
    assert_eq!(state.len(), 100_000);
    visit(&mut state, hours(47), "young").unwrap();
    assert_eq!(state.len(), 100_001, "nobody is idle yet");
    visit(&mut state, hours(49), "new").unwrap();
    assert_eq!(state.len(), 4);
    assert_eq!(state.balance("account:5").spent, NanoUsd(14));
    assert_eq!(state.balance("held").reserved, NanoUsd(10));
    assert_eq!(state.balance("account:6"), Balance::default());
}

/// Accounts in use are never forgotten: there the bound refuses.
#[tokio::test(start_paused = true)]
async fn more_accounts_than_can_be_kept_are_refused() {
    let mut state = State::new(1_000);
    for number in 0..1_000 {
        visit(&mut state, now(), &number.to_string()).unwrap();
    }
    let refused = visit(&mut state, now(), "one more").unwrap_err();
    assert_eq!(refused, Refusal::Full { most: 1_000 });
    assert_eq!(refused.to_string(), "more than 1000 accounts of money are in use");
    visit(&mut state, now(), "5").unwrap();
}

/// Those that nobody can name again are bounded by themselves; others lose nothing by them.
#[tokio::test(start_paused = true)]
async fn accounts_of_conversations_without_a_name_make_room_for_newer_ones() {
    let mut state = State::new(MOST);
    visit(&mut state, now(), "run:content:held").unwrap();
    visit(&mut state, now(), "session:named").unwrap();
    settle(&mut state, now(), "session:named");
    for number in 0..30_000 {
        tokio::time::advance(Duration::from_millis(1)).await;
        let account = format!("session:content:{number}");
        visit(&mut state, now(), &account).unwrap();
        settle(&mut state, now(), &account);
        assert!(state.len() <= 10_002, "{}", state.len());
    }
    assert!(state.len() > 8_192);
    assert_eq!(state.balance("run:content:held").reserved, NanoUsd(10));
    assert_eq!(state.balance("session:named").spent, NanoUsd(7));
    for newest in 30_000 - 8_192..30_000 {
        assert_eq!(state.balance(&format!("session:content:{newest}")).spent, NanoUsd(7));
    }
    assert_eq!(state.balance("session:content:1"), Balance::default());
}
