//! What accounts have spent, as the ledger says it.

use softland_core::NanoUsd;
use softland_ledger::{AccountSpend, DeleteTarget, Payer, Query, Record, delete_runs};

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

/// A key's runs go with their contents, their open requests and their requests without a run, and
/// nobody else's do.
#[test]
fn what_a_key_has_asked_is_deleted() {
    let place = Place::new();
    let ledger = place.open();
    for (run, key, session) in
        [("a1", "ana", "s1"), ("a2", "ana", "s2"), ("b1", "bo", "s1"), ("n1", "", "s1")]
    {
        let payer = Payer { key: Some(key.into()).filter(|_| !key.is_empty()), account: None };
        let Record::RunStart(begun) = start(run) else { unreachable!() };
        let session = Some(session.into());
        let begun = softland_ledger::RunStart {
            payer: payer.clone(),
            session: session.clone().unwrap(),
            ..begun
        };
        ledger.record(Record::RunStart(begun));
        for run in [Some(run), None] {
            let Record::Request(asked) = request(run, 1) else { unreachable!() };
            let (payer, session) = (payer.clone(), session.clone());
            ledger.record(Record::Request(softland_ledger::Request { payer, session, ..asked }));
        }
    }
    ledger.record(asked("acme", 1, true));
    ledger.drain(LONG).unwrap();
    let left = || {
        let reader = place.reader();
        let runs = reader.list_runs(&Query::default()).unwrap().into_iter().map(|run| run.run);
        let mut runs: Vec<String> = runs.collect();
        runs.sort();
        (runs, reader.sum_unassigned(&Query::default()).unwrap().requests)
    };
    let delete = |session, key| delete_runs(place.db(), DeleteTarget::Of { session, key }).unwrap();
    assert_eq!(delete(None, None), 0);
    assert_eq!(delete(Some("s2"), Some("bo")), 0);
    assert_eq!(delete(Some("s1"), Some("ana")), 1);
    assert_eq!(left(), (["a2", "b1", "n1"].map(str::to_owned).into(), 3));
    assert_eq!(delete(None, Some("ana")), 1);
    assert_eq!(left(), (["b1", "n1"].map(str::to_owned).into(), 2));
    let reader = place.reader();
    assert_eq!(reader.sum_account("acme", 0).unwrap().tokens, 30, "another key's, under way");
    assert_eq!(delete(None, Some("k")), 0);
    assert_eq!(reader.sum_account("acme", 0).unwrap().tokens, 0);
    assert_eq!(delete(Some("s1"), None), 2);
    assert_eq!(left(), (Vec::new(), 0));
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
