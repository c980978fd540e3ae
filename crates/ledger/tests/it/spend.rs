//! What accounts have spent, as the ledger says it.

use softland_core::NanoUsd;
use softland_ledger::{AccountSpend, Payer, Record};

use crate::support::*;

const HOUR: u64 = 3_600_000;

/// A request of an account that arrives so many hours after [`NOW`].
fn asked(account: &str, hours: u64, sent: bool) -> Record {
    let Record::Request(request) = request(None, 0) else { unreachable!() };
    let payer = Payer { key: Some("k".into()), account: Some(account.into()) };
    let id = format!("{account} {hours}");
    let request = softland_ledger::Request { at: NOW + hours * HOUR, payer, id, ..request };
    if sent { Record::Sent(request) } else { Record::Request(request) }
}

/// So many of those requests, from a moment on.
fn spend(since: u64, requests: u64) -> AccountSpend {
    let (cost, tokens) = (NanoUsd(1_500_001 * requests), 3070 * requests);
    AccountSpend { since, cost, tokens }
}

/// An account has what those below it have, by whole parts of the path.
#[test]
fn accounts_are_summed_with_those_below() {
    let place = Place::new();
    let accounts = ["acme", "acme/a", "acme/a/b", "acme/ab", "acmes", "acme-x", "x/acme"];
    place.write(accounts.map(|account| asked(account, 1, false)).into());
    let reader = place.reader();
    for (account, requests) in [("acme", 4), ("acme/a", 2), ("acme/a/b", 1), ("acm", 0), ("x", 1)] {
        let summed = reader.sum_account(account, NOW).unwrap();
        assert_eq!(summed, spend(NOW, requests), "{account}");
    }
    let after = NOW + HOUR + 1;
    assert_eq!(reader.sum_account("acme", after).unwrap(), spend(after, 0));
}

/// A request that was sent and has not ended counts with the most that it can cost.
#[test]
fn open_requests_are_summed() {
    let place = Place::new();
    let ledger = place.open();
    ledger.record(asked("acme/a", 1, true));
    ledger.record(asked("acme", 2, false));
    ledger.drain(LONG).unwrap();
    let summed = place.reader().sum_account("acme", NOW).unwrap();
    assert_eq!(summed.cost, spend(NOW, 2).cost);
    // What a process of before has read from its cache is not known of an open request.
    assert_eq!(summed.tokens, 3070 + 30);
}

/// Each span begins with the first request after the one before it.
#[test]
fn a_span_begins_with_a_request() {
    let place = Place::new();
    place.write([0, 1, 4, 6, 9].map(|hour| asked("acme", hour, false)).into());
    let at = |hours: u64| {
        let reader = place.reader();
        reader.sum_account_span("acme", NOW, 5 * HOUR, NOW + hours * HOUR).unwrap()
    };
    // The spans are from 0 to 5 and from 6 to 11.
    assert_eq!(at(10), Some(spend(NOW + 6 * HOUR, 2)));
    assert_eq!(at(11), None);
    let reader = place.reader();
    let other = reader.sum_account_span("acme", NOW, 4 * HOUR, NOW + 10 * HOUR).unwrap();
    assert_eq!(other, Some(spend(NOW + 9 * HOUR, 1)), "from 0, 4 and 9 on");
    assert_eq!(reader.sum_account_span("x", NOW, HOUR, NOW).unwrap(), None);
}
